"""One-sided 95% bounds on the posterior and the likelihood ratio, wider where rows form groups."""

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
    is_informative,
    posterior_at,
    replicates,
    scale_to_mean,
    spread,
)

ONE_SIDED = 0.95  # the coverage of each of the two bounds
CREDIBLE = 0.93  # credible bounds on a monotone function cover more than their level
MIXED = 40  # likely pairs of α and β that the bounds allow for
PAIRS_AT_ONCE = 10  # limits the memory
NONE_EXPECTED = 3.0  # rows: where so many are expected, there is none in one case of twenty

Pair = tuple[FloatArray, FloatArray]  # a lower and an upper bound, shapes (cells,)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on the likelihood ratio of each cell, and on the posterior of its unlabeled rows."""

    lr: Pair
    posterior: Pair

    def at(self, target_alpha: float | None) -> Pair:
        """Bounds on the posterior in a population with another α; None: that of these rows."""
        if target_alpha is None:
            return self.posterior
        low, high = self.lr
        return posterior_at(low, target_alpha), posterior_at(high, target_alpha)


def bounds(calibration: Calibration, seed: int, groups: GroupCopies | None = None) -> Bounds:
    """Bound a calibration, given that counts are samples and that α and β are uncertain.

    A calibration that is the mean over all non-decreasing posteriors is bounded by quantiles over
    the same. For smooth calibrations the bounds are quantiles over bootstrap samples; for the mean
    these would be too narrow, as all samples share the same prior distribution.

    Parameters
    ----------
    calibration : Calibration
    seed : int
        Of the bootstrap.
    groups : GroupCopies, optional
        If rows form groups, bounds are wider by as much as bootstrap samples of groups vary more
        than samples of rows.
    """
    row_bounds = _row_bounds(calibration, seed)
    if groups is None or not calibration.informative:
        return row_bounds
    return widen(row_bounds, calibration, _widening(calibration, groups, seed))


def _row_bounds(calibration: Calibration, seed: int) -> Bounds:
    """The bounds if rows are independent of each other."""
    mirrored = calibration.mirrored
    if mirrored is not None:
        return _exchange_classes(_row_bounds(mirrored, seed))
    if not calibration.informative:
        lr, p = calibration.lr, calibration.posterior
        return Bounds((lr, lr), (p, p))
    quantiles = _bootstrapped(calibration, seed) if calibration.smooth else _credible(calibration)
    lr_bounds = _enclose(calibration.lr, quantiles.lr)
    p_bounds = _enclose(calibration.posterior, quantiles.posterior)
    return _open(calibration, Bounds(lr_bounds, p_bounds))


def _exchange_classes(mirrored: Bounds) -> Bounds:
    """The bounds of labeled negatives, from those of the mirrored sketch."""
    with np.errstate(divide="ignore"):
        low, high = (1 / bound[::-1] for bound in mirrored.lr)
    p_low, p_high = (1 - bound[::-1] for bound in mirrored.posterior)
    return Bounds((high, low), (p_high, p_low))


def _enclose(estimate: FloatArray, pair: Pair) -> Pair:
    """Bounds that do not decrease with the score and that enclose the estimate."""
    low, high = map(np.maximum.accumulate, pair)
    return np.minimum(low, estimate), np.maximum(high, estimate)


def _open(calibration: Calibration, closed: Bounds) -> Bounds:
    """The same bounds, 0 and 1 where the rows beyond a score are too few to exclude that.

    A posterior is at most as high at all lower scores. If at the bound fewer than NONE_EXPECTED of
    the rows there would be positive, none of them may be, unless one is positive for certain.
    """
    counts, beta = calibration.sketch.counts, calibration.shares.beta
    below = np.cumsum(counts, axis=0)
    above = below[-1] - below + counts
    (low, high), (p_low, p_high) = closed.lr, closed.posterior
    labeled_low = posterior_at(low, beta) if beta < 1 - SMALLEST else NONE_EXPECTED
    positives = below[:, UNLABELED] * p_low + below[:, LABELED] * labeled_low
    negatives = above[:, UNLABELED] * (1 - p_high) + above[:, NEGATIVE] * NONE_EXPECTED
    negatives += above[:, LABELED] * (1 - posterior_at(high, beta))
    no_positive, no_negative = positives < NONE_EXPECTED, negatives < NONE_EXPECTED
    return Bounds(
        (np.where(no_positive, 0, low), np.where(no_negative, np.inf, high)),
        (np.where(no_positive, 0, p_low), np.where(no_negative, 1, p_high)),
    )


@dataclass(frozen=True, eq=False)
class _Belief:
    """The distribution of the posterior in each bin, given α and β."""

    chance: FloatArray  # (bins, levels): the probability of each of LOGITS
    to_posterior: float  # what to add to LOGITS for the log-odds of the posterior ...
    to_lr: float  # ... and for the logarithm of the likelihood ratio


def _credible(calibration: Calibration) -> Bounds:
    """Quantiles over all non-decreasing posteriors and over the likely α and β."""
    sketch, shares, rows = calibration.sketch, calibration.shares, calibration.population
    several = list(filter(is_informative, spread(shares, MIXED if shares.draws else 1)))
    several = several or [replace(shares, draws=())]
    beliefs: list[_Belief] = []
    for first in range(0, len(several), PAIRS_AT_ONCE):
        some = several[first : first + PAIRS_AT_ONCE]
        paths = chain(sketch, some)
        for i, (one, scaled) in enumerate(zip(some, paths.expected(), strict=True)):
            scale = scale_to_mean(scaled, rows, one.alpha) if one.from_these_rows else 1.0
            shift, prior_odds = float(np.log(scale)), one.alpha / (1 - one.alpha)
            beliefs.append(_Belief(paths.chance[:, i], shift, shift - float(np.log(prior_odds))))
    low, high = map(paths.by_cell, _quantiles(beliefs, [one.to_lr for one in beliefs]))
    p_low, p_high = map(paths.by_cell, _quantiles(beliefs, [one.to_posterior for one in beliefs]))
    return Bounds((np.exp(low), np.exp(high)), (expit(p_low), expit(p_high)))


def _quantiles(beliefs: Sequence[_Belief], shifts: Sequence[float]) -> Pair:
    """The quantiles of equally weighted beliefs, each on LOGITS plus a shift; shapes (bins,)."""
    grid = np.arange(LOGITS[0] + min(shifts), LOGITS[-1] + max(shifts) + 1e-9, np.diff(LOGITS)[0])
    below = np.zeros((len(beliefs[0].chance), len(grid)))
    for belief, shift in zip(beliefs, shifts, strict=True):
        for row, cumulated in zip(below, mid_ranks(belief.chance), strict=True):
            row += np.interp(grid, LOGITS + shift, cumulated, left=0, right=1) / len(beliefs)
    low, high = ([np.interp(q, row, grid) for row in below] for q in (1 - CREDIBLE, CREDIBLE))
    return np.array(low), np.array(high)


def _bootstrapped(calibration: Calibration, seed: int) -> Bounds:
    """Quantiles over bootstrap samples of the rows, each with another of the likely α and β."""
    copies = replicates(calibration, seed)
    cells = [copy.sketch.cell_index(calibration.sketch.scores) for copy in copies]

    def pair(drawn: list[FloatArray]) -> Pair:
        levels = (1 - ONE_SIDED, ONE_SIDED)
        low, high = np.quantile(drawn, levels, axis=0, method="closest_observation")
        return low, high

    return Bounds(
        pair([copy.lr[at] for copy, at in zip(copies, cells, strict=True)]),
        pair([copy.posterior[at] for copy, at in zip(copies, cells, strict=True)]),
    )


# ---- Groups of similar rows
# Rows of one group, such as a gene, are similar, so that many of them are less informative than as
# many rows of different groups. In each of COPIES bootstrap samples a group has a Poisson(1) weight
# that follows from its name and the number of the copy alone: chunks and shards need not know of
# each other, and their counts add up. Counts are kept on the coarse grid of a small sketch.

COPIES = 100
MIN_GROUPS = 20  # to estimate how much they differ
MAX_CELLS = 512
ROWS_AT_ONCE = 1 << 12  # whose weights are in memory
NEARBY = 0.05  # the fraction of rows on either side over which variances are averaged
POISSON = np.cumsum(np.exp(-1.0) / np.cumprod([1.0, *range(1, 12)]))  # P(at most 0, 1, ...)


@dataclass(frozen=True, eq=False)
class GroupCopies:
    """The rows by score, as they are and in each bootstrap sample of groups."""

    wide: Sketch  # with counts of shape (cells, (1 + COPIES) * sets)
    lowest_hashes: HashArray  # of groups, at most MIN_GROUPS: shows whether there are so many

    @classmethod
    def from_rows(cls, scores: FloatArray, sets: SetArray, groups: pa.Array) -> GroupCopies:
        """The copies of rows with finite scores; all of shape (n,)."""
        coded = groups.dictionary_encode()
        hashes = hash_texts(coded.dictionary.to_pylist())
        weights, group = _weights(hashes), np.asarray(coded.indices)
        parts = [NO_GROUPS]
        for first in range(0, len(scores), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            parts.append(cls(_weighted(scores[rows], sets[rows], weights[group[rows]]), hashes))
        return cls.merge(parts)

    @classmethod
    def merge(cls, parts: Iterable[GroupCopies]) -> GroupCopies:
        """The copies of the rows of all parts."""
        parts = list(parts)
        lowest = np.unique(np.concatenate([part.lowest_hashes for part in parts]))[:MIN_GROUPS]
        return cls(Sketch.merge([part.wide for part in parts], MAX_CELLS), lowest)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """A warning if there are too few groups."""
        n = len(self.lowest_hashes)
        return () if n == MIN_GROUPS else (Notice("few-groups", f"bounds rest on {n} groups"),)

    def sketches(self, whole: Sketch) -> tuple[Sketch, list[Sketch]]:
        """The rows of a sketch on the coarser grid, and the copies that have rows of every set."""
        counts = self.wide.counts.reshape(len(self.wide.edges), -1, len(SETS))
        present = counts[:, 0].any(axis=0)

        def sketch(copy: IntArray) -> Sketch:
            filled = copy.any(axis=1)
            edges, level = self.wide.edges[filled], self.wide.level
            return replace(whole, edges=edges, counts=copy[filled], level=level)

        copies = [sketch(counts[:, i]) for i in range(1, counts.shape[1])]
        complete = [copy for copy in copies if (copy.counts.any(axis=0) == present).all()]
        return sketch(counts[:, 0]), complete


_NO_ROWS = Sketch(np.empty(0), np.empty((0, (1 + COPIES) * len(SETS)), np.int64))
NO_GROUPS = GroupCopies(_NO_ROWS, np.empty(0, np.uint64))


def _weighted(scores: FloatArray, sets: SetArray, weights: IntArray) -> Sketch:
    """The wide sketch of rows with weights of shape (n, 1 + COPIES)."""
    counts = np.zeros((len(scores), weights.shape[1], len(SETS)), np.int64)
    counts[np.arange(len(scores)), :, sets.astype(np.int64)] = weights
    return Sketch.merge([Sketch(scores, counts.reshape(len(scores), -1))], MAX_CELLS)


def _weights(hashes: HashArray) -> IntArray:
    """The weight of each group in the rows themselves, 1, and in each copy."""
    states = hashes[:, None] + np.arange(1, COPIES + 1, dtype=np.uint64) * GOLDEN_RATIO
    drawn = np.searchsorted(POISSON, splitmix64(states) / 2.0**64, side="right")
    return np.column_stack([np.ones(len(hashes), np.int64), drawn])


def scored_chunks(
    rows: Rows, columns: Sequence[str], scorer: HonestScorer | None, threads: int
) -> Iterator[tuple[Chunk, FloatArray]]:
    """Chunks with their scores: of a table that the scorer scores, else of SCORES."""
    if scorer is not None:
        return scorer.score_all(rows, threads)
    return Scores(rows).chunks([*columns, "score"])


@dataclass(frozen=True)
class GatherGroups:
    """The step that draws bootstrap samples of groups, of SCORES or of tables that it scores."""

    scorer: HonestScorer | None = None

    def __call__(self, job: Job, done: RowsDone, threads: int) -> GroupCopies:
        copies, rows = NO_GROUPS, job.part
        for chunk, scores in scored_chunks(rows, rows.carried, self.scorer, threads):
            groups = rows.groups(chunk)
            assert groups is not None  # callers always name the column
            known = np.isfinite(scores)
            part = scores[known], chunk.sets[known], groups.filter(pa.array(known))
            copies = GroupCopies.merge([copies, GroupCopies.from_rows(*part)])
            done(len(scores))
        return copies

    @staticmethod
    def merge(results: Sequence[GroupCopies]) -> GroupCopies:
        return GroupCopies.merge(results)


def _widening(calibration: Calibration, copies: GroupCopies, seed: int) -> FloatArray:
    """The factor by which groups widen the bounds on the log-odds of each cell, shape (cells,).

    The standard deviation of the log-odds over samples of groups, over that over samples of rows.
    """
    rows, by_group = copies.sketches(calibration.sketch)
    rng = np.random.default_rng([seed, 4])
    by_row = [rows.resample(rng) for _ in by_group]
    shares = replace(calibration.shares, from_these_rows=False, draws=())
    group_variance, row_variance = (
        _variance(rows, samples, shares, calibration.smooth) for samples in (by_group, by_row)
    )
    ratio = np.ones(len(row_variance))  # also where a smooth curve is at its limit in all samples
    np.divide(group_variance, row_variance, out=ratio, where=row_variance > 0)
    factor = np.sqrt(np.maximum(ratio, 1))
    return np.asarray(factor[rows.cell_index(calibration.sketch.scores)])


def _variance(whole: Sketch, samples: list[Sketch], shares: Shares, smooth: bool) -> FloatArray:
    """The variance of the log-odds, averaged over neighboring cells, shape (cells,)."""
    copies = [calibrate(sample, shares, smooth) for sample in samples]
    logs = [np.log(copy.lr[copy.sketch.cell_index(whole.scores)]) for copy in copies]
    variance, rows = np.var(logs, axis=0), whole.counts.sum(1)
    rank = relative_mid_ranks(rows)
    low, high = (np.searchsorted(rank, rank + side * NEARBY) for side in (-1, 1))
    sums, weights = (np.append(0.0, np.cumsum(v)) for v in (variance * rows, rows))
    return np.asarray((sums[high] - sums[low]) / (weights[high] - weights[low]))


def widen(narrow: Bounds, calibration: Calibration, factor: FloatArray) -> Bounds:
    """Bounds whose distance from the estimates, on log-odds, is multiplied by a factor.

    A bound that is infinitely far from an estimate of 0 or 1 stays.
    """

    def pair(estimate: FloatArray, bounds: Pair) -> Pair:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            times = [np.where(bound == estimate, 1, bound / estimate) for bound in bounds]
            wider = [estimate * by**factor for by in times]
        low, high = (np.where(np.isnan(w), b, w) for w, b in zip(wider, bounds, strict=True))
        return _enclose(estimate, (low, high))

    p_low, p_high = narrow.posterior
    low, high = pair(odds(calibration.posterior), (odds(p_low), odds(p_high)))
    p_bounds = posterior_at(low, 0.5), posterior_at(high, 0.5)  # odds are ratios at even odds
    return Bounds(pair(calibration.lr, narrow.lr), p_bounds)
