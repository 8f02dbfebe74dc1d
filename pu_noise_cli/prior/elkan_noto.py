"""Elkan and Noto's estimators, from p(S=1|x) calibrated on the sketch."""

from __future__ import annotations

import numpy as np

from ..numerics import FloatArray, isotonic
from ..score.sketch import Sketch
from .base import Estimate, Settings, register


@register("elkan-noto")
def elkan_noto(sketch: Sketch, settings: Settings) -> Estimate:
    """Elkan-Noto: from the labeling rate c = p(S=1|Y=1); assumes classes that do not overlap.

    This is the estimator e1, the mean of p(S=1|x) over the labeled rows; e2 equals it once p is
    calibrated.
    """
    labeled, g = _calibrate(sketch)
    return _from_rate(sketch, settings, float(g @ labeled / sketch.n_labeled))


@register("elkan-noto:e3")
def elkan_noto_e3(sketch: Sketch, settings: Settings) -> Estimate:
    """Elkan-Noto with the estimator e3 of the labeling rate: the maximum of p(S=1|x)."""
    return _from_rate(sketch, settings, float(_calibrate(sketch)[1].max()))


def _calibrate(sketch: Sketch) -> tuple[FloatArray, FloatArray]:
    """Labeled rows and p(S=1|x) in each block of the isotonic regression of S on the score.

    Each labeled row is judged by the other rows of its block: with itself, c would be too large.
    """
    rows = sketch.labeled + sketch.unlabeled
    _, starts = isotonic(sketch.labeled / rows, rows)
    labeled, rows = np.add.reduceat(sketch.labeled, starts), np.add.reduceat(rows, starts)
    return labeled, np.maximum(labeled - 1, 0) / np.maximum(rows - 1, 1)


def _from_rate(sketch: Sketch, settings: Settings, c: float) -> Estimate:
    """The estimate for a labeling rate c.

    A fraction |L| / (c n) of both samples together is positive: |L| labeled rows, and the unlabeled
    positives. With wrong labels, the fraction of the latter is α / β.
    """
    odds = (1 - c) / c if c > 0 else np.inf
    alpha_plus = float(np.clip(odds * sketch.n_labeled / sketch.n_unlabeled, 0, 1))
    beta = 1.0 if settings.beta is None else settings.beta
    return Estimate(alpha=alpha_plus * beta, beta=beta, alpha_plus=alpha_plus)
