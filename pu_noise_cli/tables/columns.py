"""Columns: what their values mean, what a table has in them, and how they become features."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, option
from ..notices import Notice
from ..numerics import BoolArray, FloatArray, IntArray
from .files import Count
from .kinds import DATE, NAME_AS_DATE, Counts, Kind, remedy
from .notation import MISSING_TEXTS, NUMBER, PLAIN
from .rows import Chunk, Rows, as_text, shown

# ---- Values

BOOLEANS = {"true": 1.0, "false": 0.0}
NO_ROWS = np.empty(0, np.int64)
FLOATS = (pa.float64(), pa.float32())
WIDE = 256  # columns, from which they are looked at as a matrix


@dataclass(frozen=True)
class Numbers:
    """A column of n rows read as numbers."""

    values: FloatArray  # (n,); NaN if missing or not a number
    odd: IntArray = field(default_factory=lambda: NO_ROWS)  # rows with text that is not a number
    text: pa.Array | None = None  # of text columns: trimmed, null if missing
    percentages: int = 0  # rows with a percent sign

    @classmethod
    def from_chunk(cls, chunk: Chunk, name: str, na: Sequence[str]) -> Numbers:
        """Read a column; `na` are texts or numbers that mean a missing value."""
        column = chunk.batch[name]
        if not pa.types.is_string(column.type):
            is_short = pa.types.is_float32(column.type) or pa.types.is_float16(column.type)
            dtype = column.type.to_pandas_dtype() if is_short else np.float64
            return cls(_without_codes(cast_numbers(chunk, name, column), na, dtype))
        text = pc.utf8_trim_whitespace(column)
        text = pc.if_else(_is_missing_text(text, na), pa.scalar(None, text.type), text)
        if chunk.notation.decimal == ".":  # most columns, at once
            with contextlib.suppress(pa.ArrowInvalid):
                return cls(_without_codes(_as_floats(pc.cast(text, pa.float64())), na), text=text)
        is_number, numbers, percentages = chunk.notation.parse(text)
        odd = np.flatnonzero(np.asarray(pc.fill_null(pc.invert(is_number), False)))
        values = _without_codes(_as_floats(numbers), na)
        return cls(values, odd, text, int(np.count_nonzero(percentages)))


def _without_codes(values: FloatArray, na: Sequence[str], dtype: Any = np.float64) -> FloatArray:
    """Numbers, NaN where one is a code for a missing value: -1 is also written -1.0.

    Codes are compared in the precision of the file: -9.99 differs between `dtype`s.
    """
    codes = np.array(_numeric_codes(na), dtype)
    return np.where(np.isin(values, codes), np.nan, values) if len(codes) else values


def _numeric_codes(na: Sequence[str]) -> list[float]:
    return [float(text) for text in na if re.fullmatch(NUMBER, text)]


def all_finite(column: pa.Array) -> bool:
    """Whether a column holds finite numbers only, judged by its type and extremes."""
    if column.null_count:
        return False
    if pa.types.is_integer(column.type):
        return True
    if not pa.types.is_floating(column.type) or len(column) == 0:
        return False
    values = column.to_numpy()
    return bool(np.isfinite([values.min(), values.max()]).all())


def finite_columns(batch: pa.RecordBatch) -> dict[str, FloatArray]:
    """The columns of a wide table that hold finite floating-point numbers, each of shape (1, n).

    Thousands of columns take longer one by one than as a matrix; a few do not, and need no copy.
    """
    if batch.num_columns < WIDE or batch.num_rows == 0:
        return {}
    columns = {
        name: column.to_numpy()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if column.type in FLOATS and column.null_count == 0
    }
    matrix = np.empty((len(columns), 1, batch.num_rows))
    for row, values in zip(matrix, columns.values(), strict=True):
        row[0] = values
    finite = np.asarray(np.isfinite(matrix).all((1, 2)))
    return {name: row for name, row, known in zip(columns, matrix, finite, strict=True) if known}


def _as_floats(column: pa.Array) -> FloatArray:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def cast_numbers(chunk: Chunk, name: str, column: pa.Array) -> FloatArray:
    """A column that is not text as numbers, shape (n,)."""
    types = pa.types
    if types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    elif not any(
        check(column.type)
        for check in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    ):
        raise InputError(
            f"{chunk.file}: column {shown(name)} has type {column.type}, which is neither number, "
            f"truth value nor text; leave it out with {option('drop_columns')}"
        )
    return _as_floats(pc.cast(column, pa.float64(), safe=False))


def contains(chunk: Chunk, name: str, text: str) -> bool:
    """Whether a column holds a text, or a number written like that."""
    column = chunk.batch[name]
    if pa.types.is_string(column.type):
        if pc.any(pc.equal(pc.utf8_trim_whitespace(column), text)).as_py():
            return True
    elif pa.types.is_boolean(column.type):
        return False
    if not re.fullmatch(NUMBER, text):
        return False
    kept, removed = (np.isnan(Numbers.from_chunk(chunk, name, na).values) for na in ([], [text]))
    return bool((kept != removed).any())


def _is_missing_text(text: pa.Array, na: Sequence[str]) -> pa.Array:
    missing = pa.array([*MISSING_TEXTS, *na], text.type)
    return pc.or_(pc.is_null(text), pc.is_in(pc.utf8_trim_whitespace(text), missing))


def _is_missing(text: pa.Array, na: Sequence[str]) -> pa.Array:
    """Which values of a category are missing, shape (n,); codes may be numbers."""
    missing, codes = _is_missing_text(text, na), _numeric_codes(na)
    if not codes:
        return missing
    _, numbers, _ = PLAIN.parse(pc.utf8_trim_whitespace(text))
    return pc.or_(missing, pc.is_in(numbers, pa.array(codes)))


def _booleans(numbers: Numbers) -> FloatArray:
    """A column of truth values as 0 and 1, NaN for anything else, shape (n,)."""
    values = numbers.values.copy()
    if numbers.text is not None:
        words = pc.utf8_lower(numbers.text)
        for word, value in BOOLEANS.items():
            values[np.asarray(pc.fill_null(pc.equal(words, word), False))] = value
    return values


# ---- Values that too many rows share

ISOLATED_FRACTION, ISOLATED_ROWS = 0.01, 5  # of the rows of a sample, at least
MIN_OTHERS = 20  # distinct values that an isolated one stands apart from
FAR = 5  # gap to the others, in units of the median gap between them
TIED_FRACTION, TIED_ROWS, TIED_RATIO = 0.005, 10, 2  # of rows, and to the cells below
CELLS_BELOW = 5


class IsolatedValue(NamedTuple):
    """A value at one end of a column that stands apart: perhaps a code for a missing value."""

    value: float
    fraction: float  # of the rows of the sample in which it is most frequent
    nearest: float  # of the other values
    farthest: float

    def message(self, what: str) -> str:
        """The text of the warning."""
        low, high = sorted((self.nearest, self.farthest))
        return (
            f"{self.fraction:.1%} of the rows have {what} {self.value:g}, all others are between "
            f"{low:g} and {high:g}; if it means a missing value, use {option('na')} {self.value:g}"
        )


def isolated_value(values: FloatArray, counts: IntArray) -> IsolatedValue | None:
    """Find an isolated whole number at one end.

    Parameters
    ----------
    values
        Distinct and sorted, shape (n,).
    counts
        Rows of each sample that have them, shape (n, samples).
    """
    if len(values) <= MIN_OTHERS:
        return None
    sizes = counts.sum(0).clip(1)
    frequent = (counts >= ISOLATED_ROWS) & (counts >= ISOLATED_FRACTION * sizes)
    for end, rest in ((0, slice(1, None)), (-1, slice(-1))):
        if not frequent[end].any() or not float(values[end]).is_integer():
            continue
        others = values[rest]
        if _stands_apart(values[end], others, end, (counts[rest] / sizes).sum(1)):
            fraction = float((counts[end] / sizes)[frequent[end]].max())
            nearest, farthest = float(others[end]), float(others[-1 - end])
            return IsolatedValue(float(values[end]), fraction, nearest, farthest)
    return None


def _stands_apart(value: float, others: FloatArray, end: int, weights: FloatArray) -> bool:
    """Whether a value has a sign of its own, or is far from the sorted others, shape (n,)."""
    if value < 0 <= others[0] or value > 0 >= others[-1]:
        return True
    rank = weights.cumsum()
    low, high = others[np.searchsorted(rank, rank[-1] * np.array([0.25, 0.75]))]
    return bool(abs(value - others[end]) > max(high - low, FAR * np.median(np.diff(others))))


def isolated_in_column(column: FloatArray, labeled: BoolArray) -> IsolatedValue | None:
    """Find the isolated value of a column of numbers, shape (n,), NaN if missing."""
    known = ~np.isnan(column)
    ends = (column == column[known].min(initial=np.inf)) | (
        column == column[known].max(initial=-np.inf)
    )
    if ends.sum() < ISOLATED_ROWS:  # true of most columns, which then need no sorting
        return None
    values, place = np.unique(column[known], return_inverse=True)
    counts = np.bincount(2 * place + labeled[known], minlength=2 * len(values))
    return isolated_value(values, counts.reshape(-1, 2))


def tied_at_top(counts: IntArray) -> FloatArray | None:
    """The fraction of each sample at the highest score if the scores saturate, shape (samples,).

    `counts` are the rows at each score in order, shape (n, samples). Where scores thin out, the
    highest has fewer rows than those below it; where they saturate, more.
    """
    if len(counts) <= CELLS_BELOW:
        return None
    fractions = counts / counts.sum(0).clip(1)
    top, below = fractions[-1].mean(), fractions[-1 - CELLS_BELOW : -1].mean()
    if counts[-1].sum() < TIED_ROWS or top < max(TIED_FRACTION, TIED_RATIO * below):
        return None
    return np.asarray(fractions[-1])


# ---- Features

MIN_LEVEL_ROWS, MAX_LEVELS = 10, 64  # rarer categories, or further ones, are pooled


class Column(msgspec.Struct, frozen=True):
    """How one table column enters the feature matrix."""

    name: str
    kind: Kind
    missing: bool = False  # has missing values, and so an indicator
    levels: Annotated[tuple[str, ...], msgspec.Meta(max_length=MAX_LEVELS)] = ()
    other: bool = False  # has rarer levels, pooled in one indicator
    percent: bool = False  # numbers have a percent sign

    def __post_init__(self) -> None:
        if (self.levels or self.other) and self.kind != "category":
            raise ValueError("only a category has levels")
        if len(set(self.levels)) < len(self.levels):
            raise ValueError("levels must be distinct")

    @property
    def feature_names(self) -> list[str]:
        """The names of the matrix columns, those of the values first."""
        is_category = self.kind == "category"
        values = [f"{self.name}={v}" for v in self.levels] if is_category else [self.name]
        return [
            *values,
            *([f"{self.name} (other)"] if self.other else []),
            *([f"{self.name} (missing)"] if self.missing else []),
        ]


class Encoding(msgspec.Struct, frozen=True):
    """How table columns become a feature matrix."""

    columns: Annotated[tuple[Column, ...], msgspec.Meta(min_length=1)]
    na: tuple[str, ...] = ()  # texts that mean a missing value

    def __post_init__(self) -> None:
        if len({column.name for column in self.columns}) < len(self.columns):
            raise ValueError("columns must differ by name")

    @property
    def feature_names(self) -> list[str]:
        """The names of the matrix columns."""
        return [name for column in self.columns for name in column.feature_names]

    def encode(self, chunk: Chunk) -> FloatArray:
        """The matrix of a chunk, shape (n, features); NaN if a number is missing."""
        return np.stack(self.encode_columns(chunk)).T  # each column contiguous

    def encode_columns(self, chunk: Chunk) -> list[FloatArray]:
        """The columns of that matrix, each of shape (n,), most of them without a copy."""
        finite = {} if self.na else finite_columns(chunk.batch)
        parts = [
            finite[column.name]
            if column.kind == "number" and not column.missing and column.name in finite
            else _encode_column(chunk, column, self.na)
            for column in self.columns
        ]
        return [values for part in parts for values in part]


def _encode_column(chunk: Chunk, column: Column, na: Sequence[str]) -> FloatArray:
    """The matrix columns of a table column, shape (columns, n)."""
    values = chunk.batch[column.name]
    if column.kind == "category":
        return _encode_category(chunk, column, na)
    is_plain = column.kind == "number" and not (column.missing or na or column.percent)
    if is_plain and all_finite(values):
        return cast_numbers(chunk, column.name, values)[None]  # most columns, without a copy
    numbers = Numbers.from_chunk(chunk, column.name, na)
    encoded = _booleans(numbers) if column.kind == "boolean" else numbers.values
    missing = np.isnan(encoded)
    if len(odd := numbers.odd[missing[numbers.odd]]):  # in new rows: the training rows were checked
        row = int(odd[0])
        problem = f"has text {shown(values[row].as_py())}"
        raise chunk.error(column.name, problem, row, ", where a number is needed")
    if np.isinf(encoded).any():
        raise _infinite_error(chunk, column.name, encoded)
    if numbers.percentages != (np.count_nonzero(~missing) if column.percent else 0):
        raise InputError(f"{chunk.file}: {_percent_problem(column.name)}")
    if column.missing:
        return np.array([encoded, missing], np.float64)
    return encoded[None]


def _encode_category(chunk: Chunk, column: Column, na: Sequence[str]) -> FloatArray:
    text = as_text(chunk, column.name)
    levels = pa.array(column.levels, pa.string())
    index = np.asarray(pc.fill_null(pc.index_in(text, levels), -1))
    missing = np.asarray(_is_missing(text, na))
    indicators = [index == level for level in range(len(column.levels))]
    if column.other:
        indicators.append((index < 0) & ~missing)
    if column.missing:
        indicators.append(missing)
    return np.array(indicators, np.float64)


def _infinite_error(chunk: Chunk, name: str, values: FloatArray) -> InputError:
    row = int(np.isinf(values).argmax())
    remedy = f"; if it means a missing value, use {option('na')} {values[row]:g}"
    return chunk.error(name, "has an infinite value", row, remedy)


def _percent_problem(name: str) -> str:
    return (
        f"column {shown(name)} has numbers with a percent sign and numbers without; write all of "
        f"them in one way, or leave it out with {option('drop_columns')} {name}"
    )


# ---- Profiles

MAX_COUNTED_LEVELS = 1 << 16
MAX_NAMED = 5  # columns with the same problem


class Place(NamedTuple):
    """Where a text is among numbers."""

    file: str
    row: int  # from 1
    text: str


@dataclass
class Profile:
    """What one table has in one column."""

    rows: int = 0
    missing: int = 0
    numbers: int = 0
    booleans: int = 0
    levels: Counter[str] = field(default_factory=Counter)
    full: bool = False  # there are more levels than are counted
    incomplete: bool = False  # some levels are not counted in all rows
    typed: bool = False  # the file itself states that it holds numbers
    percentages: int = 0  # numbers with a percent sign
    odd: Place | None = None  # the first text among the numbers
    infinite: InputError | None = None  # the first infinite value

    @property
    def values(self) -> int:
        """The number of values that are not missing."""
        return self.rows - self.missing

    @property
    def counts(self) -> Counts:
        """What decides on the kind of column."""
        return Counts(self.values, self.numbers, self.booleans, self.typed, self.levels)

    @property
    def kind(self) -> Kind | None:
        """The kind of column, or None if it has no values; a mixed one has passed as a category."""
        kind = self.counts.kind()
        return "category" if kind == "mixed" else kind

    def problem(self, name: str) -> str | None:
        """What keeps the column from having a kind: text among numbers, or an infinite value."""
        kind = self.counts.kind()
        if self.odd is not None and kind in ("number", "mixed"):
            file, row, text = self.odd
            share = 1 - self.numbers / self.values
            others = f" ({share:.1%} of its values are not numbers)" if kind == "mixed" else ""
            place = f"has text {shown(text)} in row {row}{others}"
            return f"{file}: column {shown(name)} {place}{remedy(name, self.levels)}"
        return str(self.infinite) if kind == "number" and self.infinite is not None else None

    def add(self, chunk: Chunk, name: str, na: Sequence[str], as_category: bool) -> None:
        """Add a chunk; levels are counted for text that is not a number."""
        n = chunk.batch.num_rows
        self.rows += n
        if as_category:
            self.missing += n - self.add_levels(chunk, name, na)
            return
        if n and not na and all_finite(chunk.batch[name]):  # most columns, at once
            self.typed = True
            self.numbers += n
            return
        numbers = Numbers.from_chunk(chunk, name, na)
        known = int(np.count_nonzero(~np.isnan(numbers.values)))
        self.missing += n - known - len(numbers.odd)
        if pa.types.is_boolean(chunk.batch[name].type):
            self.booleans += known
            return
        self.typed |= numbers.text is None and known > 0
        self.numbers += known
        self.percentages += numbers.percentages
        if self.infinite is None and np.isinf(numbers.values).any():
            self.infinite = _infinite_error(chunk, name, numbers.values)
        if len(numbers.odd):
            self.booleans += int(np.count_nonzero(~np.isnan(_booleans(numbers)[numbers.odd])))
            self._count(as_text(chunk, name).take(pa.array(numbers.odd)))
            if self.odd is None:
                row = int(numbers.odd[0])
                text = str(chunk.batch[name][row].as_py())
                self.odd = Place(chunk.file, chunk.file_row(row), text)

    def add_numbers(self, rows: int) -> None:
        """Add finite numbers, and the file states that they are numbers."""
        self.rows += rows
        self.numbers += rows
        self.typed |= rows > 0

    def add_levels(self, chunk: Chunk, name: str, na: Sequence[str]) -> int:
        """Count the values of a category as levels; returns how many rows have one."""
        text = as_text(chunk, name)
        values = text.filter(pc.invert(_is_missing(text, na)))
        self._count(values)
        return len(values)

    def _count(self, text: pa.Array) -> None:
        levels, counts = (field.to_pylist() for field in pc.value_counts(text).flatten())
        for level, count in zip(levels, counts, strict=True):
            self._count_level(level, count)

    def _count_level(self, level: str, rows: int) -> None:
        """Count rows of a level if it is one of the first MAX_COUNTED_LEVELS."""
        if level in self.levels or len(self.levels) < MAX_COUNTED_LEVELS:
            self.levels[level] += rows
        else:
            self.full = True

    def merge(self, later: Profile) -> None:
        """Add the profile of later rows."""
        # the later rows may have had no room for a level that is counted here
        self.incomplete |= later.incomplete or (later.full and self.rows > 0)
        self.full |= later.full
        self.rows += later.rows
        self.missing += later.missing
        self.numbers += later.numbers
        self.booleans += later.booleans
        for level, rows in later.levels.items():  # in order of first appearance
            self._count_level(level, rows)
        self.typed |= later.typed
        self.percentages += later.percentages
        self.odd = self.odd or later.odd
        self.infinite = self.infinite or later.infinite


class ColumnSummary(msgspec.Struct, frozen=True):
    """What one table has in one column, as provenance.json states it."""

    column: str
    table: str
    kind: Kind | None  # None if it has no values
    values: Count
    missing: Count
    levels: Count | None  # distinct texts of a category


class Profiler:
    """Profiles all feature columns in one pass over the rows."""

    def __init__(self, rows: Rows, na: Sequence[str], categorical: Sequence[str]) -> None:
        for column in categorical:
            if column not in rows.features:
                raise InputError(
                    f"{rows.tables[0].name}: no feature column {column!r} for "
                    f"{option('categorical')}"
                )
        self.na, self.categorical = tuple(na), set(categorical)
        self.unseen_na = set(na)  # that no value has had so far
        self.tables = rows.tables
        # by column, a profile for each table
        self.profiles = {c: [Profile() for _ in rows.tables] for c in rows.features}

    def add(self, chunk: Chunk) -> None:
        """Add the next rows."""
        finite = {} if self.na else finite_columns(chunk.batch)
        for name, profiles in self.profiles.items():
            if name in finite and name not in self.categorical:
                profiles[chunk.table].add_numbers(chunk.batch.num_rows)
                continue
            profiles[chunk.table].add(chunk, name, self.na, name in self.categorical)
            self.unseen_na -= {text for text in self.unseen_na if contains(chunk, name, text)}

    @classmethod
    def merged(cls, parts: Sequence[Profiler]) -> Profiler:
        """Merge profilers of consecutive parts of the rows."""
        merged = copy(parts[0])
        merged.unseen_na = set.intersection(*(part.unseen_na for part in parts))
        merged.profiles = {c: [Profile() for _ in merged.tables] for c in merged.profiles}
        for part in parts:
            for name, profiles in part.profiles.items():
                for profile, later in zip(merged.profiles[name], profiles, strict=True):
                    profile.merge(later)
        return merged

    def check(self) -> None:
        """Raise an input error that names all columns whose kind is unclear."""
        problems: dict[str, str] = {}
        for name, profiles in self.profiles.items():
            if name in self.categorical:
                continue
            found = [profile.problem(name) for profile in profiles]
            numbers = sum(profile.numbers for profile in profiles)
            if 0 < sum(profile.percentages for profile in profiles) < numbers:
                found.append(f"{self.tables[0].name}: {_percent_problem(name)}")
            if problem := next(filter(None, found), None):
                problems[name] = problem
        if problems:
            first, *others = problems
            also = "; other columns with text: " if others else ""
            also += ", ".join(map(self._with_text, others[:MAX_NAMED]))
            more = ", ..." if len(others) > MAX_NAMED else ""
            raise InputError(f"{problems[first]}{also}{more}")

    def _with_text(self, name: str) -> str:
        """The column and, if it has text among numbers, the commonest one."""
        texts = Counter[str]()
        for profile in self.profiles[name]:
            texts.update(profile.levels)
        common = "".join(f" ({shown(text)})" for text, _ in texts.most_common(1))
        return f"{shown(name)}{common}"

    def finish(self, rows: Rows) -> None:
        """Count in another pass the levels that could not be counted on the way.

        These are levels that are numbers, in columns that turned out to be categories, and levels
        of categories with too many of them, profiled in parts.
        """
        self.check()
        names = []
        for name, profiles in self.profiles.items():
            uncounted = any(profile.numbers or profile.incomplete for profile in profiles)
            if self._kind(name) == "category" and uncounted:
                names.append(name)
                for profile in profiles:
                    profile.levels = Counter(dict.fromkeys(profile.levels, 0))
        for chunk in rows.chunks(names) if names else ():
            for name in names:
                self.profiles[name][chunk.table].add_levels(chunk, name, self.na)

    def encoding(self) -> tuple[Encoding, list[Notice]]:
        """How the columns become features, and warnings about them, after all rows were added."""
        columns = []
        notices = [
            Notice(
                "na-not-found",
                f"{option('na')} {shown(text)}: no value of any feature column is that",
            )
            for text in sorted(self.unseen_na)
        ]
        for name, profiles in self.profiles.items():
            kind = self._kind(name)
            missing = any(profile.missing for profile in profiles)
            if kind != "category":
                percent = any(profile.percentages for profile in profiles)
                columns.append(Column(name, kind, missing, percent=percent))
                continue
            counts = sum((profile.levels for profile in profiles), Counter())
            frequent = [level for level, count in counts.items() if count >= MIN_LEVEL_ROWS]
            frequent.sort(key=lambda level: (-counts[level], level))
            levels = tuple(sorted(frequent[:MAX_LEVELS]))
            columns.append(Column(name, kind, missing, levels, len(levels) < len(counts)))
            values = sum(profile.values for profile in profiles)
            if not levels or len(counts) > values / 2:
                message = (
                    f"column {shown(name)} has {len(counts):,} different texts in {values:,} rows; "
                    f"if it is an ID, use {option('id_column', name)}"
                )
                notices.append(Notice("identifier-like-column", message))
            elif name not in self.categorical and _matching(counts, DATE) > values / 2:
                message = f"column {shown(name)} has dates, and each is read as a category"
                notices.append(Notice("date-column", message))
        return Encoding(tuple(columns), self.na), notices

    def summary(self) -> list[ColumnSummary]:
        """One summary for each column and table."""
        summaries = []
        for name, profiles in self.profiles.items():
            for table, profile in zip(self.tables, profiles, strict=True):
                kind = "category" if name in self.categorical else profile.kind
                levels = len(profile.levels) if kind == "category" else None
                counts = profile.values, profile.missing, levels
                summaries.append(ColumnSummary(name, table.name, kind, *counts))
        return summaries

    def _kind(self, name: str) -> Kind:
        """The one kind that all tables agree on."""
        if name in self.categorical:
            return "category"
        profiles = self.profiles[name]
        kinds = {profile.kind for profile in profiles} - {None}
        if len(kinds) < 2:
            return next(iter(kinds), None) or "number"
        described = [
            f"{table.name} ({'text' if profile.kind == 'category' else f'{profile.kind}s'})"
            for table, profile in zip(self.tables, profiles, strict=True)
        ]
        raise InputError(
            f"column {shown(name)} differs in kind between {' and '.join(described)}; "
            f"{option('categorical')} reads it as text in both, {option('id_column')} and "
            f"{option('keep_columns')} exclude it from the features"
        )


def _matching(counts: Counter[str], pattern: str) -> int:
    """How many values match a pattern."""
    return sum(rows for text, rows in counts.items() if re.search(pattern, text))


# ---- Names that a spreadsheet has changed

MAX_CHANGED = 0.5  # fraction of the names; beyond, they are dates


def names_as_dates(rows: Rows) -> list[Notice]:
    """Warnings of names such as 1-Mar, which was MARCH1, among the first ids and groups."""
    notices: dict[str, Notice] = {}
    for table in rows.tables if rows.carried else ():
        first_rows = replace(rows, tables=(table,), sets=rows.sets[:1]).chunks(rows.carried)
        for chunk, name in itertools.product(itertools.islice(first_rows, 1), rows.carried):
            text = pc.utf8_trim_whitespace(as_text(chunk, name))
            changed = np.asarray(pc.match_substring_regex(text, NAME_AS_DATE))
            if changed.any() and changed.mean() < MAX_CHANGED:
                first = int(changed.argmax())
                message = (
                    f"{table.name}: column {shown(name)} has {shown(text[first].as_py())} in row "
                    f"{chunk.file_row(first)}, which looks like a name that a spreadsheet turned "
                    f"into a date ({changed.sum()} rows)"
                )
                notices.setdefault(name, Notice("names-as-dates", message))
    return list(notices.values())
