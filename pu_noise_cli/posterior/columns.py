"""Columns of POSTERIOR as data: what each says of a row, by its cell or by its score."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..numerics import BoolArray, FloatArray, IntArray
from ..score.sketch import Sketch, has_gaps
from ..tables.rows import Chunk

Value = TypeVar("Value")


class ScoredChunk:
    """The rows of a chunk with their scores, and what several columns need to know of them."""

    def __init__(self, sketch: Sketch, chunk: Chunk, scores: FloatArray) -> None:
        self.sketch, self.chunk, self.scores = sketch, chunk, scores
        self._shared: dict[int, Any] = {}

    @cached_property
    def cells(self) -> IntArray:
        """The cells of the rows, shape (n,)."""
        return self.sketch.cell_index(self.scores)

    @cached_property
    def scored(self) -> BoolArray | None:
        """Whether rows have a score, shape (n,); None if all have."""
        return ~np.isnan(self.scores) if has_gaps(self.scores) else None

    def shared(self, owner: object, compute: Callable[[], Value]) -> Value:
        """What the columns of one owner share, computed once."""
        if id(owner) not in self._shared:
            self._shared[id(owner)] = compute()
        value: Value = self._shared[id(owner)]
        return value


class Column(Protocol):
    """What POSTERIOR says of each row in one column."""

    @property
    def type(self) -> pa.DataType:
        """The type of its values."""

    def array(self, rows: ScoredChunk, known: BoolArray | None) -> pa.Array:
        """The values of rows, null where they are not known, both of shape (n,)."""


Columns = Mapping[str, Column]


@dataclass(frozen=True, eq=False)
class CellColumn:
    """A column by cell of the sketch."""

    values: NDArray[Any]  # (cells,)

    @property
    def type(self) -> pa.DataType:
        return pa.array(self.values[:0]).type

    def array(self, rows: ScoredChunk, known: BoolArray | None) -> pa.Array:
        return take_known(self.values, rows.cells, known)


@dataclass(frozen=True, eq=False)
class RangeColumn:
    """A column by range of the score, such as the level of evidence."""

    starts: FloatArray  # (ranges - 1,), increasing: where the next range begins
    values: NDArray[Any]  # (ranges,)

    @property
    def type(self) -> pa.DataType:
        return pa.array(self.values[:0]).type

    def array(self, rows: ScoredChunk, known: BoolArray | None) -> pa.Array:
        places = np.searchsorted(self.starts, rows.scores, side="right")
        return take_known(self.values, places, known)


def take_known(values: NDArray[Any], indices: IntArray, known: BoolArray | None) -> pa.Array:
    """The values at indices, shape (n,), null where they are not known."""
    missing = None if known is None else ~known
    if values.dtype.kind == "U":
        return pa.array(values).take(pa.array(indices, mask=missing))
    return pa.array(values[indices], mask=missing)
