"""The sufficient statistic of every univariate estimator: sorted scores with their counts.

A sketch holds the distinct scores and, for each, how many labeled and how many unlabeled rows have
it. Where there are more than MAX_CELLS distinct scores it holds them on a coarser grid. The grids
do not depend on the data and each is nested in the next finer one; the grid in use is the finest on
which the scores fill at most MAX_CELLS cells. So the sketches of shards, merged in any order, are
exactly the sketch of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MAX_CELLS = 8192


def _on_grid(scores: FloatArray, level: int, middle: bool = False) -> FloatArray:
    """The cell of each score on the grid of a level, as the cell's edge or its middle, shape (n,).

    A level drops that many bits of the score's mantissa, which leaves cells of even relative width,
    narrow near 0. Scores between a half and 1 are measured from 1, so that the two ends of [0, 1]
    are mirror images. 0, a half and 1 are cells of their own.
    """
    mirrored = (scores > 0.5) & (scores <= 1)
    distance = np.where(mirrored, 1.0 - scores, scores + 0.0)  # -0.0 and 0.0 are one score
    bits = (distance.view(np.int64) >> level) << level
    if middle and level:
        bits = np.where((distance == 0) | (distance == 0.5), bits, bits | (1 << (level - 1)))
    rounded = bits.view(np.float64)
    return np.where(mirrored, 1.0 - rounded, rounded)


@dataclass(frozen=True, eq=False)
class Sketch:
    """Cells in increasing order, each with at least one row; all arrays have shape (cells,)."""

    edges: FloatArray
    labeled: IntArray
    unlabeled: IntArray
    level: int = 0  # bits dropped from the scores; at 0 they are exact

    @classmethod
    def of(cls, labeled: FloatArray, unlabeled: FloatArray) -> Sketch:
        """The sketch of two samples of finite scores, shapes (n_labeled,) and (n_unlabeled,)."""
        is_labeled = np.repeat([1, 0], [len(labeled), len(unlabeled)])
        both = np.concatenate([labeled, unlabeled]).astype(np.float64)
        return cls(both, is_labeled, 1 - is_labeled)._at_level(0)._coarsened()

    @classmethod
    def merge(cls, sketches: Iterable[Sketch]) -> Sketch:
        """The sketch of all rows that the given sketches were made of."""
        parts = list(sketches)
        stacked = cls(
            np.concatenate([part.edges for part in parts]),
            np.concatenate([part.labeled for part in parts]),
            np.concatenate([part.unlabeled for part in parts]),
        )
        return stacked._at_level(max(part.level for part in parts))._coarsened()

    @cached_property
    def scores(self) -> FloatArray:
        """The score each cell stands for: its middle."""
        return _on_grid(self.edges, self.level, middle=True)

    @cached_property
    def n_labeled(self) -> int:
        return int(self.labeled.sum())

    @cached_property
    def n_unlabeled(self) -> int:
        return int(self.unlabeled.sum())

    @cached_property
    def auc(self) -> float:
        """P(labeled score > unlabeled score) + P(equal) / 2."""
        below = np.cumsum(self.unlabeled) - self.unlabeled / 2
        return float(self.labeled @ below / (self.n_labeled * self.n_unlabeled))

    def cells_of(self, scores: FloatArray) -> IntArray:
        """The cell each score falls in, shape (n,): its own, or the nearest there is."""
        edges = _on_grid(scores, self.level)
        right = np.minimum(np.searchsorted(self.edges, edges), len(self.edges) - 1)
        left = np.maximum(right - 1, 0)
        with np.errstate(over="ignore"):  # between two finite scores there may be more than finite
            return np.where(edges - self.edges[left] < self.edges[right] - edges, left, right)

    def resample(self, rng: np.random.Generator) -> Sketch:
        """A bootstrap sample of the rows: both samples redrawn at their own size."""
        labeled = rng.multinomial(self.n_labeled, self.labeled / self.n_labeled)
        unlabeled = rng.multinomial(self.n_unlabeled, self.unlabeled / self.n_unlabeled)
        drawn = labeled + unlabeled > 0
        return Sketch(self.edges[drawn], labeled[drawn], unlabeled[drawn], self.level)

    def _at_level(self, level: int) -> Sketch:
        """These rows on the grid of a level at least as coarse as their own."""
        edges, cell = np.unique(_on_grid(self.edges, level), return_inverse=True)

        def summed(counts: IntArray) -> IntArray:  # exact: far below 2**53 rows
            return np.bincount(cell, counts, len(edges)).astype(np.int64)

        return Sketch(edges, summed(self.labeled), summed(self.unlabeled), level)

    def _coarsened(self) -> Sketch:
        """This sketch on the finest grid that leaves it at most MAX_CELLS cells."""
        edges, level = self.edges, self.level
        while len(edges) > MAX_CELLS:
            level += 1
            edges = np.unique(_on_grid(edges, level))
        return self if level == self.level else self._at_level(level)
