"""Bagged networks, trained side by side: the paper's transform, the default score, two rounds.

The hidden units of many networks are the rows of one matrix, and the table's rows its columns, so
that a step of all networks is a few large operations. Samples are weights of rows: the out-of-bag
rows of a network have weight 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..numerics import Matrix
from ..scale.engine import ShareDone, by_chunks, chunks, in_threads
from ..tables.files import Arrays
from .classifiers import (
    NO_HINGES,
    Fit,
    Hinges,
    Linear,
    Part,
    Training,
    Units,
    Vector,
    check_weights,
    log_loss,
    logistic,
    part_of,
    prefixed,
    probed_rows,
    progress_of,
    register,
)

Rows = NDArray[np.intp]

BATCH = 512
STEPS = 500  # for up to 10,000 rows; beyond, they grow as the root of the number of rows
MAX_STEPS = 2000
WARM_UP = 50
CHECK = 25  # steps between evaluations on the held-out rows
PATIENCE = 0.4  # the fraction of the steps that may pass without a lower loss
TILE, EDGE = 304, 8  # rows that are scored at once, and the margin on both sides of them
FOLDS = 10  # of units; each block holds out one for early stopping

MAX_MIXED = 0.1  # the fraction of labeled rows among rows that are set apart
MIN_APART = 20  # rows that must be set apart for a second round

WIDE = 1000  # features, from which only a linear score is learned if labeled rows are fewer
FEW_LABELED = 300  # rows, up to which a linear score has a weight
WEIGHTS = np.linspace(0, 1, 5)  # of the linear score that are averaged
CERTAIN = 1e-9  # the smallest probability of an out-of-bag score

KNOTS = (1 / 3, 2 / 3)  # quantiles of a column at which its hinges bend
MAX_HINGED = 200  # features; wider tables get no hinges
HINGE_SCALE = 0.5  # of a hinge in training, beside features of unit variance
MIN_BEND = 0.05  # standard deviation of a hinge that its column does not explain
HINGE_ROWS = 4000  # by which hinges are placed


@dataclass(frozen=True)
class Kind:
    """How networks of one kind are built and trained."""

    blocks: int  # units of work: fixed, so that the number of threads changes nothing
    networks: int  # per block
    hidden: int  # units per network
    rate: float = 0.03  # of learning, at its highest
    ridge: float = 1.0  # factors of the penalties on squares and on absolute values of weights
    lasso: float = 0.0
    hinged: bool = False  # whether hinges of the features are features, too


PAPER = (Kind(blocks=4, networks=25, hidden=5),)
# wider networks with hinges err less but vary more, and err on other rows than the paper's do
BLEND = (
    Kind(blocks=2, networks=25, hidden=5),
    Kind(blocks=2, networks=12, hidden=10, rate=0.05, ridge=0.2, lasso=0.4, hinged=True),
)


# ---- New rows are scored as training rows are: by networks that might not have seen them

PATTERNS = 1024  # with 32, the lower end of an interval of alpha fell by two thirds
ODD = np.uint32(0x9E3779B1)  # 2^32 / the golden ratio, for hashes


@dataclass(frozen=True)
class Plan:
    """How the networks of one kind were sampled: so many blocks from the first on."""

    blocks: int
    first: int
    thirds: bool  # whether samples leave out thirds, instead of being bootstrap samples


@functools.lru_cache(maxsize=16)
def _patterns(plan: Plan, networks: int) -> Matrix:
    """Weights of the networks of one kind for each pattern, shape (networks, PATTERNS).

    A pattern says which networks did not learn from a row, drawn as for a training row.
    """
    rng = np.random.default_rng([plan.blocks, plan.first, plan.thirds, networks])
    per_block = networks // plan.blocks
    unseen = np.empty((plan.blocks, per_block, PATTERNS), dtype=np.float32)
    if plan.thirds:
        left_out = rng.integers(3, size=(plan.blocks, -(-per_block // 3), PATTERNS))
        unseen[:] = left_out.repeat(3, 1)[:, :per_block] == np.arange(per_block)[:, None] % 3
    else:
        unseen[:] = rng.random(unseen.shape) < math.exp(-1)
    for block in range(plan.blocks):  # a tenth of the rows is held out
        unseen[block, :, plan.first + block :: FOLDS] = 0
    weights = unseen.reshape(networks, PATTERNS)
    weights[:, weights.sum(0) == 0] = 1
    return np.asarray(weights / weights.sum(0))


def _pattern_of(x: Matrix) -> Rows:
    """The pattern of each row, by its features, shape (n,)."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    factors = (2 * np.arange(1, x.shape[1] + 1, dtype=np.uint32) + 1) * ODD
    mixed = (bits * factors).sum(1, dtype=np.uint32)
    mixed ^= mixed >> np.uint32(15)
    mixed *= ODD
    return np.asarray(mixed >> np.uint32(22), dtype=np.intp)


@dataclass(frozen=True)
class BaggedNetworks:
    """k networks of m units side by side; a mean of their logits is the logit of the score.

    With a plan, the mean is over networks that might not have seen the row. A mean over all would
    vary less than the scores of training rows, and labeled rows, which are nearly all training
    rows, would then reach scores that hardly any other row has.

    Hidden units are clipped to [-1, 1], several times as fast as the paper's tanh.
    """

    W: Matrix  # (d + h, mk), from features and hinges to hidden units
    b: Vector  # (mk,)
    v: Vector  # (mk,), from each hidden unit to the output of its network
    c: Vector  # (k,)
    hinges: Hinges = NO_HINGES
    plan: Plan | None = None

    def mean_logit(self, x: Matrix) -> Vector:
        """The mean of the networks' logits, shape (n,), TILE rows at a time.

        The position of a row must not show in its last digits. So rows are the columns of a
        product that BLAS does not cut, away from its edges, where some kernels sum in another
        order.
        """
        n, d = x.shape
        W = np.concatenate([self.W, self.b[None]]).T
        k = len(self.c)
        v, c = self.v / np.float32(k), self.c.mean()
        by_network, patterns = self.v.reshape(-1, k), None
        if self.plan is not None:
            patterns, pattern = _patterns(self.plan, k), _pattern_of(x)
        logit = np.empty(n, dtype=np.float32)
        tile = np.zeros((W.shape[1], EDGE + TILE + EDGE), dtype=np.float32)
        tile[-1] = 1
        h = np.empty((len(W), tile.shape[1]), dtype=np.float32)
        for start in range(0, n, TILE):
            part = x[start : start + TILE]
            inner = slice(EDGE, EDGE + len(part))
            tile[:d, inner] = part.T
            tile[d:-1, inner] = self.hinges(part).T
            np.matmul(W, tile, out=h)
            h.clip(-1, 1, out=h)
            if patterns is None:
                logit[start : start + TILE] = (v @ h)[inner] + c
            else:
                logits = np.einsum("jkn,jk->kn", h.reshape(*by_network.shape, -1), by_network)
                logits = logits[:, inner] + self.c[:, None]
                logits *= patterns.take(pattern[start : start + TILE], axis=1)
                logit[start : start + TILE] = logits.sum(0)
        return logit

    def arrays(self) -> Arrays:
        """The arrays to store."""
        arrays: Arrays = {"W": self.W, "b": self.b, "v": self.v, "c": self.c}
        if len(self.hinges.knot):
            arrays |= {"hinge_feature": self.hinges.feature, "hinge_knot": self.hinges.knot}
        plan = () if self.plan is None else (self.plan.blocks, self.plan.first, self.plan.thirds)
        return arrays | {"plan": np.array(plan, dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The networks of d features with these arrays; a ValueError if there are none."""
        W, b, v, c = (np.asarray(arrays[name], dtype=np.float32) for name in ("W", "b", "v", "c"))
        feature = np.asarray(arrays.get("hinge_feature", NO_HINGES.feature))
        knot = np.asarray(arrays.get("hinge_knot", NO_HINGES.knot), dtype=np.float32)
        if c.size == 0 or v.size == 0 or v.size % c.size:
            raise ValueError("no networks")
        if feature.shape != knot.shape or feature.dtype.kind != "i":
            raise ValueError("every hinge needs a feature")
        if feature.size and not 0 <= feature.min() <= feature.max() < d:
            raise ValueError("hinges of unknown features")
        of_units = (v.size,)
        shapes = ((d + knot.size, v.size), of_units, of_units, (c.size,), (knot.size,))
        for weights, shape in zip((W, b, v, c, knot), shapes, strict=True):
            check_weights(weights, shape)
        hinges = Hinges(feature.astype(np.intp), knot)
        return cls(W, b, v, c, hinges, _stored_plan(arrays["plan"], c.size))


def _stored_plan(plan: NDArray[np.generic], networks: int) -> Plan | None:
    if plan.shape == (0,) and plan.dtype == np.int64:
        return None
    blocks, first, thirds = plan.tolist()
    if plan.dtype != np.int64 or not 1 <= blocks <= FOLDS - first <= FOLDS or thirds not in (0, 1):
        raise ValueError("not a plan of samples")
    if networks % blocks:
        raise ValueError("blocks of unequal size")
    return Plan(blocks, first, bool(thirds))


@dataclass(frozen=True)
class Networks:
    """Networks of one or more kinds; the logit of the score is the mean of the kinds' logits."""

    kinds: tuple[BaggedNetworks, ...]

    def logit(self, features: Matrix) -> NDArray[np.float64]:
        """The logit of the score, shape (n,)."""
        parts = [by_chunks(kind.mean_logit, features) for kind in self.kinds]
        return np.asarray(sum(parts) / len(parts))

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        from scipy.special import expit

        return np.asarray(expit(self.logit(features)))

    def arrays(self) -> Arrays:
        """The arrays to store."""
        parts = [prefixed(f"{i}.", kind.arrays()) for i, kind in enumerate(self.kinds)]
        return {name: array for part in parts for name, array in part.items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The networks of d features with these arrays; a ValueError if there are none."""
        numbers = range(len({name.partition(".")[0] for name in arrays}))
        if not numbers:
            raise ValueError("no networks")
        return cls(tuple(BaggedNetworks.from_arrays(part_of(arrays, f"{i}."), d) for i in numbers))


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


def _half_weights(kinds: list[Rows], sizes: list[int], in_bag: NDArray[np.uint8]) -> Matrix:
    """Half the weight of each row in a batch, shape (n, k); both kinds have the same total."""
    half_weight = in_bag.astype(np.float32)
    for rows, size in zip(kinds, sizes, strict=True):
        half_weight[rows] *= 0.25 * len(rows) / (size * half_weight[rows].sum(0))
    return half_weight


def _rate(step: int, steps: int) -> float:
    """The fraction of the highest rate of learning."""
    return min(1, step / WARM_UP) * (1 + math.cos(math.pi * step / steps)) / 2


def _initial(
    kinds: list[Rows], d: int, kind: Kind, rng: np.random.Generator
) -> tuple[_Networks, Vector, float]:
    """Networks to start from, the penalties on squares, and on absolute weights of features."""
    m, k = kind.hidden, kind.networks
    networks, penalty = _Networks(d, m, k), _Networks(d, m, k)
    networks.W[:d] = rng.normal(scale=d**-0.5, size=(d, m * k))
    networks.v[:] = rng.normal(scale=m**-0.5, size=networks.v.shape)
    # weights have a prior, worth less the more rows there are of the scarcer kind
    prior = sum(1 / len(rows) for rows in kinds) / 4
    penalty.W[:d] = kind.ridge * prior * d
    penalty.v[:] = kind.ridge * prior
    return networks, penalty.vector, kind.lasso * prior * math.sqrt(d)


def _train(
    x: Matrix,
    labeled: NDArray[np.bool_],
    in_bag: NDArray[np.uint8],
    held_out: Rows,
    kind: Kind,
    rng: np.random.Generator,
) -> _Networks:
    """Train networks on rows x, shape (n, d + 1), weighted by in_bag, shape (n, k).

    Training stops when the loss on the held-out rows no longer falls.
    """
    seen = in_bag.any(axis=1)
    kinds = [np.flatnonzero(seen & labeled), np.flatnonzero(seen & ~labeled)]
    sizes = _sizes(kinds)
    half_weight = _half_weights(kinds, sizes, in_bag)
    networks, ridge, lasso = _initial(kinds, x.shape[1] - 1, kind, rng)
    gradient, adam = _Gradient(networks, *sizes), _Adam(networks.vector)
    steps = round(min(STEPS * max(1, sum(map(len, kinds)) / 10_000) ** 0.5, MAX_STEPS))
    best, lowest, best_step = networks.vector, np.inf, 0
    batches = zip(*(_cycle(*kind, rng) for kind in zip(kinds, sizes, strict=True)), strict=True)
    for step, batch in zip(range(1, steps + 1), batches, strict=False):
        rows = np.concatenate(batch)
        slope = gradient(x.take(rows, 0), half_weight.take(rows, 0))
        slope += ridge * networks.vector
        if lasso:
            gradient.slope.W[:-1] += np.float32(lasso) * np.sign(networks.W[:-1])
        adam.step(slope, kind.rate * _rate(step, steps))
        if len(held_out) and step % CHECK == 0:
            logit = networks.model().mean_logit(x[held_out, :-1])
            loss = _loss(logit, labeled[held_out])
            if loss < lowest:
                best, lowest, best_step = networks.vector.copy(), loss, step
            elif step - best_step >= PATIENCE * steps:
                break
    networks.vector[:] = best
    return networks


def _loss(logit: Vector, labeled: NDArray[np.bool_]) -> float:
    """The mean of the mean log-losses of labeled and unlabeled rows."""
    loss = np.logaddexp(0, np.where(labeled, -logit, logit))
    return float(loss[labeled].mean() + loss[~labeled].mean()) / 2


# ---- Hinges of features


@dataclass(frozen=True)
class _Bends:
    """Hinges as networks learn from them: without what is linear in their feature, scaled."""

    hinges: Hinges
    slope: Vector  # (h,): the bend is (hinge - slope * x_j - mean) * scale
    mean: Vector  # (h,)
    scale: Vector  # (h,)

    @classmethod
    def of(cls, features: Matrix) -> _Bends:
        """Hinges at quantiles of the features, shape (n, d), where they bend at all."""
        n, d = features.shape
        count = min(n, HINGE_ROWS)
        x = features[np.arange(count) * n // count].astype(np.float64)
        if d > MAX_HINGED:
            x = x[:, :0]
        knot = np.quantile(x, KNOTS, axis=0, method="lower")
        hinge = np.maximum(x - knot[:, None], 0)  # (knots, n, d)
        centered = x - x.mean(0)
        variance = np.maximum((centered**2).mean(0), np.finfo(np.float32).tiny)
        slope = (centered * hinge).mean(1) / variance
        bend = hinge - slope[:, None] * x
        mean, spread = bend.mean(1), bend.std(1)
        keep = spread >= MIN_BEND
        keep[1:] &= knot[1:] > knot[:-1]
        feature = np.nonzero(keep)[1]
        knot, slope, mean, scale = (
            values[keep].astype(np.float32)
            for values in (knot, slope, mean, HINGE_SCALE / np.maximum(spread, MIN_BEND))
        )
        return cls(Hinges(feature, knot), slope, mean, scale)

    def __call__(self, x: Matrix) -> Matrix:
        """The bends of rows x, shape (n, h)."""
        bend = self.hinges(x)
        bend -= self.slope * x[:, self.hinges.feature] + self.mean
        bend *= self.scale
        return bend

    def unfold(self, networks: BaggedNetworks) -> BaggedNetworks:
        """The same networks with weights of plain hinges instead of bends."""
        W, b = networks.W.copy(), networks.b.copy()
        d = len(W) - len(self.scale)
        W[d:] *= self.scale[:, None]
        np.subtract.at(W, self.hinges.feature, self.slope[:, None] * W[d:])
        b -= self.mean @ W[d:]
        return BaggedNetworks(W, b, networks.v, networks.c, self.hinges)


NO_BENDS = _Bends(NO_HINGES, *(np.empty(0, np.float32) for _ in range(3)))


# ---- Training of all networks


@dataclass(frozen=True)
class _Block:
    """Trained networks of one kind, and what they say of the rows that they did not see."""

    networks: BaggedNetworks
    total: Vector  # (n,): of the logits out of bag
    count: Rows  # (n,)
    part: Part


def _side_by_side(
    blocks: Sequence[BaggedNetworks], kind: Kind, plan: Plan | None
) -> BaggedNetworks:
    """The networks of several blocks as one."""

    def joined(units: Sequence[NDArray[np.float32]]) -> Matrix:
        """Of all blocks, the first units of all networks come first, then the second ones ..."""
        shape = (*units[0].shape[:-1], kind.hidden, kind.networks)
        together = np.concatenate([part.reshape(shape) for part in units], axis=-1)
        return together.reshape(*units[0].shape[:-1], -1)

    W, b, v = (joined([getattr(block, name) for block in blocks]) for name in "Wbv")
    c = np.concatenate([block.c for block in blocks])
    return BaggedNetworks(W, b, v, c, blocks[0].hinges, plan)


@register("networks", Networks)
def train_networks(
    training: Training,
    seed: int,
    threads: int,
    progress: ShareDone,
    learned: NDArray[np.bool_] | None = None,
    kinds: tuple[Kind, ...] = PAPER,
    as_unseen: bool = True,
) -> Fit:
    """Train networks on some or all rows, with out-of-bag scores of all.

    Each block of networks holds out another tenth of the units for early stopping. A row is scored
    by networks that neither trained nor stopped on its unit, even if it is not learned from.

    Parameters
    ----------
    learned : (n,)
        The rows to learn from; all by default.
    kinds
        Of networks, the paper's by default.
    as_unseen
        Whether new rows are scored as training rows are, by part of the networks.
    """
    from scipy.special import expit

    labeled = training.labeled
    if learned is None:
        learned = np.ones(len(labeled), dtype=bool)
    units = Units(training, learned)
    rng = np.random.default_rng(seed)
    fold = units.folds(FOLDS, rng)
    if units.smaller < FOLDS:  # too few to spare any
        fold[:] = -1
    probed = probed_rows(labeled)
    bends = _Bends.of(training.features) if any(kind.hinged for kind in kinds) else NO_BENDS
    d = training.features.shape[1]
    x = np.ones((len(labeled), d + len(bends.scale) + 1), dtype=np.float32)
    x[:, :d] = training.features
    x[:, d:-1] = bends(training.features)
    plain = x[:, [*range(d), -1]] if len(bends.scale) else x

    def block(job: tuple[int, Kind, np.random.Generator]) -> _Block:
        number, kind, rng = job
        sample = units.leave_third_out if kind.hinged else units.bootstrap
        in_bag = sample(kind.networks, fold != number, rng)
        held_out = fold[units.unit] == number
        stop_by = np.flatnonzero(held_out & learned)
        rows = x if kind.hinged else plain
        trained = _train(rows, labeled, in_bag * learned[:, None], stop_by, kind, rng)
        out_of_bag = (in_bag == 0) & ~held_out[:, None]
        total = [
            2 * (trained.half_logits(trained.hidden(rows[some])) * out_of_bag[some].T).sum(0)
            for some in chunks(len(labeled))
        ]
        networks = trained.model()
        if kind.hinged:
            networks = bends.unfold(networks)
        v = networks.v.reshape(kind.hidden, kind.networks)
        part = Part(networks.W, networks.b, out_of_bag[probed], v, networks.hinges)
        return _Block(networks, np.concatenate(total), out_of_bag.sum(1), part)

    kind_of = [kind for kind in kinds for _ in range(kind.blocks)]
    jobs = zip(range(len(kind_of)), kind_of, rng.spawn(len(kind_of)), strict=True)
    blocks = in_threads(block, jobs, threads, progress)
    models, logit, scored_by = [], np.zeros(len(labeled)), np.zeros(len(labeled), np.intp)
    for kind in kinds:
        of_kind = [one for one, other in zip(blocks, kind_of, strict=True) if other is kind]
        total, count = sum(one.total for one in of_kind), sum(one.count for one in of_kind)
        # a row that one block holds out may be in every bag of the other block of its kind
        logit += total / np.maximum(count, 1)
        scored_by += count > 0
        first = kind_of.index(kind)
        plan = Plan(kind.blocks, first, kind.hinged) if as_unseen else None
        models.append(_side_by_side([one.networks for one in of_kind], kind, plan))
    # of four blocks, or of the other kind, some network has not seen the row (but for 1 in 10^13)
    scores = np.asarray(expit(logit / scored_by))
    return Fit(Networks(tuple(models)), scores, tuple(one.part for one in blocks))


# ---- The default: networks of two kinds and, with few labeled rows, logistic regression


@dataclass(frozen=True)
class Blend:
    """The logit of the score is a weighted mean of those of networks and of a linear score."""

    networks: Networks | None
    linear: Linear | None
    weight: float  # of the linear score

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        from scipy.special import expit

        logit = np.zeros(len(features))
        for model, weight in ((self.networks, 1 - self.weight), (self.linear, self.weight)):
            if model is not None:
                logit += weight * model.logit(features)
        return np.asarray(expit(logit))

    def arrays(self) -> Arrays:
        """The arrays to store."""
        arrays: Arrays = {"weight": np.array(self.weight)}
        for name, model in (("networks", self.networks), ("linear", self.linear)):
            if model is not None:
                arrays |= prefixed(f"{name}.", model.arrays())
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The model of d features with these arrays; a ValueError if there is none."""
        check_weights(arrays["weight"], ())
        weight = float(arrays["weight"])
        networks, linear = (part_of(arrays, name) for name in ("networks.", "linear."))
        if not 0 <= weight <= 1 or not (networks or weight == 1) or not (linear or weight == 0):
            raise ValueError("a weight without a model")
        return cls(
            Networks.from_arrays(networks, d) if networks else None,
            Linear.from_arrays(linear, d) if linear else None,
            weight,
        )


@register("standard", Blend)
def standard(training: Training, seed: int, threads: int, progress: ShareDone) -> Fit:
    """Networks of two kinds; with few labeled rows, a mean of their and a linear logit."""
    n_labeled, d = int(training.labeled.sum()), training.features.shape[1]
    if d >= max(WIDE, n_labeled):
        fit = logistic(training, seed, threads, progress)
        assert isinstance(fit.model, Linear)
        return Fit(Blend(None, fit.model, 1.0), fit.scores, fit.parts)
    few = n_labeled <= FEW_LABELED
    part = progress_of(progress, 0, 2) if few else progress
    fit = train_networks(training, seed, threads, part, kinds=BLEND)
    assert isinstance(fit.model, Networks)
    if not few:
        return Fit(Blend(fit.model, None, 0.0), fit.scores, fit.parts)
    other = logistic(training, seed, threads, progress_of(progress, 1, 2))
    assert isinstance(other.model, Linear)
    weight, scores = _weighted(fit.scores, other.scores, training.labeled)
    parts = fit.parts if weight < 0.5 else other.parts
    return Fit(Blend(fit.model, other.model, weight), scores, parts)


def _weighted(
    scores: NDArray[np.float64], linear: NDArray[np.float64], labeled: NDArray[np.bool_]
) -> tuple[float, NDArray[np.float64]]:
    """The mean weight of the linear score by its likelihood on unseen rows, and the mean score.

    A choice of the best weight, or of one of the two scores, ranks worse than this mean.
    """
    from scipy.special import expit, logit

    first, second = (logit(part.clip(CERTAIN, 1 - CERTAIN)) for part in (scores, linear))
    losses = [log_loss(expit((1 - w) * first + w * second), labeled) for w in WEIGHTS]
    likelihood = np.exp(labeled.sum() * (min(losses) - np.array(losses)))
    weight = float((likelihood * WEIGHTS).sum() / likelihood.sum())
    return weight, np.asarray(expit((1 - weight) * first + weight * second))


# ---- Two rounds, for labels that are all right, as Percolator trains on decoys


@register("semi-supervised", Networks)
def semi_supervised(training: Training, seed: int, threads: int, progress: ShareDone) -> Fit:
    """Networks in two rounds: the second learns from unlabeled rows that the first set apart.

    Unlabeled rows of the labeled class teach nothing. So the first round separates labeled from
    unlabeled rows, and the second labeled rows from unlabeled ones with low scores. All other rows
    are scored out of bag, too, or they would differ from labeled rows in how they are scored.
    """
    first = train_networks(training, seed, threads, progress_of(progress, 0, 2), as_unseen=False)
    apart = set_apart(first.scores, training.labeled)
    if apart.sum() < MIN_APART:
        progress(1.0)
        return first
    second, learned = progress_of(progress, 1, 2), training.labeled | apart
    return train_networks(training, seed, threads, second, learned=learned, as_unseen=False)


def set_apart(scores: NDArray[np.float64], labeled: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The unlabeled rows below the highest score with few labeled rows below it, shape (n,)."""
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(labeled[order])
    fraction = (below + 1) / np.maximum(np.arange(1, len(order) + 1) - below, 1)
    within = np.flatnonzero(fraction <= MAX_MIXED)
    limit = scores[order[within[-1]]] if len(within) else -np.inf
    return np.asarray(~labeled & (scores <= limit))
