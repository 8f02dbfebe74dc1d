"""The one of several classifiers that does best on rows that it has not seen.

Means of several classifiers were tried too, and were no better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .base import CLASSIFIERS, Arrays, Fit, Matrix, Model, Progress, Training, register
from .held_out import balanced

# without the forest, which had the lowest log-loss on none of the data sets it was tried on
CANDIDATES = ("networks", "boosting", "logistic")
FEW_LABELED = 300  # rows, with which a linear score may be all that can be learned


@dataclass(frozen=True)
class Chosen:
    """A model of one of the candidates."""

    kind: str
    model: Model

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        return self.model.predict(features)

    def arrays(self) -> Arrays:
        """All there is to store."""
        return {"kind": np.array(self.kind), **self.model.arrays()}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The model that arrays() came from."""
        kind = str(arrays["kind"])
        if kind not in CANDIDATES:
            raise ValueError("a model of one of the candidates")
        return cls(kind, CLASSIFIERS[kind].model.from_arrays(arrays))

    def check(self, d: int) -> None:
        """Stop with a ValueError unless it can score rows of d features."""
        self.model.check(d)


@register("standard", Chosen)
def standard(training: Training, *, seed: int, threads: int, progress: Progress) -> Fit:
    """Networks; with few labeled rows, logistic regression where that does better."""
    few = int(training.labeled.sum()) <= FEW_LABELED
    return _best(
        ("networks", "logistic") if few else ("networks",), training, seed, threads, progress
    )


@register("auto", Chosen)
def auto(training: Training, *, seed: int, threads: int, progress: Progress) -> Fit:
    """The best of networks, boosting and logistic regression."""
    return _best(CANDIDATES, training, seed, threads, progress)


def _best(
    kinds: Sequence[str], training: Training, seed: int, threads: int, progress: Progress
) -> Fit:
    """The candidate whose out-of-bag or out-of-fold scores have the lowest log-loss."""
    fits = {}
    for done, kind in enumerate(kinds):

        def part(share: float, done: int = done) -> None:
            progress((done + share) / len(kinds))

        fits[kind] = CLASSIFIERS[kind].train(training, seed=seed, threads=threads, progress=part)
    best = min(fits, key=lambda kind: log_loss(fits[kind].scores, training.labeled))
    return Fit(Chosen(best, fits[best].model), fits[best].scores)


def log_loss(scores: NDArray[np.float64], labeled: NDArray[np.bool_]) -> float:
    """The mean log-loss of scores, shape (n,), both kinds of row weighing the same."""
    right = np.where(labeled, scores, 1 - scores)
    tiny = np.finfo(np.float64).tiny
    return float(-np.average(np.log(np.maximum(right, tiny)), weights=balanced(labeled)))
