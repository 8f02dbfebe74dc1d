"""Files on their way to their names: alone or as a set, and what killed processes leave of them.

Whoever writes a temporary file or a stage holds a lock on it, which the system lets go when the
process ends in whatever way. So the next one to write there knows what nobody will finish.

A set of files takes its names by one rename, of the stage to COMMIT: before it the directory holds
all the old files, and after it whoever comes next moves what has not been moved. While COMMIT is
there, or UNFINISHED, which marks sets that are written in place, none of the files may be read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import signals
from .errors import InputError, UsageError

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
        with signals.held():
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
        with signals.held():
            path, descriptor = _new_stage(out_dir)
        yield Stage(path, Path(out_dir))
    finally:
        with signals.held():
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
    with signals.held():
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
