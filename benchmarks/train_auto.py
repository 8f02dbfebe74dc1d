"""Train the networks of `auto` on simulated samples and write their weights.

OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/train_auto.py

The same seed gives the same weights, whatever the number of processes. The first 180,000 examples
come from 12,000 feature tables, each scored by a classifier of its own, the other 80,000 from
20,000 pairs of densities. α and β are drawn from a prior, whatever the classes, so that what the
networks learn beyond it is the likelihood.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import simulator
from numpy.typing import NDArray

from pu_noise_cli.prior import auto
from pu_noise_cli.prior.auto import SIMULATED, summarize

Array = NDArray[np.float32]

TABLES, DRAWS_PER_TABLE = 12_000, 15
DENSITIES, DRAWS_PER_DENSITY = 20_000, 4
HELD_OUT = 0.05  # of the tables and densities, to measure on
MEMBERS = 4
HIDDEN = (256, 128)
EPOCHS = 10
BATCH = 512
RATE = 2e-3
DECAY = 0.05
IMPOSSIBLE = -60.0  # the logarithm of the prior where it is 0


# Examples


@dataclass(frozen=True)
class Examples:
    features: Array  # (n, d)
    shares: Array  # (n, 2): α and β
    weight: Array  # (n,): how plausible the score distributions are
    source: NDArray[np.int64]  # (n,): examples of one source share their score distributions

    def part(self, rows: NDArray[np.bool_]) -> Examples:
        return Examples(
            self.features[rows], self.shares[rows], self.weight[rows], self.source[rows]
        )


Row = tuple[NDArray[np.float64], float, float, float]  # features, α, β, weight


def of_table(seed: int, index: int) -> list[Row]:
    """Examples scored by one classifier."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a classifier that did not converge is as good as any
        task = simulator.learned(np.random.default_rng([seed, index]))
    rng = np.random.default_rng([seed, index, 1])
    sizes = partial(simulator.sizes_like, task, rng)
    return _examples(task.classes, DRAWS_PER_TABLE, sizes, rng)


def of_densities(seed: int, index: int) -> list[Row]:
    """Examples from one pair of densities."""
    rng = np.random.default_rng([seed, index, 2])
    classes = simulator.univariate(rng)
    return _examples(classes, DRAWS_PER_DENSITY, lambda: simulator.draw_sizes(rng), rng)


def _examples(
    classes: simulator.Classes,
    count: int,
    sizes: Callable[[], tuple[int, int]],
    rng: np.random.Generator,
) -> list[Row]:
    """Samples of one pair of score distributions, each with its own shares and sizes."""
    weight = classes.plausibility
    rows = []
    for _ in range(count):
        shares = simulator.draw_shares(rng, SIMULATED)
        problem = simulator.draw(classes, *shares, *sizes(), rng)
        rows.append((summarize(problem.sketch), problem.alpha, problem.beta, weight))
    return rows


def simulate(seed: int, processes: int) -> Examples:
    """All examples, those of the tables first."""
    rows: list[Row] = []
    source: list[int] = []
    with ProcessPoolExecutor(processes) as pool:
        for of_index, count in ((of_table, TABLES), (of_densities, DENSITIES)):
            for found in pool.map(partial(of_index, seed), range(count), chunksize=50):
                source += [source[-1] + 1 if source else 0] * len(found)
                rows += found
    features, alpha, beta, weight = (
        np.array(column, np.float32) for column in zip(*rows, strict=True)
    )
    return Examples(features, np.stack([alpha, beta], axis=1), weight, np.array(source))


# Training


class Member:
    """One network in training: its parameters are views of one vector."""

    def __init__(self, d: int, rng: np.random.Generator) -> None:
        a, b = HIDDEN
        out = auto.OUTPUTS
        self.shapes = [(d, a), (a,), (a, b), (b,), (b, out), (out,), (d, out)]
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        self.theta = np.zeros(sum(sizes), np.float32)
        self.cuts = np.cumsum(sizes)[:-1]
        for i in (0, 2, 4):
            layer = self.views(self.theta)[i]
            layer[:] = rng.normal(size=layer.shape) * np.sqrt(2 / len(layer))
        self.views(self.theta)[4][:] *= 0.1

    def views(self, vector: Array) -> list[Array]:
        parts = np.split(vector, self.cuts)
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def gradient(self, x: Array, cells: Cells, weight: Array, out: Array) -> None:
        """Write the gradient of the loss over a batch into out."""
        w1, b1, w2, b2, w3, b3, bypass = self.views(self.theta)
        h1 = np.maximum(x @ w1 + b1, 0)
        h2 = np.maximum(h1 @ w2 + b2, 0)
        delta = slope_of_loss(h2 @ w3 + b3 + x @ bypass, cells, weight)
        g1, gb1, g2, gb2, g3, gb3, gbypass = self.views(out)
        np.matmul(h2.T, delta, out=g3)
        delta.sum(0, out=gb3)
        np.matmul(x.T, delta, out=gbypass)
        back = (delta @ w3.T) * (h2 > 0)
        np.matmul(h1.T, back, out=g2)
        back.sum(0, out=gb2)
        back = (back @ w2.T) * (h1 > 0)
        np.matmul(x.T, back, out=g1)
        back.sum(0, out=gb1)


@dataclass(frozen=True)
class Cells:
    """Where on the grid each example lies: the four nodes around it, and its nearness to each."""

    index: NDArray[np.int64]  # (n, 4)
    nearness: Array  # (n, 4), rows sum to 1

    @classmethod
    def of(cls, shares: Array) -> Cells:
        (i, f), (j, g) = (_between(n, shares[:, k]) for k, n in enumerate((auto.ALPHA, auto.BETA)))
        first = i * len(auto.BETA) + j
        index = np.stack([first, first + len(auto.BETA), first + 1, first + 1 + len(auto.BETA)], 1)
        nearness = np.stack([(1 - f) * (1 - g), f * (1 - g), (1 - f) * g, f * g], axis=1)
        return cls(index, nearness)

    def part(self, rows: NDArray[np.int64]) -> Cells:
        return Cells(self.index[rows], self.nearness[rows])


def _between(nodes: NDArray[np.float64], x: Array) -> tuple[NDArray[np.int64], Array]:
    """The node before each x, and how far x is on the way to the next."""
    x = np.clip(x, nodes[0], nodes[-1])
    before = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, len(nodes) - 2)
    way = (x - nodes[before]) / (nodes[before + 1] - nodes[before])
    return before, way.astype(np.float32)


@cache
def grid() -> tuple[Array, Array]:
    """The basis, shape (outputs, cells), and the logarithm of the prior, shape (cells,)."""
    with np.errstate(divide="ignore"):
        log_prior = np.maximum(np.log(auto.prior_belief(SIMULATED).mass.ravel()), IMPOSSIBLE)
    return auto.basis().astype(np.float32), log_prior.astype(np.float32)


def believed(out: Array) -> Array:
    """The mass of each cell, shape (n, cells), for outputs of shape (n, outputs)."""
    basis, log_prior = grid()
    mass = out @ basis
    mass += log_prior
    mass -= mass.max(1, keepdims=True)
    np.exp(mass, out=mass)
    mass /= mass.sum(1, keepdims=True)
    return mass


def slope_of_loss(out: Array, cells: Cells, weight: Array) -> Array:
    """The slope in the outputs of the cross-entropy between the belief and where examples lie."""
    basis, _ = grid()
    slope = believed(out)
    rows = np.arange(len(out))
    for index, nearness in zip(cells.index.T, cells.nearness.T, strict=True):
        slope[rows, index] -= nearness
    slope *= (weight / len(out))[:, None]
    return slope @ basis.T


def train_member(x: Array, cells: Cells, weight: Array, rng: np.random.Generator) -> list[Array]:
    """Adam with decoupled decay and a rate that falls to 0 along a cosine."""
    member = Member(x.shape[1], rng)
    theta = member.theta
    gradient, m, v = np.zeros_like(theta), np.zeros_like(theta), np.zeros_like(theta)
    steps = EPOCHS * (len(x) // BATCH)
    for step, rows in enumerate(_batches(len(x), rng), start=1):
        member.gradient(x[rows], cells.part(rows), weight[rows], gradient)
        m += 0.1 * (gradient - m)
        v += 0.01 * (gradient * gradient - v)
        rate = RATE * min(step / 500, 0.5 * (1 + np.cos(np.pi * step / steps)))
        adapted = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.99**step)) + 1e-8)
        theta -= rate * (adapted + DECAY * theta)
    return member.views(theta)


def _batches(n: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    for _ in range(EPOCHS):
        order = rng.permutation(n)
        for start in range(0, n - BATCH + 1, BATCH):
            yield order[start : start + BATCH]


def train(examples: Examples, seed: int, processes: int) -> auto.Networks:
    """The ensemble."""
    center, scale = examples.features.mean(0), examples.features.std(0) + 1e-6
    x = (examples.features - center) / scale
    x = np.clip(x, -auto.FARTHEST, auto.FARTHEST).astype(np.float32)
    weight = examples.weight / examples.weight.mean()
    job = partial(train_member, x, Cells.of(examples.shares), weight)
    with ProcessPoolExecutor(processes) as pool:
        members = list(pool.map(job, np.random.default_rng([seed, 3]).spawn(MEMBERS)))
    layers = tuple(np.stack(layer).astype(np.float64) for layer in zip(*members, strict=True))
    return auto.Networks(center.astype(np.float64), scale.astype(np.float64), layers)


def save(networks: auto.Networks, path: Path) -> None:
    arrays = {f"layer{i}": layer.astype(np.float16) for i, layer in enumerate(networks.layers)}
    np.savez_compressed(path, center=networks.center, scale=networks.scale, **arrays)


def held_out_figures(networks: auto.Networks, examples: Examples) -> str:
    """Errors and coverage of the belief under the prior alone."""
    rows = []
    for features, shares in zip(examples.features, examples.shares, strict=True):
        log_likelihood = networks.log_likelihood(features.astype(np.float64))
        prior = auto.prior_belief(SIMULATED)
        belief = prior.times(np.exp(log_likelihood - log_likelihood.max()))
        errors = np.abs(np.array(belief.means) - shares)
        intervals = zip(belief.interval(auto.LEVEL), shares, strict=True)
        rows.append([*errors, *(low <= share <= high for (low, high), share in intervals)])
    figures = np.average(rows, axis=0, weights=examples.weight).round(4)
    return f"held out: errors of α and β {figures[:2]}, covered {figures[2:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(auto.__file__).with_name(auto.WEIGHTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()

    start = time.monotonic()
    examples = simulate(options.seed, options.processes)
    print(f"{len(examples.source)} examples in {time.monotonic() - start:.0f} s", flush=True)
    held_out = np.random.default_rng([options.seed, 4]).random(examples.source[-1] + 1) < HELD_OUT
    held_out = held_out[examples.source]
    networks = train(examples.part(~held_out), options.seed, options.processes)
    save(networks, options.out)
    print(held_out_figures(networks, examples.part(held_out)))
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
