"""The paper's transform: a hundred bagged networks of five hidden units, trained side by side.

The hidden units of many networks are the rows of one matrix, whose columns are rows of the table,
so a step of all of them is a few large operations. Bootstrap samples are weights of rows: a
network's out-of-bag rows are those of weight 0.

Networks in two rounds, where all labels are right: decoys against matches, as Percolator does.

The unlabeled rows are a mixture, and those of the labeled class among them teach nothing. So the
first round tells labeled from unlabeled rows, and the second tells labeled rows from the unlabeled
ones that the first has set apart from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..numerics import Matrix
from ..scale.engine import ShareDone, by_chunks, chunks, in_threads
from .classifiers import Arrays, Fit, Training, Units, check_weights, register

Vector = NDArray[np.float32]
Rows = NDArray[np.intp]

HIDDEN = 5  # units per network
BLOCKS = 4  # the work of a thread: fixed, so that the number of threads changes nothing
NETWORKS = 25  # per block
BATCH = 512
STEPS = 500  # for up to 10,000 rows; beyond, they grow as the root of the number of rows
MAX_STEPS = 2000
WARM_UP = 50
RATE = 0.03
CHECK = 25  # steps between looks at the held-out rows
PATIENCE = 0.4  # the share of the steps that may pass without a lower loss
TILE, EDGE = 304, 8  # rows that are scored at once, and what is left free on both sides of them
FOLDS = 10  # of which each block holds out one to stop by

# the first is what networks are trained with, several times as fast as what the paper has; models
# from before have that
ACTIVATIONS: dict[str, Callable[[Matrix], object]] = {
    "clip": lambda h: h.clip(-1, 1, out=h),
    "tanh": lambda h: np.tanh(h, out=h),
}


@dataclass(frozen=True)
class BaggedNetworks:
    """k networks side by side; their mean logit is the logit of the score."""

    W: Matrix  # (d, 5k), from features to hidden units
    b: Vector  # (5k,)
    v: Vector  # (5k,), from each hidden unit to the output of its network
    c: Vector  # (k,)
    activation: str = "clip"

    def mean_logit(self, x: Matrix) -> Vector:
        """The mean of the networks' logits, shape (n,), TILE rows at a time.

        A row's place does not show in its last digits. For that, rows are the columns of a product
        that BLAS does not cut, away from its edges, where some kernels sum in another order.
        """
        n, d = x.shape
        activate = ACTIVATIONS[self.activation]
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
            activate(h)
            logit[start : start + TILE] = (v @ h)[inner] + c
        return logit

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        return _score(by_chunks(self.mean_logit, features))

    def arrays(self) -> Arrays:
        """All there is to store."""
        activation = np.array(self.activation)
        return {"W": self.W, "b": self.b, "v": self.v, "c": self.c, "activation": activation}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The networks that arrays() came from."""
        W, b, v, c = (np.asarray(arrays[name], dtype=np.float32) for name in ("W", "b", "v", "c"))
        return cls(W, b, v, c, str(arrays.get("activation", "tanh")))

    def check(self, d: int) -> None:
        """Stop with a ValueError unless all shapes fit d features and all weights are numbers."""
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"no activation {self.activation[:40]!r} is known")
        k, units = self.c.size, self.c.size * HIDDEN
        if k == 0:
            raise ValueError("no networks")
        check_weights(self.W, (d, units))
        check_weights(self.b, (units,))
        check_weights(self.v, (units,))
        check_weights(self.c, (k,))


def _score(logit: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import expit

    return np.asarray(expit(logit))


class _Networks:
    """k networks in training: parts of one vector, so that a step of them all is one of it."""

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
    """The gradient of the weighted log-loss of a batch, in arrays that are used each time."""

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
    """Kingma and Ba's optimiser; the constant factors of their two means are left to the end."""

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
        of_mean, of_square = ((1 - q) / (1 - q**self.steps) for q in (0.9, 0.99))
        np.sqrt(self.square, out=self.change)
        self.change += 1e-8
        np.divide(self.mean, self.change, out=self.change)
        self.change *= rate * of_mean / math.sqrt(of_square)
        self.parameters -= self.change


def _cycle(rows: Rows, size: int, rng: np.random.Generator) -> Iterator[Rows]:
    """Batches of so many rows, without end; each row comes up once per pass."""
    waiting = rows[:0]
    while True:
        while len(waiting) < size:
            waiting = np.concatenate([waiting, rng.permutation(rows)])
        yield waiting[:size]
        waiting = waiting[size:]


def _sizes(kinds: list[Rows]) -> list[int]:
    """How many labeled and unlabeled rows a batch has: at least a quarter each, if there are."""
    shares = np.clip([len(rows) / sum(map(len, kinds)) for rows in kinds], 0.25, 0.75)
    return [min(len(rows), round(BATCH * q)) for rows, q in zip(kinds, shares, strict=True)]


def _half_weights(kinds: list[Rows], sizes: list[int], in_bag: NDArray[np.uint8]) -> Matrix:
    """Half of what a row weighs in a batch, shape (n, k); both kinds have half of all weight."""
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
    """Networks trained on rows x, shape (n, d + 1), weighted by in_bag, shape (n, k).

    The held-out rows say how long.
    """
    seen = in_bag.any(axis=1)
    kinds = [np.flatnonzero(seen & labeled), np.flatnonzero(seen & ~labeled)]
    sizes = _sizes(kinds)
    half_weight = _half_weights(kinds, sizes, in_bag)
    networks, penalty = _initial(kinds, x.shape[1] - 1, in_bag.shape[1], rng)
    gradient, adam = _Gradient(networks, *sizes), _Adam(networks.vector)
    steps = round(min(STEPS * max(1, sum(map(len, kinds)) / 10_000) ** 0.5, MAX_STEPS))
    best, lowest, best_step = networks.vector, np.inf, 0
    batches = zip(*(_cycle(*of, rng) for of in zip(kinds, sizes, strict=True)), strict=True)
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
def networks(training: Training, *, seed: int, threads: int, progress: ShareDone) -> Fit:
    """The ensemble, with out-of-bag scores."""
    everything = np.ones(len(training.labeled), dtype=bool)
    return train_networks(training, everything, seed=seed, threads=threads, progress=progress)


def train_networks(
    training: Training,
    learned: NDArray[np.bool_],
    *,
    seed: int,
    threads: int,
    progress: ShareDone,
) -> Fit:
    """Networks that learn from some of the rows, shape (n,), with out-of-bag scores of all.

    Each block of networks holds out a tenth of the units, another one for each block, to tell
    when to stop; a row is scored by networks that neither trained nor stopped on its unit,
    whether or not it is a row to learn from.
    """
    labeled = training.labeled
    x = np.ones((len(labeled), training.features.shape[1] + 1), dtype=np.float32)
    x[:, :-1] = training.features
    units = Units(training, learned)
    rng = np.random.default_rng(seed)
    fold = units.folds(FOLDS, rng)
    if units.fewest < FOLDS:  # too few to spare any
        fold[:] = -1

    def block(job: tuple[int, np.random.Generator]) -> tuple[BaggedNetworks, Vector, Rows]:
        number, rng = job
        in_bag = units.bootstrap(NETWORKS, fold != number, rng)
        held_out = fold[units.of_row] == number
        stop_by = np.flatnonzero(held_out & learned)
        trained = _train(x, labeled, in_bag * learned[:, None], stop_by, rng)
        out_of_bag = (in_bag == 0) & ~held_out[:, None]
        total = [
            2 * (trained.half_logits(trained.hidden(x[rows])) * out_of_bag[rows].T).sum(0)
            for rows in chunks(len(labeled))
        ]
        return trained.model(), np.concatenate(total), out_of_bag.sum(1)

    jobs = enumerate(rng.spawn(BLOCKS))
    blocks, totals, counts = zip(*in_threads(block, jobs, threads, progress), strict=True)
    W, b, v, c = (
        np.concatenate([getattr(part, name) for part in blocks], axis=-1) for name in "Wbvc"
    )
    # the chance of a row that is in every bag is below 1e-13, even with two groups
    return Fit(BaggedNetworks(W, b, v, c), _score(sum(totals) / sum(counts)))


MIXED = 0.1  # the share of the labeled class that may be left among the unlabeled rows set apart
FEWEST = 200  # rows that must be set apart, or the first round is all that can be learned


@register("semi-supervised", BaggedNetworks)
def semi_supervised(training: Training, *, seed: int, threads: int, progress: ShareDone) -> Fit:
    """Networks in two rounds: the second learns from unlabeled rows that the first set apart.

    Rows that the second round does not learn from are scored as the others are, by networks that
    have seen no row of their group, or they would differ from labeled rows by being scored better.
    """

    def fit(learned: NDArray[np.bool_], done: float) -> Fit:
        def half(share: float) -> None:
            progress((done + share) / 2)

        return train_networks(training, learned, seed=seed, threads=threads, progress=half)

    first = fit(np.ones(len(training.labeled), dtype=bool), 0)
    apart = set_apart(first.scores, training.labeled)
    if apart.sum() < FEWEST:
        progress(1.0)
        return first
    return fit(training.labeled | apart, 1)


def set_apart(scores: NDArray[np.float64], labeled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The unlabeled rows below as high a score as leaves few labeled rows below it, shape (n,)."""
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(labeled[order])
    share = (below + 1) / np.maximum(np.arange(1, len(order) + 1) - below, 1)
    within = np.flatnonzero(share <= MIXED)
    limit = scores[order[within[-1]]] if len(within) else -np.inf
    return np.asarray(~labeled & (scores <= limit))
