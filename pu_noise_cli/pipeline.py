"""The steps between files: tables to scores, scores to a prior, both to posteriors."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from . import __version__
from .archive import load_sketch, save_sketch
from .console import Console
from .engine import Local
from .errors import InputError, UsageError
from .estimators import ESTIMATORS, Samples
from .evidence import Level, strengths
from .outputs import (
    is_json,
    table_writer,
    write_atomically,
    write_json,
)
from .performance import interval
from .performance import performance as measure
from .posterior import (
    Calibration,
    posterior_bounds,
    replicates,
    shift_prior,
)
from .rows import Rows
from .simulate import Simulation
from .sketch import FloatArray, Sketch
from .steps import (
    UNIQUE_COLUMNS,
    PosteriorRows,
    ScoredRows,
    ScoreRows,
    SketchScores,
    WritePosterior,
    scores_batch,
    scores_schema,
)
from .tables import read_bytes
from .transform.sampling import RowSample
from .transform.scoring import (
    MAX_TRAIN_VALUES,
    HonestScorer,
    ScoreModel,
    Trained,
    TransformSettings,
    check_sizes,
    train,
)
from .transform.store import StoredModel, load_model, save_model
from .work import Work

Result = TypeVar("Result")


def train_model(rows: Rows, settings: TransformSettings, console: Console, out: str) -> Trained:
    """Train on the rows, and write the model with what it takes to score them honestly."""
    for table in rows.tables:
        names = Counter(os.path.basename(shard.name) for shard in table.shards)
        name, count = names.most_common(1)[0]
        if count > 1:
            raise InputError(f"{table.name}: the files must differ by name: {count} are {name!r}")
    trained = _trained(rows, settings, Work(console, Local(settings.threads)))
    with write_atomically(out) as file:
        save_model(StoredModel(trained.model, scorer=trained.scorer), file)
    _tell(trained, console)
    return trained


def transform(
    rows: Rows,
    settings: TransformSettings,
    work: Work,
    out: str | None = None,
    model_out: str | None = None,
) -> tuple[Sketch, Trained]:
    """Train on the rows and score them honestly; write the scores and the model where wanted."""
    trained = _trained(rows, settings, work)
    step = ScoreRows(trained.scorer)
    if out is None:
        sketch = work.gather(step, rows, "score")
    else:
        sketch = work.write(step, rows, "score", out)
    if model_out is not None:
        with write_atomically(model_out) as file:
            save_model(StoredModel(trained.model, sketch), file)
    _tell(trained, work.console)
    return sketch, trained


def _trained(rows: Rows, settings: TransformSettings, work: Work) -> Trained:
    with work.console.progress("train") as progress:
        return work.engine.call(train, rows, settings, progress=progress)


def _tell(trained: Trained, console: Console) -> None:
    columns = [column.name for column in trained.model.encoding.columns]
    if trained.model.model is None:
        console.say(f"punoise: column {columns[0]!r} is used as the score")
    else:
        console.say(f"punoise: a score was learned from {len(columns)} columns")
    console.warn(trained.notices)


def score(rows: Rows, model: ScoreModel, work: Work, out: str) -> int:
    """Score new rows by a trained model; returns their number."""
    return work.write(ScoreRows(model), rows, "score", out).n_unlabeled


def score_training_rows(
    rows: Rows, scorer: HonestScorer, labeled: bool | None, threads: int, out: str
) -> int:
    """Score files of the tables that a scorer was trained on; returns the number of their rows.

    `labeled` is None where one table held both kinds of rows.
    """
    (table,) = rows.tables
    position = 0 if labeled is not False else 1
    if len(scorer.files) != (1 if labeled is None else 2):
        raise UsageError(
            "the model was trained on one table with a label column: use --label-column"
            if labeled is not None
            else "the model was trained on two tables: use --set labeled or --set unlabeled"
        )
    known = {file.name: file for file in scorer.files[position]}
    parts = []
    for shard in table.shards:
        file = known.get(os.path.basename(shard.name))
        if file is None:
            names = ", ".join([*known][:8]) + (", ..." if len(known) > 8 else "")
            raise InputError(f"{shard.name}: the model was not trained on it but on {names}")
        part = [table.only(()) for _ in scorer.files]
        part[position] = table.only([shard], file.first_row)
        parts.append((replace(rows, tables=tuple(part)), file))
    count = 0
    with table_writer(out, scores_schema(with_set=True), UNIQUE_COLUMNS) as write:
        for part_rows, file in parts:
            seen = 0
            for chunk, scores in scorer.score_all(part_rows, threads):
                write(scores_batch(part_rows, chunk, scores, with_set=True))
                seen += len(scores)
            if seen != file.rows:
                raise InputError(
                    f"{file.name}: has {seen} rows, and had {file.rows} when the model was trained"
                )
            count += seen
    return count


def sketch_scores(scored: ScoredRows, work: Work) -> Sketch:
    """The sketch of a SCORES file, enough of it to estimate from."""
    sketch = work.gather(SketchScores(), scored.rows, "sketch")
    check_sizes(scored.rows.tables[0].name, sketch.n_labeled, sketch.n_unlabeled)
    return sketch


def calibration_sketch(
    scored: ScoredRows, model: str | None, sketch: str | None, work: Work
) -> Sketch:
    """The sketch to calibrate by: a file's, that of the model's rows, or that of the scores."""
    if sketch is not None:
        loaded = load_sketch(sketch, read_bytes(sketch))
        check_sizes(sketch, loaded.n_labeled, loaded.n_unlabeled)
        return loaded
    if model is None:
        return sketch_scores(scored, work)
    stored = load_model(model, read_bytes(model))
    if stored.sketch is None:
        raise InputError(f"{model}: holds no scores to calibrate by; give --sketch")
    return stored.sketch


def merged_sketch(names: Sequence[str]) -> Sketch:
    """The sketch of all rows that the sketches in some files were made of."""
    if len({os.path.realpath(name) for name in names}) < len(names):
        raise UsageError("a sketch is named twice, and its rows would count twice")
    return Sketch.merge(load_sketch(name, read_bytes(name)) for name in names)


def write_sketch(sketch: Sketch, out: str) -> None:
    """Write a sketch to a file."""
    with write_atomically(out) as file:
        save_sketch(sketch, file)


def needs_features(method: str) -> bool:
    """Whether a method, or one of all, reads the feature tables themselves."""
    return method == "all" or ESTIMATORS[method].needs == "features"


def feature_samples(rows: Rows, model: ScoreModel, settings: TransformSettings) -> Samples:
    """The feature tables as numbers, gaps at their column's mean; samples of large ones."""
    size = min(settings.max_train_rows, MAX_TRAIN_VALUES // len(rows.features)) // 2
    samples = [RowSample(size, settings.seed) for _ in range(2)]
    for chunk in rows.chunks(rows.features):
        for sample, wanted in zip(samples, (chunk.labeled, ~chunk.labeled), strict=True):
            sample.add(chunk, wanted)
    matrices = []
    for sample in samples:
        sample.cut(size)
        matrices.append(np.concatenate([model.encoding.encode(chunk) for chunk in sample.chunks]))
    known = [~np.isnan(matrix) for matrix in matrices]
    total = sum(np.where(k, m, 0).sum(0) for k, m in zip(known, matrices, strict=True))
    mean = total / np.maximum(sum(k.sum(0) for k in known), 1)
    return Samples(*(np.where(k, m, mean) for k, m in zip(known, matrices, strict=True)))


@dataclass(frozen=True)
class PosteriorRequest:
    """What POSTERIOR is to hold beyond its standing columns."""

    bounds: bool = False
    fdr: float | None = None
    levels: Sequence[Level] = ()
    target_alpha: float | None = None
    calibrator: str = "isotonic"
    seed: int = 0


def posterior_columns(
    calibration: Calibration, request: PosteriorRequest
) -> dict[str, NDArray[Any]]:
    """The columns of POSTERIOR after the score, for each cell of the sketch."""
    sketch = calibration.sketch
    p, fdr = calibration.posterior, calibration.fdr
    if request.target_alpha is not None:
        p, fdr = shift_prior(calibration, request.target_alpha)
    columns: dict[str, NDArray[Any]] = {
        "tau": calibration.tau,
        "posterior": p,
        "lr": calibration.lr,
        "fdr": fdr,
        "posterior_labeled": calibration.posterior_labeled,
    }
    if request.bounds or request.levels:
        copies = replicates(sketch, calibration.prior, request.calibrator, request.seed)
        low, high = posterior_bounds(sketch, copies, request.target_alpha)
        low, high = np.minimum(low, p), np.maximum(high, p)
        if request.bounds:
            columns |= {"posterior_low": low, "posterior_high": high}
        if request.levels:
            columns["evidence"] = strengths(request.levels, low, high)
    if request.fdr is not None:
        columns["call"] = fdr <= request.fdr
    return columns


def posterior(scored: ScoredRows, step: WritePosterior, work: Work, out: str) -> PosteriorRows:
    """Write POSTERIOR; returns what was seen of the rows on the way."""
    return work.write(step, scored.rows, "posterior", out)


def performance(
    calibration: Calibration, calibrator: str, thresholds: Sequence[float], seed: int, out: str
) -> str:
    """Write the figures of the score as a classifier, with intervals; returns the AUC's."""
    sketch = calibration.sketch
    at = np.sort(np.array(thresholds)) if thresholds else sketch.scores
    found = measure(calibration, at)
    copies = [measure(copy, at) for copy in replicates(sketch, calibration.prior, calibrator, seed)]
    auc_low, auc_high = interval([copy.auc for copy in copies], found.auc)
    columns: dict[str, FloatArray] = {
        "threshold": at,
        "posterior": calibration.posterior[sketch.cells_of(at)],
        "called": found.called,
    }
    for name, values in found.measures.items():
        low, high = interval([copy.measures[name] for copy in copies], values)
        columns |= {name: values, f"{name}_low": low, f"{name}_high": high}
    if is_json(out):
        rows = [
            {k: None if np.isnan(v) else float(v) for k, v in zip(columns, row, strict=True)}
            for row in zip(*columns.values(), strict=True)
        ]
        document = {
            "schema": "punoise.performance/1",
            "punoise_version": __version__,
            "auc": found.auc,
            "auc_ci": [float(auc_low), float(auc_high)],
            "thresholds": rows,
        }
        write_json(out, document)
    else:
        arrays = [pa.array(values, from_pandas=True) for values in columns.values()]
        _write_table(out, pa.RecordBatch.from_arrays(arrays, list(columns)))
    return f"{found.auc:.4f} [{auc_low:.4f}, {auc_high:.4f}]"


def write_simulation(simulation: Simulation, out_dir: str) -> None:
    """Write labeled.csv and unlabeled.csv, and truth.csv with the class of each of their rows."""
    for name, matrix in (("labeled", simulation.labeled), ("unlabeled", simulation.unlabeled)):
        features = [f"x{i}" for i in range(1, matrix.shape[1] + 1)]
        batch = pa.RecordBatch.from_arrays([pa.array(x) for x in matrix.T], features)
        _write_table(str(Path(out_dir) / f"{name}.csv"), batch)
    classes = (simulation.labeled_y, simulation.unlabeled_y)
    truth = {
        "id": [str(i) for y in classes for i in range(len(y))],
        "set": np.repeat(["labeled", "unlabeled"], [len(y) for y in classes]).tolist(),
        "y": np.concatenate(classes).astype(int),
    }
    _write_table(str(Path(out_dir) / "truth.csv"), pa.RecordBatch.from_pydict(truth))


def _write_table(name: str, batch: pa.RecordBatch) -> None:
    with table_writer(name, batch.schema) as write:
        write(batch)
