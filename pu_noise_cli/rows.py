"""The rows of a run: labeled and unlabeled, from two tables or from one with a label column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .errors import InputError, UsageError
from .tables import Table

LABELED_WORDS = ("1", "true", "yes", "labeled")
UNLABELED_WORDS = ("0", "false", "no", "unlabeled")


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rows of one table."""

    table: Table
    first_row: int  # of the chunk in its table, from 0
    batch: pa.RecordBatch
    labeled: NDArray[np.bool_]  # (n,); all false where the table has no labels

    def place(self, row: int) -> str:
        """Where a row of the chunk stands, for an error message; rows count from 1."""
        return f"row {self.first_row + row + 1}"


@dataclass(frozen=True)
class Rows:
    """All rows in output order, with the columns that play a part.

    `tables` is (labeled, unlabeled), or one table: with a label column, or without labels.
    """

    tables: tuple[Table, ...]
    features: tuple[str, ...]
    id_column: str | None = None
    group_column: str | None = None
    label_column: str | None = None

    @classmethod
    def matched(
        cls,
        tables: Sequence[Table],
        *,
        features: Sequence[str] = (),
        drop: Sequence[str] = (),
        id_column: str | None = None,
        group_column: str | None = None,
        label_column: str | None = None,
    ) -> Rows:
        """Match the columns of the tables by name; `features` empty means all that are left."""
        roles = {
            "--id-column": id_column,
            "--group-column": group_column,
            "--label-column": label_column,
        }
        for table in tables:
            for option, column in roles.items():
                if column is not None:
                    table.require(column, option)
            for column in features:
                table.require(column, "--features")
        for column in drop:
            if not any(column in table.columns for table in tables):
                tables[0].require(column, "--drop-columns")
        named = {column for column in roles.values() if column is not None}
        if clash := named & set(features):
            raise UsageError(f"column {min(clash)!r} cannot be a feature and have another part too")
        left_out = named | set(drop)
        found = [[c for c in features or table.columns if c not in left_out] for table in tables]
        for ours, theirs, table in ((0, -1, tables[-1]), (-1, 0, tables[0])):
            for column in found[ours]:
                if column not in found[theirs]:
                    raise InputError(
                        f"{table.name}: column {column!r} is missing; {tables[ours].name} has it "
                        f"(--drop-columns {column} leaves it out)"
                    )
        if not found[0]:
            raise InputError(f"{tables[0].name}: no feature column is left")
        return cls(tuple(tables), tuple(found[0]), id_column, group_column, label_column)

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """The named columns of all rows, in output order."""
        wanted = list(
            dict.fromkeys([*columns, *([self.label_column] if self.label_column else [])])
        )
        for position, table in enumerate(self.tables):
            row = 0
            for batch in table.batches(wanted or [table.columns[0]]):
                labeled = np.full(batch.num_rows, len(self.tables) == 2 and position == 0)
                chunk = Chunk(table, row, batch, labeled)
                if self.label_column is not None:
                    chunk = Chunk(table, row, batch, _parse_labels(chunk, self.label_column))
                yield chunk
                row += batch.num_rows

    @property
    def id_and_group(self) -> list[str]:
        """The columns that ids() and groups() read."""
        return [c for c in (self.id_column, self.group_column) if c is not None]

    def ids(self, chunk: Chunk) -> pa.Array:
        """The ids of a chunk's rows as text, as written; else their row numbers from 0."""
        if self.id_column is None:
            numbers = np.arange(chunk.first_row, chunk.first_row + chunk.batch.num_rows)
            return pc.cast(pa.array(numbers), pa.string())
        return as_text(chunk, self.id_column)

    def groups(self, chunk: Chunk) -> pa.Array | None:
        """The group of each row of a chunk as text, or nothing where none was asked for."""
        if self.group_column is None:
            return None
        groups = as_text(chunk, self.group_column)
        missing = pc.equal(groups, "")
        if pc.any(missing).as_py():
            place = chunk.place(pc.index(missing, True).as_py())
            raise InputError(
                f"{chunk.table.name}: column {self.group_column!r} names no group in {place}"
            )
        return groups


def as_text(chunk: Chunk, column: str) -> pa.Array:
    """A column's values as text, '' where there is none."""
    values = chunk.batch[column]
    try:
        return pc.fill_null(pc.cast(values, pa.string()), "")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(
            f"{chunk.table.name}: column {column!r} of type {values.type} cannot be read as text"
        ) from error


def _parse_labels(chunk: Chunk, column: str) -> NDArray[np.bool_]:
    words = pc.utf8_lower(pc.utf8_trim_whitespace(as_text(chunk, column)))
    labeled = pc.is_in(words, pa.array(LABELED_WORDS))
    known = pc.or_(labeled, pc.is_in(words, pa.array(UNLABELED_WORDS)))
    if not pc.all(known).as_py():
        row = pc.index(known, False).as_py()
        raise InputError(
            f"{chunk.table.name}: column {column!r} has {chunk.batch[column][row].as_py()!r} in "
            f"{chunk.place(row)}; a label is 1/0, true/false, yes/no or labeled/unlabeled"
        )
    return np.asarray(labeled)
