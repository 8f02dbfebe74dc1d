"""POSTERIOR: its columns, how they are written, and the labels to check first."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import EstimationError
from ..evidence.strengths import Level, strengths
from ..numerics import BoolArray, FloatArray, IntArray
from ..scale.engine import Job, RowsDone
from ..score.scores import Scores, job_writer, scores_batch, scores_schema
from ..score.sketch import Sketch, has_gaps
from ..tables.rows import Chunk, Rows
from .bounds import Bounds, bounds
from .calibration import Calibration, shift_prior

OF_LABELED = ("posterior_labeled",)  # null on unlabeled rows
TARGET_ALPHA = "target_alpha"  # a column that says for which population the posteriors are
DOUBTFUL_ROWS = 50

Columns = dict[str, NDArray[Any]]  # by cell of the sketch, each of shape (cells,)


@dataclass(frozen=True)
class PosteriorRequest:
    """What POSTERIOR is to hold beyond its standing columns."""

    bounds: bool = False
    fdr: float | None = None
    levels: Sequence[Level] = ()
    target_alpha: float | None = None
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
        found = held or bounds(calibration, request.seed)
        if request.bounds:
            low, high = found.at(request.target_alpha)
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

    def __init__(self, size: int = DOUBTFUL_ROWS, label_sign: float = 1.0) -> None:
        self.sign = label_sign
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
        merged = cls(max(part.size for part in parts), parts[0].sign)
        for part in parts:
            merged._keep(part.kept)
        return merged


@dataclass
class PosteriorRows:
    """What was seen of the rows while their posteriors were written."""

    unlabeled: IntArray  # (cells,): how many unlabeled rows each cell has
    doubtful: DoubtfulRows
    missing: int = 0  # rows without a score
    reached: Counter[str] = field(default_factory=Counter)  # unlabeled rows by what is called

    @classmethod
    def none(cls, cells: int, label_sign: float) -> PosteriorRows:
        return cls(np.zeros(cells, np.int64), DoubtfulRows(label_sign=label_sign))

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
    label_sign: float  # see Calibration

    def digest(self, rows: Rows) -> str:
        """A digest of all that a posterior depends on but the values of the rows."""
        names = [rows.label_column, self.sketch.level, *self.columns]
        digest = hashlib.sha256(json.dumps(names).encode())
        for array in (self.sketch.edges, *self.columns.values()):
            digest.update(f"{array.dtype}:".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __call__(self, job: Job, done: RowsDone, threads: int) -> PosteriorRows:
        scored = Scores(job.part)
        found = PosteriorRows.none(len(self.sketch.edges), self.label_sign)
        if job.is_done:
            for chunk, scores in scored.chunks([*self.read_again(job.part), "score"]):
                self.saw(found, job.part, chunk, scores)
                done(len(scores))
            return found
        names = [name for name in self.columns if scored.with_set or name not in OF_LABELED]
        fields = [pa.field(name, pa.array(self.columns[name][:0]).type) for name in names]
        schema = scores_schema(job.part, scored.with_set, fields)
        with job_writer(job, schema) as write:
            for chunk, scores in scored.chunks([*job.part.carried, "score"]):
                arrays = self.arrays(names, chunk, scores)
                write(scores_batch(job.part, chunk, scores, schema, arrays))
                self.saw(found, job.part, chunk, scores)
                done(len(scores))
        return found

    def read_again(self, rows: Rows) -> Sequence[str]:
        """The columns, beside the score, that are read of rows whose posteriors are there."""
        return rows.id_columns

    def arrays(self, names: Sequence[str], chunk: Chunk, scores: FloatArray) -> list[pa.Array]:
        """The named columns of the rows of a chunk, null where they have no score."""
        cells = self.sketch.cell_index(scores)
        return [
            at_places(self.columns[name], cells, known_rows(name, chunk, scores)) for name in names
        ]

    def saw(self, found: PosteriorRows, rows: Rows, chunk: Chunk, scores: FloatArray) -> None:
        """Enter the rows of a chunk into what was found."""
        found.add(rows, chunk, scores, self.sketch.cell_index(scores))

    @staticmethod
    def merge(results: Sequence[PosteriorRows]) -> PosteriorRows:
        return PosteriorRows(
            np.sum([found.unlabeled for found in results], axis=0),
            DoubtfulRows.merge([found.doubtful for found in results]),
            sum(found.missing for found in results),
            sum((found.reached for found in results), Counter()),
        )


def known_rows(name: str, chunk: Chunk, scores: FloatArray) -> BoolArray | None:
    """The rows of a chunk that have a value in a column, shape (n,); None where all have."""
    scored = ~np.isnan(scores) if has_gaps(scores) else None
    if name not in OF_LABELED:
        return scored
    return chunk.labeled if scored is None else chunk.labeled & scored


def at_places(values: NDArray[Any], places: IntArray, known: BoolArray | None) -> pa.Array:
    """The values at some places, null where they are not known; the latter both of shape (n,)."""
    missing = None if known is None else ~known
    if values.dtype.kind == "U":
        return pa.array(values).take(pa.array(places, mask=missing))
    return pa.array(values[places], mask=missing)
