"""What a classifier takes and gives, and the registry that each enters where it is defined.

Who is held out of what: folds and bootstraps that never split a group.

Logistic regression.

The one of several classifiers that does best on rows that it has not seen.

Means of several classifiers were tried too, and were no better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, factorial
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import EstimationError
from ..numerics import Matrix
from ..scale.engine import ShareDone, by_chunks, in_threads

Arrays = dict[str, NDArray[np.generic]]
MAX_WEIGHT = 1e15  # of a stored model: sums of such stay finite in 32 bits


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
        self, training: Training, *, seed: int, threads: int, progress: ShareDone
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
    progress: ShareDone,
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


FOLDS = 5


@dataclass(frozen=True)
class Linear:
    """The logit of the score is linear in the features."""

    coefficients: NDArray[np.float64]  # (d,)
    intercept: float

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        from scipy.special import expit

        def score(rows: Matrix) -> NDArray[np.float64]:
            # column by column: in a product by BLAS the place of a row shows in its last digits
            logit = np.full(len(rows), self.intercept)
            for column, coefficient in zip(rows.T, self.coefficients, strict=True):
                logit += coefficient * column
            return np.asarray(expit(logit))

        return by_chunks(score, features)

    def arrays(self) -> Arrays:
        """All there is to store."""
        return {"coefficients": self.coefficients, "intercept": np.array(self.intercept)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The model that arrays() came from."""
        return cls(np.asarray(arrays["coefficients"], dtype=np.float64), float(arrays["intercept"]))

    def check(self, d: int) -> None:
        """Stop with a ValueError unless there is a number for each of d features."""
        check_weights(self.coefficients, (d,))
        check_weights(np.array(self.intercept), ())


@register("logistic", Linear)
def logistic(training: Training, *, seed: int, threads: int, progress: ShareDone) -> Fit:
    """L2 logistic regression out of fold; the model has the folds' mean coefficients."""
    from sklearn.linear_model import LogisticRegression

    units = Units(training)
    folds = min(FOLDS, units.fewest)
    fold = units.folds(folds, np.random.default_rng(seed))[units.of_row]

    def fit(held_out: int) -> Linear:
        seen = fold != held_out
        labeled = training.labeled[seen]
        # a normal prior that gives the logit unit variance; balancing adds weight, not evidence
        share = labeled.mean()
        strength = 4 * share * (1 - share) / training.features.shape[1]
        model = LogisticRegression(C=strength, max_iter=1000)
        model.fit(training.features[seen], labeled, sample_weight=balanced(labeled))
        return Linear(model.coef_[0].astype(np.float64), float(model.intercept_[0]))

    parts, scores = out_of_fold(fit, training, fold, threads, progress)
    coefficients = np.mean([part.coefficients for part in parts], axis=0)
    return Fit(Linear(coefficients, float(np.mean([part.intercept for part in parts]))), scores)


CANDIDATES = ("networks", "logistic")
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
def standard(training: Training, *, seed: int, threads: int, progress: ShareDone) -> Fit:
    """Networks; with few labeled rows, logistic regression where that does better."""
    few = int(training.labeled.sum()) <= FEW_LABELED
    return _best(
        ("networks", "logistic") if few else ("networks",), training, seed, threads, progress
    )


def _best(
    kinds: Sequence[str], training: Training, seed: int, threads: int, progress: ShareDone
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
