"""Files in: the format a name states, the bytes, documents and archives read whole."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import re
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar, cast

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .. import __version__
from ..errors import (
    InputError,
    MachineError,
    PunoiseError,
    UsageError,
    from_os_error,
    option,
)
from .notation import Marks

DELIMITERS = {"csv": ",", "tsv": "\t"}
TEXTS = (*DELIMITERS, "txt", "vcf")  # kinds of text; those without a delimiter have any
# the kind of table that a suffix states; a vcf is recognized only to be refused, and a .pin file is
# read by one command
SUFFIXES = {"csv": "csv", "tsv": "tsv", "tab": "tsv", "txt": "txt", "parquet": "parquet"}
SUFFIXES |= {"vcf": "vcf", "bcf": "vcf", "pin": "pin"}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
BGZIP = ".bgz"  # gzip in blocks, which is read but not written
MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"PAR1": ".parquet"}
MAGIC |= {b"PK\x03\x04": ".xlsx", b"\xd0\xcf\x11\xe0": ".xls"}
BLOCK_BYTES = 1 << 22
MAX_BYTES = 1 << 30  # of a file that is read whole
MAX_UNPACKED = 1 << 24  # bytes of a compressed document: a small file may unpack to any size


def split_compression(name: str) -> tuple[str, str | None]:
    """A file's name without the suffix of its compression, and the codec."""
    for suffix, codec in (*COMPRESSIONS.items(), (BGZIP, "gzip")):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)], codec
    return name, None


@dataclass(frozen=True)
class Format:
    """A file's kind (a value of SUFFIXES), and the compression around it."""

    kind: str
    compression: str | None = None

    @classmethod
    def from_name(cls, name: str, kind: str | None = None) -> Format:
        """The format that a file's name states; `kind` overrides the suffix."""
        stem, compression = split_compression(name)
        kind = kind or SUFFIXES.get(Path(stem).suffix.lower().removeprefix("."))
        if kind is None or (kind == "parquet" and compression):
            raise UsageError(
                f"{name}: cannot tell the format from the name; use .csv, .tsv, .tab or .txt (.gz "
                "or .zst may follow) or .parquet; input tables may also be .xlsx or .bgz, or have "
                f"any name with {option('input_format')}"
            )
        return cls(kind, compression)


@dataclass(frozen=True)
class Dialect:
    """How a text table is written."""

    delimiter: str
    quote: str
    header: tuple[str, ...]  # '' for a column without a name
    lines: int  # before the rows
    marks: Marks  # what its values say about the decimal mark

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [name for name in self.header if name]


class Spool:
    """A temporary file, gone as soon as nothing refers to it.

    On Linux it has no name, so that not even a killed process leaves it.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        # elsewhere all openings of /dev/fd/N share one position, if there is such a file
        if sys.platform == "linux":
            self.file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed below
        else:
            descriptor, self.name = tempfile.mkstemp(prefix="punoise-")
            self.file = open(descriptor, "w+b")  # noqa: SIM115 - closed below

    @property
    def path(self) -> str:
        """A name by which it can be opened, so that Arrow's threads need not call Python."""
        self.file.flush()
        return self.name or f"/dev/fd/{self.file.fileno()}"

    def __del__(self) -> None:
        if hasattr(self, "file"):  # there was room for it
            self.file.close()
        if self.name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.name)


@dataclass(frozen=True, eq=False)
class Copy:
    """The rows of a shard in Arrow's file format."""

    spool: Spool
    places: Mapping[str, int]  # of columns in the file

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Columns of all rows in order, so many rows at a time."""
        wanted = sorted(self.places[name] for name in columns)
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        with pa.OSFile(self.spool.path) as source:
            reader = pa.ipc.open_file(source, options=options)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number).select(columns)
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)


@dataclass
class ShardFacts:
    """What was found out about a shard while its rows were read."""

    rows: int | None = None
    digest: str | None = None
    copy: Copy | None = None


@dataclass(frozen=True)
class Shard:
    """One file of a table; a stream, a workbook or text in UTF-16 is copied to a temporary file."""

    name: str
    format: Format
    path: str
    spool: Spool | None = None  # a copy of its bytes, kept open as long as the shard lives
    dialect: Dialect | None = None  # of text
    # rows that are in memory, in place of a file
    table: pa.Table | None = field(default=None, compare=False)
    facts: ShardFacts = field(default_factory=ShardFacts, init=False, compare=False, repr=False)

    def open(self) -> pa.NativeFile:
        """Open the decompressed bytes from the start."""
        if self.format.compression:
            return pa.CompressedInputStream(self._raw(), self.format.compression)
        return self._raw()

    def _raw(self) -> pa.NativeFile:
        if self.spool is not None:
            self.spool.file.seek(0)
        return pa.OSFile(os.fsencode(self.path))  # a name need not be UTF-8

    @property
    def num_rows(self) -> int | None:
        """The number of rows, known without reading them only for Parquet and in memory."""
        if self.facts.rows is None and self.table is not None:
            self.facts.rows = int(self.table.num_rows)
        if self.facts.rows is None and self.format.kind == "parquet":
            with input_errors(self.name):
                self.facts.rows = int(self.parquet().metadata.num_rows)
        return self.facts.rows

    def set_num_rows(self, rows: int) -> None:
        """Keep the number of rows that was counted."""
        self.facts.rows = rows

    def parquet(self, coded: Sequence[str] = ()) -> Any:
        """Open the Parquet file, reading the `coded` columns as dictionaries of their values."""
        import pyarrow.parquet as pq

        return pq.ParquetFile(
            self.open(), read_dictionary=list(coded), page_checksum_verification=True
        )

    def sha256(self) -> str:
        """The digest of the bytes on disk or of the stream."""
        if self.facts.digest is None:
            digest = hashlib.sha256()
            with input_errors(self.name), self._raw() as raw:
                while block := raw.read(BLOCK_BYTES):
                    digest.update(block)
            self.facts.digest = digest.hexdigest()
        return self.facts.digest

    def set_digest(self, digest: str) -> None:
        """Store a digest computed elsewhere."""
        self.facts.digest = digest

    @property
    def copy(self) -> Copy | None:
        """A columnar copy of its rows, if text was copied."""
        return self.facts.copy

    def set_copy(self, copy: Copy) -> None:
        """Have rows read from a copy."""
        self.facts.copy = copy


def magic_suffix(start: bytes) -> str | None:
    """The suffix that belongs to a file's first bytes."""
    return next((suffix for magic, suffix in MAGIC.items() if start.startswith(magic)), None)


@contextlib.contextmanager
def input_errors(name: str) -> Iterator[None]:
    """Turn errors of readers into errors of this file or of the machine."""
    try:
        yield
    except MemoryError as error:  # Arrow's is an ArrowException too
        raise MachineError(f"{name}: out of memory") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
        if (fault := from_os_error(name, error)) is not None:
            raise fault from error
        reason = str(error).split("\n")[0]
        if "invalid utf8" in reason.lower() or isinstance(error, UnicodeDecodeError):
            place = re.search(r"Row #(\d+)", reason)
            where = f" in line {place[1]}" if place else ""
            reason = f"text{where} is not UTF-8; convert it, e.g. with iconv -f LATIN1 -t UTF-8"
        elif "straddling" in reason:
            reason = f"a row is longer than {BLOCK_BYTES} bytes, or a quote is never closed"
        elif "Parquet magic" in reason or "Parquet file size" in reason:
            reason = "not a Parquet file"
        raise InputError(f"{name}: {reason}") from error


@contextlib.contextmanager
def usage_errors(name: str) -> Iterator[None]:
    """Turn errors about the name of a file into errors of usage or of the machine."""
    try:
        yield
    except PunoiseError:
        raise
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file") from None
    except (OSError, ValueError) as error:  # the latter of a NUL in the name
        raise from_os_error(name, error) or UsageError(f"{name}: {error}") from error


def read_bytes(name: str) -> io.BytesIO:
    """Read a whole file into memory; `-` is standard input."""
    with usage_errors(name):
        if name == "-":
            if sys.stdin is None:
                raise UsageError("standard input is closed")
            raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(name, "rb") as file:
                if stat.S_ISCHR(os.fstat(file.fileno()).st_mode) and not file.isatty():
                    raise UsageError(f"{name}: is a device")
                raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InputError(f"{name}: has more than {MAX_BYTES} bytes")
    return io.BytesIO(raw)


# ---- Documents: JSON whose keys are the fields of a msgspec.Struct

Document = TypeVar("Document", bound=msgspec.Struct)
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def read_document(name: str, kind: type[Document]) -> Document:
    """Read a document from a file and check all of it."""
    return parse_document(name, read_json(name), kind)


def parse_document(name: str, value: Any, kind: type[Document]) -> Document:
    """Check a JSON value against a Struct; an input error names the file and the place.

    If the Struct has a field `schema`, the document must state its default. Numbers must be
    finite. Lone surrogates, which JSON can escape, become text.
    """
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    schema = defaults.get("schema", kind.__name__)
    stated = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(value, dict) or ("schema" in defaults and stated != schema):
        raise InputError(f"{name}: not a {schema} document")
    try:
        return msgspec.convert(_portable(value, "$"), kind)
    except (ValueError, RecursionError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise InputError(f"{name}: not a valid {schema} document ({reason})") from None


def _portable(value: Any, place: str) -> Any:
    """The same value in Unicode text and finite numbers."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number - at `{place}`")
    if isinstance(value, list):
        return [_portable(item, f"{place}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {_portable(k, place): _portable(v, f"{place}.{k}") for k, v in value.items()}
    return value


def document(value: msgspec.Struct) -> dict[str, Any]:
    """The JSON object of a document, its keys in the order of the fields."""
    fields: dict[str, Any] = msgspec.to_builtins(value)
    return fields


def read_json(name: str) -> Any:
    """Read JSON from a file, which may be compressed; `-` is standard input."""
    raw = read_bytes(name).getvalue()
    try:
        if (suffix := magic_suffix(raw)) in COMPRESSIONS:
            packed = pa.CompressedInputStream(pa.py_buffer(raw), COMPRESSIONS[suffix])
            raw = packed.read(MAX_UNPACKED + 1)
            if len(raw) > MAX_UNPACKED:
                raise InputError(f"{name}: unpacks to more than {MAX_UNPACKED} bytes")
        return json.loads(raw)
    except PunoiseError:
        raise
    except (ValueError, RecursionError, OSError) as error:
        if (fault := from_os_error(name, error)) is not None:
            raise fault from error
        reason = "too deep" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{name}: not a JSON file ({reason[:200]})") from None


# ---- Archives: a zip of plain arrays and a JSON header, nothing that executes

Arrays = dict[str, NDArray[np.generic]]
MAX_SHOWN = 60
MAX_WEIGHT = 1e15  # of a stored model: sums of such stay finite in 32 bits


def check_weights(weights: NDArray[np.generic], shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless weights have a shape and are finite and not huge."""
    if weights.shape != shape:
        raise ValueError(f"weights of shape {weights.shape}, not {shape}")
    if not (np.abs(weights.astype(np.float64)) <= MAX_WEIGHT).all():
        raise ValueError("weights are not finite, or too large")


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays with a prefix to their names."""
    return {prefix + name: array for name, array in arrays.items()}


def part_of(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays whose names start with a prefix, without it."""
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def write_archive(
    file: BinaryIO, form: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a header and arrays; equal ones give equal bytes."""
    head = json.dumps({"format": form, "punoise_version": __version__, **header})
    named: Arrays = {"header": np.frombuffer(head.encode(), np.uint8), **arrays}
    np.savez(file, **named)  # type: ignore[arg-type]


def read_archive(
    name: str, file: BinaryIO, form: str, known: Callable[[str], bool]
) -> tuple[dict[str, Any], Arrays]:
    """Read an archive; anything that is not one of this format is an input error.

    `known` tells whether an array may have a name. Sizes are checked against the index and the
    size of the file before members are read: they are stored, not compressed.
    """
    kind = form.split("/")[0].removeprefix("punoise.")
    try:
        with zipfile.ZipFile(file) as stored:
            arrays = {key: _array(raw) for key, raw in _members(stored, file, known)}
        header = json.loads(bytes(arrays.pop("header")))
        stated = header["format"]
    except MemoryError:
        raise
    except Exception as error:  # of zipfile, numpy, tokenize or json: the file is damaged
        raise InputError(f"{name}: not a punoise {kind}") from error
    if stated != form:
        shown = stated[:MAX_SHOWN] if isinstance(stated, str) else type(stated).__name__
        raise InputError(f"{name}: has format {shown!r}; this punoise reads {form!r}")
    return header, arrays


def _members(
    stored: zipfile.ZipFile, file: BinaryIO, known: Callable[[str], bool]
) -> Iterator[tuple[str, bytes]]:
    """The arrays as bytes, by name, after checking the index."""
    infos = stored.infolist()
    if sum(info.file_size for info in infos) > file.seek(0, os.SEEK_END):
        raise ValueError("the members are larger than the file")
    for info in infos:
        key = info.filename.removesuffix(".npy")
        if info.compress_type != zipfile.ZIP_STORED or not (key == "header" or known(key)):
            raise ValueError(f"{info.filename} does not belong here")
    if len({info.filename for info in infos}) < len(infos):
        raise ValueError("a member appears twice")
    for info in infos:
        yield info.filename.removesuffix(".npy"), stored.read(info)


def _array(raw: bytes) -> NDArray[Any]:
    """An array in numpy's format, which must have exactly the bytes that its shape states."""
    file = io.BytesIO(raw)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("unknown version of numpy's format")
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "biufU" or min(shape, default=0) < 0:
        raise ValueError("neither numbers nor text")
    if math.prod(shape) * dtype.itemsize != len(raw) - file.tell():
        raise ValueError("wrong size")
    numbers = np.frombuffer(raw, dtype, offset=file.tell())
    return numbers.reshape(shape, order="F" if by_column else "C")
