"""Everything in one go: scores, prior, posteriors, model, report and provenance in a directory.

The steps are those of the single commands, so its files are what they write.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .analysis import Analysis, Request, analyse
from .calibration import Calibration, calibrate
from .engine import Engine
from .notices import Notice
from .outputs import check_target, write_json, write_text
from .posteriors import PosteriorRequest, WritePosteriors, posterior_columns
from .provenance import DigestFiles, provenance
from .report.content import content_of_run
from .report.page import render
from .rows import Rows
from .scores import Scores
from .shards import begin, check_sharded_target

DOCUMENTS = ("prior.json", "model.punoise", "report.html", "provenance.json")
SHARDED = ("scores/", "posterior/")
OUTPUTS = (
    *(f"{name}.{form}" for name in ("scores", "posterior") for form in ("parquet", "tsv", "csv")),
    *DOCUMENTS,
)


@dataclass(frozen=True)
class RunSettings:
    """What the user may fix about a run."""

    request: Request
    table_format: str
    options: Mapping[str, Any]  # what the results depend on, as given, for the provenance
    execution: Mapping[str, Any]  # the other options


@dataclass(frozen=True)
class RunOutput:
    """What `run` has found, for the summary."""

    analysis: Analysis
    calibration: Calibration
    files: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        return (*self.analysis.prior.notices, *self.calibration.notices)


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


def run(rows: Rows, settings: RunSettings, engine: Engine, out_dir: str) -> RunOutput:
    """All steps into a directory, whose files change only once every step has succeeded."""
    stage = Path(tempfile.mkdtemp(prefix=".punoise-", dir=out_dir))
    try:
        result = _run(rows, settings, engine, stage, f".{settings.table_format}")
        names = sorted(path.name for path in stage.iterdir())
        for name in names:
            os.replace(stage / name, Path(out_dir) / name)
        remove_other_outputs(out_dir, keep=names)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return replace(result, files=tuple(names))


def run_sharded(rows: Rows, settings: RunSettings, engine: Engine, out_dir: str) -> RunOutput:
    """All steps into a directory, scores and posteriors as directories of shards, in place."""
    result = _run(rows, settings, engine, Path(out_dir), "/")
    files = (*SHARDED, *DOCUMENTS)
    remove_other_outputs(out_dir, keep=files)
    return replace(result, files=files)


def _run(rows: Rows, settings: RunSettings, engine: Engine, folder: Path, suffix: str) -> RunOutput:
    """The steps of a run; the tables' names end in `suffix`."""
    scores, model = f"{folder}/scores{suffix}", str(folder / "model.punoise")
    analysis = analyse(rows, settings.request, engine, scores, model)
    prior, sketch = analysis.prior, analysis.sketch
    write_json(str(folder / "prior.json"), prior.to_json())
    shares, _ = prior.shares(sketch)
    calibration = calibrate(sketch, shares)
    step = WritePosteriors(sketch, posterior_columns(calibration, PosteriorRequest()))
    found = engine.write(step, Scores.open(scores).rows, "posterior", f"{folder}/posterior{suffix}")
    digests = engine.gather(DigestFiles(), rows, "digest")
    execution = {**settings.execution, "seconds": engine.seconds}
    made_of = provenance(rows, digests, analysis.trained, settings.options, execution)
    write_json(str(folder / "provenance.json"), made_of)
    content = content_of_run(prior, calibration, found.doubtful, made_of)
    write_text(str(folder / "report.html"), render(content))
    return RunOutput(analysis, calibration)
