"""Isotonic regression: scipy's, whose import would take longer than most commands' work.

Penalised splines (Eilers and Marx 1996): a curve through shares, as smooth as AIC says.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Matrix = NDArray[np.float32]


def isotonic(
    values: FloatArray, weights: NDArray[np.number]
) -> tuple[FloatArray, NDArray[np.int64]]:
    """The non-decreasing fit by weighted least squares, shape (n,), and where its blocks start.

    Pool adjacent violators, in the order of Busing (2022, algorithm 1): a block takes in all later
    values below its mean, then all earlier blocks above it.
    """
    x, w = values.tolist(), weights.astype(np.float64).tolist()
    means, masses, starts = [x[0]], [w[0]], [0]
    i = 1
    while i < len(x):
        start, mean, mass = i, x[i], w[i]
        if means[-1] >= mean:
            start = starts.pop()
            mass_before = masses.pop()
            total = mass_before * means.pop() + mass * mean
            mass += mass_before
            mean = total / mass
            while i + 1 < len(x) and mean >= x[i + 1]:
                i += 1
                total += w[i] * x[i]
                mass += w[i]
                mean = total / mass
            while means and means[-1] >= mean:
                start = starts.pop()
                mass_before = masses.pop()
                total += mass_before * means.pop()
                mass += mass_before
                mean = total / mass
        means.append(mean)
        masses.append(mass)
        starts.append(start)
        i += 1
    blocks = np.array(starts)
    return np.repeat(means, np.diff(blocks, append=len(x))), blocks


BINS = 300  # of equal numbers of rows
PIECES = 30  # of the curve, of equal length
PENALTIES = 10.0 ** np.arange(4, -3.5, -0.5)  # from a straight line on
STEPS = 30  # of Newton's
MOST = 30.0  # of a logit
RIDGE = 1e-8  # lest pieces without rows leave the curve open


def smooth_logit(some: IntArray, rows: IntArray) -> FloatArray:
    """The logit of the share of some rows among those of each cell, both of shape (cells,).

    It is a curve over the normal quantile of the rank, so that only the order of the cells matters.
    Where there are no rows, it goes on as it is next to there.
    """
    there = rows > 0
    starts = _starts(rows[there])
    n = np.add.reduceat(rows[there], starts).astype(np.float64)
    y = np.add.reduceat(some[there], starts).astype(np.float64)
    place = _quantiles(n)
    fitted = _best(_basis(place), y, n)
    return np.interp(_mid_ranks(rows), _mid_ranks(n), fitted)


def _starts(rows: IntArray) -> IntArray:
    """The first cell of each bin."""
    middle = _mid_ranks(rows)
    return np.flatnonzero(np.diff(np.floor(middle * BINS), prepend=-1.0))


def _mid_ranks(rows: IntArray | FloatArray) -> FloatArray:
    """The middle rank of the rows of each cell as a share of all, within (0, 1)."""
    return np.asarray((np.cumsum(rows) - rows / 2) / rows.sum())


def _quantiles(rows: FloatArray) -> FloatArray:
    normal = NormalDist()
    return np.array([normal.inv_cdf(rank) for rank in _mid_ranks(rows)])


def _basis(place: FloatArray) -> FloatArray:
    """Cubic B-splines at places, in order, shape (places, PIECES + 3)."""
    width = max((place[-1] - place[0]) / PIECES, np.finfo(np.float64).tiny)
    u = (place - place[0]) / width
    piece = np.minimum(u.astype(np.int64), PIECES - 1)
    t = u - piece
    parts = [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]
    basis = np.zeros((len(place), PIECES + 3))
    for i, part in enumerate(parts):
        basis[np.arange(len(place)), piece + i] = part / 6
    return basis


def _best(basis: FloatArray, y: FloatArray, n: FloatArray) -> FloatArray:
    """The fitted logits, shape (places,), with the penalty on bends that has the lowest AIC."""
    bends = np.diff(np.eye(basis.shape[1]), 2, axis=0)
    share = (y.sum() + 0.5) / (n.sum() + 1)
    theta = np.full(basis.shape[1], np.log(share / (1 - share)))
    best, lowest = basis @ theta, np.inf
    for penalty in PENALTIES:
        rough = penalty * bends.T @ bends + RIDGE * np.eye(len(theta))
        for _ in range(STEPS):
            p, information = _expected(basis, theta, n)
            before = theta
            slope = basis.T @ (y - n * p) - rough @ theta
            theta = theta + np.linalg.solve(information + rough, slope).clip(-2, 2)
            if np.abs(theta - before).max() < 1e-6:
                break
        p, information = _expected(basis, theta, n)
        deviance = -2 * (y @ np.log(p) + (n - y) @ np.log1p(-p))
        freedom = np.trace(np.linalg.solve(information + rough, information))
        if deviance + 2 * freedom < lowest:
            best, lowest = basis @ theta, deviance + 2 * freedom
    return np.asarray(best.clip(-MOST, MOST))


def _expected(basis: FloatArray, theta: FloatArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The share that a curve gives each place, and the information on its coefficients."""
    p = 1 / (1 + np.exp(-(basis @ theta).clip(-MOST, MOST)))
    return p, (basis.T * (n * p * (1 - p))) @ basis
