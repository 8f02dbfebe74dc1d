"""Best bin estimation (BBE, Garg et al. 2021) from both ends of the scores."""

from __future__ import annotations

import numpy as np

from ..sketch import IntArray, Sketch
from .base import Estimate, Settings, corrected, register

WIDTH = 0.3  # of the published confidence width, which is wider than it need be


def top_share(mixture: IntArray, component: IntArray) -> float:
    """The largest share of the component in the mixture, from the cells where it is purest.

    Counts have shape (cells,), the cells where the component is purest first. Over thresholds, the
    ratio of the samples' shares above it bounds the proportion; the best threshold has the least
    ratio plus width.
    """
    n_mixture, n_component = mixture.sum(), component.sum()
    above = np.cumsum(component) / n_component
    seen = above > 0
    ratio = (np.cumsum(mixture) / n_mixture)[seen] / above[seen]
    width = 1.01 * (np.sqrt(np.log(40) / (2 * n_mixture)) + np.sqrt(np.log(40) / (2 * n_component)))
    return float(min(ratio[np.argmin(ratio + WIDTH * width / above[seen])], 1.0))


@register("bound")
def bound(sketch: Sketch, settings: Settings) -> Estimate:
    """Best bin estimation from both ends of the scores, with the paper's correction."""
    alpha_plus = top_share(sketch.unlabeled[::-1], sketch.labeled[::-1])
    beta_plus = top_share(sketch.labeled, sketch.unlabeled)
    if settings.beta is not None:
        return Estimate(alpha_plus * settings.beta, settings.beta, alpha_plus, beta_plus)
    return Estimate(*corrected(alpha_plus, beta_plus), alpha_plus, beta_plus)
