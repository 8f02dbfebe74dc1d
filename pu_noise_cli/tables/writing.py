"""Files on their way to their names: alone or as a set, and what killed processes leave of them.

Whoever writes a temporary file or a stage holds a lock on it, which the system lets go when the
process ends in whatever way. So the next one to write there knows what nobody will finish.

A set of files takes its names by one rename, of the stage to COMMIT: before it the directory holds
all the old files, and after it whoever comes next moves what has not been moved. While COMMIT is
there, or UNFINISHED, which marks sets that are written in place, none of the files may be read.

Files out: tables and JSON that take their name only once they are whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import (
    ClosedPipe,
    InputError,
    MachineError,
    UsageError,
    is_out_of_memory,
    of_system,
    uninterrupted,
)
from .files import BGZIP, COMPRESSIONS, DELIMITERS, Format
from .reading import PARQUET_KEY, existing_files

COMMIT, UNFINISHED = ".punoise-commit", ".punoise-unfinished"
LOCK, PLAN = ".lock", ".plan"  # inside a stage
STAGE = re.compile(r"\.punoise-[a-z0-9_]{8}")
# a plan may have come with a directory from anywhere: it can name nothing else
PLANNED = re.compile(
    r"(scores|posterior|groups)\.(parquet|tsv|csv)|(scores|posterior)/_manifest\.json"
    r"|(labeled|unlabeled|negatives|truth)\.csv"
    r"|prior\.json|model\.punoise|report\.html|provenance\.json|thresholds\.(json|tsv)"
    r"|(psms|peptides|proteins)\.tsv"
)
TEMPORARY = re.compile(r"(\..*\.)[a-z0-9_]{8}\.tmp", re.DOTALL)
_ONE_AT_A_TIME = threading.Lock()


def _lock(descriptor: int, wait: bool) -> bool:
    """Take the lock of an open file; false where another has it or there are no locks here."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):
        return False
    return True


# ---- Single files


def temporary_for(path: Path) -> tuple[int, str]:
    """A temporary file beside a path, open and locked; what is left of earlier ones goes."""
    remove_temporaries(str(path.parent), [path.name])
    while True:
        descriptor, name = tempfile.mkstemp(".tmp", _prefix(path.name), path.parent)
        _lock(descriptor, wait=True)
        if os.fstat(descriptor).st_nlink:  # nobody took it for a leftover before it was locked
            return descriptor, name
        os.close(descriptor)


def _prefix(name: str) -> str:
    return f".{os.fsdecode(os.fsencode(name)[:100])}."


def remove_temporaries(directory: str, names: Iterable[str]) -> None:
    """Remove what processes have left there that were killed while they wrote such files."""
    prefixes = {_prefix(name) for name in names}
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            found = TEMPORARY.fullmatch(entry.name)
            if found and found[1] in prefixes:
                _remove_unless_locked(entry.path)


def _remove_unless_locked(name: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if _lock(descriptor, wait=False):
                os.unlink(name)
        finally:
            os.close(descriptor)


# ---- Sets of files


@dataclass(frozen=True)
class Stage:
    """A directory inside another one, for files that are to take their names there together."""

    path: Path
    out_dir: Path

    def commit(self, remove: Iterable[str] = ()) -> None:
        """Let all files of the stage take their names, and remove others of an earlier set."""
        names = sorted(name for name in os.listdir(self.path) if not name.startswith("."))
        plan = {"names": names, "remove": sorted(set(remove) - set(names))}
        with uninterrupted():
            _write_synced(self.path / PLAN, json.dumps(plan))
            try:
                os.rename(self.path, self.out_dir / COMMIT)
            except OSError as error:
                raise _in_use(self.out_dir) from error
            _finish(self.out_dir)


@contextlib.contextmanager
def staged(out_dir: str) -> Iterator[Stage]:
    """A stage, which is gone afterwards, as is what others have left in the directory."""
    recover(out_dir)
    path, descriptor = Path(), -1
    try:
        with uninterrupted():
            path, descriptor = _new_stage(out_dir)
        yield Stage(path, Path(out_dir))
    finally:
        with uninterrupted():
            if descriptor >= 0:
                shutil.rmtree(path, ignore_errors=True)
                os.close(descriptor)


def _in_use(folder: Path) -> UsageError:
    return UsageError(f"{folder}: another run writes there; wait for it, or name another directory")


def _new_stage(out_dir: str) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=".punoise-", dir=out_dir))
        try:
            descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # another took the empty directory for a leftover
            continue
        _lock(descriptor, wait=True)
        if os.fstat(descriptor).st_nlink:
            return path, descriptor
        os.close(descriptor)


def recover(out_dir: str) -> None:
    """Finish what a killed process was about to commit, and remove what others have left."""
    folder = Path(out_dir)
    with uninterrupted():
        if (folder / COMMIT).is_dir():
            with _owned(folder / COMMIT) as mine:
                if not mine:
                    raise _in_use(folder)
                _finish(folder)
        for path in folder.iterdir():
            if STAGE.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                with _owned(path) as mine:
                    if mine:
                        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _owned(stage: Path) -> Iterator[bool]:
    """Whether nobody else holds a stage any more; one without a lock must be empty for that."""
    try:
        descriptor = os.open(stage / LOCK, os.O_RDWR)
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            os.rmdir(stage)
        yield not stage.exists()
        return
    try:
        yield _lock(descriptor, wait=False)
    finally:
        os.close(descriptor)


def _finish(folder: Path) -> None:
    """Move the files of COMMIT to their names, as far as that has not been done."""
    commit = folder / COMMIT
    plan = _plan(commit / PLAN)
    for name in plan["names"]:
        with contextlib.suppress(FileNotFoundError):
            keep_mode(str(commit / name), folder / name)
            os.replace(commit / name, folder / name)
    for name in [*plan["remove"], UNFINISHED]:
        (folder / name).unlink(missing_ok=True)
    for name in (PLAN, LOCK):
        (commit / name).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        commit.rmdir()


def _plan(path: Path) -> dict[str, list[str]]:
    try:
        plan = json.loads(path.read_bytes())
        return {key: [n for n in plan[key] if PLANNED.fullmatch(n)] for key in ("names", "remove")}
    except FileNotFoundError:  # all is done but the last steps
        return {"names": [], "remove": []}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a plan of punoise's; remove {path.parent}") from error


def _write_synced(path: Path, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def mark_unfinished(out_dir: str, names: Iterable[str]) -> None:
    """From now on some files in a directory are not of one run; a commit there ends that."""
    _write_synced(Path(out_dir, UNFINISHED), json.dumps({"names": list(names)}))


def is_unfinished(out_dir: str) -> bool:
    """Whether a directory has the mark, of a run that is at work there or was killed."""
    return Path(out_dir, UNFINISHED).exists()


def unmark(out_dir: str) -> None:
    """Take the mark away."""
    Path(out_dir, UNFINISHED).unlink(missing_ok=True)


def check_settled(name: str) -> None:
    """Stop where a file is one of a set that is being replaced, or was when a run was killed."""
    folder, file = os.path.split(name.rstrip("/"))
    for mark in (Path(folder, COMMIT, PLAN), Path(folder, UNFINISHED)):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if file in json.loads(mark.read_bytes())["names"]:
                raise InputError(
                    f"{name}: the files in {folder or '.'} are of two runs, as one writes them or "
                    "was killed; run it again"
                )


def keep_mode(temporary: str, path: Path) -> None:
    """Give a file that is to replace another one its permissions, or those of any new file."""
    try:
        mode = os.stat(path).st_mode & 0o777
    except OSError:
        mode = 0o666 & ~_umask()
    os.chmod(temporary, mode)


def _umask() -> int:
    with _ONE_AT_A_TIME:  # or one of two threads takes the other's 0 for what it is to put back
        mask = os.umask(0)
        os.umask(mask)
        return mask


def check_target(name: str) -> None:
    """Stop with a usage error, before any work is done, where an output cannot be written."""
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
                os.lstat(path)  # a name that cannot be is found out here
            writable = os.access(path.parent, os.W_OK | os.X_OK)
    except (OSError, ValueError) as error:
        raise of_system(name, error) or UsageError(f"{name}: {error}") from error
    if not writable:
        raise UsageError(f"{name}: permission denied")


def _resolved(name: str) -> Path:
    """Where a file goes: a symbolic link stays one."""
    path = Path(os.path.realpath(name))
    if path.is_symlink():
        raise UsageError(f"{name}: is a symbolic link to itself")
    return path


def check_distinct(outputs: Iterable[str | None], inputs: Iterable[str | None]) -> None:
    """Stop where two outputs are one file, or one is an input that it would replace."""
    taken = {os.path.realpath(file) for name in inputs if name for file in existing_files(name)}
    for name in outputs:
        if name and not _is_stdout(name) and not _is_device(name):
            path = os.path.realpath(name)
            if path in taken:
                raise UsageError(f"{name}: would overwrite an input or another output")
            taken.add(path)


def make_directory(name: str) -> None:
    """Make a directory for outputs, unless it is there."""
    try:
        os.makedirs(name, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"{name}: is not a directory") from error
    except (OSError, ValueError) as error:
        raise of_system(name, error) or UsageError(f"{name}: {error}") from error
    if not os.access(name, os.W_OK | os.X_OK):
        raise UsageError(f"{name}: permission denied")


@contextlib.contextmanager
def new_directory(name: str) -> Iterator[None]:
    """A directory for outputs, which goes again if nothing comes into it."""
    make_directory(name)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.rmdir(name)
        raise


def check_table_target(name: str) -> None:
    """check_target, and the format must be one that can be written."""
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
    """Whether an output that may be a table is to be JSON."""
    return _is_stdout(name) or ".json" in Path(name.lower()).suffixes


def _is_stdout(name: str) -> bool:
    return name in ("-", "/dev/stdout")


@contextlib.contextmanager
def write_atomically(name: str) -> Iterator[BinaryIO]:
    """A binary file that takes its name only once it is whole; `-` is standard output."""
    write = _write_stdout if _is_stdout(name) else _write_device if _is_device(name) else _replace
    try:
        with write(name) as file:
            yield file
    except BrokenPipeError:
        raise ClosedPipe from None
    except (OSError, pa.ArrowException) as error:
        what = f"{name}: cannot be written"
        if isinstance(error, OSError) or is_out_of_memory(error):
            raise of_system(what, error) or MachineError(f"{what}: {error}") from error
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
        except OSError:  # what is left in the buffer must not be tried again at exit
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
            handle, temporary = temporary_for(path)
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


ROW_GROUP, ROW_GROUP_BYTES = 1 << 19, 1 << 28  # rows and bytes, whichever comes first
WriteBatch = Callable[[pa.RecordBatch], None]


@contextlib.contextmanager
def table_writer(
    name: str, schema: pa.Schema, unique: Sequence[str] = (), key: str | None = None
) -> Iterator[WriteBatch]:
    """A function that appends batches of the schema to a table, written atomically.

    Parquet keeps a dictionary of the values of each column but the `unique` ones, the schema's
    metadata, and the key.
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
    """Collects batches into row groups, so that a long table does not have too many of them."""
    import pyarrow.parquet as pq

    held: list[pa.RecordBatch] = []
    with pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=coded, write_page_checksum=True
    ) as writer:

        def flush() -> None:
            if held:
                writer.write_table(pa.Table.from_batches(held))
                held.clear()

        def write(batch: pa.RecordBatch) -> None:
            held.append(batch)
            rows, size = (sum(getattr(one, of) for one in held) for of in ("num_rows", "nbytes"))
            if rows >= ROW_GROUP or size >= ROW_GROUP_BYTES:
                flush()

        yield write
        flush()


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


def write_table(name: str, batch: pa.RecordBatch) -> None:
    """A table that is in memory."""
    with table_writer(name, batch.schema) as write:
        write(batch)


def write_json(name: str, value: Any) -> None:
    """A JSON document with the keys in their order, one list of plain values to a line."""
    compression = COMPRESSIONS.get(Path(name).suffix.lower())
    # what is no UTF-8 in a name comes as a lone surrogate, for which JSON has an escape
    text = _json(value, "\n").encode("utf-8", "backslashreplace") + b"\n"
    with write_atomically(name) as file, _compressed(file, compression) as packed:
        packed.write(text)


def write_text(name: str, text: str) -> None:
    """A text file."""
    with write_atomically(name) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


SUMMARY_SCHEMA = pa.schema([(name, pa.string()) for name in ("figure", "row", "quantity", "value")])


def write_figures(
    directory: str,
    images: Iterable[tuple[str, bytes]],
    summary: Iterable[tuple[str, str, str, str]],
) -> None:
    """Images by name into a directory, and summary.tsv of what they show."""
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
