"""A sketch as a few hundred numbers that no increasing transform of the scores changes.

They are what the learned estimator sees: sizes and ties, the ROC curve of labeled against
unlabeled rows, the bounds of best bin estimation and the likelihood profiles of a monotone ratio,
each from both ends of the scores.
"""

from __future__ import annotations

import numpy as np

from ..isotonic import isotonic
from ..sketch import FloatArray, Sketch
from .base import corrected
from .bound import best_bins

# Counts of larger samples are scaled down to these sizes: what is uncertain there is not sampling.
MAX_LABELED, MAX_UNLABELED = 5_000, 30_000
RESOLUTION = 0.02  # cells hold at most this share of the rows between them and the nearer end
WIDTHS = np.array([0.03, 0.1, 0.2, 0.3, 0.5, 1.0])  # of the published width of best bin estimation
DROPS = np.array([0.3, 1.4, 4.0, 10.0])  # of twice the log-likelihood, at which a profile is read
FINE_LOGITS = np.linspace(-9, 9, 361)
FINE = 1 / (1 + np.exp(-FINE_LOGITS))  # the proportions at which a profile is computed
PROPORTIONS = 1 / (1 + np.exp(-np.linspace(-6, 6, 25)))  # at which a profile is tabulated
QUANTILES = 1 / (1 + np.exp(-np.linspace(-7, 7, 29)))  # at which the ROC curve is read
POOLED = np.linspace(0, 1, 21)  # quantiles of all rows between which the ratio is taken


def summarise(sketch: Sketch) -> FloatArray:
    """The features of a sketch, shape (n_features,), all finite."""
    labeled, unlabeled = _coarse(
        sketch.labeled * np.float64(min(1.0, MAX_LABELED / sketch.n_labeled)),
        sketch.unlabeled * np.float64(min(1.0, MAX_UNLABELED / sketch.n_unlabeled)),
    )
    n_labeled, n_unlabeled = labeled.sum(), unlabeled.sum()
    share = _isotonic_share(labeled, unlabeled)
    tops = best_bins(unlabeled[::-1], labeled[::-1], WIDTHS)
    bottoms = best_bins(labeled, unlabeled, WIDTHS)
    top_profile = _profile(labeled, unlabeled, share)
    bottom_profile = _profile(unlabeled[::-1], labeled[::-1], 1 - share[::-1])
    top_drops, bottom_drops = _readings(top_profile), _readings(bottom_profile)
    alpha_plus, beta_plus = np.append(tops, top_drops), np.append(bottoms, bottom_drops)
    alpha_and_beta = np.array(list(map(corrected, alpha_plus, beta_plus)))
    auc = sketch.auc
    spread = np.sqrt((n_labeled + n_unlabeled + 1) / (12 * n_labeled * n_unlabeled))
    cells = (sketch.labeled + sketch.unlabeled) / (sketch.n_labeled + sketch.n_unlabeled)
    return np.concatenate(
        [
            [np.log(n_labeled), np.log(n_unlabeled), auc, np.arcsinh((auc - 0.5) / spread)],
            [cells.max(), cells[0], cells[-1], (cells**2).sum()],
            _logit(np.concatenate([tops, bottoms, top_drops, bottom_drops])),
            _logit(alpha_and_beta.ravel()),
            np.log1p(_at_proportions(top_profile)),
            np.log1p(_at_proportions(bottom_profile)),
            _roc(unlabeled, labeled),
            _roc(labeled, unlabeled),
            _local_ratio(labeled, unlabeled),
        ]
    )


def _logit(share: FloatArray) -> FloatArray:
    share = np.clip(share, 1e-4, 1 - 1e-4)
    return np.asarray(np.log(share / (1 - share)))


def _coarse(labeled: FloatArray, unlabeled: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The counts on fewer cells, single at both ends and ever wider towards the middle."""
    total = labeled + unlabeled
    after = np.cumsum(total)
    rank = after - (total + 1) // 2
    n = after[-1]
    # a step of 1 where ranks are below 1 / RESOLUTION, then a step per RESOLUTION of growth
    from_end = np.maximum(np.minimum(rank, n - 1 - rank), 0) * RESOLUTION
    position = np.where(from_end < 1, from_end, 1 + np.log(np.maximum(from_end, 1))) / RESOLUTION
    last = 2 * (1 + np.log(max(n / 2 * RESOLUTION, 1))) / RESOLUTION + 2
    group = np.floor(np.where(rank < n / 2, position, last - position)).astype(np.int64)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return np.add.reduceat(labeled, starts), np.add.reduceat(unlabeled, starts)


# The likelihood under a monotone ratio


def _isotonic_share(labeled: FloatArray, unlabeled: FloatArray) -> FloatArray:
    """The maximum-likelihood share of labeled rows in each cell, increasing with the score."""
    total = labeled + unlabeled
    return isotonic(labeled / total, total)[0]


def _profile(labeled: FloatArray, unlabeled: FloatArray, share: FloatArray) -> FloatArray:
    """D(r) at each r of FINE, shape (361,): the drop if f ≥ r g everywhere.

    The constrained fit is the isotonic one clipped from above at |L| / (|L| + r|U|), so only the
    blocks above the clip contribute, and cumulative sums over them give all r at once.
    """
    n_labeled, n_unlabeled = labeled.sum(), unlabeled.sum()
    clip = n_labeled / (n_labeled + FINE * n_unlabeled)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(labeled > 0, labeled * np.log(share), 0.0) + np.where(
            unlabeled > 0, unlabeled * np.log1p(-share), 0.0
        )
    first = np.searchsorted(share, clip, side="right")

    def beyond(values: FloatArray) -> FloatArray:
        sums = np.append(np.cumsum(values[::-1])[::-1], 0.0)
        return np.asarray(sums[first])

    clipped = beyond(labeled) * np.log(clip) + beyond(unlabeled) * np.log1p(-clip)
    return np.maximum(2 * (beyond(gain) - clipped), 0.0)


def _readings(profile: FloatArray) -> FloatArray:
    """The proportions at which the profile reaches each of DROPS, shape (drops,)."""
    increasing = np.maximum.accumulate(profile)
    logits = np.interp(DROPS, increasing, FINE_LOGITS)
    return np.asarray(1 / (1 + np.exp(-logits)))


def _at_proportions(profile: FloatArray) -> FloatArray:
    return np.asarray(np.interp(PROPORTIONS, FINE, profile))


# The ROC curve


def _roc(x: FloatArray, y: FloatArray) -> FloatArray:
    """Logits of the share of y below each of QUANTILES of x, shape (quantiles,)."""
    n_x, n_y = x.sum(), y.sum()
    below_x = np.append(0.0, np.cumsum(x)) / n_x
    below_y = np.append(0.0, np.cumsum(y))
    at = np.interp(QUANTILES, below_x, below_y)
    return np.asarray(np.log((at + 0.5) / (n_y - at + 0.5)))


def _local_ratio(labeled: FloatArray, unlabeled: FloatArray) -> FloatArray:
    """Log of g / f between neighbouring quantiles of the pooled samples, shape (bins,)."""
    n_labeled, n_unlabeled = labeled.sum(), unlabeled.sum()
    below_l = np.append(0.0, np.cumsum(labeled)) / n_labeled
    below_u = np.append(0.0, np.cumsum(unlabeled)) / n_unlabeled
    pooled = (below_l + below_u) / 2
    g, f = (np.diff(np.interp(POOLED, pooled, below)) for below in (below_l, below_u))
    return np.asarray(np.log((g + 0.5 / n_labeled) / (f + 0.5 / n_unlabeled)))
