"""Numerical functions that several rooms share; imports nothing of the package."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
HashArray = NDArray[np.uint64]
Matrix = NDArray[np.float32]


# ---- Probabilities, odds and logits


def expit(logit: FloatArray) -> FloatArray:
    """The logistic function, the inverse of `logit`."""
    return np.asarray(1 / (1 + np.exp(-logit)))


def logit(p: FloatArray) -> FloatArray:
    """The log-odds of probabilities, infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p))


def odds(p: FloatArray) -> FloatArray:
    """The odds of probabilities, infinite at 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(p / (1 - p))


def move_odds(p: FloatArray, log_ratio: float | FloatArray) -> FloatArray:
    """Probabilities whose odds are multiplied, by the logarithm of the factor; by 0 exactly p."""
    moved = p * np.exp(log_ratio)
    return np.asarray(moved / (1 - p + moved))


# ---- Ranks and bins of sorted, weighted values


def mid_ranks(weights: FloatArray | IntArray) -> FloatArray:
    """The weight below the middle of each value, along the last axis; shape as the weights'."""
    return np.asarray(np.cumsum(weights, axis=-1) - weights / 2)


def relative_mid_ranks(weights: FloatArray | IntArray) -> FloatArray:
    """Mid-ranks as fractions of the total weight, within (0, 1); shape (n,)."""
    return np.asarray(mid_ranks(weights) / weights.sum())


def bin_starts(position: FloatArray) -> IntArray:
    """The index of the first value of each bin [i, i + 1) of non-decreasing positions."""
    return np.flatnonzero(np.diff(np.floor(position), prepend=-1.0))


# ---- Hashes

GOLDEN_RATIO = np.uint64(0x9E3779B97F4A7C15)  # the increment of splitmix64


def splitmix64(state: HashArray) -> HashArray:
    """Pseudo-random 64-bit numbers from the states of splitmix64 (Steele et al. 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return state ^ (state >> np.uint64(31))


def hash_texts(texts: Iterable[str]) -> HashArray:
    """A 64-bit number for each text, the same on every machine; shape (n,)."""
    digests = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


# ---- Isotonic regression


def isotonic(values: FloatArray, weights: NDArray[np.number]) -> tuple[FloatArray, IntArray]:
    """Fit non-decreasing values by weighted least squares.

    Pool adjacent violators, in the order of Busing (2022, algorithm 1): a block takes in all later
    values below its mean, then all earlier blocks above it. scipy has the same function, but its
    import takes longer than most commands.

    Parameters
    ----------
    values, weights : shape (n,)

    Returns
    -------
    fitted : shape (n,)
    starts : shape (blocks,)
        The index of the first value of each block of equal fitted values.
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


# ---- Penalized splines (Eilers and Marx 1996)

SPLINE_BINS = 300  # of equal numbers of rows
SPLINE_PIECES = 30  # of equal length
Spline = tuple[float, FloatArray]  # a penalty on second differences, and the coefficients
PENALTIES = 10.0 ** np.arange(4, -3.5, -0.5)  # from a nearly straight line on
NEWTON_STEPS = 30
MAX_LOGIT = 30.0
RIDGE = 1e-8  # determines the coefficients of pieces without rows


def smooth_logit(
    successes: IntArray, rows: IntArray, start: Spline | None = None
) -> tuple[FloatArray, Spline]:
    """The logit of the fraction of successes as a smooth function of the rank.

    The function is a penalized spline over the normal quantile of the rank, so that only the order
    of the cells matters. Cells without rows interpolate their neighbors.

    Parameters
    ----------
    successes, rows : shape (cells,)
    start : Spline, optional
        The spline of similar rows, whose penalty is used; AIC chooses the penalty by default.

    Returns
    -------
    logit : shape (cells,)
    spline : Spline
    """
    occupied = rows > 0
    starts = bin_starts(relative_mid_ranks(rows[occupied]) * SPLINE_BINS)
    n = np.add.reduceat(rows[occupied], starts).astype(np.float64)
    y = np.add.reduceat(successes[occupied], starts).astype(np.float64)
    ranks = relative_mid_ranks(n)
    quantiles = np.array([NormalDist().inv_cdf(rank) for rank in ranks])
    basis = _spline_basis(quantiles)
    spline = _fit_spline(basis, y, n, start)
    fitted = (basis @ spline[1]).clip(-MAX_LOGIT, MAX_LOGIT)
    return np.interp(relative_mid_ranks(rows), ranks, fitted), spline


def _spline_basis(x: FloatArray) -> FloatArray:
    """Cubic B-splines at increasing x, shape (points, SPLINE_PIECES + 3)."""
    width = max((x[-1] - x[0]) / SPLINE_PIECES, np.finfo(np.float64).tiny)
    u = (x - x[0]) / width
    piece = np.minimum(u.astype(np.int64), SPLINE_PIECES - 1)
    t = u - piece
    parts = [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, -3 * t**3 + 3 * t**2 + 3 * t + 1, t**3]
    basis = np.zeros((len(x), SPLINE_PIECES + 3))
    for i, part in enumerate(parts):
        basis[np.arange(len(x)), piece + i] = part / 6
    return basis


def _fit_spline(basis: FloatArray, y: FloatArray, n: FloatArray, start: Spline | None) -> Spline:
    """The spline with the penalty of lowest AIC, or with that of the one to start from."""
    differences = np.diff(np.eye(basis.shape[1]), 2, axis=0)
    mean = (y.sum() + 0.5) / (n.sum() + 1)
    theta = np.full(basis.shape[1], np.log(mean / (1 - mean)))
    penalties = PENALTIES
    if start is not None:
        penalties, theta = np.array([start[0]]), start[1]
    best, lowest_aic = (float(penalties[0]), theta), np.inf

    def fitted(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities, shape (points,), and the Fisher information on the coefficients."""
        p = 1 / (1 + np.exp(-(basis @ theta).clip(-MAX_LOGIT, MAX_LOGIT)))
        return p, (basis.T * (n * p * (1 - p))) @ basis

    for penalty in penalties:
        roughness = penalty * differences.T @ differences + RIDGE * np.eye(len(theta))
        for _ in range(NEWTON_STEPS):
            p, information = fitted(theta)
            before = theta
            slope = basis.T @ (y - n * p) - roughness @ theta
            theta = theta + np.linalg.solve(information + roughness, slope).clip(-2, 2)
            if np.abs(theta - before).max() < 1e-6:
                break
        p, information = fitted(theta)
        deviance = -2 * (y @ np.log(p) + (n - y) @ np.log1p(-p))
        freedom = np.trace(np.linalg.solve(information + roughness, information))
        if deviance + 2 * freedom < lowest_aic:
            best, lowest_aic = (float(penalty), theta), deviance + 2 * freedom
    return best
