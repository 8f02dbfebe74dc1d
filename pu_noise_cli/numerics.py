"""Numerical functions that several rooms share; imports nothing of the package."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
HashArray = NDArray[np.uint64]
Matrix = NDArray[np.float32]
Vector = NDArray[np.float32]


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

SPLINE_BINS = 200  # of equal numbers of rows
SPLINE_PIECES = 30  # of equal length
PENALTIES = 10.0 ** np.arange(6, -3, -1)  # on second differences: from a nearly straight line on
NEWTON_STEPS = 40
MAX_LOGIT = 30.0
RIDGE = 1e-6  # determines the coefficients of pieces without rows
SCALES: dict[str, Callable[[float], float]] = {  # of ranks between 0 and 1
    "normal": NormalDist().inv_cdf,
    "logarithm": math.log,  # does not stretch the upper end, so that p may level off there
}


class Spline(NamedTuple):
    """A penalized spline over ranks."""

    scale: str
    penalty: float
    theta: FloatArray  # its coefficients


def smooth_logit(
    successes: IntArray,
    rows: IntArray,
    odds_range: tuple[float, float],
    start: Sequence[Spline] = (),
) -> tuple[FloatArray, list[Spline]]:
    """The logit of p as a smooth, non-decreasing function of the rank.

    The odds of success rise from the one end of a range where p is 0 to the other where p is 1, in
    proportion to p. The logit of p is a penalized spline over a scale of the rank, so that only the
    order of the cells matters. Scales and penalties are averaged over by their evidence: no single
    one suits all rows. Cells without rows interpolate their neighbors.

    Parameters
    ----------
    successes, rows : shape (cells,)
    odds_range
        The odds of success where p is 0, and where it is 1.
    start : Sequence[Spline]
        The splines of similar rows, whose scales and penalties are used.

    Returns
    -------
    logit : shape (cells,)
    splines : list[Spline]
        The one with most evidence for each scale.
    """
    occupied = rows > 0
    starts = bin_starts(relative_mid_ranks(rows[occupied]) * SPLINE_BINS)
    n = np.add.reduceat(rows[occupied], starts).astype(np.float64)
    y = np.add.reduceat(successes[occupied], starts).astype(np.float64)
    ranks = relative_mid_ranks(n)
    found: list[tuple[float, FloatArray, Spline]] = []
    splines = []
    by_scale = {spline.scale: spline for spline in start}
    for scale in by_scale or SCALES:
        basis = _spline_basis(np.array([SCALES[scale](rank) for rank in ranks]))
        of_scale = [*_fit_splines(basis, y, n, odds_range, scale, by_scale.get(scale))]
        splines.append(max(of_scale, key=lambda one: one[0])[2])
        found += of_scale
    evidence = np.array([one[0] for one in found])
    weight = np.exp(evidence - evidence.max())
    p = np.average([one[1] for one in found], axis=0, weights=weight)
    monotone = logit(isotonic(p, n)[0].clip(*expit(np.array([-MAX_LOGIT, MAX_LOGIT]))))
    return np.interp(relative_mid_ranks(rows), ranks, monotone), splines


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


def _fit_splines(
    basis: FloatArray,
    y: FloatArray,
    n: FloatArray,
    odds_range: tuple[float, float],
    scale: str,
    start: Spline | None,
) -> Iterator[tuple[float, FloatArray, Spline]]:
    """The spline of each penalty, or of one, after its evidence (Laplace's approximation) and p."""
    low, high = odds_range
    differences = np.diff(np.eye(basis.shape[1]), 2, axis=0)
    roughness = differences.T @ differences
    theta = np.zeros(basis.shape[1]) if start is None else start.theta

    def fitted(theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """p, the fraction of successes and its slope by the logit of p, all of shape (points,)."""
        p = expit((basis @ theta).clip(-MAX_LOGIT, MAX_LOGIT))
        odds = low + (high - low) * p
        slope = (high - low) * p * (1 - p) / (1 + odds) ** 2
        return p, (odds / (1 + odds)).clip(1e-12, 1 - 1e-12), slope

    for penalty in PENALTIES.tolist() if start is None else (start.penalty,):
        curb = penalty * roughness + RIDGE * np.eye(len(theta))
        for _ in range(NEWTON_STEPS):
            _, fraction, slope = fitted(theta)
            weight = slope / (fraction * (1 - fraction))
            information = (basis.T * (n * slope * weight)) @ basis + curb
            gradient = basis.T @ ((y - n * fraction) * weight) - curb @ theta
            step = np.linalg.solve(information, gradient).clip(-1, 1)
            theta = theta + step
            if np.abs(step).max() < 1e-5:
                break
        p, fraction, _ = fitted(theta)
        evidence = y @ np.log(fraction) + (n - y) @ np.log1p(-fraction)
        evidence -= penalty * theta @ roughness @ theta / 2
        evidence += len(differences) * math.log(penalty) / 2
        evidence -= np.linalg.slogdet(information)[1] / 2
        yield float(evidence), p, Spline(scale, penalty, theta)
