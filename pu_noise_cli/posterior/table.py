"""POSTERIOR: its columns, and the step that writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import EstimationError
from ..numerics import BoolArray, FloatArray, IntArray
from ..scale.engine import Job, RowsDone
from ..score.scores import job_writer, score_chunks, scores_batch, scores_schema
from ..score.sketch import Sketch
from ..tables.rows import Rows
from .calibration import Bounds, Calibration, shift_prior
from .candidates import CANDIDATE_COLUMNS, LABEL_COLUMNS, FirstRows, ListedRows
from .columns import Columns, ScoredChunk

Arrays = dict[str, NDArray[Any]]  # columns by cell of the sketch, each of shape (cells,)

LABELED_ONLY = ("posterior_labeled",)  # columns that are null on unlabeled rows
TARGET_ALPHA = "target_alpha"  # names the population that the posteriors are for
CALL = "call"


def posterior_columns(
    calibration: Calibration,
    *,
    bounds: Bounds | None = None,
    target_alpha: float | None = None,
    fdr: float | None = None,
) -> Arrays:
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
    """
    p, rate = calibration.posterior, calibration.fdr
    if target_alpha is not None:
        p, rate = shift_prior(calibration, target_alpha)
    columns: Arrays = {
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
    if fdr is not None:
        columns[CALL] = rate <= fdr
    for name, values in columns.items():
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise EstimationError(f"{name!r} cannot be computed from these scores")
    return columns


def bound_columns(bounds: Bounds, target_alpha: float | None = None) -> Arrays:
    """The columns of bounds on the posterior."""
    return dict(zip(("posterior_low", "posterior_high"), bounds.at(target_alpha), strict=True))


@dataclass
class PosteriorRows:
    """What was seen of the rows while their posteriors were written."""

    listed: ListedRows
    unlabeled: int = 0  # rows with a score
    missing: int = 0  # rows without a score
    called: int = 0  # unlabeled rows
    lowest_fdr: float = np.inf  # of an unlabeled row


@dataclass(frozen=True)
class WritePosteriors:
    """The step that writes POSTERIOR of scored rows."""

    sketch: Sketch
    columns: Columns
    label_sign: float  # see Calibration
    beside: Columns = field(default_factory=dict)  # of candidates, which POSTERIOR does not have

    def __call__(self, job: Job, done: RowsDone, threads: int) -> PosteriorRows:
        rows, with_set = job.part, job.part.label_column is not None
        seen = self.no_rows(rows)
        names = [name for name in self.columns if with_set or name not in LABELED_ONLY]
        schema = scores_schema(rows, with_set, self._fields(names))
        with job_writer(job, schema) as write:
            for chunk, scores in score_chunks(rows, rows.carried):
                scored = ScoredChunk(self.sketch, chunk, scores)
                arrays = dict(zip(names, self.arrays(names, scored), strict=True))
                write(scores_batch(rows, chunk, scores, schema, arrays.values()))
                self._see(seen, rows, scored, arrays)
                done(len(scores))
        return seen

    def arrays(self, names: Iterable[str], rows: ScoredChunk) -> list[pa.Array]:
        """The named columns of rows, null where they have no score."""
        return [
            (self.columns.get(name) or self.beside[name]).array(rows, _known_rows(name, rows))
            for name in names
        ]

    def no_rows(self, rows: Rows) -> PosteriorRows:
        """What is seen before any row, with the columns of the rows that are listed."""
        candidates, labels = (
            FirstRows(
                self._listing(rows, names)
                .empty_table()
                .select(_listed_order(rows, self._own(names)))
            )
            for names in (CANDIDATE_COLUMNS, LABEL_COLUMNS)
        )
        return PosteriorRows(ListedRows(candidates, labels))

    def _fields(self, names: Iterable[str]) -> list[pa.Field]:
        columns = {**self.beside, **self.columns}
        return [pa.field(name, columns[name].type) for name in names]

    def _see(
        self, seen: PosteriorRows, rows: Rows, scored: ScoredChunk, known: dict[str, pa.Array]
    ) -> None:
        """Count the rows of a chunk and list the first ones; some of their columns are known."""
        chunk, scores = scored.chunk, scored.scores
        has_score = np.ones(len(scores), bool) if scored.scored is None else scored.scored
        seen.missing += len(scores) - int(has_score.sum())

        def column(name: str) -> FloatArray:
            if name not in known:
                (known[name],) = self.arrays([name], scored)
            return np.asarray(known[name].to_numpy(zero_copy_only=False), np.float64)

        def batch(names: Sequence[str]) -> Callable[[IntArray], pa.RecordBatch]:
            schema, own = self._listing(rows, names), self._own(names)

            def take(places: IntArray) -> pa.RecordBatch:
                missing = [name for name in own if name not in known]
                known.update(zip(missing, self.arrays(missing, scored), strict=True))
                columns = [known[name] for name in own]
                all_rows = scores_batch(rows, chunk, scores, schema, columns)
                return all_rows.take(pa.array(places)).select(_listed_order(rows, own))

            return take

        if (unlabeled := np.asarray(chunk.unlabeled & has_score)).any():
            seen.unlabeled += int(unlabeled.sum())
            if CALL in self.columns:
                seen.called += int(column(CALL)[unlabeled].sum())
                seen.lowest_fdr = min(seen.lowest_fdr, float(column("fdr")[unlabeled].min()))
            take = batch(CANDIDATE_COLUMNS)
            seen.listed.add_candidates(
                column("posterior"), scores, unlabeled, chunk.first_row, take
            )
        if (labeled := chunk.labeled & has_score).any():
            correct = column("posterior_labeled")
            if self.label_sign < 0:
                correct = 1 - correct
            take, evidence = batch(LABEL_COLUMNS), self.label_sign * scores
            seen.listed.add_labels(correct, evidence, labeled, chunk.first_row, take)

    def _listing(self, rows: Rows, names: Sequence[str]) -> pa.Schema:
        """The columns of rows that are listed; of the named ones, those that there are."""
        return scores_schema(rows, False, self._fields(self._own(names)))

    def _own(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.columns or name in self.beside]

    @staticmethod
    def merge(results: Sequence[PosteriorRows]) -> PosteriorRows:
        return PosteriorRows(
            ListedRows.merge([part.listed for part in results]),
            sum(part.unlabeled for part in results),
            sum(part.missing for part in results),
            sum(part.called for part in results),
            min(part.lowest_fdr for part in results),
        )


def _listed_order(rows: Rows, names: Sequence[str]) -> list[str]:
    """The order of columns in a list for people: what names a row comes first."""
    return [*rows.id_names, *rows.kept, "score", *names]


def _known_rows(name: str, rows: ScoredChunk) -> BoolArray | None:
    """The rows that have a value in a column, shape (n,); None if all have."""
    if name not in LABELED_ONLY:
        return rows.scored
    labeled = rows.chunk.labeled
    return labeled if rows.scored is None else labeled & rows.scored
