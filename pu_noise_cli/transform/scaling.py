"""Features to normal scores: each column's ranks decide, so neither units nor outliers do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .base import Arrays, Matrix

KNOTS = 129  # per column; what lies between two is interpolated
FARTHEST = 5.0  # the largest scaled value, which only rare values reach


@dataclass(frozen=True)
class Scaling:
    """Piecewise linear maps, one per column, whose knots stand one column after another."""

    values: NDArray[np.float64]  # (k,), increasing within a column
    scaled: NDArray[np.float64]  # (k,)
    first: NDArray[np.int64]  # (d + 1,): column j has the knots first[j]:first[j + 1]

    def apply(self, features: NDArray[np.float64], threads: int = 1) -> Matrix:
        """The scaled features, shape (n, d); missing values are at the centre, 0."""
        n, d = features.shape
        if d != len(self.first) - 1:
            raise ValueError(f"{d} columns where the scaling has {len(self.first) - 1}")
        out = np.empty((n, d), dtype=np.float32, order="F")

        def scale(j: int) -> None:
            knots = slice(self.first[j], self.first[j + 1])
            # a quarter, since the distance between two finite values may overflow
            column = np.interp(features[:, j] / 4, self.values[knots] / 4, self.scaled[knots])
            column[np.isnan(column)] = 0
            np.clip(column, -FARTHEST, FARTHEST, out=column)
            out[:, j] = column

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(scale, range(d)))
        return out

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


def fit_scaling(features: NDArray[np.float64]) -> Scaling:
    """Normal scores of the columns of features, shape (n, d), centred, with unit variance."""
    columns = [_fit_column(features[:, j]) for j in range(features.shape[1])]
    lengths = [len(values) for values, _ in columns]
    return Scaling(
        np.concatenate([values for values, _ in columns]),
        np.concatenate([scaled for _, scaled in columns]),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def _fit_column(column: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Knots of one column: distinct values and the normal scores of their mid-ranks."""
    from scipy.special import ndtri

    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    if len(values) < 2:
        return np.zeros(1), np.zeros(1)
    share = counts / counts.sum()
    scores = ndtri(np.cumsum(share) - share / 2)
    scores -= (share * scores).sum()  # not @, whose last digits depend on BLAS's threads
    # the bound is for values so rare that they would stand out as outliers do
    scores /= max(np.sqrt((share * scores**2).sum()), np.abs(scores).max() / FARTHEST)
    if len(values) > KNOTS:
        even = np.searchsorted(scores, np.linspace(scores[0], scores[-1], KNOTS))
        even = np.unique(np.minimum(even, len(values) - 1))
        values, scores = values[even], scores[even]
    return values, scores
