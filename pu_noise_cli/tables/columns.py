"""What the values of a column mean: numbers, truth values, and those that are missing.

Values that too many rows share: codes for a missing value, and scores that end in a wall.

Table columns to numbers: what each column holds, and how its values enter the feature matrix.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InputError
from ..notices import Notice
from ..numerics import FloatArray, IntArray
from .rows import Chunk, Rows, as_text, shown

MISSING_TEXTS = (
    *("", ".", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "-nan"),
    *("NULL", "null", "None"),
)
NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:inf|infinity)$"
BOOLEANS = {"true": 1.0, "false": 0.0}
NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Numbers:
    """A column read as numbers; NaN where missing and at the `odd` rows, which hold other text."""

    values: NDArray[np.float64]
    odd: NDArray[np.int64] = field(default_factory=lambda: NO_ROWS)
    text: pa.Array | None = None  # trimmed, null where missing; only of text columns

    @classmethod
    def of(cls, chunk: Chunk, name: str, na: Sequence[str]) -> Numbers:
        column = chunk.batch[name]
        if not pa.types.is_string(column.type):
            single = pa.types.is_float32(column.type) or pa.types.is_float16(column.type)
            kind = column.type.to_pandas_dtype() if single else np.float64
            return cls(_without(na, cast_numbers(chunk, name, column), kind))
        text = pc.utf8_trim_whitespace(column)
        text = pc.if_else(_is_missing_text(text, na), pa.scalar(None, text.type), text)
        try:
            return cls(_without(na, _as_floats(pc.cast(text, pa.float64()))), text=text)
        except pa.ArrowInvalid:
            fits = pc.match_substring_regex(text, NUMBER)
            odd = np.flatnonzero(np.asarray(pc.fill_null(pc.invert(fits), False)))
            numbers = pc.cast(pc.if_else(fits, text, pa.scalar(None, text.type)), pa.float64())
            return cls(_without(na, _as_floats(numbers)), odd, text)


def _without(
    na: Sequence[str], values: NDArray[np.float64], kind: Any = np.float64
) -> NDArray[np.float64]:
    """Numbers, NaN where one of them means a missing value: -1 is also written -1.0.

    The file has them in floats of a kind, of which -9.99 may be another.
    """
    meant = np.array(_numbers_in(na), kind)
    return np.where(np.isin(values, meant), np.nan, values) if len(meant) else values


def _numbers_in(texts: Sequence[str]) -> list[float]:
    return [float(text) for text in texts if re.fullmatch(NUMBER, text)]


def all_finite(column: pa.Array) -> bool:
    """Whether all that a column has are finite numbers, as its type and its extremes tell."""
    if column.null_count:
        return False
    if pa.types.is_integer(column.type):
        return True
    if not pa.types.is_floating(column.type) or len(column) == 0:
        return False
    values = column.to_numpy()
    return bool(np.isfinite([values.min(), values.max()]).all())


def _as_floats(column: pa.Array) -> NDArray[np.float64]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def cast_numbers(chunk: Chunk, name: str, column: pa.Array) -> NDArray[np.float64]:
    kind = column.type
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.int8())
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        raise InputError(
            f"{chunk.file}: column {shown(name)} has type {kind}, which is neither number, truth "
            "value nor text; leave it out with --drop-columns"
        )
    return _as_floats(pc.cast(column, pa.float64(), safe=False))


def holds(chunk: Chunk, name: str, text: str) -> bool:
    """Whether a column has a text, or a number that is written so."""
    column = chunk.batch[name]
    if pa.types.is_string(column.type):
        if pc.any(pc.equal(pc.utf8_trim_whitespace(column), text)).as_py():
            return True
    elif pa.types.is_boolean(column.type):
        return False
    if not re.fullmatch(NUMBER, text):
        return False
    with_it, without = (np.isnan(Numbers.of(chunk, name, na).values) for na in ([], [text]))
    return bool((with_it != without).any())


def _is_missing_text(text: pa.Array, na: Sequence[str]) -> pa.Array:
    known = pa.array([*MISSING_TEXTS, *na], text.type)
    return pc.or_(pc.is_null(text), pc.is_in(pc.utf8_trim_whitespace(text), known))


def is_missing(text: pa.Array, na: Sequence[str]) -> pa.Array:
    """Which values of a category are missing, shape (n,); some may yet be numbers."""
    missing, meant = _is_missing_text(text, na), _numbers_in(na)
    if not meant:
        return missing
    text = pc.utf8_trim_whitespace(text)
    fits = pc.match_substring_regex(text, NUMBER)
    numbers = pc.cast(pc.if_else(fits, text, pa.scalar(None, text.type)), pa.float64())
    return pc.or_(missing, pc.is_in(numbers, pa.array(meant)))


def booleans(numbers: Numbers) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The values of a column of truth values, and where there is one."""
    values = numbers.values.copy()
    if numbers.text is not None:
        words = pc.utf8_lower(numbers.text)
        for word, value in BOOLEANS.items():
            values[np.asarray(pc.fill_null(pc.equal(words, word), False))] = value
    return values, ~np.isnan(values)


LONE_SHARE, LONE_ROWS = 0.01, 5  # of the rows of a sample, at least
LEAST_OTHERS = 20  # distinct values, for a lone one to stand apart from
FAR = 5  # times as far from the others as these are from each other
WALL_SHARE, WALL_ROWS, WALL_HEIGHT = 0.005, 10, 2  # of rows, and times the cells below it
CELLS_BELOW = 5


class Lone(NamedTuple):
    """A value at one end that stands apart."""

    value: float
    share: float  # of the rows of the sample in which it is most frequent
    nearest: float  # of the other values
    farthest: float

    def told(self, what: str) -> str:
        """The message of the warning about it."""
        low, high = sorted((self.nearest, self.farthest))
        return (
            f"{self.share:.1%} of the rows have {what} {self.value:g} and all others one of "
            f"{low:g} to {high:g}: does it mean a missing value (--na {self.value:g})?"
        )


def lone_value(values: FloatArray, counts: IntArray) -> Lone | None:
    """The lone value at one end, if there is one.

    `values` are distinct and in order, shape (n,); `counts` are their rows in each sample, shape
    (n, samples).
    """
    if len(values) <= LEAST_OTHERS:
        return None
    sizes = counts.sum(0).clip(1)
    enough = (counts >= LONE_ROWS) & (counts >= LONE_SHARE * sizes)
    for end, rest in ((0, slice(1, None)), (-1, slice(-1))):
        if not enough[end].any() or not float(values[end]).is_integer():
            continue
        others = values[rest]
        if _apart(values[end], others, end, (counts[rest] / sizes).sum(1)):
            share = float((counts[end] / sizes)[enough[end]].max())
            return Lone(float(values[end]), share, float(others[end]), float(others[-1 - end]))
    return None


def _apart(value: float, others: FloatArray, end: int, weights: FloatArray) -> bool:
    """Whether a value has a sign of its own, or is far from others in order, shape (n,)."""
    if value < 0 <= others[0] or value > 0 >= others[-1]:
        return True
    rank = weights.cumsum()
    low, high = others[np.searchsorted(rank, rank[-1] * np.array([0.25, 0.75]))]
    return bool(abs(value - others[end]) > max(high - low, FAR * np.median(np.diff(others))))


def lone_in_column(column: FloatArray, labeled: NDArray[np.bool_]) -> Lone | None:
    """The lone value of a column of numbers, shape (n,), NaN where one is missing."""
    known = ~np.isnan(column)
    ends = (column == column[known].min(initial=np.inf)) | (
        column == column[known].max(initial=-np.inf)
    )
    if ends.sum() < LONE_ROWS:  # of most columns, which need not be sorted
        return None
    values, place = np.unique(column[known], return_inverse=True)
    counts = np.bincount(2 * place + labeled[known], minlength=2 * len(values))
    return lone_value(values, counts.reshape(-1, 2))


def wall(counts: IntArray) -> NDArray[np.float64] | None:
    """The share of each sample at the highest score, if so many rows tie there, shape (samples,).

    `counts` are the rows at each score in order, shape (n, samples). Where scores thin out, the
    highest has fewer rows than those below it; where they run into a wall, more.
    """
    if len(counts) <= CELLS_BELOW:
        return None
    shares = counts / counts.sum(0).clip(1)
    height, below = shares[-1].mean(), shares[-1 - CELLS_BELOW : -1].mean()
    if counts[-1].sum() < WALL_ROWS or height < max(WALL_SHARE, WALL_HEIGHT * below):
        return None
    return np.asarray(shares[-1])


NUMERIC_SHARE = 0.9  # of the values read as numbers: the column is numeric
MIN_LEVEL_ROWS, MAX_LEVELS = 10, 64  # rarer categories, or further ones, are pooled
MAX_COUNTED_LEVELS = 1 << 16

Kind = Literal["number", "boolean", "category"]


@dataclass(frozen=True)
class Column:
    """How one table column enters the matrix."""

    name: str
    kind: Kind
    missing: bool = False  # has missing values, and so an indicator
    levels: tuple[str, ...] = ()  # of a category, each with an indicator
    other: bool = False  # has rarer levels, pooled in one indicator

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Column:
        """The column that asdict() came from."""
        kind, missing, other = value["kind"], value["missing"], value["other"]
        levels = tuple(map(_is_text, value["levels"]))
        if kind not in get_args(Kind) or type(missing) is not bool or type(other) is not bool:
            raise ValueError("a column is of a known kind")
        if (levels or other) and kind != "category":
            raise ValueError("only a category has levels")
        if len(set(levels)) < len(levels) or len(levels) > MAX_LEVELS:
            raise ValueError("levels differ, and are not many")
        return cls(_is_text(value["name"]), kind, missing, levels, other)

    @property
    def feature_names(self) -> list[str]:
        """The names of the matrix columns, the table column's values first."""
        values = (
            [self.name] if self.kind != "category" else [f"{self.name}={v}" for v in self.levels]
        )
        return [
            *values,
            *([f"{self.name} (other)"] if self.other else []),
            *([f"{self.name} (missing)"] if self.missing else []),
        ]


def _is_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is text")
    value.encode()  # half a character is none: a ValueError
    return value


@dataclass(frozen=True)
class Encoding:
    """The matrix columns, and the texts that mean a missing value."""

    columns: tuple[Column, ...]
    na: tuple[str, ...] = ()

    @property
    def feature_names(self) -> list[str]:
        return [name for column in self.columns for name in column.feature_names]

    def encode(self, chunk: Chunk) -> NDArray[np.float64]:
        """The matrix of a chunk, shape (n, features); NaN where a number is missing."""
        return np.stack(self.encode_columns(chunk)).T  # each column in one piece

    def encode_columns(self, chunk: Chunk) -> list[NDArray[np.float64]]:
        """The columns of that matrix, each of shape (n,), most of them without a copy."""
        parts = [_encode_column(chunk, column, self.na) for column in self.columns]
        return [values for part in parts for values in part]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Encoding:
        """The encoding that as_json() came from; errors of many kinds where there is none."""
        columns = tuple(Column.from_json(column) for column in value["columns"])
        if not columns or len({column.name for column in columns}) < len(columns):
            raise ValueError("columns differ by name")
        return cls(columns, tuple(map(_is_text, value["na"])))


def _encode_column(chunk: Chunk, column: Column, na: Sequence[str]) -> NDArray[np.float64]:
    """The matrix columns of a table column, shape (columns, n)."""
    if column.kind == "category":
        text = as_text(chunk, column.name)
        index = np.asarray(
            pc.fill_null(pc.index_in(text, pa.array(column.levels, pa.string())), -1)
        )
        missing = np.asarray(is_missing(text, na))
        indicators = [index == level for level in range(len(column.levels))]
        if column.other:
            indicators.append((index < 0) & ~missing)
    elif (
        column.kind == "number"
        and not (column.missing or na)
        and all_finite(chunk.batch[column.name])
    ):  # most columns, without a copy
        return cast_numbers(chunk, column.name, chunk.batch[column.name])[None]
    else:
        numbers = Numbers.of(chunk, column.name, na)
        values, known = numbers.values, ~np.isnan(numbers.values)
        if column.kind == "boolean":
            values, known = booleans(numbers)
        odd = numbers.odd[~known[numbers.odd]]
        if len(odd):  # only in new rows: those of the training have all been looked at
            row = int(odd[0])
            text = shown(chunk.batch[column.name][row].as_py())
            raise chunk.error(column.name, f"has text {text}", row, ", where a number is needed")
        if np.isinf(values).any():
            raise _infinite_error(chunk, column.name, int(np.isinf(values).argmax()))
        if column.kind == "number" and not column.missing:
            return values[None]
        missing = ~known
        indicators = [np.where(known, values, np.nan)]
    if column.missing:
        indicators.append(missing)
    return np.array(indicators, np.float64)


def _odd_text_error(chunk: Chunk, name: str, row: int) -> InputError:
    text = shown(chunk.batch[name][row].as_py())
    remedy = (
        f"; mark missing values with --na {text}, or read the column as text with --categorical"
    )
    return chunk.error(name, f"has text {text}", row, remedy)


def _infinite_error(chunk: Chunk, name: str, row: int) -> InputError:
    return chunk.error(name, "has an infinite value", row)


@dataclass
class Profile:
    """What a pass over one table has found in one column."""

    rows: int = 0
    missing: int = 0
    numbers: int = 0
    booleans: int = 0
    levels: Counter[str] = field(default_factory=Counter)
    full: bool = False  # there are more levels than are counted
    uncounted: bool = False  # of some levels not all rows are counted
    typed: bool = False  # the file itself says that it holds numbers
    odd: InputError | None = None  # the first text among the numbers
    infinite: InputError | None = None

    @property
    def values(self) -> int:
        return self.rows - self.missing

    @property
    def kind(self) -> Kind | None:
        """What the column holds; None where it holds nothing."""
        if self.values == 0:
            return None
        if self.typed or self.numbers >= NUMERIC_SHARE * self.values:
            return "number"
        return "boolean" if self.booleans == self.values else "category"

    def add(self, chunk: Chunk, name: str, na: Sequence[str], as_category: bool) -> None:
        """Take in a chunk's values; of text, only what is no number is counted by level."""
        n = chunk.batch.num_rows
        self.rows += n
        if as_category:
            text = as_text(chunk, name)
            self.missing += int(pc.sum(is_missing(text, na)).as_py() or 0)
            self.add_levels(chunk, name, na, as_category)
            return
        if n and not na and all_finite(chunk.batch[name]):  # most columns, at once
            self.typed = True
            self.numbers += n
            return
        numbers = Numbers.of(chunk, name, na)
        found = int(np.count_nonzero(~np.isnan(numbers.values)))
        self.missing += n - found - len(numbers.odd)
        if pa.types.is_boolean(chunk.batch[name].type):
            self.booleans += found
            return
        self.typed |= numbers.text is None and found > 0
        self.numbers += found
        if self.infinite is None and np.isinf(numbers.values).any():
            self.infinite = _infinite_error(chunk, name, int(np.isinf(numbers.values).argmax()))
        if len(numbers.odd):
            _, known = booleans(numbers)
            self.booleans += int(np.count_nonzero(known[numbers.odd]))
            self.count(as_text(chunk, name).take(pa.array(numbers.odd)))
            if self.odd is None:
                self.odd = _odd_text_error(chunk, name, int(numbers.odd[0]))

    def add_levels(self, chunk: Chunk, name: str, na: Sequence[str], as_category: bool) -> None:
        """Count by level the values that add() counts so."""
        text = as_text(chunk, name)
        if as_category:
            self.count(text.filter(pc.invert(is_missing(text, na))))
        else:
            self.count(text.take(pa.array(Numbers.of(chunk, name, na).odd)))

    def add_numbers(self, chunk: Chunk, name: str, na: Sequence[str]) -> None:
        """Count by level the values that read as numbers, in a column that proved a category."""
        numbers = Numbers.of(chunk, name, na)
        self.count(as_text(chunk, name).filter(pa.array(~np.isnan(numbers.values))))

    def count(self, text: pa.Array) -> None:
        """Count values by level, the first MAX_COUNTED_LEVELS of them."""
        counts = pc.value_counts(text)
        levels, rows = counts.field("values").to_pylist(), counts.field("counts").to_pylist()
        for level, number in zip(levels, rows, strict=True):
            self._count(level, number)

    def _count(self, level: str, rows: int) -> None:
        if level in self.levels or len(self.levels) < MAX_COUNTED_LEVELS:
            self.levels[level] += rows
        else:
            self.full = True

    def merge(self, later: Profile) -> None:
        """Take in what was found in rows that come after these."""
        # a level that is counted here may have come to the later rows when those were full
        self.uncounted |= later.uncounted or (later.full and self.rows > 0)
        self.full |= later.full
        self.rows += later.rows
        self.missing += later.missing
        self.numbers += later.numbers
        self.booleans += later.booleans
        for level, rows in later.levels.items():  # in the order they came
            self._count(level, rows)
        self.typed |= later.typed
        self.odd = self.odd or later.odd
        self.infinite = self.infinite or later.infinite


Profiles = dict[str, list[Profile]]  # by column, one for each table


class Profiler:
    """Collects the profiles of all feature columns in one pass over the rows."""

    def __init__(self, rows: Rows, na: Sequence[str], categorical: Sequence[str]) -> None:
        for column in categorical:
            if column not in rows.features:
                raise InputError(
                    f"{rows.tables[0].name}: no feature column {column!r} for --categorical"
                )
        self.na, self.categorical = tuple(na), set(categorical)
        self.unseen_na = set(na)  # that no value has had so far
        self.tables = rows.tables
        self.profiles: Profiles = {c: [Profile() for _ in rows.tables] for c in rows.features}

    def add(self, chunk: Chunk) -> None:
        for name, profiles in self.profiles.items():
            profiles[chunk.table].add(chunk, name, self.na, name in self.categorical)
            self.unseen_na -= {text for text in self.unseen_na if holds(chunk, name, text)}

    @classmethod
    def merged(cls, parts: Sequence[Profiler]) -> Profiler:
        """What several have found in parts of the rows, which are in order."""
        merged = copy(parts[0])
        merged.unseen_na = set.intersection(*(part.unseen_na for part in parts))
        merged.profiles = {c: [Profile() for _ in found] for c, found in merged.profiles.items()}
        for part in parts:
            for name, profiles in part.profiles.items():
                for mine, found in zip(merged.profiles[name], profiles, strict=True):
                    mine.merge(found)
        return merged

    def finish(self, rows: Rows) -> None:
        """Count in passes of their own the levels that could not be counted on the way.

        Those of categories with too many levels, profiled in parts; then those that read as
        numbers.
        """
        categories = [
            name
            for name, profiles in self.profiles.items()
            if name in self.categorical or self._kind(name, profiles) == "category"
        ]
        uncounted = [c for c in categories if any(p.uncounted for p in self.profiles[c])]
        for name in uncounted:
            for profile in self.profiles[name]:
                profile.levels = Counter(dict.fromkeys(profile.levels, 0))
        for chunk in rows.chunks(uncounted) if uncounted else ():
            for name in uncounted:
                profile = self.profiles[name][chunk.table]
                profile.add_levels(chunk, name, self.na, name in self.categorical)
        mixed = [
            name
            for name in categories
            if name not in self.categorical and any(p.numbers for p in self.profiles[name])
        ]
        for chunk in rows.chunks(mixed) if mixed else ():
            for name in mixed:
                self.profiles[name][chunk.table].add_numbers(chunk, name, self.na)

    def encoding(self) -> tuple[Encoding, list[Notice]]:
        """How the columns enter the matrix, once all rows have been added."""
        columns = []
        notices = [
            Notice("na-not-found", f"--na {shown(text)}: no value of any feature column is that")
            for text in sorted(self.unseen_na)
        ]
        for name, profiles in self.profiles.items():
            kind = "category" if name in self.categorical else self._kind(name, profiles)
            missing = any(profile.missing for profile in profiles)
            if kind != "category":
                for error in (e for p in profiles for e in (p.odd, p.infinite)):
                    if kind == "number" and error is not None:
                        raise error
                columns.append(Column(name, kind, missing))
                continue
            counts = sum((profile.levels for profile in profiles), Counter())
            kept = _kept_levels(counts)
            values = sum(profile.values for profile in profiles)
            columns.append(Column(name, kind, missing, kept, len(kept) < len(counts)))
            if not kept or len(counts) > values / 2:
                notices.append(
                    Notice(
                        "identifier-like-column",
                        f"column {shown(name)} has {len(counts)} distinct texts in {values} rows "
                        "and tells little; is it an id (--id-column) or a group?",
                    )
                )
        return Encoding(tuple(columns), self.na), notices

    def summary(self) -> list[dict[str, Any]]:
        """For each column and table: values, missing values and, of text, distinct ones."""
        summary = []
        for name, profiles in self.profiles.items():
            for table, profile in zip(self.tables, profiles, strict=True):
                kind = "category" if name in self.categorical else profile.kind
                summary.append(
                    {
                        "column": name,
                        "table": table.name,
                        "kind": kind,
                        "values": profile.values,
                        "missing": profile.missing,
                        "levels": len(profile.levels) if kind == "category" else None,
                    }
                )
        return summary

    def _kind(self, name: str, profiles: Iterable[Profile]) -> Kind:
        """The one kind that all tables agree on."""
        kinds = {profile.kind for profile in profiles} - {None}
        if len(kinds) < 2:
            return next(iter(kinds), None) or "number"
        described = [
            f"{table.name} ({'text' if profile.kind == 'category' else f'{profile.kind}s'})"
            for table, profile in zip(self.tables, profiles, strict=True)
        ]
        raise InputError(
            f"column {shown(name)} differs in kind between {' and '.join(described)}; "
            "--categorical reads it as text in both, --id-column and --keep-columns as no feature"
        )


def _kept_levels(counts: Counter[str]) -> tuple[str, ...]:
    frequent = [level for level, count in counts.items() if count >= MIN_LEVEL_ROWS]
    frequent.sort(key=lambda level: (-counts[level], level))
    return tuple(sorted(frequent[:MAX_LEVELS]))
