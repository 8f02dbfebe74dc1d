"""The rows of a run: labeled, unlabeled and known negatives, of a table each or of one for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..numerics import BoolArray
from .reading import Table

SetArray = NDArray[np.int8] | BoolArray  # of codes; a boolean says whether a row is labeled

UNLABELED, LABELED, NEGATIVE = range(3)  # the codes of the sets, and their columns in the counts
SETS = ("unlabeled", "labeled", "negative")
MAX_SHOWN = 60  # characters of somebody's text in a message
MAX_TEXT = 1000  # bytes of a category or a group
ID_JOINT = ":"  # between the parts of an id of several columns, where it is shown as one
# what punoise writes beside the columns of its inputs, whose names must be others
OWN_COLUMNS = frozenset(
    (
        *("id", "set", "score", "tau", "posterior", "lr", "fdr", "posterior_labeled"),
        *("target_alpha", "posterior_low", "posterior_high", "evidence", "call", "pep", "q_value"),
        *("stratum", "weight", "verdict", "row"),
    )
)
USUAL_SETS = {1: (UNLABELED,), 2: (LABELED, UNLABELED)}  # of that many tables
WORDS = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "labeled"), LABELED),
    **dict.fromkeys(("0", "0.0", "false", "no", "unlabeled"), UNLABELED),
    "negative": NEGATIVE,
}


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rows of one table."""

    batch: pa.RecordBatch
    sets: NDArray[np.int8]  # (n,): UNLABELED, LABELED or NEGATIVE
    table: int  # its position among the tables
    first_row: int  # in the table, from 0
    file: str
    first_file_row: int

    @cached_property
    def labeled(self) -> NDArray[np.bool_]:
        """Which rows are labeled, shape (n,)."""
        return np.asarray(self.sets == LABELED)

    @cached_property
    def unlabeled(self) -> NDArray[np.bool_]:
        """Which rows are neither labeled nor known negatives, shape (n,)."""
        return np.asarray(self.sets == UNLABELED)

    def error(self, column: str, problem: str, row: int, remedy: str = "") -> InputError:
        """An error that names the place: rows count from 1, in the file that holds them."""
        place = f"in row {self.first_file_row + row + 1}"
        return InputError(f"{self.file}: column {shown(column)} {problem} {place}{remedy}")


@dataclass(frozen=True)
class MatchColumns:
    """The columns of peptide-spectrum matches that say what belongs together."""

    spectrum: tuple[str, ...]  # of which only the best match counts
    peptide: str | None = None
    protein: str | None = None  # to which matches are rolled up
    proteins: str | None = None  # that are only shown

    @property
    def rolled_up(self) -> dict[str, str]:
        """The column of each level above matches, by the name of the level."""
        levels = {"peptides": self.peptide, "proteins": self.protein}
        return {level: column for level, column in levels.items() if column is not None}

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that tell which matches belong together."""
        return tuple(dict.fromkeys([*self.spectrum, *self.rolled_up.values()]))

    @property
    def roles(self) -> dict[str, str]:
        """The option that names each column, none of which is a feature."""
        single = {
            "--peptide-column": self.peptide,
            "--protein-column": self.protein or self.proteins,
        }
        named = {column: option for option, column in single.items() if column is not None}
        return named | dict.fromkeys(self.spectrum, "--spectrum-columns")


@dataclass(frozen=True)
class Rows:
    """All rows in output order, with the columns that play a part.

    There is a table for each set, or one table: with a label column, or of unlabeled rows.
    """

    tables: tuple[Table, ...]
    features: tuple[str, ...]
    sets: tuple[int, ...] = (UNLABELED,)  # of each table's rows, where no column says it
    id_columns: tuple[str, ...] = ()
    group_column: str | None = None
    label_column: str | None = None
    kept: tuple[str, ...] = ()  # carried through to the outputs
    label_values: tuple[tuple[str, int], ...] = ()  # what labels of your own say; others: nothing
    matches: MatchColumns | None = None  # where the rows are peptide-spectrum matches

    @classmethod
    def matched(
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
        matches: MatchColumns | None = None,
        wanted_by: str = "--features",
    ) -> Rows:
        """Match the columns of the tables by name; `features` empty means all that are left.

        By default one table is of unlabeled rows, and of two the first is of labeled ones.
        """
        roles = {} if matches is None else matches.roles
        roles |= dict.fromkeys(id_columns, "--id-column")
        for option, role in (("--group-column", group_column), ("--label-column", label_column)):
            if role is not None:
                roles[role] = option
        kept = tuple(dict.fromkeys(c for c in keep if len(id_columns) < 2 or c not in id_columns))
        _check_names([*(id_columns if len(id_columns) > 1 else ()), *kept])
        for table in tables:
            for column, option in [
                *roles.items(),
                *((column, "--keep-columns") for column in kept),
            ]:
                table.require(column, option)
            for column in features:
                table.require(column, wanted_by)
        for column in drop:
            if not any(column in table.column_set for table in tables):
                tables[0].require(column, "--drop-columns")
        if clash := roles.keys() & set(features):
            raise UsageError(f"column {min(clash)!r} cannot be a feature and have another part too")
        left_out = {*roles, *drop, *(set(kept) - set(features))}
        found = [[c for c in features or table.columns if c not in left_out] for table in tables]
        others = range(1, len(tables))
        for ours, theirs in [pair for i in others for pair in ((0, i), (i, 0))]:
            there = set(found[theirs])
            for column in found[ours]:
                if column not in there:
                    raise InputError(
                        f"{tables[theirs].name}: column {column!r} is missing; "
                        f"{tables[ours].name} has it (--drop-columns {column} leaves it out)"
                    )
        if not found[0]:
            raise InputError(f"{tables[0].name}: no feature column is left")
        of_each, ids = tuple(sets) or USUAL_SETS[len(tables)], tuple(dict.fromkeys(id_columns))
        roles_of = (ids, group_column, label_column, kept, tuple(label_values), matches)
        return cls(tuple(tables), tuple(found[0]), of_each, *roles_of)

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """The named columns of all rows, in output order."""
        label = [] if self.label_column is None else [self.label_column]
        wanted = list(dict.fromkeys([*columns, *label]))
        for position, table in enumerate(self.tables):
            row = table.first_row
            for batch, file, file_row in table.batches(
                wanted or [table.columns[0]], coded=self.label_column
            ):
                code = np.array(self.sets[position], np.int8)
                batch = _cut_long(batch, self.features)
                sets = np.broadcast_to(code, batch.num_rows)
                chunk = Chunk(batch, sets, position, row, file, file_row)
                if self.label_column is not None:
                    labels = _parse_labels(chunk, self.label_column, dict(self.label_values))
                    chunk = replace(chunk, sets=labels)
                yield chunk
                row += batch.num_rows

    @property
    def names_of_sets(self) -> list[str]:
        """For each set the name of its table, else of the first, with the labels stated for it."""
        names = {code: table.name for code, table in zip(self.sets, self.tables, strict=True)}
        first = self.tables[0]
        if self.label_column is not None and first.shards[0].format.kind == "pin":
            names[LABELED] = f"{first.name}, decoys (Label -1)"
            names[UNLABELED] = f"{first.name}, targets (Label 1)"
        for code in {code for _, code in self.label_values}:
            stated = " or ".join(shown(value) for value, its in self.label_values if its == code)
            names[code] = f"{self.tables[0].name}, {stated} in column {shown(self.label_column)}"
        return [names.get(code, self.tables[0].name) for code in range(len(SETS))]

    @property
    def named_sets(self) -> set[int]:
        """The sets that have a table, or a value of the label column, said to be theirs."""
        of_tables = self.sets if self.label_column is None else ()
        return {*of_tables, *(code for _, code in self.label_values)}

    def parts(self) -> list[Rows]:
        """One for each file, in output order: the same tables, of which only that file is left."""
        parts = []
        for position, table in enumerate(self.tables):
            for part in table.parts():
                tables = [part if p == position else t.only(()) for p, t in enumerate(self.tables)]
                parts.append(replace(self, tables=tuple(tables)))
        return parts

    @property
    def num_rows(self) -> int | None:
        """The number of rows, where that is known without reading them."""
        counts = [table.num_rows for table in self.tables]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def roles(self) -> list[str]:
        """The columns that are no features but have another part."""
        return [*self.carried, *([] if self.label_column is None else [self.label_column])]

    @property
    def carried(self) -> list[str]:
        """The columns that id_parts(), groups() and carry() read, and keys of matches."""
        group = [] if self.group_column is None else [self.group_column]
        keys = () if self.matches is None else self.matches.keys
        return list(dict.fromkeys([*self.id_columns, *group, *self.kept, *keys]))

    @property
    def id_names(self) -> tuple[str, ...]:
        """The columns of ids in an output: one is called `id`, several keep their names."""
        return self.id_columns if len(self.id_columns) > 1 else ("id",)

    def id_parts(self, chunk: Chunk) -> list[pa.Array]:
        """The columns of ids as text, as written; else the row numbers from 0."""
        if not self.id_columns:
            numbers = np.arange(chunk.first_row, chunk.first_row + chunk.batch.num_rows)
            return [pc.cast(pa.array(numbers), pa.string())]
        return [as_text(chunk, column) for column in self.id_columns]

    def ids(self, chunk: Chunk) -> pa.Array:
        """The id of each row of a chunk in one text, its parts joined by colons."""
        parts = self.id_parts(chunk)
        return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ID_JOINT)

    def carry(self, chunk: Chunk) -> list[pa.Array]:
        """The kept columns as text, as written."""
        return [as_text(chunk, column) for column in self.kept]

    def groups(self, chunk: Chunk) -> pa.Array | None:
        """The group of each row of a chunk as text, or nothing where none was asked for."""
        if self.group_column is None:
            return None
        groups = group_text(chunk, self.group_column)
        missing = pc.equal(groups, "")
        if pc.any(missing).as_py():
            row = pc.index(missing, True).as_py()
            raise chunk.error(self.group_column, "names no group", row)
        return groups


def _check_names(columns: Sequence[str]) -> None:
    """Stop where a column that is to come out again has the name of one of punoise's own."""
    if clash := [column for column in columns if column in OWN_COLUMNS]:
        raise UsageError(
            f"column {clash[0]!r} cannot be carried through, as punoise writes one of that name; "
            "rename it"
            + (" or, if it is an id, name it alone in --id-column" if clash[0] == "id" else "")
        )


def _longest(column: pa.Array) -> int:
    """The most bytes that a text of a column has."""
    _, offsets, _ = column.buffers()
    if len(column) == 0 or offsets is None:
        return 0
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)
    return int(np.diff(ends).max())


def _cut_long(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Rows in which no text of a feature is very long: samples of them are held in memory."""
    for i, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        if pa.types.is_string(column.type) and _longest(column) > MAX_TEXT and name in columns:
            long = pc.greater(pc.binary_length(column), MAX_TEXT)
            start = pc.utf8_slice_codeunits(column, 0, MAX_TEXT // 4)
            cut = pc.binary_join_element_wise(start, "", "...")
            batch = batch.set_column(i, name, pc.if_else(long, cut, column))
    return batch


def shown(text: object) -> str:
    """Somebody's text in quotes, on one line and cut where it is long."""
    quoted = repr(text)
    return quoted if len(quoted) <= MAX_SHOWN else f"{quoted[:MAX_SHOWN]}...'"


def as_text(chunk: Chunk, column: str) -> pa.Array:
    """A column's values as text, '' where there is none."""
    values = chunk.batch[column]
    try:
        return pc.fill_null(pc.cast(values, pa.string()), "")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(
            f"{chunk.file}: column {shown(column)} of type {values.type} cannot be read as text"
        ) from error


def group_text(chunk: Chunk, column: str) -> pa.Array:
    """A column that names groups as text, which must not be long; '' where there is none."""
    names = as_text(chunk, column)
    if _longest(names) > MAX_TEXT:
        row = pc.index(pc.greater(pc.binary_length(names), MAX_TEXT), True).as_py()
        raise chunk.error(column, f"has over {MAX_TEXT} bytes", row)
    return names


def _parse_labels(chunk: Chunk, column: str, values: Mapping[str, int]) -> NDArray[np.int8]:
    """The set of each row by the words of its label column, or by stated values, shape (n,)."""
    coded = chunk.batch[column]
    if not pa.types.is_dictionary(coded.type):
        coded = as_text(chunk, column).dictionary_encode()
    if values:
        return _by_values(chunk, column, coded, values)
    words = ["", *(str(word).strip().lower() for word in coded.dictionary.to_pylist())]
    if len(words) == 2 and not coded.null_count and words[1] in WORDS:
        code = np.array(WORDS[words[1]], np.int8)
        return np.broadcast_to(code, len(coded))  # most of a large table, at once
    codes = np.asarray(pc.fill_null(coded.indices, -1)) + 1
    sets = np.array([WORDS.get(word, -1) for word in words], np.int8)
    if (sets[1:] < 0).any() or coded.null_count:
        row = int(sets[codes].argmin())
        if sets[codes[row]] < 0:
            remedy = (
                "; a label is 1/0, true/false, yes/no, labeled/unlabeled, or negative; "
                "--labeled-value says which others mean labeled"
            )
            raise chunk.error(column, f"has {shown(chunk.batch[column][row].as_py())}", row, remedy)
    return sets[codes]


def _by_values(
    chunk: Chunk, column: str, coded: pa.DictionaryArray, values: Mapping[str, int]
) -> NDArray[np.int8]:
    """The same by stated values, of which a field may hold several, separated by commas."""
    sets, contradictory = [UNLABELED], []
    for number, field in enumerate(coded.dictionary.to_pylist(), start=1):
        found = {values[part.strip()] for part in str(field).split(",") if part.strip() in values}
        if len(found) > 1:
            contradictory.append(number)
        sets.append(min(found, default=UNLABELED))
    codes = np.asarray(pc.fill_null(coded.indices, -1)) + 1
    bad = np.isin(codes, contradictory)
    if bad.any():
        row = int(bad.argmax())
        problem = f"has {shown(chunk.batch[column][row].as_py())}, which is labeled and negative,"
        raise chunk.error(column, problem, row)
    return np.array(sets, np.int8)[codes]
