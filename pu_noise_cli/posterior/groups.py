"""GROUPS: rows grouped by a column, the fraction of positives of each group, and its posteriors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import EstimationError, InputError, UsageError, option
from ..notices import Notice
from ..numerics import BoolArray, FloatArray, IntArray, logit, move_odds
from ..scale.engine import Engine, Job, RowsDone
from ..score.model import HonestScorer
from ..score.sketch import Sketch
from ..tables.columns import Column, Encoding
from ..tables.notation import MISSING_TEXTS
from ..tables.reading import open_table
from ..tables.rows import (
    LABELED,
    NEGATIVE,
    SETS,
    UNLABELED,
    Chunk,
    Rows,
    SetArray,
    as_text,
    group_text,
)
from ..tables.writing import write_table
from .calibration import Calibration, scored_chunks
from .columns import Columns, ScoredChunk, take_known
from .pooling import Bins, PooledShares, pool
from .table import CALL, TARGET_ALPHA, Arrays

OTHER = "(other)"  # the rows without a group
MAX_GROUPS = 32_768  # the counts of a group take 1.5 KB
COUNTED = {"n_labeled": LABELED, "n_unlabeled": UNLABELED, "n_negatives": NEGATIVE}
FRACTIONS = ("alpha", "alpha_low", "alpha_high")
ESTIMATED = (*FRACTIONS, "log_odds", "log_odds_error", "shift", "shrinkage", "p_typical")
BOUNDS = ("posterior_low", "posterior_high")
ONE_SIDED = 1.645  # standard errors to a one-sided 95% bound
MAX_FALSE = 0.05  # the fraction of typical groups, at most, among groups called atypical
MAX_NAMED = 10  # groups in a message


# ---- Counting


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """The rows of each group and set in each bin of scores; the counts of parts add up."""

    by: str
    names: tuple[str, ...]  # of all groups but the first, which is OTHER
    counts: IntArray  # (groups, sets, bins)


class GroupCounter:
    """Counts rows that come in batches, by group, set and bin."""

    def __init__(self, by: str, bins: int) -> None:
        self._by = by
        self._places: dict[str, int] = {}
        self._counts = np.zeros((16, len(SETS), bins), np.int64)

    def add(self, names: pa.Array, sets: SetArray, bins: IntArray) -> None:
        """Count rows by the names of their groups, '' for none; all of shape (n,)."""
        coded = names.dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        places = np.array([self._place(str(name)) for name in distinct], np.int64)
        np.add.at(self._counts, (places[np.asarray(coded.indices)], sets, bins), 1)

    def merge(self, part: GroupCounts) -> None:
        """Add rows that were counted elsewhere."""
        places = np.array([0, *map(self._place, part.names)], np.int64)
        np.add.at(self._counts, places, part.counts)

    def result(self) -> GroupCounts:
        """The counts so far, groups ordered by name."""
        names = sorted(self._places)
        places = [0, *(self._places[name] for name in names)]
        return GroupCounts(self._by, tuple(names), self._counts[places])

    def _place(self, name: str) -> int:
        if name in ("", OTHER):
            return 0
        place = self._places.setdefault(name, len(self._places) + 1)
        if place > MAX_GROUPS:
            raise InputError(
                f"column {self._by!r} has more than {MAX_GROUPS:,} different values; is it an id? "
                f"{option('by')} needs a column whose values many rows share"
            )
        if place == len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        return place


@dataclass(frozen=True, eq=False)
class CountGroups:
    """The step that counts the rows of groups by the bins of their scores."""

    by: str
    sketch: Sketch
    bins: Bins
    scorer: HonestScorer | None = None  # of rows without scores

    def __call__(self, job: Job, done: RowsDone, threads: int) -> GroupCounts:
        counter = GroupCounter(self.by, len(self.bins.first))
        for chunk, scores in scored_chunks(job.part, [self.by], self.scorer, threads):
            known = ~np.isnan(scores) & chunk.counted
            names = group_names(chunk, self.by).filter(pa.array(known))
            cells = self.sketch.cell_index(scores[known])
            counter.add(names, chunk.sets[known], self.bins.by_cell[cells])
            done(len(scores))
        return counter.result()

    @staticmethod
    def merge(results: Sequence[GroupCounts]) -> GroupCounts:
        counter = GroupCounter(results[0].by, results[0].counts.shape[2])
        for part in results:
            counter.merge(part)
        return counter.result()


def group_names(chunk: Chunk, by: str) -> pa.Array:
    """The group of each row as text, '' where it has none."""
    names = group_text(chunk, by)
    missing = pc.is_in(names, value_set=pa.array(MISSING_TEXTS))
    return pc.if_else(missing, "", names)


# ---- Estimates of groups


@dataclass(frozen=True, eq=False)
class Groups:
    """The estimates of each group; the first is OTHER, the rest are ordered by name."""

    by: str
    names: tuple[str, ...]
    rows: IntArray  # (groups, sets)
    shares: PooledShares

    @cached_property
    def alpha(self) -> float:
        """Alpha of all unlabeled rows, by the estimates of their groups."""
        rows = self.rows[:, UNLABELED]
        return float(rows @ self.shares.alpha / max(int(rows.sum()), 1))

    def priors(self, alpha: float) -> FloatArray:
        """The fractions that rows have before they are scored, shape (groups,), by the whole's."""
        return move_odds(np.array(alpha), self.shares.log_odds)

    def places(self, names: pa.Array) -> IntArray:
        """The index of each row's group, shape (n,); that of OTHER where it has none."""
        indices = pc.index_in(names, value_set=pa.array(self.names, pa.string()))
        return np.asarray(pc.fill_null(indices, 0)).astype(np.int64)

    def atypical(self) -> list[int]:
        """The indices of groups whose scores contradict f1 and f0 of all rows, the worst first.

        By Benjamini and Hochberg's rule, at a false discovery rate of MAX_FALSE.
        """
        p = self.shares.p_typical[1:]
        order = np.lexsort((-self.rows[1:].sum(1), p))
        passing = np.flatnonzero(p[order] <= MAX_FALSE * np.arange(1, len(p) + 1) / max(len(p), 1))
        return [int(place) + 1 for place in order[: passing[-1] + 1 if len(passing) else 0]]

    @property
    def notices(self) -> tuple[Notice, ...]:
        """A warning that names the groups whose scores contradict those of all rows."""
        if not (places := self.atypical()):
            return ()
        names = ", ".join(self.names[place] for place in places[:MAX_NAMED])
        more = f" and {len(places) - MAX_NAMED} more" if len(places) > MAX_NAMED else ""
        message = (
            f"{len(places)} of {len(self.names) - 1} groups by {self.by} have scores unlike those "
            f"of the other groups, whatever their alpha: {names}{more}"
        )
        return (Notice("groups-not-typical", message),)

    @property
    def order(self) -> list[int]:
        """The indices of groups as tables have them: OTHER is the last."""
        return [*range(1, len(self.names)), 0]

    def largest(self, count: int) -> list[int]:
        """The indices of the groups with the most unlabeled rows, without OTHER."""
        order = np.argsort(-self.rows[1:, UNLABELED], kind="stable")[:count]
        return [int(place) + 1 for place in order]

    def table(self, further: Mapping[str, FloatArray] | None = None) -> pa.RecordBatch:
        """GROUPS, with further columns of shape (groups,); OTHER is the last row."""
        columns: dict[str, pa.Array] = {"group": pa.array(self.names, pa.string())}
        columns |= {name: pa.array(self.rows[:, code]) for name, code in COUNTED.items()}
        columns |= {name: pa.array(getattr(self.shares, name)) for name in ESTIMATED}
        columns |= {name: pa.array(v, from_pandas=True) for name, v in (further or {}).items()}
        order = pa.array(self.order)
        arrays = [column.take(order) for column in columns.values()]
        return pa.RecordBatch.from_arrays(arrays, list(columns))

    def write(self, out: str, further: Mapping[str, FloatArray] | None = None) -> None:
        """Write GROUPS."""
        write_table(out, self.table(further))

    @classmethod
    def read(cls, name: str, by: str) -> Groups:
        """Read GROUPS."""
        table = open_table(name)
        numbers = [*COUNTED, *ESTIMATED]
        for column in ("group", *numbers):
            table.require(column, "a table of groups")
        encoding = Encoding(tuple(Column(column, "number") for column in numbers))
        names: list[str] = []
        parts = [np.empty((0, len(numbers)))]
        table_rows = Rows.from_tables([table], features=numbers, keep=["group"])
        for chunk in table_rows.chunks(table.columns):
            names += as_text(chunk, "group").to_pylist()
            parts.append(encoding.encode(chunk))
        values = np.concatenate(parts)
        if len(set(names)) < len(names) or OTHER not in names or len(names) > MAX_GROUPS + 1:
            raise InputError(f"{name}: a table of groups has each group once, and {OTHER!r}")
        fractions = values[:, len(COUNTED) : len(COUNTED) + len(FRACTIONS)]
        if not (np.isfinite(values).all() and (fractions >= 0).all() and (fractions <= 1).all()):
            raise InputError(f"{name}: alpha, alpha_low and alpha_high must be within [0, 1]")
        first = names.index(OTHER)
        order = [first, *sorted(set(range(len(names))) - {first}, key=names.__getitem__)]
        values = values[order]
        rows = np.zeros((len(names), len(SETS)), np.int64)
        rows[:, list(COUNTED.values())] = values[:, : len(COUNTED)]
        shares = PooledShares(*values[:, len(COUNTED) :].T)
        return cls(by, tuple(names[i] for i in order), rows, shares)


MIN_MANY, MAX_LOOKED_AT = 50, 1000  # different values


def check_by(rows: Rows, by: str) -> None:
    """Stop, before any work is done, if rows cannot be grouped by a column."""
    for table in rows.tables:
        table.require(by, option("by"))
    if by == rows.label_column or rows.features == (by,):
        raise UsageError(f"{option('by', by)}: this column has the labels or the score")
    if by not in rows.carried:
        raise UsageError(f"{option('by', by)}: this column is one that punoise writes itself")
    for chunk in rows.chunks([by]):
        _check_groups(chunk, by)
        break


def _check_groups(chunk: Chunk, by: str) -> None:
    """Raise an input error if the first rows show that a column does not name groups."""
    names = pc.unique(group_text(chunk, by)).to_pylist()
    numbers = np.array([chunk.notation.number(name) for name in names[:MAX_LOOKED_AT]])
    if len(names) < MIN_MANY or np.isnan(numbers).mean() > 0.1:
        return
    what = f"{chunk.file}: {option('by', by)}: {len(names)} different values in the first"
    what = f"{what} {chunk.batch.num_rows} rows, nearly all of them numbers"
    if (numbers != np.rint(numbers)).mean() > 0.5 and len(names) > chunk.batch.num_rows / 10:
        raise InputError(f"{what}: is this a measurement? Cut it into ranges to group by it")
    if len(names) == chunk.batch.num_rows:
        raise InputError(f"{what}: is this an id ({option('id_column')})? Groups have many rows")


def estimate_groups(
    rows: Rows,
    by: str,
    calibration: Calibration,
    engine: Engine,
    scorer: HonestScorer | None = None,
) -> Groups:
    """Estimate the fraction of positives of each group; the scorer is for rows without scores."""
    if not calibration.informative:
        shares = calibration.shares
        raise EstimationError(
            f"{option('by', by)}: with an alpha of {shares.alpha:.4g} and a beta of "
            f"{shares.beta:.4g} over all rows, the scores are not informative about groups"
        )
    bins = Bins.from_calibration(calibration)
    counted = engine.gather(CountGroups(by, calibration.sketch, bins, scorer), rows, "count")
    with engine.timed("pool"):
        pooled = pool(calibration, bins, counted.counts)
    return Groups(by, (OTHER, *counted.names), counted.counts.sum(2), pooled)


# ---- Posteriors by group


@dataclass(frozen=True, eq=False)
class GroupPosteriors:
    """The meaning of a score in each group: that in the whole, with other log-odds and shifted."""

    groups: Groups
    bins: Bins
    whole: Arrays  # columns of POSTERIOR by cell, of all rows together
    fdr: float | None = None  # at which rows are called

    def columns(self, columns: Columns) -> Columns:
        """Columns of POSTERIOR, each by the row's own group."""
        return {name: GroupColumn(self, name, column.type) for name, column in columns.items()}

    def of_rows(self, rows: ScoredChunk) -> dict[str, NDArray[Any]]:
        """The values of all columns, each of shape (n,)."""
        names = group_names(rows.chunk, self.groups.by)
        places, cells = self.groups.places(names), rows.cells
        shares, whole = self.groups.shares, self.whole
        moved, log_odds = self.bins.moved(cells, -shares.shift[places]), shares.log_odds[places]
        error, posterior = shares.log_odds_error[places], whole["posterior"][moved]
        if TARGET_ALPHA in whole:  # of all groups, in place of their own
            log_odds, error = np.zeros((2, len(cells)))
        fdr = move_odds(whole["fdr"][moved], -log_odds)
        columns: dict[str, NDArray[Any]] = {
            "tau": whole["tau"][cells],
            "posterior": move_odds(posterior, log_odds),
            "lr": whole["lr"][moved],
            "fdr": fdr,
            "posterior_labeled": whole["posterior_labeled"][moved],
            CALL: fdr <= (self.fdr or 0.0),
        }
        if TARGET_ALPHA in whole:
            columns[TARGET_ALPHA] = whole[TARGET_ALPHA][cells]
        for name, side in zip(BOUNDS, (-1, 1), strict=True):
            if name in whole:
                limit = whole[name][moved]
                further = _further(posterior, limit, ONE_SIDED * error)
                columns[name] = move_odds(limit, log_odds + side * further)
        return columns


def _further(p: FloatArray, bound: FloatArray, error: FloatArray) -> FloatArray:
    """How much farther from p an independent error moves a bound, in log-odds, shape (n,)."""
    with np.errstate(invalid="ignore"):
        distance = np.abs(logit(bound) - logit(p))
        return np.nan_to_num(np.hypot(distance, error) - distance)


@dataclass(frozen=True, eq=False)
class GroupColumn:
    """A column by group and cell."""

    posteriors: GroupPosteriors
    name: str
    type: pa.DataType

    @property
    def groups(self) -> Groups:
        return self.posteriors.groups

    def array(self, rows: ScoredChunk, known: BoolArray | None) -> pa.Array:
        values = rows.shared(self.posteriors, lambda: self.posteriors.of_rows(rows))[self.name]
        return take_known(values, np.arange(len(rows.scores)), known)


@dataclass(frozen=True, eq=False)
class GroupRangeColumn:
    """A column by group and range of the score, such as the level of evidence."""

    groups: Groups
    begins: FloatArray  # (groups, ranges - 1): the first score of a range; NaN if it is empty
    upward: BoolArray  # (ranges - 1,): whether it holds the scores above; the narrowest come first
    values: NDArray[Any]  # (ranges,): the first is that of scores in no other range

    @property
    def type(self) -> pa.DataType:
        return pa.array(self.values[:0]).type

    def array(self, rows: ScoredChunk, known: BoolArray | None) -> pa.Array:
        places = self.groups.places(group_names(rows.chunk, self.groups.by))
        ranges: IntArray = np.zeros(len(places), np.int64)
        for i in reversed(range(len(self.upward))):
            begins = self.begins[places, i]
            ranges[rows.scores >= begins if self.upward[i] else rows.scores <= begins] = i + 1
        return take_known(self.values, ranges, known)
