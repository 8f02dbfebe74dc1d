"""What is done to the rows of one job: scored, sketched, given posteriors."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .engine import RowsDone
from .errors import InputError
from .features import Column, Encoding
from .outputs import WriteBatch, table_writer
from .report.content import DoubtfulRows
from .rows import Chunk, Rows
from .shards import Job
from .sketch import FloatArray, IntArray, Sketch, SketchBuilder
from .tables import open_table
from .transform.scoring import HonestScorer, ScoreModel
from .transform.store import StoredModel, save_model

SET_NAMES = pa.array(["unlabeled", "labeled"])
SCORE_COLUMN = Encoding((Column("score", "number"),))
UNIQUE_COLUMNS = ("id", "score")  # nearly so: a dictionary of their values does not pay


@dataclass(frozen=True)
class ScoreRows:
    """Scores of rows, written where the job says so; finds their sketch.

    By an honest scorer for the tables that it was trained on, by a plain model for new ones.
    """

    scorer: HonestScorer | ScoreModel

    def digest(self, rows: Rows) -> str:
        """A digest of all that a score depends on but the values of the rows."""
        file = io.BytesIO()
        if isinstance(self.scorer, HonestScorer):
            save_model(StoredModel(self.scorer.model, scorer=self.scorer), file)
        else:
            save_model(StoredModel(self.scorer), file)
        columns = json.dumps([rows.id_column, rows.label_column])
        return hashlib.sha256(file.getvalue() + columns.encode()).hexdigest()

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Sketch:
        with_set = isinstance(self.scorer, HonestScorer)
        if job.is_done and job.out is not None:
            return sketch_of(ScoredRows.open(job.out, with_set), done)
        builder = SketchBuilder()
        with _writer(job, scores_schema(with_set)) as write:
            for chunk, scores in self._scored(job.part, threads):
                write(scores_batch(job.part, chunk, scores, with_set))
                builder.add(scores, chunk.labeled)
                done(len(scores))
        return builder.sketch()

    def _scored(self, rows: Rows, threads: int) -> Iterator[tuple[Chunk, FloatArray]]:
        if isinstance(self.scorer, HonestScorer):
            yield from self.scorer.score_all(rows, threads)
        else:
            for chunk in rows.chunks([*rows.features, *rows.id_and_group]):
                yield chunk, self.scorer.score(chunk, threads)

    @staticmethod
    def merge(results: Sequence[Sketch]) -> Sketch:
        return Sketch.merge(results)


@dataclass(frozen=True)
class ScoredRows:
    """A SCORES file; that of new rows does not say which are labeled."""

    rows: Rows

    @classmethod
    def open(cls, name: str, with_set: bool | None = True) -> ScoredRows:
        """The rows of a file; by default they must have a set, with None they may."""
        table = open_table(name)
        if with_set is None:
            with_set = "set" in table.columns
        for column in ("id", "set", "score") if with_set else ("id", "score"):
            table.require(column, "labeled and unlabeled scores (new ones need --model)")
        label = "set" if with_set else None
        rows = Rows.matched([table], features=["score"], id_column="id", label_column=label)
        return cls(rows)

    @property
    def with_set(self) -> bool:
        return self.rows.label_column is not None

    def chunks(self, columns: Sequence[str] = ("score",)) -> Iterator[tuple[Chunk, FloatArray]]:
        """The rows in order with their scores, all of them finite."""
        for chunk in self.rows.chunks(columns):
            yield chunk, _finite_scores(chunk)


def _finite_scores(chunk: Chunk) -> FloatArray:
    column = chunk.batch["score"]
    if pa.types.is_float64(column.type) and column.null_count == 0:  # without a copy
        scores = np.asarray(column)
        if len(scores) == 0 or np.isfinite([scores.min(), scores.max()]).all():
            return scores
    scores = SCORE_COLUMN.encode(chunk)[:, 0]
    if np.isnan(scores).any():
        raise chunk.error("score", "has no value", int(np.isnan(scores).argmax()))
    return scores


def sketch_of(scored: ScoredRows, done: RowsDone) -> Sketch:
    """The sketch of all scores, in one pass."""
    builder = SketchBuilder()
    for chunk, scores in scored.chunks():
        builder.add(scores, chunk.labeled)
        done(len(scores))
    return builder.sketch()


@dataclass(frozen=True)
class SketchScores:
    """The sketch of rows that have scores."""

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Sketch:
        return sketch_of(ScoredRows(job.part), done)

    @staticmethod
    def merge(results: Sequence[Sketch]) -> Sketch:
        return Sketch.merge(results)


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


@dataclass(frozen=True)
class PosteriorRows:
    """What was seen of the rows while their posteriors were written."""

    unlabeled: IntArray  # (cells,): how many unlabeled rows each cell has
    doubtful: DoubtfulRows

    @classmethod
    def none(cls, cells: int) -> PosteriorRows:
        return cls(np.zeros(cells, np.int64), DoubtfulRows())

    def add(self, rows: Rows, chunk: Chunk, scores: FloatArray, cells: IntArray) -> None:
        """Count the rows of a chunk, given their scores and cells, both of shape (n,)."""
        some_labeled = chunk.labeled.any()
        mine = cells[~chunk.labeled] if some_labeled else cells
        self.unlabeled[:] += np.bincount(mine, minlength=len(self.unlabeled))
        if some_labeled:
            self.doubtful.add(rows.ids(chunk), scores, chunk.labeled, chunk.first_row)


@dataclass(frozen=True)
class WritePosterior:
    """POSTERIOR of rows that have scores."""

    sketch: Sketch
    columns: dict[str, NDArray[Any]]  # by cell, shape (cells,)

    def digest(self, rows: Rows) -> str:
        """A digest of all that a posterior depends on but the values of the rows."""
        names = [rows.label_column, self.sketch.level, *self.columns]
        digest = hashlib.sha256(json.dumps(names).encode())
        for array in (self.sketch.edges, *self.columns.values()):
            digest.update(f"{array.dtype}:".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __call__(self, job: Job, done: RowsDone, threads: int) -> PosteriorRows:
        scored = ScoredRows(job.part)
        found = PosteriorRows.none(len(self.sketch.edges))
        if job.is_done:
            for chunk, scores in scored.chunks(["id", "score"]):
                found.add(job.part, chunk, scores, self.sketch.cells_of(scores))
                done(len(scores))
            return found
        columns = {k: v for k, v in self.columns.items() if scored.with_set or k not in OF_LABELED}
        fields = [pa.field(name, pa.array(values[:0]).type) for name, values in columns.items()]
        schema = pa.schema([*scores_schema(scored.with_set), *fields])
        with _writer(job, schema) as write:
            for chunk, scores in scored.chunks(["id", "score"]):
                cells = self.sketch.cells_of(scores)
                batch = scores_batch(job.part, chunk, scores, scored.with_set)
                arrays = [
                    _at_cells(values, cells, chunk.labeled if name in OF_LABELED else None)
                    for name, values in columns.items()
                ]
                write(pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=schema))
                found.add(job.part, chunk, scores, cells)
                done(len(scores))
        return found

    @staticmethod
    def merge(results: Sequence[PosteriorRows]) -> PosteriorRows:
        doubtful = DoubtfulRows.merge([found.doubtful for found in results])
        return PosteriorRows(np.sum([found.unlabeled for found in results], axis=0), doubtful)


OF_LABELED = ("posterior_labeled",)  # null on unlabeled rows


def _at_cells(values: NDArray[Any], cells: IntArray, known: NDArray[np.bool_] | None) -> pa.Array:
    """The value of each row by its cell, null where it is not known."""
    if values.dtype.kind == "U":
        return pa.array(values).take(pa.array(cells))
    return pa.array(values[cells], mask=None if known is None else ~known)


def scores_schema(with_set: bool) -> pa.Schema:
    """The columns of SCORES."""
    fields = [("id", pa.string()), ("set", pa.string()), ("score", pa.float64())]
    return pa.schema([field for field in fields if with_set or field[0] != "set"])


def scores_batch(rows: Rows, chunk: Chunk, scores: FloatArray, with_set: bool) -> pa.RecordBatch:
    """The rows of a chunk as they stand in SCORES."""
    columns = {"id": rows.ids(chunk), "score": pa.array(scores)}
    if with_set:
        columns["set"] = SET_NAMES.take(pa.array(chunk.labeled.view(np.int8)))
    schema = scores_schema(with_set)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


@contextlib.contextmanager
def _writer(job: Job, schema: pa.Schema) -> Iterator[WriteBatch]:
    """Writes the table that a job wants; there must be rows in it, unless it is a shard."""
    if job.out is None:
        yield lambda batch: None
        return
    rows = 0
    with table_writer(job.out, schema, UNIQUE_COLUMNS, job.key) as write:

        def count(batch: pa.RecordBatch) -> None:
            nonlocal rows
            rows += batch.num_rows
            write(batch)

        yield count
        if rows == 0 and job.made_by is None:
            raise InputError(f"{job.part.tables[0].name}: the table has no rows")
