"""The charts of posteriors: their calibration, by score, and how many rows have which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from .aggregates import (
    POSTERIOR_BINS,
    PosteriorCurve,
    curve_cells,
    posterior_counts,
    reliability,
)
from .chart import (
    MIDDLE,
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
from .text import percent, rounded


def population(curve: PosteriorCurve) -> str:
    """The population that posteriors are for, to follow a noun; nothing where it is the usual."""
    if curve.other_alpha is None:
        return ""
    return f" in a population with {percent(curve.other_alpha)} positives"


# Calibration

RELIABILITY_COLUMNS = {
    "predicted": "predicted labeled share",
    "observed": "observed labeled share",
    "low": "from",
    "high": "to",
    "rows": "rows",
}


def calibration_chart(content: ReportContent) -> Chart:
    """The labeled share that the calibration predicts against the one that is observed."""
    groups = reliability(content.calibration)
    rows = as_rows(**asdict(groups))
    top = rounded(float(max(groups.high.max(), groups.predicted.max())))
    outside = int(((groups.predicted < groups.low) | (groups.predicted > groups.high)).sum())
    against, predicted = "", "predicted labeled share (tau)"
    if not content.sketch.n_unlabeled:
        against, predicted = ", against known negatives,", "predicted labeled share"
    return Chart(
        name="calibration",
        title=f"Calibration: predicted and observed share of labeled rows{against.rstrip(',')}",
        alt=f"{len(rows)} groups of rows by score; in {len(rows) - outside} of them the predicted "
        f"share of labeled rows{against} lies within the 95 % interval of the observed share.",
        rows=rows,
        columns=RELIABILITY_COLUMNS,
        draw=_draw_calibration(top, predicted),
        height=MIDDLE,
    )


def _draw_calibration(top: float, x_title: str) -> Callable[[Palette], Spec]:
    shares = dict.fromkeys(("predicted", "observed", "low", "high"), ".2%")
    axis = {"format": "~%", "tickCount": 5}
    x = channel("predicted", x_title, axis=axis)
    y = channel("observed", "observed labeled share", axis=axis)

    def draw(palette: Palette) -> Spec:
        color = {"value": palette.labeled}
        return {
            "layer": [
                {
                    "data": {"values": [{"predicted": v, "observed": v} for v in (0, top)]},
                    "mark": {"type": "line", "strokeDash": [3, 4], "strokeWidth": 1},
                    "encoding": {"x": x, "y": y, "color": {"value": palette.faint}},
                },
                {
                    "params": [zooming("x", "y")],
                    "mark": {"type": "rule", "strokeWidth": 1.5},
                    "encoding": {
                        "x": x,
                        "y": channel("low", "observed labeled share"),
                        "y2": {"field": "high"},
                        "color": color,
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                    "encoding": {"x": x, "y": y, "color": color},
                },
                {
                    "params": [nearest_to("predicted")],
                    "mark": {"type": "point", "filled": True, "size": 90},
                    "encoding": {
                        "x": x,
                        "y": y,
                        "color": {"value": palette.ink},
                        "opacity": shown_on_hover(),
                        "tooltip": tooltips(RELIABILITY_COLUMNS, shares | {"rows": ",.0f"}),
                    },
                },
            ]
        }

    return draw


# Posterior by score


def posterior_by_score(content: ReportContent) -> Chart:
    """The probability of being positive by score, of an unlabeled and of a labeled row."""
    curve, cells = content.by_score, curve_cells(content.sketch)
    values = {
        "score": content.sketch.scores[cells],
        "posterior": curve.posterior[cells],
        "posterior_labeled": content.calibration.posterior_labeled[cells],
        "fdr": curve.fdr[cells],
    }
    columns = {
        "score": "score",
        "posterior": "posterior, unlabeled row",
        "posterior_labeled": "posterior, labeled row",
        "fdr": "FDR of calling from here up",
    }
    if curve.other_alpha is not None:
        columns["posterior"] = "posterior in that population"
    if curve.bounds is not None:
        low, high = curve.bounds
        values |= {"low": low[cells], "high": high[cells]}
        columns |= {"low": "lower bound (95 %)", "high": "upper bound (95 %)"}
    rows = as_rows(**values)
    return Chart(
        name="posterior-by-score",
        title=f"Posterior by score{population(curve)}",
        alt=_by_score_in_words(rows, curve),
        rows=rows,
        columns=columns,
        draw=_draw_by_score(content, columns),
        height=MIDDLE,
    )


def _by_score_in_words(rows: list[Row], curve: PosteriorCurve) -> str:
    half = next((row["score"] for row in rows if row["posterior"] >= 0.5), None)
    reached = "never reaches one half"
    if half is not None:
        reached = f"is at least one half from a score of {half:.3g} up"
    band = "" if curve.bounds is None else " A band shows one-sided 95 % bounds on the former."
    first = "a row" if curve.other_alpha is not None else "an unlabeled row"
    return (
        f"Probability by score that {first}{population(curve)} is positive, and that a labeled row "
        f"is. The former {reached}.{band}"
    )


def _draw_by_score(content: ReportContent, columns: dict[str, str]) -> Callable[[Palette], Spec]:
    curve = content.by_score
    names = {"posterior": "an unlabeled row", "posterior_labeled": "a labeled row"}
    if curve.other_alpha is not None:
        names["posterior"] = f"a row{population(curve)}"
    x = channel("score", content.score_title, scale={"zero": False, "nice": False})
    x["axis"] = {"grid": False, "format": "~g"}
    y: Spec = {"axis": {"format": "~%", "tickCount": 5}, "scale": {"domain": [0, 1]}}
    title = "probability of being positive"
    formats = {name: ".4~g" if name == "score" else ".1%" for name in columns}

    def draw(palette: Palette) -> Spec:
        scale = {"domain": list(names.values()), "range": [palette.positive, palette.labeled]}
        band = {
            "mark": {"type": "area", "color": palette.positive, "opacity": 0.22},
            "encoding": {"x": x, "y": channel("low", title, **y), "y2": {"field": "high"}},
        }
        lines: list[Spec] = [
            {
                "params": [zooming("x")] if name == "posterior" else [],
                "mark": {"type": "line", "strokeWidth": 2.2},
                "encoding": {
                    "x": x,
                    "y": channel(name, title, **y),
                    "color": {"datum": label, "scale": scale, "legend": {"columns": 1}},
                },
            }
            for name, label in names.items()
        ]
        pointer = {
            "params": [nearest_to("score")],
            "mark": {"type": "rule", "strokeWidth": 1},
            "encoding": {
                "x": x,
                "color": {"value": palette.ink},
                "opacity": shown_on_hover(0.6),
                "tooltip": tooltips(columns, formats),
            },
        }
        return {"layer": [*([] if curve.bounds is None else [band]), *lines, pointer]}

    return draw


# Posteriors

HISTOGRAM_COLUMNS = {"low": "posterior from", "high": "to", "rows": "unlabeled rows"}


def posterior_histogram(content: ReportContent) -> list[Chart]:
    """How many unlabeled rows have which posterior, where there are any."""
    if not content.sketch.n_unlabeled:
        return []
    counts = posterior_counts(content.by_score)
    edges = np.linspace(0, 1, POSTERIOR_BINS + 1)
    half, where = int(counts[POSTERIOR_BINS // 2 :].sum()), population(content.by_score)
    alt = f"Histogram of the posteriors of the unlabeled rows{where}; {half:,} are at least 0.5."
    return [
        Chart(
            name="posteriors",
            title=f"Posteriors of the unlabeled rows{where}",
            alt=alt,
            rows=as_rows(low=edges[:-1], high=edges[1:], rows=counts.astype(int)),
            columns=HISTOGRAM_COLUMNS,
            draw=_draw_histogram,
        )
    ]


def _draw_histogram(palette: Palette) -> Spec:
    x = channel("low", "posterior of an unlabeled row", scale={"domain": [0, 1]})
    x["axis"] = {"grid": False, "tickCount": 5}
    y = channel("rows", "rows (square-root scale)", scale={"type": "sqrt"})
    y["axis"] = {"tickCount": 4, "format": ",.7~g"}
    color = {
        "condition": {"test": "datum.low >= 0.4999", "value": palette.positive},
        "value": palette.negative,
    }
    formats = {"low": ".2f", "high": ".2f", "rows": ",.0f"}
    return {
        "params": [zooming("x")],
        "mark": {"type": "bar", "binSpacing": 1},
        "encoding": {
            "x": x,
            "x2": {"field": "high"},
            "y": y,
            "y2": {"datum": 0},
            "color": color,
            "tooltip": tooltips(HISTOGRAM_COLUMNS, formats),
        },
    }
