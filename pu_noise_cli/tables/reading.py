"""Tables in: CSV, TSV, Parquet and registered formats, read in batches of rows.

A table is read as often as needed, so that memory does not grow with its rows. Text columns come
as written: columns.py decides what a value means.
"""

from __future__ import annotations

import codecs
import difflib
import functools
import glob
import io
import logging
import operator
import os
import re
import shutil
import stat
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import __version__
from ..errors import InputError, UsageError
from ..settings import Layout
from .dialect import NAMES, sniff
from .files import (
    BLOCK_BYTES,
    COMPRESSIONS,
    DELIMITERS,
    SUFFIXES,
    TEXTS,
    Dialect,
    Format,
    Shard,
    Spool,
    input_errors,
    magic_suffix,
    read_document,
    usage_errors,
)
from .notation import MISSING_TEXTS, PLAIN, Marks, Notation, unclear

LOG = logging.getLogger("punoise")
ANY_LAYOUT = Layout()
BYTE_ORDER_MARKS = {  # UTF-32 starts as UTF-16 does, so it comes first
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
BATCH_ROWS, BATCH_VALUES, BATCH_BYTES = 1 << 17, 1 << 22, 1 << 26  # maxima of one batch
MAX_COLUMNS = 1 << 17
NARROW, CACHED_BYTES = 256, 1 << 20  # columns of tables that are parsed in blocks of this size
NOT_A_NUMBER = re.compile(r"^In CSV column #([0-9]+): CSV conversion error to double")
MAX_COMPARED = 1000  # columns
AHEAD = 2  # batches read while others are worked on
MANIFEST = "_manifest.json"


class Manifest(msgspec.Struct, kw_only=True):
    """_manifest.json: the shards of a directory."""

    schema: Literal["punoise.manifest/2"] = "punoise.manifest/2"
    punoise_version: str = __version__
    complete: bool = True  # False while shards take their names
    shards: list[str]


class Batch(NamedTuple):
    """Some consecutive rows of a file."""

    rows: pa.RecordBatch
    file: str
    first_row: int  # in the file, from 0


class Reader(NamedTuple):
    """How files of one kind are read."""

    columns: Callable[[Shard], list[str]]
    # of a shard the named columns, so many rows at a time, one column perhaps dictionary-encoded
    batches: Callable[[Shard, list[str], int, str | None], Iterator[pa.RecordBatch]]


READERS: dict[str, Reader] = {}


def register_reader(kind: str, reader: Reader) -> None:
    """Make a kind of table readable, under a suffix of the same name."""
    READERS[kind] = reader
    SUFFIXES[kind] = kind


@dataclass(frozen=True)
class Table:
    """A table on disk: its column names, and its rows in batches."""

    name: str
    columns: tuple[str, ...]
    shards: tuple[Shard, ...] = field(repr=False)
    first_row: int = 0  # of its first shard, if it is a part of a table
    notation: Notation = PLAIN  # of numbers in text columns

    @cached_property
    def column_set(self) -> frozenset[str]:
        """The columns for quick lookup."""
        return frozenset(self.columns)

    def only(self, shards: Sequence[Shard], first_row: int = 0) -> Table:
        """The part of this table in some consecutive shards."""
        return replace(self, shards=tuple(shards), first_row=first_row)

    def batches(
        self, columns: Sequence[str], coded: str | None = None, numeric: Collection[str] = ()
    ) -> Iterator[Batch]:
        """Read columns of all rows in order, some rows at a time.

        One column may come dictionary-encoded, which is fastest for a few repeated words. Numeric
        columns of CSV and TSV files come as numbers; other text in them raises NotNumbers.
        """
        batches = self._batches(columns, coded, numeric)
        return _read_ahead(batches) if pa.cpu_count() > 1 else batches

    def _batches(
        self, columns: Sequence[str], coded: str | None, numeric: Collection[str]
    ) -> Iterator[Batch]:
        rows = min(BATCH_ROWS, max(BATCH_VALUES // len(columns), 1))
        for shard in self.shards:
            first_row = 0
            with input_errors(shard.name):
                for batch in _shard_batches(shard, list(columns), rows, coded, numeric):
                    yield Batch(batch, shard.name, first_row)
                    first_row += batch.num_rows

    def require(self, column: str, role: str) -> None:
        """Raise an input error unless the table has the column."""
        if column not in self.column_set:
            known = ", ".join(self.columns[:8]) + (", ..." if len(self.columns) > 8 else "")
            close = self._similar(column)
            meant = "" if close is None else f" (did you mean {close!r}?)"
            raise InputError(f"{self.name}: no column {column!r} for {role}{meant}; it has {known}")

    def _similar(self, name: str) -> str | None:
        """The column whose name is most like this one, if any is."""
        by_lower = {column.lower(): column for column in reversed(self.columns[:MAX_COMPARED])}
        wanted = name.lower()
        holding = [lower for lower in by_lower if wanted and wanted in lower]
        close = [min(holding, key=len)] if holding else difflib.get_close_matches(wanted, by_lower)
        return by_lower[close[0]] if close else None


def _shard_batches(
    shard: Shard, columns: list[str], rows: int, coded: str | None, numeric: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """The batches of a shard, from its copy if that has the columns."""
    if shard.copy is not None and shard.copy.places.keys() >= set(columns):
        return shard.copy.batches(columns, rows)
    if numeric and shard.format.kind in DELIMITERS:
        return _text_batches(shard, columns, rows, coded, numeric)
    return READERS[shard.format.kind].batches(shard, columns, rows, coded)


def _read_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The batches, read ahead in a thread."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        pending = deque(pool.submit(next, batches, None) for _ in range(AHEAD))
        while (batch := pending.popleft().result()) is not None:
            pending.append(pool.submit(next, batches, None))
            yield batch


# ---- Finding a table's files


def open_table(name: str, layout: Layout = ANY_LAYOUT) -> Table:
    """Find a table's files and read its column names.

    Parameters
    ----------
    name
        A file, a directory or glob of shards, or `-` for standard input.
    layout
        What the user states; the rest is found from the names and the content of the files.
    """
    shards = _find_shards(name, layout.input_format)
    if any(shard.format.kind == "pin" for shard in shards):
        raise UsageError(f"{name}: is a .pin file, which 'punoise matches' reads")
    shards = tuple(_readable(shard, layout) for shard in shards)
    return _with_notation(_table(name, shards), layout)


def open_tables(
    names: Sequence[str], layout: Layout = ANY_LAYOUT, order: Callable[[str], str] = str
) -> Table:
    """One table of the files that several names stand for, sorted by `order` of their paths."""
    shards = [shard for name in names for shard in _find_shards(name, layout.input_format)]
    paths = Counter(os.path.realpath(shard.path) for shard in shards)
    for shard in shards:
        if paths[os.path.realpath(shard.path)] > 1:
            raise UsageError(f"{shard.name}: is given twice")
    if len({shard.format.kind for shard in shards}) > 1:
        raise InputError(f"{names[0]}, ...: the files have several formats")
    shards.sort(key=lambda shard: (order(shard.path), shard.path))
    readable = tuple(_readable(shard, layout) for shard in shards)
    name = names[0] if len(names) == 1 else f"{names[0]}, ..."
    return _with_notation(_table(name, readable), layout)


def table_in_memory(name: str, table: pa.Table) -> Table:
    """An Arrow table as if it were a file."""
    import pyarrow.parquet as pq

    spool = Spool()
    pq.write_table(table, spool.file)
    return _table(name, (Shard(name, Format("parquet"), spool.path, spool),))


def held_in_memory(name: str, table: pa.Table) -> Table:
    """A table that was written to memory; its rows are read as they are."""
    return _table(name, (Shard(name, Format("memory"), name, table=table),))


def _table(name: str, shards: tuple[Shard, ...]) -> Table:
    """The table of some files, which must have the same columns, each of them once."""
    headers = []
    for shard in shards:
        with input_errors(shard.name):
            header = READERS[shard.format.kind].columns(shard)
        if len(header) > MAX_COLUMNS:
            raise InputError(
                f"{shard.name}: {len(header)} columns; at most {MAX_COLUMNS} can be read"
            )
        headers.append(header)
    first = headers[0]
    for shard, header in zip(shards, headers, strict=True):
        _check_header(shard.name, header)
        if different := set(header) ^ set(first):
            raise InputError(
                f"{shard.name}: column {min(different)!r} is not in all shards of {name}; "
                "all shards of a table have the same columns"
            )
    return Table(name, tuple(first), shards)


def _check_header(name: str, header: Sequence[str]) -> None:
    """Raise an input error if a column appears twice."""
    for column, count in Counter(header).items():
        if count > 1:
            raise InputError(f"{name}: column {column!r} appears {count} times; rename the others")


def _find_shards(name: str, kind: str | None) -> tuple[Shard, ...]:
    if name in ("-", "/dev/stdin"):
        if sys.stdin is None:
            raise UsageError("standard input is closed")
        return (_spooled("standard input", sys.stdin.buffer, kind),)
    if not os.path.lexists(name) and (files := sorted(glob.glob(name))):
        return _shards(name, files, kind)
    with usage_errors(name):
        mode = os.stat(name).st_mode
    if not os.access(name, os.R_OK):
        raise UsageError(f"{name}: permission denied")
    if stat.S_ISDIR(mode):
        return _shards_in_directory(name, kind)
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise UsageError(f"{name}: is a device")
    if not stat.S_ISREG(mode):  # a named pipe or a process substitution
        with open(name, "rb") as stream:
            return (_spooled(name, stream, kind),)
    return (_shard_on_disk(name, kind),)


def _shards_in_directory(name: str, kind: str | None) -> tuple[Shard, ...]:
    path = Path(name)
    with input_errors(name):
        entries = sorted(p for p in path.iterdir() if p.name[0] not in "._")
    if nested := [p.name for p in entries if p.is_dir()]:
        raise InputError(f"{name}: holds a directory {nested[0]!r}; name the shards by a glob")
    if not entries:
        raise InputError(f"{name}: the directory holds no table")
    return _shards(name, [str(p) for p in entries], kind)


def _shards(name: str, files: list[str], kind: str | None) -> tuple[Shard, ...]:
    for file in files:
        if not os.path.isfile(file):  # reading a pipe could block forever
            raise UsageError(f"{file}: is not a regular file, as the shards of a table must be")
    shards = tuple(_shard_on_disk(file, kind) for file in files)
    for folder in {os.path.dirname(file) for file in files}:
        _check_shards(folder)
    kinds = {shard.format.kind for shard in shards}
    if len(kinds) > 1:
        raise InputError(f"{name}: holds shards of several formats ({', '.join(sorted(kinds))})")
    return shards


def _check_shards(folder: str) -> None:
    """Raise an input error if the shards of a directory may come from two commands."""
    name = os.path.join(folder, MANIFEST)
    if not os.path.isfile(name):
        return
    try:
        manifest = read_document(name, Manifest)
    except InputError:  # of another program
        return
    if not manifest.complete:
        raise InputError(
            f"{folder}: is incomplete, because a command was interrupted or is still writing; run "
            "the command again"
        )


def _shard_on_disk(name: str, kind: str | None) -> Shard:
    return Shard(name, Format.from_name(name, kind), os.path.abspath(name))


def _spooled(name: str, stream: BinaryIO, kind: str | None) -> Shard:
    """A stream copied to an unnamed temporary file, as it must be read more than once."""
    with usage_errors(f"{name}: cannot be copied"):
        spool = Spool()
        shutil.copyfileobj(stream, spool.file)
    spool.file.seek(0)
    suffix = magic_suffix(spool.file.read(4))
    kind = kind or SUFFIXES.get((suffix or "").removeprefix("."), "txt")
    return Shard(name, Format(kind, COMPRESSIONS.get(suffix or "")), spool.path, spool)


def _readable(shard: Shard, layout: Layout) -> Shard:
    """The shard with the dialect of its text; a workbook or UTF-16 as a copy that can be read."""
    with input_errors(shard.name):
        if shard.format.kind == "xlsx":
            return _copied_sheet(shard, layout)
        if shard.format.kind not in TEXTS:
            return shard
        if shard.format.kind == "vcf" and not shard.format.compression:
            shard = _decompressed(shard)
        with shard.open() as stream:
            start = stream.read(4)
        codec = next(
            (codec for mark, codec in BYTE_ORDER_MARKS.items() if start.startswith(mark)), None
        )
        if codec is not None:
            shard = _in_utf8(shard, codec)
        dialect = sniff(shard, layout)
    kind = shard.format.kind
    if kind not in DELIMITERS:
        kind = "csv" if dialect.delimiter == "," else "tsv"
    return _changed(shard, format=replace(shard.format, kind=kind), dialect=dialect)


def _decompressed(shard: Shard) -> Shard:
    """A .bcf is compressed though its name does not say so."""
    with shard.open() as stream:
        is_packed = magic_suffix(stream.read(4)) == ".gz"
    return replace(shard, format=replace(shard.format, compression="gzip")) if is_packed else shard


def _copied_sheet(shard: Shard, layout: Layout) -> Shard:
    """A shard with the sheet of a workbook as a Parquet file."""
    import pyarrow.parquet as pq

    from .spreadsheets import read_sheet

    with shard.open() as stream:
        raw = io.BytesIO(stream.read())
    table = read_sheet(shard.name, raw, layout.sheet, layout.decimal or ".")
    _check_header(shard.name, table.column_names)
    spool = Spool()
    pq.write_table(table, spool.file)
    return _changed(shard, format=Format(shard.format.kind), path=spool.path, spool=spool)


def _in_utf8(shard: Shard, codec: str) -> Shard:
    """A shard with the text in UTF-8."""
    spool = Spool()
    decoder = codecs.getincrementaldecoder(codec)()
    with shard.open() as stream:
        while block := stream.read(BLOCK_BYTES):
            spool.file.write(decoder.decode(block).encode())
        spool.file.write(decoder.decode(b"", final=True).encode())
    return _changed(shard, format=Format(shard.format.kind), path=spool.path, spool=spool)


def _changed(shard: Shard, **changes: Any) -> Shard:
    """The shard with changes; the digest of a copy is that of the user's file."""
    changed = replace(shard, **changes)
    if changed.path != shard.path or shard.facts.digest is not None:
        changed.set_digest(shard.sha256())
    return changed


def _with_notation(table: Table, layout: Layout) -> Table:
    """The table with the notation of its numbers, as stated or as all its files together show."""
    dialects = [shard.dialect for shard in table.shards if shard.dialect is not None]
    marks = functools.reduce(operator.or_, (dialect.marks for dialect in dialects), Marks())
    notation = marks.notation() if layout.decimal is None else Notation(layout.decimal, True)
    has_semicolons = any(dialect.delimiter == ";" for dialect in dialects)
    if layout.decimal is None and has_semicolons and marks.points_are_unclear:
        raise InputError(f"{table.name}: {unclear(marks.point_thousands)}")
    found = [
        f"columns are separated by {NAMES.get(dialect.delimiter, repr(dialect.delimiter))}"
        for shard, dialect in zip(table.shards, dialects, strict=False)
        if dialect.delimiter not in (layout.separator, DELIMITERS[shard.format.kind])
    ][:1]
    if said := found + (marks.described(notation) if layout.decimal is None else []):
        LOG.info("%s: %s", table.name, "; ".join(said))
    return replace(table, notation=notation)


def existing_files(name: str) -> list[str]:
    """The existing files that a table's name stands for."""
    if os.path.isdir(name):
        return glob.glob(os.path.join(glob.escape(name), "*"))
    return [name] if os.path.exists(name) else glob.glob(name)


# ---- CSV and TSV


@functools.cache
def _start_threads() -> None:
    """Start the threads of Arrow's reader: one that gets no memory later would block forever."""
    import pyarrow.csv

    pa.set_io_thread_count(2)
    options = pyarrow.csv.ReadOptions(use_threads=False)
    for _ in range(3):
        list(pyarrow.csv.open_csv(pa.py_buffer(b"a\n1\n"), read_options=options))


def _dialect(shard: Shard) -> Dialect:
    assert shard.dialect is not None  # every text has one since it was opened
    return shard.dialect


def _text_columns(shard: Shard) -> list[str]:
    return _dialect(shard).columns


def _text_batches(
    shard: Shard, columns: list[str], rows: int, coded: str | None, numeric: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Batches of columns as text or as numbers, null if missing; none is dictionary-encoded."""
    _start_threads()
    seen, is_narrow = 0, len(_dialect(shard).header) < NARROW
    for block_bytes in (CACHED_BYTES, BLOCK_BYTES) if is_narrow else (BLOCK_BYTES,):
        before = seen
        try:
            for batch in _parsed_batches(shard, columns, numeric, block_bytes):
                batch, before = batch.slice(before), max(before - batch.num_rows, 0)
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)
                seen += batch.num_rows
            return
        except pa.ArrowInvalid as error:
            if block_bytes == BLOCK_BYTES or "block size" not in str(error):
                raise


class NotNumbers(Exception):
    """Columns that began with numbers have text."""

    def __init__(self, columns: Collection[str]) -> None:
        self.columns = columns


def _parsed_batches(
    shard: Shard, columns: list[str], numeric: Collection[str], block_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Batches of a text table, of at most so many bytes, in which every row must fit."""
    import pyarrow.csv

    dialect = _dialect(shard)
    lines = dialect.lines
    names = [name or f"\0{i}" for i, name in enumerate(dialect.header, 1)]
    unnamed = [name for name in names if name.startswith("\0")]
    if len(names) == 1:  # blank lines of it are values
        numeric = ()
    types = {name: pa.float64() if name in numeric else pa.string() for name in names}
    bad_rows = []

    def keep_bad_row(row: Any) -> str:
        bad_rows.append(row)
        return "error"

    options = {
        # one thread, so that row numbers are known; parsing is not the bottleneck
        "read_options": pyarrow.csv.ReadOptions(
            use_threads=False,
            block_size=block_bytes,
            column_names=names,
            skip_rows=lines,
        ),
        "parse_options": pyarrow.csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote,
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,
            invalid_row_handler=keep_bad_row,
        ),
        "convert_options": pyarrow.csv.ConvertOptions(
            column_types=types,
            include_columns=columns + unnamed,
            null_values=MISSING_TEXTS,
            strings_can_be_null=False,
        ),
    }
    first_row = 0
    try:
        batches = pyarrow.csv.open_csv(shard.open(), **options)
        for batch in _without_blank_end(batches) if len(names) == 1 else batches:
            for name in unnamed:
                _check_empty(shard, name[1:], batch[name], first_row)
            first_row += batch.num_rows
            yield batch.select(columns)
    except pa.ArrowInvalid as error:
        if column := NOT_A_NUMBER.search(str(error)):
            raise NotNumbers({names[int(column[1])]}) from error
        if not bad_rows:
            raise
        row = bad_rows[0]
        remedy = f"quote values that contain {dialect.delimiter!r}"
        if row.text.startswith("#"):
            remedy = f"remove comments between rows: grep -v '^#' {shard.name}"
        raise InputError(
            f"{shard.name}: row {row.number - lines} has {row.actual_columns} values "
            f"where the header names {len(names) - len(unnamed)} columns; {remedy}"
        ) from error


def _without_blank_end(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a one-column table, where a blank line is a missing value unless at the end."""
    blank: list[pa.RecordBatch] = []
    for batch in batches:
        filled = np.flatnonzero(np.asarray(pc.not_equal(batch.column(0), "")))
        end = int(filled[-1]) + 1 if len(filled) else 0
        if end:
            yield from blank
            yield batch.slice(0, end)
            blank = []
        blank.append(batch.slice(end))


def _check_empty(shard: Shard, column: str, values: pa.Array, first_row: int) -> None:
    """Raise an input error unless a column without a name comes from trailing delimiters."""
    filled = pc.not_equal(pc.utf8_trim_whitespace(values), "")
    if pc.any(filled).as_py():
        raise InputError(
            f"{shard.name}: column {column} has a value in row "
            f"{first_row + pc.index(filled, True).as_py() + 1} but no name in the header; name it "
            "there, or write the table without its index"
        )


# ---- Parquet

MAX_PACKING, MAX_CHUNK_BYTES = 100, 1 << 28  # of a column chunk; beyond both it is a bomb
SMALL_FILE = 1 << 26  # bytes; its content may still be large
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def parquet_metadata(shard: Shard) -> dict[str, str]:
    """The metadata of a Parquet file or of a table in memory; empty for other kinds."""
    if shard.table is not None:
        metadata = shard.table.schema.metadata or {}
        return {str(k, "utf-8"): str(v, "utf-8") for k, v in metadata.items()}
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
    # in a small file one long text may stand for every row: its size is checked before decoding
    is_small = os.stat(shard.path).st_size < SMALL_FILE
    schema = file.schema_arrow  # made anew at each call, from all columns
    texts = [name for name in columns if pa.types.is_string(schema.field(name).type)]
    if encoded := [name for name in texts if is_small or name == coded]:
        file = shard.parquet(encoded)
    for group in range(file.num_row_groups):  # one at a time, or it reads far ahead into memory
        for batch in _row_group(shard, file, group, columns, rows):
            for part in _split_by_text(batch):
                arrays = [_decoded(part[n], keep=n == coded) for n in columns]
                yield pa.RecordBatch.from_arrays(arrays, names=columns)


def _split_by_text(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halve a batch until its decoded texts fit into BATCH_BYTES."""
    coded = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    if batch.num_rows < 2 or sum(map(_text_bytes, coded)) <= BATCH_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _split_by_text(batch.slice(0, half))
    yield from _split_by_text(batch.slice(half))


def _text_bytes(column: pa.DictionaryArray) -> int:
    """The bytes of a dictionary-encoded text column after decoding."""
    if not pa.types.is_string(column.type.value_type) or len(column.dictionary) == 0:
        return 0
    lengths = np.asarray(pc.fill_null(pc.binary_length(column.dictionary), 0), np.int64)
    if len(column) * int(lengths.max()) <= BATCH_BYTES:
        return 0
    return int(lengths[np.asarray(column.indices.drop_null())].sum())


def _row_group(
    shard: Shard, file: Any, group: int, columns: list[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """Batches of one row group, read whole if it is small."""
    metadata = file.metadata.row_group(group)
    n, size = metadata.num_rows, _unpacked_bytes(shard, metadata, set(columns))
    row_bytes = size / max(n, 1)
    rows = min(rows, max(int(BATCH_BYTES / max(row_bytes, 1)), 1))
    if n * max(len(columns), row_bytes * BATCH_VALUES / BATCH_BYTES) > BATCH_VALUES:
        yield from file.iter_batches(rows, row_groups=[group], columns=columns)
    else:  # faster
        batches = file.read_row_group(group, columns).to_batches(rows)[::-1]
        while batches:
            yield batches.pop()


def _unpacked_bytes(shard: Shard, group: Any, columns: set[str]) -> int:
    """The unpacked bytes of some columns of a row group, as the file states them."""
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


def _decoded(column: pa.Array, keep: bool) -> pa.Array:
    """Text of every type as valid strings; dictionaries are decoded unless `keep`."""
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
    """Raise Arrow's own error if text is not UTF-8; most is ASCII, which is quick to see."""
    if pa.types.is_string(column.type) and len(column):
        _, offsets, values = column.buffers()
        start, end = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)[[0, -1]]
        if end > start and np.frombuffer(values, np.int8, end - start, start).min() < 0:
            column.validate(full=True)


def _memory_columns(shard: Shard) -> list[str]:
    assert shard.table is not None
    return list(shard.table.column_names)


def _memory_batches(
    shard: Shard, columns: list[str], rows: int, coded: str | None
) -> Iterator[pa.RecordBatch]:
    assert shard.table is not None
    yield from shard.table.select(columns).to_batches(rows)


READERS["memory"] = Reader(_memory_columns, _memory_batches)
register_reader("csv", Reader(_text_columns, _text_batches))
register_reader("tsv", READERS["csv"])
register_reader("parquet", Reader(_parquet_columns, _parquet_batches))
register_reader("xlsx", READERS["parquet"])  # a workbook is copied to a Parquet file
SUFFIXES.update(dict.fromkeys(("xls", "xlsm", "xlsb", "ods"), "xlsx"))
