"""What verified rows say of α, of β, and of the posteriors that they had.

Intervals do not rest on a model. The strata and how many rows are drawn from each may, which
decides how wide an interval is; whether it covers depends on the random draw within strata alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError, option
from ..notices import Notice
from ..numerics import FloatArray, IntArray, mid_ranks
from ..prior.auto import DRAWS, GOLDEN, Belief, believe
from ..prior.base import Estimate, Interval, Settings
from ..prior.document import MISCALIBRATED, AuditResult, Stratum
from ..prior.estimation import Estimation
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
        return (0.0 if none else float(low[0])), (1.0 if all_of_them else float(high[0]))

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


# ---- The verdicts


class Verdict(NamedTuple):
    """One row of AUDIT."""

    place: str  # in the file, for messages
    row: int | None  # in SCORES from 0, if the file has it
    id: str
    labeled: bool
    stratum: int  # from 0
    weight: float
    posterior: float
    positive: bool | None  # None if unsure


@dataclass(frozen=True, eq=False)
class Audit:
    """Rows drawn from both sets, as far as they have been verified."""

    drawn: tuple[Verdict, ...]
    rows: IntArray  # (drawn,): the place of each in SCORES
    counts: tuple[Verified | None, Verified | None]  # of unlabeled and labeled rows drawn

    @property
    def verdicts(self) -> list[Verdict]:
        """The rows that have a verdict, in an order that is the same for any order of the file."""
        verified = (verdict for verdict in self.drawn if verdict.positive is not None)
        return sorted(verified, key=lambda v: (v.labeled, v.stratum, v.posterior, v.positive))

    @property
    def verified(self) -> tuple[Verified | None, Verified | None]:
        """The counts of the sets in which some row has a verdict."""
        unlabeled, labeled = (c if c is not None and c.checked.any() else None for c in self.counts)
        return unlabeled, labeled


def audit_result(audit: Audit, seed: int) -> AuditResult:
    """The audit as PRIOR.json has it."""
    strata = []
    for labeled, verified in enumerate(audit.verified):
        if verified is None:
            continue
        verdicts = [verdict for verdict in audit.verdicts if verdict.labeled == bool(labeled)]
        expected = np.bincount(
            [verdict.stratum for verdict in verdicts],
            [verdict.posterior for verdict in verdicts],
            len(verified.rows),
        )
        strata += [
            Stratum(
                set="labeled" if labeled else "unlabeled",
                stratum=i + 1,
                rows=int(verified.rows[i]),
                verdicts=int(verified.checked[i]),
                positive=int(verified.positive[i]),
                expected=round(float(expected[i]), 6),
            )
            for i in range(len(verified.rows))
        ]
    return AuditResult(calibration_p=_calibration_p(audit.verdicts, seed), strata=tuple(strata))


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
    """
    unlabeled, labeled = audit.verified
    settings = estimation.settings
    if unlabeled is None and labeled is None:
        raise InputError(f"{audit.drawn[0].place}: neither this nor another row has a verdict")
    if labeled is not None and settings.beta is not None:
        raise UsageError(f"{option('beta')} fixes beta: leave it out if labeled rows were verified")
    if estimation.sketch.labeled_class == "negative":  # α and β are of that class here
        unlabeled, labeled = (
            counts and replace(counts, positive=counts.checked - counts.positive)
            for counts in (unlabeled, labeled)
        )
    answer = _estimate(unlabeled, labeled, estimation)
    result = audit_result(audit, settings.seed)
    notices = _miscalibration(audit.verdicts, result.calibration_p)
    return replace(
        estimation,
        estimates={**estimation.estimates, METHOD: replace(answer, notices=notices)},
        method=METHOD,
        audit=result,
        n_verdicts=len(audit.verdicts),
    )


def _estimate(
    unlabeled: Verified | None, labeled: Verified | None, estimation: Estimation
) -> Estimate:
    by_scores = estimation.estimates[estimation.method]
    alpha_ci, beta_ci = by_scores.alpha_ci, by_scores.beta_ci
    if unlabeled is not None and labeled is not None:
        spread = (0.5 + GOLDEN * np.arange(DRAWS)) % 1
        pairs = np.column_stack([unlabeled.draws(DRAWS), labeled.quantiles(spread)])
        alpha, beta = unlabeled.estimate(), labeled.estimate()
    else:
        belief = _condition(unlabeled, labeled, estimation.sketch, estimation.settings)
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
    return Estimate(
        alpha=alpha,
        beta=beta,
        alpha_plus=min(alpha / beta, 1.0) if beta > 0 else None,
        beta_plus=min((1 - beta) / (1 - alpha), 1.0) if alpha < 1 else None,
        alpha_ci=alpha_ci,
        beta_ci=beta_ci,
        alpha_ci_sampling=alpha_ci if unlabeled is not None else by_scores.alpha_ci_sampling,
        assumed=by_scores.assumed if unlabeled is None else None,
        draws=tuple((float(a), float(max(a, b))) for a, b in pairs),
    )


def _condition(
    unlabeled: Verified | None, labeled: Verified | None, sketch: Sketch, settings: Settings
) -> Belief:
    """The belief in which α, or else β, is distributed as the verdicts say."""
    if unlabeled is not None:
        settings = replace(settings, purity=0.0, alpha_between=None)
        belief, _, _ = believe(sketch, settings)
        mass = _nearest(belief.alpha, unlabeled.draws(DRAWS))[:, None]
        return replace(belief, mass=_normalize(belief.mass, 1) * mass)
    assert labeled is not None
    belief, _, _ = believe(sketch, replace(settings, beta_between=None))
    mass = _nearest(belief.beta, labeled.draws(DRAWS))
    return replace(belief, mass=_normalize(belief.mass, 0) * mass)


def _nearest(nodes: FloatArray, values: FloatArray) -> FloatArray:
    """The fraction of the values that are nearest to each node, shape (nodes,)."""
    nearest = np.searchsorted((nodes[1:] + nodes[:-1]) / 2, values)
    return np.bincount(nearest, minlength=len(nodes)) / len(values)


def _normalize(mass: FloatArray, axis: int) -> FloatArray:
    """Masses that sum to 1 along an axis, even where all are 0."""
    least = np.finfo(np.float64).tiny * 1e20
    return np.asarray((mass + least) / (mass + least).sum(axis, keepdims=True))
