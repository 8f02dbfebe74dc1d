"""An answer: what the posterior of any row follows from; a model file holds it and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Literal

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .errors import InputError, UsageError, option
from .numerics import BoolArray, FloatArray
from .posterior.columns import CellColumn, Column, Columns, RangeColumn, ScoredChunk
from .posterior.groups import (
    ESTIMATED,
    GroupColumn,
    GroupPosteriors,
    GroupRangeColumn,
    Groups,
)
from .posterior.pooling import Bins, PooledShares
from .posterior.table import CALL, LABELED_ONLY, WritePosteriors
from .prior.document import Prior, parse_prior
from .scale.engine import ahead
from .score.model import (
    HonestScorer,
    ModelHeader,
    ScoreModel,
    model_arrays,
    model_from_arrays,
    model_header,
)
from .score.sketch import Sketch, SketchHeader, sketch_arrays, sketch_from_arrays
from .tables.files import Arrays, Fraction, part_of, prefixed, read_archive, write_archive
from .tables.rows import SETS, Rows
from .tables.writing import write_atomically

FORMAT = "punoise.model/1"
ROOMS = "rows|sketch|scaling|model|honest|column|groups|bins|whole"
ARRAY = re.compile(rf"({ROOMS})(\.[A-Za-z0-9_]{{1,20}}){{1,4}}")
COLUMN_NAME = re.compile(r"[A-Za-z0-9_]{1,20}")
SCORE = "score"


@dataclass(frozen=True, eq=False)
class Answer:
    """A score, alpha and beta, and what a score says of its row."""

    model: ScoreModel
    sketch: Sketch | None = None  # of the honest scores of the training rows
    prior: Prior | None = None  # alpha and beta of the training rows
    columns: Columns = field(default_factory=dict)  # of POSTERIOR after the score
    widening: FloatArray | None = None  # by which groups widen bounds, for each cell of the sketch
    scorer: HonestScorer | None = None  # of the training rows, for files that are scored alone

    @property
    def features(self) -> list[str]:
        """The columns that the score needs."""
        return [column.name for column in self.model.encoding.columns]

    @property
    def by(self) -> str | None:
        """The column that names the group of a row, if groups have posteriors of their own."""
        for column in self.columns.values():
            if isinstance(column, GroupColumn | GroupRangeColumn):
                return column.groups.by
        return None

    def skipping(self, missing_score: str | None) -> Answer:
        """The same with rows without a score skipped ("skip") or not; None changes nothing."""
        if missing_score is None:
            return self
        if self.model.model is not None:
            name = option("missing_score")
            raise UsageError(f"{name} is for a score column; this model learned its score")
        model = replace(self.model, skip_missing=missing_score == "skip")
        scorer = None if self.scorer is None else replace(self.scorer, model=model)
        return replace(self, model=model, scorer=scorer)

    def score(self, rows: Rows, threads: int = 1) -> Iterator[pa.RecordBatch]:
        """The scores of rows and their columns of POSTERIOR."""
        assert self.sketch is not None
        names = [name for name in self.columns if name not in LABELED_ONLY]
        step = WritePosteriors(self.sketch, self.columns, label_sign=1.0)
        read = rows.chunks([*rows.features, *rows.kept])
        for chunk, scores in ahead(self.model.score, read, threads):
            arrays = [pa.array(scores, from_pandas=True)]
            arrays += step.arrays(names, ScoredChunk(self.sketch, chunk, scores))
            yield pa.RecordBatch.from_arrays(arrays, [SCORE, *names])


# ---- Files


class ColumnHeader(msgspec.Struct, frozen=True):
    """A column but for its arrays."""

    name: str
    kind: Literal["cell", "range", "group", "group-range"]


class GroupsHeader(msgspec.Struct, frozen=True):
    """The groups of columns but for their arrays."""

    by: str
    fdr: Fraction | None


class AnswerHeader(ModelHeader, frozen=True, kw_only=True):
    """An answer but for its arrays."""

    sketch: SketchHeader | None = None
    prior: dict[str, Any] | None = None  # PRIOR.json
    columns: tuple[ColumnHeader, ...] = ()
    groups: GroupsHeader | None = None


def write_answer(answer: Answer, out: str) -> None:
    """Write MODEL."""
    with write_atomically(out) as file:
        save_answer(answer, file)


def save_answer(answer: Answer, file: BinaryIO) -> None:
    """Write an answer to a file."""
    sketch, prior = answer.sketch, answer.prior
    arrays = model_arrays(answer.model, answer.scorer)
    if sketch is not None:
        arrays |= prefixed("sketch.", sketch_arrays(sketch))
    if answer.widening is not None:
        arrays["sketch.widening"] = answer.widening
    columns, groups = list[ColumnHeader](), None
    for name, column in answer.columns.items():
        _check_storable(name, column)
        kind: Any = "cell"
        if isinstance(column, CellColumn):
            arrays[f"column.{name}"] = column.values
        elif isinstance(column, RangeColumn):
            kind = "range"
            arrays |= prefixed(
                f"column.{name}.", {"starts": column.starts, "values": column.values}
            )
        elif isinstance(column, GroupRangeColumn):
            kind = "group-range"
            ranges = {"begins": column.begins, "upward": column.upward, "values": column.values}
            arrays |= prefixed(f"column.{name}.", ranges)
        elif isinstance(column, GroupColumn):
            kind, posteriors = "group", column.posteriors
            groups = GroupsHeader(posteriors.groups.by, posteriors.fdr)
            arrays |= _group_arrays(posteriors)
        columns.append(ColumnHeader(name, kind))
    header = AnswerHeader(
        **model_header(answer.model, answer.scorer),
        sketch=msgspec.convert(sketch, SketchHeader | None, from_attributes=True),
        prior=None if prior is None else msgspec.structs.replace(prior, curves=None).to_json(),
        columns=tuple(columns),
        groups=groups,
    )
    write_archive(file, FORMAT, msgspec.to_builtins(header), arrays)


def _check_storable(name: str, column: Column) -> None:
    """Raise a type error for a column that a model file could not give back."""
    if isinstance(column, CellColumn):
        storable = column.values.dtype in (np.float64, np.bool_)
    elif isinstance(column, RangeColumn | GroupRangeColumn):
        storable = column.values.dtype.kind == "U"
    else:
        storable = isinstance(column, GroupColumn)
    if not storable or not COLUMN_NAME.fullmatch(name):
        raise TypeError(f"column {name!r} cannot be kept in a model file")


def load_answer(name: str, file: BinaryIO) -> Answer:
    """Read a model file; a file that is not one is an input error."""
    content, arrays = read_archive(name, file, FORMAT, lambda key: bool(ARRAY.fullmatch(key)))
    try:
        json.dumps(content.get("encoding"), ensure_ascii=False).encode()  # no lone surrogates
        header = msgspec.convert(content, AnswerHeader)
        model, scorer = model_from_arrays(header, arrays)
        sketch = widening = None
        columns: Columns = {}
        if header.sketch is not None:
            sketch = sketch_from_arrays(part_of(arrays, "sketch."), header.sketch)
            widening = _widening(arrays.get("sketch.widening"), sketch)
            columns = _columns(header, arrays, len(sketch.edges))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise InputError(f"{name}: the model is damaged or of an unknown kind") from error
    prior = None if header.prior is None else parse_prior(name, header.prior)
    return Answer(model, sketch, prior, columns, widening, scorer)


def _columns(header: AnswerHeader, arrays: Arrays, cells: int) -> dict[str, Column]:
    posteriors = None
    if header.groups is not None:
        posteriors = _group_posteriors(header.groups, arrays, cells)
    columns: dict[str, Column] = {}
    for entry in header.columns:
        stored = part_of(arrays, f"column.{entry.name}.")
        if entry.kind == "cell":
            columns[entry.name] = CellColumn(_by_cell(arrays[f"column.{entry.name}"], cells))
        elif entry.kind == "range":
            starts = _numbers(stored["starts"], (len(stored["values"]) - 1,))
            if (np.diff(starts) < 0).any():
                raise ValueError("ranges are in order")
            columns[entry.name] = RangeColumn(starts, _texts(stored["values"]))
        elif posteriors is None:
            raise ValueError("a column of groups needs groups")
        elif entry.kind == "group":
            values = posteriors.whole[entry.name] if entry.name != CALL else np.zeros(0, bool)
            kind = pa.array(values[:0]).type
            columns[entry.name] = GroupColumn(posteriors, entry.name, kind)
        else:
            values = _texts(stored["values"])
            upward: BoolArray = stored["upward"].astype(np.bool_)
            shape = len(posteriors.groups.names), len(values) - 1
            if upward.shape != shape[1:]:
                raise ValueError("each range goes up or down")
            begins = _numbers(stored["begins"], shape, gaps=True)
            columns[entry.name] = GroupRangeColumn(posteriors.groups, begins, upward, values)
    return columns


def _group_arrays(posteriors: GroupPosteriors) -> Arrays:
    groups, bins = posteriors.groups, posteriors.bins
    shares = {name: getattr(groups.shares, name) for name in ESTIMATED}
    named = {"names": np.array(groups.names), "rows": groups.rows, **shares}
    of_bins = {name: getattr(bins, name) for name in ("first", "by_cell", "position", "end")}
    return {
        **prefixed("groups.", named),
        **prefixed("bins.", of_bins),
        **prefixed("whole.", posteriors.whole),
    }


def _group_posteriors(header: GroupsHeader, arrays: Arrays, cells: int) -> GroupPosteriors:
    stored, bins = part_of(arrays, "groups."), part_of(arrays, "bins.")
    names = tuple(_texts(stored["names"]).tolist())
    rows = stored["rows"].astype(np.int64)
    if rows.shape != (len(names), len(SETS)) or not names or len({*names}) < len(names):
        raise ValueError("each group has counts of its own")
    shares = PooledShares(*(_numbers(stored[name], (len(names),)) for name in ESTIMATED))
    first, by_cell = bins["first"].astype(np.int64), bins["by_cell"].astype(np.int64)
    if by_cell.shape != (cells,) or not (0 <= by_cell.min() <= by_cell.max() < len(first)):
        raise ValueError("each cell has a bin")
    position = _numbers(bins["position"], (cells,))
    end = _by_cell(bins["end"], cells)
    whole = {name: _by_cell(a, cells) for name, a in part_of(arrays, "whole.").items()}
    groups = Groups(header.by, names, rows, shares)
    return GroupPosteriors(groups, Bins(first, by_cell, position, end), whole, header.fdr)


def _by_cell(values: NDArray[Any], cells: int) -> NDArray[Any]:
    """A column by cell; infinite ratios are in order."""
    if values.shape != (cells,) or values.dtype not in (np.float64, bool):
        raise ValueError("each cell has a number")
    if values.dtype == np.float64 and np.isnan(values).any():
        raise ValueError("a number is missing")
    return values


def _numbers(values: NDArray[Any], shape: tuple[int, ...], gaps: bool = False) -> FloatArray:
    if values.shape != shape or values.dtype != np.float64:
        raise ValueError("numbers are missing")
    if not (np.isfinite(values) | (gaps & np.isnan(values))).all():
        raise ValueError("numbers are finite")
    return values


def _texts(values: NDArray[Any]) -> NDArray[Any]:
    if values.ndim != 1 or values.dtype.kind != "U":
        raise ValueError("names are text")
    return values


def _widening(widening: NDArray[np.generic] | None, sketch: Sketch) -> FloatArray | None:
    if widening is None:
        return None
    factor = np.asarray(widening, np.float64)
    if factor.shape != sketch.edges.shape or not (np.isfinite(factor) & (factor >= 1)).all():
        raise ValueError("every cell needs a factor of at least 1")
    return factor
