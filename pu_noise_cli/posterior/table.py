"""POSTERIOR: its columns, and the step that writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import EstimationError
from ..numerics import BoolArray, FloatArray, IntArray
from ..scale.engine import Job, RowsDone
from ..score.scores import job_writer, score_chunks, scores_batch, scores_schema
from ..score.sketch import Sketch, has_gaps
from ..tables.rows import Chunk, Rows
from .calibration import Bounds, Calibration, shift_prior
from .candidates import CANDIDATE_COLUMNS, LABEL_COLUMNS, FirstRows, ListedRows

LABELED_ONLY = ("posterior_labeled",)  # columns that are null on unlabeled rows
TARGET_ALPHA = "target_alpha"  # names the population that the posteriors are for

Columns = dict[str, NDArray[Any]]  # by cell of the sketch, each of shape (cells,)


def posterior_columns(
    calibration: Calibration,
    *,
    bounds: Bounds | None = None,
    target_alpha: float | None = None,
    fdr: float | None = None,
    further: Columns | None = None,
) -> Columns:
    """The columns of POSTERIOR after the score.

    Parameters
    ----------
    calibration : Calibration
    bounds : Bounds, optional
        Adds `posterior_low` and `posterior_high`.
    target_alpha : float, optional
        The fraction of positives in another population, for which posteriors and fdr are wanted.
    fdr : float, optional
        Adds `call`, true where the fdr is at most this.
    further : Columns, optional
        Columns to add before `call`.
    """
    p, rate = calibration.posterior, calibration.fdr
    if target_alpha is not None:
        p, rate = shift_prior(calibration, target_alpha)
    columns: Columns = {
        "tau": calibration.tau,
        "posterior": p,
        "lr": calibration.lr,
        "fdr": rate,
        "posterior_labeled": calibration.posterior_labeled,
    }
    if target_alpha is not None:
        columns[TARGET_ALPHA] = np.full(len(p), target_alpha)
    if bounds is not None:
        columns |= bound_columns(bounds, target_alpha)
    columns |= further or {}
    if fdr is not None:
        columns["call"] = rate <= fdr
    for name, values in columns.items():
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise EstimationError(f"{name!r} cannot be computed from these scores")
    return columns


def bound_columns(bounds: Bounds, target_alpha: float | None = None) -> Columns:
    """The columns of bounds on the posterior."""
    return dict(zip(("posterior_low", "posterior_high"), bounds.at(target_alpha), strict=True))


@dataclass
class PosteriorRows:
    """Counts of the rows whose posteriors were written."""

    unlabeled: IntArray  # (cells,)
    listed: ListedRows
    missing: int = 0  # rows without a score
    reached: Counter[str] = field(default_factory=Counter)  # unlabeled rows by call or evidence

    def add(self, chunk: Chunk, scores: FloatArray, cells: IntArray) -> None:
        """Count the rows of a chunk with their scores and cells, both of shape (n,)."""
        counted = cells if chunk.unlabeled.all() else cells[chunk.unlabeled]
        if has_gaps(scores):
            self.missing += int(np.isnan(scores).sum())
            counted = cells[chunk.unlabeled & ~np.isnan(scores)]
        self.unlabeled[:] += np.bincount(counted, minlength=len(self.unlabeled))


@dataclass(frozen=True)
class WritePosteriors:
    """The step that writes POSTERIOR of scored rows."""

    sketch: Sketch
    columns: Columns
    label_sign: float  # see Calibration
    # the columns of scores that fall between cells, such as those of new rows, by name
    by_score: Mapping[str, Callable[[FloatArray], NDArray[Any]]] = field(
        default_factory=dict, kw_only=True
    )
    # columns of candidates that POSTERIOR does not have, by cell
    beside: Columns = field(default_factory=dict, kw_only=True)

    def __call__(self, job: Job, done: RowsDone, threads: int) -> PosteriorRows:
        rows, with_set = job.part, job.part.label_column is not None
        counts = self.no_rows(rows)
        names = [name for name in self.columns if with_set or name not in LABELED_ONLY]
        schema = scores_schema(rows, with_set, self.fields(names))
        read = score_chunks(rows, rows.carried)
        with job_writer(job, schema) as write:
            for chunk, scores in read:
                arrays = self.arrays(names, chunk, scores)
                write(scores_batch(rows, chunk, scores, schema, arrays))
                self.count(counts, rows, chunk, scores, dict(zip(names, arrays, strict=True)))
                done(len(scores))
        return counts

    def fields(self, names: Iterable[str]) -> list[pa.Field]:
        """The columns of an output, by name."""
        columns = self.columns | self.beside
        return [pa.field(name, pa.array(columns[name][:0]).type) for name in names]

    def arrays(self, names: Sequence[str], chunk: Chunk, scores: FloatArray) -> list[pa.Array]:
        """The named columns of the rows of a chunk, null where they have no score."""
        cells, rows = self.sketch.cell_index(scores), np.arange(len(scores))

        def array(name: str) -> pa.Array:
            known = known_rows(name, chunk, scores)
            if name in self.by_score:
                return take_known(self.by_score[name](scores), rows, known)
            return take_known((self.columns | self.beside)[name], cells, known)

        return [array(name) for name in names]

    def no_rows(self, rows: Rows) -> PosteriorRows:
        """The counts before any row, with the columns of the rows that are listed."""
        candidates, labels = (
            FirstRows(
                self._listing(rows, names)
                .empty_table()
                .select(_listed_order(rows, self._own(names)))
            )
            for names in (CANDIDATE_COLUMNS, LABEL_COLUMNS)
        )
        cells = np.zeros(len(self.sketch.edges), np.int64)
        return PosteriorRows(cells, ListedRows(candidates, labels))

    def count(
        self,
        counts: PosteriorRows,
        rows: Rows,
        chunk: Chunk,
        scores: FloatArray,
        known: Mapping[str, pa.Array] | None = None,
    ) -> None:
        """Count the rows of a chunk and list the first ones; some of their columns are known."""
        counts.add(chunk, scores, self.sketch.cell_index(scores))
        known = known or {}

        def column(name: str) -> FloatArray:
            array = known.get(name)
            if array is None:
                (array,) = self.arrays([name], chunk, scores)
            return np.asarray(array.to_numpy(zero_copy_only=False), np.float64)

        def batch(names: Sequence[str]) -> Callable[[IntArray], pa.RecordBatch]:
            schema = self._listing(rows, names)

            def take(places: IntArray) -> pa.RecordBatch:
                own = self._own(names)
                missing = [name for name in own if name not in known]
                values = {
                    **known,
                    **dict(zip(missing, self.arrays(missing, chunk, scores), strict=True)),
                }
                columns = [values[name] for name in own]
                all_rows = scores_batch(rows, chunk, scores, schema, columns)
                return all_rows.take(pa.array(places)).select(_listed_order(rows, own))

            return take

        listed, scored = counts.listed, ~np.isnan(scores)
        if (wanted := self.is_candidate(chunk, scores)).any():
            take = batch(CANDIDATE_COLUMNS)
            listed.add_candidates(column("posterior"), scores, wanted, chunk.first_row, take)
        if (wanted := chunk.labeled & scored).any():
            correct = column("posterior_labeled")
            if self.label_sign < 0:
                correct = 1 - correct
            take, evidence = batch(LABEL_COLUMNS), self.label_sign * scores
            listed.add_labels(correct, evidence, wanted, chunk.first_row, take)

    def _listing(self, rows: Rows, names: Sequence[str]) -> pa.Schema:
        """The columns of rows that are listed; of the named ones, those that there are."""
        return scores_schema(rows, False, self.fields(self._own(names)))

    def _own(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.columns or name in self.beside]

    def is_candidate(self, chunk: Chunk, scores: FloatArray) -> BoolArray:
        """The rows that may be candidates, shape (n,)."""
        return np.asarray(chunk.unlabeled & ~np.isnan(scores))

    @staticmethod
    def merge(results: Sequence[PosteriorRows]) -> PosteriorRows:
        return PosteriorRows(
            np.sum([part.unlabeled for part in results], axis=0),
            ListedRows.merge([part.listed for part in results]),
            sum(part.missing for part in results),
            sum((part.reached for part in results), Counter()),
        )


def _listed_order(rows: Rows, names: Sequence[str]) -> list[str]:
    """The order of columns in a list for people: what names a row comes first."""
    return [*rows.id_names, *rows.kept, "score", *names]


def known_rows(name: str, chunk: Chunk, scores: FloatArray) -> BoolArray | None:
    """The rows of a chunk that have a value in a column, shape (n,); None if all have."""
    scored = ~np.isnan(scores) if has_gaps(scores) else None
    if name not in LABELED_ONLY:
        return scored
    return chunk.labeled if scored is None else chunk.labeled & scored


def take_known(values: NDArray[Any], indices: IntArray, known: BoolArray | None) -> pa.Array:
    """The values at indices, shape (n,), null where they are not known."""
    missing = None if known is None else ~known
    if values.dtype.kind == "U":
        return pa.array(values).take(pa.array(indices, mask=missing))
    return pa.array(values[indices], mask=missing)
