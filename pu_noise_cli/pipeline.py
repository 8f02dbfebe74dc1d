"""The steps between files: tables to scores, scores to a prior, both to posteriors.

`run` is these three steps one after the other, so its files are what the three commands write.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from . import __version__
from .console import Console
from .errors import InputError, Notice
from .estimators import ESTIMATORS, Samples, Settings
from .evidence import Level, strengths
from .features import Column, Encoding
from .outputs import check_target, is_json, table_writer, write_atomically, write_json
from .performance import interval
from .performance import performance as measure
from .posterior import (
    Calibration,
    calibrate,
    posterior_bounds,
    replicates,
    shift_prior,
)
from .prior import Prior, estimate_prior, prior_shares
from .rows import Chunk, Rows
from .simulate import Simulation
from .sketch import Sketch
from .tables import open_table
from .transform.sampling import RowSample
from .transform.scoring import (
    MAX_TRAIN_VALUES,
    ScoreModel,
    Trained,
    TransformSettings,
    check_sizes,
    train,
)
from .transform.store import save_model

SET_NAMES = np.array(["unlabeled", "labeled"])
SCORE_COLUMN = Encoding((Column("score", "number"),))
EMPTY_SKETCH = Sketch.of(np.empty(0), np.empty(0))


def transform(
    rows: Rows, settings: TransformSettings, console: Console, out: str, model_out: str | None
) -> Trained:
    """Train on the rows; write their honest scores to SCORES and, where wanted, the model."""
    with console.progress("transform") as progress:
        trained = train(rows, settings, progress)
    sketch = EMPTY_SKETCH
    with table_writer(out, _scores_schema(with_set=True)) as write:
        for chunk, scores in trained.score_all(rows, settings.threads):
            write(_scores_batch(rows, chunk, scores, with_set=True))
            sketch = _added(sketch, chunk, scores)
    if model_out is not None:
        with write_atomically(model_out) as file:
            save_model(trained.model, sketch, file)
    _tell(trained, console)
    return trained


def sketch_tables(
    rows: Rows, settings: TransformSettings, console: Console
) -> tuple[Sketch, Trained]:
    """The sketch of the rows' honest scores, and what they come from."""
    with console.progress("transform") as progress:
        trained = train(rows, settings, progress)
    sketch = _sketch(trained.score_all(rows, settings.threads))
    _tell(trained, console)
    return sketch, trained


def _tell(trained: Trained, console: Console) -> None:
    columns = [column.name for column in trained.model.encoding.columns]
    if trained.model.model is None:
        console.say(f"punoise: column {columns[0]!r} is used as the score")
    else:
        console.say(f"punoise: a score was learned from {len(columns)} columns")
    console.warn(trained.notices)


def _sketch(scored: Iterator[tuple[Chunk, NDArray[np.float64]]]) -> Sketch:
    sketch = EMPTY_SKETCH
    for chunk, scores in scored:
        sketch = _added(sketch, chunk, scores)
    return sketch


def _added(sketch: Sketch, chunk: Chunk, scores: NDArray[np.float64]) -> Sketch:
    return Sketch.merge([sketch, Sketch.of(scores[chunk.labeled], scores[~chunk.labeled])])


def score(rows: Rows, model: ScoreModel, threads: int, out: str) -> int:
    """Score new rows by a trained model; returns their number."""
    count = 0
    with table_writer(out, _scores_schema(with_set=False)) as write:
        for chunk in rows.chunks([*rows.features, *rows.id_and_group]):
            write(_scores_batch(rows, chunk, model.score(chunk, threads), with_set=False))
            count += chunk.batch.num_rows
        if count == 0:
            raise InputError(f"{rows.tables[0].name}: the table has no rows")
    return count


def _scores_schema(with_set: bool) -> pa.Schema:
    fields = [("id", pa.string()), ("set", pa.string()), ("score", pa.float64())]
    return pa.schema([field for field in fields if with_set or field[0] != "set"])


def _scores_batch(
    rows: Rows, chunk: Chunk, scores: NDArray[np.float64], with_set: bool
) -> pa.RecordBatch:
    columns = {"id": rows.ids(chunk), "score": pa.array(scores)}
    if with_set:
        columns["set"] = pa.array(SET_NAMES[chunk.labeled.astype(int)], pa.string())
    schema = _scores_schema(with_set)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


@dataclass(frozen=True)
class ScoredRows:
    """A SCORES file; that of new rows does not say which are labeled."""

    rows: Rows

    @classmethod
    def open(cls, name: str, with_set: bool = True) -> ScoredRows:
        table = open_table(name)
        for column in ("id", "set", "score") if with_set else ("id", "score"):
            table.require(column, "labeled and unlabeled scores (new ones need --model)")
        label = "set" if with_set else None
        rows = Rows.matched([table], features=["score"], id_column="id", label_column=label)
        return cls(rows)

    def chunks(self) -> Iterator[tuple[Chunk, NDArray[np.float64]]]:
        """The rows in order with their scores, all of them finite."""
        for chunk in self.rows.chunks(["id", "score"]):
            scores = SCORE_COLUMN.encode(chunk)[:, 0]
            if np.isnan(scores).any():
                raise chunk.error("score", "has no value", int(np.isnan(scores).argmax()))
            yield chunk, scores

    def sketch(self) -> Sketch:
        """The sketch of all scores, in one pass."""
        sketch = _sketch(self.chunks())
        check_sizes(self.rows, sketch.n_labeled, sketch.n_unlabeled)
        return sketch


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


def posterior(
    scored: ScoredRows, sketch: Sketch, columns: dict[str, NDArray[Any]], out: str
) -> Counter[tuple[str, Any]]:
    """Write POSTERIOR; returns how many unlabeled rows are called, and of each strength."""
    with_set = scored.rows.label_column is not None
    if not with_set:
        columns = {k: v for k, v in columns.items() if k != "posterior_labeled"}
    fields = [pa.field(name, pa.array(values[:0]).type) for name, values in columns.items()]
    schema = pa.schema([*_scores_schema(with_set), *fields])
    counts: Counter[tuple[str, Any]] = Counter()
    rows = 0
    with table_writer(out, schema) as write:
        for chunk, scores in scored.chunks():
            cells = sketch.cells_of(scores)
            batch = _scores_batch(scored.rows, chunk, scores, with_set)
            arrays = [
                pa.array(
                    values[cells], mask=~chunk.labeled if name == "posterior_labeled" else None
                )
                for name, values in columns.items()
            ]
            write(pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema))
            for name in {"call", "evidence"} & columns.keys():
                kinds, numbers = np.unique(columns[name][cells][~chunk.labeled], return_counts=True)
                for kind, number in zip(kinds.tolist(), numbers.tolist(), strict=True):
                    counts[name, kind] += number
            rows += chunk.batch.num_rows
        if rows == 0:
            raise InputError(f"{scored.rows.tables[0].name}: the table has no rows")
    return counts


def performance(
    calibration: Calibration, calibrator: str, thresholds: Sequence[float], seed: int, out: str
) -> str:
    """Write the figures of the score as a classifier, with intervals; returns the AUC's."""
    sketch = calibration.sketch
    at = np.sort(np.array(thresholds)) if thresholds else sketch.scores
    found = measure(calibration, at)
    copies = [measure(copy, at) for copy in replicates(sketch, calibration.prior, calibrator, seed)]
    auc_low, auc_high = interval([copy.auc for copy in copies], found.auc)
    columns: dict[str, NDArray[np.float64]] = {
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


@dataclass(frozen=True)
class RunOutput:
    """What `run` has found, for the summary."""

    prior: Prior
    calibration: Calibration
    files: tuple[str, ...]
    notices: tuple[Notice, ...]  # of all steps


RUN_OUTPUTS = (
    *(f"{name}.{form}" for name in ("scores", "posterior") for form in ("parquet", "tsv", "csv")),
    *("prior.json", "model.punoise", "provenance.json"),
)


def check_run_targets(out_dir: str) -> None:
    """Stop, before any work is done, where one of run's files cannot be replaced."""
    for name in RUN_OUTPUTS:
        check_target(os.path.join(out_dir, name))


def remove_other_outputs(out_dir: str, keep: Iterable[str]) -> None:
    """Remove what an earlier run has left that this one did not write."""
    for name in set(RUN_OUTPUTS) - set(keep):
        Path(out_dir, name).unlink(missing_ok=True)


def run(
    rows: Rows,
    transform_settings: TransformSettings,
    settings: Settings,
    method: str,
    sample: str | None,
    table_format: str,
    options: dict[str, Any],
    console: Console,
    out_dir: str,
) -> RunOutput:
    """All steps into a directory, whose files change only once every step has succeeded."""
    stage = Path(tempfile.mkdtemp(prefix=".punoise-", dir=out_dir))
    try:
        scores = str(stage / f"scores.{table_format}")
        model = str(stage / "model.punoise")
        trained = transform(rows, transform_settings, console, scores, model)
        scored = ScoredRows.open(scores)
        sketch = scored.sketch()
        samples = None
        if needs_features(method):
            samples = feature_samples(rows, trained.model, transform_settings)
        prior = estimate_prior(sketch, method, settings, samples, sample)
        write_json(str(stage / "prior.json"), prior.as_json())
        calibration = calibrate(sketch, prior_shares("prior.json", prior.as_json()))
        columns = posterior_columns(calibration, PosteriorRequest())
        posterior(scored, sketch, columns, str(stage / f"posterior.{table_format}"))
        write_json(str(stage / "provenance.json"), provenance(rows, trained, options))
        names = sorted(path.name for path in stage.iterdir())
        for name in names:
            os.replace(stage / name, Path(out_dir) / name)
        remove_other_outputs(out_dir, keep=names)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    notices = (*trained.notices, *prior.notices, *calibration.notices)
    return RunOutput(prior, calibration, tuple(names), notices)


def write_simulation(simulation: Simulation, out_dir: str) -> None:
    """Write labeled.csv and unlabeled.csv, and truth.csv with the class of each of their rows."""
    for name, matrix in (("labeled", simulation.labeled), ("unlabeled", simulation.unlabeled)):
        features = [f"x{i}" for i in range(1, matrix.shape[1] + 1)]
        batch = pa.RecordBatch.from_arrays([pa.array(x) for x in matrix.T], features)
        _write_table(str(Path(out_dir) / f"{name}.csv"), batch)
    classes = (simulation.labeled_y, simulation.unlabeled_y)
    truth = {
        "id": [str(i) for y in classes for i in range(len(y))],
        "set": np.repeat(SET_NAMES[::-1], [len(y) for y in classes]).tolist(),
        "y": np.concatenate(classes).astype(int),
    }
    _write_table(str(Path(out_dir) / "truth.csv"), pa.RecordBatch.from_pydict(truth))


def _write_table(name: str, batch: pa.RecordBatch) -> None:
    with table_writer(name, batch.schema) as write:
        write(batch)


def provenance(rows: Rows, trained: Trained, options: dict[str, Any]) -> dict[str, Any]:
    """What a run was made of, so that it can be repeated and audited."""
    import platform

    return {
        "schema": "punoise.provenance/1",
        "punoise_version": __version__,
        "python_version": platform.python_version(),
        "inputs": [
            {"table": table.name, "file": shard.name, "sha256": shard.sha256()}
            for table in rows.tables
            for shard in table.shards
        ],
        "options": options,
        "n_labeled": trained.n_labeled,
        "n_unlabeled": trained.n_unlabeled,
        "columns": trained.columns,
        "warnings": [notice._asdict() for notice in trained.notices],
    }
