"""The paper's transform: a hundred bagged networks of five tanh units, trained as one.

The hidden units of many networks stand side by side in one matrix, so a step of all of them is a
few large products. Bootstrap samples are weights of rows: a network's out-of-bag rows are those
of weight 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .base import Arrays, Fit, Matrix, Progress, Training, check_weights, register
from .held_out import Units
from .threads import by_chunks, chunks, in_threads

Vector = NDArray[np.float32]
Rows = NDArray[np.intp]

HIDDEN = 5  # units per network
BLOCKS = 4  # the work of a thread: fixed, so that the number of threads changes nothing
NETWORKS = 25  # per block
BATCH = 256
STEPS = 1000  # for up to 10,000 rows; beyond, they grow as the root of the number of rows
MAX_STEPS = 4000
WARM_UP = 50
RATE = 0.02
CHECK = 25  # steps between looks at the held-out rows
PATIENCE = 0.4  # the share of the steps that may pass without a lower loss
TILE, EDGE = 304, 8  # rows that are scored at once, and what is left free on both sides of them
FOLDS = 10  # of which each block holds out one to stop by


@dataclass(frozen=True)
class BaggedNetworks:
    """k networks side by side; their mean logit is the logit of the score."""

    W: Matrix  # (d, 5k), from features to hidden units
    b: Vector  # (5k,)
    v: Vector  # (5k,), from each hidden unit to the output of its network
    c: Vector  # (k,)

    @classmethod
    def view(cls, parameters: Vector, d: int, k: int) -> Self:
        """Networks whose parameters are parts of one vector, shape ((d + 2) 5k + k,)."""
        width = k * HIDDEN
        W, b, v, c = np.split(parameters, np.cumsum([d * width, width, width]))
        return cls(W.reshape(d, width), b, v, c)

    def hidden(self, x: Matrix) -> Matrix:
        """The hidden units of rows x, shape (n, 5k)."""
        h = x @ self.W
        h += self.b
        return np.tanh(h, out=h)

    def output_matrix(self) -> Matrix:
        """v as a block diagonal matrix, shape (5k, k): idle zeros cost less than a reshape."""
        V = np.zeros((len(self.v), len(self.c)), dtype=np.float32)
        V[self.own()] = self.v
        return V

    def own(self) -> tuple[Rows, Rows]:
        """Where in a matrix of shape (5k, k) a hidden unit meets its own network."""
        units = np.arange(len(self.v))
        return units, units // HIDDEN

    def logits(self, x: Matrix) -> Matrix:
        """The logit of each network, shape (n, k)."""
        return self.hidden(x) @ self.output_matrix() + self.c

    def mean_logit(self, x: Matrix) -> Vector:
        """The mean of the networks' logits, shape (n,), TILE rows at a time.

        A row's place does not show in its last digits. For that, rows are the columns of a product
        that BLAS does not cut, away from its edges, where some kernels sum in another order.
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
            np.tanh(h, out=h)
            logit[start : start + TILE] = (v @ h)[inner] + c
        return logit

    def predict(self, features: Matrix, threads: int) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        return _score(by_chunks(self.mean_logit, features, threads))

    def arrays(self) -> Arrays:
        """All there is to store."""
        return {"W": self.W, "b": self.b, "v": self.v, "c": self.c}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The networks that arrays() came from."""
        W, b, v, c = (np.asarray(arrays[name], dtype=np.float32) for name in ("W", "b", "v", "c"))
        return cls(W, b, v, c)

    def check(self, d: int) -> None:
        """Stop with a ValueError unless all shapes fit d features and all weights are numbers."""
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


def _gradient(
    networks: BaggedNetworks, x: Matrix, labeled: Matrix, weight: Matrix, gradient: BaggedNetworks
) -> None:
    """Put the gradient of the weighted log-loss of rows x into `gradient`.

    Shapes: x (n, d), labeled (n, 1), weight (n, k).
    """
    V = networks.output_matrix()
    h = networks.hidden(x)
    s = h @ V
    s += networks.c
    # the logistic function as a tanh, which is several times as fast
    s *= 0.5
    np.tanh(s, out=s)
    s *= 0.5
    s += 0.5 - labeled
    s *= weight
    s.sum(0, out=gradient.c)
    gradient.v[:] = (h.T @ s)[networks.own()]
    np.square(h, out=h)
    np.subtract(1, h, out=h)
    h *= s @ V.T
    h.sum(0, out=gradient.b)
    np.matmul(x.T, h, out=gradient.W)


def _cycle(rows: Rows, size: int, rng: np.random.Generator) -> Iterator[Rows]:
    """Batches of so many rows, without end; each row comes up once per pass."""
    waiting = rows[:0]
    while True:
        while len(waiting) < size:
            waiting = np.concatenate([waiting, rng.permutation(rows)])
        yield waiting[:size]
        waiting = waiting[size:]


def _batches(
    kinds: list[Rows], in_bag: NDArray[np.uint8], rng: np.random.Generator
) -> Iterator[tuple[Rows, Matrix, Matrix]]:
    """Batches of labeled and unlabeled rows, without end: rows, whether labeled, weights.

    Shapes (n,), (n, 1), (n, k). Both kinds have half the weight whatever their numbers, and at
    least a quarter of each batch as long as there are enough of them.
    """
    shares = np.clip([len(rows) / sum(map(len, kinds)) for rows in kinds], 0.25, 0.75)
    sizes = [min(len(rows), round(BATCH * q)) for rows, q in zip(kinds, shares, strict=True)]
    per_row = [
        0.5 * len(rows) / (size * in_bag[rows].sum(0, dtype=np.float32))
        for rows, size in zip(kinds, sizes, strict=True)
    ]
    weight = np.repeat(np.array(per_row, dtype=np.float32), sizes, axis=0)
    is_labeled = np.repeat(np.array([[1], [0]], dtype=np.float32), sizes, axis=0)
    streams = [_cycle(rows, size, rng) for rows, size in zip(kinds, sizes, strict=True)]
    for parts in zip(*streams, strict=True):
        rows = np.concatenate(parts)
        yield rows, is_labeled, weight * in_bag[rows]


class _Adam:
    """Kingma and Ba's optimiser, for gradients of shape (size,)."""

    def __init__(self, size: int) -> None:
        self.mean = np.zeros(size, dtype=np.float32)
        self.square = np.zeros(size, dtype=np.float32)
        self.steps = 0

    def step(self, gradient: Vector, rate: float) -> Vector:
        """What to take off the parameters."""
        self.steps += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.01 * (gradient**2 - self.square)
        spread = np.sqrt(self.square / (1 - 0.99**self.steps)) + 1e-8
        return rate / (1 - 0.9**self.steps) * self.mean / spread


def _train(
    features: Matrix,
    labeled: NDArray[np.bool_],
    in_bag: NDArray[np.uint8],
    held_out: Rows,
    rng: np.random.Generator,
) -> BaggedNetworks:
    """Networks trained on rows weighted by in_bag, shape (n, k); the held-out rows say how long."""
    d, k = features.shape[1], in_bag.shape[1]
    parameters = np.zeros((d + 2) * HIDDEN * k + k, dtype=np.float32)
    networks = BaggedNetworks.view(parameters, d, k)
    networks.W[:] = rng.normal(scale=d**-0.5, size=networks.W.shape)
    networks.v[:] = rng.normal(scale=HIDDEN**-0.5, size=networks.v.shape)
    slope = np.zeros_like(parameters)
    gradient = BaggedNetworks.view(slope, d, k)
    seen = in_bag.any(axis=1)
    kinds = [np.flatnonzero(seen & labeled), np.flatnonzero(seen & ~labeled)]
    # weights have a normal prior, worth less the more rows there are of the scarcer kind
    prior = sum(1 / len(rows) for rows in kinds) / 4
    penalty = np.zeros_like(parameters)
    BaggedNetworks.view(penalty, d, k).W[:] = prior * d
    BaggedNetworks.view(penalty, d, k).v[:] = prior
    steps = round(min(STEPS * max(1, sum(map(len, kinds)) / 10_000) ** 0.5, MAX_STEPS))
    adam = _Adam(len(parameters))
    best, lowest, best_step = parameters, np.inf, 0
    batches = _batches(kinds, in_bag, rng)
    for step, (rows, is_labeled, weight) in zip(range(1, steps + 1), batches, strict=False):
        _gradient(networks, features[rows], is_labeled, weight, gradient)
        slope += penalty * parameters
        rate = RATE * min(1, step / WARM_UP) * (1 + math.cos(math.pi * step / steps)) / 2
        parameters -= adam.step(slope, rate)
        if len(held_out) and step % CHECK == 0:
            loss = _log_loss(networks.mean_logit(features[held_out]), labeled[held_out])
            if loss < lowest:
                best, lowest, best_step = parameters.copy(), loss, step
            elif step - best_step >= PATIENCE * steps:
                break
    return BaggedNetworks.view(best, d, k)


def _log_loss(logit: Vector, labeled: NDArray[np.bool_]) -> float:
    """The mean of the mean log-losses of labeled and unlabeled rows."""
    loss = np.logaddexp(0, np.where(labeled, -logit, logit))
    return float(loss[labeled].mean() + loss[~labeled].mean()) / 2


@register("networks", BaggedNetworks)
def networks(training: Training, *, seed: int, threads: int, progress: Progress) -> Fit:
    """The ensemble, with out-of-bag scores.

    Each block of networks holds out a tenth of the units, another one for each block, to tell
    when to stop; a row is scored by networks that neither trained nor stopped on its unit.
    """
    features, labeled = np.ascontiguousarray(training.features), training.labeled
    units = Units(training)
    rng = np.random.default_rng(seed)
    fold = units.folds(FOLDS, rng)
    if units.fewest < FOLDS:  # too few to spare any
        fold[:] = -1

    def block(job: tuple[int, np.random.Generator]) -> tuple[BaggedNetworks, Vector, Rows]:
        number, rng = job
        in_bag = units.bootstrap(NETWORKS, fold != number, rng)
        held_out = fold[units.of_row] == number
        model = _train(features, labeled, in_bag, np.flatnonzero(held_out), rng)
        out_of_bag = (in_bag == 0) & ~held_out[:, None]
        total = [
            (model.logits(features[rows]) * out_of_bag[rows]).sum(1)
            for rows in chunks(len(labeled))
        ]
        return model, np.concatenate(total), out_of_bag.sum(1)

    jobs = enumerate(rng.spawn(BLOCKS))
    blocks, totals, counts = zip(*in_threads(block, jobs, threads, progress), strict=True)
    W, b, v, c = (
        np.concatenate([getattr(part, name) for part in blocks], axis=-1) for name in "Wbvc"
    )
    # the chance of a row that is in every bag is below 1e-13, even with two groups
    return Fit(BaggedNetworks(W, b, v, c), _score(sum(totals) / sum(counts)))
