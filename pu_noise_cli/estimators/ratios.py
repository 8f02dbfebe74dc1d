"""Ratios of densities by least squares, for many samples against the same unlabeled rows.

The ratio of the density of some labeled rows to that of the unlabeled ones is fitted as a sum of
kernels (uLSIF, Kanamori, Hido and Sugiyama 2009). Which labeled rows they are is one vector of the
normal equations, so another sample costs a product of a matrix and a vector, and what the fit would
say of a row without having seen it is known exactly.
"""

from __future__ import annotations

import numpy as np

from ..sketch import BoolArray, FloatArray

CENTERS = 400  # kernels
WIDTH = 0.3  # of a kernel: its variance in medians of the squared distances
RIDGE = 1e-3


class Ratios:
    """Ratios g/f of the rows of two tables, the first `n_labeled` of them labeled."""

    def __init__(self, rows: FloatArray, n_labeled: int, rng: np.random.Generator) -> None:
        """Rows have shape (n, d) and comparable columns."""
        centers = rows[rng.permutation(len(rows))[:CENTERS]]
        squares = squared_distances(rows, centers)
        variance = WIDTH * max(float(np.median(squares)), 1e-12)
        kernels = np.exp(-squares / (2 * variance))
        self._design = np.column_stack([kernels, np.ones(len(rows))])
        self._n_labeled = n_labeled
        of_unlabeled = self._design[n_labeled:]
        second_moments = of_unlabeled.T @ of_unlabeled / max(len(of_unlabeled), 1)
        self._inverse = np.linalg.inv(second_moments + RIDGE * np.eye(len(second_moments)))
        self._leverage = ((self._design @ self._inverse) * self._design).sum(1)

    def of(self, members: BoolArray) -> tuple[FloatArray, FloatArray]:
        """The ratio at the members, some of the labeled rows (n_labeled,), and at all unlabeled.

        Each by the fit without the row itself; shapes (members,) and (n_unlabeled,).
        """
        chosen = np.flatnonzero(members)
        ratio = self._design @ (self._inverse @ self._design[chosen].mean(0))
        n, m = len(chosen), len(ratio) - self._n_labeled
        own = (n * ratio[chosen] - self._leverage[chosen]) / max(n - 1, 1)
        leverage = np.minimum(self._leverage[self._n_labeled :], m / 2)
        return own, ratio[self._n_labeled :] * m / (m - leverage)


def squared_distances(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """Of each row from each center, shape (n, centers)."""
    lengths = (rows**2).sum(1)[:, None] + (centers**2).sum(1)
    return np.asarray(np.maximum(lengths - 2 * rows @ centers.T, 0))
