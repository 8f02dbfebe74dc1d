"""The sketch of scores: the sufficient statistic of every univariate estimator.

A sketch holds the distinct scores and, for each, how many rows of each set have it: unlabeled,
labeled, and known negatives if there are any. Beyond MAX_CELLS distinct scores, it holds them on a
coarser grid. Grids do not depend on the data, and each is nested in the next finer one; a sketch
uses the finest grid on which its scores fill at most MAX_CELLS cells. So the sketches of shards,
merged in any order, are exactly the sketch of the whole.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError, UsageError
from ..numerics import BoolArray, FloatArray, IntArray, mid_ranks
from ..tables.files import Arrays, read_archive, read_bytes, write_archive
from ..tables.rows import LABELED, NEGATIVE, OVERLAP, SETS, UNLABELED, LabeledClass, SetArray
from ..tables.writing import write_atomically

SKETCH_FORMAT = "punoise.sketch/1"
SKETCH_ARRAYS = ("edges", "labeled", "unlabeled", "negative")  # the last only if there are any
MAX_ROWS = 2**53  # above it, floats do not represent every count
MIN_ROWS = 20
MAX_CELLS = 8192
DENSE_LEVEL = 39  # from this level on, a grid has few enough cells for a lookup table of all


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
    """Cells of scores in increasing order, each with at least one row.

    High scores mean positive, whichever class the labeled rows are of.
    """

    edges: FloatArray  # (cells,)
    counts: IntArray  # (cells, 3): rows of each set
    level: int = 0  # bits dropped from the scores; at 0 they are exact
    missing: int = 0  # further rows, without a score
    labeled_class: LabeledClass = "positive"
    overlap: int = 0  # further unlabeled rows, which are labeled, too

    @cached_property
    def scores(self) -> FloatArray:
        """The middle of each cell, shape (cells,)."""
        return _on_grid(self.edges, self.level, middle=True)

    @cached_property
    def unlabeled(self) -> IntArray:
        """The unlabeled rows of each cell, shape (cells,)."""
        return np.ascontiguousarray(self.counts[:, UNLABELED])

    @cached_property
    def labeled(self) -> IntArray:
        """The labeled rows of each cell, shape (cells,)."""
        return np.ascontiguousarray(self.counts[:, LABELED])

    @cached_property
    def negative(self) -> IntArray:
        """The known negatives of each cell, shape (cells,)."""
        return np.ascontiguousarray(self.counts[:, NEGATIVE])

    @cached_property
    def n_unlabeled(self) -> int:
        return int(self.unlabeled.sum())

    @cached_property
    def n_labeled(self) -> int:
        return int(self.labeled.sum())

    @cached_property
    def n_negative(self) -> int:
        return int(self.negative.sum())

    @cached_property
    def auc(self) -> float:
        """The AUC of labeled against unlabeled rows, see auc_against."""
        return self.auc_against(UNLABELED)

    @classmethod
    def from_samples(
        cls, labeled: FloatArray, unlabeled: FloatArray, negative: FloatArray | None = None
    ) -> Sketch:
        """The sketch of samples of finite scores, each of shape (n,) with an n of its own."""
        parts = [unlabeled, labeled, np.empty(0) if negative is None else negative]
        sets = np.repeat(np.arange(len(SETS), dtype=np.int8), list(map(len, parts)))
        return cls.from_rows(np.concatenate(parts), sets)

    @classmethod
    def from_rows(
        cls, scores: FloatArray, sets: SetArray, labeled_class: LabeledClass = "positive"
    ) -> Sketch:
        """The sketch of rows with finite scores and the codes of their sets, both of shape (n,)."""
        coded = pa.array(np.asarray(scores, np.float64)).dictionary_encode()
        distinct = np.asarray(coded.dictionary)
        counts = _count_rows(np.asarray(coded.indices), sets, len(distinct))
        return cls(*_coarsen(*_regrid(distinct, counts, 0)), labeled_class=labeled_class)

    @classmethod
    def merge(cls, sketches: Iterable[Sketch], max_cells: int = MAX_CELLS) -> Sketch:
        """The sketch of the rows of all sketches.

        Sketches that are merged again later must all be merged with the same `max_cells`.
        """
        parts = list(sketches)
        classes = {part.labeled_class for part in parts}
        if len(classes) > 1:
            raise InputError(
                "labeled rows are negatives in only some of the scores, so they come from "
                "different runs; use those of one run"
            )
        edges = np.concatenate([part.edges for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        cells = _regrid(edges, counts, max(part.level for part in parts))
        missing, overlap = (sum(getattr(part, n) for part in parts) for n in ("missing", "overlap"))
        return cls(*_coarsen(*cells, max_cells), missing, classes.pop(), overlap)

    def spans(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest score of each cell, both of shape (cells,)."""
        mirrored = (self.edges > 0.5) & (self.edges < 1)  # 1 shares its cell with what is above
        distance = np.where(mirrored, 1.0 - self.edges, self.edges)
        alone = (distance == 0) | (distance == 0.5)
        last = np.where(alone, 0, (1 << self.level) - 1)
        far = (distance.view(np.int64) | last).view(np.float64)
        # 1 - far may be rounded into the next cell, but the edge of that one is exact
        from_one = np.nextafter(1.0 - np.nextafter(far, 1.0), 1.0)
        far = np.where(mirrored & (self.level > 0), from_one, np.where(mirrored, self.edges, far))
        return np.minimum(self.edges, far), np.maximum(self.edges, far)

    def auc_against(self, other: int) -> float:
        """P(labeled score > score of another set) + P(equal) / 2; NaN without rows."""
        rows = self.counts[:, other]
        pairs = self.n_labeled * int(rows.sum())
        return float(self.labeled @ mid_ranks(rows) / pairs) if pairs else float("nan")

    def cell_index(self, scores: FloatArray) -> IntArray:
        """The cell of each score, shape (n,), or the nearest one; any cell for NaN."""
        if has_gaps(scores):
            scores = np.nan_to_num(scores)
        # for few scores a table does not pay: each cell of it takes a page of memory
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
        with np.errstate(over="ignore"):  # finite scores may be infinitely far apart
            return np.where(edges - self.edges[left] < self.edges[right] - edges, left, right)

    @cached_property
    def _table(self) -> IntArray:
        """For each place of _table_index the cell there, counted from 1; 0 for none."""
        table = np.zeros(3 << (63 - self.level), np.int64)  # takes memory only where it is written
        table[_table_index(self.edges, self.level)] = np.arange(1, len(self.edges) + 1)
        return table

    def resample(self, rng: np.random.Generator) -> Sketch:
        """A bootstrap sample of the rows: each set is redrawn at its own size."""
        counts = np.zeros_like(self.counts)
        for code in (LABELED, UNLABELED, NEGATIVE):
            if rows := int(self.counts[:, code].sum()):
                counts[:, code] = rng.multinomial(rows, self.counts[:, code] / rows)
        return self._with_counts(counts)

    def without_negatives(self) -> Sketch:
        """The sketch of the labeled and unlabeled rows only."""
        if not self.n_negative:
            return self
        return self._with_counts(np.where(np.arange(len(SETS)) == NEGATIVE, 0, self.counts))

    def _with_counts(self, counts: IntArray) -> Sketch:
        filled = counts.any(axis=1)
        return replace(self, edges=self.edges[filled], counts=counts[filled])

    def mirrored(self) -> Sketch:
        """The rows with the order of their scores reversed, so that high means negative.

        Scores within [0, 1] stay there. Each cell is at its middle: the result is to estimate
        from, not to merge.
        """
        if self.n_negative:
            raise UsageError("labeled negatives cannot be combined with known negatives")
        is_fraction = len(self.edges) > 0 and self.edges[0] >= 0 and self.edges[-1] <= 1
        scores = self.scores[::-1]
        return Sketch(
            1.0 - scores if is_fraction else -scores,
            self.counts[::-1].copy(),
            missing=self.missing,
        )


Cells = tuple[FloatArray, IntArray, int]  # edges, counts and level of a sketch


def _regrid(edges: FloatArray, counts: IntArray, level: int) -> Cells:
    """The cells, in order, of a grid that is at least as coarse as that of these edges."""
    edges = _on_grid(edges, level)
    order = np.argsort(edges, kind="stable")  # quick where there is some order already
    edges = edges[order]
    first = np.flatnonzero(_is_first(edges))
    counts = np.add.reduceat(counts[order], first) if len(first) else counts
    return edges[first], counts, level


def _coarsen(edges: FloatArray, counts: IntArray, level: int, max_cells: int = MAX_CELLS) -> Cells:
    """The same cells on the finest grid that leaves at most `max_cells` of them."""

    def too_many(level: int) -> bool:
        return int(_is_first(_on_grid(edges, level)).sum()) > max_cells

    if not too_many(level):
        return edges, counts, level
    coarser = range(level + 1, 64)  # a coarser grid has no more cells
    first = bisect_left(coarser, True, key=lambda level: not too_many(level))
    return _regrid(edges, counts, level + 1 + first)


def has_gaps(scores: FloatArray) -> bool:
    """Whether some rows have no score (NaN)."""
    return len(scores) > 0 and bool(np.isnan(scores.min()))


def _count_rows(places: IntArray, sets: SetArray, n: int) -> IntArray:
    """The number of rows of each set at each of n places, shape (n, 3)."""
    width = len(SETS)
    codes = places * np.int64(width) + sets
    return np.bincount(codes, minlength=width * n).reshape(-1, width)


def _is_first(edges: FloatArray) -> BoolArray:
    """Whether each of some ordered edges differs from the one before it, shape (n,)."""
    return np.concatenate([np.ones(min(len(edges), 1), bool), edges[1:] != edges[:-1]])


class SketchBuilder:
    """Builds the sketch of rows that come in batches."""

    def __init__(self, labeled_class: LabeledClass = "positive") -> None:
        self._labeled_class: LabeledClass = labeled_class
        self._empty = Sketch.from_rows(np.empty(0), np.empty(0, np.int8), labeled_class)
        self._sketch = self._empty
        self._aside = self._empty  # later rows in cells that are not in the sketch
        self._counts = np.zeros((1, len(SETS)), np.int64)  # later rows, by cell from 1
        self._missing = self._overlap = 0

    def add(self, scores: FloatArray, sets: SetArray) -> None:
        """Count rows.

        Parameters
        ----------
        scores : (n,)
            NaN for a row without a score.
        sets : (n,)
            Codes of sets.
        """
        if sets.max(initial=0) == OVERLAP:
            counted = sets != OVERLAP
            self._overlap += len(sets) - int(counted.sum())
            scores, sets = scores[counted], sets[counted]
        if has_gaps(scores):
            known = ~np.isnan(scores)
            self._missing += len(scores) - int(known.sum())
            scores, sets = scores[known], sets[known]
        sketch = self._sketch
        if sketch.level < DENSE_LEVEL:
            self._merge(self._from_rows(scores, sets))
            return
        cells = sketch._table[_table_index(scores, sketch.level)]
        if sets.any():
            counts = _count_rows(cells, sets, len(self._counts))
        else:  # most of a large table
            counts = np.zeros_like(self._counts)
            counts[:, UNLABELED] = np.bincount(cells, minlength=len(counts))
        new_rows = counts[0].sum()
        counts[0] = 0
        self._counts += counts
        if new_rows:
            new = cells == 0
            part = self._from_rows(scores[new], sets[new])
            if new_rows > len(scores) / 1000:
                self._merge(part)
            else:  # not worth a new table
                self._aside = Sketch.merge([self._aside, part])

    def _from_rows(self, scores: FloatArray, sets: SetArray) -> Sketch:
        return Sketch.from_rows(scores, sets, self._labeled_class)

    def _merge(self, part: Sketch) -> None:
        self._sketch = Sketch.merge([self._counted(), self._aside, part])
        self._aside = self._empty
        self._counts = np.zeros((len(self._sketch.edges) + 1, len(SETS)), np.int64)

    def _counted(self) -> Sketch:
        return replace(self._sketch, counts=self._sketch.counts + self._counts[1:])

    def sketch(self) -> Sketch:
        """The sketch of all rows so far."""
        merged = Sketch.merge([self._counted(), self._aside])
        return replace(merged, missing=self._missing, overlap=self._overlap)


def check_sizes(
    names: str | Sequence[str],
    counts: Sequence[int] | IntArray,
    missing: int = 0,
    named: Collection[int] = (),
) -> None:
    """Raise an input error if a set has too few rows.

    Known negatives are optional and, if there are some, unlabeled rows too.

    Parameters
    ----------
    names
        The name of the file, or one for each set.
    counts : (3,)
        Rows of each set that have a score.
    missing
        Rows without a score.
    named
        Sets that have a table, or labels, of their own, and so must have rows.
    """
    names = [names] * len(SETS) if isinstance(names, str) else names
    for code in (LABELED, UNLABELED, NEGATIVE):
        kind, count = SETS[code], counts[code]
        optional = code == NEGATIVE or (code == UNLABELED and counts[NEGATIVE] > 0)
        absent = count == 0 and optional and code not in named
        if count < MIN_ROWS and not absent:
            rows = f"{kind} rows with a score" if missing else f"{kind} rows"
            raise InputError(f"{names[code]}: only {count} {rows}; at least {MIN_ROWS} are needed")


# ---- Files


class SketchHeader(msgspec.Struct, frozen=True):
    """A sketch but for its arrays."""

    level: Annotated[int, msgspec.Meta(ge=0, lt=64)]
    missing: Annotated[int, msgspec.Meta(ge=0, le=MAX_ROWS)]
    labeled_class: LabeledClass
    overlap: Annotated[int, msgspec.Meta(ge=0, le=MAX_ROWS)] = 0


def sketch_arrays(sketch: Sketch) -> Arrays:
    """The arrays of a sketch by name; its other fields go into the header."""
    names = SKETCH_ARRAYS if sketch.n_negative else SKETCH_ARRAYS[:-1]
    return {name: getattr(sketch, name) for name in names}


def sketch_from_arrays(arrays: Mapping[str, NDArray[Any]], header: SketchHeader) -> Sketch:
    """The sketch with these arrays; a ValueError or KeyError if there is none."""
    edges = arrays["edges"]
    by_set = [arrays.get(name, np.zeros_like(arrays["labeled"])) for name in SETS]
    if [part.dtype for part in (edges, *by_set)] != [np.float64, *[np.int64] * len(SETS)]:
        raise ValueError("a sketch has edges and counts")
    if {part.shape for part in (edges, *by_set)} != {(len(edges),)} or "unlabeled" not in arrays:
        raise ValueError("the arrays of a sketch have one shape")
    counts = np.column_stack(by_set)
    if (counts < 0).any() or not counts.any(axis=1).all():
        raise ValueError("every cell of a sketch has rows")
    if not np.isfinite(edges).all():
        raise ValueError("the edges of a sketch are finite")
    sketch = Sketch(edges, counts, **msgspec.structs.asdict(header))
    check_rows(sketch)
    merged = Sketch.merge([sketch])
    if merged.level != sketch.level or not np.array_equal(merged.edges, edges):
        raise ValueError("the cells of a sketch are in order, and not too many")
    return sketch


def check_rows(*sketches: Sketch) -> None:
    """Raise a ValueError if sketches together have more rows than can be counted."""
    rows = sum(float(sketch.counts.sum(dtype=np.float64)) for sketch in sketches)
    if rows > MAX_ROWS:
        raise ValueError(f"{rows:.3g} rows; at most {MAX_ROWS} can be counted")


def save_sketch(sketch: Sketch, file: BinaryIO) -> None:
    """Write a sketch."""
    header = msgspec.to_builtins(msgspec.convert(sketch, SketchHeader, from_attributes=True))
    write_archive(file, SKETCH_FORMAT, header, sketch_arrays(sketch))


def load_sketch(name: str, file: BinaryIO) -> Sketch:
    """Read a sketch."""
    header, arrays = read_archive(name, file, SKETCH_FORMAT, SKETCH_ARRAYS.__contains__)
    try:
        return sketch_from_arrays(arrays, msgspec.convert(header, SketchHeader))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name}: the sketch is damaged") from error


def write_sketch(sketch: Sketch, out: str) -> None:
    """Write a sketch to a file."""
    with write_atomically(out) as file:
        save_sketch(sketch, file)


def read_sketches(names: Sequence[str]) -> Sketch:
    """The sketch of all rows that the sketches in some files were made of."""
    if len({os.path.realpath(name) for name in names}) < len(names):
        raise UsageError("a sketch is named twice, and its rows would count twice")
    parts = [load_sketch(name, read_bytes(name)) for name in names]
    try:
        check_rows(*parts)
    except ValueError as error:
        raise InputError(f"{names[0]} and the other sketches: {error}") from error
    return Sketch.merge(parts)
