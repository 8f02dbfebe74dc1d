"""Rows worth a look: the most likely positives, and the labels that are least likely right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..numerics import BoolArray, FloatArray, IntArray
from ..tables.writing import write_table

MAX_ROWS = 10_000
# of POSTERIOR or beside it, where there are such
CANDIDATE_COLUMNS = (
    *("posterior", "posterior_low", "posterior_high", "fdr"),
    *("evidence", "call", "target_alpha"),
)
LABEL_COLUMNS = ("posterior_labeled",)
CANDIDATES, LABELS = "candidates.tsv", "labels_to_check.tsv"


@dataclass(frozen=True)
class FirstRows:
    """The first rows by falling key, at most `size`; of equal keys by falling score, then in order.

    Rows are added chunk by chunk, and parts are merged; memory depends on the size only.
    """

    table: pa.Table  # in order; without rows it states the columns
    order: FloatArray = field(default_factory=lambda: np.empty((0, 3)))  # -key, -score, row
    size: int = MAX_ROWS

    def select(self, key: FloatArray, score: FloatArray, wanted: BoolArray) -> IntArray:
        """The places of the wanted rows that may be among the first, all arrays of shape (n,)."""
        if len(self.order) == self.size:  # later rows with the same key and score come after these
            last_key, last_score = -self.order[-1, :2]
            wanted = wanted & ((key > last_key) | ((key == last_key) & (score > last_score)))
        places = np.flatnonzero(wanted)
        if len(places) > self.size:
            ranked = np.lexsort((places, -score[places], -key[places]))
            places = np.sort(places[ranked[: self.size]])
        return places

    def with_rows(
        self, batch: pa.RecordBatch, key: FloatArray, score: FloatArray, rows: IntArray
    ) -> FirstRows:
        """The same with more rows, which have these numbers."""
        order = np.column_stack([-key, -score, rows])
        return self._cut(pa.Table.from_batches([batch]), order)

    def _cut(self, table: pa.Table, order: FloatArray) -> FirstRows:
        merged = np.concatenate([self.order, order])
        ranked = np.lexsort(merged.T[::-1])[: self.size]
        both = pa.concat_tables([self.table, table])
        return FirstRows(both.take(pa.array(ranked)).combine_chunks(), merged[ranked], self.size)

    @staticmethod
    def merge(parts: Sequence[FirstRows]) -> FirstRows:
        """The first rows of all parts."""
        first, *others = parts
        for part in others:
            first = first._cut(part.table, part.order)
        return first


@dataclass
class ListedRows:
    """Candidates, and labels to check."""

    candidates: FirstRows
    labels: FirstRows

    def add_candidates(
        self,
        posterior: FloatArray,
        scores: FloatArray,
        wanted: BoolArray,
        first_row: int,
        batch: Callable[[IntArray], pa.RecordBatch],
    ) -> None:
        """Add unlabeled rows, arrays of shape (n,); `batch` has the columns of rows at places."""
        places = self.candidates.select(posterior, scores, wanted)
        if len(places):
            self.candidates = self.candidates.with_rows(
                batch(places), posterior[places], scores[places], first_row + places
            )

    def add_labels(
        self,
        correct: FloatArray,
        evidence: FloatArray,
        wanted: BoolArray,
        first_row: int,
        batch: Callable[[IntArray], pa.RecordBatch],
    ) -> None:
        """Add labeled rows whose labels may be wrong.

        Parameters
        ----------
        correct : (n,)
            The probability that the label is right.
        evidence : (n,)
            The score, high where it speaks for the label.
        """
        places = self.labels.select(-correct, -evidence, wanted & (correct < 1))
        if len(places):
            self.labels = self.labels.with_rows(
                batch(places), -correct[places], -evidence[places], first_row + places
            )

    @staticmethod
    def merge(parts: Sequence[ListedRows]) -> ListedRows:
        """The rows of all parts."""
        return ListedRows(
            FirstRows.merge([part.candidates for part in parts]),
            FirstRows.merge([part.labels for part in parts]),
        )

    def write(self, directory: str) -> None:
        """Write candidates.tsv and labels_to_check.tsv."""
        for name, rows in ((CANDIDATES, self.candidates), (LABELS, self.labels)):
            table = rows.table.combine_chunks()
            batches = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
            write_table(f"{directory}/{name}", batches[0])
