"""SCORES: its columns, how rows come to be scored and written, and the sketch of them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..errors import InputError, UsageError
from ..notices import Notice
from ..numerics import FloatArray
from ..proteomics.matches import Matches, MatchFinder
from ..scale.engine import Engine, Job, RowsDone, ahead
from ..tables.columns import Column, Encoding
from ..tables.reading import open_table, parquet_metadata
from ..tables.rows import OWN_COLUMNS, SETS, Chunk, Rows
from ..tables.writing import WriteBatch, table_writer
from .model import HonestScorer, ScoreModel, StoredModel, save_model
from .sketch import LabeledClass, Sketch, SketchBuilder
from .training import check_sizes

SET_NAMES = pa.array(SETS)
SCORE_COLUMN = Encoding((Column("score", "number"),))
# nearly so: a dictionary of their values does not pay
UNIQUE_COLUMNS = ("id", "score", "pep", "q_value")
WARNINGS_KEY = "punoise.warnings"  # of Parquet: what was noticed about the columns
LABELS_KEY = "punoise.labeled_are"  # of Parquet: what labeled rows are, where that is negatives
NEGATIVES = "negatives"


@dataclass(frozen=True)
class Scores:
    """The rows of a SCORES file; that of new rows does not say which are labeled."""

    rows: Rows

    @classmethod
    def open(
        cls, name: str, with_set: bool | None = True, group_column: str | None = None
    ) -> Scores:
        """The rows of a file; by default they must have a set, with None they may."""
        table = open_table(name)
        if with_set is None:
            with_set = "set" in table.columns
        ids = id_columns(table.columns)
        for column in (*ids, "set", "score") if with_set else (*ids, "score"):
            table.require(column, "labeled and unlabeled scores (new ones need --model)")
        rows = Rows.matched(
            [table],
            features=["score"],
            id_columns=ids,
            group_column=group_column,
            label_column="set" if with_set else None,
            keep=[c for c in table.columns if c not in ids and c not in OWN_COLUMNS],
        )
        return cls(rows)

    @property
    def name(self) -> str:
        return self.rows.tables[0].name

    @property
    def with_set(self) -> bool:
        return self.rows.label_column is not None

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What was noticed about the columns that the scores were learned from, if they say it."""
        metadata = parquet_metadata(self.rows.tables[0].shards[0])
        try:
            found = json.loads(metadata.get(WARNINGS_KEY, "[]"))
            return tuple(Notice(str(code), str(message)) for code, message in found)
        except (ValueError, TypeError) as error:
            raise InputError(f"{self.name}: its metadata are damaged") from error

    @property
    def labeled_class(self) -> LabeledClass:
        """The class that the files say labeled rows are of; positive where they say nothing."""
        shards = self.rows.tables[0].shards
        stated = {parquet_metadata(shard).get(LABELS_KEY) for shard in shards}
        if stated not in ({None}, {NEGATIVES}):
            raise InputError(f"{self.name}: labeled rows are negatives in only some of its files")
        return "negative" if stated == {NEGATIVES} else "positive"

    def chunks(self, columns: Sequence[str] = ("score",)) -> Iterator[tuple[Chunk, FloatArray]]:
        """The rows in order with their scores, which are finite, or NaN where there is none."""
        for chunk in self.rows.chunks(columns):
            yield chunk, _scores(chunk)

    def sketch(self, done: RowsDone = lambda rows: None) -> Sketch:
        """The sketch of all scores, in one pass."""
        builder = SketchBuilder(self.labeled_class)
        for chunk, scores in self.chunks():
            builder.add(scores, chunk.sets)
            done(len(scores))
        return builder.sketch()

    def checked_sketch(self, engine: Engine) -> Sketch:
        """The sketch of all scores, of which there must be enough to estimate from."""
        sketch = engine.gather(SketchScores(), self.rows, "sketch")
        check_sizes(self.name, sketch.counts.sum(0), sketch.missing)
        return sketch


def _scores(chunk: Chunk) -> FloatArray:
    column = chunk.batch["score"]
    if pa.types.is_float64(column.type) and column.null_count == 0:  # without a copy
        scores = np.asarray(column)
        if len(scores) == 0 or np.isfinite([scores.min(), scores.max()]).all():
            return scores
    return SCORE_COLUMN.encode(chunk)[:, 0]


@dataclass(frozen=True)
class SketchScores:
    """Finds the sketch of rows that have scores."""

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Sketch:
        return Scores(job.part).sketch(done)

    @staticmethod
    def merge(results: Sequence[Sketch]) -> Sketch:
        return Sketch.merge(results)


@dataclass(frozen=True)
class Scored:
    """What was seen of rows while they were scored."""

    sketch: Sketch  # of the rows that count: all, or of matches the best of each spectrum
    matches: Matches | None = None


@dataclass(frozen=True)
class WriteScores:
    """Scores rows, writes them where the job says so, and finds their sketch.

    By an honest scorer for the tables that it was trained on, by a plain model for new ones.
    """

    scorer: HonestScorer | ScoreModel
    notices: tuple[Notice, ...] = ()  # about the columns, to be kept with the scores

    def digest(self, rows: Rows) -> str:
        """A digest of all that a score depends on but the values of the rows."""
        file = io.BytesIO()
        if isinstance(self.scorer, HonestScorer):
            save_model(StoredModel(self.scorer.model, scorer=self.scorer), file)
        else:
            save_model(StoredModel(self.scorer), file)
        columns = json.dumps([rows.id_columns, rows.label_column, rows.label_values, rows.kept])
        return hashlib.sha256(file.getvalue() + columns.encode()).hexdigest()

    @property
    def model(self) -> ScoreModel:
        """The model that scores, honestly or not."""
        return self.scorer.model if isinstance(self.scorer, HonestScorer) else self.scorer

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Scored:
        with_set = isinstance(self.scorer, HonestScorer)
        if job.is_done and job.out is not None:
            return Scored(Scores.open(job.out, with_set).sketch(done))
        builder = SketchBuilder(self.model.labeled_class)
        finder = None if job.part.matches is None else MatchFinder(job.part)
        metadata = _metadata(self.model, self.notices)
        schema = scores_schema(job.part, with_set).with_metadata(metadata)
        with job_writer(job, schema) as write:
            for chunk, scores in self._scored(job.part, threads):
                bad = ~np.isfinite(scores) & ~(np.isnan(scores) & self.model.skip_missing)
                if bad.any():
                    row = int(bad.argmax())
                    raise chunk.error(job.part.features[0], "and the others have no score", row)
                write(scores_batch(job.part, chunk, scores, schema))
                if finder is None:
                    builder.add(scores, chunk.sets)
                else:
                    finder.add(chunk, scores)
                done(len(scores))
        if finder is None:
            return Scored(builder.sketch())
        matches, missing = finder.found(), finder.missing
        sketch = replace(matches.sketch, missing=missing)
        return Scored(sketch, matches)

    def _scored(self, rows: Rows, threads: int) -> Iterator[tuple[Chunk, FloatArray]]:
        if isinstance(self.scorer, HonestScorer):
            return self.scorer.score_all(rows, threads)
        return ahead(self.scorer.score, rows.chunks([*rows.features, *rows.carried]), threads)

    @staticmethod
    def merge(results: Sequence[Scored]) -> Scored:
        if len(results) == 1:
            return results[0]  # matches are not in shards
        return Scored(Sketch.merge([found.sketch for found in results]))


def write_training_scores(
    rows: Rows, scorer: HonestScorer, of: int | None, threads: int, out: str
) -> tuple[int, int]:
    """Score files of the tables that a scorer was trained on.

    Returns the number of their rows, and of those that have no score.

    `of` is the set whose table they are of, None where one table held all sets.
    """
    (table,) = rows.tables
    several = len(scorer.files) > 1
    if several and of not in scorer.sets:
        names = " or ".join(f"--set {SETS[code]}" for code in scorer.sets)
        raise UsageError(f"the model was trained on several tables: use {names}")
    if not several and of is not None:
        raise UsageError(
            "the model was trained on one table with a label column: use --label-column"
        )
    position = 0 if of is None else scorer.sets.index(of)
    known = {file.name: file for file in scorer.files[position]}
    parts = []
    for shard in table.shards:
        file = known.get(os.path.basename(shard.name))
        if file is None:
            names = ", ".join([*known][:8]) + (", ..." if len(known) > 8 else "")
            raise InputError(f"{shard.name}: the model was not trained on it but on {names}")
        part = [table.only(()) for _ in scorer.files]
        part[position] = table.only([shard], file.first_row)
        parts.append((replace(rows, tables=tuple(part), sets=scorer.sets), file))
    count = missing = 0
    schema = scores_schema(rows, with_set=True)
    if said := _metadata(scorer.model):
        schema = schema.with_metadata(said)
    with table_writer(out, schema, UNIQUE_COLUMNS) as write:
        for part_rows, file in parts:
            seen = 0
            for chunk, scores in scorer.score_all(part_rows, threads):
                write(scores_batch(part_rows, chunk, scores, schema))
                seen += len(scores)
                missing += int(np.isnan(scores).sum())
            if seen != file.rows:
                raise InputError(
                    f"{file.name}: has {seen} rows, and had {file.rows} when the model was trained"
                )
            count += seen
    return count, missing


def _metadata(model: ScoreModel, notices: Sequence[Notice] = ()) -> dict[str, str]:
    """What Parquet says of a model's scores beside the rows."""
    metadata = {}
    if notices:
        metadata[WARNINGS_KEY] = json.dumps([(notice.code, notice.message) for notice in notices])
    if model.labeled_class == "negative":
        metadata[LABELS_KEY] = NEGATIVES
    return metadata


def id_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The ids of SCORES: `id` or, where there is none, the columns before `set` and `score`."""
    before = tuple(itertools.takewhile(lambda column: column not in OWN_COLUMNS, columns))
    return ("id",) if "id" in columns or not before else before


def scores_schema(rows: Rows, with_set: bool, more: Iterable[pa.Field] = ()) -> pa.Schema:
    """The columns of SCORES: ids, set, score, perhaps more, and those that are carried through."""
    text = pa.string()
    ids, kept = ([pa.field(name, text) for name in names] for names in (rows.id_names, rows.kept))
    of_set = [pa.field("set", text)] if with_set else []
    return pa.schema([*ids, *of_set, pa.field("score", pa.float64()), *more, *kept])


def scores_batch(
    rows: Rows, chunk: Chunk, scores: FloatArray, schema: pa.Schema, more: Iterable[pa.Array] = ()
) -> pa.RecordBatch:
    """The rows of a chunk as they stand in SCORES, with the columns of its schema."""
    of_set = []
    if "set" in schema.names:
        of_set = [SET_NAMES.take(pa.array(chunk.sets))]
    arrays = [
        *rows.id_parts(chunk),
        *of_set,
        pa.array(scores, from_pandas=True),
        *more,
        *rows.carry(chunk),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextlib.contextmanager
def job_writer(job: Job, schema: pa.Schema) -> Iterator[WriteBatch]:
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
