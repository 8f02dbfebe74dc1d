"""SCORES: its columns, how rows are scored and written, and the sum of scored rows."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..errors import InputError, UsageError, option
from ..notices import Notice
from ..numerics import FloatArray
from ..scale.engine import Job, RowsDone, ahead
from ..tables.columns import Column, Encoding
from ..tables.reading import Table, held_in_memory, open_table, parquet_metadata
from ..tables.rows import OWN_COLUMNS, SET_NAMES, SETS, Chunk, LabeledClass, Rows, as_text
from ..tables.writing import MemoryTable, WriteBatch, table_writer
from .model import HonestScorer, ScoreModel
from .sketch import Sketch, SketchBuilder

SET_TEXTS = pa.array(SET_NAMES)
SCORE_COLUMN = Encoding((Column("score", "number"),))
UNIQUE_COLUMNS = ("id", "score")  # nearly: a dictionary does not pay
WARNINGS_KEY = "punoise.warnings"  # metadata of Parquet: notices about the columns
LABELS_KEY = "punoise.labeled_are"  # metadata of Parquet, present if labeled rows are negatives
NEGATED_KEY = "punoise.lower_is_positive"  # metadata of Parquet, present if scores are negated
NEGATIVES = "negatives"


def open_scores(
    source: str | MemoryTable, with_set: bool | None = True, group_column: str | None = None
) -> Rows:
    """Open a SCORES file.

    Parameters
    ----------
    with_set
        Whether the rows must have a set, which scores of new rows have not; None if they may.
    group_column
        A column that names groups of rows.
    """
    table = (
        open_table(source) if isinstance(source, str) else held_in_memory("scores", source.table)
    )
    if with_set is None:
        with_set = "set" in table.columns
    ids = id_columns(table.columns)
    for column in (*ids, "set", "score") if with_set else (*ids, "score"):
        if column not in table.columns:
            new = f"labeled and unlabeled scores; scores of new rows need {option('model')}"
            table.require(column, new)
    return Rows.from_tables(
        [table],
        features=["score"],
        id_columns=ids,
        group_column=group_column,
        label_column="set" if with_set else None,
        keep=[c for c in table.columns if c not in {*ids, *OWN_COLUMNS}],
        labeled_class=_labeled_class(table),
    )


def column_notices(rows: Rows) -> tuple[Notice, ...]:
    """Notices about the columns that scores were learned from, if their file has them."""
    metadata = parquet_metadata(rows.tables[0].shards[0])
    try:
        pairs = json.loads(metadata.get(WARNINGS_KEY, "[]"))
        return tuple(Notice(str(code), str(message)) for code, message in pairs)
    except (ValueError, TypeError) as error:
        raise InputError(f"{rows.tables[0].name}: the metadata is damaged") from error


def are_negated(rows: Rows) -> bool:
    """Whether the scores are those of a column with the opposite sign; text cannot say so."""
    return NEGATED_KEY in parquet_metadata(rows.tables[0].shards[0])


def score_chunks(rows: Rows, columns: Sequence[str] = ()) -> Iterator[tuple[Chunk, FloatArray]]:
    """The rows of SCORES in order, with some columns and their scores, NaN for a missing one."""
    for chunk in rows.chunks([*columns, "score"]):
        yield chunk, _scores(chunk)


def _labeled_class(table: Table) -> LabeledClass:
    """The class of labeled rows as the files state it; positive if they state nothing."""
    stated = {parquet_metadata(shard).get(LABELS_KEY) for shard in table.shards}
    if stated not in ({None}, {NEGATIVES}):
        raise InputError(f"{table.name}: labeled rows are negatives in only some of its files")
    return "negative" if stated == {NEGATIVES} else "positive"


def _scores(chunk: Chunk) -> FloatArray:
    column = chunk.batch["score"]
    if pa.types.is_float64(column.type) and column.null_count == 0:  # without a copy
        scores = np.asarray(column)
        if len(scores) == 0 or np.isfinite([scores.min(), scores.max()]).all():
            return scores
    return SCORE_COLUMN.encode(chunk)[:, 0]


# ---- The sum of scored rows


@dataclass(frozen=True)
class SketchScores:
    """The step that sums up rows that have scores."""

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Sketch:
        builder = SketchBuilder(job.part.labeled_class)
        for chunk, scores in score_chunks(job.part):
            builder.add(scores, chunk.sets)
            done(len(scores))
        return builder.sketch()

    @staticmethod
    def merge(results: Sequence[Sketch]) -> Sketch:
        """One sketch of the rows of all parts."""
        return results[0] if len(results) == 1 else Sketch.merge(results)


@dataclass(frozen=True)
class WriteScores:
    """Scores rows, writes them if the job has an output, and sums them up.

    An honest scorer is for the tables that it was trained on, a plain model for new ones.
    """

    scorer: HonestScorer | ScoreModel
    notices: tuple[Notice, ...] = ()  # about the columns, kept with the scores

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Sketch:
        rows, with_set = job.part, isinstance(self.scorer, HonestScorer)
        if isinstance(self.scorer, HonestScorer):
            model, scored = self.scorer.model, self.scorer.score_all(rows, threads)
        else:
            model, columns = self.scorer, [*rows.features, *rows.carried]
            scored = ahead(model.score, rows.chunks(columns), threads)
        schema = scores_schema(rows, with_set)
        schema = schema.with_metadata(_metadata(model, self.notices))
        builder = SketchBuilder(rows.labeled_class)
        with job_writer(job, schema) as write:
            for chunk, scores in scored:
                bad = ~np.isfinite(scores) & ~(np.isnan(scores) & model.skip_missing)
                if bad.any():
                    row = chunk.file_row(int(bad.argmax()))
                    raise InputError(f"{chunk.file}: row {row} has no finite score")
                write(scores_batch(rows, chunk, scores, schema))
                builder.add(scores, chunk.sets)
                done(len(scores))
        return builder.sketch()

    @staticmethod
    def merge(results: Sequence[Sketch]) -> Sketch:
        return SketchScores.merge(results)


def write_training_scores(
    rows: Rows, scorer: HonestScorer, code: int | None, threads: int, out: str
) -> Sketch:
    """Score files of the tables that a scorer was trained on, and write SCORES.

    Parameters
    ----------
    code
        The set that the files are of; None if the scorer was trained on one table of all sets.
    """
    (table,) = rows.tables
    several = len(scorer.files) > 1
    if several and code not in scorer.sets:
        names = " or ".join(f"{option('set_name')} {SETS[code]}" for code in scorer.sets)
        raise UsageError(f"the model was trained on several tables: use {names}")
    if not several and code is not None:
        raise UsageError(
            f"the model was trained on one table with a label column: use {option('label_column')}"
        )
    position = 0 if code is None else scorer.sets.index(code)
    known = {file.name: file for file in scorer.files[position]}
    rows = replace(rows, sets=scorer.sets)
    parts = []
    for shard in table.shards:
        file = known.get(os.path.basename(shard.name))
        if file is None:
            names = ", ".join([*known][:8]) + (", ..." if len(known) > 8 else "")
            raise InputError(f"{shard.name}: the model was not trained on it but on {names}")
        part = [table.only(()) for _ in scorer.files]
        part[position] = table.only([shard], file.first_row)
        parts.append((replace(rows, tables=tuple(part)), file))
    builder = SketchBuilder(scorer.model.labeled_class)
    schema = scores_schema(rows, True).with_metadata(_metadata(scorer.model))
    with table_writer(out, schema, UNIQUE_COLUMNS) as write:
        for part_rows, file in parts:
            count = 0
            for chunk, scores in scorer.score_all(part_rows, threads):
                write(scores_batch(part_rows, chunk, scores, schema))
                builder.add(scores, chunk.sets)
                count += len(scores)
            if count != file.rows:
                raise InputError(
                    f"{file.name}: has {count} rows, and had {file.rows} when the model was trained"
                )
    return builder.sketch()


def _metadata(model: ScoreModel, notices: Sequence[Notice] = ()) -> dict[str, str]:
    """The metadata of a Parquet file with a model's scores."""
    metadata = {}
    if notices:
        metadata[WARNINGS_KEY] = json.dumps([(notice.code, notice.message) for notice in notices])
    if model.labeled_class == "negative":
        metadata[LABELS_KEY] = NEGATIVES
    if model.lower_is_positive:
        metadata[NEGATED_KEY] = "true"
    return metadata


def id_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of ids in SCORES: `id`, else the columns before `set` and `score`."""
    before = tuple(itertools.takewhile(lambda column: column not in OWN_COLUMNS, columns))
    return ("id",) if "id" in columns or not before else before


def scores_schema(rows: Rows, with_set: bool, more: Iterable[pa.Field] = ()) -> pa.Schema:
    """The columns of SCORES: ids, set, score, perhaps more, and kept columns."""
    text = pa.string()
    ids, kept = ([pa.field(name, text) for name in names] for names in (rows.id_names, rows.kept))
    of_set = [pa.field("set", text)] if with_set else []
    return pa.schema([*ids, *of_set, pa.field("score", pa.float64()), *more, *kept])


def scores_batch(
    rows: Rows, chunk: Chunk, scores: FloatArray, schema: pa.Schema, more: Iterable[pa.Array] = ()
) -> pa.RecordBatch:
    """The rows of a chunk with the columns of a schema of scores_schema()."""
    of_set = [SET_TEXTS.take(pa.array(chunk.sets))] if "set" in schema.names else []
    arrays = [
        *rows.id_parts(chunk),
        *of_set,
        pa.array(scores, from_pandas=True),
        *more,
        *(as_text(chunk, column) for column in rows.kept),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextlib.contextmanager
def job_writer(job: Job, schema: pa.Schema) -> Iterator[WriteBatch]:
    """Writes the table of a job, if it has an output; only a shard may be without rows."""
    if job.out is None:
        yield lambda batch: None
        return
    rows, out = 0, job.out
    with (
        out.writer(schema)
        if isinstance(out, MemoryTable)
        else table_writer(out, schema, UNIQUE_COLUMNS)
    ) as write:

        def count(batch: pa.RecordBatch) -> None:
            nonlocal rows
            rows += batch.num_rows
            write(batch)

        yield count
        if rows == 0 and not job.is_shard:
            raise InputError(f"{job.part.tables[0].name}: the table has no rows")
