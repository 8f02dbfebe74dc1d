"""THRESHOLDS and GROUP_THRESHOLDS: one definition of each, by which they are written and read.

The JSON holds a score calibration as MaveDB takes it (`functional_classifications`, with flags for
the ends that belong to a range) and as ExCALIBR writes it (`point_ranges`). MaveDB's loader of the
latter leaves out the end of a range that is next to indeterminate scores, and counts the other end
in. So these ends are the next number toward the indeterminate scores, and tied scores stay in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from .. import __version__
from ..tables.files import Count, Fraction
from .rules import MAX_LEVELS, Name, Points

Ends = tuple[float | None, float | None]  # None is the end of an open range


class LevelRow(Struct, frozen=True):
    """A level and its scores, on the predictor's own scale: what `apply` reads of a table."""

    level: Name  # its code
    points: Points | None
    score_from: float | None  # has the level; None if it is not reached
    score_to: float | None  # has not; it may be infinite, and the lower of the two


def or_null(number: float) -> float | None:
    """A number for JSON, which has no infinite ones."""
    return number if math.isfinite(number) else None


class ThresholdRow(LevelRow, frozen=True):
    """A row of THRESHOLDS, as a table and in JSON."""

    lr: float | None  # at score_from, like the next two
    posterior: float | None = None
    posterior_bound: float | None = None  # the bound that decides
    n_unlabeled: Count = 0  # rows with at least that evidence, like the next two
    n_labeled: Count = 0
    n_negatives: Count = 0

    def finite(self) -> ThresholdRow:
        """The same row without infinite numbers."""
        numbers = {n: or_null(v) for n, v in asdict(self).items() if isinstance(v, float)}
        return replace(self, **numbers)


class GroupLevelRow(Struct, frozen=True, kw_only=True):
    """A level and its scores in a group."""

    group: Annotated[str, Meta(min_length=1)]
    level: Name
    points: Points | None
    score_from: float | None
    score_to: float | None


class GroupThresholdRow(GroupLevelRow, frozen=True, kw_only=True):
    """A row of GROUP_THRESHOLDS."""

    shift: float  # of the group's thresholds
    shrinkage: float  # 0 if the shift rests on the group's own rows, 1 if on other groups
    n_labeled: Count
    n_unlabeled: Count
    n_negatives: Count


class LikelihoodRatios(Struct, frozen=True):
    """The likelihood ratios that so many rows can show, whatever they score."""

    lr_least: float
    lr_greatest: float


class Classification(Struct, frozen=True, kw_only=True):
    """The scores with some points, as MaveDB describes them."""

    label: str
    functional_classification: Literal["abnormal", "normal"]
    range: Ends
    inclusive_lower_bound: bool
    inclusive_upper_bound: bool
    acmg_classification: dict[str, int | None]


class Control(Struct, frozen=True):
    """A row of known class, and the label of the classification that it lands in."""

    variant: str
    clinical_status: Literal["pathogenic", "benign"]
    range: str


class Provenance(Struct, frozen=True, kw_only=True):
    """What thresholds were made from."""

    rule: str | None = None
    source: str | None = None
    confidence: Fraction | None = None
    target_alpha: Fraction | None = None
    method: str | None = None
    alpha: Fraction | None = None
    beta: Fraction | None = None
    n_labeled: Count | None = None
    n_unlabeled: Count | None = None
    n_negatives: Count | None = None
    score_column: str | None = None  # None if the score was learned


class ThresholdsDocument(Struct, frozen=True, kw_only=True):
    """thresholds.json; what `apply` does not need has defaults, as other versions may lack it."""

    schema: Literal["punoise.thresholds/1"] = "punoise.thresholds/1"
    punoise_version: str = __version__
    prior: Fraction | None = None
    point_ranges: dict[str, Sequence[Ends]] = {}
    dataset: str | None = None
    scoreset_flipped: bool  # False if low scores are positive
    uncalibratable_reason: str | None = None
    levels: Annotated[tuple[ThresholdRow, ...], Meta(max_length=MAX_LEVELS)]
    reach: LikelihoodRatios | None = None
    title: str | None = None
    research_use_only: bool = True
    disease: str | None = None
    functional_classifications: tuple[Classification, ...] = ()
    controls: Sequence[Control] | None = None
    provenance: Provenance = Provenance()

    def rows(self) -> list[ThresholdRow]:
        """The rows of `levels` with the infinite end of the strongest level of each side."""
        return [row if row.score_to is not None else self._unbounded(row) for row in self.levels]

    def _unbounded(self, row: ThresholdRow) -> ThresholdRow:
        is_for = row.lr is None or row.lr > 1
        return replace(row, score_to=math.inf if is_for == self.scoreset_flipped else -math.inf)
