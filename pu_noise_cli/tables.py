"""Files in and out: CSV, TSV and Parquet, compressed, sharded or streamed, written atomically.

The only module that opens files. A table is read in batches, as often as needed, so that memory
does not grow with its rows. Text columns come as they are written: what a value means is decided in
features.py.
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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from .errors import ClosedPipe, InputError, UsageError

DELIMITERS = {"csv": ",", "tsv": "\t"}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
BATCH_ROWS, BATCH_VALUES = 1 << 16, 1 << 22  # at most so many at a time
BLOCK_BYTES = 1 << 22
SNIFF_BYTES = 1 << 20
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


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
class _Shard:
    """One file of a table, or a stream copied to a file of its own."""

    name: str
    format: Format
    path: str | None = None
    spool: BinaryIO | None = None

    def open(self) -> pa.NativeFile:
        """The bytes of the file from the start, decompressed."""
        if self.format.compression:
            return pa.CompressedInputStream(self._raw(), self.format.compression)
        return self._raw()

    def _raw(self) -> pa.NativeFile:
        if self.spool is None:
            return pa.OSFile(self.path)
        self.spool.seek(0)
        return pa.PythonFile(self.spool, mode="r")

    def sha256(self) -> str:
        """The digest of the bytes as they lie on disk or came in."""
        digest = hashlib.sha256()
        raw = self._raw()
        while block := raw.read(BLOCK_BYTES):
            digest.update(block)
        return digest.hexdigest()


@dataclass(frozen=True)
class Table:
    """A table on disk: its column names, and its rows in batches."""

    name: str
    columns: tuple[str, ...]
    shards: tuple[_Shard, ...] = field(repr=False)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The named columns of all rows in order, some rows at a time."""
        rows = min(BATCH_ROWS, max(BATCH_VALUES // len(columns), 1))
        for shard in self.shards:
            read = _parquet_batches if shard.format.kind == "parquet" else _text_batches
            with _input_errors(shard.name):
                yield from read(shard, list(columns), rows)

    def require(self, column: str, role: str) -> None:
        """Stop with an input error unless the table has the column."""
        if column not in self.columns:
            known = ", ".join(self.columns[:8]) + (", ..." if len(self.columns) > 8 else "")
            raise InputError(f"{self.name}: no column {column!r} for {role}; it has {known}")


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


def _find(name: str) -> tuple[_Shard, ...]:
    if name == "-":
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
    if stat.S_ISDIR(mode):
        files = sorted(str(p) for p in path.iterdir() if p.name[0] not in "._" and p.is_file())
        if not files:
            raise InputError(f"{name}: the directory holds no table")
        return _same_format(name, files)
    if not os.access(name, os.R_OK):
        raise UsageError(f"{name}: permission denied")
    if not stat.S_ISREG(mode):  # a named pipe or a process substitution
        with open(name, "rb") as stream:
            return (_spooled(name, stream),)
    return (_Shard(name, Format.of(name), name),)


def _same_format(name: str, files: list[str]) -> tuple[_Shard, ...]:
    shards = tuple(_Shard(file, Format.of(file), file) for file in files)
    kinds = {shard.format.kind for shard in shards}
    if len(kinds) > 1:
        raise InputError(f"{name}: holds shards of several formats ({', '.join(sorted(kinds))})")
    return shards


def _spooled(name: str, stream: BinaryIO) -> _Shard:
    """A stream copied to an unnamed temporary file, as it must be read more than once."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the table
    shutil.copyfileobj(stream, spool)
    spool.seek(0)
    start = spool.read(4)
    if start == b"PAR1":
        return _Shard(name, Format("parquet"), spool=spool)
    compression = next((codec for magic, codec in MAGIC.items() if start.startswith(magic)), None)
    shard = _Shard(name, Format("tsv", compression), spool=spool)
    with _input_errors(name):
        first = shard.open().read(SNIFF_BYTES).split(b"\n")[0]
    kind = "csv" if b"," in first and b"\t" not in first else "tsv"
    return _Shard(name, Format(kind, compression), spool=spool)


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


def _column_names(shard: _Shard) -> list[str]:
    if shard.format.kind == "parquet":
        names = _parquet_file(shard).schema_arrow.names
        return [name for name in names if not PANDAS_INDEX.fullmatch(name)]
    return [name for name in _sniff(shard).names if name]


# ---- Parquet


def _parquet_file(shard: _Shard) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(shard.open())


def _parquet_batches(shard: _Shard, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    file = _parquet_file(shard)
    for batch in file.iter_batches(rows, columns=columns):
        batch = batch.select(columns)
        plain = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in batch.columns
        ]
        yield pa.RecordBatch.from_arrays(plain, names=columns)


# ---- CSV and TSV


@dataclass(frozen=True)
class _Header:
    """Column names, '' for a column without one, and the lines that stand before the data."""

    names: list[str]
    lines: int


def _sniff(shard: _Shard) -> _Header:
    """The header of a text table: after comment lines, or the last of them as in VCF."""
    raw = shard.open().read(SNIFF_BYTES)
    if not shard.format.compression and (
        codec := next((codec for magic, codec in MAGIC.items() if raw.startswith(magic)), None)
    ):
        suffix = {v: k for k, v in COMPRESSIONS.items()}[codec]
        raise InputError(f"{shard.name}: the content is {codec}; end the name in {suffix}")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{shard.name}: the text is UTF-16; convert it to UTF-8")
    if len(raw) == SNIFF_BYTES:  # do not cut a character or a row in two
        raw = raw[: raw.rfind(b"\n") + 1]
    lines = list(io.StringIO(raw.decode("utf-8-sig"), newline=""))
    comments = len(list(itertools.takewhile(lambda line: line.startswith("#"), lines)))
    delimiter = DELIMITERS[shard.format.kind]
    rows, ends = [], []
    reader = csv.reader(lines[comments:], delimiter=delimiter)
    for row in reader:
        if row:
            rows.append([value.strip() for value in row])
            ends.append(comments + reader.line_num)
        if len(rows) == 2:
            break
    if comments and _is_header(lines[comments - 1], rows, delimiter):
        names = next(csv.reader([lines[comments - 1][1:]], delimiter=delimiter))
        names, skip, data = [name.strip() for name in names], comments, rows[:1]
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


def _is_header(comment: str, rows: list[list[str]], delimiter: str) -> bool:
    """Whether a comment line names the columns of the rows below it, as VCF's #CHROM line does."""
    if comment.startswith("##") or not rows:
        return False
    fields = next(csv.reader([comment[1:]], delimiter=delimiter))
    below_is_header = not any(map(_is_number, rows[0])) and any(
        _is_number(value) for row in rows[1:] for value in row
    )
    same_width = len(fields) == len(rows[0])
    return same_width and not below_is_header and (len(fields) > 1 or _is_number(rows[0][0]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text_batches(shard: _Shard, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
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
        for batch in pyarrow.csv.open_csv(shard.open(), **options):
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


def _check_empty(shard: _Shard, column: str, values: pa.Array, first_row: int) -> None:
    """A column without a name is fine where it comes of trailing delimiters."""
    filled = pc.not_equal(pc.utf8_trim_whitespace(values), "")
    if pc.any(filled).as_py():
        raise InputError(
            f"{shard.name}: column {column} has a value in row "
            f"{first_row + pc.index(filled, True).as_py() + 1} but no name in the header; name it "
            "there, or write the table without its index"
        )


# ---- Writing


def check_target(name: str) -> None:
    """Stop with a usage error, before any work is done, where an output cannot be written."""
    if name == "-":
        return
    path = Path(name)
    if path.is_dir():
        raise UsageError(f"{name}: is a directory")
    if not path.parent.is_dir():
        raise UsageError(f"{name}: the directory {str(path.parent)!r} does not exist")
    writable = path if _is_device(path) else path.parent
    if not os.access(writable, os.W_OK):
        raise UsageError(f"{name}: permission denied")


def make_directory(name: str) -> None:
    """Make a directory for outputs, unless it is there."""
    try:
        os.makedirs(name, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    if not os.access(name, os.W_OK):
        raise UsageError(f"{name}: permission denied")


def check_table_target(name: str) -> None:
    """check_target, and the format must be one that can be written."""
    check_target(name)
    _target_format(name)


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _target_format(name: str) -> Format:
    return Format("tsv") if name == "-" or _is_device(Path(name)) else Format.of(name)


@contextlib.contextmanager
def write_atomically(name: str) -> Iterator[BinaryIO]:
    """A binary file that takes its name only once it is whole; `-` is standard output."""
    if name == "-":
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            try:
                shutil.copyfileobj(file, sys.stdout.buffer)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise ClosedPipe from None
        return
    path = Path(name).resolve()  # a symbolic link stays one
    if _is_device(path):
        with open(path, "wb") as file:
            yield file
        return
    prefix = f".{path.name[:100]}."
    handle, temporary = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise UsageError(f"{name}: cannot be written: {error.strerror}") from error
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


WriteBatch = Callable[[pa.RecordBatch], None]


@contextlib.contextmanager
def table_writer(name: str, schema: pa.Schema) -> Iterator[WriteBatch]:
    """A function that appends batches of the schema to a table, written atomically."""
    form = _target_format(name)
    with write_atomically(name) as file:
        if form.kind == "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                yield writer.write_batch
            return
        delimiter = DELIMITERS[form.kind]
        header = pa.RecordBatch.from_pylist([{n: n for n in schema.names}])
        with _compressed(file, form.compression) as packed:
            packed.write(_lines(header, delimiter))
            yield lambda batch: packed.write(_lines(batch, delimiter))


@contextlib.contextmanager
def _compressed(file: BinaryIO, compression: str | None) -> Iterator[Any]:
    """The file behind a codec, which writes neither name nor time into it."""
    if compression is None:
        yield file
        return
    # closing the codec closes what it writes to, so it gets a handle of its own
    with (
        open(os.dup(file.fileno()), "wb") as own,
        pa.CompressedOutputStream(own, compression) as packed,
    ):
        yield packed


def _lines(batch: pa.RecordBatch, delimiter: str) -> pa.Buffer | bytes:
    """Rows as delimited text; a value is quoted only where it must be."""
    if batch.num_rows == 0:
        return b""
    columns = []
    for column in batch.columns:
        if pa.types.is_string(column.type):
            special = pc.match_substring_regex(column, f'["\r\n{delimiter}]')
            if pc.any(special).as_py():
                quoted = pc.binary_join_element_wise(
                    "", pc.replace_substring(column, '"', '""'), "", '"'
                )
                column = pc.if_else(special, quoted, column)
        else:
            column = pc.cast(column, pa.string())
        columns.append(column)
    last = pc.binary_join_element_wise(
        columns[-1], "", "\n", null_handling="replace", null_replacement=""
    )
    rows = pc.binary_join_element_wise(
        *columns[:-1], last, delimiter, null_handling="replace", null_replacement=""
    )
    return pc.binary_join(pa.ListArray.from_arrays([0, len(rows)], rows), "")[0].as_buffer()


def write_json(name: str, value: Any) -> None:
    """A JSON document with the keys in their order, one list of numbers to a line."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    number = r"-?\d[^\s,\[\]]*"
    text = re.sub(
        rf"\[\s+({number}(?:,\s+{number})*)\s+\]",
        lambda match: "[" + re.sub(r"\s+", " ", match[1]) + "]",
        text,
    )
    with write_atomically(name) as file:
        file.write(text.encode() + b"\n")


def read_json(name: str) -> Any:
    """A JSON document from a file, or `-` for standard input."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file") from None
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"{name}: not a JSON file") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}: not a JSON file ({error})") from None


def read_bytes(name: str) -> io.BytesIO:
    """A whole file in memory."""
    try:
        return io.BytesIO(Path(name).read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file") from None
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error
