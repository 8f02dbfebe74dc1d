"""Elkan and Noto's estimators, from p(S=1|x) calibrated on the sketch."""

from __future__ import annotations

import numpy as np

from ..numerics import FloatArray, isotonic
from ..score.sketch import Sketch
from .base import Estimate, Settings, register


@register("elkan-noto", options=("elkan_noto_estimator",))
def elkan_noto(sketch: Sketch, settings: Settings) -> Estimate:
    """Elkan-Noto: from the labeling rate c = p(S=1|Y=1); assumes classes that do not overlap.

    c makes |L| / (c n) the share of positives in both samples together. |L| of those are the
    labeled rows, the others the unlabeled positives. Noise in the labels makes their share α / β.
    """
    labeled, rows = calibrated(sketch)
    # Each labeled row is judged by the others of its block: with itself, c would be too large.
    g = np.maximum(labeled - 1, 0) / np.maximum(rows - 1, 1)
    n_labeled = sketch.n_labeled
    # e1 is the mean of g over the labeled rows, e3 the maximum; e2 equals e1 once g is calibrated.
    c = g.max() if settings.elkan_noto_estimator == "e3" else g @ labeled / n_labeled
    odds = (1 - c) / c if c > 0 else np.inf
    alpha_plus = float(np.clip(odds * n_labeled / sketch.n_unlabeled, 0, 1))
    beta = 1.0 if settings.beta is None else settings.beta
    return Estimate(alpha=alpha_plus * beta, beta=beta, alpha_plus=alpha_plus)


def calibrated(sketch: Sketch) -> tuple[FloatArray, FloatArray]:
    """Labeled and all rows in each block of the isotonic regression of S on the score."""
    rows = sketch.labeled + sketch.unlabeled
    _, starts = isotonic(sketch.labeled / rows, rows)
    return np.add.reduceat(sketch.labeled, starts), np.add.reduceat(rows, starts)
