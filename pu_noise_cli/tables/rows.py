"""The rows of a run: labeled, unlabeled and known negatives, from one table each or one for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InputError, UsageError, option
from ..numerics import BoolArray, IntArray
from .notation import PLAIN, Notation
from .reading import Table

SetArray = NDArray[np.int8] | BoolArray  # codes of sets; True is LABELED, False UNLABELED
LabeledClass = Literal["positive", "negative"]

UNLABELED, LABELED, NEGATIVE = range(3)  # the codes of the sets, and their columns in counts
SETS = ("unlabeled", "labeled", "negative")
OVERLAP = len(SETS)  # of unlabeled rows that are labeled, too: they are scored, but not counted
SET_NAMES = (*SETS, "overlap")
UNKNOWN, IGNORED, CONTRADICTORY = -1, -2, -3  # further codes of labels
EVERY_OTHER = "*"  # among values of labels: all that are not named
NO_LABEL = ("", ".", "NA", "NaN", "nan", "None")  # unlabeled where every other value is labeled
MAX_WORDS = 12  # labels that a message lists
MAX_SHOWN = 60  # characters of a user's text in a message
MAX_TEXT = 1000  # bytes of a category or a group
SEPARATOR = ":"  # between the parts of an id of several columns
# columns that punoise writes; carried columns cannot have these names
OWN_COLUMNS = frozenset(
    (
        *("id", "set", "score", "tau", "posterior", "lr", "fdr", "posterior_labeled"),
        *("target_alpha", "posterior_low", "posterior_high", "evidence", "call"),
        *("stratum", "weight", "verdict", "row"),
    )
)
DEFAULT_SETS = {1: (UNLABELED,), 2: (LABELED, UNLABELED)}  # by number of tables
LABELS = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "labeled"), LABELED),
    **dict.fromkeys(("0", "0.0", "false", "no", "unlabeled"), UNLABELED),
    "negative": NEGATIVE,
    "overlap": OVERLAP,
}

NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rows of one table."""

    batch: pa.RecordBatch
    sets: NDArray[np.int8]  # (n,): UNLABELED, LABELED, NEGATIVE or OVERLAP
    table: int  # its position among the tables
    first_row: int  # in the table, from 0
    file: str
    first_file_row: int
    file_rows: IntArray | None = None  # (n,): from 0, if some rows are left out
    notation: Notation = PLAIN  # of numbers in text

    @cached_property
    def labeled(self) -> BoolArray:
        """The labeled rows, shape (n,)."""
        return np.asarray(self.sets == LABELED)

    @cached_property
    def unlabeled(self) -> BoolArray:
        """The rows that are neither labeled nor known negatives, shape (n,)."""
        return np.asarray(self.sets == UNLABELED)

    @cached_property
    def counted(self) -> BoolArray:
        """All rows but those of OVERLAP, shape (n,)."""
        return np.asarray(self.sets != OVERLAP)

    def file_row(self, row: int) -> int:
        """The number of a row in its file, from 1."""
        return int(self.places[row]) + 1

    @property
    def places(self) -> IntArray:
        """The numbers of the rows in their file, from 0, shape (n,)."""
        if self.file_rows is not None:
            return self.file_rows
        return self.first_file_row + np.arange(len(self.sets))

    def without_ignored(self) -> Chunk:
        """The rows that are not to be ignored."""
        keep = self.sets != IGNORED
        if keep.all():
            return self
        numbers = self.first_file_row + np.flatnonzero(keep)
        batch = self.batch.filter(pa.array(keep))
        return replace(self, batch=batch, sets=self.sets[keep], file_rows=numbers)

    def error(self, column: str, problem: str, row: int, remedy: str = "") -> InputError:
        """An error at a row of this chunk; messages count rows from 1, in their file."""
        place = f"in row {self.file_row(row)}"
        return InputError(f"{self.file}: column {shown(column)} {problem} {place}{remedy}")


@dataclass(frozen=True)
class Rows:
    """All rows in output order, and the role of each column.

    There is one table for each set, or a single table: with a label column, or of unlabeled rows.
    """

    tables: tuple[Table, ...]
    features: tuple[str, ...]
    sets: tuple[int, ...] = (UNLABELED,)  # of each table, if there is no label column
    id_columns: tuple[str, ...] = ()
    group_column: str | None = None
    label_column: str | None = None
    kept: tuple[str, ...] = ()  # carried through to the outputs
    label_values: tuple[tuple[str, int], ...] = ()  # sets of the user's own labels
    set_names: tuple[str, ...] = ("",) * len(SETS)  # how messages name each set
    labeled_class: LabeledClass = "positive"
    chosen: bool = False  # the user names the features
    # rows of the unlabeled table that are in the labeled one, too; increasing
    overlap: NDArray[np.int64] = field(default_factory=lambda: NO_ROWS, compare=False, repr=False)

    @cached_property
    def carried(self) -> tuple[str, ...]:
        """The columns of ids, groups and kept values."""
        group = () if self.group_column is None else (self.group_column,)
        return tuple(dict.fromkeys([*self.id_columns, *group, *self.kept]))

    @property
    def id_names(self) -> tuple[str, ...]:
        """The columns of ids in an output."""
        return self.id_columns if len(self.id_columns) > 1 else ("id",)

    @property
    def named_sets(self) -> frozenset[int]:
        """The sets with a table, or a label value, of their own."""
        from_tables = self.sets if self.label_column is None or len(self.tables) > 1 else ()
        return frozenset([*from_tables, *_named_sets(self.label_values)])

    @classmethod
    def from_tables(
        cls,
        tables: Sequence[Table],
        *,
        sets: Sequence[int] = (),
        features: Sequence[str] = (),
        drop: Sequence[str] = (),
        id_columns: Sequence[str] = (),
        group_column: str | None = None,
        label_column: str | None = None,
        label_values: Sequence[tuple[str, int]] = (),
        keep: Sequence[str] = (),
        other_roles: Mapping[str, str] | None = None,
        set_names: Mapping[int, str] | None = None,
        labeled_class: LabeledClass = "positive",
        wanted_by: str = "features",
    ) -> Rows:
        """Match the columns of tables by name.

        Parameters
        ----------
        tables
            One for each set, or one for all.
        sets
            The set of each table. By default a single table is of unlabeled rows, and the first of
            two is of labeled ones.
        features
            Feature columns; if empty, all columns without another role.
        drop, keep
            Columns to ignore, and columns carried through to the outputs.
        label_values
            Values of the label column with the set that each stands for. If only labeled rows are
            named, all others are unlabeled; else a value that is not named is an error.
        label_column
            Of tables with sets of their own, it must agree with these.
        other_roles
            Further columns that are not features, each with its role, for messages.
        set_names
            Descriptions of sets within the first table, for messages.
        wanted_by
            The option that names the features.
        """
        roles = {**(other_roles or {}), **dict.fromkeys(id_columns, option("id_column"))}
        for name, column in (("group_column", group_column), ("label_column", label_column)):
            if column is not None:
                roles[column] = option(name)
        ids = tuple(dict.fromkeys(id_columns))
        written = ids if len(ids) > 1 else ()
        kept = tuple(dict.fromkeys(column for column in keep if column not in written))
        _check_names([*written, *kept])
        for table in tables:
            for column, role in [*roles.items(), *((c, option("keep_columns")) for c in kept)]:
                table.require(column, role)
            for column in features:
                table.require(column, option(wanted_by))
        for column in drop:
            if not any(column in table.column_set for table in tables):
                tables[0].require(column, option("drop_columns"))
        if clash := roles.keys() & set(features):
            raise UsageError(f"column {min(clash)!r} cannot be a feature and have another role too")
        codes = tuple(sets) or DEFAULT_SETS[len(tables)]
        ignored = {*roles, *drop, *(set(kept) - set(features))}
        return cls(
            tables=tuple(tables),
            features=_common_features(tables, features, ignored),
            sets=codes,
            id_columns=ids,
            group_column=group_column,
            label_column=label_column,
            kept=kept,
            label_values=tuple(label_values),
            set_names=_set_names(tables, codes, label_column, label_values, set_names or {}),
            labeled_class=labeled_class,
            chosen=bool(features),
        )

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """Read columns of all rows, in output order."""
        label = [] if self.label_column is None else [self.label_column]
        wanted = list(dict.fromkeys([*columns, *label]))
        for position, table in enumerate(self.tables):
            row, notation = table.first_row, table.notation
            for batch, file, file_row in table.batches(
                wanted or self.features[:1], coded=self.label_column
            ):
                code = np.array(self.sets[position], np.int8)
                batch = _cut_long(batch, self.features)
                sets = np.broadcast_to(code, batch.num_rows)
                if code == UNLABELED:
                    sets = self._without_overlap(sets, row)
                chunk = Chunk(batch, sets, position, row, file, file_row, notation=notation)
                if self.label_column is not None:
                    labels = _parse_labels(chunk, self.label_column, dict(self.label_values))
                    if len(self.tables) > 1:
                        _check_agreement(chunk, self.label_column, labels)
                    chunk = replace(chunk, sets=labels).without_ignored()
                yield chunk
                row += chunk.batch.num_rows

    def _without_overlap(self, sets: NDArray[np.int8], first_row: int) -> NDArray[np.int8]:
        first, end = np.searchsorted(self.overlap, [first_row, first_row + len(sets)])
        if first == end:
            return sets
        marked = sets.copy()
        marked[self.overlap[first:end] - first_row] = OVERLAP
        return marked

    def only(self, code: int) -> Rows:
        """The same with only the table of a set left."""
        pairs = zip(self.sets, self.tables, strict=True)
        return replace(self, tables=tuple(t if its == code else t.only(()) for its, t in pairs))

    def parts(self) -> list[Rows]:
        """One for each file, in output order: the same tables with only that file left.

        The files must be Parquet files, which state their numbers of rows.
        """
        parts = []
        for position, table in enumerate(self.tables):
            row = table.first_row
            for shard in table.shards:
                tables = [other.only(()) for other in self.tables]
                tables[position] = table.only([shard], row)
                parts.append(replace(self, tables=tuple(tables)))
                row += shard.num_rows or 0
        return parts

    @property
    def num_rows(self) -> int | None:
        """The number of rows, if it is known without reading them."""
        if self.ignores:
            return None
        counts = [shard.num_rows for table in self.tables for shard in table.shards]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def ignores(self) -> bool:
        """Whether rows with some labels are left out."""
        return any(code == IGNORED for _, code in self.label_values)

    @property
    def roles(self) -> tuple[str, ...]:
        """The columns that have a role other than being a feature."""
        label = () if self.label_column is None else (self.label_column,)
        return (*self.carried, *label)

    def check_labels(self) -> None:
        """Raise an input error if a value that the user names does not occur as a label."""
        found = sum((count_labels(t, str(self.label_column)) for t in self.tables), Counter())
        named = [value for value, _ in self.label_values if value != EVERY_OTHER]
        if absent := [value for value in named if value not in found]:
            raise InputError(
                f"{self.tables[0].name}: no row has {shown(absent[0])} in column "
                f"{shown(self.label_column)}; its values are {listed_labels(found)}"
            )

    def id_parts(self, chunk: Chunk) -> list[pa.Array]:
        """The columns of ids as text; row numbers from 0 if there are none."""
        if not self.id_columns:
            numbers = np.arange(chunk.first_row, chunk.first_row + chunk.batch.num_rows)
            return [pc.cast(pa.array(numbers), pa.string())]
        return [as_text(chunk, column) for column in self.id_columns]

    def ids(self, chunk: Chunk) -> pa.Array:
        """The id of each row as one text."""
        return joined(self.id_parts(chunk))

    def groups(self, chunk: Chunk) -> pa.Array | None:
        """The group of each row as text, or None without a group column."""
        if self.group_column is None:
            return None
        groups = group_text(chunk, self.group_column)
        missing = pc.equal(groups, "")
        if pc.any(missing).as_py():
            row = pc.index(missing, True).as_py()
            raise chunk.error(self.group_column, "is empty", row, "; every row needs a group")
        return groups


def joined(parts: Sequence[pa.Array]) -> pa.Array:
    """Columns of text as one, such as the id of several columns."""
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, SEPARATOR)


def _check_names(columns: Sequence[str]) -> None:
    """Raise a usage error if a column to carry through has the name of a column of ours."""
    if clash := [column for column in columns if column in OWN_COLUMNS]:
        alone = f" or, if it is an id, name it alone in {option('id_column')}"
        raise UsageError(
            f"column {clash[0]!r} cannot be carried through, as punoise writes one of that name; "
            "rename it" + (alone if clash[0] == "id" else "")
        )


def _common_features(
    tables: Sequence[Table], features: Sequence[str], ignored: set[str]
) -> tuple[str, ...]:
    """The features, in the order of the first table; all tables must have the same."""
    columns = [[c for c in features or table.columns if c not in ignored] for table in tables]
    others = range(1, len(tables))
    for one, other in [pair for i in others for pair in ((0, i), (i, 0))]:
        there = set(columns[other])
        if missing := [column for column in columns[one] if column not in there]:
            raise InputError(f"{tables[other].name}: {_lacks(missing, tables[one].name)}")
    if not columns[0]:
        raise InputError(f"{tables[0].name}: no feature column is left")
    return tuple(columns[0])


def _lacks(missing: Sequence[str], other: str) -> str:
    """Which columns a table lacks that another one has, and what to do about it."""
    if len(missing) > MAX_WORDS:
        names = f"{', '.join(map(repr, missing[:MAX_WORDS]))}, ..."
        return (
            f"{len(missing):,} columns of {other} are missing ({names}); choose common columns "
            f"with {option('features')}"
        )
    drop = option("drop_columns", ",".join(missing))
    if len(missing) == 1:
        return f"column {missing[0]!r} is missing; {other} has it ({drop} leaves it out)"
    names = ", ".join(map(repr, missing))
    return f"columns {names} are missing; {other} has them ({drop} leaves them out)"


def _set_names(
    tables: Sequence[Table],
    sets: Sequence[int],
    label_column: str | None,
    label_values: Sequence[tuple[str, int]],
    descriptions: Mapping[int, str],
) -> tuple[str, ...]:
    """For each set the name of its table, or of the first one with a description of the set."""
    names = {code: table.name for code, table in zip(sets, tables, strict=True)}
    names |= {code: f"{tables[0].name}, {text}" for code, text in descriptions.items()}
    for code in _named_sets(label_values):
        values = " or ".join(shown(value) for value, its in label_values if its == code)
        names[code] = f"{tables[0].name}, {values} in column {shown(label_column)}"
    return tuple(names.get(code, tables[0].name) for code in range(len(SETS)))


def _named_sets(label_values: Sequence[tuple[str, int]]) -> set[int]:
    """The sets that have values of their own, and so must have rows."""
    return {code for value, code in label_values if code >= 0 and value != EVERY_OTHER}


def _longest(column: pa.Array) -> int:
    """The length in bytes of a column's longest text."""
    return pc.max(pc.binary_length(column)).as_py() or 0


def _cut_long(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """The rows with long texts of features cut, since samples of them are held in memory."""
    for i, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        if pa.types.is_string(column.type) and _longest(column) > MAX_TEXT and name in columns:
            long = pc.greater(pc.binary_length(column), MAX_TEXT)
            start = pc.utf8_slice_codeunits(column, 0, MAX_TEXT // 4)
            cut = pc.binary_join_element_wise(start, "", "...")
            batch = batch.set_column(i, name, pc.if_else(long, cut, column))
    return batch


def count_labels(table: Table, column: str) -> Counter[str]:
    """How many rows have each label; values separated by commas count one by one."""
    found: Counter[str] = Counter()
    for batch, *_ in table.batches([column]):
        words = batch.column(0).cast(pa.string()).fill_null("").to_pylist()
        found.update(part.strip() for word in words for part in word.split(","))
    return found


def listed_labels(counts: Counter[str]) -> str:
    """The most frequent labels with their numbers of rows."""
    most = [f"{shown(word)} ({rows:,})" for word, rows in counts.most_common(MAX_WORDS)]
    return ", ".join(most) + (", ..." if len(counts) > MAX_WORDS else "")


def shown(text: object) -> str:
    """A user's text, quoted and truncated."""
    quoted = repr(text)
    return quoted if len(quoted) <= MAX_SHOWN else f"{quoted[:MAX_SHOWN]}...'"


def as_text(chunk: Chunk, column: str) -> pa.Array:
    """A column as text; missing values are ''."""
    values = chunk.batch[column]
    try:
        return pc.fill_null(pc.cast(values, pa.string()), "")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(
            f"{chunk.file}: column {shown(column)} of type {values.type} cannot be read as text"
        ) from error


def group_text(chunk: Chunk, column: str) -> pa.Array:
    """A column of group names as text, none of them long; missing values are ''."""
    names = as_text(chunk, column)
    if _longest(names) > MAX_TEXT:
        row = pc.index(pc.greater(pc.binary_length(names), MAX_TEXT), True).as_py()
        raise chunk.error(column, f"has over {MAX_TEXT} bytes", row)
    return names


def _parse_labels(chunk: Chunk, column: str, values: Mapping[str, int]) -> NDArray[np.int8]:
    """The set of each row by its label, shape (n,)."""
    coded = chunk.batch[column]
    if not pa.types.is_dictionary(coded.type):
        coded = as_text(chunk, column).dictionary_encode()
    words = [str(word) for word in coded.dictionary.to_pylist()]
    codes = [_stated_set(word, values) for word in ("", *words)]
    if len(words) == 1 and codes[1] >= 0 and not coded.null_count:
        return np.broadcast_to(np.int8(codes[1]), len(coded))  # most of a large table, at once
    places = np.asarray(pc.fill_null(coded.indices, -1)) + 1
    sets = np.array(codes, np.int8)[places]
    if (wrong := (sets == UNKNOWN) | (sets == CONTRADICTORY)).any():
        row = int(wrong.argmax())
        raise _label_error(chunk, column, row, int(sets[row]), words if values else ())
    return sets


def _check_agreement(chunk: Chunk, column: str, labels: NDArray[np.int8]) -> None:
    """Raise an input error if a label contradicts the table that its row is in."""
    if (wrong := (labels != chunk.sets) & (labels >= 0)).any():
        row = int(wrong.argmax())
        given, found = (SET_NAMES[sets[row]] for sets in (chunk.sets, labels))
        raise chunk.error(
            column,
            f"says {found}, and the table was given as the {given} one,",
            row,
            "; are the two tables exchanged?",
        )


def _label_error(
    chunk: Chunk, column: str, row: int, code: int, words: Sequence[str]
) -> InputError:
    """The error at a label that has no meaning; `words` are those present, if some have one."""
    problem = f"has {shown(chunk.batch[column][row].as_py() or '')}"
    if code == CONTRADICTORY:
        return chunk.error(column, f"{problem}, which is labeled and negative,", row)
    if words:
        present = ", ".join(shown(word) for word in sorted(words)[:MAX_WORDS])
        present += ", ..." if len(words) > MAX_WORDS else ""
        unlabeled, ignored = option("unlabeled_value"), option("ignore_value")
        return chunk.error(
            column,
            f"{problem}, which no option names,",
            row,
            f"; its values are {present}: if all others are unlabeled, add {unlabeled} "
            f"'{EVERY_OTHER}'; otherwise name unlabeled ({unlabeled}) and ignored ({ignored}) ones",
        )
    return chunk.error(
        column,
        problem,
        row,
        "; a label is 1/0, true/false, yes/no, labeled/unlabeled, or negative; "
        f"{option('labeled_value')} says which others mean labeled",
    )


def _stated_set(text: str, values: Mapping[str, int]) -> int:
    """The set that a label stands for; of several values separated by commas, a class decides."""
    if not values:
        return LABELS.get(text.strip().lower(), UNKNOWN)
    if values.get(EVERY_OTHER) == LABELED and text.strip() in NO_LABEL:
        return UNLABELED
    codes = {values[part.strip()] for part in text.split(",") if part.strip() in values}
    if {LABELED, NEGATIVE} <= codes:
        return CONTRADICTORY
    others = UNLABELED if {*values.values()} == {LABELED} else UNKNOWN
    return max(codes, default=values.get(EVERY_OTHER, others))
