"""Counting decoys: as many wrong matches win against their decoys as decoys win against them."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from ..sketch import Sketch
from .base import Estimate, Interval, Settings, register

COUNTING = "target-decoy"
DRAWS = 100
TAIL = 0.025


@register(COUNTING, needs="matches")
def target_decoy(sketch: Sketch, settings: Settings) -> Estimate:
    """Target-decoy: there are as many wrong targets as decoys, of one best match per spectrum.

    A wrong match is as likely a target as a decoy. So the wrong targets, given the decoys, are as
    many, with twice the variance of a count: their own, and that of the decoys.
    """
    beta = 1.0 if settings.beta is None else settings.beta
    decoys = beta * sketch.n_labeled
    normal = NormalDist()

    def share(quantile: float) -> float:
        wrong = decoys + normal.inv_cdf(quantile) * np.sqrt(2 * decoys)
        return float(np.clip(wrong / sketch.n_unlabeled, 0, beta))

    interval: Interval = (share(TAIL), share(1 - TAIL))
    return Estimate(
        alpha=share(0.5),
        beta=beta,
        alpha_ci=interval,
        beta_ci=(beta, beta),
        alpha_ci_sampling=interval,
        draws=tuple((share((i + 0.5) / DRAWS), beta) for i in range(DRAWS)),
    )
