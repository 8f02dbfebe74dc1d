"""Thresholds applied to scores: the range of each level, published calibrations, EVIDENCE.

A file of thresholds is a table, or JSON with the same rows as `levels`. Its columns are `level`,
`points`, `score_from`, which has the level, and `score_to`, which has not. Either may be the larger
one, and `score_to` may be infinite. A level that is not reached has no `score_from`. With a column
`group`, the ranges are those of groups of rows; the group OTHER has those of all further groups.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError, UsageError, option
from ..notices import Notice
from ..numerics import FloatArray, IntArray
from ..posterior.columns import take_known
from ..posterior.groups import MAX_GROUPS, OTHER, group_names
from ..scale.engine import Job, RowsDone
from ..score.scores import job_writer, scores_batch, scores_schema
from ..tables.columns import Column, Encoding
from ..tables.files import read_document
from ..tables.reading import open_table
from ..tables.records import read_records
from ..tables.rows import Chunk, Rows, shown
from ..tables.writing import is_json
from .document import GroupLevelRow, LevelRow, ThresholdsDocument
from .rules import MAX_LEVELS, NONE

GROUP, TOTAL = "group", "points_total"
# the columns after the score; the last only with points of further criteria
EVIDENCE = pa.schema([("level", pa.string()), ("points", pa.int64()), (TOTAL, pa.float64())])
PUBLISHED = "published.json"
ANY_PREDICTOR = {"score", "scores", "rankscore", "value", "values"}  # words of columns
MIN_PREFIX = 3
MAX_NAMED = 3  # groups in a message


@dataclass(frozen=True)
class LevelRange:
    """The scores that have a level, on the predictor's own scale."""

    level: str
    points: int | None
    score_from: float  # has the level
    score_to: float  # has not; it may be the lower of the two

    @property
    def ends(self) -> tuple[float, float, bool]:
        """The lower and the upper end, and whether it is the lower one that belongs to it."""
        if self.score_from <= self.score_to:
            return self.score_from, self.score_to, True
        return self.score_to, self.score_from, False

    def holds(self, scores: FloatArray) -> NDArray[np.bool_]:
        """Whether scores, shape (n,), are in the range."""
        low, high, lower = self.ends
        inside = (low <= scores) & (scores < high) if lower else (low < scores) & (scores <= high)
        return np.asarray(inside)


@dataclass(frozen=True)
class LevelRanges:
    """The ranges of all levels that are reached; no two of them overlap."""

    ranges: tuple[LevelRange, ...]
    predictor: str | None = field(default=None, repr=False, compare=False)  # if it is known

    def check_predictor(self, score_column: str) -> tuple[Notice, ...]:
        """A warning if a column seems to have the scores of another predictor, by its name."""
        own, its = (_name_words(name) for name in (self.predictor or "", score_column))
        if not own or not its or any(_is_alike(one, other) for one in own for other in its):
            return ()
        message = f"the thresholds are those of {self.predictor}, not of {score_column}"
        return (Notice("other-predictor", message),)

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels, that of none first."""
        return (NONE, *(one.level for one in self.ranges))

    @property
    def points(self) -> NDArray[Any]:
        """The points of the levels, in the same order."""
        return np.array([0, *(one.points or 0 for one in self.ranges)], np.int64)

    @property
    def have_points(self) -> bool:
        """Whether each level has points."""
        return all(one.points is not None for one in self.ranges)

    def places(self, scores: FloatArray) -> IntArray:
        """The place of each score's level among the levels, shape (n,); 0 for NaN."""
        places = np.zeros(len(scores), np.int64)
        for place, one in enumerate(self.ranges, start=1):
            places[one.holds(scores)] = place
        return places

    def __call__(self, scores: FloatArray) -> NDArray[Any]:
        """The name of each score's level, shape (n,)."""
        return np.array(self.levels)[self.places(scores)]

    @classmethod
    def read(cls, name: str) -> LevelRanges:
        """Read thresholds: a published calibration by its name, or a file."""
        source = name.split(":")[0]
        if source in published() and not os.path.exists(name):
            return cls.from_published(name)
        if is_json(name):
            content = read_document(name, ThresholdsDocument)
            ranges = cls.from_rows(name, content.rows())
            return replace(ranges, predictor=content.provenance.score_column)
        table = open_table(name)
        if GROUP in table.columns:
            raise UsageError(f"{name}: has thresholds of groups, which need {option('by')}")
        return cls.from_rows(name, read_records(table, LevelRow, option("thresholds"), MAX_LEVELS))

    @classmethod
    def from_rows(cls, name: str, rows: Sequence[LevelRow | GroupLevelRow]) -> LevelRanges:
        """The ranges of the levels in a file that are reached; a score has one level at most."""
        ranges = []
        for row in rows:
            if row.score_from is None:
                continue
            if row.score_to is None or np.isinf(row.score_from):
                raise InputError(
                    f"{name}: {shown(row.level)} has no finite score_from or no score_to"
                )
            ranges.append(LevelRange(row.level, row.points, row.score_from, row.score_to))
        if len(ranges) > MAX_LEVELS:
            raise InputError(f"{name}: at most {MAX_LEVELS} levels can be applied")
        filled = sorted((one for one in ranges if one.score_from != one.score_to), key=_lower_end)
        for one, other in itertools.pairwise(filled):
            touching = one.ends[1] == other.ends[0] and not one.ends[2] and other.ends[2]
            if one.ends[1] > other.ends[0] or touching:
                raise InputError(f"{name}: the ranges of {one.level} and {other.level} overlap")
        return cls(tuple(ranges))

    @classmethod
    def from_published(cls, name: str) -> LevelRanges:
        """The thresholds of a predictor as published, such as pejaver2022:REVEL."""
        source, _, predictor = name.partition(":")
        calibration = published()[source]
        by_name = {key.lower(): value for key, value in calibration.predictors.items()}
        if predictor.lower() not in by_name:
            names = ", ".join(f"{source}:{known}" for known in calibration.predictors)
            raise UsageError(f"{name}: is not published; there are {names}")
        entry = by_name[predictor.lower()]
        toward, found = (1.0 if entry.higher_is_positive else -1.0), []
        for sign in (1, -1):  # from the strongest level of each side
            score_to = sign * toward * np.inf
            for code, points in calibration.levels.items():
                if points * sign > 0 and (begins := entry.thresholds.get(code)) is not None:
                    found.append(LevelRange(code, points, begins, score_to))
                    score_to = begins
        return cls(tuple(found), predictor=predictor)


@dataclass(frozen=True)
class GroupRanges:
    """The ranges of levels in each group of rows."""

    by_group: Mapping[str, LevelRanges]  # OTHER has those of the groups that are not named
    levels: tuple[str, ...]  # of any group, that of none first
    points: NDArray[Any]

    @property
    def have_points(self) -> bool:
        """Whether each level has points."""
        return all(own.have_points for own in self.by_group.values())

    def has(self, group: str) -> bool:
        """Whether a group has thresholds of its own."""
        return group != OTHER and group in self.by_group

    def check_column(self, rows: Rows, by: str) -> None:
        """Raise an input error if no row belongs to a group that has thresholds."""
        file, seen = "", dict[str, None]()
        for chunk in rows.chunks([by]):
            names = group_names(chunk, by).unique().to_pylist()
            if any(map(self.has, names)):
                return
            file = chunk.file
            seen |= dict.fromkeys(names[:MAX_NAMED])
        if not file or len(self.by_group) == 1:  # there are no rows, or no groups but OTHER
            return
        known = list(filter(self.has, self.by_group))
        own, groups = (", ".join(map(shown, list(some)[:MAX_NAMED])) for some in (seen, known))
        raise InputError(
            f"{file}: {option('by', by)}: no row belongs to a group that has thresholds, such as "
            f"{groups}; the column has {own}. Name the column of groups, or apply the thresholds "
            f"of all rows without {option('by')}"
        )

    def places(self, scores: FloatArray, names: pa.Array) -> IntArray:
        """The place of each score's level among the levels, by the names of groups, all (n,)."""
        coded = names.dictionary_encode()
        indices, places = np.asarray(coded.indices), np.zeros(len(scores), np.int64)
        order = np.argsort(indices, kind="stable")
        ends = np.searchsorted(indices[order], np.arange(1, len(coded.dictionary)))
        for group, rows in zip(coded.dictionary.to_pylist(), np.split(order, ends), strict=True):
            own = self.by_group.get(group, self.by_group[OTHER])
            among = np.array([self.levels.index(level) for level in own.levels])
            places[rows] = among[own.places(scores[rows])]
        return places

    @classmethod
    def read(cls, name: str) -> GroupRanges:
        """Read thresholds of groups."""
        if is_json(name) or GROUP not in (table := open_table(name)).columns:
            raise UsageError(f"{option('by')}: {name} has no column {GROUP!r} of thresholds")
        by_group: dict[str, list[GroupLevelRow]] = {}
        most = MAX_GROUPS * MAX_LEVELS
        for row in read_records(table, GroupLevelRow, option("thresholds"), most):
            by_group.setdefault(row.group, []).append(row)
        if OTHER not in by_group:
            raise InputError(
                f"{name}: has no rows of the group {OTHER!r}, for groups it does not name"
            )
        ranges = {
            group: LevelRanges.from_rows(f"{name}, {group}", rows)
            for group, rows in by_group.items()
        }
        points = {one.level: one.points for own in ranges.values() for one in own.ranges}
        values = np.array([0, *(one or 0 for one in points.values())], np.int64)
        return cls(ranges, (NONE, *points), values)


def _name_words(name: str) -> set[str]:
    """The words of a column's name that say which predictor it is."""
    return set(re.findall(r"[^\W_]+", name.lower())) - ANY_PREDICTOR


def _is_alike(one: str, other: str) -> bool:
    """Whether words are the same, or one is that with a version: mutpred and mutpred2."""
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= MIN_PREFIX and long.startswith(short))


def _lower_end(one: LevelRange) -> float:
    return one.ends[0]


class PublishedPredictor(msgspec.Struct, frozen=True):
    """The thresholds of a predictor by level; a threshold itself has the level."""

    score: str
    higher_is_positive: bool
    thresholds: dict[str, float]


class PublishedCalibration(msgspec.Struct, frozen=True):
    """A published calibration of several predictors."""

    source: str
    prior: float
    levels: dict[str, int]  # points by level, the strongest of each side first
    predictors: dict[str, PublishedPredictor]


@cache
def published() -> Mapping[str, PublishedCalibration]:
    """Published calibrations by name."""
    file = resources.files(__package__).joinpath(PUBLISHED)
    return msgspec.json.decode(file.read_bytes(), type=dict[str, PublishedCalibration])


# ---- EVIDENCE


@dataclass
class EvidenceRows:
    """How many rows have each level, and which of them have the thresholds of OTHER."""

    levels: Counter[str] = field(default_factory=Counter)  # '' for rows without a score
    other_rows: int = 0
    other_groups: set[str] = field(default_factory=set)  # MAX_GROUPS at most

    def add(self, part: EvidenceRows) -> None:
        """Count rows that were counted elsewhere."""
        self.levels += part.levels
        self.other_rows += part.other_rows
        self._add_groups(part.other_groups)

    def add_rows(self, levels: pa.Array, names: pa.Array | None, ranges: object) -> None:
        """Count rows by the names of their levels and groups, both (n,)."""
        for level in levels.value_counts().to_pylist():
            self.levels[level["values"] or ""] += level["counts"]
        if names is None or not isinstance(ranges, GroupRanges):
            return
        for group in names.value_counts().to_pylist():
            if not ranges.has(group["values"]):
                self.other_rows += group["counts"]
                self._add_groups({group["values"]} - {"", OTHER})

    def _add_groups(self, names: set[str]) -> None:
        if len(self.other_groups) < MAX_GROUPS:
            self.other_groups |= names


@dataclass(frozen=True)
class WriteEvidence:
    """The step that writes the level and the points of each row, by one of its columns."""

    ranges: LevelRanges | GroupRanges
    score_column: str
    further_points: tuple[str, ...] = ()  # columns with points of independent criteria
    na: tuple[str, ...] = ()
    by: str | None = None  # the column that names the group of a row

    def __post_init__(self) -> None:
        if self.further_points and not self.ranges.have_points:
            raise UsageError(f"{option('add_points')}: these thresholds have no points to add to")

    @property
    def columns(self) -> list[str]:
        """The columns to read of each row."""
        return [self.score_column, *self.further_points]

    def evidence(self, chunk: Chunk) -> tuple[FloatArray, dict[str, pa.Array]]:
        """The scores of a chunk's rows, and their columns of EVIDENCE after the score."""
        columns = tuple(Column(name, "number") for name in self.columns)
        scores, *further = Encoding(columns, self.na).encode_columns(chunk)
        places, known = self._places(scores, chunk), ~np.isnan(scores)
        arrays = {
            "level": take_known(np.array(self.ranges.levels), places, known),
            "points": take_known(self.ranges.points, places, known),
        }
        if further:
            own = np.where(known, self.ranges.points[places], 0)
            arrays[TOTAL] = pa.array(np.nansum([own, *further], axis=0))  # without one: no evidence
        return scores, arrays

    def _places(self, scores: FloatArray, chunk: Chunk) -> IntArray:
        if isinstance(self.ranges, LevelRanges):
            return self.ranges.places(scores)
        assert self.by is not None
        return self.ranges.places(scores, group_names(chunk, self.by))

    def __call__(self, job: Job, done: RowsDone, threads: int) -> EvidenceRows:
        rows, counts = job.part, EvidenceRows()
        added = EVIDENCE if self.further_points else EVIDENCE.remove(2)
        if clash := [column for column in rows.kept if column in added.names]:
            raise UsageError(f"column {clash[0]!r} cannot be kept: EVIDENCE has one of that name")
        schema = scores_schema(rows, False, list(added))
        with job_writer(job, schema) as write:
            for chunk in rows.chunks([*self.columns, *rows.carried]):
                scores, arrays = self.evidence(chunk)
                write(scores_batch(rows, chunk, scores, schema, arrays.values()))
                names = None if self.by is None else group_names(chunk, self.by)
                counts.add_rows(arrays["level"], names, self.ranges)
                done(len(scores))
        return counts

    @staticmethod
    def merge(results: Sequence[EvidenceRows]) -> EvidenceRows:
        merged = EvidenceRows()
        for part in results:
            merged.add(part)
        return merged
