"""Files in: CSV, TSV and Parquet, compressed, sharded or streamed.

Only this module and outputs.py open files. A table is read in batches, as often as needed, so that
memory does not grow with its rows. Text columns come as they are written: what a value means is
decided in features.py.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .errors import InputError, UsageError

DELIMITERS = {"csv": ",", "tsv": "\t"}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"PAR1": ".parquet"}
BATCH_ROWS, BATCH_VALUES = 1 << 17, 1 << 22  # at most so many at a time
AHEAD = 2  # batches read while others are worked on
BLOCK_BYTES = 1 << 22
SNIFF_BYTES = 1 << 20  # at first; more where two rows are longer
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
MANIFEST = "_manifest.json"  # says that all shards of a directory are there
PARQUET_KEY = "punoise.key"  # of a shard: a digest of all that it was made from


@dataclass(frozen=True)
class Format:
    """A file's format: csv, tsv or parquet, and the compression around it."""

    kind: str
    compression: str | None = None

    @classmethod
    def of(cls, name: str) -> Format:
        """The format that a file's name says."""
        stem, compression = name, None
        for suffix, codec in COMPRESSIONS.items():
            if name.lower().endswith(suffix):
                stem, compression = name[: -len(suffix)], codec
        kind = Path(stem).suffix.lower().removeprefix(".")
        if kind in DELIMITERS or (kind == "parquet" and not compression):
            return cls(kind, compression)
        raise UsageError(
            f"{name}: cannot tell the format from the name; "
            "use .csv, .tsv (.gz or .zst may follow) or .parquet"
        )


@dataclass(frozen=True)
class Shard:
    """One file of a table, or a stream copied to a file of its own."""

    name: str
    format: Format
    path: str
    spool: BinaryIO | None = None  # the copy of a stream, which lives while this does

    def open(self) -> pa.NativeFile:
        """The bytes of the file from the start, decompressed."""
        if self.format.compression:
            return pa.CompressedInputStream(self._raw(), self.format.compression)
        return self._raw()

    def _raw(self) -> pa.NativeFile:
        if self.spool is not None:
            self.spool.seek(0)
        return pa.OSFile(self.path)

    @cached_property
    def num_rows(self) -> int | None:
        """The number of rows, where the file says it: a Parquet file."""
        if self.format.kind != "parquet":
            return None
        with _input_errors(self.name):
            return int(_parquet_file(self).metadata.num_rows)

    def sha256(self) -> str:
        """The digest of the bytes as they lie on disk or came in."""
        return self._sha256

    @cached_property
    def _sha256(self) -> str:
        digest = hashlib.sha256()
        with _input_errors(self.name), self._raw() as raw:
            while block := raw.read(BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()


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
            with _input_errors(shard.name):
                if shard.format.kind == "parquet":
                    batches = _parquet_batches(shard, list(columns), rows, coded)
                else:
                    batches = _text_batches(shard, list(columns), rows)
                for batch in batches:
                    yield Batch(batch, shard.name, first_row)
                    first_row += batch.num_rows

    def require(self, column: str, role: str) -> None:
        """Stop with an input error unless the table has the column."""
        if column not in self.columns:
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


def open_table(name: str) -> Table:
    """Find a table's files and read its column names; `-` is standard input."""
    shards = _find(name)
    headers = []
    for shard in shards:
        with _input_errors(shard.name):
            headers.append(_column_names(shard))
    first = headers[0]
    for shard, header in zip(shards, headers, strict=True):
        for column, count in Counter(header).items():
            if count > 1:
                raise InputError(f"{shard.name}: column {column!r} stands {count} times")
        if odd := set(header) ^ set(first):
            raise InputError(
                f"{shard.name}: column {min(odd)!r} is not in all shards of {name}; "
                "all shards of a table have the same columns"
            )
    return Table(name, tuple(first), shards)


def _find(name: str) -> tuple[Shard, ...]:
    if name in ("-", "/dev/stdin"):
        if sys.stdin is None:
            raise UsageError("standard input is closed")
        return (_spooled("standard input", sys.stdin.buffer),)
    path = Path(name)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if found := sorted(glob.glob(name)):
            return _same_format(name, found)
        raise UsageError(f"{name}: no such file") from None
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    if not os.access(name, os.R_OK):
        raise UsageError(f"{name}: permission denied")
    if stat.S_ISDIR(mode):
        entries = sorted(p for p in path.iterdir() if p.name[0] not in "._")
        if nested := [p.name for p in entries if p.is_dir()]:
            raise InputError(f"{name}: holds a directory {nested[0]!r}; name the shards by a glob")
        if not entries:
            raise InputError(f"{name}: the directory holds no table")
        if not (path / MANIFEST).exists() and parquet_key(str(entries[0])) is not None:
            raise InputError(
                f"{name}: has no {MANIFEST}, so not all shards are there or they are of several "
                "runs; --resume makes them, and a glob takes them as they are"
            )
        return _same_format(name, [str(p) for p in entries])
    if not stat.S_ISREG(mode):  # a named pipe or a process substitution
        with open(name, "rb") as stream:
            return (_spooled(name, stream),)
    return (Shard(name, Format.of(name), os.path.abspath(name)),)


def files_of(name: str) -> list[str]:
    """The files that a name stands for, as far as there are any."""
    if os.path.isdir(name):
        return glob.glob(os.path.join(glob.escape(name), "*"))
    return [name] if os.path.exists(name) else glob.glob(name)


def _same_format(name: str, files: list[str]) -> tuple[Shard, ...]:
    shards = tuple(Shard(file, Format.of(file), os.path.abspath(file)) for file in files)
    kinds = {shard.format.kind for shard in shards}
    if len(kinds) > 1:
        raise InputError(f"{name}: holds shards of several formats ({', '.join(sorted(kinds))})")
    return shards


def _spooled(name: str, stream: BinaryIO) -> Shard:
    """A stream copied to an unnamed temporary file, as it must be read more than once."""
    try:
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the table
        shutil.copyfileobj(stream, spool)
    except OSError as error:
        raise UsageError(f"{name}: cannot be copied: {error.strerror}") from error
    spool.seek(0)
    suffix = _magic(spool.read(4))
    # by its descriptor, so that Arrow's threads need not call back into Python to read it
    path = f"/dev/fd/{spool.fileno()}"
    if suffix == ".parquet":
        return Shard(name, Format("parquet"), path, spool)
    shard = Shard(name, Format("tsv", COMPRESSIONS.get(suffix or "")), path, spool)
    with _input_errors(name):
        first = shard.open().read(SNIFF_BYTES).split(b"\n")[0]
    kind = "csv" if b"," in first and b"\t" not in first else "tsv"
    return Shard(name, Format(kind, shard.format.compression), path, spool)


def _magic(start: bytes) -> str | None:
    """The suffix that a file with such a beginning should have."""
    return next((suffix for magic, suffix in MAGIC.items() if start.startswith(magic)), None)


@contextlib.contextmanager
def _input_errors(name: str) -> Iterator[None]:
    """What a reader says of a file's bytes, as an error of that file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
        reason = str(error).split("\n")[0]
        if "invalid UTF8" in reason or isinstance(error, UnicodeDecodeError):
            place = re.search(r"Row #(\d+)", reason)
            where = f" in line {place[1]}" if place else ""
            reason = f"text{where} is not UTF-8; convert it, e.g. with iconv -f LATIN1 -t UTF-8"
        elif "straddling" in reason:
            reason = f"a row is longer than {BLOCK_BYTES} bytes, or a quote is never closed"
        elif "Parquet magic" in reason or "Parquet file size" in reason:
            reason = "not a Parquet file"
        raise InputError(f"{name}: {reason}") from error


def _column_names(shard: Shard) -> list[str]:
    if shard.format.kind == "parquet":
        names = _parquet_file(shard).schema_arrow.names
        return [name for name in names if not PANDAS_INDEX.fullmatch(name)]
    return [name for name in _sniff(shard).names if name]


# ---- Parquet


def _parquet_file(shard: Shard, coded: str | None = None) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(shard.open(), read_dictionary=None if coded is None else [coded])


def parquet_key(name: str) -> str | None:
    """The key in a Parquet file, if there is such a file and it has one."""
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(name).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    value = metadata.get(PARQUET_KEY.encode())
    return None if value is None else str(value, "ascii", "replace")


def parquet_metadata(shard: Shard) -> dict[str, str]:
    """What a Parquet file says of itself; nothing of a text file."""
    if shard.format.kind != "parquet":
        return {}
    with _input_errors(shard.name):
        metadata = _parquet_file(shard).metadata.metadata or {}
    return {str(k, "utf-8", "replace"): str(v, "utf-8", "replace") for k, v in metadata.items()}


def _parquet_batches(
    shard: Shard, columns: list[str], rows: int, coded: str | None
) -> Iterator[pa.RecordBatch]:
    file = _parquet_file(shard, coded)
    for group in range(file.num_row_groups):  # one at a time, or it reads far ahead into memory
        for batch in _row_group(file, group, columns, rows):
            arrays = [batch[n] if n == coded else _plain(batch[n]) for n in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=columns)


def _row_group(file: Any, group: int, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    if file.metadata.row_group(group).num_rows * len(columns) > BATCH_VALUES:
        yield from file.iter_batches(rows, row_groups=[group], columns=columns)
    else:  # the quicker way
        batches = file.read_row_group(group, columns).to_batches(rows)[::-1]
        while batches:
            yield batches.pop()


def _plain(column: pa.Array) -> pa.Array:
    """Dictionaries as their values, and text of every kind as strings."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or "string_view" in str(column.type):
        column = pc.cast(column, pa.string())
    return column


# ---- CSV and TSV


@dataclass(frozen=True)
class _Header:
    """Column names, '' for a column without one, and the lines that stand before the data."""

    names: list[str]
    lines: int


def _sniff(shard: Shard) -> _Header:
    """The header of a text table: after comment lines, or the last of them as in VCF."""
    comments, rows, ends = _first_rows(shard)
    delimiter = DELIMITERS[shard.format.kind]
    if comments and _is_header(comments[-1], rows, delimiter):
        names = next(csv.reader([comments[-1][1:]], delimiter=delimiter))
        names, skip, data = [name.strip() for name in names], len(comments), rows[:1]
    elif rows:
        names, skip, data = rows[0], ends[0], rows[1:]
    else:
        raise InputError(f"{shard.name}: the table is empty")
    named = len(names) - len(list(itertools.takewhile(lambda name: not name, reversed(names))))
    if named == 0:
        raise InputError(f"{shard.name}: the header names no column")
    trailing = data[0][named:] if data else []
    if any(trailing) or (data and len(data[0]) < named):
        raise InputError(
            f"{shard.name}: row 1 has {len(data[0])} values where the header names {named} columns"
        )
    return _Header(names[:named] + trailing, skip)


def _first_rows(shard: Shard) -> tuple[list[str], list[list[str]], list[int]]:
    """The comment lines at the top, the first two rows after them, and the line each ends on."""
    size = SNIFF_BYTES
    while True:
        raw = shard.open().read(size)
        if not shard.format.compression and (suffix := _magic(raw)):
            raise InputError(f"{shard.name}: this is a {suffix} file by its content; name it so")
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError(f"{shard.name}: the text is UTF-16; convert it to UTF-8")
        whole = len(raw) < size
        if not whole:  # do not cut a character or a row in two
            raw = raw[: raw.rfind(b"\n") + 1]
        lines = list(io.StringIO(raw.decode("utf-8-sig"), newline=""))
        comments = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
        rows: list[list[str]] = []
        ends: list[int] = []
        csv.field_size_limit(1 << 30)
        reader = csv.reader(lines[len(comments) :], delimiter=DELIMITERS[shard.format.kind])
        for row in reader:
            if row and len(rows) < 2:
                rows.append([value.strip() for value in row])
                ends.append(len(comments) + reader.line_num)
        if whole or len(rows) == 2:
            return comments, rows, ends
        size *= 8


def _is_header(comment: str, rows: list[list[str]], delimiter: str) -> bool:
    """Whether a comment line names the columns of the rows below it, as VCF's #CHROM line does."""
    if comment.startswith("##") or comment[1:2].isspace() or not rows:
        return False
    width = len(next(csv.reader([comment[1:]], delimiter=delimiter)))
    return width == len(rows[0]) and (width > 1 or _is_number(rows[0][0]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text_batches(shard: Shard, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    import pyarrow.csv

    header = _sniff(shard)
    names = [name or f"\0{i}" for i, name in enumerate(header.names, 1)]
    unnamed = [name for name in names if name.startswith("\0")]

    odd_rows = []

    def bad_row(row: Any) -> str:
        odd_rows.append(row)
        return "error"

    options = {
        # one thread here: it is what makes row numbers known, and parsing is not the bottleneck
        "read_options": pyarrow.csv.ReadOptions(
            use_threads=False,
            block_size=BLOCK_BYTES,
            column_names=names,
            skip_rows=header.lines,
        ),
        "parse_options": pyarrow.csv.ParseOptions(
            delimiter=DELIMITERS[shard.format.kind],
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,
            invalid_row_handler=bad_row,
        ),
        "convert_options": pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=columns + unnamed,
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
            batch = batch.select(columns)
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
    except pa.ArrowInvalid as error:
        if not odd_rows:
            raise
        row = odd_rows[0]
        raise InputError(
            f"{shard.name}: row {row.number - header.lines} has {row.actual_columns} values "
            f"where the header names {len(names) - len(unnamed)} columns"
        ) from error


def _without_blank_end(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a one-column table, in which a blank line is a missing value but at the end."""
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
    """A column without a name is fine where it comes of trailing delimiters."""
    filled = pc.not_equal(pc.utf8_trim_whitespace(values), "")
    if pc.any(filled).as_py():
        raise InputError(
            f"{shard.name}: column {column} has a value in row "
            f"{first_row + pc.index(filled, True).as_py() + 1} but no name in the header; name it "
            "there, or write the table without its index"
        )


# ---- Other files


def read_json(name: str) -> Any:
    """A JSON document from a file, or `-` for standard input."""
    raw = sys.stdin.buffer.read() if name == "-" else read_bytes(name).getvalue()
    try:
        if (suffix := _magic(raw)) in COMPRESSIONS:
            raw = pa.CompressedInputStream(pa.py_buffer(raw), COMPRESSIONS[suffix]).read()
        return json.loads(raw)
    except (ValueError, RecursionError, OSError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else error
        raise InputError(f"{name}: not a JSON file ({reason})") from None


def read_rule(name: str) -> Any:
    """A rule of evidence: one that comes with the package by its name, or a file."""
    shipped = resources.files("pu_noise_cli.rules").joinpath(f"{name.lower()}.json")
    return json.loads(shipped.read_text()) if shipped.is_file() else read_json(name)


def read_bytes(name: str) -> io.BytesIO:
    """A whole file in memory."""
    try:
        return io.BytesIO(Path(name).read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file") from None
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
