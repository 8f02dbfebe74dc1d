"""The paper's transform: a hundred bagged networks of five hidden units, trained side by side.

The hidden units of many networks are the rows of one matrix, and the table's rows its columns, so
that a step of all networks is a few large operations. Bootstrap samples are weights of rows: the
out-of-bag rows of a network have weight 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..numerics import Matrix
from ..scale.engine import ShareDone, by_chunks, chunks, in_threads
from ..tables.files import Arrays
from .classifiers import (
    Fit,
    Part,
    Training,
    Units,
    check_weights,
    probed_rows,
    progress_of,
    register,
)

Vector = NDArray[np.float32]
Rows = NDArray[np.intp]

HIDDEN = 5  # units per network
BLOCKS = 4  # units of work: fixed, so that the number of threads changes nothing
NETWORKS = 25  # per block
BATCH = 512
STEPS = 500  # for up to 10,000 rows; beyond, they grow as the root of the number of rows
MAX_STEPS = 2000
WARM_UP = 50
RATE = 0.03
CHECK = 25  # steps between evaluations on the held-out rows
PATIENCE = 0.4  # the fraction of the steps that may pass without a lower loss
TILE, EDGE = 304, 8  # rows that are scored at once, and the margin on both sides of them
FOLDS = 10  # of units; each block holds out one for early stopping

MAX_MIXED = 0.1  # the fraction of labeled rows among rows that are set apart
MIN_APART = 20  # rows that must be set apart for a second round


@dataclass(frozen=True)
class BaggedNetworks:
    """k networks side by side; their mean logit is the logit of the score.

    Hidden units are clipped to [-1, 1], several times as fast as the paper's tanh.
    """

    W: Matrix  # (d, 5k), from features to hidden units
    b: Vector  # (5k,)
    v: Vector  # (5k,), from each hidden unit to the output of its network
    c: Vector  # (k,)

    def mean_logit(self, x: Matrix) -> Vector:
        """The mean of the networks' logits, shape (n,), TILE rows at a time.

        The position of a row must not show in its last digits. So rows are the columns of a
        product that BLAS does not cut, away from its edges, where some kernels sum in another
        order.
        """
        n, d = x.shape
        W = np.concatenate([self.W, self.b[None]]).T
        v, c = self.v / np.float32(len(self.c)), self.c.mean()
        logit = np.empty(n, dtype=np.float32)
        tile = np.zeros((d + 1, EDGE + TILE + EDGE), dtype=np.float32)
        tile[d] = 1
        h = np.empty((len(W), tile.shape[1]), dtype=np.float32)
        for start in range(0, n, TILE):
            part = x[start : start + TILE]
            inner = slice(EDGE, EDGE + len(part))
            tile[:d, inner] = part.T
            np.matmul(W, tile, out=h)
            h.clip(-1, 1, out=h)
            logit[start : start + TILE] = (v @ h)[inner] + c
        return logit

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        return _score(by_chunks(self.mean_logit, features))

    def arrays(self) -> Arrays:
        """The arrays to store."""
        return {"W": self.W, "b": self.b, "v": self.v, "c": self.c}

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The networks of d features with these arrays; a ValueError if there are none."""
        W, b, v, c = (np.asarray(arrays[name], dtype=np.float32) for name in ("W", "b", "v", "c"))
        units = c.size * HIDDEN
        if units == 0:
            raise ValueError("no networks")
        for weights, shape in ((W, (d, units)), (b, (units,)), (v, (units,)), (c, c.ravel().shape)):
            check_weights(weights, shape)
        return cls(W, b, v, c)


def _score(logit: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import expit

    return np.asarray(expit(logit))


class _Networks:
    """k networks in training: parts of one vector, so that a step of all changes one vector."""

    def __init__(self, d: int, k: int) -> None:
        width = HIDDEN * k
        self.vector: Vector = np.zeros((d + 2) * width + k, dtype=np.float32)
        W, v, self.c = np.split(self.vector, np.cumsum([(d + 1) * width, width]))
        self.W = W.reshape(d + 1, width)  # the last row is b
        self.v = v.reshape(HIDDEN, k)

    def hidden(self, x: Matrix, out: Matrix | None = None) -> Matrix:
        """The hidden units of rows x, whose last column is 1; shape (5k, n)."""
        h = np.matmul(self.W.T, x.T, out=out)
        h.clip(-1, 1, out=h)
        return h

    def half_logits(self, h: Matrix, out: Matrix | None = None) -> Matrix:
        """Half the logit of each network by the hidden units, shape (k, n)."""
        by_network = h.reshape(*self.v.shape, -1)
        s: Matrix = np.einsum("jkn,jk->kn", by_network, self.v / 2, out=out)
        s += self.c[:, None] / 2
        return s

    def model(self) -> BaggedNetworks:
        """The networks as they are now."""
        return BaggedNetworks(
            self.W[:-1].copy(), self.W[-1].copy(), self.v.flatten(), self.c.copy()
        )


class _Gradient:
    """The gradient of the weighted log-loss of a batch, in arrays that are reused."""

    def __init__(self, networks: _Networks, n_labeled: int, n_unlabeled: int) -> None:
        self.networks = networks
        rows = n_labeled + n_unlabeled
        self.sign = np.repeat(np.array([-1, 1], dtype=np.float32), [n_labeled, n_unlabeled])
        self.slope = _Networks(len(networks.W) - 1, len(networks.c))
        self.h = np.empty((networks.v.size, rows), dtype=np.float32)
        self.back = np.empty_like(self.h)
        self.s = np.empty((len(networks.c), rows), dtype=np.float32)

    def __call__(self, x: Matrix, half_weight: Matrix) -> Vector:
        """Shapes: x (n, d + 1), half_weight (n, k), labeled rows first; the gradient's is flat."""
        networks, slope, back = self.networks, self.slope, self.back
        h = networks.hidden(x, out=self.h)
        s = networks.half_logits(h, out=self.s)
        # the logistic function is (1 + tanh(s / 2)) / 2, and tanh several times as fast
        np.tanh(s, out=s)
        s += self.sign
        s *= half_weight.T
        s.sum(1, out=slope.c)
        by_network = (*networks.v.shape, -1)
        slope.v.T[:] = (h.reshape(by_network).transpose(1, 0, 2) @ s[:, :, None])[:, :, 0]
        np.multiply(networks.v[:, :, None], s, out=back.reshape(by_network))
        np.abs(h, out=h)
        back *= h < 1  # clipped units do not move
        np.matmul(x.T, back.T, out=slope.W)
        return slope.vector


class _Adam:
    """Kingma and Ba's optimizer; the constant factors of their two means are applied last."""

    def __init__(self, parameters: Vector) -> None:
        self.parameters = parameters
        self.mean, self.square, self.change = (np.zeros_like(parameters) for _ in range(3))
        self.steps = 0

    def step(self, slope: Vector, rate: float) -> None:
        """Change the parameters."""
        self.steps += 1
        self.mean *= 0.9
        self.mean += slope
        self.square *= 0.99
        np.square(slope, out=self.change)
        self.square += self.change
        mean_factor, square_factor = ((1 - q) / (1 - q**self.steps) for q in (0.9, 0.99))
        np.sqrt(self.square, out=self.change)
        self.change += 1e-8
        np.divide(self.mean, self.change, out=self.change)
        self.change *= rate * mean_factor / math.sqrt(square_factor)
        self.parameters -= self.change


def _cycle(rows: Rows, size: int, rng: np.random.Generator) -> Iterator[Rows]:
    """Endless batches of so many rows; each row appears once per pass."""
    waiting = rows[:0]
    while True:
        while len(waiting) < size:
            waiting = np.concatenate([waiting, rng.permutation(rows)])
        yield waiting[:size]
        waiting = waiting[size:]


def _sizes(kinds: list[Rows]) -> list[int]:
    """The numbers of labeled and unlabeled rows of a batch: at least a quarter each if possible."""
    fractions = np.clip([len(rows) / sum(map(len, kinds)) for rows in kinds], 0.25, 0.75)
    return [min(len(rows), round(BATCH * q)) for rows, q in zip(kinds, fractions, strict=True)]


def _half_weights(kinds: list[Rows], sizes: list[int], in_bag: NDArray[np.uint8]) -> Matrix:
    """Half the weight of each row in a batch, shape (n, k); both kinds have the same total."""
    half_weight = in_bag.astype(np.float32)
    for rows, size in zip(kinds, sizes, strict=True):
        half_weight[rows] *= 0.25 * len(rows) / (size * half_weight[rows].sum(0))
    return half_weight


def _rate(step: int, steps: int) -> float:
    return RATE * min(1, step / WARM_UP) * (1 + math.cos(math.pi * step / steps)) / 2


def _initial(
    kinds: list[Rows], d: int, k: int, rng: np.random.Generator
) -> tuple[_Networks, Vector]:
    """Networks to start from, and the penalty on the square of each of their parameters."""
    networks, penalty = _Networks(d, k), _Networks(d, k)
    networks.W[:d] = rng.normal(scale=d**-0.5, size=(d, HIDDEN * k))
    networks.v[:] = rng.normal(scale=HIDDEN**-0.5, size=networks.v.shape)
    # weights have a normal prior, worth less the more rows there are of the scarcer kind
    prior = sum(1 / len(rows) for rows in kinds) / 4
    penalty.W[:d] = prior * d
    penalty.v[:] = prior
    return networks, penalty.vector


def _train(
    x: Matrix,
    labeled: NDArray[np.bool_],
    in_bag: NDArray[np.uint8],
    held_out: Rows,
    rng: np.random.Generator,
) -> _Networks:
    """Train networks on rows x, shape (n, d + 1), weighted by in_bag, shape (n, k).

    Training stops when the loss on the held-out rows no longer falls.
    """
    seen = in_bag.any(axis=1)
    kinds = [np.flatnonzero(seen & labeled), np.flatnonzero(seen & ~labeled)]
    sizes = _sizes(kinds)
    half_weight = _half_weights(kinds, sizes, in_bag)
    networks, penalty = _initial(kinds, x.shape[1] - 1, in_bag.shape[1], rng)
    gradient, adam = _Gradient(networks, *sizes), _Adam(networks.vector)
    steps = round(min(STEPS * max(1, sum(map(len, kinds)) / 10_000) ** 0.5, MAX_STEPS))
    best, lowest, best_step = networks.vector, np.inf, 0
    batches = zip(*(_cycle(*kind, rng) for kind in zip(kinds, sizes, strict=True)), strict=True)
    for step, batch in zip(range(1, steps + 1), batches, strict=False):
        rows = np.concatenate(batch)
        slope = gradient(x.take(rows, 0), half_weight.take(rows, 0))
        slope += penalty * networks.vector
        adam.step(slope, _rate(step, steps))
        if len(held_out) and step % CHECK == 0:
            logit = networks.model().mean_logit(x[held_out, :-1])
            loss = _log_loss(logit, labeled[held_out])
            if loss < lowest:
                best, lowest, best_step = networks.vector.copy(), loss, step
            elif step - best_step >= PATIENCE * steps:
                break
    networks.vector[:] = best
    return networks


def _log_loss(logit: Vector, labeled: NDArray[np.bool_]) -> float:
    """The mean of the mean log-losses of labeled and unlabeled rows."""
    loss = np.logaddexp(0, np.where(labeled, -logit, logit))
    return float(loss[labeled].mean() + loss[~labeled].mean()) / 2


@register("networks", BaggedNetworks)
def train_networks(
    training: Training,
    seed: int,
    threads: int,
    progress: ShareDone,
    learned: NDArray[np.bool_] | None = None,
) -> Fit:
    """Train networks on some or all rows, with out-of-bag scores of all.

    Each block of networks holds out another tenth of the units for early stopping. A row is scored
    by networks that neither trained nor stopped on its unit, even if it is not learned from.

    Parameters
    ----------
    learned : (n,)
        The rows to learn from; all by default.
    """
    labeled = training.labeled
    if learned is None:
        learned = np.ones(len(labeled), dtype=bool)
    x = np.ones((len(labeled), training.features.shape[1] + 1), dtype=np.float32)
    x[:, :-1] = training.features
    units = Units(training, learned)
    rng = np.random.default_rng(seed)
    fold = units.folds(FOLDS, rng)
    if units.smaller < FOLDS:  # too few to spare any
        fold[:] = -1

    probed = probed_rows(labeled)

    def block(
        job: tuple[int, np.random.Generator],
    ) -> tuple[BaggedNetworks, Vector, Rows, NDArray[np.bool_]]:
        number, rng = job
        in_bag = units.bootstrap(NETWORKS, fold != number, rng)
        held_out = fold[units.unit] == number
        stop_by = np.flatnonzero(held_out & learned)
        trained = _train(x, labeled, in_bag * learned[:, None], stop_by, rng)
        out_of_bag = (in_bag == 0) & ~held_out[:, None]
        total = [
            2 * (trained.half_logits(trained.hidden(x[rows])) * out_of_bag[rows].T).sum(0)
            for rows in chunks(len(labeled))
        ]
        return trained.model(), np.concatenate(total), out_of_bag.sum(1), out_of_bag[probed]

    jobs = enumerate(rng.spawn(BLOCKS))
    blocks, totals, counts, unseen = zip(*in_threads(block, jobs, threads, progress), strict=True)
    W, b, v, c = (
        np.concatenate([getattr(part, name) for part in blocks], axis=-1) for name in "Wbvc"
    )
    # the probability that a row is in every bag is below 1e-13, even with two groups
    scores, units_of = _score(sum(totals) / sum(counts)), HIDDEN * NETWORKS
    parts = []
    for number, rows in enumerate(unseen):
        own = slice(number * units_of, (number + 1) * units_of)
        parts.append(Part(W[:, own], b[own], rows, v[own].reshape(HIDDEN, NETWORKS)))
    return Fit(BaggedNetworks(W, b, v, c), scores, tuple(parts))


# ---- Two rounds, for labels that are all right, as Percolator trains on decoys


@register("semi-supervised", BaggedNetworks)
def semi_supervised(training: Training, seed: int, threads: int, progress: ShareDone) -> Fit:
    """Networks in two rounds: the second learns from unlabeled rows that the first set apart.

    Unlabeled rows of the labeled class teach nothing. So the first round separates labeled from
    unlabeled rows, and the second labeled rows from unlabeled ones with low scores. All other rows
    are scored out of bag, too, or they would differ from labeled rows in how they are scored.
    """
    first = train_networks(training, seed, threads, progress_of(progress, 0, 2))
    apart = set_apart(first.scores, training.labeled)
    if apart.sum() < MIN_APART:
        progress(1.0)
        return first
    second = progress_of(progress, 1, 2)
    return train_networks(training, seed, threads, second, learned=training.labeled | apart)


def set_apart(scores: NDArray[np.float64], labeled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The unlabeled rows below the highest score with few labeled rows below it, shape (n,)."""
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(labeled[order])
    fraction = (below + 1) / np.maximum(np.arange(1, len(order) + 1) - below, 1)
    within = np.flatnonzero(fraction <= MAX_MIXED)
    limit = scores[order[within[-1]]] if len(within) else -np.inf
    return np.asarray(~labeled & (scores <= limit))
