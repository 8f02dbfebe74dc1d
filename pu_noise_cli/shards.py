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
from pathlib import Path

from . import __version__
from .errors import InputError, UsageError
from .outputs import make_directory, parquet_key, write_json
from .rows import Rows

MANIFEST = "_manifest.json"


@dataclass(frozen=True)
class Job:
    """Rows to work on, and the table to write of them, if one is wanted."""

    part: Rows
    out: str | None = None
    key: str | None = None  # of a shard: a digest of all it is made from
    resume: bool = False  # whether it may be there already

    @property
    def is_done(self) -> bool:
        """Whether the shard is there, made from the same."""
        return self.resume and self.out is not None and parquet_key(self.out) == self.key


def is_sharded(out: str | None) -> bool:
    """Whether an output is a directory of shards: its name ends in a slash."""
    return out is not None and out.endswith("/")


def check_sharded_target(out: str, rows: Rows) -> None:
    """Stop, before any work is done, where an output cannot be a directory of shards."""
    for table in rows.tables:
        for shard in table.shards:
            if shard.num_rows is None or shard.spool is not None:
                raise UsageError(f"--out {out}: shards are made of Parquet files, not {shard.name}")
    make_directory(out)
    names = _names(rows)
    for path in Path(out).iterdir():
        if path.name[0] not in "._" and path.name not in names:
            raise UsageError(f"{out}: holds {path.name!r}, which would be read as a shard")


def plan(rows: Rows, out: str | None, made_by: str, resume: bool = False) -> list[Job]:
    """One job for a plain output; for a directory, one for each input file.

    `made_by` is a digest of all but the rows that the output depends on.
    """
    if out is None or not is_sharded(out):
        return [Job(rows, out)]
    jobs = []
    for part, name in zip(rows.parts(), _names(rows), strict=True):
        table = next(table for table in part.tables if table.shards)
        source = f"{made_by}:{table.first_row}:{table.shards[0].fingerprint()}"
        key = hashlib.sha256(source.encode()).hexdigest()
        jobs.append(Job(part, os.path.join(os.path.abspath(out), name), key, resume))
    return jobs


def begin(out: str) -> None:
    """Take the manifest away: from now on the directory is incomplete."""
    Path(out, MANIFEST).unlink(missing_ok=True)


def finish(out: str, jobs: Sequence[Job]) -> None:
    """Write the manifest, which says that all shards are there."""
    shards = [
        {
            "file": os.path.basename(job.out or ""),
            "source": os.path.basename(next(t.shards[0].name for t in job.part.tables if t.shards)),
            "rows": job.part.num_rows,
            "key": job.key,
        }
        for job in jobs
    ]
    document = {
        "schema": "punoise.manifest/1",
        "punoise_version": __version__,
        "rows": sum(job.part.num_rows or 0 for job in jobs),
        "shards": shards,
    }
    write_json(os.path.join(out, MANIFEST), document)


def _names(rows: Rows) -> list[str]:
    """The shards' file names: those of their sources, after the set where there are two tables."""
    prefixes = ("labeled-", "unlabeled-") if len(rows.tables) == 2 else ("",)
    names = [
        prefix + os.path.basename(shard.name)
        for prefix, table in zip(prefixes, rows.tables, strict=True)
        for shard in table.shards
    ]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice or names != sorted(names):
        problem = f"two are {twice[0]!r}" if twice else "by name their order is another one"
        raise InputError(f"the files of a table in shards must differ by name: {problem}")
    return names
