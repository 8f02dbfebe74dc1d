"""Files out: single files and a run's directory, whose files take their names when complete.

A writer holds a lock on its temporary file, which the system releases when the process ends in any
way. So the next writer knows which temporary files nobody will finish.

The files of a run are written into a hidden stage inside the directory and moved to their names at
the end. Meanwhile the mark UNFINISHED lies beside them, and provenance.json, which has all digests,
is missing. After a kill, commands refuse to read marked files; the next run replaces them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from .. import __version__
from ..errors import (
    ClosedPipe,
    InputError,
    MachineError,
    PunoiseError,
    UsageError,
    from_os_error,
    interrupts,
    is_out_of_memory,
    option,
    uninterrupted,
)
from ..notices import Notice
from ..platforms import LOCK_FLAGS, open_directory, try_lock
from ..platforms import replace as replace_file
from .columns import ColumnSummary
from .files import (
    BGZIP,
    COMPRESSIONS,
    DELIMITERS,
    Count,
    Format,
    read_document,
    split_compression,
    usage_errors,
)
from .reading import MANIFEST, existing_files

TEMPORARY = re.compile(r"(\..*\.)[a-z0-9_]{8}\.tmp", re.DOTALL)
_UMASK_LOCK = threading.Lock()

# ---- Temporary files


@contextlib.contextmanager
def _undone(path: str, undo: Callable[[], None]) -> Iterator[None]:
    """Undo what was begun at a path if an error or a signal ends it."""
    interrupts.cleanups[path] = undo
    try:
        yield
    except BaseException:
        with uninterrupted(), contextlib.suppress(OSError):
            undo()
        raise
    finally:
        interrupts.cleanups.pop(path)


def remove_unless_locked(path: str, lock: str) -> None:
    """Remove a file or directory if no process holds the lock of a file that belongs to it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(lock, LOCK_FLAGS)
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
    with contextlib.ExitStack() as stack:
        with uninterrupted():
            handle, temporary = _open_temporary(path)
            stack.enter_context(_undone(temporary, functools.partial(os.unlink, temporary)))
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            keep_mode(temporary, path)
            replace_file(file, temporary, path)


ROW_GROUP, ROW_GROUP_BYTES = 1 << 19, 1 << 28  # rows and bytes, reached first
WriteBatch = Callable[[pa.RecordBatch], None]


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


# ---- A run's directory: names and provenance

Schema = Literal["punoise.provenance/1"]
SCHEMA: Schema = "punoise.provenance/1"
PROVENANCE, UNFINISHED = "provenance.json", ".punoise-unfinished"
LOCK = ".lock"  # inside a stage
STAGE = re.compile(r"\.punoise-[a-z0-9_]{8}")
TABLE_FORMATS = ("parquet", "tsv", "csv")
SHARDED = ("scores", "posterior")  # tables that may be directories of shards
MANIFESTS = tuple(f"{name}/{MANIFEST}" for name in SHARDED)
DOCUMENTS = ("prior.json", "model.punoise", "report.html", PROVENANCE)
LISTS = ("candidates.tsv", "labels_to_check.tsv", "columns.tsv")
THRESHOLDS, GROUP_THRESHOLDS = ("thresholds.json", "thresholds.tsv"), "group_thresholds.tsv"
GROUPS = tuple(f"groups.{form}" for form in TABLE_FORMATS)
LEVELS = ("psms.tsv", "peptides.tsv", "proteins.tsv")
ROLLED_UP = (*LEVELS, *(f"decoys.{name}" for name in LEVELS), "matches.json")
# every file that a run may write
OUTPUTS = (
    *(f"{name}.{form}" for name in SHARDED for form in TABLE_FORMATS),
    *(*DOCUMENTS, *LISTS, *THRESHOLDS, GROUP_THRESHOLDS, *GROUPS, *ROLLED_UP),
)


class InputFile(msgspec.Struct, frozen=True):
    """A file of an input table."""

    table: str
    file: str
    sha256: str


class Provenance(msgspec.Struct, kw_only=True):
    """provenance.json: what a run was made from, so that it can be repeated and audited."""

    schema: Schema = SCHEMA
    punoise_version: str = __version__
    python_version: str
    inputs: list[InputFile]
    options: dict[str, Any]  # that results depend on
    execution: dict[str, Any]  # the other options, and how long each step took
    score_column: str | None  # None if the score was learned
    n_labeled: Count | None  # None if nothing was trained
    n_unlabeled: Count | None
    n_negatives: Count | None
    columns: list[ColumnSummary]
    warnings: list[Notice]
    files: dict[str, str] = {}  # SHA-256 by name


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of existing files in a directory, by name."""
    by_name = {}
    for name in existing(folder, names):
        if (folder / name).is_file():
            with open(folder / name, "rb") as file:
                by_name[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return by_name


def existing(folder: Path, names: Iterable[str]) -> list[str]:
    """The names of files or links in a directory; what lies behind a linked directory is not."""

    def exists(path: Path) -> bool:
        is_inside = path.parent == folder or not path.parent.is_symlink()
        return is_inside and (path.is_symlink() or path.is_file())

    return [name for name in names if exists(folder / name)]


def _earlier_files(folder: Path) -> list[str]:
    """The files in a directory that an earlier run wrote and nobody changed, by its provenance."""
    name = str(folder / PROVENANCE)
    if not os.path.isfile(name):
        return []
    try:
        written = read_document(name, Provenance).files
    except PunoiseError:
        return []
    unchanged = digests(folder, [n for n in (*OUTPUTS, *MANIFESTS) if n in written])
    return [PROVENANCE, *(name for name, digest in unchanged.items() if digest == written[name])]


def check_same_run(name: str, written: Mapping[str, str], files: Iterable[str]) -> None:
    """Raise an input error if a file beside a provenance is not the one that its run wrote.

    Parameters
    ----------
    name
        The name of the provenance.
    written
        Its digests of files.
    files
        Names of files that are read together with it.
    """
    folder = Path(name).resolve().parent
    beside = [Path(file).name for file in files if Path(file).resolve().parent == folder]
    for file, digest in digests(folder, [file for file in beside if file in written]).items():
        if digest != written[file]:
            raise InputError(
                f"{folder / file}: differs from what the run of {name} wrote; leave "
                f"{option('provenance')} out, or run it again"
            )


# ---- The mark


def is_unfinished(out_dir: str) -> bool:
    """Whether the files of a run in a directory may come from two runs."""
    return os.path.lexists(os.path.join(out_dir, UNFINISHED))


def check_finished(name: str) -> None:
    """Raise an input error if a file is one of a run that is still writing or was killed."""
    folder, file = os.path.split(name.rstrip("/"))
    if file in (*OUTPUTS, *SHARDED) and is_unfinished(folder):
        raise InputError(
            f"{name}: {folder or '.'} is incomplete, because a run was interrupted or is still "
            "writing; run the command again"
        )


def _mark(folder: Path) -> None:
    mark = folder / UNFINISHED
    if mark.is_dir():
        raise UsageError(f"{mark}: is a directory; remove it")
    if not os.path.lexists(mark):  # else it may be anything, so it is not opened
        mark.touch()


# ---- The stage


@dataclass(frozen=True)
class Stage:
    """A hidden directory for files that will take their names together in its parent."""

    path: Path
    out_dir: Path
    in_place: bool = False  # shards are written to their names meanwhile
    was_unfinished: bool = False  # if in place: the directory was marked already

    @property
    def earlier_files(self) -> set[str]:
        """The files that earlier runs wrote: by a provenance, or all after one was killed."""
        killed = self.was_unfinished if self.in_place else is_unfinished(str(self.out_dir))
        if killed:
            return {*existing(self.out_dir, (*OUTPUTS, *MANIFESTS))}
        return {*_earlier_files(self.out_dir)}

    def commit(self, last: str = PROVENANCE, obsolete: Iterable[str] = ()) -> list[str]:
        """Move all files to their names and remove obsolete ones; returns the names.

        The file `last` is removed before the others change, and written after them.
        """
        names = sorted(name for name in os.listdir(self.path) if name[0] != ".")
        folder = self.out_dir
        with (
            uninterrupted(),
            contextlib.nullcontext() if self.in_place else _only_writer(folder),
        ):
            for name in names:
                keep_mode(str(self.path / name), folder / name)
            _mark(folder)
            for name in (*sorted({*obsolete} - {*names}), last):
                (folder / name).unlink(missing_ok=True)
            for name in sorted(names, key=lambda name: name == last):
                os.replace(self.path / name, folder / name)
            (folder / UNFINISHED).unlink(missing_ok=True)
        return names


@contextlib.contextmanager
def staged(out_dir: str, in_place: bool = False) -> Iterator[Stage]:
    """A stage, removed afterwards, like stages that killed processes left.

    If shards are written in place, the directory is marked from the start. After an error the mark
    goes unless it was there before, and so do the manifests if any shard may have changed.
    """
    folder = Path(out_dir)
    with contextlib.ExitStack() as stack:
        if in_place:
            stack.enter_context(_only_writer(folder))
        was_unfinished = is_unfinished(out_dir)
        with uninterrupted():
            _remove_stages(folder)
            path, lock = _new_stage(folder)
            interrupts.cleanups[str(path)] = functools.partial(shutil.rmtree, path)
            stack.callback(_remove_stage, path, lock)
            if in_place:
                manifests = digests(folder, MANIFESTS)
                unmark = functools.partial(_unmark, folder, was_unfinished, manifests)
                _mark(folder)
                stack.enter_context(_undone(UNFINISHED, unmark))
        yield Stage(path, folder, in_place, was_unfinished)


def _unmark(folder: Path, was_unfinished: bool, manifests: Mapping[str, str]) -> None:
    """Remove the mark unless it was there before, and manifests unless they are as before."""
    if not is_unfinished(str(folder)):  # the run has finished
        return
    if digests(folder, MANIFESTS) != manifests:
        for name in existing(folder, MANIFESTS):
            (folder / name).unlink(missing_ok=True)
    if not was_unfinished:
        (folder / UNFINISHED).unlink(missing_ok=True)


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Hold the lock of a directory; another process that holds it is a usage error."""
    descriptor = open_directory(folder)
    try:
        if descriptor is not None and try_lock(descriptor) is False:
            raise UsageError(
                f"{folder}: is in use by another run; wait for it, or choose another directory"
            )
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _remove_stage(path: Path, lock: int) -> None:
    with uninterrupted():
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)
        interrupts.cleanups.pop(str(path))


def _remove_stages(folder: Path) -> None:
    """Remove the stages of processes that were killed."""
    for left in folder.iterdir():
        if STAGE.fullmatch(left.name) and left.is_dir() and not left.is_symlink():
            with contextlib.suppress(OSError):
                left.rmdir()  # without a lock it must be empty
            remove_unless_locked(str(left), str(left / LOCK))


def _new_stage(folder: Path) -> tuple[Path, int]:
    """A new stage, and the descriptor of its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=".punoise-", dir=folder))
        try:
            descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # another process took the empty directory for abandoned
            continue
        if try_lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
            return path, descriptor
        os.close(descriptor)
