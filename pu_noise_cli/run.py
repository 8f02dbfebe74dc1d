"""Everything in one go: scores, prior, posteriors, model, report and provenance in a directory.

The steps are those of the single commands, so its files are what they write.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import signals
from .analysis import Analysis, Request, analyse
from .bounds import Bounds, bounds
from .calibration import DEFAULT_CALIBRATOR, Calibration
from .engine import Engine
from .evidence import Grading
from .group_posteriors import GroupPosteriors, WriteGroupPosteriors
from .grouped import GroupCopies
from .groups import Groups, estimate_groups
from .match_posteriors import WriteMatchPosteriors
from .matches import Confidence
from .notices import Notice
from .outputs import check_target, write_json, write_text
from .posteriors import PosteriorRequest, WritePosteriors, posterior_columns
from .provenance import NAME, digests_of, files_of_run, provenance
from .report.aggregates import PosteriorCurve
from .report.content import content_of_run
from .report.page import render
from .roll_up import LEVELS, PSMS, calibrated, levels, write_levels
from .rows import Rows
from .scores import GatherGroups, Scores
from .shards import begin, check_sharded_target
from .sketch import FloatArray
from .staging import is_unfinished, mark_unfinished, staged, unmark
from .tables import MANIFEST
from .thresholds import Thresholds

DOCUMENTS = ("prior.json", "model.punoise", "report.html", NAME)
THRESHOLDS = ("thresholds.json", "thresholds.tsv")
SHARDED = ("scores/", "posterior/")
FORMS = ("parquet", "tsv", "csv")
MANIFESTS = tuple(f"{name}{MANIFEST}" for name in SHARDED)
GROUPS = tuple(f"groups.{form}" for form in FORMS)
ROLLED_UP = tuple(f"{name}.tsv" for name in LEVELS)
OUTPUTS = (
    *(f"{name}.{form}" for name in ("scores", "posterior") for form in FORMS),
    *DOCUMENTS,
    *THRESHOLDS,
    *GROUPS,
    *ROLLED_UP,
)


@dataclass(frozen=True)
class RunSettings:
    """What the user may fix about a run."""

    request: Request
    table_format: str
    options: Mapping[str, Any]  # what the results depend on, as given, for the provenance
    execution: Mapping[str, Any]  # the other options
    grading: Grading | None = None  # of evidence, where that is wanted
    target_alpha: float | None = None  # of the population that posteriors are for
    by: str | None = None  # the column that groups rows


@dataclass(frozen=True)
class RunOutput:
    """What `run` has found, for the summary."""

    analysis: Analysis
    calibration: Calibration
    posterior: FloatArray  # as written, in the population asked for, by cell of the sketch
    thresholds: Thresholds | None
    levels: Mapping[str, Confidence]  # of matches, what was accepted
    groups: Groups | None = None
    files: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        of_groups = () if self.groups is None else self.groups.notices
        return (*self.analysis.prior.notices, *self.calibration.notices, *of_groups)


def check_targets(out_dir: str, sharded: Rows | None = None) -> None:
    """Stop, before any work is done, where one of run's files cannot be replaced."""
    for name in OUTPUTS:
        check_target(os.path.join(out_dir, name))
    if sharded is not None:
        for name in SHARDED:
            check_sharded_target(os.path.join(out_dir, name), sharded)


def earlier_files(out_dir: str) -> list[str]:
    """The files of an earlier run in a directory, of those that a run may replace."""
    return files_of_run(out_dir, [*OUTPUTS, *MANIFESTS])


def run(rows: Rows, settings: RunSettings, engine: Engine, out_dir: str) -> RunOutput:
    """All steps into a directory, whose files change only once every step has succeeded."""
    with staged(out_dir) as stage:
        suffix = f".{settings.table_format}"
        result = _run(rows, settings, engine, (stage.path, stage.path), suffix)
        names = sorted(path.name for path in stage.path.iterdir() if path.name[0] != ".")
        stage.commit(remove=earlier_files(out_dir))
    return replace(result, files=tuple(names))


def run_sharded(rows: Rows, settings: RunSettings, engine: Engine, out_dir: str) -> RunOutput:
    """All steps into a directory, scores and posteriors as directories of shards, in place."""
    with staged(out_dir) as stage:
        before, marked = _manifests(out_dir), is_unfinished(out_dir)
        mark_unfinished(out_dir, [name.rstrip("/") for name in (*SHARDED, *DOCUMENTS)])
        try:
            result = _run(rows, settings, engine, (stage.path, Path(out_dir)), "/")
        except BaseException:
            with signals.held():
                if marked or _manifests(out_dir) != before:
                    abandon(out_dir)
                unmark(out_dir)
            raise
        stage.commit(remove=set(earlier_files(out_dir)) - set(MANIFESTS))
    thresholds = () if result.thresholds is None else THRESHOLDS
    groups = () if result.groups is None else GROUPS[:1]
    return replace(result, files=(*SHARDED, *DOCUMENTS, *thresholds, *groups))


def abandon(out_dir: str) -> None:
    """What is in the directories of shards may be of several runs: let nobody read it as one."""
    for name in SHARDED:
        begin(os.path.join(out_dir, name))


def _manifests(out_dir: str) -> dict[str, str]:
    return digests_of(Path(out_dir), MANIFESTS)


def _run(
    rows: Rows, settings: RunSettings, engine: Engine, folders: tuple[Path, Path], suffix: str
) -> RunOutput:
    """The steps of a run; documents and tables go to two folders, tables' names end in `suffix`."""
    folder, of_tables = folders
    scores, model = f"{of_tables}/scores{suffix}", str(folder / "model.punoise")
    analysis = analyse(rows, settings.request, engine, scores, model, digests=True)
    prior, sketch = analysis.prior, analysis.sketch
    write_json(str(folder / "prior.json"), prior.to_json())
    calibration = calibrated(prior, sketch)
    copies = _copies(rows, analysis, settings, engine)
    if copies is not None:
        calibration = replace(calibration, notices=(*calibration.notices, *copies.notices))
    held = bounds(calibration, DEFAULT_CALIBRATOR, prior.seed, copies)
    thresholds = _thresholds(calibration, held, settings)
    graded = [] if thresholds is None else thresholds.graded
    request = PosteriorRequest(levels=graded, target_alpha=settings.target_alpha)
    columns = posterior_columns(calibration, request, held)
    rolled_up = levels(analysis, calibration, settings.request)
    scored = Scores.open(scores).rows
    by_group = _by_group(scored, calibration, held, settings, engine)
    step = WritePosteriors(sketch, columns, prior.labeled_negatives)
    if rolled_up:
        step = WriteMatchPosteriors.of(calibration, columns, rolled_up[PSMS])
        engine.call("roll up", write_levels, rows, rolled_up, str(folder))
    elif by_group is not None:
        step = WriteGroupPosteriors(sketch, columns, prior.labeled_negatives, by_group)
        of_groups = str(folder / f"groups.{settings.table_format}")
        by_group.write(of_groups, settings.request.transform.lower_is_positive)
    found = engine.write(step, scored, "posterior", f"{of_tables}/posterior{suffix}")
    execution = {**settings.execution, "seconds": engine.seconds}
    made_of = provenance(rows, analysis.trained, settings.options, execution)
    if thresholds is not None:
        dataset = prior.sample or made_of["score_column"] or "score"
        for name in THRESHOLDS:
            thresholds.write(str(folder / name), dataset, prior.method)
    by_score = PosteriorCurve.of(
        calibration, settings.target_alpha, held.posterior(settings.target_alpha)
    )
    content = content_of_run(prior, calibration, found.doubtful, made_of, by_score, thresholds)
    content = replace(content, groups=None if by_group is None else by_group.groups)
    write_text(str(folder / "report.html"), render(content))
    tables = MANIFESTS if suffix == "/" else [f"{name[:-1]}{suffix}" for name in SHARDED]
    documents = digests_of(folder, (*DOCUMENTS, *THRESHOLDS, *GROUPS, *ROLLED_UP))
    made_of["files"] = digests_of(of_tables, tables) | documents
    write_json(str(folder / NAME), made_of)
    p = columns["posterior"]
    return RunOutput(analysis, calibration, p, thresholds, rolled_up, content.groups)


def _by_group(
    scored: Rows, calibration: Calibration, held: Bounds, settings: RunSettings, engine: Engine
) -> GroupPosteriors | None:
    """What scores say in each group, if there are any."""
    if settings.by is None:
        return None
    groups = estimate_groups(scored, settings.by, calibration, engine, DEFAULT_CALIBRATOR)
    return GroupPosteriors(groups, calibration, held, settings.grading)


def _copies(
    rows: Rows, analysis: Analysis, settings: RunSettings, engine: Engine
) -> GroupCopies | None:
    """What bounds need to know of groups of rows that are alike; of matches only some count."""
    wanted = settings.grading or not analysis.trained.learned
    if rows.group_column is None or rows.matches is not None or not wanted:
        return None
    return engine.gather(GatherGroups(analysis.trained.scorer), rows, "groups")


def _thresholds(calibration: Calibration, held: Bounds, settings: RunSettings) -> Thresholds | None:
    """Where evidence has which strength, if that is wanted."""
    if settings.grading is None:
        return None
    turned = settings.request.transform.lower_is_positive
    return Thresholds.of(calibration, held, settings.grading, turned)
