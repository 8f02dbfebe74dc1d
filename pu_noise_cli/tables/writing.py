"""Files out: tables, JSON and text, which take their name only when they are complete.

A writer holds a lock on its temporary file, which the system releases when the process ends in any
way. So the next writer knows which temporary files nobody will finish.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import (
    ClosedPipe,
    MachineError,
    UsageError,
    from_os_error,
    interrupts,
    is_out_of_memory,
    uninterrupted,
)
from .files import BGZIP, COMPRESSIONS, DELIMITERS, Format
from .reading import PARQUET_KEY, existing_files

TEMPORARY = re.compile(r"(\..*\.)[a-z0-9_]{8}\.tmp", re.DOTALL)
_UMASK_LOCK = threading.Lock()

# ---- Temporary files


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file: False if another process holds the lock, None if locks are missing."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def remove_unless_locked(path: str, lock: str) -> None:
    """Remove a file or directory if no process holds the lock of a file that belongs to it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if try_lock(descriptor):
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        finally:
            os.close(descriptor)


def remove_temporaries(directory: str, names: Iterable[str]) -> None:
    """Remove what killed processes left while they wrote files of these names."""
    prefixes = {_prefix(name) for name in names}
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            match = TEMPORARY.fullmatch(entry.name)
            if match and match[1] in prefixes:
                remove_unless_locked(entry.path, entry.path)


def _prefix(name: str) -> str:
    return f".{os.fsdecode(os.fsencode(name)[:100])}."


def _open_temporary(path: Path) -> tuple[int, str]:
    """A locked temporary file beside a path, as descriptor and name."""
    remove_temporaries(str(path.parent), [path.name])
    while True:
        descriptor, name = tempfile.mkstemp(".tmp", _prefix(path.name), path.parent)
        if try_lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # another process took it for abandoned before it was locked


def keep_mode(temporary: str, path: Path) -> None:
    """Give a file the permissions of the one that it will replace, or those of a new file."""
    try:
        mode = os.stat(path).st_mode & 0o777
    except OSError:
        mode = 0o666 & ~_umask()
    os.chmod(temporary, mode)


def _umask() -> int:
    with _UMASK_LOCK:  # of two threads, one would restore the other's 0
        mask = os.umask(0)
        os.umask(mask)
        return mask


# ---- Targets


def check_target(name: str) -> None:
    """Raise a usage error, before any work is done, if an output cannot be written."""
    if _is_stdout(name):
        return
    try:
        if Path(name).is_dir():
            raise UsageError(f"{name}: is a directory")
        if _is_device(name):
            writable = os.access(name, os.W_OK)
        else:
            path = _resolved(name)
            if not path.parent.is_dir():
                raise UsageError(f"{name}: the directory {str(path.parent)!r} does not exist")
            with contextlib.suppress(FileNotFoundError):
                os.lstat(path)  # an impossible name is an error here
            writable = os.access(path.parent, os.W_OK | os.X_OK)
    except (OSError, ValueError) as error:
        raise from_os_error(name, error) or UsageError(f"{name}: {error}") from error
    if not writable:
        raise UsageError(f"{name}: permission denied")


def _resolved(name: str) -> Path:
    """The file that is replaced: the target of a symbolic link, not the link."""
    path = Path(os.path.realpath(name))
    if path.is_symlink():
        raise UsageError(f"{name}: is a symbolic link to itself")
    return path


def check_distinct(outputs: Iterable[str | None], inputs: Iterable[str | None]) -> None:
    """Raise a usage error if two outputs are one file, or an output would replace an input."""
    taken = {os.path.realpath(file) for name in inputs if name for file in existing_files(name)}
    for name in outputs:
        if name and not _is_stdout(name) and not _is_device(name):
            path = os.path.realpath(name)
            if path in taken:
                raise UsageError(f"{name}: would overwrite an input or another output")
            taken.add(path)


def make_directory(name: str) -> None:
    """Make a directory for outputs unless it exists."""
    try:
        os.makedirs(name, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"{name}: is not a directory") from error
    except (OSError, ValueError) as error:
        raise from_os_error(name, error) or UsageError(f"{name}: {error}") from error
    if not os.access(name, os.W_OK | os.X_OK):
        raise UsageError(f"{name}: permission denied")


@contextlib.contextmanager
def new_directory(name: str) -> Iterator[None]:
    """Make a directory for outputs, removed again if it stays empty after an error."""
    make_directory(name)
    interrupts.cleanups[name] = functools.partial(os.rmdir, name)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.rmdir(name)
        raise
    finally:
        interrupts.cleanups.pop(name, None)


def check_table_target(name: str) -> None:
    """check_target for a table, whose name must state a format that is written."""
    check_target(name)
    _target_format(name)


def _is_device(name: str) -> bool:
    return os.path.exists(name) and not os.path.isfile(name)


def _target_format(name: str) -> Format:
    if _is_stdout(name) or _is_device(name):
        return Format("tsv")
    form = Format.from_name(name)
    if name.lower().endswith(BGZIP):
        raise UsageError(f"{name}: {BGZIP} is read but not written; use .gz, or pipe it to bgzip")
    if form.kind not in (*DELIMITERS, "txt", "parquet"):
        raise UsageError(f"{name}: .{form.kind} files are read but not written; use .tsv")
    return replace(form, kind="tsv") if form.kind == "txt" else form


def is_json(name: str) -> bool:
    """Whether an output is written as JSON rather than as a table."""
    return _is_stdout(name) or ".json" in Path(name.lower()).suffixes


def _is_stdout(name: str) -> bool:
    return name in ("-", "/dev/stdout")


# ---- Content


@contextlib.contextmanager
def write_atomically(name: str) -> Iterator[BinaryIO]:
    """A binary file that takes its name only when it is complete; `-` is standard output."""
    write = _write_stdout if _is_stdout(name) else _write_device if _is_device(name) else _replace
    try:
        with write(name) as file:
            yield file
    except BrokenPipeError:
        raise ClosedPipe from None
    except (OSError, pa.ArrowException) as error:
        what = f"{name}: cannot be written"
        if isinstance(error, OSError) or is_out_of_memory(error):
            raise from_os_error(what, error) or MachineError(f"{what}: {error}") from error
        raise


@contextlib.contextmanager
def _write_stdout(_: str) -> Iterator[BinaryIO]:
    if sys.stdout is None:
        raise UsageError("standard output is closed")
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        try:
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        except OSError:  # do not flush the rest of the buffer again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise


@contextlib.contextmanager
def _write_device(name: str) -> Iterator[BinaryIO]:
    with open(name, "wb") as file:
        yield file


@contextlib.contextmanager
def _replace(name: str) -> Iterator[BinaryIO]:
    path, temporary = _resolved(name), ""
    try:
        with uninterrupted():
            handle, temporary = _open_temporary(path)
            interrupts.cleanups[temporary] = functools.partial(os.unlink, temporary)
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            keep_mode(temporary, path)
            os.replace(temporary, path)  # while it is locked
    except BaseException:
        with uninterrupted(), contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    finally:
        interrupts.cleanups.pop(temporary, None)


ROW_GROUP, ROW_GROUP_BYTES = 1 << 19, 1 << 28  # rows and bytes, reached first
WriteBatch = Callable[[pa.RecordBatch], None]


@contextlib.contextmanager
def table_writer(
    name: str, schema: pa.Schema, unique: Sequence[str] = (), key: str | None = None
) -> Iterator[WriteBatch]:
    """A function that appends batches of the schema to a table, written atomically.

    Parquet gets dictionaries for all columns but the `unique` ones, the schema's metadata, and the
    key.
    """
    form = _target_format(name)
    with write_atomically(name) as file:
        if form.kind == "parquet":
            coded = [column for column in schema.names if column not in unique]
            if key is not None:
                schema = schema.with_metadata({**(schema.metadata or {}), PARQUET_KEY: key})
            with _parquet_writer(file, schema, coded) as write:
                yield write
            return
        delimiter = DELIMITERS[form.kind]
        header = pa.RecordBatch.from_pylist([{n: n for n in schema.names}])
        with _compressed(file, form.compression) as packed:
            packed.write(_lines(header, delimiter))
            yield lambda batch: packed.write(_lines(batch, delimiter))


@contextlib.contextmanager
def _parquet_writer(
    file: BinaryIO, schema: pa.Schema, coded: Sequence[str]
) -> Iterator[WriteBatch]:
    """Collect batches into large row groups."""
    import pyarrow.parquet as pq

    pending: list[pa.RecordBatch] = []
    with pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=coded, write_page_checksum=True
    ) as writer:

        def flush() -> None:
            if pending:
                writer.write_table(pa.Table.from_batches(pending))
                pending.clear()

        def write(batch: pa.RecordBatch) -> None:
            pending.append(batch)
            rows, size = sum(b.num_rows for b in pending), sum(b.nbytes for b in pending)
            if rows >= ROW_GROUP or size >= ROW_GROUP_BYTES:
                flush()

        yield write
        flush()


@contextlib.contextmanager
def _compressed(file: BinaryIO, compression: str | None) -> Iterator[Any]:
    """The file behind a codec, which writes neither name nor time."""
    if compression is None:
        yield file
        return
    # closing the codec closes its file, so it gets its own handle
    with (
        open(os.dup(file.fileno()), "wb") as own,
        pa.CompressedOutputStream(own, compression) as packed,
    ):
        yield packed


def _lines(batch: pa.RecordBatch, delimiter: str) -> pa.Buffer | bytes:
    """Rows as delimited text, with quotes only where they are needed."""
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


def write_table(name: str, batch: pa.RecordBatch) -> None:
    """Write a table that is in memory."""
    with table_writer(name, batch.schema) as write:
        write(batch)


def write_json(name: str, value: Any) -> None:
    """Write JSON with keys in their order and a list of plain values on one line."""
    compression = COMPRESSIONS.get(Path(name).suffix.lower())
    # bytes of a name that are not UTF-8 are lone surrogates, which JSON can escape
    text = _json(value, "\n").encode("utf-8", "backslashreplace") + b"\n"
    with write_atomically(name) as file, _compressed(file, compression) as packed:
        packed.write(text)


def write_text(name: str, text: str) -> None:
    """Write a text file."""
    with write_atomically(name) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


SUMMARY_SCHEMA = pa.schema([(name, pa.string()) for name in ("figure", "row", "quantity", "value")])


def write_figures(
    directory: str,
    images: Iterable[tuple[str, bytes]],
    summary: Iterable[tuple[str, str, str, str]],
) -> None:
    """Write images by name into a directory, and summary.tsv with their numbers."""
    for name, content in images:
        with write_atomically(os.path.join(directory, name)) as file:
            file.write(content)
    rows = [dict(zip(SUMMARY_SCHEMA.names, row, strict=True)) for row in summary]
    batch = pa.RecordBatch.from_pylist(rows, SUMMARY_SCHEMA)
    write_table(os.path.join(directory, "summary.tsv"), batch)


def _json(value: Any, newline: str) -> str:
    inner = newline + "  "
    if isinstance(value, dict) and value:
        items = (f"{json.dumps(k)}: {_json(v, inner)}" for k, v in value.items())
        return "{" + inner + f",{inner}".join(items) + newline + "}"
    if isinstance(value, list | tuple) and any(isinstance(v, dict | list | tuple) for v in value):
        return "[" + inner + f",{inner}".join(_json(item, inner) for item in value) + newline + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
