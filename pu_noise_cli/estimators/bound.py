"""Best bin estimation (BBE, Garg et al. 2021) from both ends of the scores."""

from __future__ import annotations

import numpy as np

from ..sketch import FloatArray, IntArray, Sketch
from .base import Estimate, Settings, corrected, register

WIDTH = np.array([0.3])  # of the published confidence width, which is wider than it need be


def best_bins(
    mixture: FloatArray | IntArray, component: FloatArray | IntArray, widths: FloatArray
) -> FloatArray:
    """The largest share of the component in the mixture, one bound for each of the widths.

    Counts have shape (cells,), the cells where the component is purest first.
    """
    best = best_thresholds(mixture, component, widths)
    shares = [np.cumsum(counts) / float(counts.sum()) for counts in (mixture, component)]
    return np.asarray(np.minimum(shares[0][best] / shares[1][best], 1.0))


def best_thresholds(
    mixture: FloatArray | IntArray, component: FloatArray | IntArray, widths: FloatArray
) -> IntArray:
    """The last cell above the best threshold for each of the widths.

    The ratio of the samples' shares above a threshold bounds the proportion; the best threshold has
    the least ratio plus width.
    """
    n_mixture, n_component = float(mixture.sum()), float(component.sum())
    above = np.cumsum(component) / n_component
    seen = above > 0
    ratio = (np.cumsum(mixture) / n_mixture)[seen] / above[seen]
    width = 1.01 * np.sqrt(np.log(40) / 2) * (n_mixture**-0.5 + n_component**-0.5)
    best = np.argmin(ratio + widths[:, None] * width / above[seen], axis=1)
    return np.asarray(np.flatnonzero(seen)[best])


@register("bound")
def bound(sketch: Sketch, settings: Settings) -> Estimate:
    """Best bin estimation from both ends of the scores, with the paper's correction."""
    alpha_plus = float(best_bins(sketch.unlabeled[::-1], sketch.labeled[::-1], WIDTH)[0])
    beta_plus = float(best_bins(sketch.labeled, sketch.unlabeled, WIDTH)[0])
    if settings.beta is not None:
        return Estimate(alpha_plus * settings.beta, settings.beta, alpha_plus, beta_plus)
    return Estimate(*corrected(alpha_plus, beta_plus), alpha_plus, beta_plus)
