"""The sufficient statistic of every univariate estimator: sorted scores with their counts.

A sketch holds the distinct scores and, for each, how many rows of each set have it: unlabeled,
labeled, and known negatives where there are any. Where there are more than MAX_CELLS distinct
scores it holds them on a coarser grid. The grids do not depend on the data and each is nested in
the next finer one; the grid in use is the finest on which the scores fill at most MAX_CELLS cells.
So the sketches of shards, merged in any order, are exactly the sketch of the whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..numerics import BoolArray, FloatArray, IntArray, mid_ranks
from ..tables.files import Arrays, read_archive, write_archive
from ..tables.rows import LABELED, NEGATIVE, SETS, UNLABELED, SetArray

SKETCH_FORMAT = "punoise.sketch/1"
SKETCH_ARRAYS = ("edges", "labeled", "unlabeled", "negative")  # the last where there are some
MAX_ROWS = 2**53  # in a sketch: beyond, not every count is a number of its own
MAX_CELLS = 8192
DENSE_LEVEL = 39  # from here on a grid has few enough cells for a table of them all


def _on_grid(scores: FloatArray, level: int, middle: bool = False) -> FloatArray:
    """The cell of each score on the grid of a level, as the cell's edge or its middle, shape (n,).

    A level drops that many bits of the score's mantissa, which leaves cells of even relative width,
    narrow near 0. Scores between a half and 1 are measured from 1, so that the two ends of [0, 1]
    are mirror images. 0, a half and 1 are cells of their own.
    """
    mirrored = (scores > 0.5) & (scores <= 1)
    distance = np.where(mirrored, 1.0 - scores, scores + 0.0)  # -0.0 and 0.0 are one score
    bits = (distance.view(np.int64) >> level) << level
    if middle and level:
        bits = np.where((distance == 0) | (distance == 0.5), bits, bits | (1 << (level - 1)))
    rounded = bits.view(np.float64) + 0.0  # as above, of what rounds to it
    return np.where(mirrored, 1.0 - rounded, rounded)


def _table_index(scores: FloatArray, level: int) -> IntArray:
    """The place of each score's cell in a table of all cells of a level, shape (n,).

    The table has three parts of equal length: scores from 0, negative ones, and, counted from the
    end, those between a half and 1.
    """
    part = 1 << (63 - level)
    if len(scores) and scores.min() > 0 and scores.max() < 1:  # what transforms give, the fast way
        above = scores > 0.5
        return np.where(above, scores - 1.0, scores).view(np.int64) >> level
    above = (scores > 0.5) & (scores <= 1)
    distance = np.where(above, 1.0 - scores, scores + 0.0)
    place = distance.view(np.int64) >> level
    return place + np.where(above, -part, np.where(distance < 0, 2 * part, 0))


@dataclass(frozen=True, eq=False)
class Sketch:
    """Cells in increasing order, each with at least one row."""

    edges: FloatArray  # (cells,)
    counts: IntArray  # (cells, 3): rows of each set
    level: int = 0  # bits dropped from the scores; at 0 they are exact
    missing: int = 0  # further rows, which have no score
    labeled_negatives: bool = False  # whether the scores say so of labeled rows

    @classmethod
    def of(
        cls, labeled: FloatArray, unlabeled: FloatArray, negative: FloatArray | None = None
    ) -> Sketch:
        """The sketch of samples of finite scores, each of shape (n,) with an n of its own."""
        parts = [unlabeled, labeled, np.empty(0) if negative is None else negative]
        sets = np.repeat(np.arange(len(SETS), dtype=np.int8), list(map(len, parts)))
        return cls.of_rows(np.concatenate(parts), sets)

    @classmethod
    def of_rows(cls, scores: FloatArray, sets: SetArray) -> Sketch:
        """The sketch of rows with finite scores and the codes of their sets; both of shape (n,)."""
        coded = pa.array(np.asarray(scores, np.float64)).dictionary_encode()
        distinct = np.asarray(coded.dictionary)
        counts = _counted(np.asarray(coded.indices), sets, len(distinct))
        return cls(distinct, counts)._at_level(0)._coarsened()

    @classmethod
    def merge(cls, sketches: Iterable[Sketch], most: int = MAX_CELLS) -> Sketch:
        """The sketch of all rows that the given sketches were made of, with at most so many cells.

        The number must be the same for all sketches that are to add up.
        """
        parts = list(sketches)
        said = {part.labeled_negatives for part in parts}
        if len(said) > 1:
            raise InputError(
                "only some of the scores say that their labeled rows are negatives, so they are of "
                "different runs; give those of one"
            )
        stacked = cls(
            np.concatenate([part.edges for part in parts]),
            np.concatenate([part.counts for part in parts]),
            missing=sum(part.missing for part in parts),
            labeled_negatives=True in said,
        )
        return stacked._at_level(max(part.level for part in parts))._coarsened(most)

    @cached_property
    def scores(self) -> FloatArray:
        """The score each cell stands for: its middle."""
        return _on_grid(self.edges, self.level, middle=True)

    def spans(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest score of each cell, both of shape (cells,)."""
        mirrored = (self.edges > 0.5) & (self.edges < 1)  # 1 shares its cell with what is above
        distance = np.where(mirrored, 1.0 - self.edges, self.edges)
        alone = (distance == 0) | (distance == 0.5)
        last = np.where(alone, 0, (1 << self.level) - 1)
        far = (distance.view(np.int64) | last).view(np.float64)
        # 1 - far may be rounded into the next cell, but the edge of that one is exact
        turned = np.nextafter(1.0 - np.nextafter(far, 1.0), 1.0)
        far = np.where(mirrored & (self.level > 0), turned, np.where(mirrored, self.edges, far))
        return np.minimum(self.edges, far), np.maximum(self.edges, far)

    @cached_property
    def unlabeled(self) -> IntArray:
        """Unlabeled rows, shape (cells,)."""
        return np.ascontiguousarray(self.counts[:, UNLABELED])

    @cached_property
    def labeled(self) -> IntArray:
        """Labeled rows, shape (cells,)."""
        return np.ascontiguousarray(self.counts[:, LABELED])

    @cached_property
    def negative(self) -> IntArray:
        """Known negatives, shape (cells,)."""
        return np.ascontiguousarray(self.counts[:, NEGATIVE])

    @cached_property
    def n_labeled(self) -> int:
        return int(self.labeled.sum())

    @cached_property
    def n_unlabeled(self) -> int:
        return int(self.unlabeled.sum())

    @cached_property
    def n_negative(self) -> int:
        return int(self.negative.sum())

    @cached_property
    def auc(self) -> float:
        """P(labeled score > unlabeled score) + P(equal) / 2."""
        return self.auc_against(UNLABELED)

    def auc_against(self, other: int) -> float:
        """P(labeled score > score of the other set) + P(equal) / 2."""
        rows = self.counts[:, other]
        return float(self.labeled @ mid_ranks(rows) / (self.n_labeled * int(rows.sum())))

    def cells_of(self, scores: FloatArray) -> IntArray:
        """The cell each score falls in, shape (n,): its own, or the nearest there is.

        Where there is no score (NaN) it is some cell.
        """
        if has_gaps(scores):
            scores = np.nan_to_num(scores)
        # for few scores a table does not pay, of which each cell takes a page of memory
        if self.level < DENSE_LEVEL or len(scores) <= 8 * MAX_CELLS:
            return self._nearest(scores)
        cells = self._table[_table_index(scores, self.level)] - 1
        elsewhere = cells < 0
        if elsewhere.any():
            cells[elsewhere] = self._nearest(scores[elsewhere])
        return cells

    def _nearest(self, scores: FloatArray) -> IntArray:
        edges = _on_grid(scores, self.level)
        right = np.minimum(np.searchsorted(self.edges, edges), len(self.edges) - 1)
        left = np.maximum(right - 1, 0)
        with np.errstate(over="ignore"):  # between two finite scores there may be more than finite
            return np.where(edges - self.edges[left] < self.edges[right] - edges, left, right)

    @cached_property
    def _table(self) -> IntArray:
        """For each place of _table_index the cell there, counted from 1; 0 where there is none."""
        table = np.zeros(3 << (63 - self.level), np.int64)  # takes memory only where it is written
        table[_table_index(self.edges, self.level)] = np.arange(1, len(self.edges) + 1)
        return table

    def resample(self, rng: np.random.Generator) -> Sketch:
        """A bootstrap sample of the rows: each set redrawn at its own size."""
        counts = np.zeros_like(self.counts)
        for code in (LABELED, UNLABELED, NEGATIVE):
            if rows := int(self.counts[:, code].sum()):
                counts[:, code] = rng.multinomial(rows, self.counts[:, code] / rows)
        drawn = counts.any(axis=1)
        return Sketch(self.edges[drawn], counts[drawn], self.level)

    def without_negatives(self) -> Sketch:
        """The labeled and unlabeled rows alone."""
        if not self.n_negative:
            return self
        counts = np.where(np.arange(len(SETS)) == NEGATIVE, 0, self.counts)
        seen = counts.any(axis=1)
        return Sketch(self.edges[seen], counts[seen], self.level)

    def mirrored(self) -> Sketch:
        """The rows by how low they score, each cell at its middle: to estimate from, not to merge.

        Shares stay shares.
        """
        if self.n_negative:
            raise UsageError("labeled negatives and known negatives do not go together")
        shares = len(self.edges) > 0 and self.edges[0] >= 0 and self.edges[-1] <= 1
        scores = self.scores[::-1]
        turned = 1.0 - scores if shares else -scores
        return Sketch(turned, self.counts[::-1].copy(), missing=self.missing)

    def _at_level(self, level: int) -> Sketch:
        """These rows on the grid of a level at least as coarse as their own, cells in order."""
        edges = _on_grid(self.edges, level)
        order = np.argsort(edges, kind="stable")  # quick where there is some order already
        edges = edges[order]
        first = np.flatnonzero(_is_first(edges))
        counts = np.add.reduceat(self.counts[order], first) if len(first) else self.counts
        return replace(self, edges=edges[first], counts=counts, level=level)

    def _coarsened(self, most: int = MAX_CELLS) -> Sketch:
        """This sketch on the finest grid that leaves it at most so many cells."""

        def too_many(level: int) -> bool:
            return int(_is_first(_on_grid(self.edges, level)).sum()) > most

        if not too_many(self.level):
            return self
        coarser = range(self.level + 1, 64)  # a coarser grid has no more cells
        first = bisect_left(coarser, True, key=lambda level: not too_many(level))
        return self._at_level(self.level + 1 + first)


def has_gaps(scores: FloatArray) -> bool:
    """Whether some rows have no score (NaN)."""
    return len(scores) > 0 and bool(np.isnan(scores.min()))


def _counted(places: IntArray, sets: SetArray, n: int) -> IntArray:
    """How many rows of each set are at each of n places, shape (n, 3)."""
    width = len(SETS)
    codes = places * np.int64(width) + sets
    return np.bincount(codes, minlength=width * n).reshape(-1, width)


def _is_first(edges: FloatArray) -> BoolArray:
    """Whether each of some ordered edges differs from the one before it, shape (n,)."""
    return np.concatenate([np.ones(min(len(edges), 1), bool), edges[1:] != edges[:-1]])


EMPTY = Sketch.of(np.empty(0), np.empty(0))


class SketchBuilder:
    """The sketch of rows that come in batches."""

    def __init__(self) -> None:
        self._sketch = EMPTY
        self._aside = EMPTY  # rows since in cells that are not in the sketch
        self._counts = np.zeros((1, len(SETS)), np.int64)  # rows since, by cell from 1

    def add(self, scores: FloatArray, sets: SetArray) -> None:
        """Count rows with their scores, NaN where there is none, and the codes of their sets.

        Both have shape (n,).
        """
        if has_gaps(scores):
            known = ~np.isnan(scores)
            missing = self._aside.missing + len(scores) - int(known.sum())
            self._aside = replace(self._aside, missing=missing)
            scores, sets = scores[known], sets[known]
        sketch = self._sketch
        if sketch.level < DENSE_LEVEL:
            self._merge(Sketch.of_rows(scores, sets))
            return
        cells = sketch._table[_table_index(scores, sketch.level)]
        if sets.any():
            counts = _counted(cells, sets, len(self._counts))
        else:  # most of a large table
            counts = np.zeros_like(self._counts)
            counts[:, UNLABELED] = np.bincount(cells, minlength=len(counts))
        new_rows = counts[0].sum()
        counts[0] = 0
        self._counts += counts
        if new_rows:
            new = cells == 0
            part = Sketch.of_rows(scores[new], sets[new])
            if new_rows > len(scores) / 1000:
                self._merge(part)
            else:  # not worth a new table
                self._aside = Sketch.merge([self._aside, part])

    def _merge(self, part: Sketch) -> None:
        self._sketch = Sketch.merge([self.sketch(), part])
        self._aside = EMPTY
        self._counts = np.zeros((len(self._sketch.edges) + 1, len(SETS)), np.int64)

    def sketch(self) -> Sketch:
        """The sketch of all rows so far."""
        counted = replace(self._sketch, counts=self._sketch.counts + self._counts[1:])
        return Sketch.merge([counted, self._aside])


# ---- Files


def sketch_arrays(sketch: Sketch) -> Arrays:
    """The arrays of a sketch by name; its level goes into the header."""
    names = SKETCH_ARRAYS if sketch.n_negative else SKETCH_ARRAYS[:-1]
    return {name: getattr(sketch, name) for name in names}


def sketch_of(arrays: Mapping[str, NDArray[Any]], level: int) -> Sketch:
    """The sketch that sketch_arrays() took apart; what cannot be one is a ValueError."""
    edges = arrays["edges"]
    by_set = [arrays.get(name, np.zeros_like(arrays["labeled"])) for name in SETS]
    if [part.dtype for part in (edges, *by_set)] != [np.float64, *[np.int64] * len(SETS)]:
        raise ValueError("a sketch has edges and counts")
    if {part.shape for part in (edges, *by_set)} != {(len(edges),)} or "unlabeled" not in arrays:
        raise ValueError("the arrays of a sketch have one shape")
    counts = np.column_stack(by_set)
    if (counts < 0).any() or not counts.any(axis=1).all():
        raise ValueError("every cell of a sketch has rows")
    if type(level) is not int or not 0 <= level < 64 or not np.isfinite(edges).all():
        raise ValueError("the cells of a sketch are those of a grid")
    sketch = Sketch(edges, counts, level)
    check_rows(sketch)
    itself = Sketch.merge([sketch])
    if itself.level != level or not np.array_equal(itself.edges, edges):
        raise ValueError("the cells of a sketch are in order, and not too many")
    return sketch


def check_rows(*sketches: Sketch) -> None:
    """Stop with a ValueError where sketches, merged, have more rows than can be counted."""
    rows = sum(float(sketch.counts.sum(dtype=np.float64)) for sketch in sketches)
    if rows > MAX_ROWS:
        raise ValueError(f"{rows:.3g} rows; at most {MAX_ROWS} can be counted")


def save_sketch(sketch: Sketch, file: BinaryIO) -> None:
    """Write a sketch."""
    header: dict[str, Any] = {"level": sketch.level}
    if sketch.missing:
        header["missing"] = sketch.missing
    if sketch.labeled_negatives:
        header["labeled_negatives"] = True
    write_archive(file, SKETCH_FORMAT, header, sketch_arrays(sketch))


def load_sketch(name: str, file: BinaryIO) -> Sketch:
    """Read a sketch back."""
    header, arrays = read_archive(name, file, SKETCH_FORMAT, SKETCH_ARRAYS.__contains__)
    try:
        missing = header.get("missing", 0)
        if type(missing) is not int or not 0 <= missing <= MAX_ROWS:
            raise ValueError("a count of rows is wanted")
        negatives = header.get("labeled_negatives", False)
        if type(negatives) is not bool:
            raise TypeError("labeled_negatives is true or false")
        sketch = sketch_of(arrays, header["level"])
        return replace(sketch, missing=missing, labeled_negatives=negatives)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name}: the sketch is damaged") from error
