"""Unlabeled rows that are labeled, too: found by their ids, or else as identical rows.

Where a table of all rows is given as unlabeled, the labeled ones are in it. Counted as unlabeled
they would be positives that no sample of the rest has. Only hashes of the labeled rows are held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..numerics import GOLDEN_RATIO, FloatArray, HashArray, IntArray, splitmix64
from ..scale.engine import Engine, Job, RowsDone
from ..tables.rows import LABELED, NO_ROWS, UNLABELED, Chunk, Rows, as_text
from .sketch import MIN_ROWS

MAX_COMPARED = 256  # features
DISTINCT = 0.9  # of the labeled rows must differ from all others, or rows cannot be told apart
AGREE = 0.5  # of the features of rows with the same id must be the same ...
COMPARED = 1000  # ... in so many of them
MOST = 2  # unlabeled rows for each labeled one, if more are alike it is by chance
WHOLE = 0.9  # the least fraction of labeled rows to be found, without ids
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
BLOCK = 16384  # texts hashed at once
FACTOR = GOLDEN_RATIO  # of hashes of texts
INVERSE = np.uint64(pow(int(FACTOR), -1, 1 << 64))


@dataclass(frozen=True, eq=False)
class Overlap:
    """Rows of the unlabeled table that are in the labeled table, too."""

    rows: IntArray  # (n,), in the unlabeled table, increasing
    twins: IntArray  # (n,), the same rows in the labeled table
    others: int  # rows that are in the unlabeled table only
    of: int = 0  # labeled rows that differ from all others


NO_OVERLAP = Overlap(NO_ROWS, NO_ROWS, 0)


def find_overlap(rows: Rows, engine: Engine) -> Overlap:
    """Find the unlabeled rows that are labeled, too, if each set has a table of its own.

    Ids decide, unless they only number the rows of each table: then the features of rows with the
    same id differ. Without ids, rows are the same if they have the same features. As this also
    happens by chance, nearly all labeled rows must be found, and rows must hardly ever be alike.
    """
    if rows.label_column is not None or rows.keys or not {LABELED, UNLABELED} <= {*rows.sets}:
        return NO_OVERLAP
    if rows.id_columns:
        found = _find(rows, rows.id_columns, engine, ids=True)
        if found is not None:
            return found if _agree(rows, found) else NO_OVERLAP
    found = _find(rows, rows.features[:MAX_COMPARED], engine)
    if found is None:
        return NO_OVERLAP
    each, first = np.unique(found.twins, return_index=True)
    if len(each) < WHOLE * found.of:
        return NO_OVERLAP
    kept = np.sort(first)  # one row for each labeled one
    return Overlap(found.rows[kept], found.twins[kept], found.others, found.of)


def _find(
    rows: Rows, columns: tuple[str, ...], engine: Engine, ids: bool = False
) -> Overlap | None:
    """The rows that have the same values in both tables; None if these cannot tell rows apart."""
    labeled, unlabeled = rows.only(LABELED), rows.only(UNLABELED)
    kinds = {} if ids else _numeric(labeled, columns)
    hashes = engine.gather(HashRows(columns, kinds), labeled, "labeled")
    distinct, first = np.unique(hashes, return_index=True)
    if len(distinct) < max(DISTINCT * len(hashes), MIN_ROWS) or (ids and _number(hashes)):
        return None
    step = FindRows(columns, kinds, distinct, first, MOST * len(hashes))
    found = engine.gather(step, unlabeled, "overlap")
    if found is None or found.others < MIN_ROWS:
        return None
    return replace(found, of=len(distinct))


def _agree(rows: Rows, found: Overlap) -> bool:
    """Whether rows with the same id mostly have the same features, by some of them."""
    if len(found.rows) == 0:
        return True
    some = np.linspace(0, len(found.rows) - 1, min(len(found.rows), COMPARED)).astype(int)
    columns = rows.features[:MAX_COMPARED]
    both = [
        _values(rows.only(code), columns, places[some])
        for code, places in ((UNLABELED, found.rows), (LABELED, found.twins))
    ]
    same = [np.isclose(a, b, rtol=1e-6, equal_nan=True) for a, b in zip(*both, strict=True)]
    return bool(np.mean(same) >= AGREE)


def _values(rows: Rows, columns: Sequence[str], places: IntArray) -> list[FloatArray]:
    """The columns at some rows, as numbers, each of shape (n,); texts are hashed."""
    order = np.argsort(places)
    parts: list[list[FloatArray]] = [[] for _ in columns]
    for chunk in rows.chunks(columns):
        first, end = np.searchsorted(
            places[order], [chunk.first_row, chunk.first_row + chunk.batch.num_rows]
        )
        here = pa.array(places[order][first:end] - chunk.first_row)
        for part, name in zip(parts, columns, strict=True):
            column = chunk.batch[name].take(here)
            numbers = _numbers(column)
            if 2 * numbers.null_count > len(numbers):
                part.append(_hash_text(as_text(chunk, name).take(here)).astype(np.float64))
            else:
                part.append(pc.fill_null(numbers, np.nan).to_numpy(zero_copy_only=False))
    back = np.argsort(order)
    return [np.concatenate(part)[back] for part in parts]


def _number(hashes: HashArray) -> bool:
    """Whether ids, by their hashes, begin as row numbers do."""
    numbers = _mix([_hash_text(pa.array([str(i) for i in range(MIN_ROWS + 1)]))])
    first = hashes[:MIN_ROWS]
    return np.array_equal(first, numbers[:-1]) or np.array_equal(first, numbers[1:])


def _numeric(rows: Rows, columns: Sequence[str]) -> dict[str, bool]:
    """Whether each column is of numbers, by the first rows."""
    for chunk in rows.chunks(columns):
        values = {name: chunk.batch[name] for name in columns}
        return {name: 2 * _numbers(v).null_count <= len(v) for name, v in values.items()}
    return {}


# ---- Steps


@dataclass(frozen=True, eq=False)
class HashRows:
    """The step that hashes rows by some columns."""

    columns: tuple[str, ...]
    numeric: Mapping[str, bool]

    def __call__(self, job: Job, done: RowsDone, threads: int) -> HashArray:
        parts = [np.empty(0, np.uint64)]
        for chunk in job.part.chunks(self.columns):
            parts.append(self.hash(chunk))
            done(chunk.batch.num_rows)
        return np.concatenate(parts)

    def hash(self, chunk: Chunk) -> HashArray:
        """A number for each row, shape (n,), the same wherever the row is."""
        return _mix(
            [
                _hash_numbers(_numbers(chunk.batch[name]))
                if self.numeric.get(name)
                else _hash_text(as_text(chunk, name))
                for name in self.columns
            ]
        )

    @staticmethod
    def merge(results: Sequence[HashArray]) -> HashArray:
        return np.concatenate(results)


@dataclass(frozen=True, eq=False)
class FindRows:
    """The step that finds rows by their hashes; None if there are more than may be."""

    columns: tuple[str, ...]
    numeric: Mapping[str, bool]
    hashes: HashArray  # (n,), increasing
    twins: IntArray  # (n,): the row of each
    most: int

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Overlap | None:
        hash_rows, count = HashRows(self.columns, self.numeric), 0
        found: list[Overlap | None] = [NO_OVERLAP]
        for chunk in job.part.chunks(self.columns):
            hashes = hash_rows.hash(chunk)
            place = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
            same = np.flatnonzero(self.hashes[place] == hashes)
            rest = len(hashes) - len(same)
            found.append(Overlap(same + chunk.first_row, self.twins[place[same]], rest))
            count += len(same)
            if count > self.most:
                return None
            done(chunk.batch.num_rows)
        return self.merge(found)

    @staticmethod
    def merge(results: Sequence[Overlap | None]) -> Overlap | None:
        parts = [part for part in results if part is not None]
        if len(parts) < len(results):
            return None
        rows, twins = ([getattr(part, name) for part in parts] for name in ("rows", "twins"))
        others = sum(part.others for part in parts)
        return Overlap(np.concatenate(rows), np.concatenate(twins), others)


# ---- Hashes


def _mix(columns: Sequence[HashArray]) -> HashArray:
    mixed = np.zeros(len(columns[0]), np.uint64) if columns else np.empty(0, np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            mixed = splitmix64((mixed ^ column) + GOLDEN_RATIO)
    return mixed


def _numbers(column: pa.Array) -> pa.Array:
    """A column as numbers, null where it has none."""
    try:
        return pc.cast(column, pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not pa.types.is_string(column.type):
            return pa.nulls(len(column), pa.float64())
        known = pc.match_substring_regex(column, NUMBER)
        return pc.cast(pc.if_else(known, column, None), pa.float64())


def _hash_numbers(column: pa.Array) -> HashArray:
    values: FloatArray = pc.fill_null(column, np.nan).to_numpy(zero_copy_only=False) + 0.0  # no -0
    return np.where(np.isnan(values), np.nan, values).view(np.uint64)


def _hash_text(column: pa.Array) -> HashArray:
    parts = [_hash_block(column.slice(i, BLOCK)) for i in range(0, len(column), BLOCK)]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def _hash_block(column: pa.Array) -> HashArray:
    """Polynomials of the bytes of texts, modulo 2^64, without a loop over rows."""
    text = pc.cast(column, pa.large_string())
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    size = int(ends[-1] - ends[0])
    letters = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    power, inverse = (_powers(base, size + 1) for base in (FACTOR, INVERSE))
    sums = np.concatenate(
        [np.zeros(1, np.uint64), np.cumsum((letters + np.uint64(1)) * power[:-1])]
    )
    start, end = ends[:-1] - ends[0], ends[1:] - ends[0]
    return (sums[end] - sums[start]) * inverse[start]


def _powers(base: np.uint64, count: int) -> HashArray:
    """The powers 0, 1, ... of a number, modulo 2^64, shape (count,)."""
    factors = np.full(count, base)
    factors[0] = 1
    return np.cumprod(factors)
