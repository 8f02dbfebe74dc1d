"""Honest scores for grouped rows that are too many to train on.

Where only a sample is trained on, its model has seen the groups of other rows. So the groups are
dealt into folds, and the rows of a fold are scored by a model that was trained without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import EstimationError
from .base import Fit, Matrix, Model, Training

FOLDS = 3


@dataclass(frozen=True)
class GroupFolds:
    """Folds of groups by name: those with labeled rows dealt out evenly, the rest by a hash."""

    dealt: dict[str, int]
    seed: int

    @classmethod
    def of(cls, groups: pa.Array, labeled: NDArray[np.bool_], seed: int) -> GroupFolds:
        """Folds such that each has labeled rows, if there are enough groups with any."""
        names = pc.unique(groups.filter(pa.array(labeled))).to_pylist()
        names.sort(key=lambda name: _hash(name, seed))
        return cls({name: i % FOLDS for i, name in enumerate(names)}, seed)

    def fold(self, groups: pa.Array) -> NDArray[np.int64]:
        """The fold of each row, shape (n,)."""
        coded = groups.dictionary_encode()
        folds = [
            self.dealt.get(name, _hash(name, self.seed) % FOLDS)
            for name in coded.dictionary.to_pylist()
        ]
        return np.array(folds, np.int64)[np.asarray(coded.indices)]


def _hash(name: str, seed: int) -> int:
    digest = blake2b(name.encode(), digest_size=8, salt=(seed % (1 << 64)).to_bytes(8)).digest()
    return int.from_bytes(digest)


@dataclass(frozen=True)
class CrossFit:
    """One model for each fold, trained on the rows of the others."""

    folds: GroupFolds
    models: tuple[Model, ...]

    def predict(self, features: Matrix, groups: pa.Array) -> NDArray[np.float64]:
        """Scores of shape (n,), each by the model that has not seen the row's group."""
        fold = self.folds.fold(groups)
        scores = np.empty(len(features))
        for number, model in enumerate(self.models):
            scores[fold == number] = model.predict(features[fold == number])
        return scores


def cross_fit(
    training: Training, names: pa.Array, seed: int, fit: Callable[[Training, int], Fit]
) -> CrossFit:
    """Fit a model for each fold of the groups; names has the group of each training row."""
    folds = GroupFolds.of(names, training.labeled, seed)
    if len(folds.dealt) < FOLDS:
        raise EstimationError(
            f"{len(folds.dealt)} groups hold labeled rows; where only a sample of the rows is "
            f"trained on (--max-train-rows), {FOLDS} are needed"
        )
    fold = folds.fold(names)
    models = []
    for number in range(FOLDS):
        seen = fold != number
        groups = None if training.groups is None else training.groups[seen]
        part = Training(training.features[seen], training.labeled[seen], groups)
        models.append(fit(part, number).model)
    return CrossFit(folds, tuple(models))
