"""AlphaMax: the largest fraction of one sample's distribution that fits inside another's.

The paper's constrained likelihood (appendix, "AlphaMax") on a histogram separates over the bins, so
the whole curve over the mixing proportion r is solved exactly as one array, without an optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics import FloatArray, IntArray
from ..score.sketch import Sketch
from .base import Curve, Estimate, Settings, register

# Even in the middle and geometric towards both ends, so that 0.001 and 0.999 can be found.
_END = np.geomspace(0.0005, 0.009, 20)
GRID = np.concatenate([_END, np.linspace(0.01, 0.99, 99), 1 - _END[::-1]])

MAX_SCOTT_ROWS = 10_000  # more rows no longer narrow the bins: the cost of a curve stays what it is
LEVELS = (0.25, 1.0, 2.0)  # of the likelihood drop per bin, from noise to a clear misfit
MIN_BIN_ROWS = 10  # the drop of a bin with fewer rows is far from chi-square

Histogram = tuple[FloatArray, FloatArray]  # counts of the mixture and of the component, (bins,)
Elbow = Callable[[Curve, FloatArray, FloatArray], float]  # of a curve, mixture and component


@register("alphamax")
def alphamax(sketch: Sketch, settings: Settings) -> Estimate:
    """AlphaMax: nonparametric, takes all labels as correct unless beta is known."""
    return _one_way(sketch, settings, robust_elbow)


@register("alphamax:authors")
def alphamax_authors(sketch: Sketch, settings: Settings) -> Estimate:
    """AlphaMax with the elbow of its authors' program."""
    return _one_way(sketch, settings, authors_elbow)


@register("alphamax-n")
def alphamax_n(sketch: Sketch, settings: Settings) -> Estimate:
    """AlphaMax-N: nonparametric, AlphaMax both ways and the paper's correction for noisy labels."""
    return both_ways(*_histograms(sketch), settings, robust_elbow)


@register("alphamax-n:authors")
def alphamax_n_authors(sketch: Sketch, settings: Settings) -> Estimate:
    """AlphaMax-N with the elbow of its authors' program."""
    return both_ways(*_histograms(sketch), settings, authors_elbow)


def correct_for_noise(alpha_plus: float, beta_plus: float) -> tuple[float, float]:
    """α* and β* from the two maximal proportions (equation 5 of the paper)."""
    rest = 1 - alpha_plus * beta_plus
    if rest <= 0:  # indistinguishable samples: each is all of the other
        return 0.5, 0.5
    return alpha_plus * (1 - beta_plus) / rest, (1 - beta_plus) / rest


def _one_way(sketch: Sketch, settings: Settings, elbow: Elbow) -> Estimate:
    mixture, component = histogram(sketch.scores, sketch.unlabeled, sketch.labeled)
    alpha_plus, curve = maximal_proportion(mixture, component, elbow)
    beta = 1.0 if settings.beta is None else settings.beta
    return Estimate(
        alpha=alpha_plus * beta,  # α⁺ = α / β
        beta=beta,
        alpha_plus=alpha_plus,
        curves={"alpha_plus": curve},
    )


def _histograms(sketch: Sketch) -> tuple[Histogram, Histogram]:
    """Labeled in unlabeled rows, and unlabeled in labeled rows."""
    return (
        histogram(sketch.scores, sketch.unlabeled, sketch.labeled),
        histogram(sketch.scores, sketch.labeled, sketch.unlabeled),
    )


def both_ways(
    labeled_in_unlabeled: Histogram,
    unlabeled_in_labeled: Histogram,
    settings: Settings,
    elbow: Elbow,
) -> Estimate:
    """α* and β* from the histograms of the two directions."""
    alpha_plus, alpha_curve = maximal_proportion(*labeled_in_unlabeled, elbow)
    beta_plus, beta_curve = maximal_proportion(*unlabeled_in_labeled, elbow)
    if settings.beta is None:
        alpha, beta = correct_for_noise(alpha_plus, beta_plus)
    else:
        alpha, beta = alpha_plus * settings.beta, settings.beta
    return Estimate(
        alpha=alpha,
        beta=beta,
        alpha_plus=alpha_plus,
        beta_plus=beta_plus,
        curves={"alpha_plus": alpha_curve, "beta_plus": beta_curve},
    )


def maximal_proportion(
    mixture: FloatArray, component: FloatArray, elbow: Elbow
) -> tuple[float, Curve]:
    """The largest fraction of the component in the mixture, from bin counts of shape (bins,)."""
    curve = Curve(GRID, log_likelihood(mixture, component, GRID))
    return elbow(curve, mixture, component), curve


# The histogram


def bin_width(scores: FloatArray, counts: IntArray) -> float:
    """MATLAB's default: Scott's rule rounded to 1, 2, 3 or 5 times a power of ten; 0 if all tie."""
    n = counts.sum()
    deviation = scores - scores @ counts / n
    width = 3.5 * np.sqrt(deviation**2 @ counts / n) * min(n, MAX_SCOTT_ROWS) ** (-1 / 3)
    if width < 1e-12:  # of scores scaled to at most 10: rounding error
        return 0.0
    power = 10.0 ** np.floor(np.log10(width))
    step = [1, 2, 3, 5, 10][np.searchsorted([1.5, 2.5, 4, 7.5], width / power, side="right")]
    return float(step * power)


def histogram(scores: FloatArray, mixture: IntArray, component: IntArray) -> Histogram:
    """Counts of the mixture and of the component, shapes (bins,), from counts at sorted scores.

    The paper's bins: of the component's width, over the range of both.
    """
    magnitude = np.log10(max(np.abs(scores).max(), 1e-300))
    scores = scores / 10.0 ** np.floor(magnitude)  # 1e300 squared is too large a number
    width = bin_width(scores, component) or bin_width(scores, mixture) or 1.0
    _, bin_of = np.unique(np.floor(scores / width), return_inverse=True)
    return count(bin_of, mixture, component)


def count(bin_of: IntArray, mixture: IntArray, component: IntArray) -> Histogram:
    """Counts of both samples in the occupied bins, numbered such that neighbors are alike.

    Sparse bins are pooled. Bins without component rows have the same optimal ω and count as one.
    Where the component has rows and the mixture none, half a row: with none no r is possible.
    """
    bin_of = _pool_bins(np.bincount(bin_of, mixture + component))[bin_of]
    m, c = (np.bincount(bin_of, counts).astype(np.float64) for counts in (mixture, component))
    bare = c == 0
    m = np.append(np.maximum(m[~bare], 0.5), m[bare].sum())
    c = np.append(c[~bare], 0.0)
    return (m, c) if m[-1] else (m[:-1], c[:-1])


def _pool_bins(rows: NDArray[Any]) -> IntArray:
    """The group of each bin: neighbors, from both ends inwards, until they have enough rows."""
    middle = int(np.searchsorted(np.cumsum(rows), rows.sum() / 2))
    groups: list[int] = []
    for side in (rows[:middle], rows[middle:][::-1]):
        group, size, groups_of_side = len(groups), 0.0, []
        for n in side:
            groups_of_side.append(group)
            size += n
            if size >= MIN_BIN_ROWS:
                group, size = group + 1, 0.0
        groups += groups_of_side
    return np.concatenate([groups[:middle], groups[middle:][::-1]]).astype(np.int64)


# The curve


def log_likelihood(
    mixture: FloatArray,
    component: FloatArray,
    r: FloatArray,
    mixture_weight: float = 1.0,
    component_weight: float = 1.0,
) -> FloatArray:
    """The maximal log-likelihood at each proportion r, shape (n_r,); r strictly within (0, 1).

    With v, c the bin shares of the two samples and p = ωv, it is the maximum over p of
    Σ u log(r c + v - p) + w log(p / r) under Σp = r and 0 ≤ p ≤ v, for (u, w) the weighted counts.
    The stationary p of a bin is the root of a quadratic, decreasing in the multiplier λ of Σp = r,
    so each r is one root-find in λ. The mixture must have rows in each bin.
    """
    u, w = mixture_weight * mixture, component_weight * component
    v, c = mixture / mixture.sum(), component / component.sum()
    n_u, n_w = u.sum(), w.sum()

    # λ(t) = n_w / t - n_u / (1 - t) maps (0, 1) onto all λ, and the solution is not far from t = r.
    t, low, high = r.copy(), np.zeros_like(r), np.ones_like(r)
    p, gap = np.empty((len(r), len(v))), np.empty_like(r)
    todo = np.arange(len(r))
    for _ in range(100):
        at, goal = t[todo], r[todo]
        p[todo], slope = _stationary(u, w, v, c, goal, n_w / at - n_u / (1 - at))
        miss = gap[todo] = p[todo].sum(1) - goal
        low[todo] = np.where(miss < 0, at, low[todo])
        high[todo] = np.where(miss > 0, at, high[todo])
        with np.errstate(divide="ignore", invalid="ignore"):  # no slope: all p are at their bounds
            newton = at + miss / (slope * (n_w / at**2 + n_u / (1 - at) ** 2))
        inside = (newton > low[todo]) & (newton < high[todo])
        missed = np.abs(miss) > 1e-10
        if not missed.any():
            break
        t[todo] = np.where(missed, np.where(inside, newton, (low + high)[todo] / 2), at)
        todo = todo[missed]

    seen = w > 0
    value = np.log(r[:, None] * c + v - p) @ u + np.log(p[:, seen]) @ w[seen] - n_w * np.log(r)
    # To second order, this makes up for what Σp misses of r.
    return np.asarray(value - (n_w / t - n_u / (1 - t)) * gap)


def _stationary(
    u: FloatArray,
    w: FloatArray,
    v: FloatArray,
    c: FloatArray,
    r: FloatArray,
    multiplier: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """p where w/p - u/(r c + v - p) = λ, but at most v, and the sum over the bins of dp/dλ.

    r and λ have shape (n_r,), as has the sum; p has shape (n_r, bins).
    """
    total, multiplier = r[:, None] * c + v, multiplier[:, None]
    b = multiplier * total + (u + w)
    root = np.sqrt((multiplier * total + (u - w)) ** 2 + 4 * u * w)
    with np.errstate(divide="ignore", invalid="ignore"):  # each form where the other is 0 / 0
        p = np.where(b > 0, 2 * w * total / (b + root), (b - root) / (2 * multiplier))
        slope = np.where(p < v, -p * (total - p) / root, 0.0)
    return np.minimum(p, v), slope.sum(1)


# The elbow


def robust_elbow(curve: Curve, mixture: FloatArray, component: FloatArray) -> float:
    """The vertex of the parabola that the likelihood drop follows beyond the elbow.

    Up to the true proportion the drop D = 2 (max - log-likelihood) is noise, at most about a half
    per bin; beyond it, a quadratic comes on top. The parabola goes through D of LEVELS per bin.
    """
    r, bins = curve.proportion, np.count_nonzero(component)
    # The curve takes both histograms as exact: a misfit Δ costs Δ²(x + y), for x and y the two
    # samples' precisions. It is worth Δ² / (1/x + 1/y), less by (1 + ρ)² / ρ with ρ = x / y.
    rho = r * mixture.sum() / component.sum()
    drop = 2 * (curve.log_likelihood.max() - curve.log_likelihood) * rho / (1 + rho) ** 2
    drop = np.maximum.accumulate(np.append(0.0, np.maximum(drop, 0.0))) / bins
    near, middle, far = np.interp(np.sqrt(LEVELS), np.sqrt(drop), np.append(0.0, r))
    if far - middle < 1e-9 or middle - near < 1e-9:  # a cliff, or the samples hardly differ
        return float(near)
    slope = (LEVELS[1] - LEVELS[0]) / (middle - near)
    bend = ((LEVELS[2] - LEVELS[1]) / (far - middle) - slope) / (far - near)
    vertex = (near + middle) / 2 - slope / (2 * bend) if bend > 0 else 0.0
    # Not before the vertex of the parabola that starts at D = 0: a drop without any noise.
    steepness = np.sqrt(LEVELS[2] / LEVELS[0]) - 1
    return float(np.clip(vertex, max(near - (far - near) / steepness, 0.0), near))


def authors_elbow(_: Curve, mixture: FloatArray, component: FloatArray) -> float:
    """The elbow as the authors' program finds it: never below 0.10 nor above 0.89.

    Lines are fitted below the curve to the ten points either side of each; the elbow has the
    largest change of slope relative to the height already reached.
    """
    r, side = np.linspace(0.01, 0.99, 99), 10
    f = -log_likelihood(mixture, component, r, 1 / mixture.sum(), 1 / component.sum())
    f = np.maximum.accumulate(f)
    padded = np.pad(f, 2, mode="edge")
    f = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    f = (f - f[0]) / (f[-1] - f[0] or 1.0)
    slope = _slopes_below(r, f, side)  # of the line over r[j : j + side]
    height = np.median(np.lib.stride_tricks.sliding_window_view(f, side), axis=1)
    sharpness = (slope[side:] - slope[:-side]) / (height[:-side] + 0.01)
    return float(r[np.argmax(sharpness) + side - 1])


def _slopes_below(x: FloatArray, y: FloatArray, side: int) -> FloatArray:
    """Slope of the least-squares line over each `side` points that is nowhere above the curve.

    Such a line touches the curve: try it through every point (axis 1) of every window (axis 0).
    """
    dx, dy = x - x[:, None], y - y[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        secant = dy / dx
    steepest = np.where(dx > 0, secant, np.inf).min(1)
    flattest = np.where(dx < 0, secant, -np.inf).max(1)
    flattest = np.maximum(flattest, 0.01 * (y[-1] - y[0]) / (x[-1] - x[0]))
    windows = np.lib.stride_tricks.sliding_window_view
    dx, dy = windows(dx, side, axis=1), windows(dy, side, axis=1)  # (points, windows, side)
    slope = (dx * dy).sum(2) / (dx * dx).sum(2)
    slope = np.clip(slope, flattest[:, None], np.maximum(steepest, flattest)[:, None])
    error = ((dy - slope[..., None] * dx) ** 2).sum(2)
    error[flattest > steepest] = np.inf
    best = error.argmin(0)
    return slope[best, np.arange(slope.shape[1])]
