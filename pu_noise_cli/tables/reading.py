"""Tables: CSV, TSV and Parquet, compressed, sharded or streamed, and their rows in batches.

A table is read as often as needed, so that memory does not grow with its rows. Text columns come
as they are written: what a value means is decided in encoding.py.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
import sys
import tempfile
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, UsageError, of_system
from ..proteomics.pin import pin_batches, pin_columns
from .files import COMPRESSIONS, DELIMITERS, Format, Shard, input_errors, magic_suffix
from .text import SNIFF_BYTES, text_batches, text_columns, text_kind

BATCH_ROWS, BATCH_VALUES, BATCH_BYTES = 1 << 17, 1 << 22, 1 << 26  # at most so many at a time
MAX_COLUMNS = 1 << 17
MAX_PACKING, MAX_CHUNK_BYTES = 100, 1 << 28  # of a Parquet column chunk; beyond both it is a bomb
SMALL_FILE = 1 << 26  # bytes; what such a file holds may yet be large
AHEAD = 2  # batches read while others are worked on
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
MANIFEST = "_manifest.json"  # says that all shards of a directory are there
PARQUET_KEY = "punoise.key"  # of a shard: a digest of all that it was made from


class Batch(NamedTuple):
    """Some consecutive rows of a file."""

    rows: pa.RecordBatch
    file: str
    first_row: int  # in the file, from 0


@dataclass(frozen=True)
class Table:
    """A table on disk: its column names, and its rows in batches."""

    name: str
    columns: tuple[str, ...]
    shards: tuple[Shard, ...] = field(repr=False)
    first_row: int = 0  # of its first shard, where it is a part of a table

    @cached_property
    def column_set(self) -> frozenset[str]:
        """The columns, of which there may be many to look up."""
        return frozenset(self.columns)

    def only(self, shards: Sequence[Shard], first_row: int = 0) -> Table:
        """The part of this table that is in some consecutive shards."""
        return replace(self, shards=tuple(shards), first_row=first_row)

    def parts(self) -> list[Table]:
        """One table for each shard; the shards are Parquet, which says how many rows it holds."""
        parts, row = [], self.first_row
        for shard in self.shards:
            parts.append(self.only([shard], row))
            row += shard.num_rows or 0
        return parts

    @property
    def num_rows(self) -> int | None:
        """The number of rows, where that is known without reading them."""
        counts = [shard.num_rows for shard in self.shards]
        return None if None in counts else sum(count or 0 for count in counts)

    def batches(self, columns: Sequence[str], coded: str | None = None) -> Iterator[Batch]:
        """The named columns of all rows in order, some rows at a time.

        One column may come dictionary-encoded, which is the quickest for a few repeated words.
        """
        batches = self._batches(columns, coded)
        return _read_ahead(batches) if pa.cpu_count() > 1 else batches

    def _batches(self, columns: Sequence[str], coded: str | None) -> Iterator[Batch]:
        rows = min(BATCH_ROWS, max(BATCH_VALUES // len(columns), 1))
        for shard in self.shards:
            first_row = 0
            with input_errors(shard.name):
                reader = READERS[shard.format.kind]
                for batch in reader.batches(shard, list(columns), rows, coded):
                    yield Batch(batch, shard.name, first_row)
                    first_row += batch.num_rows

    def require(self, column: str, role: str) -> None:
        """Stop with an input error unless the table has the column."""
        if column not in self.column_set:
            known = ", ".join(self.columns[:8]) + (", ..." if len(self.columns) > 8 else "")
            raise InputError(f"{self.name}: no column {column!r} for {role}; it has {known}")


def _read_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The batches, the next ones of which are read in a thread while one is worked on."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pending = deque(pool.submit(next, batches, None) for _ in range(AHEAD))
        while (batch := pending.popleft().result()) is not None:
            pending.append(pool.submit(next, batches, None))
            yield batch


def table_in_memory(name: str, table: pa.Table) -> Table:
    """A table that is not in a file, as if it were."""
    import pyarrow.parquet as pq

    spool = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the table
    pq.write_table(table, spool)
    spool.flush()
    shard = Shard(name, Format("parquet"), f"/dev/fd/{spool.fileno()}", spool)
    weakref.finalize(shard, spool.close)
    return _of_shards(name, (shard,))


def open_table(name: str, kind: str | None = None) -> Table:
    """Find a table's files and read its column names; `-` is standard input.

    The kind of format may be given, where names do not tell it.
    """
    return _of_shards(name, _find(name, kind))


def _of_shards(name: str, shards: tuple[Shard, ...]) -> Table:
    """The table of some files, which must have the same columns, each of them once."""
    headers = []
    for shard in shards:
        with input_errors(shard.name):
            headers.append(READERS[shard.format.kind].columns(shard))
        if len(headers[-1]) > MAX_COLUMNS:
            found = len(headers[-1])
            raise InputError(f"{shard.name}: {found} columns; at most {MAX_COLUMNS} can be read")
    first = headers[0]
    for shard, header in zip(shards, headers, strict=True):
        for column, count in Counter(header).items():
            if count > 1:
                raise InputError(f"{shard.name}: column {column!r} appears {count} times")
        if odd := set(header) ^ set(first):
            raise InputError(
                f"{shard.name}: column {min(odd)!r} is not in all shards of {name}; "
                "all shards of a table have the same columns"
            )
    return Table(name, tuple(first), shards)


def _find(name: str, kind: str | None) -> tuple[Shard, ...]:
    if name in ("-", "/dev/stdin"):
        if sys.stdin is None:
            raise UsageError("standard input is closed")
        return (_spooled("standard input", sys.stdin.buffer, kind),)
    path = Path(name)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if found := sorted(glob.glob(name)):
            return _same_format(name, found, kind)
        raise UsageError(f"{name}: no such file") from None
    except (OSError, ValueError) as error:
        raise of_system(name, error) or UsageError(f"{name}: {error}") from error
    if not os.access(name, os.R_OK):
        raise UsageError(f"{name}: permission denied")
    if stat.S_ISDIR(mode):
        with input_errors(name):
            entries = sorted(p for p in path.iterdir() if p.name[0] not in "._")
        if nested := [p.name for p in entries if p.is_dir()]:
            raise InputError(f"{name}: holds a directory {nested[0]!r}; name the shards by a glob")
        if not entries:
            raise InputError(f"{name}: the directory holds no table")
        shards = _same_format(name, [str(p) for p in entries], kind)
        if not (path / MANIFEST).exists() and parquet_key(str(entries[0])) is not None:
            raise InputError(
                f"{name}: has no {MANIFEST}, so not all shards are there or they are of several "
                "runs; --resume makes them, and a glob takes them as they are"
            )
        return shards
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise UsageError(f"{name}: is a device")
    if not stat.S_ISREG(mode):  # a named pipe or a process substitution
        with open(name, "rb") as stream:
            return (_spooled(name, stream, kind),)
    return (_on_disk(name, kind),)


def _on_disk(name: str, kind: str | None) -> Shard:
    return _settled(Shard(name, Format.of(name, kind), os.path.abspath(name)))


def _settled(shard: Shard) -> Shard:
    """A file whose kind is known: of one that is just text, its first rows say which."""
    if shard.format.kind != "txt":
        return shard
    with input_errors(shard.name):
        kind = text_kind(shard.open().read(SNIFF_BYTES))
    return replace(shard, format=replace(shard.format, kind=kind))


def files_of(name: str) -> list[str]:
    """The files that a name stands for, as far as there are any."""
    if os.path.isdir(name):
        return glob.glob(os.path.join(glob.escape(name), "*"))
    return [name] if os.path.exists(name) else glob.glob(name)


def _same_format(name: str, files: list[str], kind: str | None) -> tuple[Shard, ...]:
    for file in files:
        try:
            mode = os.stat(file).st_mode
        except OSError as error:
            raise of_system(file, error) or UsageError(f"{file}: {error}") from error
        if not stat.S_ISREG(mode):  # to read a pipe could take for ever
            raise UsageError(f"{file}: is not a regular file, as the shards of a table are")
    shards = tuple(_on_disk(file, kind) for file in files)
    kinds = {shard.format.kind for shard in shards}
    if len(kinds) > 1:
        raise InputError(f"{name}: holds shards of several formats ({', '.join(sorted(kinds))})")
    return shards


def _spooled(name: str, stream: BinaryIO, kind: str | None) -> Shard:
    """A stream copied to an unnamed temporary file, as it must be read more than once."""
    try:
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the table
        shutil.copyfileobj(stream, spool)
    except OSError as error:
        what = f"{name}: cannot be copied"
        raise of_system(what, error) or UsageError(f"{what}: {error}") from error
    spool.seek(0)
    suffix = magic_suffix(spool.read(4))
    # by its descriptor, so that Arrow's threads need not call back into Python to read it
    path = f"/dev/fd/{spool.fileno()}"
    compression = COMPRESSIONS.get(suffix or "")
    found = kind or ("parquet" if suffix == ".parquet" else "txt")
    return _settled(Shard(name, Format(found, compression), path, spool))


# ---- Parquet


def parquet_key(name: str) -> str | None:
    """The key in a Parquet file, if there is such a file and it has one."""
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(pa.OSFile(os.fsencode(name))).metadata or {}
    except MemoryError:
        raise
    except (OSError, pa.ArrowException):
        return None
    value = metadata.get(PARQUET_KEY.encode())
    return None if value is None else str(value, "ascii", "replace")


def parquet_metadata(shard: Shard) -> dict[str, str]:
    """What a Parquet file says of itself; nothing of a text file."""
    if shard.format.kind != "parquet":
        return {}
    with input_errors(shard.name):
        metadata = shard.parquet().metadata.metadata or {}
    return {str(k, "utf-8", "replace"): str(v, "utf-8", "replace") for k, v in metadata.items()}


def _parquet_columns(shard: Shard) -> list[str]:
    names = shard.parquet().schema_arrow.names
    return [name for name in names if not PANDAS_INDEX.fullmatch(name)]


def _parquet_batches(
    shard: Shard, columns: list[str], rows: int, coded: str | None
) -> Iterator[pa.RecordBatch]:
    file = shard.parquet()
    # in a small file one long text may stand for every row: it is looked at before it is unfolded
    all_of_them = shard.size < SMALL_FILE
    texts = [name for name in columns if pa.types.is_string(file.schema_arrow.field(name).type)]
    if wanted := [name for name in texts if all_of_them or name == coded]:
        file = shard.parquet(wanted)
    for group in range(file.num_row_groups):  # one at a time, or it reads far ahead into memory
        for batch in _row_group(shard, file, group, columns, rows):
            for part in _in_parts(batch):
                arrays = [_plain(part[n], keep=n == coded) for n in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=columns)


def _in_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, halved until their texts, unfolded, are not too much at a time."""
    coded = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    if batch.num_rows < 2 or sum(map(_text_bytes, coded)) <= BATCH_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _in_parts(batch.slice(0, half))
    yield from _in_parts(batch.slice(half))


def _text_bytes(column: pa.DictionaryArray) -> int:
    """The bytes of a column of coded texts once each row has its own."""
    if not pa.types.is_string(column.type.value_type) or len(column.dictionary) == 0:
        return 0
    lengths = np.asarray(pc.fill_null(pc.binary_length(column.dictionary), 0), np.int64)
    if len(column) * int(lengths.max()) <= BATCH_BYTES:
        return 0
    return int(lengths[np.asarray(column.indices.drop_null())].sum())


def _row_group(
    shard: Shard, file: Any, group: int, columns: list[str], rows: int
) -> Iterator[pa.RecordBatch]:
    found = file.metadata.row_group(group)
    bytes_each = _unpacked_bytes(shard, found, set(columns)) / max(found.num_rows, 1)
    rows = min(rows, max(int(BATCH_BYTES / max(bytes_each, 1)), 1))
    if found.num_rows * max(len(columns), bytes_each * BATCH_VALUES / BATCH_BYTES) > BATCH_VALUES:
        yield from file.iter_batches(rows, row_groups=[group], columns=columns)
    else:  # the quicker way
        batches = file.read_row_group(group, columns).to_batches(rows)[::-1]
        while batches:
            yield batches.pop()


def _unpacked_bytes(shard: Shard, group: Any, columns: set[str]) -> int:
    """How many bytes some columns of a row group take, by what the file says of them."""
    total = 0
    for column in map(group.column, range(group.num_columns)):
        if column.path_in_schema.split(".")[0] in columns:
            size, packed = column.total_uncompressed_size, column.total_compressed_size
            if size > MAX_CHUNK_BYTES and size > MAX_PACKING * packed:
                raise InputError(
                    f"{shard.name}: {packed} bytes of column {column.path_in_schema!r} unpack to "
                    f"{size}; write the file with smaller row groups"
                )
            total += max(size, 0)
    return total


def _plain(column: pa.Array, keep: bool) -> pa.Array:
    """Text of every kind as valid strings, dictionaries as their values unless they are to stay."""
    if keep and pa.types.is_dictionary(column.type):
        _check_text(column.dictionary)
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or "string_view" in str(column.type):
        column = pc.cast(column, pa.string())
    _check_text(column)
    return column


def _check_text(column: pa.Array) -> None:
    """Stop with Arrow's own error where text is not UTF-8; most is ASCII, which is seen at once."""
    if pa.types.is_string(column.type) and len(column):
        _, offsets, values = column.buffers()
        start, end = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)[[0, -1]]
        if end > start and np.frombuffer(values, np.int8, end - start, start).min() < 0:
            column.validate(full=True)


# ---- All kinds


class Reader(NamedTuple):
    """How files of one kind are read."""

    columns: Callable[[Shard], list[str]]
    # of a file, the named columns, so many rows at a time, one column perhaps dictionary-encoded
    batches: Callable[[Shard, list[str], int, str | None], Iterator[pa.RecordBatch]]


_TEXT = Reader(text_columns, lambda shard, columns, rows, coded: text_batches(shard, columns, rows))
READERS = {
    **dict.fromkeys(DELIMITERS, _TEXT),
    "parquet": Reader(_parquet_columns, _parquet_batches),
    "pin": Reader(pin_columns, pin_batches),
}
