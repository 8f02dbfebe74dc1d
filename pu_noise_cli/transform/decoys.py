"""Which features tell decoys from targets that are surely wrong, which none should."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .base import Training

MOST = 3  # features that are named
CLEAR = 4.0  # standard errors between the means


def telling_features(
    training: Training, scores: NDArray[np.float64], names: Sequence[str]
) -> tuple[str, ...]:
    """The features whose means differ most between decoys and targets that look like them.

    Scores, shape (n,), are high for decoys; those above their median are looked at, and the targets
    there, of which nearly all are wrong.
    """
    alike = scores >= np.median(scores[training.labeled])
    decoys, targets = (
        training.features[alike & of] for of in (training.labeled, ~training.labeled)
    )
    if min(len(decoys), len(targets)) < 2:
        return ()
    variance = sum(part.var(0, dtype=np.float64) / len(part) for part in (decoys, targets))
    apart = decoys.mean(0, dtype=np.float64) - targets.mean(0, dtype=np.float64)
    clear = np.abs(apart) / np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))
    clear[variance == 0] = 0
    order = np.argsort(-clear, kind="stable")[:MOST]
    return tuple(names[i] for i in order if clear[i] >= CLEAR)
