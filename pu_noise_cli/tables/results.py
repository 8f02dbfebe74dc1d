"""A directory of results: the names in it, where they come from, and when they can be read.

Files are written under temporary names. When all steps have succeeded, provenance.json is rewritten
to say that the directory is incomplete, each file takes its name, and the provenance with all
digests comes last. Until then, an error or a signal leaves earlier results as they were. After a
kill among the renames, commands refuse to read the files until the command has run again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa

from .. import __version__
from ..errors import InputError, PunoiseError, option, uninterrupted
from ..notices import Notice
from .columns import ColumnSummary
from .files import Count, document, read_document
from .reading import MANIFEST
from .writing import (
    check_distinct,
    check_target,
    make_directory,
    take_name,
    temporary_directory,
    write_json,
)

# ---- Names

PROVENANCE = "provenance.json"
TABLE_FORMATS = ("parquet", "tsv", "csv")
SHARDED = ("scores", "posterior")  # tables that may be directories of shards
LISTS = ("candidates.tsv", "labels_to_check.tsv", "columns.tsv")
THRESHOLDS, THRESHOLDS_JSON = "thresholds.tsv", "thresholds.json"
GROUP_THRESHOLDS = "group_thresholds.tsv"
LEVELS = ("psms.tsv", "peptides.tsv", "proteins.tsv")
# every file that a command may write into a directory of results
OUTPUTS = (
    *(f"{name}.{form}" for name in (*SHARDED, "groups") for form in TABLE_FORMATS),
    *("prior.json", "model.punoise", "report.html", PROVENANCE),
    *(*LISTS, THRESHOLDS, THRESHOLDS_JSON, GROUP_THRESHOLDS),
    *(*LEVELS, *(f"decoys.{name}" for name in LEVELS), "matches.json"),
)


def _is_output(name: str) -> bool:
    """Whether a name in a provenance, which may be a stranger's, is one that a command gives."""
    folder, _, file = name.rpartition("/")
    is_shard = file == MANIFEST or (file.endswith(".parquet") and os.sep not in file)
    return name in OUTPUTS or (folder in SHARDED and is_shard)


def existing(folder: Path, names: Iterable[str]) -> list[str]:
    """The names of files or links in a directory; what lies behind a linked directory is not."""

    def exists(path: Path) -> bool:
        is_inside = path.parent == folder or not path.parent.is_symlink()
        return is_inside and (path.is_symlink() or path.is_file())

    return [name for name in names if exists(folder / name)]


# ---- Provenance


class InputFile(msgspec.Struct, frozen=True):
    """A file of an input table."""

    table: str
    file: str
    sha256: str


Schema = Literal["punoise.provenance/1"]
SCHEMA: Schema = "punoise.provenance/1"


class Provenance(msgspec.Struct, kw_only=True):
    """provenance.json: what results were made from, so that they can be repeated and audited."""

    schema: Schema = SCHEMA
    punoise_version: str = __version__
    python_version: str = platform.python_version()
    complete: bool = True  # False while files take their names
    inputs: list[InputFile] = []
    options: dict[str, Any] = {}  # that results depend on
    execution: dict[str, Any] = {}  # the other options, and how long each step took
    score_column: str | None = None  # None if the score was learned
    n_labeled: Count | None = None  # None if nothing was trained
    n_unlabeled: Count | None = None
    n_negatives: Count | None = None
    columns: list[ColumnSummary] = []
    warnings: list[Notice] = []
    files: dict[str, str] = {}  # SHA-256 by name


def _read_provenance(folder: Path) -> Provenance | None:
    """The provenance of the results in a directory; None if it has none of ours."""
    name = str(folder / PROVENANCE)
    if not os.path.isfile(name):  # a pipe would block
        return None
    try:
        return read_document(name, Provenance)
    except PunoiseError:
        return None


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of existing files in a directory, by name."""

    def digest(name: str) -> str:
        with open(folder / name, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    files = [name for name in existing(folder, names) if (folder / name).is_file()]
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        return dict(zip(files, pool.map(digest, files), strict=True))


def check_complete(name: str) -> None:
    """Raise an input error if a file may be of another command than the files beside it."""
    path = Path(name)
    if path.name in (*OUTPUTS, *SHARDED):
        folder = path.parent
    elif path.parent.name in SHARDED:  # a shard, or a pattern of them
        folder = path.parent.parent
    else:
        return
    provenance = _read_provenance(folder)
    if provenance is not None and not provenance.complete:
        raise InputError(
            f"{name}: {folder} is incomplete, because a command was interrupted or is still "
            "writing; run the command again"
        )


def check_same_run(name: str, written: Mapping[str, str], files: Iterable[str]) -> None:
    """Raise an input error if a file beside a provenance is not the one that its run wrote.

    Parameters
    ----------
    name
        The name of the provenance.
    written
        Its digests of files.
    files
        Names of files, or directories of shards, that are read together with it.
    """
    folder = Path(name).resolve().parent
    for path in (Path(file).resolve() for file in files):
        if path.parent != folder:
            continue
        stated = {name: sha for name, sha in written.items() if name.split("/")[0] == path.name}
        found = [path.name]
        if path.is_dir():
            found = [f"{path.name}/{file.name}" for file in path.iterdir() if file.name[0] != "."]
        different = digests(folder, found).items() ^ stated.items()
        if stated and different:
            raise InputError(
                f"{folder / min(different)[0]}: differs from what the run of {name} wrote; leave "
                f"{option('provenance')} out, or run it again"
            )


# ---- New files


@dataclass(frozen=True)
class NewResults:
    """Files of a command, which will take their names in a directory together."""

    out_dir: Path
    folder: Path  # where they are until then

    def path(self, name: str) -> str:
        """Where to write the file of a name."""
        return os.path.join(self.folder, name)

    def others(self, new: Collection[str]) -> list[str]:
        """Outputs in the directory that stay beside new ones of these names."""
        gone = {PROVENANCE, *new, *obsolete_files(self.out_dir, new)}
        return [name for name in existing(self.out_dir, OUTPUTS) if name not in gone]

    def commit(self, provenance: Provenance) -> list[str]:
        """Give all files their names, in place of those of an earlier command.

        The provenance gets the digests of all files. Files that the earlier command did not write,
        or that somebody changed, stay.

        Returns
        -------
        The names of files, and of directories of shards.
        """
        paths = (p.relative_to(self.folder) for p in self.folder.rglob("*") if p.is_file())
        names = sorted(p.as_posix() for p in paths if not any(part[0] == "." for part in p.parts))
        provenance.files = digests(self.folder, names)
        earlier = _read_provenance(self.out_dir)
        files = provenance.files if earlier is None else earlier.files | provenance.files
        take_names(
            self.folder,
            self.out_dir,
            names,
            PROVENANCE,
            provenance,
            meanwhile=msgspec.structs.replace(provenance, complete=False, files=files),
            obsolete=obsolete_files(self.out_dir, names),
        )
        shards = {f"{name.split('/')[0]}/" for name in names if "/" in name}
        return sorted({PROVENANCE, *shards, *(name for name in names if "/" not in name)})


@contextlib.contextmanager
def new_results(out_dir: str, inputs: Iterable[str | None] = ()) -> Iterator[NewResults]:
    """New files for a directory, which is made; without commit(), nothing in it changes.

    Raises a usage error if it cannot hold results, or if one would replace an input.
    """
    folder, targets = Path(out_dir), [os.path.join(out_dir, name) for name in OUTPUTS]
    check_distinct(targets, inputs)
    make_directory(out_dir)
    for target in targets:
        check_target(target)
    with temporary_directory(folder) as temporary:
        yield NewResults(folder, temporary)


def obsolete_files(folder: Path, new: Collection[str]) -> list[str]:
    """The files of an earlier command in a directory that new ones do not replace.

    Nobody has changed them since, unless the earlier command never became complete.
    """
    earlier = _read_provenance(folder)
    if earlier is None:
        return []
    listed = existing(folder, [n for n in earlier.files if _is_output(n) and n not in new])
    if not earlier.complete:
        return listed
    return [name for name, sha in digests(folder, listed).items() if sha == earlier.files[name]]


def take_names(
    temporary: Path,
    folder: Path,
    names: Iterable[str],
    last: str,
    complete: msgspec.Struct,
    *,
    meanwhile: msgspec.Struct,
    obsolete: Iterable[str] = (),
) -> None:
    """Give files in a temporary directory their names in another one.

    Parameters
    ----------
    last
        The name of the document that says whether the directory is complete.
    complete, meanwhile
        Its contents at the end, and until then.
    obsolete
        Files to remove.
    """
    write_json(str(temporary / last), document(complete))
    write_json(str(temporary / ".meanwhile"), document(meanwhile))
    with uninterrupted():
        take_name(temporary / ".meanwhile", folder / last)
        for name in obsolete:
            (folder / name).unlink(missing_ok=True)
            if "/" in name:
                with contextlib.suppress(OSError):  # it holds further files
                    (folder / name).parent.rmdir()
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            take_name(temporary / name, folder / name)
        take_name(temporary / last, folder / last)
