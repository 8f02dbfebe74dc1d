"""Clusters of weighted rows by k-means; scikit-learn's would depend on the number of threads."""

from __future__ import annotations

import numpy as np

from ..sketch import FloatArray, IntArray
from .ratios import squared_distances

STARTS = 3
STEPS = 30


def k_means(rows: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """The centers, shape (k, d), of the best of several starts; rows (n, d), weights (n,)."""
    found = [_from_one_start(rows, weights, k, rng) for _ in range(STARTS)]
    return min(found, key=lambda centers: _loss(rows, weights, centers))


def _loss(rows: FloatArray, weights: FloatArray, centers: FloatArray) -> float:
    return float(weights @ squared_distances(rows, centers).min(1))


def _from_one_start(
    rows: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator
) -> FloatArray:
    centers = _first_centers(rows, weights, k, rng)
    nearest: IntArray | None = None
    for _ in range(STEPS):
        now = squared_distances(rows, centers).argmin(1)
        if nearest is not None and (now == nearest).all():
            break
        nearest = now
        member = (nearest[:, None] == np.arange(k)) * weights[:, None]
        total = member.sum(0)[:, None]
        centers = np.where(total > 0, (member.T @ rows) / np.maximum(total, 1e-300), centers)
    return centers


def _first_centers(
    rows: FloatArray, weights: FloatArray, k: int, rng: np.random.Generator
) -> FloatArray:
    """Rows drawn far from each other (k-means++, Arthur and Vassilvitskii 2007), shape (k, d)."""
    chance, chosen = weights, [0] * k
    for i in range(k):
        if chance.sum() <= 0:  # fewer distinct rows than centers
            chance = weights
        chosen[i] = int(rng.choice(len(rows), p=chance / chance.sum()))
        chance = weights * squared_distances(rows, rows[chosen[: i + 1]]).min(1)
    return rows[chosen]


def assigned(rows: FloatArray, of_interest: int, centers: FloatArray, least: int) -> IntArray:
    """The nearest center of the first rows, shape (of_interest,), counted from 0.

    A center with fewer than `least` of these rows is given up, the emptiest first.
    """
    distances = squared_distances(rows[:of_interest], centers)
    while True:
        nearest = distances.argmin(1)
        counts = np.bincount(nearest, minlength=distances.shape[1])
        if distances.shape[1] == 1 or counts.min() >= least:
            return nearest
        distances = np.delete(distances, counts.argmin(), axis=1)
