"""Files out: each takes its name only when it is complete.

A temporary file has the machine and the process of its writer in its name. So the next writer of
the same file knows which ones nobody will finish.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import threading
import time
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
from .files import (
    BGZIP,
    COMPRESSIONS,
    DELIMITERS,
    Format,
    split_compression,
    usage_errors,
)
from .reading import existing_files

_TEMPORARY = re.compile(
    r"(?P<target>\..*\.)(?P<host>[0-9a-f]{8})-(?P<process>[0-9]{1,9})-[a-z0-9_]{8}\.tmp", re.DOTALL
)
_ABANDONED_SECONDS = 86_400  # a writer on another machine is gone if it has written nothing since
_UMASK_LOCK = threading.Lock()

# ---- Temporary files


@functools.cache
def _host() -> str:
    """A short name of the machine, or the container, in which process numbers are unique."""
    names = [platform.node()]
    with contextlib.suppress(OSError):
        names.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(":".join(names).encode("utf-8", "replace")).hexdigest()[:8]


def _target_prefix(name: str) -> str:
    return f".{os.fsdecode(os.fsencode(name)[:100])}."


def _unique_prefix(name: str) -> str:
    return f"{_target_prefix(name)}{_host()}-{os.getpid()}-"


def remove_abandoned(directory: Path, name: str) -> None:
    """Remove what killed processes left in a directory when they wrote a file of this name."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            match = _TEMPORARY.fullmatch(entry.name)
            if match is None or match["target"] != _target_prefix(name):
                continue
            with contextlib.suppress(OSError):
                if _is_abandoned(entry, match["host"], int(match["process"])):
                    _remove(entry.path)


def _is_abandoned(entry: os.DirEntry[str], host: str, process: int) -> bool:
    """Whether the process that wrote a temporary file is gone."""
    if host == _host() and os.name == "posix":  # elsewhere signal 0 is not harmless
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # of another user, so it lives
            pass
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_SECONDS


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


@contextlib.contextmanager
def _temporary(make: Callable[[], str]) -> Iterator[str]:
    """A temporary file or directory, removed at the end unless it got another name."""
    with uninterrupted():
        path = make()
        interrupts.cleanups[path] = functools.partial(_remove, path)
    try:
        yield path
    finally:
        with uninterrupted(), contextlib.suppress(OSError):
            interrupts.cleanups.pop(path)
            _remove(path)


@contextlib.contextmanager
def temporary_directory(parent: Path) -> Iterator[Path]:
    """A hidden directory in another one, for files that will take their names there."""
    name = "punoise"
    remove_abandoned(parent, name)
    with _temporary(lambda: tempfile.mkdtemp(".tmp", _unique_prefix(name), parent)) as path:
        yield Path(path)


def take_name(temporary: Path, path: Path) -> None:
    """Give a temporary file its name, with the permissions of the file that it replaces."""
    keep_mode(str(temporary), path)
    os.replace(temporary, path)


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
    with usage_errors(name):
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
    """Make a directory for outputs unless it exists.

    Directories that it makes go again if they are empty when an error or a signal ends the command.
    """
    with usage_errors(name):
        if os.path.lexists(name) and not os.path.isdir(name):
            raise UsageError(f"{name}: is not a directory")
        path = Path(name).absolute()
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            interrupts.cleanups[str(folder)] = functools.partial(os.rmdir, folder)
        os.makedirs(name, exist_ok=True)
    if not os.access(name, os.W_OK | os.X_OK):
        raise UsageError(f"{name}: permission denied")


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
    return _is_stdout(name) or split_compression(name)[0].lower().endswith(".json")


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
    path = _resolved(name)
    remove_abandoned(path.parent, path.name)
    with _temporary(lambda: _make_file(path)) as temporary:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        take_name(Path(temporary), path)


def _make_file(path: Path) -> str:
    descriptor, name = tempfile.mkstemp(".tmp", _unique_prefix(path.name), path.parent)
    os.close(descriptor)
    return name


ROW_GROUP, ROW_GROUP_BYTES = 1 << 19, 1 << 28  # rows and bytes, reached first
WriteBatch = Callable[[pa.RecordBatch], None]


class MemoryTable:
    """A table that is written to memory."""

    def __init__(self) -> None:
        self.table: Any = None  # of Arrow, once it is complete

    @contextlib.contextmanager
    def writer(self, schema: pa.Schema) -> Iterator[WriteBatch]:
        """A function that appends batches of the schema."""
        batches: list[pa.RecordBatch] = []
        yield batches.append
        self.table = pa.Table.from_batches(batches, schema)


@contextlib.contextmanager
def table_writer(name: str, schema: pa.Schema, unique: Sequence[str] = ()) -> Iterator[WriteBatch]:
    """A function that appends batches of the schema to a table, written atomically.

    Parquet gets dictionaries for all columns but the `unique` ones, and the schema's metadata.
    """
    form = _target_format(name)
    with write_atomically(name) as file:
        if form.kind == "parquet":
            coded = [column for column in schema.names if column not in unique]
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
    """Collect batches into large row groups; the sizes of batches do not show in the file."""
    import pyarrow.parquet as pq

    pending: list[pa.RecordBatch] = []
    with pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=coded, write_page_checksum=True
    ) as writer:

        def flush() -> None:
            if pending:
                table = pa.Table.from_batches(pending).combine_chunks()
                pending.clear()
                writer.write_table(table)

        def write(batch: pa.RecordBatch) -> None:
            while batch.num_rows:
                room = ROW_GROUP - sum(b.num_rows for b in pending)
                pending.append(batch.slice(0, room))
                batch = batch.slice(room)
                if (
                    pending[-1].num_rows == room
                    or sum(b.nbytes for b in pending) >= ROW_GROUP_BYTES
                ):
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


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _json(value: Any, newline: str) -> str:
    inner = newline + "  "
    if isinstance(value, dict) and value:
        items = (f"{json.dumps(k)}: {_json(v, inner)}" for k, v in value.items())
        return "{" + inner + f",{inner}".join(items) + newline + "}"
    if isinstance(value, list | tuple) and any(isinstance(v, dict | list | tuple) for v in value):
        return "[" + inner + f",{inner}".join(_json(item, inner) for item in value) + newline + "]"
    return _encode(value)
