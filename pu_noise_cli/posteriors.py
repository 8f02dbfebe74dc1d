"""POSTERIOR: its columns, how they are written, and the labels to check first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .bounds import Bounds, bounds
from .calibration import Calibration, shift_prior
from .engine import RowsDone
from .errors import EstimationError
from .evidence import Level, strengths
from .matches import Confidence, posterior_between
from .rows import Chunk, Rows
from .scores import Scores, job_writer, scores_batch, scores_schema
from .shards import Job
from .sketch import FloatArray, IntArray, Sketch, has_gaps

OF_LABELED = ("posterior_labeled",)  # null on unlabeled rows
TARGET_ALPHA = "target_alpha"  # a column that says for which population the posteriors are
OF_MATCHES = ("pep", "q_value")  # null on those that are not the best of their spectrum
DOUBTFUL_ROWS = 50

Columns = dict[str, NDArray[Any]]  # by cell of the sketch, each of shape (cells,)


@dataclass(frozen=True)
class PosteriorRequest:
    """What POSTERIOR is to hold beyond its standing columns."""

    bounds: bool = False
    fdr: float | None = None
    levels: Sequence[Level] = ()
    target_alpha: float | None = None
    calibrator: str = "isotonic"
    seed: int = 0

    @property
    def bounded(self) -> bool:
        """Whether bounds are needed."""
        return self.bounds or bool(self.levels)


def posterior_columns(
    calibration: Calibration, request: PosteriorRequest, held: Bounds | None = None
) -> Columns:
    """The columns of POSTERIOR after the score; `held` are the bounds, where they are known."""
    p, fdr = calibration.posterior, calibration.fdr
    if request.target_alpha is not None:
        p, fdr = shift_prior(calibration, request.target_alpha)
    columns: Columns = {
        "tau": calibration.tau,
        "posterior": p,
        "lr": calibration.lr,
        "fdr": fdr,
        "posterior_labeled": calibration.posterior_labeled,
    }
    if request.target_alpha is not None:
        columns[TARGET_ALPHA] = np.full(len(p), request.target_alpha)
    if request.bounded:
        found = held or bounds(calibration, request.calibrator, request.seed)
        if request.bounds:
            low, high = found.posterior(request.target_alpha)
            columns |= {"posterior_low": low, "posterior_high": high}
        if request.levels:
            columns["evidence"] = strengths(request.levels, *found.lr)
    if request.fdr is not None:
        columns["call"] = fdr <= request.fdr
    for name, values in columns.items():
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise EstimationError(f"the scores are such that {name!r} cannot be computed")
    return columns


@dataclass(frozen=True)
class DoubtfulRow:
    """A labeled row whose score speaks against its label."""

    row: int  # in SCORES, from 1
    id: str
    score: float


class DoubtfulRows:
    """The labeled rows with the lowest scores, gathered in one pass in bounded memory.

    p(Y=1|x, labeled) never falls as the score rises, so these are the rows where it is lowest; of
    labeled negatives those with the highest scores are kept. Of equal scores the earlier row comes
    first.
    """

    def __init__(self, size: int = DOUBTFUL_ROWS, labeled_negatives: bool = False) -> None:
        self.sign = -1.0 if labeled_negatives else 1.0
        self.size = size
        self.kept: list[DoubtfulRow] = []

    def add(
        self, ids: pa.Array, scores: FloatArray, labeled: NDArray[np.bool_], first_row: int
    ) -> None:
        """Rows, all arrays of shape (n,), the first of which is at `first_row` from 0."""
        candidates, turned = np.flatnonzero(labeled & ~np.isnan(scores)), self.sign * scores
        if len(self.kept) == self.size:
            candidates = candidates[turned[candidates] < self.sign * self.kept[-1].score]
        lowest = candidates[np.argsort(turned[candidates], kind="stable")[: self.size]]
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
        """The lowest of all parts."""
        merged = cls(max(part.size for part in parts), parts[0].sign < 0)
        for part in parts:
            merged._keep(part.kept)
        return merged


@dataclass
class PosteriorRows:
    """What was seen of the rows while their posteriors were written."""

    unlabeled: IntArray  # (cells,): how many unlabeled rows each cell has
    doubtful: DoubtfulRows
    missing: int = 0  # rows without a score

    @classmethod
    def none(cls, cells: int, labeled_negatives: bool) -> PosteriorRows:
        return cls(np.zeros(cells, np.int64), DoubtfulRows(labeled_negatives=labeled_negatives))

    def add(self, rows: Rows, chunk: Chunk, scores: FloatArray, cells: IntArray) -> None:
        """Count the rows of a chunk, given their scores and cells, both of shape (n,)."""
        mine = cells if chunk.unlabeled.all() else cells[chunk.unlabeled]
        if has_gaps(scores):
            self.missing += int(np.isnan(scores).sum())
            mine = cells[chunk.unlabeled & ~np.isnan(scores)]
        self.unlabeled[:] += np.bincount(mine, minlength=len(self.unlabeled))
        if chunk.labeled.any():
            self.doubtful.add(rows.ids(chunk), scores, chunk.labeled, chunk.first_row)


@dataclass(frozen=True)
class WritePosteriors:
    """Writes POSTERIOR of rows that have scores."""

    sketch: Sketch
    columns: Columns
    labeled_negatives: bool
    best: Confidence | None = None  # of matches, those that have PEPs and q-values

    def digest(self, rows: Rows) -> str:
        """A digest of all that a posterior depends on but the values of the rows."""
        names = [rows.label_column, self.sketch.level, *self.columns]
        digest = hashlib.sha256(json.dumps(names).encode())
        for array in (self.sketch.edges, *self.columns.values()):
            digest.update(f"{array.dtype}:".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __call__(self, job: Job, done: RowsDone, threads: int) -> PosteriorRows:
        scored = Scores(job.part)
        found = PosteriorRows.none(len(self.sketch.edges), self.labeled_negatives)
        if job.is_done:
            for chunk, scores in scored.chunks([*job.part.id_columns, "score"]):
                found.add(job.part, chunk, scores, self.sketch.cells_of(scores))
                done(len(scores))
            return found
        columns = {k: v for k, v in self.columns.items() if scored.with_set or k not in OF_LABELED}
        fields = [pa.field(name, pa.array(values[:0]).type) for name, values in columns.items()]
        if self.best is not None:
            fields += [pa.field(name, pa.float64()) for name in OF_MATCHES]
        schema = scores_schema(job.part, scored.with_set, fields)
        with job_writer(job, schema) as write:
            for chunk, scores in scored.chunks([*job.part.carried, "score"]):
                cells = self.sketch.cells_of(scores)
                known = ~np.isnan(scores) if has_gaps(scores) else None
                of_labeled = chunk.labeled if known is None else chunk.labeled & known
                arrays = {
                    name: _at_cells(values, cells, of_labeled if name in OF_LABELED else known)
                    for name, values in columns.items()
                }
                if self.best is not None:
                    arrays |= _of_matches(self.best, chunk, scores)
                write(scores_batch(job.part, chunk, scores, schema, arrays.values()))
                found.add(job.part, chunk, scores, cells)
                done(len(scores))
        return found

    @staticmethod
    def merge(results: Sequence[PosteriorRows]) -> PosteriorRows:
        doubtful = DoubtfulRows.merge([found.doubtful for found in results])
        unlabeled = np.sum([found.unlabeled for found in results], axis=0)
        return PosteriorRows(unlabeled, doubtful, sum(found.missing for found in results))


def _of_matches(best: Confidence, chunk: Chunk, scores: FloatArray) -> dict[str, pa.Array]:
    """The posterior of each match, and the PEP and q-value of those that stand for a spectrum."""
    there, here = best.places(chunk.first_row, len(scores))
    found = {"posterior": posterior_between(best.calibration, scores)}
    for name, values in zip(OF_MATCHES, (best.pep, best.q_value), strict=True):
        found[name] = np.full(len(scores), np.nan)
        found[name][there] = values[here]
    return {name: pa.array(values, from_pandas=True) for name, values in found.items()}


def _at_cells(values: NDArray[Any], cells: IntArray, known: NDArray[np.bool_] | None) -> pa.Array:
    """The value of each row by its cell, null where it is not known."""
    missing = None if known is None else ~known
    if values.dtype.kind == "U":
        return pa.array(values).take(pa.array(cells, mask=missing))
    return pa.array(values[cells], mask=missing)
