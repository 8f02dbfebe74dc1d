"""THRESHOLDS: the scores at which each strength of evidence begins, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from .. import __version__
from ..posterior.calibration import ONE_SIDED, Bounds, Calibration, posterior_at
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

    score_from: float
    score_to: float  # where the next stronger level begins; infinite if there is none
    lr: float  # at score_from, like the next two
    posterior: float
    posterior_bound: float  # the bound that decides


@dataclass(frozen=True)
class Threshold:
    """A level of evidence, where it begins, and the rows with at least that evidence."""

    level: Level
    reached: Reached | None
    n_unlabeled: int = 0
    n_labeled: int = 0
    n_negatives: int = 0

    def to_row(self) -> dict[str, Any]:
        """The row of THRESHOLDS."""
        level = {"level": self.level.code, "points": self.level.points}
        values = dict.fromkeys(TABLE.names[2:7]) if self.reached is None else vars(self.reached)
        rows = {name: getattr(self, name) for name in TABLE.names[7:]}
        return {**level, **values, **rows}


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The thresholds of a score, by level and, if the rule has points, by their number."""

    calibration: Calibration
    bounds: Bounds
    grading: Grading
    prior: float  # the fraction of positives in the population that the levels are for
    graded: tuple[Level, ...]  # the strongest of each side first
    levels: tuple[Threshold, ...]  # from the strongest evidence for to the strongest against
    points: tuple[Threshold, ...]
    lower_is_positive: bool = False  # the scores are negated then, but not these thresholds

    @classmethod
    def from_calibration(
        cls,
        calibration: Calibration,
        bounds: Bounds,
        grading: Grading,
        lower_is_positive: bool = False,
    ) -> Thresholds:
        """The thresholds of calibrated scores."""
        alpha, sign = calibration.shares.alpha, -1.0 if lower_is_positive else 1.0
        prior, graded = grading.prior(alpha), grading.levels(alpha)
        levels, points = (
            tuple(_thresholds(calibration, bounds, some, prior, sign))
            for some in (graded, grading.points(alpha))
        )
        by_strength = tuple(graded)
        return cls(
            calibration, bounds, grading, prior, by_strength, levels, points, lower_is_positive
        )

    def write(self, out: str, dataset: str, method: str, beta: float) -> None:
        """Write JSON or a table, by the name of the file; see `to_json`."""
        if is_json(out):
            write_json(out, self.to_json(dataset, method, beta))
        else:
            rows = [threshold.to_row() for threshold in self.levels]
            write_table(out, pa.RecordBatch.from_pylist(rows, TABLE))

    def to_json(self, dataset: str, method: str, beta: float) -> dict[str, Any]:
        """The document, in the format of ExCALIBR, which MaveDB reads.

        Parameters
        ----------
        dataset : str
        method : str
            How α and β were obtained.
        beta : float
            The fraction of labels that are correct.

        Returns
        -------
        document : dict
            In `point_ranges`, null is the end of an open range.
        """
        sketch = self.calibration.sketch
        reached = any(threshold.reached for threshold in self.levels)
        return {
            "schema": SCHEMA,
            "punoise_version": __version__,
            "prior": self.prior,
            "point_ranges": {
                str(one.level.points): _ranges(one.reached)
                for one in sorted(self.points, key=_point_order)
            },
            "dataset": dataset,
            "scoreset_flipped": not self.lower_is_positive,  # positives usually score low there
            "uncalibratable_reason": None if reached else "no level of evidence is reached",
            "levels": [_finite(threshold.to_row()) for threshold in self.levels],
            "provenance": {
                "rule": self.grading.name,
                "source": self.grading.source(),
                "confidence": ONE_SIDED,
                "target_alpha": self.grading.target_alpha,
                "method": method,
                "alpha": self.calibration.shares.alpha,
                "beta": beta,
                "n_labeled": sketch.n_labeled,
                "n_unlabeled": sketch.n_unlabeled,
                "n_negatives": sketch.n_negative,
            },
        }


def _thresholds(
    calibration: Calibration, bounds: Bounds, levels: Sequence[Level], prior: float, sign: float
) -> list[Threshold]:
    """The threshold of each level, from the highest likelihood ratio to the lowest."""
    sketch = calibration.sketch
    low, high = bounds.lr
    ends = sketch.spans()
    stronger = {False: sign * np.inf, True: -sign * np.inf}  # where the next stronger one begins
    by_name: dict[str, Threshold] = {}
    for level in sorted(levels, key=lambda level: -abs(np.log(level.lr))):
        reaching = np.flatnonzero(high <= level.lr if level.against else low >= level.lr)
        if not len(reaching):
            by_name[level.name] = Threshold(level, None)
            continue
        cell = int(reaching[-1 if level.against else 0])
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
        by_name[level.name] = Threshold(level, reached, *counts)
    return [by_name[level.name] for level in sorted(levels, key=lambda level: -level.lr)]


def _point_order(threshold: Threshold) -> tuple[bool, int]:
    """The order of ranges: 1, 2, ... and then -1, -2, ..."""
    points = threshold.level.points or 0
    return points < 0, abs(points)


def _ranges(reached: Reached | None) -> list[list[float | None]]:
    """The range of scores that have a level and not a stronger one, if there is one."""
    if reached is None or reached.score_from == reached.score_to:
        return []
    ends = sorted([reached.score_from, reached.score_to])
    return [[end if np.isfinite(end) else None for end in ends]]


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """The same row with null for infinite numbers, which JSON lacks."""
    infinite = [name for name, v in row.items() if isinstance(v, float) and not np.isfinite(v)]
    return row | dict.fromkeys(infinite)
