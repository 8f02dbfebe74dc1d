"""Bootstrap samples of groups of rows, gathered in one pass in bounded memory.

Rows of one group, such as a gene, are alike, so that many of them say less than as many rows of
different groups. In each of COPIES samples a group counts as often as a Poisson variable with mean
1, which follows from its name and the number of the copy alone: chunks and shards need not know of
each other, and their counts add up. Counts are kept on the coarse grid of a small sketch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..notices import Notice
from ..numerics import (
    GOLDEN_RATIO,
    FloatArray,
    HashArray,
    IntArray,
    expit,
    hash_texts,
    mid_ranks,
    odds,
    relative_mid_ranks,
    splitmix64,
)
from ..prior.base import SMALLEST, Shares
from ..scale.engine import Job, RowsDone
from ..score.model import HonestScorer
from ..score.scores import Scores
from ..score.sketch import Sketch
from ..tables.rows import LABELED, NEGATIVE, SETS, UNLABELED, Chunk, Rows, SetArray
from .calibration import (
    LOGITS,
    Calibration,
    calibrate,
    chain,
    posterior_at,
    replicates,
    scale_of,
)

COPIES = 100
ENOUGH = 20  # groups, from which on copies show how much they differ
MAX_CELLS = 512
AT_ONCE = 1 << 12  # rows whose weights are in memory
NEARBY = 0.05  # the share of rows on either side over which variances are averaged
POISSON = np.cumsum(np.exp(-1.0) / np.cumprod([1.0, *range(1, 12)]))  # P(at most 0, 1, ...)


@dataclass(frozen=True, eq=False)
class GroupCopies:
    """The rows by score, as they are and in each copy: a sketch with a column for each of them."""

    wide: Sketch  # of counts of shape (cells, (1 + COPIES) * sets)
    lowest: HashArray  # digests of groups, the lowest of them all: that there are at least so many

    @classmethod
    def of_rows(cls, scores: FloatArray, sets: SetArray, groups: pa.Array) -> GroupCopies:
        """The copies of rows with finite scores; all of shape (n,)."""
        coded = groups.dictionary_encode()
        digests = hash_texts(coded.dictionary.to_pylist())
        weights, group = _weights(digests), np.asarray(coded.indices)
        slices = [slice(first, first + AT_ONCE) for first in range(0, len(scores), AT_ONCE)]
        parts = [_part(scores[rows], sets[rows], weights[group[rows]]) for rows in slices]
        return cls.merge([NO_GROUPS, *(cls(part, digests) for part in parts)])

    @classmethod
    def merge(cls, parts: Iterable[GroupCopies]) -> GroupCopies:
        """The copies of all rows that the given ones were made of."""
        parts = list(parts)
        lowest = np.unique(np.concatenate([part.lowest for part in parts]))[:ENOUGH]
        return cls(Sketch.merge([part.wide for part in parts], MAX_CELLS), lowest)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """A warning where there are too few groups to tell how much they differ."""
        if len(self.lowest) == ENOUGH:
            return ()
        return (Notice("few-groups", f"bounds rest on {len(self.lowest)} groups"),)

    def sketches(self) -> tuple[Sketch, list[Sketch]]:
        """The sketch of the rows, and those of the copies that have rows of every set."""
        counts = self.wide.counts.reshape(len(self.wide.edges), -1, len(SETS))
        every = counts[:, 0].any(axis=0)

        def sketch(copy: IntArray) -> Sketch:
            drawn = copy.any(axis=1)
            return Sketch(self.wide.edges[drawn], copy[drawn], self.wide.level)

        copies = [sketch(counts[:, i]) for i in range(1, counts.shape[1])]
        usable = [copy for copy in copies if (copy.counts.any(axis=0) == every).all()]
        return sketch(counts[:, 0]), usable


def _part(scores: FloatArray, sets: SetArray, weights: IntArray) -> Sketch:
    """The wide sketch of some rows with the weights of their groups, shape (n, 1 + COPIES)."""
    counts = np.zeros((len(scores), weights.shape[1], len(SETS)), np.int64)
    counts[np.arange(len(scores)), :, sets.astype(np.int64)] = weights
    return Sketch.merge([Sketch(scores, counts.reshape(len(scores), -1))], MAX_CELLS)


def _weights(digests: HashArray) -> IntArray:
    """How often each group is in the rows themselves, which is once, and in each copy."""
    states = digests[:, None] + np.arange(1, COPIES + 1, dtype=np.uint64) * GOLDEN_RATIO
    uniform = splitmix64(states) / 2.0**64
    drawn = np.searchsorted(POISSON, uniform, side="right")
    return np.column_stack([np.ones(len(digests), np.int64), drawn])


_NO_ROWS = Sketch(np.empty(0), np.empty((0, (1 + COPIES) * len(SETS)), np.int64))
NO_GROUPS = GroupCopies(_NO_ROWS, np.empty(0, np.uint64))


def widening(calibration: Calibration, copies: GroupCopies, seed: int) -> FloatArray:
    """By how much bounds on the log-odds of each cell are wider than rows alone make them.

    The standard deviation of the log-odds over the copies, over that over samples of rows.
    """
    rows, drawn = copies.sketches()
    rng = np.random.default_rng([seed, 4])
    shares = replace(calibration.shares, of_these_rows=False, draws=())
    by_group = _variance(rows, drawn, shares)
    by_row = _variance(rows, [rows.resample(rng) for _ in drawn], shares)
    return np.sqrt(np.maximum(by_group / by_row, 1))[rows.cell_index(calibration.sketch.scores)]


def _variance(whole: Sketch, drawn: list[Sketch], shares: Shares) -> FloatArray:
    """The variance of the log-odds, each cell's averaged with those of the rows around it."""
    found = [calibrate(copy, shares) for copy in drawn]
    logs = [np.log(one.lr[one.sketch.cell_index(whole.scores)]) for one in found]
    variance, rows = np.var(logs, axis=0), whole.counts.sum(1)
    place = relative_mid_ranks(rows)
    low, high = (np.searchsorted(place, place + side * NEARBY) for side in (-1, 1))
    sums, weights = (np.append(0.0, np.cumsum(v)) for v in (variance * rows, rows))
    return np.asarray((sums[high] - sums[low]) / (weights[high] - weights[low]))


@dataclass(frozen=True)
class GatherGroups:
    """Finds bootstrap samples of the groups of rows: of SCORES, or of tables that it scores."""

    scorer: HonestScorer | None = None

    def __call__(self, job: Job, done: RowsDone, threads: int) -> GroupCopies:
        found = NO_GROUPS
        for chunk, scores in self._scored(job.part, threads):
            groups = job.part.groups(chunk)
            assert groups is not None  # who wants this names the column
            known = np.isfinite(scores)
            mine = (scores[known], chunk.sets[known], groups.filter(pa.array(known)))
            found = GroupCopies.merge([found, GroupCopies.of_rows(*mine)])
            done(len(scores))
        return found

    def _scored(self, rows: Rows, threads: int) -> Iterator[tuple[Chunk, FloatArray]]:
        if self.scorer is not None:
            return self.scorer.score_all(rows, threads)
        return Scores(rows).chunks([*rows.carried, "score"])

    @staticmethod
    def merge(results: Sequence[GroupCopies]) -> GroupCopies:
        return GroupCopies.merge(results)


# ---- Bounds


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

        low, high = pair(odds(calibration.posterior), (odds(self.own[0]), odds(self.own[1])))
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
    return Bounds((np.exp(low), np.exp(high)), (expit(own_low), expit(own_high)))


def _quantiles(beliefs: Sequence[_Belief], shifts: Sequence[float]) -> Pair:
    """The quantiles of equally weighted beliefs, each about LOGITS with a shift; shapes (bins,)."""
    grid = np.arange(LOGITS[0] + min(shifts), LOGITS[-1] + max(shifts) + 1e-9, np.diff(LOGITS)[0])
    below = np.zeros((len(beliefs[0].chance), len(grid)))
    for belief, shift in zip(beliefs, shifts, strict=True):
        for row, mine in zip(below, mid_ranks(belief.chance), strict=True):
            row += np.interp(grid, LOGITS + shift, mine, left=0, right=1) / len(beliefs)
    found = [[np.interp(q, row, grid) for row in below] for q in (1 - CREDIBLE, CREDIBLE)]
    return np.array(found[0]), np.array(found[1])


def _bootstrapped(calibration: Calibration, copies: Sequence[Calibration]) -> Bounds:
    """Quantiles over bootstrap samples of the rows, each with another of the likely α and β."""
    cells = [copy.sketch.cell_index(calibration.sketch.scores) for copy in copies]

    def pair(drawn: list[FloatArray]) -> Pair:
        levels = (1 - ONE_SIDED, ONE_SIDED)
        low, high = np.quantile(drawn, levels, axis=0, method="closest_observation")
        return low, high

    return Bounds(
        pair([copy.lr[at] for copy, at in zip(copies, cells, strict=True)]),
        pair([copy.posterior[at] for copy, at in zip(copies, cells, strict=True)]),
    )
