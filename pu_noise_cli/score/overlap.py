"""Unlabeled rows that are labeled, too: found by their ids, or else as identical rows.

Where a table of all rows is given as unlabeled, the labeled ones are in it. Counted as unlabeled
they would be positives that no sample of the rest has. Only hashes of the labeled rows are held.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..numerics import GOLDEN_RATIO, FloatArray, HashArray, IntArray, splitmix64
from ..scale.engine import Engine, Job, RowsDone
from ..tables.rows import LABELED, NO_ROWS, UNLABELED, Chunk, Rows, as_text
from .sketch import MIN_ROWS

MAX_COMPARED = 256  # features that are compared
FIRST = 2  # features that are compared first, if labeled rows differ in these
CONFIRMED = 100  # rows, at least, that are compared in further features
DISTINCT = 0.9  # the least fraction of labeled rows that are unlike all other labeled rows
WHOLE = 0.9  # the least fraction of labeled rows to be found, without ids
MOST = 2  # unlabeled rows for each labeled one; where more are alike, they are so by chance
ROUNDED = 1 << 10  # steps between a number and twice as much that are told apart, if it is rounded
BLOCK = 16384  # texts hashed at once
FACTOR = GOLDEN_RATIO  # of hashes of texts
INVERSE = np.uint64(pow(int(FACTOR), -1, 1 << 64))


@dataclass(frozen=True, eq=False)
class Overlap:
    """Rows of the unlabeled table that are in the labeled table, too."""

    rows: IntArray  # (n,), in the unlabeled table, increasing
    twins: IntArray  # (n,), the same rows in the labeled table
    others: int = 0  # rows that are in the unlabeled table only


NO_OVERLAP = Overlap(NO_ROWS, NO_ROWS)


def find_overlap(rows: Rows, engine: Engine) -> Overlap:
    """Find the unlabeled rows that are labeled, too, if each set has a table of its own.

    Ids decide, unless rows with equal ids differ, as where both tables number their rows. Without
    ids, rows are the same if they have the same features. As this also happens by chance, nearly
    all labeled rows must be found, and rows must hardly ever be alike.
    """
    if rows.label_column is not None or not {LABELED, UNLABELED} <= {*rows.sets}:
        return NO_OVERLAP
    labeled, unlabeled = rows.only(LABELED), rows.only(UNLABELED)
    features, numeric = rows.features[:MAX_COMPARED], _numeric(labeled)
    same, nearly = Key(features, numeric), Key(features, numeric, rounded=True)
    ways = [_Way(Key(rows.id_columns), nearly, 0.5)] if rows.id_columns else []
    ways += [_Way(Key(features[:FIRST], numeric), same, WHOLE, WHOLE), _Way(same, same, 0, WHOLE)]
    for way in ways:
        found = way.search(labeled, unlabeled, engine)
        if found is not None:
            return found
    return NO_OVERLAP


@dataclass(frozen=True)
class _Way:
    """A way to find rows: by one key, and confirmed by another."""

    key: Key
    further: Key
    confirmed: float  # the least fraction of found rows that are alike by the further key
    found: float = 0  # the least fraction of labeled rows to be found

    def search(self, labeled: Rows, unlabeled: Rows, engine: Engine) -> Overlap | None:
        """The overlap; None if it cannot be told this way."""
        hashes, further = engine.gather(HashRows((self.key, self.further)), labeled, "labeled").T
        distinct, places = np.unique(hashes, return_index=True)
        if len(distinct) < max(DISTINCT * len(hashes), MIN_ROWS):
            return None
        find = FindRows(self.key, distinct, places, MOST * len(hashes))
        found = engine.gather(find, unlabeled, "overlap")
        if found is None or found.others < MIN_ROWS:
            return None
        each, kept = np.unique(found.twins, return_index=True)
        if len(each) < self.found * len(distinct) or not len(each):
            return NO_OVERLAP
        if self._alike(unlabeled, found, further) < self.confirmed:
            return None
        if self.found:  # one row for each labeled one: others are alike by chance
            kept.sort()
            return Overlap(found.rows[kept], found.twins[kept])
        return found

    def _alike(self, rows: Rows, found: Overlap, hashes: HashArray) -> float:
        """The fraction of the first found rows that their twins are like by the further key."""
        seen, alike = 0, 0
        for chunk in rows.chunks(self.further.columns):
            ends = chunk.first_row, chunk.first_row + chunk.batch.num_rows
            here = slice(*np.searchsorted(found.rows, ends))
            places = found.rows[here] - chunk.first_row
            batch, sets = chunk.batch.take(pa.array(places)), chunk.sets[places]
            own = self.further(replace(chunk, batch=batch, sets=sets))
            seen, alike = seen + len(own), alike + int((own == hashes[found.twins[here]]).sum())
            if seen >= CONFIRMED:
                break
        return alike / max(seen, 1)


def _numeric(rows: Rows) -> dict[str, bool]:
    """Whether each feature is of numbers, by the first rows."""
    columns = rows.features[:MAX_COMPARED]
    for chunk in rows.chunks(columns):
        n = chunk.batch.num_rows
        return {name: 2 * _numbers(chunk, name).null_count <= n for name in columns}
    return {}


# ---- Steps


@dataclass(frozen=True)
class Key:
    """Columns by which rows are compared."""

    columns: tuple[str, ...]
    numeric: Mapping[str, bool] | None = None  # None: all are text
    rounded: bool = False

    def __call__(self, chunk: Chunk) -> HashArray:
        """A number for each row, shape (n,), the same wherever the row is."""
        return _mix([self._column(chunk, name) for name in self.columns])

    def _column(self, chunk: Chunk, name: str) -> HashArray:
        if self.numeric is None or not self.numeric.get(name):
            return _hash_text(as_text(chunk, name))
        return _hash_numbers(_numbers(chunk, name), self.rounded)


@dataclass(frozen=True)
class HashRows:
    """The step that hashes rows by each of some keys, shape (n, keys)."""

    keys: tuple[Key, ...]

    def __call__(self, job: Job, done: RowsDone, threads: int) -> HashArray:
        parts = [np.empty((0, len(self.keys)), np.uint64)]
        columns = dict.fromkeys(column for key in self.keys for column in key.columns)
        for chunk in job.part.chunks(list(columns)):
            parts.append(np.column_stack([key(chunk) for key in self.keys]))
            done(chunk.batch.num_rows)
        return np.concatenate(parts)

    @staticmethod
    def merge(results: Sequence[HashArray]) -> HashArray:
        return np.concatenate(results)


@dataclass(frozen=True, eq=False)
class FindRows:
    """The step that finds rows by their hashes; None if there are more than may be."""

    key: Key
    hashes: HashArray  # (n,), increasing
    twins: IntArray  # (n,): the row of each
    most: int

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Overlap | None:
        found, count = list[Overlap | None]([NO_OVERLAP]), 0
        for chunk in job.part.chunks(self.key.columns):
            hashes = self.key(chunk)
            place = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
            same = np.flatnonzero(self.hashes[place] == hashes)
            count += len(same)
            if count > self.most:
                return None
            others = len(hashes) - len(same)
            found.append(Overlap(same + chunk.first_row, self.twins[place[same]], others))
            done(len(hashes))
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


def _numbers(chunk: Chunk, name: str) -> pa.Array:
    """A column as numbers, null where it has none."""
    column = chunk.batch[name]
    with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if chunk.notation.decimal == "." or not pa.types.is_string(column.type):
            return pc.cast(column, pa.float64())
    if not pa.types.is_string(column.type):
        return pa.nulls(len(column), pa.float64())
    return chunk.notation.parse(column)[1]


def _hash_numbers(column: pa.Array, rounded: bool) -> HashArray:
    values: FloatArray = pc.fill_null(column, np.nan).to_numpy(zero_copy_only=False)
    if rounded:
        mantissa, exponent = np.frexp(values)
        values = np.ldexp(np.round(mantissa * ROUNDED) / ROUNDED, exponent)
    values = values + 0.0  # no -0
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
