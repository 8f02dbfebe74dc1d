"""POSTERIOR: its columns, the step that writes them, and the labels to check first."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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

LABELED_ONLY = ("posterior_labeled",)  # columns that are null on unlabeled rows
TARGET_ALPHA = "target_alpha"  # names the population that the posteriors are for
DOUBTFUL_ROWS = 50

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
        columns["posterior_low"], columns["posterior_high"] = bounds.at(target_alpha)
    columns |= further or {}
    if fdr is not None:
        columns["call"] = rate <= fdr
    for name, values in columns.items():
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise EstimationError(f"{name!r} cannot be computed from these scores")
    return columns


@dataclass(frozen=True)
class DoubtfulRow:
    """A labeled row whose score contradicts its label."""

    row: int  # in SCORES, from 1
    id: str
    score: float


class DoubtfulRows:
    """The labeled rows whose labels are least likely right, gathered in one pass.

    These are the rows with the lowest scores or, if labels are of negatives, the highest. Of equal
    scores the earlier row comes first.
    """

    def __init__(self, size: int = DOUBTFUL_ROWS, label_sign: float = 1.0) -> None:
        self.sign = label_sign
        self.size = size
        self.kept: list[DoubtfulRow] = []

    def add(
        self, ids: pa.Array, scores: FloatArray, labeled: NDArray[np.bool_], first_row: int
    ) -> None:
        """Look at rows, all arrays of shape (n,); the first is at `first_row`, from 0."""
        candidates, ranked = np.flatnonzero(labeled & ~np.isnan(scores)), self.sign * scores
        if len(self.kept) == self.size:
            candidates = candidates[ranked[candidates] < self.sign * self.kept[-1].score]
        lowest = candidates[np.argsort(ranked[candidates], kind="stable")[: self.size]]
        new = [
            DoubtfulRow(first_row + int(i) + 1, str(ids[int(i)].as_py()), float(scores[i]))
            for i in lowest
        ]
        self._keep(new)

    def _keep(self, new: Sequence[DoubtfulRow]) -> None:
        merged = sorted([*self.kept, *new], key=lambda row: (self.sign * row.score, row.row))
        self.kept = merged[: self.size]

    @classmethod
    def merge(cls, parts: Sequence[DoubtfulRows]) -> DoubtfulRows:
        """The most doubtful rows of all parts."""
        merged = cls(max(part.size for part in parts), parts[0].sign)
        for part in parts:
            merged._keep(part.kept)
        return merged


@dataclass
class PosteriorRows:
    """Counts of the rows whose posteriors were written."""

    unlabeled: IntArray  # (cells,)
    doubtful: DoubtfulRows
    missing: int = 0  # rows without a score
    reached: Counter[str] = field(default_factory=Counter)  # unlabeled rows by call or evidence

    def add(self, rows: Rows, chunk: Chunk, scores: FloatArray, cells: IntArray) -> None:
        """Count the rows of a chunk with their scores and cells, both of shape (n,)."""
        counted = cells if chunk.unlabeled.all() else cells[chunk.unlabeled]
        if has_gaps(scores):
            self.missing += int(np.isnan(scores).sum())
            counted = cells[chunk.unlabeled & ~np.isnan(scores)]
        self.unlabeled[:] += np.bincount(counted, minlength=len(self.unlabeled))
        if chunk.labeled.any():
            self.doubtful.add(rows.ids(chunk), scores, chunk.labeled, chunk.first_row)


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

    def digest(self, rows: Rows) -> str:
        """A digest of everything that a posterior depends on but the values of the rows."""
        names = [rows.label_column, self.sketch.level, *self.columns]
        digest = hashlib.sha256(json.dumps(names).encode())
        for array in (self.sketch.edges, *self.columns.values()):
            digest.update(f"{array.dtype}:".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __call__(self, job: Job, done: RowsDone, threads: int) -> PosteriorRows:
        with_set = job.part.label_column is not None
        doubtful = DoubtfulRows(label_sign=self.label_sign)
        counts = PosteriorRows(np.zeros(len(self.sketch.edges), np.int64), doubtful)
        if job.is_done:
            for chunk, scores in score_chunks(job.part, self.read_again(job.part)):
                self.count(counts, job.part, chunk, scores)
                done(len(scores))
            return counts
        names = [name for name in self.columns if with_set or name not in LABELED_ONLY]
        fields = [pa.field(name, pa.array(self.columns[name][:0]).type) for name in names]
        schema = scores_schema(job.part, with_set, fields)
        with job_writer(job, schema) as write:
            for chunk, scores in score_chunks(job.part, job.part.carried):
                arrays = self.arrays(names, chunk, scores)
                write(scores_batch(job.part, chunk, scores, schema, arrays))
                self.count(counts, job.part, chunk, scores)
                done(len(scores))
        return counts

    def read_again(self, rows: Rows) -> Sequence[str]:
        """The columns, beside the score, to read of rows whose posteriors are written already."""
        return rows.id_columns

    def arrays(self, names: Sequence[str], chunk: Chunk, scores: FloatArray) -> list[pa.Array]:
        """The named columns of the rows of a chunk, null where they have no score."""
        cells, rows = self.sketch.cell_index(scores), np.arange(len(scores))

        def array(name: str) -> pa.Array:
            known = known_rows(name, chunk, scores)
            if name in self.by_score:
                return take_known(self.by_score[name](scores), rows, known)
            return take_known(self.columns[name], cells, known)

        return [array(name) for name in names]

    def count(self, counts: PosteriorRows, rows: Rows, chunk: Chunk, scores: FloatArray) -> None:
        """Count the rows of a chunk."""
        counts.add(rows, chunk, scores, self.sketch.cell_index(scores))

    @staticmethod
    def merge(results: Sequence[PosteriorRows]) -> PosteriorRows:
        return PosteriorRows(
            np.sum([part.unlabeled for part in results], axis=0),
            DoubtfulRows.merge([part.doubtful for part in results]),
            sum(part.missing for part in results),
            sum((part.reached for part in results), Counter()),
        )


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
