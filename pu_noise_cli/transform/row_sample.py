"""A seeded sample of bounded size, drawn in one pass over rows whose number is not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..rows import Chunk


def priorities(seed: int, table: int, first_row: int, count: int) -> NDArray[np.uint64]:
    """A pseudo-random number for each row that depends on its place and the seed only."""
    with np.errstate(over="ignore"):
        x = np.arange(first_row, first_row + count, dtype=np.uint64)
        x += np.uint64(table) << np.uint64(56)
        x += np.uint64((seed + 1) % (1 << 64)) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        return x ^ (x >> np.uint64(31))


class RowSample:
    """The `size` rows of lowest priority among those added, in the order they came."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed, self.seen = size, seed, 0
        self.limit: np.uint64 | None = None  # rows of this priority or more are out for good
        self.chunks: list[Chunk] = []
        self._rows: list[NDArray[np.int64]] = []  # the row numbers of each chunk
        self._priority: list[NDArray[np.uint64]] = []

    def add(self, chunk: Chunk, wanted: NDArray[np.bool_]) -> None:
        """Offer those rows of a chunk that are wanted."""
        if wanted.any():
            self.seen += int(wanted.sum())
            priority = priorities(self.seed, chunk.table, chunk.first_row, len(wanted))
            rows = np.arange(chunk.first_row, chunk.first_row + len(wanted))
            if self.limit is not None:
                wanted = wanted & (priority < self.limit)
            self._append(chunk, rows, priority, wanted)
            if len(self) > 1.5 * self.size:
                self.cut(self.size)

    @classmethod
    def merged(cls, parts: Sequence[RowSample]) -> RowSample:
        """The sample of all rows that samples of one size were drawn from, in order."""
        merged = cls(parts[0].size, parts[0].seed)
        for part in parts:
            merged.seen += part.seen
            merged.chunks += part.chunks
            merged._rows += part._rows
            merged._priority += part._priority
        merged.cut(merged.size)
        return merged

    def _append(
        self,
        chunk: Chunk,
        rows: NDArray[np.int64],
        priority: NDArray[np.uint64],
        keep: NDArray[np.bool_],
    ) -> None:
        if not keep.any():
            return
        batch = chunk.batch if keep.all() else chunk.batch.filter(pa.array(keep))
        self.chunks.append(replace(chunk, batch=batch, sets=chunk.sets[keep]))
        self._rows.append(rows[keep])
        self._priority.append(priority[keep])

    def cut(self, size: int) -> None:
        """Keep the `size` rows of lowest priority."""
        if len(self) <= size:
            return
        self.limit = np.partition(np.concatenate(self._priority), size)[size]
        held = list(zip(self.chunks, self._rows, self._priority, strict=True))
        self.chunks, self._rows, self._priority = [], [], []
        for chunk, rows, priority in held:
            self._append(chunk, rows, priority, priority < self.limit)

    @property
    def places(self) -> NDArray[np.int64]:
        """The table and the row number in it of each sampled row, shape (n, 2)."""
        tables = np.repeat([chunk.table for chunk in self.chunks], list(map(len, self._rows)))
        return np.column_stack([tables, np.concatenate(self._rows)])

    def __len__(self) -> int:
        return sum(map(len, self._rows))
