"""Everything in one go: scores, prior, posteriors, model, report and provenance in a directory.

The steps are those of the single commands, so its files are what they write.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import __version__
from .errors import Notice
from .estimators import Settings
from .outputs import check_target, write_json, write_text
from .pipeline import (
    PosteriorRequest,
    feature_samples,
    needs_features,
    posterior,
    posterior_columns,
    transform,
)
from .posterior import Calibration, calibrate
from .prior import Prior, estimate_prior, prior_shares
from .report.content import content_of_run
from .report.page import render
from .rows import Rows
from .shards import begin, check_sharded_target
from .steps import DigestFiles, ScoredRows, WritePosterior
from .transform.scoring import Trained, TransformSettings
from .work import Work


@dataclass(frozen=True)
class RunOutput:
    """What `run` has found, for the summary."""

    prior: Prior
    calibration: Calibration
    files: tuple[str, ...]
    notices: tuple[Notice, ...]  # of all steps


DOCUMENTS = ("prior.json", "model.punoise", "report.html", "provenance.json")
SHARDED = ("scores/", "posterior/")
OUTPUTS = (
    *(f"{name}.{form}" for name in ("scores", "posterior") for form in ("parquet", "tsv", "csv")),
    *DOCUMENTS,
)


def check_targets(out_dir: str, sharded: Rows | None = None) -> None:
    """Stop, before any work is done, where one of run's files cannot be replaced."""
    for name in OUTPUTS:
        check_target(os.path.join(out_dir, name))
    if sharded is not None:
        for name in SHARDED:
            check_sharded_target(os.path.join(out_dir, name), sharded)


def remove_other_outputs(out_dir: str, keep: Iterable[str]) -> None:
    """Remove what an earlier run has left that this one did not write."""
    for name in set(OUTPUTS) - set(keep):
        Path(out_dir, name).unlink(missing_ok=True)
    for name in set(SHARDED) - set(keep):
        begin(os.path.join(out_dir, name))


@dataclass(frozen=True)
class RunSettings:
    """What the user may fix about a run."""

    transform: TransformSettings
    estimation: Settings
    method: str
    sample: str | None
    table_format: str
    options: dict[str, Any]  # as given, for the provenance


def run(rows: Rows, settings: RunSettings, work: Work, out_dir: str) -> RunOutput:
    """All steps into a directory, whose files change only once every step has succeeded."""
    stage = Path(tempfile.mkdtemp(prefix=".punoise-", dir=out_dir))
    try:
        result = _run(rows, settings, work, stage, f".{settings.table_format}")
        names = sorted(path.name for path in stage.iterdir())
        for name in names:
            os.replace(stage / name, Path(out_dir) / name)
        remove_other_outputs(out_dir, keep=names)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return replace(result, files=tuple(names))


def run_sharded(rows: Rows, settings: RunSettings, work: Work, out_dir: str) -> RunOutput:
    """All steps into a directory, scores and posteriors as directories of shards, in place."""
    result = _run(rows, settings, work, Path(out_dir), "/")
    files = (*SHARDED, *DOCUMENTS)
    remove_other_outputs(out_dir, keep=files)
    return replace(result, files=files)


def _run(rows: Rows, settings: RunSettings, work: Work, folder: Path, suffix: str) -> RunOutput:
    """The steps of a run; the tables' names end in `suffix`."""
    scores, model = f"{folder}/scores{suffix}", str(folder / "model.punoise")
    sketch, trained = transform(rows, settings.transform, work, scores, model)
    samples = None
    if needs_features(settings.method):
        samples = work.engine.call(feature_samples, rows, trained.model, settings.transform)
    prior = estimate_prior(sketch, settings.method, settings.estimation, samples, settings.sample)
    write_json(str(folder / "prior.json"), prior.as_json())
    calibration = calibrate(sketch, prior_shares("prior.json", prior.as_json()))
    step = WritePosterior(sketch, posterior_columns(calibration, PosteriorRequest()))
    found = posterior(ScoredRows.open(scores), step, work, f"{folder}/posterior{suffix}")
    digests = work.gather(DigestFiles(), rows, "digest")
    made_of = provenance(rows, digests, trained, settings.options)
    write_json(str(folder / "provenance.json"), made_of)
    content = content_of_run(prior.as_json(), calibration, found.doubtful, made_of)
    write_text(str(folder / "report.html"), render(content))
    notices = (*trained.notices, *prior.notices, *calibration.notices)
    return RunOutput(prior, calibration, (), notices)


def provenance(
    rows: Rows, digests: Mapping[str, str], trained: Trained, options: dict[str, Any]
) -> dict[str, Any]:
    """What a run was made of, so that it can be repeated and audited."""
    return {
        "schema": "punoise.provenance/1",
        "punoise_version": __version__,
        "python_version": platform.python_version(),
        "inputs": [
            {"table": table.name, "file": shard.name, "sha256": digests[shard.path]}
            for table in rows.tables
            for shard in table.shards
        ],
        "options": options,
        "n_labeled": trained.n_labeled,
        "n_unlabeled": trained.n_unlabeled,
        "columns": trained.columns,
        "warnings": [notice._asdict() for notice in trained.notices],
    }
