"""Features to normal scores: each column's ranks decide, so neither units nor outliers do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..numerics import Matrix, mid_ranks
from .classifiers import Arrays

Vector = NDArray[np.float64]

KNOTS = 129  # per column; what lies between two is interpolated
FARTHEST = 5.0  # the largest scaled value, which only rare values reach
CELLS = 2048  # to look knots up by
BLOCK = 16384  # rows of a column that are scaled at once, in a core's cache


class _Interpolation:
    """One piecewise linear map: np.interp with constant ends, several times as fast.

    The range of the knots is cut into even cells, each of which knows the knot before it. Few have
    more than one knot inside; how many there are at most says how often to halve those.
    """

    def __init__(self, values: Vector, scaled: Vector) -> None:
        self.values, self.scaled = values, scaled
        first, last = values[[0, -1]]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            self.cells_per_value = min(CELLS / (last - first), np.finfo(np.float64).max)
            self.slope = np.nan_to_num(np.append(np.diff(scaled) / np.diff(values), 0))
        cell_of_knot = self._cells(values)
        cells = np.arange(CELLS + 1)
        self.before = np.maximum(np.searchsorted(cell_of_knot, cells) - 1, 0)
        inside = np.searchsorted(cell_of_knot, cells, "right") - 1 - self.before
        self.crowded = inside > 1
        self.halvings = int(inside.max()).bit_length()
        self.bounds = np.append(values, np.full(1 << self.halvings, np.inf))

    def _cells(self, x: Vector) -> NDArray[np.intp]:
        place = x - self.values[0]
        place *= self.cells_per_value
        return place.astype(np.intp)

    def _advance(self, knot: NDArray[np.intp], x: Vector) -> None:
        """Move on from the knots before the cells of x to those before x, several to a cell."""
        for power in reversed(range(self.halvings)):
            knot += (self.bounds.take(knot + (1 << power)) <= x).astype(np.intp) << power

    def __call__(self, x: Vector) -> None:
        """Map values without gaps, shape (n,), in place."""
        x.clip(self.values[0], self.values[-1], out=x)
        cells = self._cells(x)
        knot = self.before.take(cells)
        if self.halvings > 1 and len(crowded := np.flatnonzero(self.crowded.take(cells))):
            there = knot[crowded]
            self._advance(there, x[crowded])
            knot += self.bounds[1:].take(knot) <= x
            knot[crowded] = there
        else:
            knot += self.bounds[1:].take(knot) <= x
        x -= self.values.take(knot)
        x *= self.slope.take(knot)
        x += self.scaled.take(knot)


@dataclass(frozen=True)
class Scaling:
    """Piecewise linear maps, one per column, whose knots stand one column after another."""

    values: Vector  # (k,), increasing within a column
    scaled: Vector  # (k,)
    first: NDArray[np.int64]  # (d + 1,): column j has the knots first[j]:first[j + 1]

    def apply(self, features: NDArray[np.float64]) -> Matrix:
        """The scaled features, shape (n, d); missing values are at the centre, 0."""
        return self.apply_to(list(features.T))

    def apply_to(self, columns: Sequence[Vector]) -> Matrix:
        """The same of d columns of shape (n,), which need not lie side by side."""
        n, d = len(columns[0]), len(columns)
        if d != len(self.first) - 1:
            raise ValueError(f"{d} columns where the scaling has {len(self.first) - 1}")
        out = np.zeros((n, d), dtype=np.float32, order="F")

        for j, interpolate in enumerate(self._maps):
            if interpolate is None:
                continue
            for start in range(0, n, BLOCK):
                column = columns[j][start : start + BLOCK] / 4
                missing = np.isnan(column)
                gaps = missing.any()
                if gaps:
                    column[missing] = 0
                interpolate(column)
                if gaps:
                    column[missing] = 0
                out[start : start + BLOCK, j] = column
        return out

    @cached_property
    def _maps(self) -> list[_Interpolation | None]:
        """The map of each column, none where it is constant."""
        maps: list[_Interpolation | None] = []
        for start, end in pairwise(self.first):
            # a quarter, since the distance between two finite values may overflow
            values = self.values[start:end] / 4
            scaled = np.clip(self.scaled[start:end], -FARTHEST, FARTHEST)
            maps.append(_Interpolation(values, scaled) if values[-1] > values[0] else None)
        return maps

    def arrays(self) -> Arrays:
        """All there is to store."""
        return {"values": self.values, "scaled": self.scaled, "first": self.first}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The scaling that arrays() came from."""
        return cls(
            np.asarray(arrays["values"], dtype=np.float64),
            np.asarray(arrays["scaled"], dtype=np.float64),
            np.asarray(arrays["first"], dtype=np.int64),
        )

    def check(self, d: int) -> None:
        """Stop with a ValueError unless there are increasing knots for each of d columns."""
        k = len(self.values)
        if self.values.shape != (k,) or self.scaled.shape != (k,) or self.first.shape != (d + 1,):
            raise ValueError("the arrays of a scaling fit each other")
        if not (np.isfinite(self.values).all() and np.isfinite(self.scaled).all()):
            raise ValueError("knots are numbers")
        if self.first[0] != 0 or self.first[-1] != k or (np.diff(self.first) < 1).any():
            raise ValueError("each column has knots")
        rises = self.values[1:] > self.values[:-1]
        rises[self.first[1:-1] - 1] = True  # from one column to the next
        if not rises.all() or np.abs(self.scaled).max() > FARTHEST + 1e-6:
            raise ValueError("knots increase, and are scaled to a range")


def fit_scaling(features: NDArray[np.float64]) -> Scaling:
    """Normal scores of the columns of features, shape (n, d), centred, with unit variance."""
    columns = [_fit_column(features[:, j]) for j in range(features.shape[1])]
    lengths = [len(values) for values, _ in columns]
    return Scaling(
        np.concatenate([values for values, _ in columns]),
        np.concatenate([scaled for _, scaled in columns]),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def _fit_column(column: Vector) -> tuple[Vector, Vector]:
    """Knots of one column: distinct values and the normal scores of their mid-ranks."""
    from scipy.special import ndtri

    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    if len(values) < 2:
        return np.zeros(1), np.zeros(1)
    share = counts / counts.sum()
    scores = ndtri(mid_ranks(share))
    scores -= (share * scores).sum()  # not @, whose last digits depend on BLAS's threads
    # the bound is for values so rare that they would stand out as outliers do
    scores /= max(np.sqrt((share * scores**2).sum()), np.abs(scores).max() / FARTHEST)
    if len(values) > KNOTS:
        even = np.searchsorted(scores, np.linspace(scores[0], scores[-1], KNOTS))
        even = np.unique(np.minimum(even, len(values) - 1))
        values, scores = values[even], scores[even]
    return values, scores
