"""Published estimators of the class prior, from their papers, on the scores our methods see.

Each takes the labeled rows as clean positives and gives the share of positives among the unlabeled
rows; with noise in the labels they aim at α / β.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pu_noise_cli.score.sketch import Sketch

FloatArray = NDArray[np.float64]


def bbe(sketch: Sketch) -> float:
    """Best bin estimation (Garg et al. 2021) at its published width, γ = 0.01 and δ = 0.1."""
    q_u = np.cumsum(sketch.unlabeled[::-1]) / sketch.n_unlabeled
    q_l = np.cumsum(sketch.labeled[::-1]) / sketch.n_labeled
    q_u, q_l = q_u[q_l > 0], q_l[q_l > 0]
    width = np.sqrt(np.log(40) / 2) * (sketch.n_unlabeled**-0.5 + sketch.n_labeled**-0.5)
    best = np.argmin(q_u / q_l + 1.01 * width / q_l)
    return float(min(q_u[best] / q_l[best], 1))


def dedpul(sketch: Sketch) -> float:
    """DEDPUL (Ivanov 2020): the ratio of kernel densities on U, made monotone; then its EM.

    Where EM ends at 0, the α at which the excess of α over the mean posterior bends most.
    """
    from scipy.ndimage import median_filter
    from scipy.optimize import isotonic_regression
    from scipy.special import logit

    within = sketch.scores[0] >= 0 and sketch.scores[-1] <= 1
    values = logit(np.clip(sketch.scores, 1e-6, 1 - 1e-6)) if within else sketch.scores
    f_l, f_u = (_density(values, counts) for counts in (sketch.labeled, sketch.unlabeled))
    on_u = np.repeat(f_l / np.maximum(f_u, 1e-12), sketch.unlabeled)  # in the order of the scores
    size = max(3, len(on_u) // 20)
    smooth = isotonic_regression(median_filter(on_u, size)).x
    ratio = smooth / smooth.mean()

    def posterior_mean(alpha: float) -> float:
        return float(np.minimum(alpha * ratio, 1).mean())

    alpha, previous = 1.0, 2.0
    for _ in range(5000):
        previous, alpha = alpha, posterior_mean(alpha)
        if previous - alpha < 1e-6:
            break
    if alpha > 0.01:
        return alpha
    grid = np.linspace(0, 1, 201)
    excess = grid - np.array([posterior_mean(a) for a in grid])
    return float(grid[1 + np.argmax(np.diff(excess, 2))])


def _density(values: FloatArray, counts: NDArray[np.int64]) -> FloatArray:
    """A normal kernel density at each value, by Silverman's rule, through a fine histogram."""
    from scipy.ndimage import gaussian_filter1d

    n = counts.sum()
    mean = values @ counts / n
    deviation = np.sqrt((values - mean) ** 2 @ counts / n)
    width = max(0.9 * deviation * n**-0.2, 1e-6 * (np.ptp(values) + 1e-300))
    low, high = values.min() - 4 * width, values.max() + 4 * width
    bins = int(np.clip(8 * (high - low) / width, 64, 1 << 16))
    place = ((values - low) / (high - low) * (bins - 1)).astype(int)
    smooth = gaussian_filter1d(np.bincount(place, counts, bins), width / (high - low) * bins)
    return np.asarray(smooth[place] / n / (high - low) * bins)


def tice(sketch: Sketch) -> float:
    """TIcE (Bekker and Davis 2018) on the score: the best lower bound on a leaf's labeled share."""
    labeled = sketch.labeled.astype(float)
    total = labeled + sketch.unlabeled
    n = total.sum()
    delta = max(0.025, 1 / (1 + 0.004 * n))

    def lower_bound(found: float, size: float) -> float:
        return found / size - np.sqrt(0.25 * (1 - delta) / (delta * size))

    best, first, last = lower_bound(labeled.sum(), n), 0, len(total)
    while last - first > 1:  # into the quarter richest in labeled rows
        mass = np.cumsum(total[first:last])
        cuts = np.searchsorted(mass, mass[-1] * np.array([0.25, 0.5, 0.75])) + 1 + first
        edges = np.unique([first, *np.minimum(cuts, last), last])
        parts = list(itertools.pairwise(edges))
        found = [labeled[a:b].sum() for a, b in parts]
        size = [total[a:b].sum() for a, b in parts]
        best = max(best, *map(lower_bound, found, size))
        if len(parts) == 1:
            break
        first, last = parts[int(np.argmax(np.divide(found, size)))]
    # the labeled share of the positives, c, gives the positives among all rows: n_labeled / c
    positives = sketch.n_labeled / min(max(best, 1e-9), 1)
    return float(np.clip((positives - sketch.n_labeled) / sketch.n_unlabeled, 0, 1))


PEERS: dict[str, Callable[[Sketch], float]] = {
    "BBE": bbe,
    "DEDPUL": dedpul,
    "TIcE": tice,
}
