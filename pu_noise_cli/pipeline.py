"""The steps between files: tables to scores, scores to a prior, both to posteriors.

`run` is these three steps one after the other, so its files are what the three commands write.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .console import Console
from .errors import InputError
from .estimators import ESTIMATORS, Samples, Settings
from .features import Column, Encoding
from .posterior import Calibration, calibrate
from .prior import Prior, estimate_prior
from .rows import Chunk, Rows
from .simulate import Simulation
from .sketch import Sketch
from .tables import open_table, table_writer, write_atomically, write_json
from .transform.scoring import ScoreModel, Trained, TransformSettings, check_sizes, train
from .transform.store import save_model

SET_NAMES = np.array(["unlabeled", "labeled"])
POSTERIOR_FIELDS = ("tau", "posterior", "lr", "fdr", "posterior_labeled")
SCORE_COLUMN = Encoding((Column("score", "number"),))


def transform(rows: Rows, settings: TransformSettings, console: Console, out: str) -> Trained:
    """Train on the rows and write their honest scores to SCORES."""
    with console.progress("transform") as progress:
        trained = train(rows, settings, progress)
    with table_writer(out, _scores_schema(with_set=True)) as write:
        for chunk, scores in trained.score_all(rows, settings.threads):
            write(_scores_batch(rows, chunk, scores, with_set=True))
    _tell(trained, console)
    return trained


def sketch_tables(
    rows: Rows, settings: TransformSettings, console: Console
) -> tuple[Sketch, ScoreModel]:
    """The sketch of the rows' honest scores, and the model behind them."""
    with console.progress("transform") as progress:
        trained = train(rows, settings, progress)
    sketch = _sketch(trained.score_all(rows, settings.threads))
    _tell(trained, console)
    return sketch, trained.model


def _tell(trained: Trained, console: Console) -> None:
    columns = [column.name for column in trained.model.encoding.columns]
    if trained.model.model is None:
        console.say(f"punoise: column {columns[0]!r} is used as the score")
    else:
        console.say(f"punoise: a score was learned from {len(columns)} columns")
    console.warn(trained.notices)


def _sketch(scored: Iterator[tuple[Chunk, NDArray[np.float64]]]) -> Sketch:
    sketch = Sketch.of(np.empty(0), np.empty(0))
    for chunk, scores in scored:
        part = Sketch.of(scores[chunk.labeled], scores[~chunk.labeled])
        sketch = Sketch.merge([sketch, part])
    return sketch


def score(rows: Rows, model: ScoreModel, threads: int, out: str) -> int:
    """Score new rows by a trained model; returns their number."""
    count = 0
    with table_writer(out, _scores_schema(with_set=False)) as write:
        for chunk in rows.chunks([*rows.features, *rows.id_and_group]):
            write(_scores_batch(rows, chunk, model.score(chunk, threads), with_set=False))
            count += chunk.batch.num_rows
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
    """A SCORES file."""

    rows: Rows

    @classmethod
    def open(cls, name: str) -> ScoredRows:
        table = open_table(name)
        for column in ("id", "set", "score"):
            table.require(column, "SCORES, which has the columns id, set and score")
        rows = Rows.matched([table], features=["score"], id_column="id", label_column="set")
        return cls(rows)

    def chunks(self) -> Iterator[tuple[Chunk, NDArray[np.float64]]]:
        """The rows in order with their scores, all of them finite."""
        for chunk in self.rows.chunks(["id", "score"]):
            scores = SCORE_COLUMN.encode(chunk)[:, 0]
            if np.isnan(scores).any():
                place = chunk.place(int(np.isnan(scores).argmax()))
                raise InputError(f"{chunk.table.name}: column 'score' has no value in {place}")
            yield chunk, scores

    def sketch(self) -> Sketch:
        """The sketch of all scores, in one pass."""
        sketch = _sketch(self.chunks())
        check_sizes(self.rows, sketch.n_labeled, sketch.n_unlabeled)
        return sketch


def needs_features(method: str) -> bool:
    """Whether a method, or one of all, reads the feature tables themselves."""
    return method == "all" or ESTIMATORS[method].needs == "features"


def feature_samples(rows: Rows, model: ScoreModel) -> Samples:
    """The feature tables as numbers, missing values at their column's mean."""
    parts = [(model.encoding.encode(chunk), chunk.labeled) for chunk in rows.chunks(rows.features)]
    matrix = np.concatenate([part for part, _ in parts])
    labeled = np.concatenate([is_labeled for _, is_labeled in parts])
    known = np.isfinite(matrix)
    mean = np.where(known, matrix, 0).sum(0) / np.maximum(known.sum(0), 1)
    matrix = np.where(known, matrix, mean)
    return Samples(matrix[labeled], matrix[~labeled])


def posterior(scored: ScoredRows, calibration: Calibration, out: str) -> None:
    """Write POSTERIOR: every row of SCORES with what its score says."""
    schema = pa.schema(
        [
            *_scores_schema(with_set=True),
            *(pa.field(name, pa.float64()) for name in POSTERIOR_FIELDS),
        ]
    )
    with table_writer(out, schema) as write:
        for chunk, scores in scored.chunks():
            cells = calibration.sketch.cells_of(scores)
            batch = _scores_batch(scored.rows, chunk, scores, with_set=True)
            values = {name: getattr(calibration, name)[cells] for name in POSTERIOR_FIELDS}
            columns = [
                pa.array(values[name], mask=~chunk.labeled if name == "posterior_labeled" else None)
                for name in POSTERIOR_FIELDS
            ]
            write(pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema))


@dataclass(frozen=True)
class RunOutput:
    """What `run` has found, for the summary."""

    prior: Prior
    calibration: Calibration
    files: tuple[str, ...]


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
        trained = transform(rows, transform_settings, console, scores)
        with write_atomically(str(stage / "model.punoise")) as file:
            save_model(trained.model, file)
        scored = ScoredRows.open(scores)
        sketch = scored.sketch()
        samples = feature_samples(rows, trained.model) if needs_features(method) else None
        prior = estimate_prior(sketch, method, settings, samples, sample)
        write_json(str(stage / "prior.json"), prior.as_json())
        assert prior.answer is not None
        calibration = calibrate(sketch, prior.answer.alpha, prior.answer.beta)
        posterior(scored, calibration, str(stage / f"posterior.{table_format}"))
        write_json(str(stage / "provenance.json"), provenance(rows, trained, options))
        names = sorted(path.name for path in stage.iterdir())
        for name in names:
            os.replace(stage / name, Path(out_dir) / name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return RunOutput(prior, calibration, tuple(names))


def write_simulation(simulation: Simulation, out_dir: str) -> None:
    """Write labeled.csv and unlabeled.csv, and truth.csv with the class of each of their rows."""
    for name, matrix in (("labeled", simulation.labeled), ("unlabeled", simulation.unlabeled)):
        features = [f"x{i}" for i in range(1, matrix.shape[1] + 1)]
        batch = pa.RecordBatch.from_arrays([pa.array(x) for x in matrix.T], features)
        _write_csv(Path(out_dir) / f"{name}.csv", batch)
    classes = (simulation.labeled_y, simulation.unlabeled_y)
    truth = {
        "id": [str(i) for y in classes for i in range(len(y))],
        "set": np.repeat(SET_NAMES[::-1], [len(y) for y in classes]).tolist(),
        "y": np.concatenate(classes).astype(int),
    }
    _write_csv(Path(out_dir) / "truth.csv", pa.RecordBatch.from_pydict(truth))


def _write_csv(path: Path, batch: pa.RecordBatch) -> None:
    with table_writer(str(path), batch.schema) as write:
        write(batch)


def provenance(rows: Rows, trained: Trained, options: dict[str, Any]) -> dict[str, Any]:
    """What a run was made of, so that it can be repeated and audited."""
    import platform

    from . import __version__

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
