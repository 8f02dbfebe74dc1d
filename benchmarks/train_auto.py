"""Train the networks of `auto` on simulated samples and write their weights.

OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/train_auto.py

The same seed gives the same weights, whatever the number of processes; a quarter of an hour on one
core. The first 90,000 examples come from 6,000 feature tables, each scored by a classifier of its
own, the other 80,000 from 20,000 pairs of densities.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import simulator
from numpy.typing import NDArray

from pu_noise_cli.estimators import auto
from pu_noise_cli.estimators.summary import summarise

Array = NDArray[np.float32]

TABLES, DRAWS_PER_TABLE = 6_000, 15
DENSITIES, DRAWS_PER_DENSITY = 20_000, 4
HELD_OUT = 0.05  # of the tables and densities, to measure on
MEMBERS = 4
HIDDEN = (192, 96)
EPOCHS = 20
BATCH = 512
RATE = 2e-3
DECAY = 0.02
KNOWN_BETA = 0.25  # of the examples, at each pass, are shown their β
LOGIT_LOSS = 0.05  # the weight of errors in logits, which small α would not matter without
TAIL_LOSS = 3.0  # the weight of the intervals' ends beside the medians


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

    def sizes() -> tuple[int, int]:
        n_labeled = task.n_labeled * simulator.log_uniform(rng, 0.5, 2)
        n_unlabeled = task.n_unlabeled * simulator.log_uniform(rng, 0.5, 5)
        return max(20, int(n_labeled)), max(50, int(n_unlabeled))

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
        problem = simulator.draw(classes, *simulator.draw_shares(rng), *sizes(), rng)
        rows.append((summarise(problem.sketch), problem.alpha, problem.beta, weight))
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
        self.shapes = [(d, a), (a,), (a, b), (b,), (b, 6), (6,), (d, 6)]
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

    def gradient(self, x: Array, shares: Array, weight: Array, out: Array) -> None:
        """Write the gradient of the loss over a batch into out."""
        w1, b1, w2, b2, w3, b3, bypass = self.views(self.theta)
        h1 = np.maximum(x @ w1 + b1, 0)
        h2 = np.maximum(h1 @ w2 + b2, 0)
        delta = slope_of_loss(h2 @ w3 + b3 + x @ bypass, shares, weight)
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


def slope_of_loss(out: Array, shares: Array, weight: Array) -> Array:
    """The slope in the outputs (n, 6) of the quantiles' mean pinball loss, in shares and logits."""
    n = len(out)
    middle, a, b = out.reshape(n, 2, 3).transpose(2, 0, 1)
    logits = np.stack([middle - np.logaddexp(0, a), middle, middle + np.logaddexp(0, b)], axis=-1)
    value = auto.STRETCH / (1 + np.exp(-logits))
    target = shares[..., None]
    bounded = np.maximum(target, 5e-4) / auto.STRETCH
    target_logit = np.log(bounded / (1 - bounded))
    levels = np.array(auto.LEVELS, np.float32)
    weight = np.array([TAIL_LOSS, 1, TAIL_LOSS], np.float32) * weight[:, None, None] / n
    slope = np.zeros_like(logits)
    for error, scale, d_logit in (
        (target - value, 1.0, value * (1 - value / auto.STRETCH)),
        (target_logit - logits, LOGIT_LOSS, 1.0),
    ):
        push = levels - (error < 0)
        slope -= weight * scale * push * d_logit
    d_a, d_b = -slope[..., 0] / (1 + np.exp(-a)), slope[..., 2] / (1 + np.exp(-b))
    return np.stack([slope.sum(-1), d_a, d_b], axis=-1).reshape(n, 6)


def train_member(x: Array, shares: Array, weight: Array, rng: np.random.Generator) -> list[Array]:
    """Adam with decoupled decay and a rate that falls to 0 along a cosine."""
    member = Member(x.shape[1], rng)
    theta = member.theta
    gradient, m, v = np.zeros_like(theta), np.zeros_like(theta), np.zeros_like(theta)
    steps = EPOCHS * (len(x) // BATCH)
    for step, rows in enumerate(_batches(len(x), rng), start=1):
        member.gradient(_partly_masked(x[rows], rng), shares[rows], weight[rows], gradient)
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


def _partly_masked(x: Array, rng: np.random.Generator) -> Array:
    """The inputs, of which most are not shown their β (the last two columns)."""
    x[rng.random(len(x)) >= KNOWN_BETA, -2:] = 0
    return x


def train(examples: Examples, seed: int) -> auto.Networks:
    """The ensemble."""
    known = np.stack([np.ones(len(examples.shares)), examples.shares[:, 1]], axis=1)
    center = np.append(examples.features.mean(0), [0.0, 0.0])
    scale = np.append(examples.features.std(0) + 1e-6, [1.0, 1.0])
    x = (np.hstack([examples.features, known]) - center) / scale
    x = np.clip(x, -auto.FARTHEST, auto.FARTHEST).astype(np.float32)
    members = [
        train_member(x, examples.shares, examples.weight, rng)
        for rng in np.random.default_rng([seed, 3]).spawn(MEMBERS)
    ]
    layers = tuple(np.stack(layer).astype(np.float64) for layer in zip(*members, strict=True))
    return auto.Networks(center, scale, layers)


def predict(networks: auto.Networks, examples: Examples) -> NDArray[np.float64]:
    """Quantiles of shape (n, 2, 3), β not known."""
    return networks.quantiles(np.pad(examples.features, ((0, 0), (0, 2))))


def save(networks: auto.Networks, path: Path) -> None:
    arrays = {f"layer{i}": layer.astype(np.float32) for i, layer in enumerate(networks.layers)}
    np.savez_compressed(path, center=networks.center, scale=networks.scale, **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(auto.__file__).with_name(auto.WEIGHTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()

    start = time.monotonic()
    examples = simulate(options.seed, options.processes)
    print(f"{len(examples.source)} examples in {time.monotonic() - start:.0f} s", flush=True)
    held_out = np.random.default_rng([options.seed, 4]).random(examples.source[-1] + 1) < HELD_OUT
    held_out = held_out[examples.source]
    networks = train(examples.part(~held_out), options.seed)
    test = examples.part(held_out)
    save(networks, options.out)
    quantiles = predict(networks, test)
    error = np.abs(quantiles[..., 1] - test.shares)
    covered = (quantiles[..., 0] <= test.shares) & (test.shares <= quantiles[..., 2])
    error, covered = (np.average(x, axis=0, weights=test.weight) for x in (error, covered))
    print(f"held out: errors of α and β {error.round(4)}, covered {covered.round(3)}")
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
