"""Bootstrap samples of groups of rows, gathered in one pass in bounded memory.

Rows of one group, such as a gene, are alike, so that many of them say less than as many rows of
different groups. In each of COPIES samples a group counts as often as a Poisson variable with mean
1, which follows from its name and the number of the copy alone: chunks and shards need not know of
each other, and their counts add up. Counts are kept on the coarse grid of a small sketch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from .calibration import Calibration, Shares, calibrate
from .notices import Notice, declare
from .sketch import SETS, FloatArray, IntArray, SetArray, Sketch

COPIES = 100
ENOUGH = 20  # groups, from which on copies show how much they differ
MAX_CELLS = 512
AT_ONCE = 1 << 12  # rows whose weights are in memory
NEARBY = 0.05  # the share of rows on either side over which variances are averaged
POISSON = np.cumsum(np.exp(-1.0) / np.cumprod([1.0, *range(1, 12)]))  # P(at most 0, 1, ...)
FEW_GROUPS = declare(
    "few-groups",
    "There are fewer than 20 groups, too few to tell how much rows of different groups differ.",
    "Read the bounds as too narrow, or name a finer --group-column.",
)
ODD = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)


@dataclass(frozen=True, eq=False)
class GroupCopies:
    """The rows by score, as they are and in each copy: a sketch with a column for each of them."""

    wide: Sketch  # of counts of shape (cells, (1 + COPIES) * sets)
    lowest: IntArray  # digests of groups, the lowest of them all: that there are at least so many

    @classmethod
    def of_rows(cls, scores: FloatArray, sets: SetArray, groups: pa.Array) -> GroupCopies:
        """The copies of rows with finite scores; all of shape (n,)."""
        coded = groups.dictionary_encode()
        digests = _digests(coded.dictionary.to_pylist())
        weights, group = _weights(digests), np.asarray(coded.indices)
        slices = [slice(first, first + AT_ONCE) for first in range(0, len(scores), AT_ONCE)]
        parts = [_part(scores[rows], sets[rows], weights[group[rows]]) for rows in slices]
        return cls.merge([NO_GROUPS, *(cls(part, digests) for part in parts)])

    @classmethod
    def merge(cls, parts: Iterable[GroupCopies]) -> GroupCopies:
        """The copies of all rows that the given ones were made of."""
        parts = list(parts)
        lowest = np.unique(np.concatenate([part.lowest for part in parts]))[:ENOUGH]
        return cls(Sketch.merge([part.wide for part in parts], MAX_CELLS), lowest)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """A warning where there are too few groups to tell how much they differ."""
        if len(self.lowest) == ENOUGH:
            return ()
        return (FEW_GROUPS(f"bounds rest on {len(self.lowest)} groups"),)

    def sketches(self) -> tuple[Sketch, list[Sketch]]:
        """The sketch of the rows, and those of the copies that have rows of every set."""
        counts = self.wide.counts.reshape(len(self.wide.edges), -1, len(SETS))
        every = counts[:, 0].any(axis=0)

        def sketch(copy: IntArray) -> Sketch:
            drawn = copy.any(axis=1)
            return Sketch(self.wide.edges[drawn], copy[drawn], self.wide.level)

        copies = [sketch(counts[:, i]) for i in range(1, counts.shape[1])]
        usable = [copy for copy in copies if (copy.counts.any(axis=0) == every).all()]
        return sketch(counts[:, 0]), usable


def _part(scores: FloatArray, sets: SetArray, weights: IntArray) -> Sketch:
    """The wide sketch of some rows with the weights of their groups, shape (n, 1 + COPIES)."""
    counts = np.zeros((len(scores), weights.shape[1], len(SETS)), np.int64)
    counts[np.arange(len(scores)), :, sets.astype(np.int64)] = weights
    return Sketch.merge([Sketch(scores, counts.reshape(len(scores), -1))], MAX_CELLS)


def _digests(names: list[str]) -> IntArray:
    """A number for each group."""
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), "<i8").astype(np.int64)


def _weights(digests: IntArray) -> IntArray:
    """How often each group is in the rows themselves, which is once, and in each copy."""
    bits = digests.astype(np.uint64)[:, None] + np.arange(1, COPIES + 1, dtype=np.uint64) * ODD[0]
    for shift, odd in ((30, ODD[1]), (27, ODD[2])):  # splitmix64
        bits = (bits ^ (bits >> np.uint64(shift))) * odd
    uniform = (bits ^ (bits >> np.uint64(31))) / 2.0**64
    drawn = np.searchsorted(POISSON, uniform, side="right")
    return np.column_stack([np.ones(len(digests), np.int64), drawn])


_WIDTH = (1 + COPIES) * len(SETS)
NO_GROUPS = GroupCopies(Sketch(np.empty(0), np.empty((0, _WIDTH), np.int64)), np.empty(0, np.int64))


def widening(calibration: Calibration, copies: GroupCopies, seed: int) -> FloatArray:
    """By how much bounds on the log-odds of each cell are wider than rows alone make them.

    The standard deviation of the log-odds over the copies, over that over samples of rows.
    """
    rows, drawn = copies.sketches()
    rng = np.random.default_rng([seed, 4])
    shares = replace(calibration.shares, of_these_rows=False, draws=())
    by_group = _variance(rows, drawn, shares)
    by_row = _variance(rows, [rows.resample(rng) for _ in drawn], shares)
    return np.sqrt(np.maximum(by_group / by_row, 1))[rows.cells_of(calibration.sketch.scores)]


def _variance(whole: Sketch, drawn: list[Sketch], shares: Shares) -> FloatArray:
    """The variance of the log-odds, each cell's averaged with those of the rows around it."""
    found = [calibrate(copy, shares) for copy in drawn]
    logs = [np.log(one.lr[one.sketch.cells_of(whole.scores)]) for one in found]
    variance, rows = np.var(logs, axis=0), whole.counts.sum(1)
    place = (np.cumsum(rows) - rows / 2) / rows.sum()
    low, high = (np.searchsorted(place, place + side * NEARBY) for side in (-1, 1))
    sums, weights = (np.append(0.0, np.cumsum(v)) for v in (variance * rows, rows))
    return np.asarray((sums[high] - sums[low]) / (weights[high] - weights[low]))
