"""THRESHOLDS: the scores at which each strength of evidence begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import EstimationError
from ..notices import Notice
from ..posterior.calibration import ONE_SIDED, Bounds, Calibration, posterior_at
from ..posterior.columns import RangeColumn
from ..prior.base import Estimate
from ..prior.checks import Case, diagnose_direction
from ..prior.document import Prior
from ..scale.engine import Job, RowsDone
from ..score.scores import score_chunks
from ..score.sketch import Sketch
from ..tables.files import document
from ..tables.records import as_batch
from ..tables.rows import NEGATIVE, LabeledClass
from .apply import LevelRange, LevelRanges
from .document import (
    Classification,
    Control,
    Ends,
    LikelihoodRatios,
    Provenance,
    ThresholdRow,
    ThresholdsDocument,
    or_null,
)
from .reach import Reach, reach_of_counts
from .rules import NONE, Grading, Level


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

    def to_row(self) -> ThresholdRow:
        """The row of THRESHOLDS, whose columns are in this order."""
        reached = 5 * (None,) if self.reached is None else astuple(self.reached)
        rows = self.n_unlabeled, self.n_labeled, self.n_negatives
        values: list[Any] = [self.level.code, self.level.points, *reached, *rows]
        return ThresholdRow(*values)


@dataclass(frozen=True)
class GatherControls:
    """The step that lists the rows of SCORES whose class is known."""

    negated: bool  # their scores have the opposite sign of the predictor's
    labeled_class: LabeledClass
    ranges: LevelRanges  # of points

    def __call__(self, job: Job, done: RowsDone, threads: int) -> list[Control]:
        rows, controls = job.part, list[Control]()
        for chunk, scores in score_chunks(rows, rows.id_columns):
            own = -scores + 0.0 if self.negated else scores
            is_known = chunk.labeled | (chunk.sets == NEGATIVE)  # not rows of both tables
            known = np.flatnonzero(is_known & ~np.isnan(scores))
            ids = rows.ids(chunk).take(pa.array(known)).to_pylist()
            positive = chunk.labeled[known] & (self.labeled_class == "positive")
            classes = np.where(positive, "pathogenic", "benign").tolist()
            controls += map(Control, ids, classes, self.ranges(own[known]).tolist())
            done(len(scores))
        return controls

    @staticmethod
    def merge(results: Sequence[list[Control]]) -> list[Control]:
        return [control for part in results for control in part]


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
        rising = reversed(self.levels)  # from the strongest level against to the strongest for
        begins = [(one.level, sign * one.reached.score_from) for one in rising if one.reached]
        starts = [
            np.nextafter(score, np.inf) if level.against else score for level, score in begins
        ]
        names = [level.name for level, _ in begins]
        names.insert(sum(level.against for level, _ in begins), NONE)
        return RangeColumn(np.array(starts, np.float64), np.array(names))

    @property
    def ranges(self) -> LevelRanges:
        """The scores with each number of points, without numbers that no score has."""
        ranges = [
            LevelRange(
                _label(one.level), one.level.points, one.reached.score_from, one.reached.score_to
            )
            for one in sorted(self.points, key=_point_order)
            if one.reached is not None and one.reached.score_from != one.reached.score_to
        ]
        return LevelRanges(tuple(ranges))

    def table(self) -> pa.RecordBatch:
        """THRESHOLDS."""
        return as_batch([threshold.to_row() for threshold in self.levels], ThresholdRow)

    def to_json(
        self,
        prior: Prior,
        score_column: str | None = None,
        controls: Sequence[Control] | None = None,
        disease: str | None = None,
        research_use_only: bool = True,
    ) -> dict[str, Any]:
        """THRESHOLDS with what they were made from; null is the end of an open range.

        Parameters
        ----------
        prior
            That of the scores.
        score_column
            None if the score was learned.
        disease
            A MONDO id.
        """
        sketch, ranges = self.calibration.sketch, self.ranges.ranges
        dataset = prior.sample or score_column or "score"
        by_points = {one.points: (_loaded_ends(one),) for one in ranges}
        points = [one.level.points for one in sorted(self.points, key=_point_order)]
        reached = any(threshold.reached for threshold in self.levels)
        return document(
            ThresholdsDocument(
                prior=self.prior,
                point_ranges={str(number): by_points.get(number, ()) for number in points},
                dataset=dataset,
                scoreset_flipped=not self.lower_is_positive,  # positives usually score low there
                uncalibratable_reason=None if reached else "no level of evidence is reached",
                levels=tuple(threshold.to_row().finite() for threshold in self.levels),
                reach=LikelihoodRatios(*self.reach),
                title=f"punoise calibration of {dataset}",
                research_use_only=research_use_only,
                disease=disease,
                functional_classifications=tuple(map(_classification, ranges)),
                controls=controls,
                provenance=Provenance(
                    rule=self.grading.name,
                    source=self.grading.source(),
                    confidence=ONE_SIDED,
                    target_alpha=self.grading.target_alpha,
                    method=prior.method,
                    alpha=self.calibration.shares.alpha,
                    beta=prior.beta,
                    n_labeled=sketch.n_labeled,
                    n_unlabeled=sketch.n_unlabeled,
                    n_negatives=sketch.n_negative,
                    score_column=score_column,
                ),
            )
        )


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


def _label(level: Level) -> str:
    points = abs(level.points or 0)
    return f"{'benign' if level.against else 'pathogenic'}, {points} point{'s' * (points > 1)}"


def _loaded_ends(one: LevelRange) -> Ends:
    """The ends for a loader that leaves out the end where the level begins."""
    low, high, lower = one.ends
    outward = -np.inf if lower else np.inf
    ends = [None if np.isinf(end) else float(np.nextafter(end, outward)) for end in (low, high)]
    return ends[0], ends[1]


def _classification(one: LevelRange) -> Classification:
    """The range as MaveDB describes one."""
    low, high, lower = one.ends
    return Classification(
        label=one.level,
        functional_classification="abnormal" if (one.points or 0) > 0 else "normal",
        range=(or_null(low), or_null(high)),
        inclusive_lower_bound=lower,
        inclusive_upper_bound=not lower,
        acmg_classification={"points": one.points},
    )


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
