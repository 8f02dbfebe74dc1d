"""Classifiers of labeled against unlabeled rows. No row is scored by a model that learned from it.

Rows are divided into folds, several times. In each division every fold has a member, which learns
from the other folds. A row's score is the mean logit of the members of its folds, one per division.
A new row gets its folds by a hash of its features, and so is scored as training rows are. A mean
over all members would vary less, and labeled rows, which are nearly all training rows, would reach
scores that hardly any other row has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import EstimationError, option
from ..numerics import BoolArray, FloatArray, IntArray, Matrix, Vector
from ..scale.engine import ShareDone, in_threads, one_blas_thread
from ..tables.files import Arrays, check_weights, part_of, prefixed
from .networks import Networks, train_networks
from .trees import Trees, train_trees

DIVISIONS, FOLDS = 4, 3
LINEAR_FOLDS = 5  # of the one division of a linear score, which varies less
SPARE = 10  # one of so many rows is spare in each division
CHUNK, CHUNK_VALUES = 1 << 17, 1 << 22  # rows, and values of features, that are scored at once

MAX_STEPS, MAX_SLOPE = 1000, 1e-4  # of logistic regression: where it ends

WIDE = 1000  # features, from which only a linear score is learned if labeled rows are fewer
FEW_LABELED = 300  # rows, up to which a linear score has a weight
# Weights that are averaged: of the linear logit, and of the trees among the others
OF_LINEAR, OF_TREES = (0.0, 0.125, 0.25, 0.375, 0.5), (0.4, 0.6, 0.8)

MAX_MIXED = 0.1  # the fraction of labeled rows among rows that are set apart
MIN_APART = 20  # rows that must be set apart for a second round


@dataclass(frozen=True)
class Training:
    """The rows to learn from; feature values are finite, standardized and of moderate size."""

    features: Matrix  # (n, d)
    labeled: BoolArray  # (n,)
    groups: IntArray | None = None  # (n,): rows of one group are never split
    place: IntArray | None = None  # (n,): folds, if given: digits of a number to base FOLDS


# ---- Scorers and models


class Scorer(Protocol):
    """A logit as a function of features, stored as plain arrays."""

    def logit(self, x: Matrix) -> Vector | FloatArray:
        """The logit of rows x, shape (n,); it does not depend on other rows."""

    def changes(
        self, x: Matrix, edits: Iterable[tuple[slice, Matrix]]
    ) -> Iterator[Vector | FloatArray]:
        """What each edit does to the logit of rows x; it gives some features other values."""

    def influence(self, x: Matrix) -> FloatArray:
        """How much each feature moves the logit of rows x, as a variance, shape (d,)."""

    def scaled(self, factor: float) -> Self:
        """The same with a logit times a factor."""

    def arrays(self) -> Arrays:
        """The arrays to store, none of object type."""

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The scorer of d features with these arrays; a ValueError if there is none."""


@dataclass(frozen=True)
class Linear:
    """The logit is linear in the features."""

    coefficients: FloatArray  # (d,)
    intercept: float

    def logit(self, x: Matrix) -> FloatArray:
        """The logit of rows x, shape (n,)."""
        # column by column: in a BLAS product the position of a row shows in its last digits
        logit = np.full(len(x), self.intercept)
        for column, coefficient in zip(x.T, self.coefficients, strict=True):
            logit += coefficient * column
        return logit

    def changes(self, x: Matrix, edits: Iterable[tuple[slice, Matrix]]) -> Iterator[FloatArray]:
        """What each edit of some features of x does to the logit."""
        for features, values in edits:
            yield (values - x[:, features]) @ self.coefficients[features]

    def influence(self, x: Matrix) -> FloatArray:
        """How much each feature moves the logit of rows x, as a variance, shape (d,)."""
        return np.square(self.coefficients) * x.var(0)

    def scaled(self, factor: float) -> Self:
        """The same with a logit times a factor."""
        return replace(
            self, coefficients=self.coefficients * factor, intercept=self.intercept * factor
        )

    def arrays(self) -> Arrays:
        """The arrays to store."""
        return {"coefficients": self.coefficients, "intercept": np.array(self.intercept)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The scorer of d features with these arrays; a ValueError if there is none."""
        coefficients = np.asarray(arrays["coefficients"], dtype=np.float64)
        check_weights(coefficients, (d,))
        check_weights(arrays["intercept"], ())
        return cls(coefficients, float(arrays["intercept"]))


SCORERS: dict[str, type[Scorer]] = {"networks": Networks, "trees": Trees, "linear": Linear}


@dataclass(frozen=True)
class Member:
    """Scorers of one fold, by name; the logit is the sum of theirs."""

    scorers: Mapping[str, Scorer]

    def logit(self, x: Matrix) -> FloatArray:
        """The logit of rows x, shape (n,)."""
        logit = np.zeros(len(x))
        for one in self.scorers.values():
            logit += one.logit(x)
        return logit

    def changes(self, x: Matrix, edits: Sequence[tuple[slice, Matrix]]) -> Iterator[FloatArray]:
        """What each edit of some features of x does to the logit."""
        for parts in zip(*(one.changes(x, edits) for one in self.scorers.values()), strict=True):
            yield np.sum(parts, axis=0, dtype=np.float64)

    def influence(self, x: Matrix) -> FloatArray:
        """How much each feature moves the logit of rows x, as a variance, shape (d,)."""
        return np.sum([one.influence(x) for one in self.scorers.values()], axis=0)

    def arrays(self) -> Arrays:
        """The arrays to store."""
        parts = [prefixed(f"{name}.", one.arrays()) for name, one in self.scorers.items()]
        return {name: array for part in parts for name, array in part.items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The member of d features with these arrays; a ValueError if there is none."""
        found = {name: part_of(arrays, f"{name}.") for name in SCORERS}
        scorers = {n: SCORERS[n].from_arrays(part, d) for n, part in found.items() if part}
        if not scorers:
            raise ValueError("a member without a score")
        return cls(scorers)


@dataclass(frozen=True)
class Model:
    """The members of each division's folds."""

    members: tuple[tuple[Member, ...], ...]

    def predict(self, features: Matrix, place: IntArray | None = None) -> FloatArray:
        """Scores in [0, 1], shape (n,), that rank as p(S=1|x) does.

        Rows are new, or their folds are given by their place, see Training.
        """
        from scipy.special import expit

        rows = max(1, min(CHUNK, CHUNK_VALUES // features.shape[1]))
        logit = np.empty(len(features))
        with one_blas_thread():
            for start in range(0, len(features), rows):
                some = slice(start, start + rows)
                logit[some] = self._logit(features[some], None if place is None else place[some])
        return np.asarray(expit(logit))

    def _logit(self, x: Matrix, given: IntArray | None) -> FloatArray:
        columns = np.ascontiguousarray(x.T)
        place = _hash(columns) if given is None else given.astype(np.uint32)
        folds = np.empty((len(self.members), len(x)), dtype=np.uint8)
        for fold, members in zip(folds, self.members, strict=True):
            rest = place // len(members)
            fold[:], place = place - rest * len(members), rest
        # in the order of their folds, the rows of a fold are a few slices, fast to put together
        order = np.lexsort(folds[::-1])
        columns, logit = columns.take(order, axis=1), np.zeros(len(x))
        for fold, members in zip(folds.take(order, axis=1), self.members, strict=True):
            ends = [*np.flatnonzero(fold[1:] != fold[:-1]) + 1, len(x)]
            for number, member in enumerate(members):
                rows = [slice(a, b) for a, b in pairwise([0, *ends]) if fold[a] == number]
                if rows:
                    some = member.logit(np.concatenate([columns[:, one] for one in rows], axis=1).T)
                    starts = np.cumsum([one.stop - one.start for one in rows])
                    for one, part in zip(rows, np.split(some, starts[:-1]), strict=True):
                        logit[one] += part
        found = np.empty(len(x))
        found[order] = logit / len(self.members)
        return found

    def arrays(self) -> Arrays:
        """The arrays to store."""
        return {
            f"{i}.{j}.{name}": array
            for i, members in enumerate(self.members)
            for j, member in enumerate(members)
            for name, array in member.arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The model of d features with these arrays; a ValueError if there is none."""

        def parts(arrays: Arrays) -> list[Arrays]:
            count = len({name.partition(".")[0] for name in arrays})
            return [part_of(arrays, f"{i}.") for i in range(count)]

        members = [[Member.from_arrays(part, d) for part in parts(one)] for one in parts(arrays)]
        if not members:
            raise ValueError("a model without members")
        return cls(tuple(map(tuple, members)))


def _hash(columns: Matrix) -> NDArray[np.uint32]:
    """A number for each row by its features, shape (n,)."""
    odd = np.uint32(0x9E3779B1)  # 2^32 / the golden ratio
    mixed = np.zeros(columns.shape[1], dtype=np.uint32)
    for column in columns.view(np.uint32):
        mixed += column
        mixed *= odd
    for shift in (16, 15):
        mixed ^= mixed >> np.uint32(shift)
        mixed *= odd
    return (mixed ^ (mixed >> np.uint32(16))) >> np.uint32(8)


# ---- Folds that never split a group


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


# ---- Training


class Trainer(Protocol):
    """Trains a scorer for each fold of one division.

    `learned`, shape (n, folds), says which rows the scorer of each fold may learn from; `spare`,
    shape (n,), which of them it may leave out to see when it has learned enough.
    """

    def __call__(
        self,
        x: Matrix,
        labeled: BoolArray,
        learned: BoolArray,
        spare: BoolArray,
        rng: np.random.Generator,
    ) -> Sequence[Scorer]: ...


PROBED = 1500  # rows of each kind by which a model's columns are judged


def probed_rows(labeled: BoolArray) -> NDArray[np.intp]:
    """So many labeled rows, then unlabeled ones, evenly spread; the same again if they are few."""

    def some(rows: NDArray[np.intp]) -> NDArray[np.intp]:
        if len(rows) < PROBED:
            return np.resize(rows, PROBED)
        return rows[np.arange(PROBED) * len(rows) // PROBED]

    return np.concatenate([some(np.flatnonzero(kind)) for kind in (labeled, ~labeled)])


@dataclass(frozen=True)
class Part:
    """A member, with the probed rows that it did not learn from."""

    member: Member
    unseen: BoolArray  # (probed rows,)


@dataclass(frozen=True)
class Fit:
    """A model, and scores of its training rows by parts of it that did not see them."""

    model: Model
    scores: FloatArray  # (n,)
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class CrossFit:
    """Scorers of each kind for each fold of each division."""

    training: Training
    fold: tuple[IntArray, ...]  # of each row, shape (n,), for each division
    scorers: Mapping[str, Sequence[Sequence[Scorer]]]  # by name, division and fold
    logits: Mapping[str, FloatArray]  # of the training rows, shape (n,), by scorers of their folds

    def weighted(self, weights: Mapping[str, float]) -> Fit:
        """The fit whose logit is a weighted sum."""
        from scipy.special import expit

        members = tuple(
            tuple(
                Member({name: self.scorers[name][i][j].scaled(w) for name, w in weights.items()})
                for j in range(int(fold.max()) + 1)
            )
            for i, fold in enumerate(self.fold)
        )
        probed = probed_rows(self.training.labeled)
        parts = [
            Part(member, fold[probed] == j)
            for fold, of_division in zip(self.fold, members, strict=True)
            for j, member in enumerate(of_division)
        ]
        scores = expit(sum(w * self.logits[name] for name, w in weights.items()))
        return Fit(Model(members), scores, tuple(parts))


def cross_fit(
    training: Training,
    trainers: Mapping[str, Trainer],
    seed: int,
    threads: int,
    progress: ShareDone,
    divisions: int = DIVISIONS,
    folds: int = FOLDS,
    learned: BoolArray | None = None,
) -> CrossFit:
    """Train a scorer of each kind for each fold of each division.

    Parameters
    ----------
    learned : (n,)
        The rows to learn from; all by default. All rows are scored.
    """
    x, labeled = np.ascontiguousarray(training.features), training.labeled
    if learned is None:
        learned = np.ones(len(labeled), dtype=bool)
    units = Units(training, learned)
    rng = np.random.default_rng(seed)
    count = min(folds, units.smaller)
    fold = [units.folds(count, rng)[units.unit] for _ in range(divisions)]
    if training.place is not None:
        count = FOLDS
        fold = [training.place // FOLDS**i % FOLDS for i in range(divisions)]
        _check_folds(fold, labeled & learned, ~labeled & learned)
    spare = units.folds(SPARE, rng)[units.unit]
    if units.smaller < SPARE:  # too few to spare any
        spare[:] = -1

    def fit(job: tuple[str, int, np.random.Generator]) -> tuple[Sequence[Scorer], FloatArray]:
        name, division, rng = job
        own = fold[division]
        may_learn = (own[:, None] != np.arange(count)) & learned[:, None]
        scorers = trainers[name](x, labeled, may_learn, spare == division, rng)
        logit = np.empty(len(labeled))
        for number, scorer in enumerate(scorers):
            logit[own == number] = scorer.logit(x[own == number])
        return scorers, logit

    jobs = [(name, division) for name in trainers for division in range(divisions)]
    fits = in_threads(
        fit,
        [(*job, rng) for job, rng in zip(jobs, rng.spawn(len(jobs)), strict=True)],
        threads,
        progress,
    )
    scorers: dict[str, list[Sequence[Scorer]]] = {name: [] for name in trainers}
    logits = {name: np.zeros(len(labeled)) for name in trainers}
    for (name, _), (of_folds, logit) in zip(jobs, fits, strict=True):
        scorers[name].append(of_folds)
        logits[name] += logit / divisions
    return CrossFit(training, tuple(fold), scorers, logits)


def _check_folds(fold: Sequence[IntArray], *kinds: BoolArray) -> None:
    """Raise an error if some fold has all rows of a kind: its member could not learn from any."""
    for own in fold:
        for kind in kinds:
            if len(np.unique(own[kind])) < 2:
                raise EstimationError(
                    "too few groups to train on a sample of the rows: all labeled or all unlabeled "
                    f"rows of the sample are in one fold; raise {option('max_train_rows')}"
                )


def balanced(labeled: BoolArray) -> FloatArray:
    """Weights of rows, shape (n,), that give labeled and unlabeled rows the same total, n / 2."""
    fraction = labeled.mean()
    return np.where(labeled, 0.5 / fraction, 0.5 / (1 - fraction))


def train_linear(
    x: Matrix,
    labeled: BoolArray,
    learned: BoolArray,
    spare: BoolArray,
    rng: np.random.Generator,
) -> list[Linear]:
    """L2 logistic regression of the learned rows of each fold, see Trainer."""
    return [_fit_linear(x[rows], labeled[rows]) for rows in learned.T]


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


# ---- Classifiers by name


class Classifier(Protocol):
    """Trains a model; the same seed gives the same bytes for any number of threads."""

    def __call__(self, training: Training, seed: int, threads: int, progress: ShareDone) -> Fit: ...


def progress_of(progress: ShareDone, part: int, parts: int) -> ShareDone:
    """Reports the progress of one of several equal parts as that of the whole."""
    return lambda fraction: progress((part + fraction) / parts)


def logistic(training: Training, seed: int, threads: int, progress: ShareDone) -> Fit:
    """L2 logistic regression."""
    trainers = {"linear": train_linear}
    found = cross_fit(training, trainers, seed, threads, progress, 1, LINEAR_FOLDS)
    return found.weighted({"linear": 1.0})


def paper_networks(
    training: Training,
    seed: int,
    threads: int,
    progress: ShareDone,
    learned: BoolArray | None = None,
) -> Fit:
    """Networks of 5 units, nearly as many as the paper's 100."""
    trainers = {"networks": partial(train_networks, networks=8, hidden=5)}
    found = cross_fit(training, trainers, seed, threads, progress, learned=learned)
    return found.weighted({"networks": 1.0})


def standard(training: Training, seed: int, threads: int, progress: ShareDone) -> Fit:
    """Networks and trees and, with few labeled rows, logistic regression."""
    n_labeled, d = int(training.labeled.sum()), training.features.shape[1]
    if d >= max(WIDE, n_labeled):
        return logistic(training, seed, threads, progress)
    trainers: dict[str, Trainer] = {
        "networks": partial(train_networks, networks=3, hidden=7),
        "trees": train_trees,
    }
    if n_labeled <= FEW_LABELED:
        trainers["linear"] = train_linear
    found = cross_fit(training, trainers, seed, threads, progress)
    return found.weighted(_likely_weights(found.logits, training.labeled))


def _likely_weights(logits: Mapping[str, FloatArray], labeled: BoolArray) -> dict[str, float]:
    """The mean weight of each logit, by the likelihood of the weights on unseen rows.

    A choice of the best weights ranks worse than this mean.
    """
    from scipy.special import expit

    choices = [
        {"networks": (1 - linear) * (1 - trees), "trees": (1 - linear) * trees, "linear": linear}
        for linear in (OF_LINEAR if "linear" in logits else (0.0,))
        for trees in OF_TREES
    ]
    sums = (sum(choice[name] * logit for name, logit in logits.items()) for choice in choices)
    losses = np.array([log_loss(expit(logit), labeled) for logit in sums])
    likelihood = np.exp(labeled.sum() * (losses.min() - losses))
    likelihood /= likelihood.sum()
    return {
        name: float(sum(q * choice[name] for q, choice in zip(likelihood, choices, strict=True)))
        for name in logits
    }


def semi_supervised(training: Training, seed: int, threads: int, progress: ShareDone) -> Fit:
    """Networks in two rounds, for labels that are all right, as Percolator trains on decoys.

    Unlabeled rows of the labeled class teach nothing. So the first round separates labeled from
    unlabeled rows, and the second labeled rows from unlabeled ones with low scores.
    """
    first = paper_networks(training, seed, threads, progress_of(progress, 0, 2))
    apart = set_apart(first.scores, training.labeled)
    if apart.sum() < MIN_APART:
        progress(1.0)
        return first
    learned = training.labeled | apart
    return paper_networks(training, seed, threads, progress_of(progress, 1, 2), learned)


def set_apart(scores: FloatArray, labeled: BoolArray) -> BoolArray:
    """The unlabeled rows below the highest score with few labeled rows below it, shape (n,)."""
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(labeled[order])
    fraction = (below + 1) / np.maximum(np.arange(1, len(order) + 1) - below, 1)
    within = np.flatnonzero(fraction <= MAX_MIXED)
    limit = scores[order[within[-1]]] if len(within) else -np.inf
    return np.asarray(~labeled & (scores <= limit))


CLASSIFIERS: dict[str, Classifier] = {
    "standard": standard,
    "networks": paper_networks,
    "logistic": logistic,
    "semi-supervised": semi_supervised,
}
