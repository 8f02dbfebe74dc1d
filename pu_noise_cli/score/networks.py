"""Networks with one hidden layer, trained side by side: the paper's transform.

The hidden units of many networks are the rows of one matrix, and the table's rows its columns, so
that a step of all networks is a few large operations. Rows that a network does not learn from have
weight 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..numerics import BoolArray, FloatArray, Matrix, Vector
from ..tables.files import Arrays, check_weights

Rows = NDArray[np.intp]

RATE = 0.03  # of learning, at its highest
BATCH = 512
STEPS = 500  # for up to 10,000 rows; beyond, they grow as the root of the number of rows
MAX_STEPS = 2000
WARM_UP = 50
CHECK = 25  # steps between evaluations on the spare rows
PATIENCE = 0.4  # the fraction of the steps that may pass without a lower loss
TILE, EDGE = 304, 8  # rows in a product, and the margin on both sides of them
TILES = 16  # that are scored at once


@dataclass(frozen=True)
class Networks:
    """The mean logit of networks, which is a single network with the hidden units of all.

    Hidden units are clipped to [-1, 1], several times as fast as the paper's tanh.
    """

    W: Matrix  # (d, units), from features to hidden units
    b: Vector  # (units,)
    v: Vector  # (units,), from hidden units to the logit
    c: float

    def logit(self, x: Matrix) -> Vector:
        """The logit of rows x, shape (n,).

        The position of a row must not show in its last digits. So rows are the columns of a
        product that BLAS does not cut, away from its edges, where some kernels sum in another
        order.
        """
        n, d = x.shape
        W = np.concatenate([self.W, self.b[None]]).T
        logit = np.empty(n, dtype=np.float32)
        tiles = np.zeros((min(TILES, -(-n // TILE)), d + 1, EDGE + TILE + EDGE), dtype=np.float32)
        tiles[:, -1] = 1
        h = np.empty((len(tiles), len(W), tiles.shape[2]), dtype=np.float32)
        for start in range(0, n, len(tiles) * TILE):
            part = x[start : start + len(tiles) * TILE]
            for tile, first in zip(tiles, range(0, len(part), TILE), strict=False):
                rows = part[first : first + TILE]
                tile[:d, EDGE : EDGE + len(rows)] = rows.T
            np.matmul(W, tiles, out=h)
            h.clip(-1, 1, out=h)
            logits = np.matmul(self.v, h)[:, EDGE:-EDGE]
            logit[start : start + len(part)] = logits.ravel()[: len(part)]
        logit += np.float32(self.c)
        return logit

    def changes(self, x: Matrix, edits: Iterable[tuple[slice, Matrix]]) -> Iterator[Vector]:
        """What each edit of some features of x does to the logit, see Scorer."""
        hidden = self._hidden(x)
        before = self.v @ hidden.clip(-1, 1)
        for features, values in edits:
            edited = hidden + self.W[features].T @ (values - x[:, features]).T
            yield self.v @ edited.clip(-1, 1) - before

    def influence(self, x: Matrix) -> FloatArray:
        """How much each feature moves the logit of rows x, as a variance, shape (d,)."""
        slope = self.W @ ((np.abs(self._hidden(x)) < 1) * self.v[:, None])
        return np.asarray(np.square(slope).mean(1, dtype=np.float64) * x.var(0))

    def _hidden(self, x: Matrix) -> Matrix:
        """The hidden units before they are clipped, shape (units, n)."""
        return np.asarray(self.W.T @ x.T + self.b[:, None])

    def scaled(self, factor: float) -> Self:
        """The same with a logit times a factor."""
        return replace(self, v=self.v * np.float32(factor), c=self.c * factor)

    def arrays(self) -> Arrays:
        """The arrays to store."""
        return {"W": self.W, "b": self.b, "v": self.v, "c": np.array(self.c)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The networks of d features with these arrays; a ValueError if there are none."""
        W, b, v, c = (np.asarray(arrays[name], dtype=np.float32) for name in ("W", "b", "v", "c"))
        for weights, shape in ((W, (d, v.size)), (b, (v.size,)), (v, (v.size,)), (c, ())):
            check_weights(weights, shape)
        return cls(W, b, v, float(c))


# ---- Training


class _Networks:
    """k networks of m units in training: one vector, so that a step of all changes one vector."""

    def __init__(self, d: int, m: int, k: int) -> None:
        width = m * k
        self.vector: Vector = np.zeros((d + 2) * width + k, dtype=np.float32)
        W, v, self.c = np.split(self.vector, np.cumsum([(d + 1) * width, width]))
        self.W = W.reshape(d + 1, width)  # the last row is b
        self.v = v.reshape(m, k)

    def hidden(self, x: Matrix, out: Matrix | None = None) -> Matrix:
        """The hidden units of rows x, whose last column is 1; shape (mk, n)."""
        h = np.matmul(self.W.T, x.T, out=out)
        h.clip(-1, 1, out=h)
        return h

    def half_logits(self, h: Matrix, out: Matrix | None = None) -> Matrix:
        """Half the logit of each network by the hidden units, shape (k, n)."""
        by_network = h.reshape(*self.v.shape, -1)
        s: Matrix = np.einsum("jkn,jk->kn", by_network, self.v / 2, out=out)
        s += self.c[:, None] / 2
        return s

    def of_fold(self, fold: int, folds: int) -> tuple[Matrix, Matrix, Vector]:
        """Views of W, v and c of the networks of a fold: every so many."""
        m, k = self.v.shape
        W = self.W.reshape(-1, m, k)
        return W[:, :, fold::folds], self.v[:, fold::folds], self.c[fold::folds]


class _Gradient:
    """The gradient of the weighted log-loss of a batch, in arrays that are reused."""

    def __init__(self, networks: _Networks, n_labeled: int, n_unlabeled: int) -> None:
        self.networks = networks
        rows = n_labeled + n_unlabeled
        self.sign = np.repeat(np.array([-1, 1], dtype=np.float32), [n_labeled, n_unlabeled])
        self.slope = _Networks(len(networks.W) - 1, *networks.v.shape)
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


def _half_weights(kinds: list[Rows], sizes: list[int], taken: NDArray[np.uint8]) -> Matrix:
    """Half the weight of each row in a batch, shape (n, k); both kinds have the same total."""
    half_weight = taken.astype(np.float32)
    for rows, size in zip(kinds, sizes, strict=True):
        half_weight[rows] *= 0.25 * len(rows) / (size * half_weight[rows].sum(0))
    return half_weight


def _rate(step: int, steps: int) -> float:
    """The fraction of the highest rate of learning."""
    return min(1, step / WARM_UP) * (1 + math.cos(math.pi * step / steps)) / 2


def _initial(
    kinds: list[Rows], d: int, m: int, k: int, rng: np.random.Generator
) -> tuple[_Networks, Vector]:
    """k networks of m units to start from, and the penalties on the squares of their weights."""
    start, penalty = _Networks(d, m, k), _Networks(d, m, k)
    start.W[:d] = rng.normal(scale=d**-0.5, size=(d, m * k))
    start.v[:] = rng.normal(scale=m**-0.5, size=start.v.shape)
    # weights have a prior, worth less the more rows there are of the scarcer kind
    prior = sum(1 / len(rows) for rows in kinds) / 4
    penalty.W[:d] = prior * d
    penalty.v[:] = prior
    return start, penalty.vector


class _Stopping:
    """The networks of each fold as they were when their loss on spare rows was lowest."""

    def __init__(self, networks: _Networks, x: Matrix, labeled: BoolArray, spare: BoolArray):
        """Spare rows of each fold, shape (n, folds); folds without both kinds never stop."""
        self.networks, self.folds = networks, spare.shape[1]
        rows = np.flatnonzero(spare.any(1))
        self.x = _with_ones(x[rows])
        self.labeled, spare = labeled[rows], spare[rows]
        self.best = {
            fold: (np.inf, 0, networks.of_fold(fold, self.folds))
            for fold in range(self.folds)
            if all((spare[:, fold] & (self.labeled == kind)).any() for kind in (True, False))
        }
        self.spare = spare

    def check(self, step: int) -> None:
        """Keep the networks whose loss is lower than before."""
        if not self.best:
            return
        logits = 2 * self.networks.half_logits(self.networks.hidden(self.x))
        for fold, (lowest, _, _) in self.best.items():
            rows = self.spare[:, fold]
            loss = _loss(logits[fold :: self.folds, rows].mean(0), self.labeled[rows])
            if loss < lowest:
                W, v, c = self.networks.of_fold(fold, self.folds)
                self.best[fold] = loss, step, (W.copy(), v.copy(), c.copy())

    def hopeless(self, step: int, patience: float) -> bool:
        """Whether no fold has had a lower loss for so many steps."""
        last = [best_step for _, best_step, _ in self.best.values()]
        return len(last) == self.folds and step - max(last) >= patience

    def of_fold(self, fold: int) -> Networks:
        """The mean of the best networks of a fold."""
        kept = self.best.get(fold)
        W, v, c = kept[2] if kept else self.networks.of_fold(fold, self.folds)
        W, v = W.reshape(len(W), -1), v.flatten() / np.float32(len(c))
        return Networks(W[:-1].copy(), W[-1].copy(), v, float(c.mean()))


def _with_ones(x: Matrix) -> Matrix:
    return np.concatenate([x, np.ones((len(x), 1), dtype=np.float32)], axis=1)


def _loss(logit: Vector, labeled: BoolArray) -> float:
    """The mean of the mean log-losses of labeled and unlabeled rows."""
    loss = np.logaddexp(0, np.where(labeled, -logit, logit))
    return float(loss[labeled].mean() + loss[~labeled].mean()) / 2


def train_networks(
    x: Matrix,
    labeled: BoolArray,
    learned: BoolArray,
    spare: BoolArray,
    rng: np.random.Generator,
    networks: int,
    hidden: int,
) -> list[Networks]:
    """Train networks of so many hidden units for each fold, see Trainer.

    Spare rows say when to stop.
    """
    folds = learned.shape[1]
    taken = np.tile(learned & ~spare[:, None], networks).astype(np.uint8)
    seen = taken.any(axis=1)
    kinds = [np.flatnonzero(seen & labeled), np.flatnonzero(seen & ~labeled)]
    sizes = _sizes(kinds)
    half_weight = _half_weights(kinds, sizes, taken)
    current, ridge = _initial(kinds, x.shape[1], hidden, folds * networks, rng)
    stopping = _Stopping(current, x, labeled, learned & spare[:, None])
    gradient, adam = _Gradient(current, *sizes), _Adam(current.vector)
    steps = round(min(STEPS * max(1, sum(map(len, kinds)) / 10_000) ** 0.5, MAX_STEPS))
    batches = zip(*(_cycle(*kind, rng) for kind in zip(kinds, sizes, strict=True)), strict=True)
    for step, batch in zip(range(1, steps + 1), batches, strict=False):
        rows = np.concatenate(batch)
        slope = gradient(_with_ones(x.take(rows, 0)), half_weight.take(rows, 0))
        slope += ridge * current.vector
        adam.step(slope, RATE * _rate(step, steps))
        if step % CHECK == 0:
            stopping.check(step)
            if stopping.hopeless(step, PATIENCE * steps):
                break
    return [stopping.of_fold(fold) for fold in range(folds)]
