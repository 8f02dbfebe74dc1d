"""Boosted trees whose levels split all rows alike, chosen among a few random splits.

A tree of depth D is D splits and 2^D values: a row's D answers are the bits of its value's index.
Each tree tries some random splits only, on a sample of the rows, and takes its values from all of
them. That makes trees cheap and unlike each other, and they rank better than trees with the best
of all splits. With many labeled rows, features that split well are tried more often in later trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..numerics import BoolArray, FloatArray, IntArray, Matrix, Vector
from ..tables.files import Arrays, check_weights

TREES = 30  # per fold
DEPTH = 6
RATE = 0.2  # of learning
SPLITS = 96  # that each tree tries
BY_GAIN = 0.25  # of them by what splits of their feature have gained so far, the rest by chance
MANY_LABELED = 200  # learned rows, from which gains are trusted
SAMPLE = 2000  # rows by which a tree's splits are chosen, at most a third of them labeled
THINNED = 4  # the level from which half of the sample is enough
RIDGE = 1.0  # rows by which values shrink towards 0
BINS = 32  # quantiles of a feature at which it may be split
QUANTILE_ROWS = 4000


@dataclass(frozen=True)
class Trees:
    """The logit is the sum of one value of each tree."""

    feature: IntArray  # (trees, depth)
    threshold: Matrix  # (trees, depth): the answer is whether the feature is above
    value: Matrix  # (trees, 2^depth); the first answer is the highest bit

    def logit(self, x: Matrix) -> Vector:
        """The logit of rows x, shape (n,)."""
        columns = np.ascontiguousarray(x.T)
        total = np.zeros(len(x), dtype=np.float32)
        index = np.empty(len(x), dtype=np.uint16)
        for first in range(0, len(self.value), 2):  # two trees at once: finding values is slow
            index[:] = 0
            values = np.zeros(1, dtype=np.float32)
            for tree in range(first, min(first + 2, len(self.value))):
                value = self.value[tree]
                index *= np.uint16(len(value))
                index += _leaf(columns, self.feature[tree], self.threshold[tree])
                values = np.add.outer(values, value).ravel()
            total += values.take(index)
        return total

    def changes(self, x: Matrix, edits: Iterable[tuple[slice, Matrix]]) -> Iterator[Vector]:
        """What each edit of some features of x does to the logit, see Scorer."""
        for features, values in edits:
            inside = (self.feature >= features.start) & (self.feature < features.stop)
            some = inside.any(1)
            own = Trees(self.feature[some], self.threshold[some], self.value[some])
            edited = x.copy()
            edited[:, features] = values
            yield own.logit(edited) - own.logit(x)

    def influence(self, x: Matrix) -> FloatArray:
        """How much each feature moves the logit of rows x, as a variance, shape (d,)."""
        found = np.zeros(x.shape[1])
        depth = self.feature.shape[1]
        for level in range(depth):
            value = self.value.reshape(len(self.value), 1 << level, 2, -1)
            change = value[:, :, 1] - value[:, :, 0]
            np.add.at(found, self.feature[:, level], np.square(change).mean((1, 2)) / 4)
        return found

    def scaled(self, factor: float) -> Self:
        """The same with a logit times a factor."""
        return replace(self, value=self.value * np.float32(factor))

    def arrays(self) -> Arrays:
        """The arrays to store."""
        return {"feature": self.feature, "threshold": self.threshold, "value": self.value}

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The trees of d features with these arrays; a ValueError if there are none."""
        feature = np.asarray(arrays["feature"])
        threshold, value = (
            np.asarray(arrays[name], dtype=np.float32) for name in ("threshold", "value")
        )
        if feature.ndim != 2 or feature.dtype.kind != "i" or not 1 <= feature.shape[1] <= 8:
            raise ValueError("no trees")
        if feature.size and not 0 <= feature.min() <= feature.max() < d:
            raise ValueError("splits of unknown features")
        check_weights(threshold, feature.shape)
        check_weights(value, (len(feature), 1 << feature.shape[1]))
        return cls(feature.astype(np.int64), threshold, value)


def _leaf(columns: Matrix, feature: IntArray, threshold: Vector) -> NDArray[np.uint8]:
    """The index of each row's value in one tree, shape (n,)."""
    answers = (columns[j] > limit for j, limit in zip(feature, threshold, strict=True))
    leaf = next(answers).view(np.uint8)
    for answer in answers:
        leaf += leaf
        leaf += answer.view(np.uint8)
    return leaf


@dataclass(frozen=True)
class _Splits:
    """All splits that may be tried; each usable feature has a range of them."""

    first: IntArray  # (usable,)
    count: IntArray  # (usable,)
    feature: IntArray  # (splits,)
    threshold: Vector  # (splits,)

    @classmethod
    def of(cls, x: Matrix) -> _Splits:
        """Splits at the quantiles of the features of rows x, shape (n, d)."""
        n = min(len(x), QUANTILE_ROWS)
        some = x[np.arange(n) * len(x) // n]
        quantiles = np.quantile(some, np.arange(BINS) / BINS, axis=0, method="lower")
        differ = np.ones(quantiles.shape, dtype=bool)
        differ[1:] = quantiles[1:] > quantiles[:-1]
        differ &= quantiles < some.max(0)  # with rows on both sides
        count = differ.sum(0)
        feature, place = np.nonzero(differ.T)
        if not len(feature):  # nothing differs: a split with all rows on one side
            return cls(np.zeros(1, int), np.ones(1, int), np.zeros(1, int), some[:1, 0])
        first = np.cumsum(count) - count
        usable = count > 0
        return cls(first[usable], count[usable], feature, quantiles[place, feature])

    def draw(self, gain: FloatArray, rng: np.random.Generator) -> tuple[IntArray, Vector]:
        """Features and thresholds of random splits.

        If there are gains, shape (d,), some splits are of features in proportion to them. For the
        others, all features are equally likely.
        """
        of_usable = np.cumsum(gain[self.feature[self.first]])
        which = rng.integers(len(self.first), size=SPLITS)
        if of_usable[-1] > 0:
            drawn = rng.random(round(BY_GAIN * SPLITS)) * of_usable[-1]
            which[: len(drawn)] = np.searchsorted(of_usable, drawn)
        place = self.first[which] + (rng.random(SPLITS) * self.count[which]).astype(np.int64)
        place = np.unique(place)
        return self.feature[place], self.threshold[place]


def train_trees(
    x: Matrix,
    labeled: BoolArray,
    learned: BoolArray,
    spare: BoolArray,
    rng: np.random.Generator,
) -> list[Trees]:
    """Train trees on the learned rows of each fold, see Trainer."""
    splits = _Splits.of(x)
    return [_boost(x[rows], labeled[rows], splits, rng) for rows in learned.T]


def _boost(x: Matrix, labeled: BoolArray, splits: _Splits, rng: np.random.Generator) -> Trees:
    """Trees that each lower the log-loss of those before it, by Newton's steps."""
    columns = np.ascontiguousarray(x.T)
    kinds = [np.flatnonzero(kind) for kind in (labeled, ~labeled)]
    # both kinds have the same weight, as many rows in all as there is evidence
    total = 1 / sum(1 / len(rows) for rows in kinds)
    weight = np.where(labeled, *(np.float32(total / len(rows)) for rows in kinds))
    sizes = [min(len(kinds[0]), SAMPLE // 3)]
    sizes.append(min(len(kinds[1]), SAMPLE - sizes[0]))
    factor = np.repeat(
        [np.float32(len(rows) / size) for rows, size in zip(kinds, sizes, strict=True)], sizes
    )
    samples = [_samples(*kind, rng) for kind in zip(kinds, sizes, strict=True)]
    logit, gain = np.zeros(len(x), dtype=np.float32), np.zeros(len(columns))
    found: list[tuple[IntArray, Vector, Vector]] = []
    for _ in range(TREES):
        rows = np.concatenate([next(kind) for kind in samples])
        p = 1 / (1 + np.exp(-logit))
        slope, curvature = weight * (labeled - p), weight * p * (1 - p)
        feature, threshold = splits.draw(gain, rng)
        if len(columns) < len(feature):
            tried = columns.take(rows, axis=1).take(feature, axis=0)
        else:
            tried = columns.take(feature, axis=0).take(rows, axis=1)
        answers = (tried > threshold[:, None]).astype(np.float32)
        chosen, gains = _choose(answers, slope[rows] * factor, curvature[rows] * factor)
        feature, threshold = feature[chosen], threshold[chosen]
        if len(kinds[0]) >= MANY_LABELED:
            np.add.at(gain, feature, gains)
        leaf = _leaf(columns, feature, threshold)
        sums = [np.bincount(leaf, values, 1 << DEPTH) for values in (slope, curvature)]
        value = (RATE * sums[0] / (sums[1] + RIDGE)).astype(np.float32)
        logit += value.take(leaf)
        found.append((feature, threshold, value))
    return Trees(*(np.stack(part) for part in zip(*found, strict=True)))


def _samples(rows: IntArray, size: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Endless random samples of so many rows."""
    while True:
        rows = rng.permutation(rows)
        for start in range(0, len(rows) - size + 1, size):
            yield rows[start : start + size]


def _choose(answers: Matrix, slope: Vector, curvature: Vector) -> tuple[list[int], list[float]]:
    """DEPTH of the splits with these answers, shape (splits, n), one after the other; their gains.

    The gain of a split is how much it lowers the loss.
    """
    leaf, chosen, gains = np.zeros(answers.shape[1], dtype=np.intp), list[int](), list[float]()
    for level in range(DEPTH):
        if level == THINNED:
            answers, leaf = answers[:, ::2], leaf[::2]
            slope, curvature = 2 * slope[::2], 2 * curvature[::2]
        leaves, place = 1 << level, np.arange(len(leaf))
        of_leaf = np.zeros((2 * leaves, len(leaf)), dtype=np.float32)
        of_leaf[leaf, place] = slope
        of_leaf[leaf + leaves, place] = curvature
        both = of_leaf.sum(1)
        above = answers @ of_leaf.T
        before, *after = (
            (np.square(side[..., :leaves]) / (side[..., leaves:] + RIDGE)).sum(-1)
            for side in (both, above, both - above)
        )
        gain = sum(after)
        chosen.append(int(gain.argmax()))
        gains.append(max(float(gain[chosen[-1]] - before), 0.0))
        leaf += leaf
        leaf += answers[chosen[-1]] > 0
    return chosen, gains
