"""What a few verified rows say of a share: strata, how many rows of each, and the interval.

Nothing here rests on a model: strata may be cut and rows allotted by one, which decides how wide
the interval is, but whether it holds depends on the random draw within the strata alone.

What verified rows say of α, of β, and of the posteriors that they had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..notices import Notice
from ..numerics import FloatArray, IntArray, mid_ranks
from ..prior.auto import DRAWS, believed
from ..prior.base import Estimate, Interval, Settings
from ..prior.belief import GOLDEN, Belief
from ..prior.document import MISCALIBRATED
from ..score.sketch import Sketch

STRATA = 12
GUIDED = 0.7  # of the rows are allotted by the model, the others evenly, lest it be wrong
LEAST = 2  # rows of each stratum
LEVEL = 0.95
POINTS = 4096  # between 0 and 1 at which distributions of shares are kept
LOST = 0.5  # verdicts, of each of several strata that has both kinds, see Verified._quantiles
TINY = 1e-9  # in place of no positives, or of no negatives


@dataclass(frozen=True, eq=False)
class Verified:
    """How many rows each stratum has, were verified, and are positive; all of shape (strata,)."""

    rows: IntArray
    checked: IntArray
    positive: IntArray | FloatArray  # on average, where it is not known yet

    def _quantiles(self, more: float, less: float, levels: FloatArray) -> FloatArray:
        """Quantiles of the share of positives among all rows, of the levels' shape.

        In each stratum the share has the distribution Beta(positives, negatives), with a part of
        the positives and negatives that are to be assumed beyond those seen in all strata. Few
        verdicts vary less among themselves than the rows do, by one part in as many, so that those
        of a stratum with both kinds count for a little less than they are.
        """
        from scipy.special import betainc

        both = (self.positive > 0) & (self.positive < self.checked) & (len(self.rows) > 1)
        counted = np.where(both, 1 - LOST / np.maximum(self.checked, 1), 1.0)
        a = counted * self.positive + more / len(self.rows)
        b = counted * (self.checked - self.positive) + less / len(self.rows)
        # an edited audit may have lost all rows of a small stratum, which then says nothing
        size = np.maximum(self.rows[:, None] / self.rows.sum(), 1e-300)
        ends = np.clip((np.arange(POINTS + 1) - 0.5) / (POINTS - 1) / size, 0, 1)
        cdf = betainc(np.maximum(a, TINY)[:, None], np.maximum(b, TINY)[:, None], ends)
        # sums of the strata: a product of Fourier transforms, with room for all of them
        parts = np.fft.rfft(np.diff(cdf, axis=1), 2 * POINTS, axis=1)
        mass = np.fft.irfft(np.prod(parts, axis=0))[:POINTS].clip(0)
        below = np.append(0.0, np.cumsum(mass) / mass.sum())
        edges = np.clip((np.arange(POINTS + 1) - 0.5) / (POINTS - 1), 0, 1)
        return np.asarray(np.interp(levels, below, edges))

    @property
    def interval(self) -> Interval:
        """A 95 % interval of the share of positives among all rows.

        Clopper and Pearson's limits are quantiles of Beta(k, n - k + 1) and of Beta(k + 1, n - k):
        one negative, or one positive, beyond those seen. In several strata it is one in all of
        them together, a part in each (Tiwari, Clegg and Zou 2006, for rates).
        """
        tail = np.array([(1 - LEVEL) / 2])
        low, high = self._quantiles(0, 1, tail), self._quantiles(1, 0, 1 - tail)
        none, all_of_them = self.positive.sum() == 0, (self.positive == self.checked).all()
        return (0.0 if none else float(low[0])), (1.0 if all_of_them else float(high[0]))

    def draws(self, n: int) -> FloatArray:
        """Equally likely shares in increasing order, shape (n,): between the two extremes."""
        return self.quantiles((np.arange(n) + 0.5) / n)

    def quantiles(self, levels: FloatArray) -> FloatArray:
        """Quantiles of the share, of the levels' shape: half a row more of either kind."""
        return self._quantiles(0.5, 0.5, levels)

    @property
    def estimate(self) -> float:
        """The share of positives among all rows: never 0, for the rows that were not seen."""
        part = 0.5 / len(self.rows)
        share = (self.positive + part) / (self.checked + 2 * part)
        return float(self.rows @ share / self.rows.sum())


def stratify(posterior: FloatArray, rows: IntArray) -> tuple[IntArray, FloatArray]:
    """The stratum of each cell, and the part of the rows to verify that each stratum is due.

    Cells are in order of their posterior; posterior, rows and strata have shape (cells,), the parts
    (strata,). Strata are equal in what they are due: mostly as √(p(1-p)) (Neyman 1934), by which
    the estimate varies least, and partly as their rows.
    """
    doubt = rows * np.sqrt(posterior * (1 - posterior))
    due = rows / rows.sum()
    if doubt.sum() > 0:
        due = GUIDED * doubt / doubt.sum() + (1 - GUIDED) * due
    stratum = np.minimum((mid_ranks(due) * STRATA).astype(int), STRATA - 1)
    seen = stratum[rows > 0]
    stratum = np.searchsorted(np.unique(seen), stratum).clip(0, len(np.unique(seen)) - 1)
    return np.asarray(stratum, np.int64), np.bincount(stratum, due).astype(np.float64)


def allot(total: int, due: FloatArray, rows: IntArray) -> IntArray:
    """How many rows of each stratum to verify, shape (strata,): all that are wanted, if there."""
    total = min(total, int(rows.sum()))
    found = np.minimum(np.maximum(np.floor(total * due), LEAST).astype(int), rows)
    while (gap := total - found.sum()) != 0:
        missing = np.sign(gap) * (total * due - found)
        possible = found < rows if gap > 0 else found > min(LEAST, total // len(rows))
        found[np.argmax(np.where(possible, missing, -np.inf))] += np.sign(gap)
    return np.asarray(found, np.int64)


def width_foreseen(total: int, due: FloatArray, rows: IntArray, share: FloatArray) -> float:
    """The width of the interval after so many verdicts, if the model's shares are right."""
    checked = allot(total, due, rows)
    low, high = Verified(rows, checked, checked * share).interval
    return high - low


METHOD = "verdicts"  # in place of a method, where α or β is that of verified rows
SETS = ("unlabeled", "labeled")
SIMULATED = 2000


class Verdict(NamedTuple):
    """One row of AUDIT."""

    place: str  # in the file, for messages
    row: int | None  # in SCORES from 0, where the file says so
    id: str
    labeled: bool
    stratum: int  # from 0
    weight: float
    posterior: float
    positive: bool | None  # None where nobody knows


@dataclass(frozen=True, eq=False)
class Audit:
    """Verified rows of both samples."""

    verdicts: tuple[Verdict, ...]
    rows: IntArray  # (n,): the place of each in SCORES
    counts: tuple[Verified | None, Verified | None]  # of unlabeled and labeled rows drawn

    @property
    def verified(self) -> tuple[Verified | None, Verified | None]:
        """The counts of the samples of which some row has a verdict."""
        unlabeled, labeled = (c if c is not None and c.checked.any() else None for c in self.counts)
        return unlabeled, labeled

    @property
    def known(self) -> list[Verdict]:
        """The rows that have a verdict."""
        return [verdict for verdict in self.verdicts if verdict.positive is not None]

    def turned(self) -> Audit:
        """The same with negatives in the place of positives."""
        verdicts = [
            verdict._replace(
                posterior=1 - verdict.posterior,
                positive=None if verdict.positive is None else not verdict.positive,
            )
            for verdict in self.verdicts
        ]
        unlabeled, labeled = (
            counts and replace(counts, positive=counts.checked - counts.positive)
            for counts in self.counts
        )
        return Audit(tuple(verdicts), self.rows, (unlabeled, labeled))

    def to_json(self, seed: int) -> dict[str, Any]:
        """The audit as PRIOR.json has it."""
        return {"calibration_p": self.calibration(seed), "strata": self.strata()}

    def strata(self) -> list[dict[str, Any]]:
        """What each stratum has, was found to have, and should have by its posteriors."""
        found = []
        for labeled, verified in enumerate(self.verified):
            if verified is None:
                continue
            mine = [verdict for verdict in self.known if verdict.labeled == bool(labeled)]
            strata = [verdict.stratum for verdict in mine]
            posteriors = [verdict.posterior for verdict in mine]
            expected = np.bincount(strata, posteriors, len(verified.rows))
            counts = np.column_stack([verified.rows, verified.checked, verified.positive])
            found += [
                {
                    "set": SETS[labeled],
                    "stratum": i + 1,
                    **dict(zip(("rows", "verdicts", "positive"), map(int, row), strict=True)),
                    "expected": round(float(expected[i]), 6),
                }
                for i, row in enumerate(counts)
            ]
        return found

    def calibration(self, seed: int) -> float:
        """How likely verdicts that differ as much from the posteriors are if these are right.

        The differences of the strata, squared in units of their variance, against those of
        simulated verdicts.
        """
        known = self.known
        p = np.array([verdict.posterior for verdict in known])
        places = [(verdict.labeled, verdict.stratum) for verdict in known]
        group = np.unique(places, axis=0, return_inverse=True)[1].ravel()
        member = (group == np.arange(group.max() + 1)[:, None]).astype(np.float64)
        variance = member @ (p * (1 - p)) + 1 / 4  # half a row for strata that are quite sure

        def distance(positive: NDArray[np.bool_]) -> FloatArray:
            return np.asarray((((positive - p) @ member.T) ** 2 / variance).sum(-1))

        rng = np.random.default_rng([seed, 5])
        simulated = distance(rng.random((SIMULATED, len(p))) < p)
        seen = distance(np.array([verdict.positive is True for verdict in known]))
        return float((1 + (simulated >= seen - 1e-9).sum()) / (1 + SIMULATED))

    def notices(self, seed: int) -> tuple[Notice, ...]:
        """The warning that the posteriors were wrong, where they were."""
        likely = self.calibration(seed)
        if likely >= MISCALIBRATED:
            return ()
        positive = sum(verdict.positive is True for verdict in self.known)
        expected = sum(verdict.posterior for verdict in self.known)
        return (
            Notice(
                "posteriors-not-calibrated",
                f"{positive} of {len(self.known)} verified rows are positive where the posteriors "
                f"expected {expected:.1f}, or they are elsewhere among the strata: so far apart "
                f"with probability {likely:.2g}",
            ),
        )


# ---- What they say


def informed(by_scores: Estimate, audit: Audit, sketch: Sketch, settings: Settings) -> Estimate:
    """α and β by the verified rows.

    Where nothing was verified of one of them, it is what the scores say of it given the other.
    """
    unlabeled, labeled = audit.verified
    if unlabeled is None and labeled is None:
        raise InputError(f"{audit.verdicts[0].place}: neither this nor another row has a verdict")
    if labeled is not None and settings.beta is not None:
        raise UsageError("--beta holds beta fixed: leave it out where labeled rows were verified")
    alpha_ci, beta_ci = by_scores.alpha_ci, by_scores.beta_ci
    if unlabeled is not None and labeled is not None:
        spread = (0.5 + GOLDEN * np.arange(DRAWS)) % 1
        pairs = np.column_stack([unlabeled.draws(DRAWS), labeled.quantiles(spread)])
        alpha, beta = unlabeled.estimate, labeled.estimate
    else:
        belief = _given_verdicts(unlabeled, labeled, sketch, settings)
        pairs = np.array(belief.draws(DRAWS))
        alpha, beta = float(belief.alphas(np.array([0.5]))[0]), belief.means[1]
        alpha_ci, beta_ci = belief.interval(LEVEL)
    if unlabeled is not None:
        alpha, alpha_ci = unlabeled.estimate, unlabeled.interval
    if labeled is not None:
        beta, beta_ci = labeled.estimate, labeled.interval
    return Estimate(
        alpha=alpha,
        beta=beta,
        alpha_plus=min(alpha / beta, 1.0),
        beta_plus=min((1 - beta) / (1 - alpha), 1.0),
        alpha_ci=alpha_ci,
        beta_ci=beta_ci,
        alpha_ci_sampling=alpha_ci if unlabeled is not None else by_scores.alpha_ci_sampling,
        assumed=by_scores.assumed if unlabeled is None else None,
        draws=tuple((float(a), float(max(a, b))) for a, b in pairs),
    )


def _given_verdicts(
    unlabeled: Verified | None, labeled: Verified | None, sketch: Sketch, settings: Settings
) -> Belief:
    """The belief whose α, or whose β, is that of the verdicts, and the other what it then is."""
    if unlabeled is not None:
        settings = replace(settings, purity=0.0, alpha_between=None)
        belief, _, _ = believed(sketch, settings)
        share = _shares_at(belief.alpha, unlabeled.draws(DRAWS))[:, None]
        return replace(belief, mass=_conditional(belief.mass, 1) * share)
    assert labeled is not None
    belief, _, _ = believed(sketch, replace(settings, beta_between=None))
    share = _shares_at(belief.beta, labeled.draws(DRAWS))
    return replace(belief, mass=_conditional(belief.mass, 0) * share)


def _shares_at(nodes: FloatArray, values: FloatArray) -> FloatArray:
    """The share of values that are nearest to each of the nodes, shape (nodes,)."""
    nearest = np.searchsorted((nodes[1:] + nodes[:-1]) / 2, values)
    return np.bincount(nearest, minlength=len(nodes)) / len(values)


def _conditional(mass: FloatArray, axis: int) -> FloatArray:
    """Masses that sum to 1 along an axis, even where there was none."""
    least = np.finfo(np.float64).tiny * 1e20
    return np.asarray((mass + least) / (mass + least).sum(axis, keepdims=True))
