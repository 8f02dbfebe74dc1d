"""Outputs in shards: a directory with one Parquet file for each input file, and a manifest.

A shard takes its name when it is whole and carries a key of all that it was made from. So work that
was interrupted can be taken up again, by another process or on another machine, and a shard that is
there with the right key need not be made again.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from . import __version__
from .errors import InputError, UsageError
from .files import Shard
from .outputs import make_directory, write_json
from .rows import Rows
from .sketch import SETS
from .staging import remove_temporaries
from .tables import MANIFEST, parquet_key


@dataclass(frozen=True)
class Job:
    """Rows to work on, and the table to write of them, if one is wanted."""

    part: Rows
    out: str | None = None
    made_by: str | None = None  # of a shard: a digest of all but the rows that it is made from
    resume: bool = False  # whether it may be there already

    @property
    def source(self) -> Shard:
        """The file that a shard is made of."""
        return next(table.shards[0] for table in self.part.tables if table.shards)

    @cached_property
    def key(self) -> str | None:
        """Of a shard: a digest of all it is made from, for which its source is read."""
        if self.made_by is None:
            return None
        first_row = next(table.first_row for table in self.part.tables if table.shards)
        text = f"{self.made_by}:{first_row}:{self.source.sha256()}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def is_done(self) -> bool:
        """Whether the shard is there, made from the same."""
        return self.resume and self.out is not None and parquet_key(self.out) == self.key


def is_sharded(out: str) -> bool:
    """Whether an output is a directory of shards: its name ends in a slash."""
    return out.endswith("/")


def check_sharded_target(out: str, rows: Rows) -> None:
    """Stop, before any work is done, where an output cannot be a directory of shards."""
    check_parquet(rows, f"--out {out}")
    if rows.num_rows == 0:
        raise InputError(f"{rows.tables[0].name}: the table has no rows")
    names = _names(rows)
    sources = {os.path.realpath(shard.path) for table in rows.tables for shard in table.shards}
    for name in names:
        if os.path.realpath(os.path.join(out, name)) in sources:
            raise UsageError(f"{out}: would overwrite {name!r}, which is an input")
    make_directory(out)
    for path in Path(out).iterdir():
        if path.name[0] not in "._" and path.name not in names:
            raise UsageError(f"{out}: holds {path.name!r}, which would be read as a shard")


def check_parquet(rows: Rows, wanted_by: str) -> None:
    """Stop where a table is not one of Parquet files, which others can read part by part."""
    for table in rows.tables:
        for shard in table.shards:
            if shard.num_rows is None or shard.spool is not None:
                raise UsageError(f"{wanted_by}: shards are made of Parquet files, not {shard.name}")


def plan(rows: Rows, out: str, made_by: str, resume: bool) -> list[Job]:
    """One job for a plain output; for a directory, one for each input file.

    `made_by` is a digest of all but the rows that the output depends on.
    """
    if not is_sharded(out):
        return [Job(rows, out)]
    return [
        Job(part, os.path.join(os.path.abspath(out), name), made_by, resume)
        for part, name in zip(rows.parts(), _names(rows), strict=True)
    ]


def begin(out: str) -> None:
    """Take the manifest away: from now on the directory is incomplete."""
    if os.path.isdir(out):
        Path(out, MANIFEST).unlink(missing_ok=True)


def finish(out: str, jobs: Sequence[Job]) -> None:
    """Write the manifest, which says that all shards are there."""
    shards: list[dict[str, Any]] = [
        {
            "file": os.path.basename(job.out),
            "source": os.path.basename(job.source.name),
            "rows": job.part.num_rows,
            "key": parquet_key(job.out),
        }
        for job in jobs
        if job.out is not None
    ]
    document = {
        "schema": "punoise.manifest/1",
        "punoise_version": __version__,
        "rows": sum(job.part.num_rows or 0 for job in jobs),
        "shards": shards,
    }
    remove_temporaries(out, [shard["file"] for shard in shards])
    write_json(os.path.join(out, MANIFEST), document)


def _names(rows: Rows) -> list[str]:
    """The shards' file names: those of their sources, after the set where there is a table each."""
    several = len(rows.tables) > 1
    names = [
        (f"{SETS[code]}-" if several else "") + os.path.basename(shard.name)
        for code, table in zip(rows.sets, rows.tables, strict=True)
        for shard in table.shards
    ]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice or names != sorted(names):
        problem = f"two are {twice[0]!r}" if twice else "by name their order is another one"
        raise InputError(f"the files of a table in shards must differ by name: {problem}")
    if hidden := [name for name in names if name[0] in "._"]:
        raise InputError(f"{hidden[0]}: a shard of this name would not be read; rename the file")
    return names
