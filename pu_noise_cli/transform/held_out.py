"""Who is held out of what: folds and bootstraps that never split a group."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, factorial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import EstimationError
from .base import Model, Progress, Training
from .threads import in_threads

Part = TypeVar("Part", bound=Model)

# counts of a Poisson distribution of mean 1, each as often as it is probable: to draw by place is
# many times as fast as to draw from the distribution
POISSON = np.repeat(
    np.arange(9, dtype=np.uint8),
    np.diff([round((1 << 16) * sum(exp(-1) / factorial(j) for j in range(i))) for i in range(10)]),
)


class Units:
    """The units of resampling: groups where there are groups, else single rows."""

    def __init__(self, training: Training, learned: NDArray[np.bool_] | None = None) -> None:
        """Units of all rows; of a kind are those with a row of it to learn from."""
        n = len(training.labeled)
        if training.groups is None:
            self.of_row = np.arange(n)
        else:
            self.of_row = np.unique(training.groups, return_inverse=True)[1].reshape(n)
        self.size = np.bincount(self.of_row)
        rows = np.ones(n, bool) if learned is None else learned
        self.has_labeled = np.bincount(self.of_row, weights=training.labeled & rows) > 0
        self.has_unlabeled = np.bincount(self.of_row, weights=~training.labeled & rows) > 0
        self.fewest = int(min(self.has_labeled.sum(), self.has_unlabeled.sum()))
        if self.fewest < 2:
            unit = "rows" if training.groups is None else "groups"
            raise EstimationError(
                f"no row could be scored without having been seen: "
                f"at least 2 {unit} must hold labeled and 2 unlabeled rows"
            )

    def folds(self, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """The fold, 0 to count - 1, of each unit; both kinds of row are dealt out evenly."""
        # units with both kinds stand between the others, so each kind is dealt in one sweep
        kind = self.has_unlabeled.astype(np.int8) - self.has_labeled
        order = np.lexsort((rng.random(len(kind)), -self.size, kind))
        fold = np.empty(len(order), dtype=np.intp)
        fold[order] = np.arange(len(order)) % count
        return fold

    def bootstrap(
        self, count: int, allowed: NDArray[np.bool_], rng: np.random.Generator
    ) -> NDArray[np.uint8]:
        """How often each row is in each of count bootstrap samples of the allowed units.

        Shape (n, count). Poisson counts; a sample is drawn again until it holds both kinds of row.
        """
        drawn = np.zeros((len(self.size), count), dtype=np.uint8)
        open_ = np.arange(count)
        while len(open_):
            places = rng.integers(len(POISSON), size=(len(self.size), len(open_)), dtype=np.uint16)
            drawn[:, open_] = POISSON.take(places) * allowed[:, None]
            in_bag = drawn[:, open_] > 0
            both = in_bag[self.has_labeled].any(0) & in_bag[self.has_unlabeled].any(0)
            open_ = open_[~both]
        return drawn[self.of_row]


def balanced(labeled: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Weights of rows, shape (n,), that give labeled and unlabeled rows the same total, n / 2."""
    share = labeled.mean()
    return np.where(labeled, 0.5 / share, 0.5 / (1 - share))


def out_of_fold(
    fit: Callable[[int], Part],
    training: Training,
    fold: NDArray[np.intp],
    threads: int,
    progress: Progress,
) -> tuple[list[Part], NDArray[np.float64]]:
    """fit(fold) of each fold, and the scores of its rows, shape (n,), by that."""

    def one(held_out: int) -> tuple[Part, NDArray[np.float64]]:
        part = fit(held_out)
        return part, part.predict(training.features[fold == held_out])

    found = in_threads(one, range(fold.max() + 1), threads, progress)
    scores = np.empty(len(fold))
    for held_out, (_, its) in enumerate(found):
        scores[fold == held_out] = its
    return [part for part, _ in found], scores
