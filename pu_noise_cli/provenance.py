"""provenance.json: what a run was made of, so that it can be repeated and audited."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import __version__
from .engine import RowsDone
from .rows import Rows
from .shards import Job
from .transform.training import Trained

SCHEMA = "punoise.provenance/1"


@dataclass(frozen=True)
class DigestFiles:
    """The SHA-256 of files, by their path."""

    def __call__(self, job: Job, done: RowsDone, threads: int) -> dict[str, str]:
        found = {shard.path: shard.sha256() for table in job.part.tables for shard in table.shards}
        done(job.part.num_rows or 0)
        return found

    @staticmethod
    def merge(results: Sequence[dict[str, str]]) -> dict[str, str]:
        return {path: digest for found in results for path, digest in found.items()}


def provenance(
    rows: Rows,
    digests: Mapping[str, str],
    trained: Trained,
    options: Mapping[str, Any],
    execution: Mapping[str, Any],
) -> dict[str, Any]:
    """The document: `options` settle the results, `execution` is how they were come by."""
    return {
        "schema": SCHEMA,
        "punoise_version": __version__,
        "python_version": platform.python_version(),
        "inputs": [
            {"table": table.name, "file": shard.name, "sha256": digests[shard.path]}
            for table in rows.tables
            for shard in table.shards
        ],
        "options": dict(options),
        "execution": dict(execution),
        "score_column": None if trained.learned else trained.columns[0]["column"],
        "n_labeled": trained.n_labeled,
        "n_unlabeled": trained.n_unlabeled,
        "columns": trained.columns,
        "warnings": [notice._asdict() for notice in trained.notices],
    }
