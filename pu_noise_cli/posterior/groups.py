"""Groups of rows, by a column: how their scores are counted, what is estimated of each, GROUPS.

The counts of a group take 1.5 KB, so memory grows with the number of groups, up to MAX_GROUPS.
Where there are more, the largest keep a place of their own and the others share one.

Posteriors and thresholds by group: each has its own share of positives, and its own shift.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import EstimationError, InputError, UsageError
from ..evidence.strengths import NONE, Grading, Level
from ..notices import Notice
from ..numerics import BoolArray, FloatArray, IntArray, expit, logit
from ..scale.engine import Engine, Job, RowsDone
from ..score.model import HonestScorer
from ..score.scores import Scores
from ..score.sketch import Sketch
from ..tables.columns import MISSING_TEXTS, Column, Encoding
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
from .bounds import Bounds
from .calibration import Calibration, posterior_at
from .pooling import Bins, PooledShares, masses, pool
from .table import PosteriorRows, WritePosteriors, at_places, known_rows

OTHER = "(other)"  # the rows of no group that has a place of its own
MAX_GROUPS = 32_768
AT_MOST = MAX_GROUPS * 5 // 4  # that have a place for a while
BUCKETS = 1 << 20  # of groups by a hash of their names, to find the large ones among too many
COUNTED = {"n_labeled": LABELED, "n_unlabeled": UNLABELED, "n_negatives": NEGATIVE}
ESTIMATED = ("alpha", "alpha_low", "alpha_high", "shift")


def _key(name: str) -> tuple[int, str]:
    """An order of names that has nothing to do with what they are."""
    return zlib.crc32(name.encode()), name


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """How many rows of each group and set are in each bin of scores; counts of parts add up."""

    names: tuple[str, ...]  # of the groups after the first, which is OTHER
    counts: IntArray  # (groups, sets, bins)
    buckets: IntArray  # (BUCKETS,): rows by the hash of their group
    too_many: bool  # whether some groups have lost their place

    def ordered(self) -> GroupCounts:
        """The same, by name."""
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        counts = self.counts[[0, *(i + 1 for i in order)]]
        names = tuple(self.names[i] for i in order)
        return GroupCounts(names, counts, self.buckets, self.too_many)


class GroupCounter:
    """Counts rows that come in batches.

    Where there are more than MAX_GROUPS, those first in the order of _key keep their places: which
    these are, and their counts, depend neither on the order of the rows nor on how they are parted.
    """

    def __init__(self, bins: int, large: BoolArray | None = None) -> None:
        self._large = large  # (BUCKETS,): where groups may have a place; None: everywhere
        self._places: dict[str, int] = {}
        self._counts = np.zeros((16, len(SETS), bins), np.int64)
        self._buckets = np.zeros(BUCKETS, np.int64)
        self._last: tuple[int, str] | None = None  # what comes after it has lost its place

    def add(self, names: pa.Array, sets: SetArray, bins: IntArray) -> None:
        """Count rows by the names of their groups, '' for none; all of shape (n,)."""
        coded = names.dictionary_encode()
        found = [str(name) for name in coded.dictionary.to_pylist()]
        indices = np.asarray(coded.indices)
        hashes = np.array([_key(name)[0] for name in found], np.int64) % BUCKETS
        np.add.at(self._buckets, hashes, np.bincount(indices, minlength=len(found)))
        may = np.ones(len(found), bool) if self._large is None else self._large[hashes]
        places = np.zeros(len(found), np.int64)
        places[may] = [self._place(found[i]) for i in np.flatnonzero(may)]
        np.add.at(self._counts, (places[indices], sets, bins), 1)
        if len(self._places) > AT_MOST:
            self._cut()

    def merge(self, part: GroupCounts) -> None:
        """Count the rows that have been counted elsewhere."""
        places = np.array([0, *map(self._place, part.names)], np.int64)
        np.add.at(self._counts, places, part.counts)
        self._buckets += part.buckets
        if part.too_many or len(self._places) > AT_MOST:
            self._cut()

    def found(self) -> GroupCounts:
        """What has been counted so far."""
        if len(self._places) > MAX_GROUPS:
            self._cut()
        counts = self._counts[: len(self._places) + 1]
        return GroupCounts(tuple(self._places), counts, self._buckets, self._last is not None)

    def _place(self, name: str) -> int:
        if name in ("", OTHER) or (self._last is not None and _key(name) > self._last):
            return 0
        place = self._places.setdefault(name, len(self._places) + 1)
        if place == len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        return place

    def _cut(self) -> None:
        """Leave the first MAX_GROUPS their places."""
        ranked = sorted(self._places, key=_key)
        kept, lost = (
            [self._places[name] for name in names]
            for names in (ranked[:MAX_GROUPS], ranked[MAX_GROUPS:])
        )
        self._last = _key(ranked[len(kept) - 1])
        other = self._counts[:1] + self._counts[lost].sum(0)
        self._counts = np.concatenate([other, self._counts[kept]])
        self._places = {name: place for place, name in enumerate(ranked[:MAX_GROUPS], 1)}


@dataclass(frozen=True, eq=False)
class CountGroups:
    """Counts the rows of groups, by the bins of their scores."""

    by: str
    sketch: Sketch
    bins: Bins
    scorer: HonestScorer | None = None  # of rows that have no scores yet
    large: BoolArray | None = None  # see GroupCounter

    def __call__(self, job: Job, done: RowsDone, threads: int) -> GroupCounts:
        counter = GroupCounter(len(self.bins.first), self.large)
        by_cell = self.bins.by_cell
        for chunk, scores in self._scored(job.part, threads):
            known = ~np.isnan(scores)
            names = group_names(chunk, self.by).filter(pa.array(known))
            cells = self.sketch.cell_index(scores[known])
            counter.add(names, chunk.sets[known], by_cell[cells])
            done(len(scores))
        return counter.found()

    def _scored(self, rows: Rows, threads: int) -> Iterator[tuple[Chunk, FloatArray]]:
        if self.scorer is None:
            return Scores(rows).chunks([self.by, "score"])
        return self.scorer.score_all(rows, threads)

    @staticmethod
    def merge(results: Sequence[GroupCounts]) -> GroupCounts:
        counter = GroupCounter(results[0].counts.shape[2])
        for part in results:
            counter.merge(part)
        return counter.found()


def group_names(chunk: Chunk, by: str) -> pa.Array:
    """The group of each row as text, '' where there is none."""
    names = group_text(chunk, by)
    missing = pc.is_in(names, value_set=pa.array(MISSING_TEXTS))
    return pc.if_else(missing, "", names)


@dataclass(frozen=True, eq=False)
class Groups:
    """What is estimated of each group; the first is OTHER, the rest are in order."""

    by: str
    names: tuple[str, ...]
    rows: IntArray  # (groups, sets)
    shares: PooledShares
    notices: tuple[Notice, ...] = ()

    @cached_property
    def _set(self) -> pa.Array:
        return pa.array(self.names, pa.string())

    def places(self, names: pa.Array) -> IntArray:
        """The place of each row's group, shape (n,); that of OTHER where it has none."""
        found = pc.index_in(names, value_set=self._set)
        return np.asarray(pc.fill_null(found, 0)).astype(np.int64)

    @property
    def alpha(self) -> float:
        """The share of positives among all unlabeled rows, by what is known of their groups."""
        rows = self.rows[:, UNLABELED]
        return float(rows @ self.shares.alpha / max(int(rows.sum()), 1))

    def digest(self) -> str:
        """A digest of all that rows may take from here."""
        digest = hashlib.sha256(json.dumps((self.by, *self.names)).encode())
        for name in ESTIMATED:
            digest.update(np.ascontiguousarray(getattr(self.shares, name)).tobytes())
        return digest.hexdigest()

    def largest(self, most: int) -> list[int]:
        """The places of the groups with the most unlabeled rows, OTHER left out."""
        order = np.argsort(-self.rows[1:, UNLABELED], kind="stable")[:most]
        return [int(place) + 1 for place in order]

    def table(self, more: dict[str, FloatArray] | None = None) -> pa.RecordBatch:
        """GROUPS, with further columns of shape (groups,) where there are any; OTHER is last."""
        columns: dict[str, pa.Array] = {"group": self._set}
        columns |= {name: pa.array(self.rows[:, code]) for name, code in COUNTED.items()}
        columns |= {name: pa.array(getattr(self.shares, name)) for name in ESTIMATED}
        columns |= {name: pa.array(v, from_pandas=True) for name, v in (more or {}).items()}
        order = pa.array([*range(1, len(self.names)), 0])
        arrays = [column.take(order) for column in columns.values()]
        return pa.RecordBatch.from_arrays(arrays, list(columns))

    def write(self, out: str, more: dict[str, FloatArray] | None = None) -> None:
        """Write GROUPS."""
        write_table(out, self.table(more))

    @classmethod
    def read(cls, name: str, by: str) -> Groups:
        """GROUPS of a file."""
        table = open_table(name)
        numbers = [*COUNTED, *ESTIMATED]
        for column in ("group", *numbers):
            table.require(column, "a table of groups")
        encoding = Encoding(tuple(Column(column, "number") for column in numbers))
        names: list[str] = []
        parts = [np.empty((0, len(numbers)))]
        for chunk in Rows.from_tables([table], features=numbers, keep=["group"]).chunks(
            table.columns
        ):
            names += as_text(chunk, "group").to_pylist()
            parts.append(encoding.encode(chunk))
        values = np.concatenate(parts)
        if len(set(names)) < len(names) or OTHER not in names or len(names) > MAX_GROUPS + 1:
            raise InputError(f"{name}: a table of groups has each once, and {OTHER!r}")
        shares = values[:, len(COUNTED) : -1]
        if not (np.isfinite(values).all() and (shares >= 0).all() and (shares <= 1).all()):
            raise InputError(f"{name}: alpha, alpha_low and alpha_high of groups are shares")
        first = names.index(OTHER)
        order = [first, *sorted(set(range(len(names))) - {first}, key=names.__getitem__)]
        values = values[order]
        rows = np.zeros((len(names), len(SETS)), np.int64)
        rows[:, list(COUNTED.values())] = values[:, : len(COUNTED)]
        found = PooledShares(*values[:, len(COUNTED) :].T)
        return cls(by, tuple(names[i] for i in order), rows, found)


def check_by(rows: Rows, by: str) -> None:
    """Stop, before any work is done, where rows cannot be grouped by a column."""
    if rows.keys:
        raise UsageError("--by does not go with matches of spectra")
    for table in rows.tables:
        table.require(by, "--by")
    if by == rows.label_column or rows.features == (by,):
        raise UsageError(f"--by {by}: the column is that of the labels or the score, not of groups")
    if by not in rows.carried:
        raise UsageError(f"--by {by}: the column is one of punoise's own")


def estimate_groups(
    rows: Rows,
    by: str,
    calibration: Calibration,
    engine: Engine,
    scorer: HonestScorer | None = None,
) -> Groups:
    """What the rows say of each group; the scorer is for rows that have no scores yet."""
    if not calibration.sketch.n_unlabeled:
        raise UsageError(f"--by {by}: the share of positives in a group needs unlabeled rows")
    if not calibration.informative:
        shares = calibration.shares
        raise EstimationError(
            f"--by {by}: with an alpha of {shares.alpha:.4g} and a beta of {shares.beta:.4g} of "
            "all rows the scores say nothing of groups"
        )
    bins = Bins.of(calibration)
    step = CountGroups(by, calibration.sketch, bins, scorer)
    found = engine.gather(step, rows, "count")
    notices = []
    if found.too_many:  # a second look, at those that may be large
        large = _large(found.buckets)
        found = engine.gather(replace(step, large=large), rows, "count")
        own = int(found.counts[1:].sum())
        share = own / max(int(found.counts.sum()), 1)
        message = f"--by {by}: {len(found.names)} groups, with {share:.0%} of the rows, are"
        notices.append(Notice("many-groups", f"{message} estimated one by one, all others as one"))
    found = found.ordered()
    with engine.timed("pool"):
        pooled = pool(calibration, bins, found.counts)
    return Groups(by, (OTHER, *found.names), found.counts.sum(2), pooled, tuple(notices))


def _large(buckets: IntArray) -> BoolArray:
    """The buckets with the most rows, so many that their groups will hardly be too many.

    A bucket with a large group has others too: as many as any bucket has, which the share of empty
    ones tells.
    """
    empty = max(float((buckets == 0).mean()), 1 / BUCKETS)
    others = min(-np.log(empty), buckets.sum() / BUCKETS)
    most = int(0.95 * MAX_GROUPS / (1 + others))
    least = np.partition(buckets, -most - 1)[-most - 1]
    return np.asarray(buckets > least)


ONE_OF_TWO = 1.645 / 1.96  # the error of a one-sided 95 % bound in those of a 95 % interval
CALLED = "call"  # in what was reached: rows that are called at the wanted fdr


@dataclass(frozen=True, eq=False)
class GroupPosteriors:
    """What scores say in each group, where the likelihood ratio is that of the whole, shifted."""

    groups: Groups
    calibration: Calibration
    bounds: Bounds | None = None
    grading: Grading | None = None  # of evidence; goes with bounds
    fdr: float | None = None  # at which rows are called

    @cached_property
    def _bins(self) -> Bins:
        return Bins.of(self.calibration)

    @cached_property
    def _above(self) -> tuple[FloatArray, FloatArray]:
        """How much of f1, and of f0, lies from each cell up, both of shape (cells,)."""
        f1, f0 = (np.cumsum(mass[::-1])[::-1] for mass in masses(self.calibration))
        return f1, f0

    @cached_property
    def levels(self) -> list[Level]:
        """The levels of evidence at the prior of the whole, the strongest of each side first."""
        return self._levels(self.calibration.shares.alpha)

    @cached_property
    def needed(self) -> FloatArray:
        """The likelihood ratio of each level at each group's prior, shape (groups, levels).

        It is not a number where the rule has no such level at that prior.
        """
        found = np.full((len(self.groups.names), len(self.levels)), np.nan)
        for place, alpha in enumerate(self.groups.shares.alpha):
            try:
                by_name = {level.name: level.lr for level in self._levels(float(alpha))}
            except InputError:  # a prior so near to 0 or 1 that the rule does not go with it
                continue
            found[place] = [by_name[level.name] for level in self.levels]
        return found

    def _levels(self, alpha: float) -> list[Level]:
        return [] if self.grading is None else self.grading.levels(alpha)

    def columns(self, places: IntArray, cells: IntArray) -> dict[str, NDArray[Any]]:
        """Columns of POSTERIOR for rows with the places of their groups and cells, all (n,)."""
        own = self._bins.moved(cells, -self.groups.shares.shift[places])
        lr, alpha = self.calibration.lr[own], self.groups.shares.alpha[places]
        p = posterior_at(lr, alpha)
        f1, f0 = (above[own] for above in self._above)
        negatives = (1 - alpha) * f0
        rows = alpha * f1 + negatives
        fdr = np.where(rows > 0, negatives / np.where(rows > 0, rows, 1), 1 - p)
        found: dict[str, NDArray[Any]] = {
            "tau": self.calibration.tau[cells],
            "posterior": p,
            "lr": lr,
            "fdr": fdr,
            "posterior_labeled": self.calibration.posterior_labeled[own],
            CALLED: fdr <= (self.fdr or 0.0),
        }
        if self.bounds is not None:
            low, high = (bound[own] for bound in self.bounds.lr)
            shares = self.groups.shares
            found["posterior_low"] = _bounded(lr, low, alpha, shares.alpha_low[places], -1)
            found["posterior_high"] = _bounded(lr, high, alpha, shares.alpha_high[places], 1)
            found["evidence"] = self._evidence(places, low, high)
        return found

    def _evidence(self, places: IntArray, low: FloatArray, high: FloatArray) -> NDArray[np.int64]:
        """The strongest level, counted from 1, that bounds on the likelihood ratio support."""
        found = np.zeros(len(low), np.int64)
        for i in reversed(range(len(self.levels))):
            needed = self.needed[places, i]
            meets = high <= needed if self.levels[i].against else low >= needed
            found[meets] = i + 1
        return found

    @property
    def level_names(self) -> NDArray[np.str_]:
        """The names of levels by their number in `columns`."""
        return np.array([NONE, *(level.name for level in self.levels)])

    def write(self, out: str, lower_is_positive: bool) -> None:
        """GROUPS, with the scores at which levels of evidence begin, where there are any."""
        self.groups.write(out, self.thresholds(lower_is_positive))

    def thresholds(self, lower_is_positive: bool) -> dict[str, FloatArray]:
        """For each level the score at which it begins in each group; not a number where nowhere."""
        if self.bounds is None:
            return {}
        sketch, sign = self.calibration.sketch, -1.0 if lower_is_positive else 1.0
        found, cells = np.full_like(self.needed, np.nan), np.arange(len(sketch.edges))
        ends = sketch.spans()
        for place, shift in enumerate(self.groups.shares.shift):
            own = self._bins.moved(cells, np.full(len(cells), -shift))
            low, high = (bound[own] for bound in self.bounds.lr)
            for i, level in enumerate(self.levels):
                needed = self.needed[place, i]
                meets = np.flatnonzero(high <= needed if level.against else low >= needed)
                if len(meets):
                    cell = meets[-1 if level.against else 0]
                    found[place, i] = sign * ends[level.against][cell] + 0.0  # no -0
        ranked = sorted(range(len(self.levels)), key=lambda i: -self.levels[i].lr)
        return {self.levels[i].code: found[:, i] for i in ranked}


def _bounded(
    lr: FloatArray, bound: FloatArray, alpha: FloatArray, end: FloatArray, side: int
) -> FloatArray:
    """A bound on the posterior from those on the likelihood ratio and α, all of shape (n,).

    The two errors are taken to be independent of each other. `end` is that of a 95 % interval, and
    the side, -1 or 1, that on which the bounds are.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        prior = logit(alpha)
        of_prior = ONE_OF_TWO * (logit(end) - prior)
        error = np.hypot(np.log(bound) - np.log(lr), of_prior)
        log_odds = np.log(lr) + prior + side * error
        found = expit(log_odds)
    return np.where(np.isnan(log_odds), posterior_at(bound, end), found)


@dataclass(frozen=True, eq=False)
class WriteGroupPosteriors(WritePosteriors):
    """Writes POSTERIOR of rows that have scores, each by its own group."""

    found: GroupPosteriors

    def digest(self, rows: Rows) -> str:
        """A digest of all that a posterior depends on but the values of the rows."""
        parts = (super().digest(rows), self.found.groups.digest(), self.found.fdr)
        digest = hashlib.sha256(":".join(map(str, parts)).encode())
        for array in (self.found.needed, *(self.found.bounds.lr if self.found.bounds else ())):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def read_again(self, rows: Rows) -> Sequence[str]:
        return (*rows.id_columns, self.found.groups.by)

    def arrays(self, names: Sequence[str], chunk: Chunk, scores: FloatArray) -> list[pa.Array]:
        columns, rows = self._columns(chunk, scores), np.arange(len(scores))
        found = []
        for name in names:
            graded = name == "evidence"
            values = self.found.level_names if graded else columns[name]
            places = columns[name] if graded else rows
            found.append(at_places(values, places, known_rows(name, chunk, scores)))
        return found

    def saw(self, found: PosteriorRows, rows: Rows, chunk: Chunk, scores: FloatArray) -> None:
        super().saw(found, rows, chunk, scores)
        if self.found.fdr is None and not self.found.levels:
            return
        columns, mine = self._columns(chunk, scores), chunk.unlabeled & ~np.isnan(scores)
        found.reached[CALLED] += int(columns[CALLED][mine].sum())
        if self.found.levels:
            reached = np.bincount(columns["evidence"][mine])
            names = self.found.level_names
            found.reached.update({str(names[i]): int(n) for i, n in enumerate(reached)})

    def _columns(self, chunk: Chunk, scores: FloatArray) -> dict[str, NDArray[Any]]:
        groups = self.found.groups
        places = groups.places(group_names(chunk, groups.by))
        return self.found.columns(places, self.sketch.cell_index(scores))
