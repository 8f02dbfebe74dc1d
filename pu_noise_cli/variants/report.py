"""The thresholds' part of the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics import FloatArray
from ..posterior.calibration import Calibration, posterior_at
from ..prior.document import percent
from ..report.figures import ScoreAxis, curve_cells
from ..report.page import Chart, Section, as_rows, number, rounded, shortened
from ..score.sketch import Sketch
from .thresholds import Threshold, Thresholds

MAX_LOG_ODDS = 5.0  # decades of odds that are drawn on either side of even odds
EVIDENCE_TICKS = (0.00001, 0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
LABEL_LANES = 4  # above the score bar
LABEL_ROOM = 0.012  # of the width of the score bar, for each character of a label


def thresholds_section(thresholds: Thresholds, score_column: str | None, by_group: bool) -> Section:
    """The table of thresholds, their chart, and how many rows have each level.

    Parameters
    ----------
    by_group
        Whether each group has thresholds of its own, so that these count nobody.
    """
    calibration = thresholds.calibration
    sketch, title = calibration.sketch, shortened(score_column or "score")
    cells = curve_cells(sketch, ScoreAxis.from_sketch(sketch, title))
    return Section(
        "variants/thresholds.html",
        {
            "thresholds": thresholds,
            "sketch": sketch,
            "score_title": title,
            "begins": begins,
            "shade": level_shade,
            "rows": "variants" if thresholds.grading.name == "acmg" else "rows",
            "classes": [] if by_group else evidence_classes(thresholds, sketch),
        },
        [evidence_chart(thresholds, calibration, cells, title)],
    )


@dataclass(frozen=True)
class EvidenceClass:
    """The rows whose strongest evidence is of one level."""

    name: str
    unlabeled: int
    labeled: int
    negative: int
    shade: float = 0.0  # 0 for indeterminate


def evidence_classes(thresholds: Thresholds, sketch: Sketch) -> list[EvidenceClass]:
    """The rows of each class, from the strongest evidence for to the strongest against."""
    sides = {
        against: [one for one in thresholds.levels if one.level.against == against]
        for against in (False, True)
    }
    found: dict[bool, list[EvidenceClass]] = {False: [], True: []}
    rest = np.array([sketch.n_unlabeled, sketch.n_labeled, sketch.n_negative])
    for against, levels in sides.items():
        counted = np.zeros(3, np.int64)  # in stronger levels of this side
        for one in sorted(levels, key=lambda one: -abs(np.log(one.level.lr))):
            rows = np.array([one.n_unlabeled, one.n_labeled, one.n_negatives])
            own = np.maximum(rows - counted, 0)
            counted = np.maximum(rows, counted)
            shade = level_shade(one, thresholds)
            unlabeled, labeled, negative = own.tolist()
            found[against].append(
                EvidenceClass(one.level.code, unlabeled, labeled, negative, shade)
            )
        rest -= counted
    between = EvidenceClass("indeterminate", *np.maximum(rest, 0).tolist())
    return [*found[False], between, *reversed(found[True])]


# ---- The chart


def evidence_chart(
    thresholds: Thresholds, calibration: Calibration, cells: NDArray[np.intp], title: str
) -> Chart:
    """A score bar colored by level of evidence, over the posterior at the prior of the levels.

    The axis is even in the odds, which evidence multiplies; its labels are probabilities.
    """
    sign = -1.0 if thresholds.lower_is_positive else 1.0
    low, high = thresholds.bounds.at(thresholds.prior)
    posterior = posterior_at(calibration.lr, thresholds.prior)
    values = {"posterior": posterior[cells], "low": low[cells], "high": high[cells]}
    order = np.argsort(sign * calibration.sketch.scores[cells], kind="stable")
    columns = {
        "score": sign * calibration.sketch.scores[cells] + 0.0,
        **values,
        **{f"{name}_odds": _log_odds(column) for name, column in values.items()},
    }
    rows = as_rows({name: column[order] for name, column in columns.items()})
    listed = "; ".join(
        f"{shortened(one.level.code)} {begins(one, thresholds)}" for one in thresholds.levels
    )
    return Chart(
        "evidence",
        "variants/evidence",
        f"Evidence by score, at a prior of {percent(thresholds.prior)}",
        f"The posterior by score with one-sided 95% bounds, and where levels begin: {listed}.",
        rows,
        {"score_title": title, "ticks": _log_odds(np.array(EVIDENCE_TICKS)).tolist()},
        {"levels": _level_ranges(thresholds, rows[0]["score"], rows[-1]["score"])},
    )


def level_shade(threshold: Threshold, thresholds: Thresholds) -> float:
    """From -1 for the strongest evidence against to 1 for the strongest for."""
    side = [one for one in thresholds.levels if one.level.against == threshold.level.against]
    ranked = sorted(side, key=lambda one: abs(np.log(one.level.lr)))
    shade = (ranked.index(threshold) + 1) / len(ranked)
    return -shade if threshold.level.against else shade


def _level_ranges(thresholds: Thresholds, low: float, high: float) -> list[dict[str, Any]]:
    """The drawn range of each level that is reached, with a lane for its label."""
    ranges: list[dict[str, Any]] = []
    for one in thresholds.levels:
        if one.reached is None or high <= low:
            continue
        ends = np.clip([one.reached.score_from, one.reached.score_to], low, high)
        if ends[0] == ends[1]:
            continue
        text = f"{shortened(one.level.code, 24)} {begins(one, thresholds)}"
        ranges.append(
            {
                "from": rounded(float(ends.min())),
                "to": rounded(float(ends.max())),
                "level": text,
                "shade": rounded(level_shade(one, thresholds)),
                "upper": not bool(ends.max() < high),
            }
        )
    ranges.sort(key=lambda shown: shown["from"] + shown["to"])
    taken = [-np.inf] * LABEL_LANES
    for shown in ranges:
        half = LABEL_ROOM * len(shown["level"]) / 2
        middle = ((shown["from"] + shown["to"]) / 2 - low) / (high - low)
        middle = min(max(middle, half), 1 - half)
        lane = next((i for i, end in enumerate(taken) if end < middle - half), None)
        lane = int(np.argmin(taken)) if lane is None else lane
        taken[lane] = middle + half
        shown |= {"at": rounded(low + middle * (high - low)), "lane": 52 - 15 * lane}
    return ranges


def _log_odds(p: FloatArray) -> FloatArray:
    """Decimal logarithms of odds, as far as they are drawn."""
    with np.errstate(divide="ignore"):
        return (np.log10(p) - np.log10(1 - p)).clip(-MAX_LOG_ODDS, MAX_LOG_ODDS)


def begins(threshold: Threshold, thresholds: Thresholds) -> str:
    """The scores at which a level begins, or that it is not reached."""
    if threshold.reached is None:
        return "out of reach" if thresholds.is_out_of_reach(threshold.level) else "not reached"
    sign = "≤" if threshold.level.against != thresholds.lower_is_positive else "≥"
    return f"{sign} {number(threshold.reached.score_from)}"
