"""A run's directory: files that take their names together, the mark of unfinished ones, provenance.

Files are written into a hidden stage inside the directory and moved to their names at the end.
Meanwhile the mark UNFINISHED lies beside them, and provenance.json, which has all digests, is
missing. After a kill, commands refuse to read marked files; the next run replaces them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from .. import __version__
from ..errors import InputError, PunoiseError, UsageError, interrupts, option, uninterrupted
from ..notices import Notice
from .columns import ColumnSummary
from .files import Count, read_document
from .reading import MANIFEST
from .rows import LABELED, NEGATIVE, UNLABELED, Rows
from .writing import keep_mode, remove_unless_locked, try_lock

Schema = Literal["punoise.provenance/1"]
SCHEMA: Schema = "punoise.provenance/1"
PROVENANCE, UNFINISHED = "provenance.json", ".punoise-unfinished"
LOCK = ".lock"  # inside a stage
STAGE = re.compile(r"\.punoise-[a-z0-9_]{8}")
TABLE_FORMATS = ("parquet", "tsv", "csv")
SHARDED = ("scores", "posterior")  # tables that may be directories of shards
MANIFESTS = tuple(f"{name}/{MANIFEST}" for name in SHARDED)
DOCUMENTS = ("prior.json", "model.punoise", "report.html", PROVENANCE)
THRESHOLDS = ("thresholds.json", "thresholds.tsv")
GROUPS = tuple(f"groups.{form}" for form in TABLE_FORMATS)
ROLLED_UP = ("psms.tsv", "peptides.tsv", "proteins.tsv")
# every file that a run may write
OUTPUTS = (
    *(f"{name}.{form}" for name in SHARDED for form in TABLE_FORMATS),
    *(*DOCUMENTS, *THRESHOLDS, *GROUPS, *ROLLED_UP),
)

# ---- Provenance


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
    n_labeled: Count
    n_unlabeled: Count
    n_negatives: Count | None
    columns: list[ColumnSummary]
    warnings: list[Notice]
    files: dict[str, str] = {}  # SHA-256 by name


def provenance(
    rows: Rows,
    *,
    counts: Sequence[int],
    columns: Sequence[ColumnSummary],
    score_column: str | None,
    notices: Sequence[Notice],
    options: Mapping[str, Any],
    execution: Mapping[str, Any],
) -> Provenance:
    """The provenance of results from these rows; `counts` are the rows of each set."""
    return Provenance(
        python_version=platform.python_version(),
        inputs=[
            InputFile(table.name, shard.name, shard.sha256())
            for table in rows.tables
            for shard in table.shards
        ],
        options=dict(options),
        execution=dict(execution),
        score_column=score_column,
        n_labeled=counts[LABELED],
        n_unlabeled=counts[UNLABELED],
        n_negatives=counts[NEGATIVE] or None,
        columns=list(columns),
        warnings=list(notices),
    )


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of existing files in a directory, by name."""
    by_name = {}
    for name in names:
        if (folder / name).is_file():
            with open(folder / name, "rb") as file:
                by_name[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return by_name


def earlier_files(out_dir: str) -> list[str]:
    """The files in a directory that an earlier run wrote and nobody changed, by its provenance."""
    name = os.path.join(out_dir, PROVENANCE)
    if not os.path.isfile(name):
        return []
    try:
        written = read_document(name, Provenance).files
    except PunoiseError:
        return []
    unchanged = digests(Path(out_dir), [n for n in (*OUTPUTS, *MANIFESTS) if n in written])
    return sorted([PROVENANCE, *(name for name, d in unchanged.items() if d == written[name])])


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
            f"{name}: the files in {folder or '.'} come from two runs (one is still writing or was "
            "killed); run it again"
        )


def abandon(out_dir: str) -> None:
    """Give an unfinished run up: its shards cannot be read as tables, other files can."""
    for name in MANIFESTS:
        Path(out_dir, name).unlink(missing_ok=True)
    _unmark(Path(out_dir))


def _mark(folder: Path) -> None:
    mark = folder / UNFINISHED
    if mark.is_dir():
        raise UsageError(f"{mark}: is a directory; remove it")
    if not os.path.lexists(mark):  # else it may be anything, so it is not opened
        mark.touch()


def _unmark(folder: Path) -> None:
    (folder / UNFINISHED).unlink(missing_ok=True)


# ---- The stage


@dataclass(frozen=True)
class Stage:
    """A hidden directory for files that will take their names together in its parent."""

    path: Path
    out_dir: Path
    in_place: bool = False  # shards are written to their names meanwhile

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
            _unmark(folder)
        return names


@contextlib.contextmanager
def staged(out_dir: str, in_place: bool = False) -> Iterator[Stage]:
    """A stage, removed afterwards, like stages that killed processes left.

    If shards are written in place, the directory is marked from the start. After an error the mark
    goes, and so do the manifests if any shard may have changed.
    """
    folder = Path(out_dir)
    with contextlib.ExitStack() as stack:
        if in_place:
            stack.enter_context(_only_writer(folder))
        path = stack.enter_context(_stage_directory(folder))
        if in_place:
            stack.enter_context(_marked(folder))
        yield Stage(path, folder, in_place)


@contextlib.contextmanager
def _marked(folder: Path) -> Iterator[None]:
    was_unfinished, manifests = is_unfinished(str(folder)), digests(folder, MANIFESTS)
    _mark(folder)
    try:
        yield
    except BaseException:
        with uninterrupted():
            if was_unfinished or digests(folder, MANIFESTS) != manifests:
                abandon(str(folder))
            else:
                _unmark(folder)
        raise


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Hold the lock of a directory; another process that holds it is a usage error."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if try_lock(descriptor) is False:
            raise UsageError(
                f"{folder}: another run writes there; wait for it, or name another directory"
            )
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _stage_directory(folder: Path) -> Iterator[Path]:
    """A locked directory inside another one, after removing those that nobody holds."""
    path, descriptor = Path(), -1
    try:
        with uninterrupted():
            for left in folder.iterdir():
                if STAGE.fullmatch(left.name) and left.is_dir() and not left.is_symlink():
                    with contextlib.suppress(OSError):
                        left.rmdir()  # without a lock it must be empty
                    remove_unless_locked(str(left), str(left / LOCK))
            path, descriptor = _new_stage(folder)
            interrupts.cleanups[str(path)] = functools.partial(shutil.rmtree, path)
        yield path
    finally:
        interrupts.cleanups.pop(str(path), None)
        with uninterrupted():
            if descriptor >= 0:
                shutil.rmtree(path, ignore_errors=True)
                os.close(descriptor)


def _new_stage(folder: Path) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=".punoise-", dir=folder))
        try:
            descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # another process took the empty directory for abandoned
            continue
        if try_lock(descriptor) is not False and os.fstat(descriptor).st_nlink:
            return path, descriptor
        os.close(descriptor)
