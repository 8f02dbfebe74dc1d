"""Thresholds by group: where each level of evidence begins in each group, and GROUP_THRESHOLDS."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..errors import InputError
from ..numerics import BoolArray, FloatArray
from ..posterior.groups import COUNTED, GroupPosteriors, GroupRangeColumn, Groups
from ..posterior.pooling import Bins
from ..tables.records import table_schema
from ..tables.rows import LABELED, NEGATIVE
from ..tables.writing import write_table
from .document import GroupThresholdRow
from .rules import NONE, Level
from .thresholds import Thresholds


@dataclass(frozen=True, eq=False)
class GroupThresholds:
    """The score at which each level begins in each group, the strongest of each side first."""

    groups: Groups
    levels: tuple[Level, ...]
    # (groups, levels): the first score of a level as it is calibrated; NaN if it is not reached
    begins: FloatArray
    lower_is_positive: bool

    @classmethod
    def from_posteriors(
        cls, posteriors: GroupPosteriors, thresholds: Thresholds
    ) -> GroupThresholds:
        """The thresholds of groups, as those of all rows were found.

        A group without a known row of a class has evidence for that class only where all rows do.
        """
        levels, groups = thresholds.graded, posteriors.groups
        against = np.array([level.against for level in levels])
        overall = np.array([level.lr for level in levels])

        def begins(shift: float, lr: FloatArray) -> FloatArray:
            return _begins(thresholds, posteriors.bins, against, shift, lr)

        required = _required_ratios(thresholds, groups)
        shared = begins(0.0, overall)
        own = np.array(list(map(begins, groups.shares.shift, required)))
        positives, negatives = _lacking(thresholds, groups)
        stricter = np.where(against, np.minimum(own, shared), np.maximum(own, shared))
        lacking = np.where(against, negatives[:, None], positives[:, None])
        return cls(
            groups,
            levels,
            np.where(lacking, stricter, own),
            thresholds.lower_is_positive,
        )

    @property
    def columns(self) -> dict[str, FloatArray]:
        """For GROUPS, where each level begins on the predictor's own scale."""
        sign = -1.0 if self.lower_is_positive else 1.0
        by_falling_ratio = np.argsort([-level.lr for level in self.levels], kind="stable")
        return {  # without -0
            self.levels[i].code: sign * self.begins[:, i] + 0.0 for i in by_falling_ratio
        }

    def evidence(self) -> GroupRangeColumn:
        """The column of POSTERIOR."""
        upward = np.array([not level.against for level in self.levels])
        names = np.array([NONE, *(level.name for level in self.levels)])
        return GroupRangeColumn(self.groups, self.begins, upward, names)

    def write(self, out: str) -> None:
        """Write GROUP_THRESHOLDS: the range of each level in each group, those of OTHER last."""
        groups, lower, by_code = self.groups, self.lower_is_positive, self.columns
        order, rows = groups.order, []
        points = {level.code: level.points for level in self.levels}
        for against in (False, True):
            score_to = np.full(len(order), np.inf if against == lower else -np.inf)
            codes = [level.code for level in self.levels if level.against == against]
            for code in codes:  # the strongest first
                score_from = by_code[code]
                rows.append((code, score_from, score_to))
                score_to = np.where(np.isnan(score_from), score_to, score_from)
        ranked = sorted(rows, key=lambda row: list(by_code).index(row[0]))

        def column(values: Sequence[FloatArray]) -> pa.Array:
            """Values of each level and group, by group."""
            return pa.array(np.array(values)[:, order].T.ravel(), from_pandas=True)

        ends = [np.where(np.isnan(row[1]), np.nan, row[2]) for row in ranked]
        places, shares = np.repeat(order, len(ranked)), groups.shares
        columns = {
            "group": pa.array(groups.names, pa.string()).take(pa.array(places)),
            "level": pa.array([row[0] for row in ranked] * len(order)),
            "points": pa.array([points[row[0]] for row in ranked] * len(order), pa.int64()),
            "score_from": column([row[1] for row in ranked]),
            "score_to": column(ends),
            "shift": pa.array(shares.shift[places]),
            "shrinkage": pa.array(shares.shrinkage[places]),
            **{name: pa.array(groups.rows[places, code]) for name, code in COUNTED.items()},
        }
        write_table(out, pa.RecordBatch.from_pydict(columns, table_schema(GroupThresholdRow)))


def _required_ratios(thresholds: Thresholds, groups: Groups) -> FloatArray:
    """The likelihood ratios of levels at the prior of each group, shape (groups, levels).

    NaN where the prior of a group is too near to 0 or 1 for the rule.
    """
    levels = thresholds.graded
    alphas = groups.priors(thresholds.calibration.shares.alpha)
    lr = np.full((len(alphas), len(levels)), np.nan)
    for row, alpha in zip(lr, alphas, strict=True):
        with contextlib.suppress(InputError):
            by_name = {level.name: level.lr for level in thresholds.grading.levels(float(alpha))}
            row[:] = [by_name[level.name] for level in levels]
    return lr


def _begins(
    thresholds: Thresholds, bins: Bins, against: BoolArray, shift: float, lr: FloatArray
) -> FloatArray:
    """The first score of each level at a shift; levels need these ratios, shape (levels,)."""
    (low, high), ends = thresholds.bounds.lr, thresholds.calibration.sketch.spans()
    begins, cells = np.full(len(lr), np.nan), np.arange(len(low))
    shifted = bins.moved(cells, np.full(len(cells), -shift))
    least, greatest = low[shifted], high[shifted]
    for i, is_against in enumerate(against):
        reached = np.flatnonzero(greatest <= lr[i] if is_against else least >= lr[i])
        if len(reached):
            begins[i] = ends[int(is_against)][reached[-1 if is_against else 0]]
    return begins


def _lacking(thresholds: Thresholds, groups: Groups) -> tuple[BoolArray, BoolArray]:
    """Whether groups lack known positives and known negatives that others have; (groups,)."""
    labeled, negatives = (groups.rows[:, code] for code in (LABELED, NEGATIVE))
    known = (labeled, negatives)
    if thresholds.calibration.sketch.labeled_class == "negative":
        known = (np.zeros_like(labeled), labeled)
    positives, negatives = ((rows == 0) & rows.any() for rows in known)
    return positives, negatives
