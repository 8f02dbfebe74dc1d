"""THRESHOLDS: the scores at which each strength of evidence begins, as a table and as JSON.

The JSON holds a score calibration as MaveDB takes it (`functional_classifications`, with flags for
the ends that belong to a range) and as ExCALIBR writes it (`point_ranges`). MaveDB's loader of the
latter leaves out the end of a range that is next to indeterminate scores, and counts the other end
in. So these ends are the next number toward the indeterminate scores, and tied scores stay in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from .. import __version__
from ..errors import EstimationError
from ..notices import Notice
from ..posterior.calibration import ONE_SIDED, Bounds, Calibration, posterior_at
from ..posterior.columns import RangeColumn
from ..prior.base import Estimate
from ..prior.checks import Case, diagnose_direction
from ..scale.engine import Job, RowsDone
from ..score.scores import score_chunks
from ..score.sketch import Sketch
from ..tables.rows import NEGATIVE, LabeledClass
from ..tables.writing import is_json, write_json, write_table
from .apply import LevelRange, LevelRanges
from .reach import Reach, reach_of_counts
from .rules import NONE, Grading, Level

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


@dataclass(frozen=True)
class Control:
    """A row of known class."""

    variant: str
    is_positive: bool
    score: float  # on the predictor's own scale


@dataclass(frozen=True)
class GatherControls:
    """The step that lists the rows of SCORES whose class is known."""

    negated: bool  # their scores have the opposite sign of the predictor's
    labeled_class: LabeledClass

    def __call__(self, job: Job, done: RowsDone, threads: int) -> list[Control]:
        rows, controls = job.part, list[Control]()
        labeled_positive = self.labeled_class == "positive"
        for chunk, scores in score_chunks(rows, rows.id_columns):
            own = -scores + 0.0 if self.negated else scores
            is_known = chunk.labeled | (chunk.sets == NEGATIVE)  # not rows of both tables
            known = np.flatnonzero(is_known & ~np.isnan(scores))
            ids = rows.ids(chunk).take(pa.array(known)).to_pylist()
            positive = chunk.labeled[known] & labeled_positive
            controls += map(Control, ids, positive.tolist(), own[known].tolist())
            done(len(scores))
        return controls

    @staticmethod
    def merge(results: Sequence[list[Control]]) -> list[Control]:
        return [control for part in results for control in part]


@dataclass(frozen=True)
class Publication:
    """What a document of thresholds says about them beyond the numbers."""

    dataset: str
    method: str  # how α and β were obtained
    beta: float  # the fraction of labels that are correct
    disease: str | None = None  # a MONDO id
    research_use_only: bool = True
    controls: Sequence[Control] | None = None
    score_column: str | None = None  # none if the score was learned


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The thresholds of a score, by level and, if the rule has points, by their number."""

    calibration: Calibration
    bounds: Bounds  # as far as counts show them by themselves
    grading: Grading
    prior: float  # the fraction of positives in the population that the levels are for
    graded: tuple[Level, ...]  # the strongest of each side first
    levels: tuple[Threshold, ...]  # from the strongest evidence for to the strongest against
    points: tuple[Threshold, ...]
    reach: tuple[float, float]  # the ratios that so many rows can show, whatever they score
    notices: tuple[Notice, ...] = ()
    lower_is_positive: bool = False  # the scores are negated then, but not these thresholds

    @classmethod
    def from_calibration(
        cls,
        calibration: Calibration,
        bounds: Bounds,
        grading: Grading,
        lower_is_positive: bool = False,
    ) -> Thresholds:
        """The thresholds of calibrated scores; an error if the scores run the wrong way."""
        _check_direction(calibration)
        alpha, sign = calibration.shares.alpha, -1.0 if lower_is_positive else 1.0
        prior, graded = grading.prior(alpha), grading.levels(alpha)
        shown = Reach.from_calibration(calibration).limit(bounds, calibration)
        levels, points = (
            tuple(_thresholds(calibration, shown, some, prior, sign))
            for some in (graded, grading.points(alpha))
        )
        return cls(
            calibration,
            shown,
            grading,
            prior,
            tuple(graded),
            levels,
            points,
            reach_of_counts(calibration),
            _few_controls(calibration, bounds, graded, levels),
            lower_is_positive,
        )

    def is_out_of_reach(self, level: Level) -> bool:
        """Whether so many rows cannot show the level, whatever their scores."""
        least, greatest = self.reach
        return level.lr < least if level.against else level.lr > greatest

    def evidence(self) -> RangeColumn:
        """The column of POSTERIOR: the level of each row by its score as it is calibrated."""
        sign = -1.0 if self.lower_is_positive else 1.0
        reached = [(one.level, sign * one.reached.score_from) for one in self.levels if one.reached]
        against = [(level.name, begins) for level, begins in reached if level.against]
        favoring = [(level.name, begins) for level, begins in reached if not level.against]
        starts = [np.nextafter(begins, np.inf) for _, begins in reversed(against)]
        starts += [begins for _, begins in reversed(favoring)]
        names = [*(name for name, _ in reversed(against)), NONE]
        names += [name for name, _ in reversed(favoring)]
        return RangeColumn(np.array(starts, np.float64), np.array(names))

    def write(self, out: str, about: Publication) -> None:
        """Write JSON or a table, by the name of the file; see `to_json`."""
        if is_json(out):
            write_json(out, self.to_json(about))
        else:
            rows = [threshold.to_row() for threshold in self.levels]
            write_table(out, pa.RecordBatch.from_pylist(rows, TABLE))

    def to_json(self, about: Publication) -> dict[str, Any]:
        """The document; null is the end of an open range."""
        sketch = self.calibration.sketch
        reached = any(threshold.reached for threshold in self.levels)
        ranges = {
            threshold.level.points: LevelRange(
                _label(threshold.level), threshold.level.points, *_ends(threshold.reached)
            )
            for threshold in sorted(self.points, key=_point_order)
            if threshold.reached is not None
            and threshold.reached.score_from != threshold.reached.score_to
        }
        return {
            "schema": SCHEMA,
            "punoise_version": __version__,
            "prior": self.prior,
            "point_ranges": {
                str(one.level.points): _point_ranges(ranges.get(one.level.points))
                for one in sorted(self.points, key=_point_order)
            },
            "dataset": about.dataset,
            "scoreset_flipped": not self.lower_is_positive,  # positives usually score low there
            "uncalibratable_reason": None if reached else "no level of evidence is reached",
            "levels": [_finite(threshold.to_row()) for threshold in self.levels],
            "reach": {"lr_least": self.reach[0], "lr_greatest": self.reach[1]},
            "title": f"punoise calibration of {about.dataset}",
            "research_use_only": about.research_use_only,
            "disease": about.disease,
            "functional_classifications": [_classification(one) for one in ranges.values()],
            "controls": _controls(about.controls, tuple(ranges.values())),
            "provenance": {
                "rule": self.grading.name,
                "source": self.grading.source(),
                "confidence": ONE_SIDED,
                "target_alpha": self.grading.target_alpha,
                "method": about.method,
                "alpha": self.calibration.shares.alpha,
                "beta": about.beta,
                "n_labeled": sketch.n_labeled,
                "n_unlabeled": sketch.n_unlabeled,
                "n_negatives": sketch.n_negative,
                "score_column": about.score_column,
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


def _ends(reached: Reached) -> tuple[float, float]:
    return reached.score_from, reached.score_to


def _label(level: Level) -> str:
    points = abs(level.points or 0)
    return f"{'benign' if level.against else 'pathogenic'}, {points} point{'s' * (points > 1)}"


def _point_ranges(one: LevelRange | None) -> list[list[float | None]]:
    """The range as a loader reads it that leaves out the end where the level begins."""
    if one is None:
        return []
    low, high, lower = one.ends
    ends = [float(np.nextafter(end, -np.inf if lower else np.inf)) for end in (low, high)]
    return [
        [None if np.isinf(end) else shifted for end, shifted in zip((low, high), ends, strict=True)]
    ]


def _classification(one: LevelRange) -> dict[str, Any]:
    """The range as MaveDB describes one."""
    low, high, lower = one.ends
    return {
        "label": one.level,
        "functional_classification": "abnormal" if (one.points or 0) > 0 else "normal",
        "range": [end if np.isfinite(end) else None for end in (low, high)],
        "inclusive_lower_bound": lower,
        "inclusive_upper_bound": not lower,
        "acmg_classification": {"points": one.points},
    }


def _controls(
    controls: Sequence[Control] | None, ranges: tuple[LevelRange, ...]
) -> list[dict[str, Any]] | None:
    """The rows of known class, each with the range that it lands in."""
    if controls is None:
        return None
    labels = LevelRanges(ranges)(np.array([control.score for control in controls], np.float64))
    return [
        {
            "variant": control.variant,
            "clinical_status": "pathogenic" if control.is_positive else "benign",
            "range": str(label),
        }
        for control, label in zip(controls, labels, strict=True)
    ]


def _check_direction(calibration: Calibration) -> None:
    """Stop at scores that run the wrong way: levels of evidence would mean the opposite."""
    labeled_on_top = calibration.mirrored or calibration
    shares, sketch = labeled_on_top.shares, calibration.sketch
    case = Case(labeled_on_top.sketch, Estimate(shares.alpha, shares.beta), scores=sketch)
    for notice in diagnose_direction(case):
        raise EstimationError(f"no levels of evidence: {notice.message}")


def _few_controls(
    calibration: Calibration, bounds: Bounds, graded: Sequence[Level], levels: Sequence[Threshold]
) -> tuple[Notice, ...]:
    """A warning if levels are not called only because there are too few rows to show them."""
    low, high = bounds.lr
    called = {one.level.code for one in levels if one.reached is not None}
    lost = [
        level
        for level in graded
        if level.code not in called
        and (high[0] <= level.lr if level.against else low[-1] >= level.lr)
    ]
    messages = []
    for against in (False, True):
        if codes := [level.code for level in lost if level.against == against]:
            rows = rows_that_limit(calibration.sketch, against)
            messages.append(f"{rows} are too few to show {' or '.join(codes)}")
    return (Notice("few-controls", "; ".join(messages)),) if messages else ()


def rows_that_limit(sketch: Sketch, against: bool) -> str:
    """The rows that limit evidence against or for a row being positive."""
    if against == (sketch.labeled_class == "positive"):
        return f"{sketch.n_labeled} labeled rows"
    if sketch.n_negative:
        return f"{sketch.n_negative} known negatives"
    return f"{sketch.n_unlabeled} unlabeled rows"


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """The same row with null for infinite numbers, which JSON lacks."""
    infinite = [name for name, v in row.items() if isinstance(v, float) and not np.isfinite(v)]
    return row | dict.fromkeys(infinite)
