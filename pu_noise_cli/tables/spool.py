"""A columnar copy of text tables: text is parsed once, however often its rows are read.

Decimal numbers are copied as numbers, all else as text. The copy is a temporary file without a
name, which the system removes when the process ends in any way.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import MachineError, is_out_of_memory
from .files import Copy, Shard, Spool
from .notation import MISSING_TEXTS
from .reading import READERS, NotNumbers, Table
from .rows import Rows

BATCH_VALUES = 1 << 20  # of one batch of a copy, about
MAX_DISK = 0.5  # the fraction of the free space that copies may take
ATTEMPTS = 2  # to find the columns of numbers; then all are copied as text


class _TooLarge(Exception):
    """The copies would take too much of the disk."""


def is_text(shard: Shard) -> bool:
    """Whether the rows of a shard are parsed whenever they are read."""
    is_parsed = READERS[shard.format.kind] is not READERS["parquet"] and shard.table is None
    return is_parsed and shard.copy is None


def copy_text(rows: Rows, as_text: Collection[str], done: Callable[[int], None]) -> None:
    """Parse the text tables among the tables of rows; from now on, copies are read.

    If the copies would take too much of the disk, text is parsed at every pass instead.

    Parameters
    ----------
    as_text
        Features whose values are needed as they are written.
    done
        Takes the number of further rows that are done.
    """
    tables = [table for table in rows.tables if any(map(is_text, table.shards))]
    columns = list(dict.fromkeys([*rows.features, *rows.roles]))
    numeric = set(rows.features) - {*rows.roles, *as_text}
    for table in tables:
        first = next(_batches(table.only(table.shards[:1]), columns, rows), None)
        if table.notation.decimal != ".":
            numeric = set()
        elif first is not None:
            numeric = _decimal_columns(first, numeric)
    for attempt in range(ATTEMPTS + 1):
        copying = _Copying(columns, numeric if attempt < ATTEMPTS else set(), rows, done)
        try:
            copies = [
                (shard, copying.copy(table, shard)) for table in tables for shard in table.shards
            ]
        except NotNumbers as error:
            numeric -= set(error.columns)
            continue
        except _TooLarge:
            return
        for shard, copy in copies:
            shard.set_copy(copy)
        return


def _batches(
    table: Table, columns: Sequence[str], rows: Rows, numeric: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The batches of a table, all columns of text, but perhaps for numeric ones."""
    for batch, _, _ in table.batches(columns, rows.label_column, numeric):
        arrays = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in batch.columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


@dataclass
class _Copying:
    """Copies shards, together up to a fraction of the free space."""

    columns: Sequence[str]
    numeric: Collection[str]
    rows: Rows
    done: Callable[[int], None]

    def __post_init__(self) -> None:
        self.directory = tempfile.gettempdir()
        self.room = int(MAX_DISK * shutil.disk_usage(self.directory).free)

    def copy(self, table: Table, shard: Shard) -> Copy:
        """Copy a shard."""
        types = [(c, pa.float64() if c in self.numeric else pa.string()) for c in self.columns]
        schema, pending, values = pa.schema(types), list[pa.RecordBatch](), 0
        numeric = [column for column in self.columns if column in self.numeric]
        with self._disk_errors(shard):
            copy = Copy(Spool(), {column: i for i, column in enumerate(self.columns)})
        with (
            self._disk_errors(shard),
            pa.OSFile(copy.spool.path, "wb") as sink,
            pa.ipc.new_file(sink, schema) as writer,
        ):

            def flush() -> None:
                writer.write_table(pa.Table.from_batches(pending, schema).combine_chunks())
                pending.clear()
                if sink.tell() > self.room:
                    raise _TooLarge

            for batch in _batches(table.only([shard]), self.columns, self.rows, numeric):
                numbers = _as_numbers(batch, numeric)
                arrays = [numbers.get(name, batch[name]) for name in self.columns]
                pending.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
                values += batch.num_rows * len(arrays)
                if values >= BATCH_VALUES:
                    flush()
                    values = 0
                self.done(batch.num_rows)
            flush()
            self.room -= sink.tell()
        return copy

    @contextlib.contextmanager
    def _disk_errors(self, shard: Shard) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            if is_out_of_memory(error):
                raise MachineError(f"{shard.name}: out of memory") from error
            detail = str(error).split("Detail: ")[-1].split("\n")[0]
            raise MachineError(
                f"{shard.name}: cannot be copied to {self.directory} ({detail}); set TMPDIR to a "
                "directory with more space"
            ) from error


# ---- Numbers


def _decimal_columns(batch: pa.RecordBatch, names: Collection[str]) -> set[str]:
    """The columns of numbers of which some are not whole: whole ones may be names of categories."""
    names = list(names)
    try:
        numbers = _as_numbers(batch, names)
    except NotNumbers as error:
        numbers = _as_numbers(batch, [name for name in names if name not in error.columns])
    columns = {name: column.to_numpy(zero_copy_only=False) for name, column in numbers.items()}
    return {name for name, values in columns.items() if (np.floor(values) < values).any()}


def _as_numbers(batch: pa.RecordBatch, names: Sequence[str]) -> dict[str, pa.Array]:
    """The numbers of text columns, parsed at once: there may be thousands of columns."""
    if not names:
        return {}
    if all(batch[name].type == pa.float64() for name in names):
        return {name: batch[name] for name in names}
    n, texts = batch.num_rows, [batch[name] for name in names]
    numbers = _parsed(pa.concat_arrays(texts))
    if numbers is None:
        pairs = zip(names, texts, strict=True)
        raise NotNumbers({name for name, text in pairs if _parsed(text) is None})
    return {name: numbers.slice(i * n, n) for i, name in enumerate(names)}


def _parsed(text: pa.Array) -> pa.Array | None:
    """Texts as numbers, null if missing; None if one is neither."""
    with contextlib.suppress(pa.ArrowInvalid):
        return pc.cast(text, pa.float64())
    trimmed = pc.utf8_trim_whitespace(text)
    missing = pc.is_in(trimmed, pa.array(MISSING_TEXTS))
    with contextlib.suppress(pa.ArrowInvalid):
        return pc.cast(pc.if_else(missing, pa.scalar(None, pa.string()), trimmed), pa.float64())
    return None
