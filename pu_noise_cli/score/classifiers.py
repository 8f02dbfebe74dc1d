"""Classifiers of labeled against unlabeled rows: registry, folds, logistic regression.

A classifier scores its training rows out of bag or out of fold, and never splits a group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, factorial
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import EstimationError
from ..numerics import Matrix
from ..scale.engine import ShareDone, by_chunks, in_threads
from ..tables.files import Arrays

Vector = NDArray[np.float32]

FOLDS = 5
MAX_STEPS, MAX_SLOPE = 1000, 1e-4  # of logistic regression: where it ends
MAX_WEIGHT = 1e15  # of a stored model: sums of such stay finite in 32 bits
# counts of a Poisson distribution of mean 1, each as often as it is probable: drawing an index is
# many times as fast as drawing from the distribution
POISSON = np.repeat(
    np.arange(9, dtype=np.uint8),
    np.diff([round((1 << 16) * sum(exp(-1) / factorial(j) for j in range(i))) for i in range(10)]),
)


def check_weights(weights: NDArray[np.generic], shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless weights have a shape and are finite and not huge."""
    if weights.shape != shape:
        raise ValueError(f"weights of shape {weights.shape}, not {shape}")
    if not (np.abs(weights.astype(np.float64)) <= MAX_WEIGHT).all():
        raise ValueError("weights are not finite, or too large")


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays with a prefix to their names."""
    return {prefix + name: array for name, array in arrays.items()}


def part_of(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays whose names start with a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


@dataclass(frozen=True)
class Training:
    """The rows to learn from; feature values are finite, standardized and of moderate size."""

    features: Matrix  # (n, d)
    labeled: NDArray[np.bool_]  # (n,)
    groups: NDArray[np.int64] | None = None  # (n,): rows of one group are never split


class Model(Protocol):
    """A trained classifier, which scores new rows and is stored as plain arrays."""

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,), that rank as p(S=1|x) does."""

    def arrays(self) -> Arrays:
        """The arrays to store, none of object type."""

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The model of d features with these arrays; a ValueError if there is none."""


@dataclass(frozen=True)
class Hinges:
    """max(x_j - t, 0) for some features j and knots t, so that units can bend along a feature."""

    feature: NDArray[np.intp]  # (h,)
    knot: Vector  # (h,)

    def __call__(self, x: Matrix) -> Matrix:
        """The hinges of rows x, shape (n, h)."""
        return np.maximum(x[:, self.feature] - self.knot, 0)


NO_HINGES = Hinges(np.empty(0, np.intp), np.empty(0, np.float32))


@dataclass(frozen=True)
class Part:
    """Networks, or a linear model, with the probed rows that they did not learn from.

    Hidden units, if there are any, are clipped to [-1, 1].
    """

    W: Matrix  # (d + h, units)
    b: Matrix  # (units,)
    unseen: NDArray[np.bool_]  # (probed rows, k)
    v: Matrix | None = None  # (units / k, k), from each hidden unit to the logit of its network
    hinges: Hinges = NO_HINGES

    def hidden(self, x: Matrix) -> Matrix:
        """The hidden units before they are clipped, shape (units, n)."""
        d = x.shape[1]
        linear = self.W[:d].T @ x.T + self.b[:, None]
        return np.asarray(linear + self.W[d:].T @ self.hinges(x).T)

    def change(self, before: Matrix, after: Matrix, features: slice) -> Matrix:
        """What a change of some features does to the hidden units, shape (units, n).

        Parameters
        ----------
        before, after : (n, len(features))
            The values of these features only.
        """
        change = self.W[features].T @ (after - before).T
        place = self.hinges.feature
        own = np.flatnonzero((place >= features.start) & (place < features.stop))
        if len(own):
            hinges = Hinges(place[own] - features.start, self.hinges.knot[own])
            d = len(self.W) - len(place)
            change += self.W[d + own].T @ (hinges(after) - hinges(before)).T
        return np.asarray(change)

    def logits(self, hidden: Matrix) -> Matrix:
        """The logits of k networks but for constants, shape (k, n); changes the hidden units."""
        if self.v is None:
            return hidden
        hidden.clip(-1, 1, out=hidden)
        by_network = hidden.reshape(*self.v.shape, -1)
        return np.asarray(np.einsum("jkn,jk->kn", by_network, self.v))

    def slopes(self, hidden: Matrix) -> Matrix:
        """The slopes of the sum of all logits in the hidden units, shape (units, n)."""
        if self.v is None:
            return np.ones_like(hidden)
        return np.asarray((np.abs(hidden) < 1) * self.v.ravel()[:, None])


PROBED = 1500  # rows of each kind by which a model's columns are judged


def probed_rows(labeled: NDArray[np.bool_]) -> NDArray[np.intp]:
    """So many labeled rows, then unlabeled ones, evenly spread; the same again if they are few."""

    def some(rows: NDArray[np.intp]) -> NDArray[np.intp]:
        if len(rows) < PROBED:
            return np.resize(rows, PROBED)
        return rows[np.arange(PROBED) * len(rows) // PROBED]

    return np.concatenate([some(np.flatnonzero(kind)) for kind in (labeled, ~labeled)])


@dataclass(frozen=True)
class Fit:
    """A model, and scores of its training rows by parts of it that did not see them."""

    model: Model
    scores: NDArray[np.float64]  # (n,), out-of-bag or out-of-fold
    parts: tuple[Part, ...] = ()  # of the model, if its columns can be judged


class Train(Protocol):
    """Trains a model; the same seed gives the same bytes for any number of threads."""

    def __call__(self, training: Training, seed: int, threads: int, progress: ShareDone) -> Fit: ...


@dataclass(frozen=True)
class Classifier:
    """A way to separate labeled from unlabeled rows, and the type of its models."""

    train: Train
    model: type[Model]


CLASSIFIERS: dict[str, Classifier] = {}
AnyTrain = TypeVar("AnyTrain", bound=Train)


def register(name: str, model: type[Model]) -> Callable[[AnyTrain], AnyTrain]:
    """Register a training function under a name."""

    def enter(function: AnyTrain) -> AnyTrain:
        CLASSIFIERS[name] = Classifier(function, model)
        return function

    return enter


def progress_of(progress: ShareDone, part: int, parts: int) -> ShareDone:
    """Reports the progress of one of several equal parts as that of the whole."""
    return lambda fraction: progress((part + fraction) / parts)


# ---- Folds and bootstraps that never split a group


class Units:
    """The units of resampling: groups where there are groups, else single rows."""

    def __init__(self, training: Training, learned: NDArray[np.bool_] | None = None) -> None:
        """Units of all rows; `learned`, shape (n,), says which rows are learned from."""
        n = len(training.labeled)
        if training.groups is None:
            self.unit = np.arange(n)
        else:
            self.unit = np.unique(training.groups, return_inverse=True)[1].reshape(n)
        self.size = np.bincount(self.unit)
        rows = np.ones(n, bool) if learned is None else learned
        self.has_labeled = np.bincount(self.unit, weights=training.labeled & rows) > 0
        self.has_unlabeled = np.bincount(self.unit, weights=~training.labeled & rows) > 0
        self.smaller = int(min(self.has_labeled.sum(), self.has_unlabeled.sum()))
        if self.smaller < 2:
            unit = "rows" if training.groups is None else "groups"
            raise EstimationError(
                f"rows cannot be scored by a model that has not seen them: at least 2 {unit} with "
                "labeled rows and 2 with unlabeled rows are needed"
            )

    def folds(self, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """The fold, 0 to count - 1, of each unit; both kinds of rows are spread evenly."""
        # units with both kinds come between the others, so each kind is assigned in one sweep
        kind = self.has_unlabeled.astype(np.int8) - self.has_labeled
        order = np.lexsort((rng.random(len(kind)), -self.size, kind))
        fold = np.empty(len(order), dtype=np.intp)
        fold[order] = np.arange(len(order)) % count
        return fold

    def leave_third_out(
        self, count: int, allowed: NDArray[np.bool_], rng: np.random.Generator
    ) -> NDArray[np.uint8]:
        """Which rows are in each of `count` samples, shape (n, count): all but a third.

        Of three consecutive samples, each unit is left out of one. Only allowed units are drawn.
        """
        drawn = np.zeros((len(self.size), count), dtype=np.uint8)
        for sample in range(count):
            if sample % 3 == 0:
                fold = self.folds(3, rng)
            drawn[:, sample] = allowed & (fold != sample % 3)
        return drawn[self.unit]

    def bootstrap(
        self, count: int, allowed: NDArray[np.bool_], rng: np.random.Generator
    ) -> NDArray[np.uint8]:
        """How often each row is in each of `count` bootstrap samples, shape (n, count).

        Only allowed units are drawn, with Poisson counts, until a sample has both kinds of rows.
        """
        drawn = np.zeros((len(self.size), count), dtype=np.uint8)
        open_ = np.arange(count)
        while len(open_):
            places = rng.integers(len(POISSON), size=(len(self.size), len(open_)), dtype=np.uint16)
            drawn[:, open_] = POISSON.take(places) * allowed[:, None]
            in_bag = drawn[:, open_] > 0
            both = in_bag[self.has_labeled].any(0) & in_bag[self.has_unlabeled].any(0)
            open_ = open_[~both]
        return drawn[self.unit]


def balanced(labeled: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Weights of rows, shape (n,), that give labeled and unlabeled rows the same total, n / 2."""
    fraction = labeled.mean()
    return np.where(labeled, 0.5 / fraction, 0.5 / (1 - fraction))


# ---- Logistic regression


@dataclass(frozen=True)
class Linear:
    """The logit of the score is linear in the features."""

    coefficients: NDArray[np.float64]  # (d,)
    intercept: float

    def logit(self, features: Matrix) -> NDArray[np.float64]:
        """The logit of the score, shape (n,)."""

        def of_rows(rows: Matrix) -> NDArray[np.float64]:
            # column by column: in a BLAS product the position of a row shows in its last digits
            logit = np.full(len(rows), self.intercept)
            for column, coefficient in zip(rows.T, self.coefficients, strict=True):
                logit += coefficient * column
            return logit

        return by_chunks(of_rows, features)

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        from scipy.special import expit

        return np.asarray(expit(self.logit(features)))

    def arrays(self) -> Arrays:
        """The arrays to store."""
        return {"coefficients": self.coefficients, "intercept": np.array(self.intercept)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The model of d features with these arrays; a ValueError if there is none."""
        coefficients = np.asarray(arrays["coefficients"], dtype=np.float64)
        check_weights(coefficients, (d,))
        check_weights(arrays["intercept"], ())
        return cls(coefficients, float(arrays["intercept"]))


@register("logistic", Linear)
def logistic(training: Training, seed: int, threads: int, progress: ShareDone) -> Fit:
    """L2 logistic regression out of fold; the model has the folds' mean coefficients."""
    units = Units(training)
    folds = min(FOLDS, units.smaller)
    fold = units.folds(folds, np.random.default_rng(seed))[units.unit]

    def fit(held_out: int) -> tuple[Linear, NDArray[np.float64]]:
        seen = fold != held_out
        part = _fit_linear(training.features[seen], training.labeled[seen])
        return part, part.predict(training.features[~seen])

    fits = in_threads(fit, range(folds), threads, progress)
    scores, probed = np.empty(len(fold)), fold[probed_rows(training.labeled)]
    for held_out, (_, of_fold) in enumerate(fits):
        scores[fold == held_out] = of_fold
    coefficients = np.mean([part.coefficients for part, _ in fits], axis=0)
    intercept = float(np.mean([part.intercept for part, _ in fits]))
    parts = [
        Part(
            part.coefficients[:, None].astype(np.float32),
            np.zeros(1, np.float32),
            (probed == held_out)[:, None],
        )
        for held_out, (part, _) in enumerate(fits)
    ]
    return Fit(Linear(coefficients, intercept), scores, tuple(parts))


def _fit_linear(features: Matrix, labeled: NDArray[np.bool_]) -> Linear:
    """The coefficients with the least balanced log-loss and L2 penalty.

    The penalty is a normal prior that gives the logit unit variance; balancing adds weight, not
    evidence.
    """
    # not scikit-learn's: its import takes longer than the fit of most tables
    from scipy.optimize import minimize
    from scipy.special import expit

    (n, d), fraction = features.shape, labeled.mean()
    penalty = d / (4 * n * fraction * (1 - fraction))
    sign, weight = np.where(labeled, 1.0, -1.0), balanced(labeled) / n

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        coefficients = parameters[:-1]
        margin = sign * (features @ coefficients.astype(np.float32) + parameters[-1])
        slope = -weight * sign * expit(-margin)
        value = (weight * np.logaddexp(0, -margin)).sum() + penalty * (coefficients**2).sum() / 2
        of_features = slope.astype(np.float32) @ features + penalty * coefficients
        return float(value), np.append(of_features, slope.sum())

    options = {"maxiter": MAX_STEPS, "gtol": MAX_SLOPE, "ftol": 64 * np.finfo(float).eps}
    found = minimize(loss, np.zeros(d + 1), jac=True, method="L-BFGS-B", options=options)
    return Linear(found.x[:-1], float(found.x[-1]))


def log_loss(scores: NDArray[np.float64], labeled: NDArray[np.bool_]) -> float:
    """The mean log-loss of scores, shape (n,), with balanced weights."""
    right = np.where(labeled, scores, 1 - scores)
    tiny = np.finfo(np.float64).tiny
    return float(-np.average(np.log(np.maximum(right, tiny)), weights=balanced(labeled)))
