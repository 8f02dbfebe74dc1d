"""Evidence by score: the local posterior with its bounds, and where each level begins."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import numpy as np

from ..calibration import posterior_at
from ..sketch import FloatArray
from ..thresholds import Threshold, Thresholds
from .aggregates import curve_cells
from .chart import (
    TALL,
    Chart,
    Palette,
    Row,
    Spec,
    as_rows,
    channel,
    nearest_to,
    shown_on_hover,
    tooltips,
    zooming,
)
from .content import ReportContent
from .frame import chart_grid, section, table
from .text import count, number, percent, shortened

COLUMNS = {
    "score": "score",
    "posterior": "posterior",
    "low": "lower bound (95 %)",
    "high": "upper bound (95 %)",
}
STEEPEST = 5.0  # decades of odds that are drawn on either side of even ones
# the axis is even in the odds, for evidence multiplies them; its labels are probabilities
AS_SHARE = "format(1 / (1 + pow(10, -datum.value)), '.4~p')"
TICKS = (0.00001, 0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)


def evidence_charts(content: ReportContent) -> list[Chart]:
    """The chart of evidence by score, where levels were asked for."""
    found = content.thresholds
    if found is None:
        return []
    cells = curve_cells(content.sketch)
    sign = -1.0 if found.lower_is_positive else 1.0
    low, high = found.bounds.posterior(found.prior)
    posterior = posterior_at(content.calibration.lr, found.prior)
    values = {"posterior": posterior[cells], "low": low[cells], "high": high[cells]}
    rows = as_rows(
        score=sign * content.sketch.scores[cells] + 0.0,
        **values,
        **{f"{name}_odds": _log_odds(column) for name, column in values.items()},
    )
    return [
        Chart(
            name="evidence",
            title=f"Evidence by score, at a prior of {percent(found.prior)}",
            alt=_in_words(found),
            rows=sorted(rows, key=lambda row: float(row["score"])),
            columns=COLUMNS,
            draw=_draw(content, found),
            height=TALL,
        )
    ]


def _log_odds(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return (np.log10(p) - np.log10(1 - p)).clip(-STEEPEST, STEEPEST)


def _begins(found: Thresholds, threshold: Threshold) -> str:
    """From where on a score has a level."""
    if threshold.reached is None:
        return "not reached"
    sign = "≤" if threshold.level.against != found.lower_is_positive else "≥"
    return f"{sign} {number(threshold.reached.score_from)}"


def _in_words(found: Thresholds) -> str:
    said = "; ".join(f"{one.level.code} {_begins(found, one)}" for one in found.levels)
    return f"The posterior by score with one-sided 95 % bounds, and where levels begin: {said}."


def _draw(content: ReportContent, found: Thresholds) -> Callable[[Palette], Spec]:
    title = "score" if content.provenance is None else content.provenance.score_column or "score"
    x = channel("score", shortened(title), scale={"zero": False, "nice": False})
    x["axis"] = {"grid": False, "format": "~g"}
    axis = {"labelExpr": AS_SHARE, "values": _log_odds(np.array(TICKS)).tolist()}
    said = "probability of being positive"

    def y(name: str) -> Spec:
        return channel(f"{name}_odds", said, axis=axis, scale={"zero": False})

    band = {"x": x, "y": y("low"), "y2": {"field": "high_odds"}}
    formats = {name: ".4~g" if name == "score" else ".3~p" for name in COLUMNS}

    def draw(palette: Palette) -> Spec:
        pointer = {
            "params": [nearest_to("score")],
            "mark": {"type": "rule", "strokeWidth": 1},
            "encoding": {
                "x": x,
                "color": {"value": palette.ink},
                "opacity": shown_on_hover(0.6),
                "tooltip": tooltips(COLUMNS, formats),
            },
        }
        return {
            "layer": [
                {
                    "mark": {"type": "area", "color": palette.positive, "opacity": 0.22},
                    "encoding": band,
                },
                {
                    "params": [zooming("x")],
                    "mark": {"type": "line", "strokeWidth": 2.2},
                    "encoding": {"x": x, "y": y("posterior"), "color": {"value": palette.positive}},
                },
                *_marks(found, x, palette),
                pointer,
            ]
        }

    return draw


def _marks(found: Thresholds, x: Spec, palette: Palette) -> list[Spec]:
    """A line where each level begins, with its name."""
    begins: list[Row] = [
        {"score": one.reached.score_from, "level": one.level.code, "against": one.level.against}
        for one in found.levels
        if one.reached is not None
    ]
    color = {
        "condition": {"test": "datum.against", "value": palette.faint},
        "value": palette.labeled,
    }
    upright = {"angle": 270, "align": "right", "baseline": "bottom", "dx": -4, "dy": -3}
    return [
        {
            "data": {"values": begins},
            "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5},
            "encoding": {"x": x, "color": color},
        },
        {
            "data": {"values": begins},
            "mark": {"type": "text", "fontSize": 11, **upright},
            "encoding": {"x": x, "y": {"value": 0}, "text": {"field": "level"}, "color": color},
        },
    ]


def evidence_section(content: ReportContent, charts: list[Chart]) -> str:
    """The section on evidence, empty where none was asked for."""
    found = content.thresholds
    if found is None:
        return ""
    has_negatives = found.calibration.sketch.n_negative > 0
    rows = []
    for one in found.levels:
        reached = one.reached
        rows.append(
            [
                escape(shortened(one.level.code)),
                "–" if one.level.points is None else f"{one.level.points:+d}",
                _begins(found, one),
                number(one.level.lr, 3),
                "–" if reached is None else number(reached.lr, 3),
                "–" if reached is None else number(reached.posterior, 3),
                "–" if reached is None else number(reached.posterior_bound, 3),
                count(one.n_unlabeled),
                count(one.n_labeled),
                *([count(one.n_negatives)] if has_negatives else []),
            ]
        )
    text = (
        "<p>A level is reached from the score on at which the one-sided 95&nbsp;% bound on the "
        "likelihood ratio meets the level's. Posteriors are for a population with "
        f"{percent(found.prior)} positives. Counted are all rows with at least that evidence.</p>"
    )
    head = [
        *("level", "points", "score", "likelihood ratio needed", "likelihood ratio there"),
        *("posterior there", "its bound", "unlabeled rows", "labeled rows"),
        *(["known negatives"] if has_negatives else []),
    ]
    return section(
        "evidence", "Evidence", text, table("Thresholds", head, rows), chart_grid(charts)
    )
