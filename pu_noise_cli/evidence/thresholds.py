"""THRESHOLDS: from which score on evidence has which strength, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from .. import __version__
from ..posterior.bounds import ONE_SIDED, Bounds
from ..posterior.calibration import Calibration, posterior_at
from ..tables.writing import is_json, write_json, write_table
from .strengths import Grading, Level

SCHEMA = "punoise.thresholds/1"
TABLE = pa.schema(
    [
        ("level", pa.string()),
        ("points", pa.int64()),
        *((name, pa.float64()) for name in ("score_from", "score_to")),
        *((name, pa.float64()) for name in ("lr", "posterior", "posterior_bound")),
        *((name, pa.int64()) for name in ("n_unlabeled", "n_labeled", "n_negatives")),
    ]
)


@dataclass(frozen=True)
class Reached:
    """The scores at which evidence of a level begins, on the predictor's own scale."""

    score_from: float  # the first score of the level ...
    score_to: float  # ... and of the next stronger one; infinite where there is none
    lr: float  # at score_from, as are ...
    posterior: float
    posterior_bound: float  # ... the posterior and the bound on it that decides


@dataclass(frozen=True)
class Threshold:
    """A level of evidence, where it begins, and how many rows have at least that."""

    level: Level
    reached: Reached | None
    n_unlabeled: int = 0
    n_labeled: int = 0
    n_negatives: int = 0

    def to_row(self) -> dict[str, Any]:
        """The row of THRESHOLDS."""
        found = {"level": self.level.code, "points": self.level.points}
        values = dict.fromkeys(TABLE.names[2:7]) if self.reached is None else vars(self.reached)
        rows = {name: getattr(self, name) for name in TABLE.names[7:]}
        return {**found, **values, **rows}


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Those of a score: by level and, where the rule has points, by their number."""

    calibration: Calibration
    bounds: Bounds
    grading: Grading
    levels: tuple[Threshold, ...]  # from the strongest evidence for to the strongest against
    points: tuple[Threshold, ...]
    lower_is_positive: bool = False  # and then the scores have the opposite sign, but not these

    @classmethod
    def of(
        cls,
        calibration: Calibration,
        bounds: Bounds,
        grading: Grading,
        lower_is_positive: bool = False,
    ) -> Thresholds:
        """The thresholds of calibrated scores."""
        alpha, sign = calibration.shares.alpha, -1.0 if lower_is_positive else 1.0

        def found(levels: Sequence[Level]) -> tuple[Threshold, ...]:
            ranked = sorted(levels, key=lambda level: -level.lr)
            return tuple(_thresholds(calibration, bounds, ranked, grading.prior(alpha), sign))

        levels, points = found(grading.levels(alpha)), found(grading.points(alpha))
        return cls(calibration, bounds, grading, levels, points, lower_is_positive)

    @property
    def graded(self) -> list[Level]:
        """The levels, the strongest of each side first."""
        return self.grading.levels(self.calibration.shares.alpha)

    @property
    def prior(self) -> float:
        """The share of positives in the population that the levels are for."""
        return self.grading.prior(self.calibration.shares.alpha)

    def write(self, out: str, dataset: str, method: str) -> None:
        """As JSON or as a table, by the name of the file."""
        if is_json(out):
            write_json(out, self.to_json(dataset, method))
        else:
            rows = [threshold.to_row() for threshold in self.levels]
            write_table(out, pa.RecordBatch.from_pylist(rows, TABLE))

    def to_json(self, dataset: str, method: str) -> dict[str, Any]:
        """The document, in the shape in which ExCALIBR writes its own and MaveDB reads them.

        `method` is how α and β were come by. In `point_ranges`, null is where a range has no end.
        """
        sketch, shares = self.calibration.sketch, self.calibration.shares
        reached = any(threshold.reached for threshold in self.levels)
        return {
            "schema": SCHEMA,
            "punoise_version": __version__,
            "prior": self.prior,
            "point_ranges": {
                str(one.level.points): _ranges(one.reached)
                for one in sorted(self.points, key=lambda one: _listed(one.level.points or 0))
            },
            "dataset": dataset,
            "scoreset_flipped": not self.lower_is_positive,  # low scores being the usual positives
            "uncalibratable_reason": None if reached else "no level of evidence is reached",
            "levels": [_finite(threshold.to_row()) for threshold in self.levels],
            "provenance": {
                "rule": self.grading.name,
                "source": self.grading.source,
                "confidence": ONE_SIDED,
                "target_alpha": self.grading.target_alpha,
                "method": method,
                "alpha": shares.alpha,
                "beta": shares.beta,
                "n_labeled": sketch.n_labeled,
                "n_unlabeled": sketch.n_unlabeled,
                "n_negatives": sketch.n_negative,
            },
        }


def _thresholds(
    calibration: Calibration, bounds: Bounds, ranked: Sequence[Level], prior: float, sign: float
) -> list[Threshold]:
    """The threshold of each level, given from the highest likelihood ratio to the lowest."""
    sketch = calibration.sketch
    low, high = bounds.lr
    ends = sketch.spans()
    stronger = {False: sign * np.inf, True: -sign * np.inf}  # where the next stronger one begins
    found: dict[str, Threshold] = {}
    # each side from its strongest level on
    for level in [*ranked[: _turn(ranked)], *reversed(ranked[_turn(ranked) :])]:
        meets = high <= level.lr if level.against else low >= level.lr
        if not meets.any():
            found[level.name] = Threshold(level, None)
            continue
        cell = int(np.flatnonzero(meets)[-1 if level.against else 0])
        bound = (high if level.against else low)[cell : cell + 1]
        lr = calibration.lr[cell : cell + 1]
        begins = sign * float(ends[level.against][cell]) + 0.0  # no -0
        reached = Reached(
            begins,
            stronger[level.against],
            float(lr[0]),
            float(posterior_at(lr, prior)[0]),
            float(posterior_at(bound, prior)[0]),
        )
        stronger[level.against] = begins
        rows = slice(None, cell + 1) if level.against else slice(cell, None)
        counts = sketch.counts[rows].sum(0).tolist()  # in the order of the sets
        found[level.name] = Threshold(level, reached, *counts)
    return [found[level.name] for level in ranked]


def _turn(ranked: Sequence[Level]) -> int:
    """How many of the levels are evidence for."""
    return sum(not level.against for level in ranked)


def _listed(points: int) -> tuple[bool, int]:
    """The order of ranges: 1, 2, ... and then -1, -2, ..."""
    return points < 0, abs(points)


def _ranges(reached: Reached | None) -> list[list[float | None]]:
    """The one range of scores that have a level and no stronger one, or none."""
    if reached is None or reached.score_from == reached.score_to:
        return []
    ends = sorted([reached.score_from, reached.score_to])
    return [[end if np.isfinite(end) else None for end in ends]]


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """The same, null where a number is infinite, for which JSON has no word."""
    infinite = [name for name, v in row.items() if isinstance(v, float) and not np.isfinite(v)]
    return row | dict.fromkeys(infinite)
