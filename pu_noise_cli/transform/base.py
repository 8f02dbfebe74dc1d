"""What a classifier takes and gives, and the registry that each enters where it is defined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Arrays = dict[str, NDArray[np.generic]]
MAX_WEIGHT = 1e15  # of a stored model: sums of such stay finite in 32 bits
Progress = Callable[[float], None]  # called with the share of the work that is done


def check_weights(weights: NDArray[np.generic], shape: tuple[int, ...]) -> None:
    """Stop with a ValueError unless weights have a shape and are finite and not huge."""
    if weights.shape != shape:
        raise ValueError(f"weights of shape {weights.shape}, not {shape}")
    if not (np.abs(weights.astype(np.float64)) <= MAX_WEIGHT).all():
        raise ValueError("weights that are no numbers, or too large")


@dataclass(frozen=True)
class Training:
    """The rows to learn from. Feature values are finite, standardised and of moderate size."""

    features: Matrix  # (n, d)
    labeled: NDArray[np.bool_]  # (n,)
    groups: NDArray[np.int64] | None = None  # (n,): rows of one group are never split


class Model(Protocol):
    """A trained classifier that scores rows it has not seen and can be stored as plain arrays."""

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,), that rank as p(S=1|x) does."""

    def arrays(self) -> Arrays:
        """All there is to store, none of it of object type."""

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The model that arrays() came from."""

    def check(self, d: int) -> None:
        """Stop with a ValueError unless it can score rows of d features; it may be a stranger's."""


@dataclass(frozen=True)
class Fit:
    """A model with the score of each training row by those of its parts that did not see it."""

    model: Model
    scores: NDArray[np.float64]  # (n,), out-of-bag or out-of-fold


class Train(Protocol):
    """Trains a model; the same seed gives the same bytes for any number of threads."""

    def __call__(
        self, training: Training, *, seed: int, threads: int, progress: Progress
    ) -> Fit: ...


@dataclass(frozen=True)
class Classifier:
    """A named way to tell labeled from unlabeled rows, and the kind of model that it gives."""

    name: str
    train: Train
    model: type[Model]


CLASSIFIERS: dict[str, Classifier] = {}


def register(name: str, model: type[Model]) -> Callable[[Train], Train]:
    """Enter a classifier under its name."""

    def enter(function: Train) -> Train:
        CLASSIFIERS[name] = Classifier(name, function, model)
        return function

    return enter
