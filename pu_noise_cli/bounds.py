"""One-sided 95 % bounds on the posterior and the likelihood ratio at a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .calibration import (
    LOGITS,
    SMALLEST,
    Calibration,
    calibrate,
    chain,
    posterior_at,
    replicates,
    scale_of,
)
from .grouped import GroupCopies, widening
from .sketch import LABELED, NEGATIVE, UNLABELED, FloatArray

ONE_SIDED = 0.95  # how often each of the two bounds is to hold
CREDIBLE = 0.93  # such bounds on a monotone function hold more often than they are believed to
MIXED = 40  # of the likely pairs of α and β, which the bounds allow for
AT_ONCE = 10  # of them, to bound the memory
FEW = 3.0  # rows: where so many are expected, there is none in one case of twenty

Pair = tuple[FloatArray, FloatArray]  # a bound from below and one from above, shapes (cells,)


@dataclass(frozen=True, eq=False)
class Bounds:
    """What the likelihood ratio and the posterior of each cell are at least, and at most."""

    lr: Pair
    own: Pair  # on the posterior in the population of the unlabeled rows

    def posterior(self, target_alpha: float | None = None) -> Pair:
        """On the posterior in the own population, or in one with a share of positives."""
        if target_alpha is None:
            return self.own
        low, high = self.lr
        return posterior_at(low, target_alpha), posterior_at(high, target_alpha)

    def widened(self, calibration: Calibration, factor: FloatArray) -> Bounds:
        """Bounds whose distance from the estimates is so many times as large, on log-odds.

        One that is infinitely far from an estimate of 0 or 1 stays where it is.
        """

        def pair(estimate: FloatArray, bounds: Pair) -> Pair:
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                times = [np.where(bound == estimate, 1, bound / estimate) for bound in bounds]
                wider = [estimate * by**factor for by in times]
            low, high = (np.where(np.isnan(w), b, w) for w, b in zip(wider, bounds, strict=True))
            return _around(estimate, (low, high))

        low, high = pair(_odds(calibration.posterior), (_odds(self.own[0]), _odds(self.own[1])))
        own = posterior_at(low, 0.5), posterior_at(high, 0.5)  # odds are ratios at even odds
        return Bounds(pair(calibration.lr, self.lr), own)

    def turned(self) -> Bounds:
        """Bounds for the class of labeled negatives, by how low rows score, turned round."""
        with np.errstate(divide="ignore"):
            low, high = (1 / bound[::-1] for bound in self.lr)
        own_low, own_high = (1 - bound[::-1] for bound in self.own)
        return Bounds((high, low), (own_high, own_low))


def bounds(
    calibration: Calibration, calibrator: str, seed: int, groups: GroupCopies | None = None
) -> Bounds:
    """The bounds, which allow for the counts being a sample and for what α and β may be.

    The isotonic calibrator is a mean over all non-decreasing posteriors; the bounds are quantiles
    over the same. Those of bootstrap samples, which is what other calibrators have, come out too
    narrow where it is smooth: every copy leans on the same expectations. Where rows come in groups,
    bounds are as much wider as bootstrap samples of groups differ more than those of rows.
    """
    found = _of_rows(calibration, calibrator, seed)
    if groups is None or not calibration.shares.tell:
        return found
    return found.widened(calibration, widening(calibration, groups, seed))


def _of_rows(calibration: Calibration, calibrator: str, seed: int) -> Bounds:
    """The bounds if rows are independent of each other."""
    if calibration.shares.labeled_negatives:
        shares = calibration.shares.of_labeled_class()
        mirrored = calibrate(calibration.sketch.mirrored(), shares, calibrator)
        return _of_rows(mirrored, calibrator, seed).turned()
    if not calibration.shares.tell:
        lr, p = calibration.lr, calibration.posterior
        return Bounds((lr, lr), (p, p))
    if calibrator == "isotonic":
        found = _credible(calibration)
    else:
        found = _bootstrapped(calibration, replicates(calibration, calibrator, seed))
    held = Bounds(_around(calibration.lr, found.lr), _around(calibration.posterior, found.own))
    return _opened(calibration, held)


def _around(estimate: FloatArray, pair: Pair) -> Pair:
    """Bounds that never fall as the score rises, and that hold the estimate."""
    low, high = map(np.maximum.accumulate, pair)
    return np.minimum(low, estimate), np.maximum(high, estimate)


def _opened(calibration: Calibration, held: Bounds) -> Bounds:
    """The same bounds, 0 and 1 where the rows beyond a score are too few to rule that out.

    A posterior is at most as high at all lower scores. If at the bound fewer than FEW of the rows
    there would be positive, none of them may be, unless one is so for sure.
    """
    counts, beta = calibration.sketch.counts, calibration.shares.beta
    below = np.cumsum(counts, axis=0)
    above = below[-1] - below + counts
    (low, high), (own_low, own_high) = held.lr, held.own
    of_labeled = posterior_at(low, beta) if beta < 1 - SMALLEST else FEW
    positives = below[:, UNLABELED] * own_low + below[:, LABELED] * of_labeled
    negatives = above[:, UNLABELED] * (1 - own_high) + above[:, NEGATIVE] * FEW
    negatives += above[:, LABELED] * (1 - posterior_at(high, beta))
    no_positive, no_negative = positives < FEW, negatives < FEW
    return Bounds(
        (np.where(no_positive, 0, low), np.where(no_negative, np.inf, high)),
        (np.where(no_positive, 0, own_low), np.where(no_negative, 1, own_high)),
    )


@dataclass(frozen=True, eq=False)
class _Belief:
    """How probable each posterior is in each bin, given α and β."""

    chance: FloatArray  # (bins, levels), of LOGITS
    own: float  # what to add to LOGITS for the posterior's log-odds ...
    lr: float  # ... and for the logarithm of the likelihood ratio


def _credible(calibration: Calibration) -> Bounds:
    """Quantiles over all non-decreasing posteriors and over what α and β may be."""
    sketch, shares, rows = calibration.sketch, calibration.shares, calibration.population
    several = [one for one in shares.spread(MIXED if shares.draws else 1) if one.tell]
    several = several or [replace(shares, draws=())]
    beliefs: list[_Belief] = []
    for first in range(0, len(several), AT_ONCE):
        some = several[first : first + AT_ONCE]
        paths = chain(sketch, some)
        for i, (one, scaled) in enumerate(zip(some, paths.expected(), strict=True)):
            scale = scale_of(rows, one.alpha, scaled) if one.of_these_rows else 1.0
            own, prior_odds = float(np.log(scale)), one.alpha / (1 - one.alpha)
            beliefs.append(_Belief(paths.chance[:, i], own, own - float(np.log(prior_odds))))
    low, high = map(paths.by_cell, _quantiles(beliefs, [belief.lr for belief in beliefs]))
    own_low, own_high = map(paths.by_cell, _quantiles(beliefs, [one.own for one in beliefs]))
    return Bounds((np.exp(low), np.exp(high)), (_share(own_low), _share(own_high)))


def _quantiles(beliefs: Sequence[_Belief], shifts: Sequence[float]) -> Pair:
    """The quantiles of equally weighted beliefs, each about LOGITS with a shift; shapes (bins,)."""
    grid = np.arange(LOGITS[0] + min(shifts), LOGITS[-1] + max(shifts) + 1e-9, np.diff(LOGITS)[0])
    below = np.zeros((len(beliefs[0].chance), len(grid)))
    for belief, shift in zip(beliefs, shifts, strict=True):
        cumulated = np.cumsum(belief.chance, axis=1) - belief.chance / 2
        for row, mine in zip(below, cumulated, strict=True):
            row += np.interp(grid, LOGITS + shift, mine, left=0, right=1) / len(beliefs)
    found = [[np.interp(q, row, grid) for row in below] for q in (1 - CREDIBLE, CREDIBLE)]
    return np.array(found[0]), np.array(found[1])


def _odds(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return p / (1 - p)


def _share(logit: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-logit)))


def _bootstrapped(calibration: Calibration, copies: Sequence[Calibration]) -> Bounds:
    """Quantiles over bootstrap samples of the rows, each with another of the likely α and β."""
    cells = [copy.sketch.cells_of(calibration.sketch.scores) for copy in copies]

    def pair(drawn: list[FloatArray]) -> Pair:
        levels = (1 - ONE_SIDED, ONE_SIDED)
        low, high = np.quantile(drawn, levels, axis=0, method="closest_observation")
        return low, high

    return Bounds(
        pair([copy.lr[at] for copy, at in zip(copies, cells, strict=True)]),
        pair([copy.posterior[at] for copy, at in zip(copies, cells, strict=True)]),
    )
