"""Rows to scores by a trained model: new rows, and those that it was trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..encoding import Encoding
from ..errors import InputError
from ..rows import Chunk, Rows
from .base import Matrix, Model
from .crossfit import CrossFit
from .scaling import Scaling
from .threads import ahead

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreModel:
    """All that scoring new rows takes: how columns become features, and features a score."""

    encoding: Encoding
    classifier: str | None = None  # None: the one feature is the score itself
    scaling: Scaling | None = None
    model: Model | None = None
    lower_is_positive: bool = False  # of a column used as the score
    skip_missing: bool = False  # of one: rows without a value have no score
    labeled_negatives: bool = False  # labeled rows are; a classifier learned to find them

    def features(self, chunk: Chunk) -> Matrix:
        """The scaled features of rows, shape (n, d)."""
        assert self.scaling is not None
        return self.scaling.apply_to(self.encoding.encode_columns(chunk))

    def score(self, chunk: Chunk) -> Scores:
        """Scores of rows that the model was not trained on, shape (n,)."""
        if self.model is None:
            values = self.encoding.encode(chunk)[:, 0]
            if not self.skip_missing:
                _check_known(chunk, self.encoding, values)
            return -values if self.lower_is_positive else values
        return self.turned(self.model.predict(self.features(chunk)))

    def turned(self, scores: Scores) -> Scores:
        """Scores of a classifier, shape (n,), such that a high one means positive."""
        return 1 - scores if self.labeled_negatives else scores


def _check_known(chunk: Chunk, encoding: Encoding, values: Scores) -> None:
    missing = np.isnan(values)
    if missing.any():
        remedy = (
            "; a score needs one: --missing-score skip leaves such rows without a posterior, "
            "--transform learns a score that copes with missing values"
        )
        column = encoding.columns[0].name
        raise chunk.error(column, "has no value", int(missing.argmax()), remedy)


class TrainingFile(NamedTuple):
    """A file of the tables that a model was trained on."""

    name: str  # without its directory
    first_row: int  # in its table
    rows: int


@dataclass(frozen=True)
class HonestScorer:
    """A score model that scores the tables it was trained on as if it had not seen them."""

    model: ScoreModel
    files: tuple[tuple[TrainingFile, ...], ...]  # of each table
    sets: tuple[int, ...]  # of each table's rows, where no column says it
    places: NDArray[np.int64]  # (n, 2): table and row of each training row, in order
    scores: Scores  # (n,): out-of-bag or out-of-fold
    group_column: str | None = None
    cross_fit: CrossFit | None = None  # for groups of which only some rows were trained on

    def score_all(self, rows: Rows, threads: int) -> Iterator[tuple[Chunk, Scores]]:
        """Every row in order with its score by models that saw neither it nor its group."""
        complete = len(self.places) == sum(file.rows for table in self.files for file in table)
        columns = [] if complete else rows.features

        def score(chunk: Chunk) -> Scores:
            if self.cross_fit is not None:
                features = self.model.features(chunk)
                found = self.cross_fit.predict(features, rows.groups(chunk))
                return self.model.turned(found)
            n = chunk.batch.num_rows
            scores = np.full(n, np.nan) if complete else self.model.score(chunk)
            mine = self.places[:, 0] == chunk.table
            trained_row = self.places[mine, 1] - chunk.first_row
            here = (trained_row >= 0) & (trained_row < n)
            scores[trained_row[here]] = self.scores[mine][here]
            if np.isnan(scores).any() and not self.model.skip_missing:
                raise InputError(f"{chunk.file}: has changed while it was read")
            return scores

        return ahead(score, rows.chunks([*columns, *rows.carried]), threads)
