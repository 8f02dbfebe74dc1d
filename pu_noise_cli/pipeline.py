"""The one path from tables to a prior: train, score, estimate, and keep what was noticed.

Everything in one go: scores, prior, posteriors, model, report and provenance in a directory.

The steps are those of the single commands, so its files are what they write.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .errors import EstimationError, InputError, PunoiseError
from .evidence.strengths import Grading, strengths
from .evidence.thresholds import Thresholds
from .notices import Notice
from .numerics import FloatArray
from .posterior.bounds import Bounds, GatherGroups, GroupCopies, bounds
from .posterior.calibration import Calibration, calibrate
from .posterior.groups import GroupPosteriors, Groups, WriteGroupPosteriors, estimate_groups
from .posterior.table import Columns, DoubtfulRows, WritePosteriors, posterior_columns
from .prior.base import Samples, Settings
from .prior.document import Prior, parse_prior, read_prior, shares_for
from .prior.estimation import (
    DEFAULT_METHOD,
    estimate_prior,
    failed_prior,
    needs_features,
    stated_prior,
)
from .proteomics.levels import PSMS, WriteMatchPosteriors, calibrate_matches, roll_up, write_levels
from .proteomics.matches import (
    Confidence,
    Matches,
    ScoredMatches,
    check_decoys,
    tally_for,
)
from .report.charts import Chart, sample_charts
from .report.comparison import Sample, compared_sample, comparison_charts, render_comparison
from .report.content import ReportContent, report_content
from .report.page import render
from .scale.engine import Engine, check_sharded_target
from .score.model import ScoreModel, StoredModel, save_model
from .score.scores import Scored, Scores, WriteScores
from .score.sketch import Sketch, SketchBuilder
from .score.training import (
    MAX_TRAIN_VALUES,
    RowSample,
    Trained,
    TransformSettings,
    check_sizes,
    survey_step,
    train,
)
from .tables.files import document, read_bytes, read_document, read_json
from .tables.results import (
    DOCUMENTS,
    GROUPS,
    MANIFESTS,
    OUTPUTS,
    PROVENANCE,
    ROLLED_UP,
    SHARDED,
    THRESHOLDS,
    InputFile,
    Provenance,
    check_same_run,
    digests,
    earlier_files,
    provenance,
    staged,
)
from .tables.rows import Rows
from .tables.writing import (
    check_target,
    write_atomically,
    write_json,
    write_text,
)


@dataclass(frozen=True)
class Request:
    """What the user may fix about the way from tables to a prior."""

    transform: TransformSettings
    estimation: Settings
    method: str = DEFAULT_METHOD
    sample: str | None = None
    stated: Prior | None = None  # the user's own α and β, which are then not estimated


@dataclass(frozen=True)
class Analysis:
    """What tables say: a trained scorer, the sketch of their honest scores, and the prior."""

    trained: Trained
    sketch: Sketch
    prior: Prior
    matches: Matches | None = None  # the best of each spectrum, where the rows are such


def analyse(
    rows: Rows,
    request: Request,
    engine: Engine,
    scores_out: str | None = None,
    model_out: str | None = None,
    digests: bool = False,
) -> Analysis:
    """From tables to a prior, whose warnings are those of all steps."""
    trained = _train(rows, request.transform, engine, digests)
    scored = _score(rows, trained, request.transform, engine, scores_out, model_out)
    sketch, notices = scored.sketch, trained.notices
    matches = scored.matches if isinstance(scored, ScoredMatches) else None
    if matches is not None:
        notices += check_decoys(matches, trained.discriminating)
    if request.stated is not None:
        prior = stated_prior(
            sketch,
            request.stated,
            seed=request.estimation.seed,
            sample=request.sample,
            notices=notices,
            learned=trained.learned,
        )
        return Analysis(trained, sketch, prior, matches)
    samples = None
    if needs_features(request.method):
        samples = engine.call("features", feature_samples, rows, trained.model, request.transform)
    with engine.timed("estimate"):
        prior = estimate_prior(
            sketch,
            request.method,
            request.estimation,
            samples=samples,
            sample=request.sample,
            notices=notices,
            learned=trained.learned,
            best_only=matches is not None,
        )
    return Analysis(trained, sketch, prior, matches)


def transform(
    rows: Rows,
    settings: TransformSettings,
    engine: Engine,
    scores_out: str | None = None,
    model_out: str | None = None,
) -> tuple[Scored, Trained]:
    """Train on the rows and score them honestly; write the scores and the model where wanted."""
    trained = _train(rows, settings, engine)
    if scores_out is not None and trained.model.skip_missing:
        # else it would be noticed after writing that too few rows have a score
        _check_enough(
            rows, engine.gather(WriteScores(trained.scorer, tally=tally_for(rows)), rows, "count")
        )
    return _score(rows, trained, settings, engine, scores_out, model_out), trained


def _train(
    rows: Rows, settings: TransformSettings, engine: Engine, digests: bool = False
) -> Trained:
    """Train on the rows, and remember the digests of their files where those are wanted."""
    survey = engine.gather_remote(survey_step(rows, settings, digests), rows, "sample")
    trained = engine.call("train", train, rows, survey, settings, watched=True)
    for shard in (shard for table in rows.tables for shard in table.shards):
        if digests:
            shard.set_digest(trained.digests[shard.path])
    return trained


def _score(
    rows: Rows,
    trained: Trained,
    settings: TransformSettings,
    engine: Engine,
    scores_out: str | None,
    model_out: str | None,
) -> Scored:
    """Score the rows honestly; write the scores and the model where wanted."""
    step = WriteScores(trained.scorer, trained.notices, tally_for(rows))
    if scores_out is None:
        scored = engine.gather(step, rows, "score")
    else:
        scored = engine.write(step, rows, "score", scores_out)
    _check_enough(rows, scored)
    if model_out is not None:
        write_model(StoredModel(trained.model, scored.sketch), model_out)
    return scored


def _check_enough(rows: Rows, scored: Scored) -> None:
    """Stop where too few rows of a set have a score."""
    counts, missing = scored.sketch.counts.sum(0), scored.sketch.missing
    check_sizes(rows.set_names, counts, missing, rows.named_sets)


def train_only(rows: Rows, settings: TransformSettings, engine: Engine, out: str) -> Trained:
    """Train on the rows, and write the model with what it takes to score them honestly."""
    for table in rows.tables:
        names = Counter(os.path.basename(shard.name) for shard in table.shards)
        name, count = names.most_common(1)[0]
        if count > 1:
            raise InputError(f"{table.name}: the files must differ by name: {count} are {name!r}")
    trained = _train(rows, settings, engine)
    write_model(StoredModel(trained.model, scorer=trained.scorer), out)
    return trained


def write_model(stored: StoredModel, out: str) -> None:
    """Write MODEL."""
    with write_atomically(out) as file:
        save_model(stored, file)


def feature_samples(rows: Rows, model: ScoreModel, settings: TransformSettings) -> Samples:
    """The feature tables as numbers, gaps at their column's mean; samples of large ones."""
    size = min(settings.max_train_rows, MAX_TRAIN_VALUES // len(rows.features)) // 2
    samples = [RowSample(size, settings.seed) for _ in range(2)]
    for chunk in rows.chunks(rows.features):
        for sample, wanted in zip(samples, (chunk.labeled, chunk.unlabeled), strict=True):
            sample.add(chunk, wanted)
    matrices = []
    for sample in samples:
        sample.cut(size)
        matrices.append(np.concatenate([model.encoding.encode(chunk) for chunk in sample.chunks]))
    known = [~np.isnan(matrix) for matrix in matrices]
    total = sum(np.where(k, m, 0).sum(0) for k, m in zip(known, matrices, strict=True))
    mean = total / np.maximum(sum(k.sum(0) for k in known), 1)
    labeled, unlabeled = (np.where(k, m, mean) for k, m in zip(known, matrices, strict=True))
    return Samples(labeled, unlabeled)


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
        return (*self.analysis.prior.notices, *self.calibration.notices)


def check_targets(out_dir: str, sharded: Rows | None = None) -> None:
    """Stop, before any work is done, where one of run's files cannot be replaced."""
    for name in OUTPUTS:
        check_target(os.path.join(out_dir, name))
    if sharded is not None:
        for name in SHARDED:
            check_sharded_target(os.path.join(out_dir, name, ""), sharded)


def run(
    rows: Rows, settings: RunSettings, engine: Engine, out_dir: str, sharded: bool = False
) -> RunOutput:
    """All steps into a directory, whose files change only after every step has succeeded.

    If sharded, scores and posteriors are directories of shards, which are written in place.
    """
    with staged(out_dir, in_place=sharded) as stage:
        folders = (stage.path, Path(out_dir) if sharded else stage.path)
        suffix = "/" if sharded else f".{settings.table_format}"
        result = _run(rows, settings, engine, folders, suffix)
        obsolete = set(earlier_files(out_dir)) - set(MANIFESTS if sharded else ())
        names = stage.commit(obsolete=obsolete)
    shards = [f"{name}/" for name in SHARDED] if sharded else []
    return replace(result, files=(*shards, *names))


def _run(
    rows: Rows, settings: RunSettings, engine: Engine, folders: tuple[Path, Path], suffix: str
) -> RunOutput:
    """The steps of a run; documents and tables go to two folders, tables' names end in `suffix`."""
    folder, of_tables = folders
    scores, model = f"{of_tables}/scores{suffix}", str(folder / "model.punoise")
    analysis = analyse(rows, settings.request, engine, scores, model, digests=True)
    prior, sketch = analysis.prior, analysis.sketch
    write_json(str(folder / "prior.json"), prior.to_json())
    sketch, shares, _ = shares_for(prior, sketch)
    calibration = calibrate_matches(prior, sketch, shares)
    copies = _copies(rows, analysis, settings, engine)
    if copies is not None:
        calibration = replace(calibration, notices=(*calibration.notices, *copies.notices))
    held = bounds(calibration, prior.seed, copies)
    thresholds = _thresholds(calibration, held, settings)
    further: Columns = {}
    if thresholds is not None:
        further["evidence"] = strengths(thresholds.graded, *held.lr)
    target_alpha = settings.target_alpha
    columns = posterior_columns(calibration, target_alpha=target_alpha, further=further)
    rolled_up: Mapping[str, Confidence] = {}
    if analysis.matches is not None:
        rolled_up = roll_up(analysis.matches, calibration, prior, settings.request.estimation)
    scored = Scores.open(scores).rows
    by_group = _by_group(scored, calibration, held, settings, engine)
    step = WritePosteriors(sketch, columns, calibration.label_sign)
    if rolled_up:
        step = WriteMatchPosteriors.from_calibration(calibration, columns, rolled_up[PSMS])
        engine.call("roll up", write_levels, rows, rolled_up, str(folder))
    elif by_group is not None:
        step = WriteGroupPosteriors(sketch, columns, calibration.label_sign, by_group)
        of_groups = str(folder / f"groups.{settings.table_format}")
        by_group.write(of_groups, settings.request.transform.lower_is_positive)
    found = engine.write(step, scored, "posterior", f"{of_tables}/posterior{suffix}")
    execution = {**settings.execution, "seconds": engine.seconds}
    trained = analysis.trained
    made_of = provenance(
        rows,
        counts=trained.counts,
        columns=trained.columns,
        score_column=None if trained.learned else trained.columns[0].column,
        notices=trained.notices,
        options=settings.options,
        execution=execution,
    )
    if thresholds is not None and prior.beta is not None:
        dataset = prior.sample or made_of.score_column or "score"
        for name in THRESHOLDS:
            thresholds.write(str(folder / name), dataset, prior.method, prior.beta)
    content = report_content(
        prior,
        calibration,
        columns,
        held.at(settings.target_alpha),
        target_alpha=settings.target_alpha,
        doubtful=found.doubtful.kept,
        provenance=made_of,
        thresholds=thresholds,
        groups=None if by_group is None else by_group.groups,
    )
    write_text(str(folder / "report.html"), render(content))
    tables = MANIFESTS if suffix == "/" else [f"{name}{suffix}" for name in SHARDED]
    documents = digests(folder, (*DOCUMENTS, *THRESHOLDS, *GROUPS, *ROLLED_UP))
    made_of.files = digests(of_tables, tables) | documents
    write_json(str(folder / PROVENANCE), document(made_of))
    p = columns["posterior"]
    groups = None if by_group is None else by_group.groups
    return RunOutput(analysis, calibration, p, thresholds, rolled_up, groups)


def _by_group(
    scored: Rows, calibration: Calibration, held: Bounds, settings: RunSettings, engine: Engine
) -> GroupPosteriors | None:
    """What scores say in each group, if there are any."""
    if settings.by is None:
        return None
    groups = estimate_groups(scored, settings.by, calibration, engine)
    levels = None
    if settings.grading is not None:
        alpha = calibration.shares.alpha
        levels = settings.grading.group_levels(alpha, groups.shares.alpha)
    return GroupPosteriors(groups, calibration, held, levels)


def _copies(
    rows: Rows, analysis: Analysis, settings: RunSettings, engine: Engine
) -> GroupCopies | None:
    """What bounds need to know of groups of rows that are alike; of matches only some count."""
    wanted = settings.grading or not analysis.trained.learned
    if rows.group_column is None or rows.keys or not wanted:
        return None
    return engine.gather(GatherGroups(analysis.trained.scorer), rows, "groups")


def _thresholds(calibration: Calibration, held: Bounds, settings: RunSettings) -> Thresholds | None:
    """Where evidence has which strength, if that is wanted."""
    if settings.grading is None:
        return None
    turned = settings.request.transform.lower_is_positive
    return Thresholds.from_calibration(calibration, held, settings.grading, turned)


def report(
    priors: Sequence[str],
    scores: str | None = None,
    provenance: str | None = None,
    grading: Grading | None = None,
    tolerate_failure: bool = False,
) -> tuple[str, list[Chart], tuple[Notice, ...]]:
    """The page of one sample with its scores, or else the one that compares samples.

    Returns
    -------
    page, charts, notices
        The HTML, its charts for other uses, and warnings of the calibration. With
        `tolerate_failure` the page of a failed sample says why it failed.
    """
    if scores is not None:
        try:
            content, notices = read_content(scores, priors[0], provenance, grading)
        except (InputError, EstimationError) as error:
            if not tolerate_failure:
                raise
            failed = _failed_sample(priors[0], error)
            return render_comparison([failed]), [], failed.prior.notices
        charts = [chart for group in sample_charts(content).values() for chart in group]
        return render(content), charts, notices
    samples = []
    for name in priors:
        try:
            samples.append(_read_sample(name))
        except InputError as error:
            if not tolerate_failure:
                raise
            samples.append(_failed_sample(name, error))
    return render_comparison(samples), comparison_charts(samples), ()


def _read_sample(name: str) -> Sample:
    prior = parse_prior(name, read_json(name))
    return compared_sample(prior.sample_name(name), prior)


def _failed_sample(name: str, error: PunoiseError) -> Sample:
    """A sample without an estimate, whose prior may itself say why."""
    try:
        failed = _read_sample(name)
    except InputError:
        failed = None
    if failed is not None and failed.alpha is None:
        return failed
    prior = failed_prior(DEFAULT_METHOD, 0, error, None)
    return compared_sample(prior.sample_name(name), prior)


def read_content(
    scores: str,
    prior: str,
    provenance: str | None = None,
    grading: Grading | None = None,
) -> tuple[ReportContent, tuple[Notice, ...]]:
    """The content of the report of one sample, from its files, and warnings of the calibration."""
    known = read_prior(prior)
    made_of = None
    if provenance is not None:
        made_of = read_document(provenance, Provenance)
        check_same_run(provenance, made_of.files, [scores, prior])
    opened = Scores.open(scores)
    builder = SketchBuilder(opened.rows.labeled_class)
    doubtful = DoubtfulRows(label_sign=-1.0 if known.labeled_class == "negative" else 1.0)
    for chunk, values in opened.chunks([*opened.rows.id_columns, "score"]):
        builder.add(values, chunk.sets)
        doubtful.add(opened.rows.ids(chunk), values, chunk.labeled, chunk.first_row)
    sketch = builder.sketch()
    check_sizes(opened.name, sketch.counts.sum(0), sketch.missing)
    sketch, shares, notices = shares_for(known, sketch)
    calibration = calibrate(sketch, shares)
    calibration = replace(calibration, notices=(*notices, *calibration.notices))
    target_alpha = None if grading is None else grading.target_alpha
    bounds_here = bounds(calibration, known.seed)
    thresholds = None
    if grading is not None:
        negated = made_of is not None and made_of.options.get("lower_is_positive") is True
        thresholds = Thresholds.from_calibration(calibration, bounds_here, grading, negated)
    shards = opened.rows.tables[0].shards
    documents = [name for name in (prior, provenance) if name is not None]
    content = report_content(
        known,
        calibration,
        posterior_columns(calibration, target_alpha=target_alpha),
        bounds_here.at(target_alpha),
        target_alpha=target_alpha,
        doubtful=doubtful.kept,
        provenance=made_of,
        sources=[
            *(InputFile("", shard.name, shard.sha256()) for shard in shards),
            *map(_document, documents),
        ],
        thresholds=thresholds,
    )
    return content, calibration.notices


def _document(name: str) -> InputFile:
    if name == "-":
        return InputFile("", "standard input", "–")
    return InputFile("", name, hashlib.sha256(read_bytes(name).getvalue()).hexdigest())
