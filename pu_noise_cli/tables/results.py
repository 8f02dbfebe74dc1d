"""provenance.json: what a run was made of, so that it can be repeated and audited."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InputError
from ..score.training import Trained
from .rows import LABELED, NEGATIVE, UNLABELED, Rows

SCHEMA = "punoise.provenance/1"
NAME = "provenance.json"


def provenance(
    rows: Rows,
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
            {"table": table.name, "file": shard.name, "sha256": shard.sha256()}
            for table in rows.tables
            for shard in table.shards
        ],
        "options": dict(options),
        "execution": dict(execution),
        "score_column": None if trained.learned else trained.columns[0]["column"],
        "n_labeled": trained.counts[LABELED],
        "n_unlabeled": trained.counts[UNLABELED],
        "n_negatives": trained.counts[NEGATIVE] or None,
        "columns": trained.columns,
        "warnings": [asdict(notice) for notice in trained.notices],
    }


def digests_of(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of files in a directory, by name, as far as they are there."""
    found = {}
    for name in names:
        if (folder / name).is_file():
            with open(folder / name, "rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def files_of_run(out_dir: str, names: Iterable[str]) -> list[str]:
    """Those of some files in a directory that a run has written there and nobody has changed."""
    try:
        written = dict(json.loads(Path(out_dir, NAME).read_bytes())["files"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return []
    found = digests_of(Path(out_dir), [name for name in names if name in written])
    return sorted([NAME, *(name for name, digest in found.items() if digest == written[name])])


def check_of_run(name: str, files: Any, given: Iterable[str]) -> None:
    """Stop where a file beside a provenance has the name of one of that run's but is another."""
    folder = Path(name).resolve().parent
    beside = [Path(file).name for file in given if Path(file).resolve().parent == folder]
    stated = files if isinstance(files, dict) else {}
    for file, digest in digests_of(folder, [file for file in beside if file in stated]).items():
        if digest != stated[file]:
            raise InputError(
                f"{folder / file}: is not what the run of {name} has written; leave --provenance "
                "out, or run it again"
            )
