"""What verified rows say of α, of β, and of the posteriors that they had.

Intervals do not rest on a model. The strata and how many rows are drawn from each may, which
decides how wide an interval is; whether it covers depends on the random draw within strata alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError, option
from ..notices import Notice
from ..numerics import FloatArray, IntArray, mid_ranks
from ..prior.auto import (
    DRAWS,
    GOLDEN,
    Belief,
    Evidence,
    TopVerdicts,
    assumptions,
    believe,
    likely_purities,
    top_cells,
)
from ..prior.base import Estimate, Interval, Settings
from ..prior.document import MISCALIBRATED, AuditResult, Part, Prior, Stratum
from ..prior.estimation import Estimation, labeled_class_on_top
from ..score.sketch import Sketch

STRATA = 12
GUIDED = 0.7  # of the rows are allotted by the posteriors, the others evenly in case these are off
MIN_ROWS = 2  # of each stratum
LEVEL = 0.95
POINTS = 4096  # between 0 and 1 at which distributions of fractions are kept
DISCOUNT = 0.5  # verdicts, off each stratum with both kinds, see Verified._quantiles
TINY = 1e-9  # in place of no positives, or of no negatives

METHOD = "verdicts"  # the method of a prior whose α or β is that of verified rows
SETS = ("unlabeled", "labeled")
PARTS: tuple[Part, ...] = ("unlabeled", "labeled", "top")
SIMULATIONS = 2000


# ---- A stratified sample


@dataclass(frozen=True, eq=False)
class Verified:
    """Rows, verified rows and positives of each stratum, all of shape (strata,)."""

    rows: IntArray
    checked: IntArray
    positive: IntArray | FloatArray  # expected numbers, before the rows are verified

    def interval(self) -> Interval:
        """A 95% interval of the fraction of positives among all rows.

        Clopper and Pearson's limits are quantiles of Beta(k, n - k + 1) and of Beta(k + 1, n - k):
        one negative, or one positive, beyond those seen. With several strata it is one in all of
        them together, a part in each (Tiwari, Clegg and Zou 2006, for rates). Rows are finite: only
        those without a verdict are unknown, and their number of positives is beta-binomial, which
        in one stratum gives the exact hypergeometric limits.
        """
        tail = np.array([(1 - LEVEL) / 2])
        low, high = self._quantiles(0, 1, tail), self._quantiles(1, 0, 1 - tail)
        none, all_of_them = self.positive.sum() == 0, (self.positive == self.checked).all()
        estimate = self.estimate()
        least = 0.0 if none else float(low[0])
        return min(least, estimate), max(1.0 if all_of_them else float(high[0]), estimate)

    def estimate(self) -> float:
        """The fraction of positives among all rows; 0 only if every row was verified."""
        part = 0.5 / len(self.rows)
        fraction = (self.positive + part) / (self.checked + 2 * part)
        return float((self.positive.sum() + self._unknown @ fraction) / self.rows.sum())

    @property
    def _unknown(self) -> IntArray:
        """The rows without a verdict."""
        return np.maximum(self.rows - self.checked, 0)

    def quantiles(self, levels: FloatArray) -> FloatArray:
        """Quantiles of the fraction, between the extremes of the interval: half a row of each."""
        return self._quantiles(0.5, 0.5, levels)

    def draws(self, n: int) -> FloatArray:
        """Equally likely fractions in increasing order, shape (n,)."""
        return self.quantiles((np.arange(n) + 0.5) / n)

    def _quantiles(
        self, more_positives: float, more_negatives: float, levels: FloatArray
    ) -> FloatArray:
        """Quantiles of the fraction of positives among all rows, of the shape of the levels.

        In each stratum the fraction of the rows not seen has the distribution Beta(positives,
        negatives), where the positives and negatives to be added to those seen are spread over the
        strata. Few verdicts vary less among themselves than the rows do, by one part in their
        number, so those of a stratum with both kinds are discounted.
        """
        seen, unknown, total = self.positive.sum(), self._unknown, self.rows.sum()
        if not unknown.any():
            return np.full(np.shape(levels), seen / total)
        both = (self.positive > 0) & (self.positive < self.checked) & (len(self.rows) > 1)
        counted = np.where(both, 1 - DISCOUNT / np.maximum(self.checked, 1), 1.0)
        a = counted * self.positive + more_positives / len(self.rows)
        b = counted * (self.checked - self.positive) + more_negatives / len(self.rows)
        points = min(int(unknown.sum()), POINTS - 1) + 1  # numbers of positives, or ranges of them
        width = unknown.sum() / (points - 1)
        ends = (np.arange(points + 1) - 0.5) * width
        beta = zip(unknown.tolist(), np.maximum(a, TINY), np.maximum(b, TINY), strict=True)
        cdf = np.array([_beta_binomial(ends, *one) for one in beta])
        # the sum over strata: a product of Fourier transforms, with room for all of them
        parts = np.fft.rfft(np.diff(cdf, axis=1), 2 * points, axis=1)
        mass = np.fft.irfft(np.prod(parts, axis=0), 2 * points)[:points].clip(0)
        below = np.append(0.0, np.cumsum(mass) / mass.sum())
        positives = np.interp(levels, below, np.clip(ends, 0, unknown.sum()))
        return np.asarray((seen + (np.rint(positives) if width == 1 else positives)) / total)


def _beta_binomial(most: FloatArray, n: int, a: float, b: float) -> FloatArray:
    """The probability of at most so many positives among n rows, if their rate is Beta(a, b).

    Beyond POINTS rows, a beta distribution of the same mean and variance is close enough.
    """
    from scipy.special import betainc, betaln

    if n >= POINTS:
        certainty = (n - 1) / (n + a + b)
        fraction = np.clip((most + 0.5) / (n + 1), 0, 1)
        return np.asarray(betainc(certainty * a, certainty * b, fraction))
    positive = np.arange(n + 1)
    ways = -np.log1p(n) - betaln(positive + 1, n - positive + 1)
    mass = np.exp(ways + betaln(positive + a, n - positive + b) - betaln(a, b))
    below = np.append(0.0, np.cumsum(mass) / mass.sum())
    return np.asarray(below[np.clip(np.floor(most).astype(np.int64) + 1, 0, n + 1)])


def stratify(posterior: FloatArray, rows: IntArray) -> tuple[IntArray, FloatArray]:
    """Cut cells into strata.

    Each stratum is due an equal part of the rows to verify. A cell is due rows mostly in proportion
    to √(p(1-p)) (Neyman 1934), by which the estimate varies least, and partly to its size.

    Parameters
    ----------
    posterior, rows : shape (cells,)
        In order of the posterior.

    Returns
    -------
    stratum : shape (cells,)
    due : shape (strata,)
        The fraction of the rows to verify.
    """
    doubt = rows * np.sqrt(posterior * (1 - posterior))
    due = rows / rows.sum()
    if doubt.sum() > 0:
        due = GUIDED * doubt / doubt.sum() + (1 - GUIDED) * due
    stratum = np.minimum((mid_ranks(due) * STRATA).astype(int), STRATA - 1)
    filled = np.unique(stratum[rows > 0])
    stratum = np.searchsorted(filled, stratum).clip(0, len(filled) - 1)
    return np.asarray(stratum, np.int64), np.bincount(stratum, due).astype(np.float64)


def allot(total: int, due: FloatArray, rows: IntArray) -> IntArray:
    """The number of rows to verify in each stratum, shape (strata,), as far as there are rows."""
    total = min(total, int(rows.sum()))
    sizes = np.minimum(np.maximum(np.floor(total * due), MIN_ROWS).astype(int), rows)
    while (gap := total - sizes.sum()) != 0:
        missing = np.sign(gap) * (total * due - sizes)
        possible = sizes < rows if gap > 0 else sizes > min(MIN_ROWS, total // len(rows))
        sizes[np.argmax(np.where(possible, missing, -np.inf))] += np.sign(gap)
    return np.asarray(sizes, np.int64)


def expected_width(total: int, due: FloatArray, rows: IntArray, fraction: FloatArray) -> float:
    """The width of the interval after `total` verdicts, if the expected fractions are right.

    `due`, `rows` and `fraction` (of positives) are those of the strata.
    """
    checked = allot(total, due, rows)
    low, high = Verified(rows, checked, checked * fraction).interval()
    return high - low


# ---- The top


def top_of(sketch: Sketch) -> NDArray[np.bool_]:
    """Which cells have rows that score like the top fifth of the labeled rows, shape (cells,).

    They are at the bottom where the labeled rows are negatives.
    """
    if sketch.labeled_class == "negative":
        return top_cells(sketch.mirrored())[::-1]
    return top_cells(sketch)


def expected_top_widths(sketch: Sketch, prior: Prior, totals: Sequence[int]) -> dict[int, float]:
    """The mean width of the interval of α after so many verdicts at the top, by the belief."""
    from scipy.special import gammaln

    sketch = labeled_class_on_top(sketch, prior.labeled_class)
    settings, evidence = _settings(prior), Evidence.from_sketch(sketch)
    before, _, _ = believe(sketch, settings, evidence)
    in_top = int(sketch.unlabeled[top_cells(sketch)].sum())
    widths = dict.fromkeys((min(n, in_top) for n in totals), 0.0)
    for n in widths:
        for k in range(n + 1):
            top = TopVerdicts(k, n)
            ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
            likelihood = np.exp(ways + top.log_likelihood(before, sketch))
            after, _, _ = believe(sketch, settings, evidence, top)
            width = float(np.ptp(after.interval(LEVEL)[0]))
            widths[n] += width * float((before.mass * likelihood).sum())
    return widths


def _settings(prior: Prior) -> Settings:
    """What was stated for a prior, with the labeled class on top."""
    assumed = prior.assumed
    if assumed is None:
        return Settings()
    between = assumed.alpha_between
    if between is not None and prior.labeled_class == "negative":
        between = 1 - between[1], 1 - between[0]
    beta = None if isinstance(assumed.beta, tuple) else assumed.beta
    return Settings(beta, alpha_between=between, beta_between=assumed.beta_between)


# ---- The verdicts


class Verdict(NamedTuple):
    """One row of AUDIT; those at the top are one stratum, apart from the others."""

    place: str  # in the file, for messages
    row: int | None  # in SCORES from 0, if the file has it
    id: str
    labeled: bool
    stratum: int  # from 0
    weight: float
    posterior: float
    positive: bool | None  # None if unsure
    top: bool = False

    @property
    def part(self) -> Part:
        return "top" if self.top else "labeled" if self.labeled else "unlabeled"


@dataclass(frozen=True, eq=False)
class Audit:
    """Rows drawn from both sets, as far as they have been verified."""

    drawn: tuple[Verdict, ...]
    rows: IntArray  # (drawn,): the place of each in SCORES
    # of unlabeled and labeled rows drawn, and of unlabeled rows drawn at the top
    counts: tuple[Verified | None, Verified | None, Verified | None]

    @property
    def verdicts(self) -> list[Verdict]:
        """The rows that have a verdict, in an order that is the same for any order of the file."""
        verified = (verdict for verdict in self.drawn if verdict.positive is not None)
        return sorted(verified, key=lambda v: (v.part, v.stratum, v.posterior, v.positive))

    @property
    def n_verified(self) -> int:
        """How many rows have a verdict; some may have been drawn at the top and elsewhere."""
        known = [verdict.positive is not None for verdict in self.drawn]
        return len(np.unique(self.rows[known]))

    @property
    def verified(self) -> tuple[Verified | None, Verified | None, Verified | None]:
        """The counts of each kind of rows, None where no row has a verdict."""
        unlabeled, labeled, top = (
            counts if counts is not None and counts.checked.any() else None
            for counts in self.counts
        )
        return unlabeled, labeled, top


def audit_result(audit: Audit, probability: float) -> AuditResult:
    """The audit as PRIOR.json has it."""
    strata = []
    for part, verified in zip(PARTS, audit.verified, strict=True):
        if verified is None:
            continue
        verdicts = [verdict for verdict in audit.verdicts if verdict.part == part]
        expected = np.bincount(
            [verdict.stratum for verdict in verdicts],
            [verdict.posterior for verdict in verdicts],
            len(verified.rows),
        )
        strata += [
            Stratum(
                set=part,
                stratum=i + 1,
                rows=int(verified.rows[i]),
                verdicts=int(verified.checked[i]),
                positive=int(verified.positive[i]),
                expected=round(float(expected[i]), 6),
            )
            for i in range(len(verified.rows))
        ]
    return AuditResult(calibration_p=probability, strata=tuple(strata))


def _probability(audit: Audit, top: TopVerdicts | None, estimation: Estimation) -> float:
    """The probability of verdicts at least as far from what the scores suggest."""
    probabilities = []
    if elsewhere := [verdict for verdict in audit.verdicts if not verdict.top]:
        probabilities.append(_calibration_p(elsewhere, estimation.settings.seed))
    if top is not None:
        belief, _, _ = believe(estimation.sketch, estimation.settings)
        probabilities.append(_tail_probability(belief, estimation.sketch, top))
    return min(1.0, len(probabilities) * min(probabilities))


def _tail_probability(belief: Belief, sketch: Sketch, top: TopVerdicts) -> float:
    """The probability of verdicts at the top at least as extreme, if the belief is right."""
    from scipy.special import bdtr

    purity, weight = likely_purities(belief, sketch)
    share = belief.mass[..., None] * weight
    fewer, up_to = (
        float((share * bdtr(k, top.checked, purity)).sum()) if k >= 0 else 0.0
        for k in (top.positive - 1, top.positive)
    )
    return min(1.0, 2 * min(up_to, 1 - fewer))


def _calibration_p(verdicts: list[Verdict], seed: int) -> float:
    """The probability of verdicts at least as far from the posteriors, if these are right.

    The distance is the sum over strata of squared differences in units of their variance; its
    distribution comes from simulated verdicts.
    """
    p = np.array([verdict.posterior for verdict in verdicts])
    places = [(verdict.labeled, verdict.stratum) for verdict in verdicts]
    group = np.unique(places, axis=0, return_inverse=True)[1].ravel()
    member = (group == np.arange(group.max() + 1)[:, None]).astype(np.float64)
    variance = member @ (p * (1 - p)) + 1 / 4  # half a row for strata that are quite sure

    def distance(positive: NDArray[np.bool_]) -> FloatArray:
        return np.asarray((((positive - p) @ member.T) ** 2 / variance).sum(-1))

    rng = np.random.default_rng([seed, 5])
    simulated = distance(rng.random((SIMULATIONS, len(p))) < p)
    seen = distance(np.array([verdict.positive is True for verdict in verdicts]))
    return float((1 + (simulated >= seen - 1e-9).sum()) / (1 + SIMULATIONS))


def _miscalibration(verdicts: list[Verdict], probability: float) -> tuple[Notice, ...]:
    """The warning that the posteriors were wrong, if they were."""
    if probability >= MISCALIBRATED:
        return ()
    positive = sum(verdict.positive is True for verdict in verdicts)
    expected = sum(verdict.posterior for verdict in verdicts)
    message = (
        f"{positive} of {len(verdicts)} verified rows are positive, in total or by stratum far "
        f"from the {expected:.1f} that the posteriors expect (probability {probability:.2g})"
    )
    return (Notice("posteriors-not-calibrated", message),)


# ---- What they say of α and β


def revise(estimation: Estimation, audit: Audit) -> Estimation:
    """Answer with α and β by the verified rows.

    If no row of one set was verified, its fraction is estimated from the scores, given the other.
    Verdicts at the top sharpen what the scores say.
    """
    settings, sketch = estimation.settings, estimation.sketch
    unlabeled, labeled, at_top = audit.verified
    if not any(audit.verified):
        raise InputError(f"{audit.drawn[0].place}: no row has a verdict")
    if sketch.labeled_class == "negative":  # α and β are of that class here
        unlabeled, labeled, at_top = (
            counts and replace(counts, positive=counts.checked - counts.positive)
            for counts in audit.verified
        )
    if labeled is not None and settings.beta is not None:
        raise UsageError(f"{option('beta')} fixes beta: leave it out if labeled rows were verified")
    top = None
    if at_top is not None:
        top = TopVerdicts(int(at_top.positive.sum()), int(at_top.checked.sum()))
    if top is not None and settings.purity is not None:
        raise UsageError(f"{option('purity')}: leave it out if rows at the top were verified")
    answer = _estimate(unlabeled, labeled, top, estimation)
    probability = _probability(audit, top, estimation)
    notices = (*answer.notices, *_miscalibration(audit.verdicts, probability))
    return replace(
        estimation,
        estimates={**estimation.estimates, METHOD: replace(answer, notices=notices)},
        method=METHOD,
        audit=audit_result(audit, probability),
        n_verdicts=audit.n_verified,
    )


def _estimate(
    unlabeled: Verified | None,
    labeled: Verified | None,
    top: TopVerdicts | None,
    estimation: Estimation,
) -> Estimate:
    by_scores, settings = estimation.estimates[estimation.method], estimation.settings
    alpha_ci, beta_ci = by_scores.alpha_ci, by_scores.beta_ci
    notices: list[Notice] = []
    if unlabeled is not None and labeled is not None:
        spread = (0.5 + GOLDEN * np.arange(DRAWS)) % 1
        pairs = np.column_stack([unlabeled.draws(DRAWS), labeled.quantiles(spread)])
        alpha, beta = unlabeled.estimate(), labeled.estimate()
    else:
        belief, notices = _condition(unlabeled, labeled, top, estimation.sketch, settings)
        pairs = np.array(belief.draws(DRAWS))  # nodes are coarser than verdicts
        for column, verified in enumerate((unlabeled, labeled)):
            if verified is not None:
                pairs[:, column] = np.clip(pairs[:, column], *verified.draws(DRAWS)[[0, -1]])
        alpha, beta = float(belief.alphas(np.array([0.5]))[0]), belief.means[1]
        alpha_ci, beta_ci = belief.interval(LEVEL)
    if unlabeled is not None:
        alpha, alpha_ci = unlabeled.estimate(), unlabeled.interval()
    if labeled is not None:
        beta, beta_ci = labeled.estimate(), labeled.interval()
    assumed = by_scores.assumed
    if top is not None:
        assumed = assumptions(settings, 0.0, estimation.sketch.labeled_class, (), top)
    return Estimate(
        alpha=alpha,
        beta=beta,
        alpha_plus=min(alpha / beta, 1.0) if beta > 0 else None,
        beta_plus=min((1 - beta) / (1 - alpha), 1.0) if alpha < 1 else None,
        alpha_ci=alpha_ci,
        beta_ci=beta_ci,
        alpha_ci_sampling=alpha_ci if unlabeled is not None else by_scores.alpha_ci_sampling,
        assumed=assumed if unlabeled is None else None,
        draws=tuple((float(a), float(max(a, b))) for a, b in pairs),
        notices=tuple(notices),
    )


def _condition(
    unlabeled: Verified | None,
    labeled: Verified | None,
    top: TopVerdicts | None,
    sketch: Sketch,
    settings: Settings,
) -> tuple[Belief, list[Notice]]:
    """The belief in which α, or else β, is distributed as the verdicts say, and its warnings."""
    if unlabeled is not None:
        settings = replace(settings, purity=0.0, alpha_between=None)
    elif labeled is not None:
        settings = replace(settings, beta_between=None)
    belief, _, notices = believe(sketch, settings, top=top)
    if unlabeled is not None:
        of_alpha = _nearest(belief.alpha, unlabeled.draws(DRAWS))[:, None]
        belief = replace(belief, mass=_normalize(belief.mass, 1) * of_alpha)
    elif labeled is not None:
        of_beta = _nearest(belief.beta, labeled.draws(DRAWS))
        belief = replace(belief, mass=_normalize(belief.mass, 0) * of_beta)
    return belief, notices


def _nearest(nodes: FloatArray, values: FloatArray) -> FloatArray:
    """The fraction of the values that are nearest to each node, shape (nodes,)."""
    nearest = np.searchsorted((nodes[1:] + nodes[:-1]) / 2, values)
    return np.bincount(nearest, minlength=len(nodes)) / len(values)


def _normalize(mass: FloatArray, axis: int) -> FloatArray:
    """Masses that sum to 1 along an axis, even where all are 0."""
    least = np.finfo(np.float64).tiny * 1e20
    return np.asarray((mass + least) / (mass + least).sum(axis, keepdims=True))
