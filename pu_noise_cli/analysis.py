"""The one path from tables to a prior: train, score, estimate, and keep what was noticed."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

import numpy as np

from .calibration import Shares
from .engine import Engine
from .errors import InputError
from .estimation import DEFAULT_METHOD, estimate_prior, needs_features, stated_prior
from .estimators import Samples, Settings
from .matches import EACH_COUNTS, Matches, check_decoys
from .outputs import write_atomically
from .prior import Prior
from .rows import Rows
from .scores import Scored, WriteScores
from .sketch import Sketch
from .transform.row_sample import RowSample
from .transform.scoring import ScoreModel
from .transform.store import StoredModel, save_model
from .transform.training import (
    MAX_TRAIN_VALUES,
    Trained,
    TransformSettings,
    check_sizes,
    survey_step,
    train,
)


@dataclass(frozen=True)
class Request:
    """What the user may fix about the way from tables to a prior."""

    transform: TransformSettings
    estimation: Settings
    method: str = DEFAULT_METHOD
    sample: str | None = None
    stated: Shares | None = None  # the user's own α and β, which are then not estimated


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
    sketch, matches, notices = scored.sketch, scored.matches, trained.notices
    if matches is not None:
        notices += check_decoys(matches, trained.telling)
    if request.stated is not None:
        seed, sample = request.estimation.seed, request.sample
        prior = stated_prior(sketch, request.stated, seed, sample, notices, trained.learned)
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
            competed=matches is not None,
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
        _check_enough(rows, engine.gather(WriteScores(trained.scorer), rows, "count"))
    return _score(rows, trained, settings, engine, scores_out, model_out), trained


def _train(
    rows: Rows, settings: TransformSettings, engine: Engine, digests: bool = False
) -> Trained:
    """Train on the rows, and remember the digests of their files where those are wanted."""
    survey = engine.gather_there(survey_step(rows, settings, digests), rows, "sample")
    trained = engine.call("train", train, rows, survey, settings, watched=True)
    for shard in (shard for table in rows.tables for shard in table.shards):
        if digests:
            shard.remember(trained.digests[shard.path])
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
    notices = trained.notices
    if settings.decoys:  # for whoever estimates from the scores
        message = "the scores are of matches, of which each counts, the best of a spectrum or not"
        notices += (EACH_COUNTS(message),)
    step = WriteScores(trained.scorer, notices)
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
    check_sizes(rows.names_of_sets, counts, missing, rows.named_sets)


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
    return Samples(*(np.where(k, m, mean) for k, m in zip(known, matrices, strict=True)))
