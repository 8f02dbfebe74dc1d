"""The charts as Vega-Lite specifications, each with its data, its text and a name for files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ..sketch import FloatArray
from .content import Estimates, PriorView, ReportContent
from .summaries import (
    POSTERIOR_BINS,
    Roc,
    binned,
    curve_cells,
    observed_roc,
    posterior_counts,
    recovered_roc,
    reliability,
    score_bins,
)
from .text import percent, percent_range, rounded, shortened

Spec = dict[str, Any]
Row = dict[str, Any]
SMALL, TALL, STEP = 190, 300, 26  # pixels: heights, and that of one line of a forest plot
MOST_POINTS = 500  # of a curve that a document brings
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"


@dataclass(frozen=True)
class Palette:
    """Colours by what they stand for."""

    ink: str
    faint: str
    grid: str
    positive: str
    negative: str
    labeled: str
    unlabeled: str


# The page's style sheet gives these their values, so that they follow its light and dark modes.
PAGE = Palette(*(f"var(--{field.name})" for field in fields(Palette)))
PRINT = Palette("#1c2430", "#5b6573", "#e3e7ec", "#1f6fbf", "#8e99a8", "#c2500a", "#1c2430")


@dataclass(frozen=True)
class Chart:
    """A chart: how it is drawn, from what, and in words."""

    name: str  # of its element and its files
    title: str
    alt: str  # what it shows, for who does not see it
    rows: list[Row]
    columns: dict[str, str]  # the fields of a row, as a table's headings
    draw: Callable[[Palette], Spec]  # without data, size and configuration
    height: int = SMALL

    def spec(self, palette: Palette = PAGE, width: int | str = "container") -> Spec:
        """The whole specification; on paper without what only a pointer brings out."""
        drawn = self.draw(palette)
        if palette is PRINT:
            drawn = _still(drawn)
        return {
            "description": self.alt,
            "width": width,
            "height": self.height,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "data": {"name": "rows", "values": self.rows},
            **drawn,
            "config": _config(palette),
        }


def _still(drawn: Spec) -> Spec:
    """A drawing without zoom, and without the layers that show what a pointer is at."""

    def is_for_pointer(layer: Spec) -> bool:
        return any(param["name"] == "hover" for param in layer.get("params", ()))

    still = {name: value for name, value in drawn.items() if name != "params"}
    if "layer" in still:
        still["layer"] = [_still(x) for x in drawn["layer"] if not is_for_pointer(x)]
    return still


def _config(palette: Palette) -> Spec:
    text = {"labelColor": palette.ink, "titleColor": palette.ink, "labelFontSize": 12}
    return {
        "font": FONT,
        "background": "transparent" if palette == PAGE else "white",
        "aria": False,  # the figure has one text; a hundred marks of their own would drown it
        "view": {"stroke": None},
        "axis": {
            **text,
            "titleFontSize": 12,
            "titleFontWeight": 500,
            "gridColor": palette.grid,
            "domainColor": palette.faint,
            "tickColor": palette.faint,
            "labelOverlap": True,
        },
        "legend": {
            **text,
            "orient": "top",
            "title": None,
            "direction": "horizontal",
            "labelLimit": 0,
            "columns": 3,
            "columnPadding": 14,
            "symbolStrokeWidth": 3,
        },
    }


def _field(name: str, title: str | None = None, kind: str = "quantitative", **more: Any) -> Spec:
    return {"field": name, "type": kind, "title": title, **more}


def _zoom(*encodings: str) -> Spec:
    """Pinch, or the wheel with Ctrl held, zooms; dragging moves; a double click goes back.

    A bare wheel must go on scrolling the page.
    """
    select = {"type": "interval", "encodings": list(encodings), "zoom": "wheel![event.ctrlKey]"}
    return {"name": "zoom", "select": select, "bind": "scales"}


def _pointed(**more: Any) -> Spec:
    """What the pointer is at."""
    select = {"type": "point", "on": "pointerover", "clear": "pointerout", **more}
    return {"name": "hover", "select": select}


def _nearest(*fields: str) -> Spec:
    """What the pointer is nearest to."""
    return _pointed(nearest=True, fields=list(fields))


def _shown_on_hover(opacity: float = 1) -> Spec:
    return {"condition": {"param": "hover", "empty": False, "value": opacity}, "value": 0}


def _tooltips(chart_columns: dict[str, str], formats: dict[str, str]) -> list[Spec]:
    return [
        {
            "field": name,
            "title": title,
            "type": "quantitative" if formats.get(name) else "nominal",
            **({"format": formats[name]} if formats.get(name) else {}),
        }
        for name, title in chart_columns.items()
    ]


def _rows(**columns: Any) -> list[Row]:
    """Columns of equal length to rows, numbers rounded to what a chart needs."""
    return [
        {k: rounded(v) if isinstance(v, float) else v for k, v in zip(columns, row, strict=True)}
        for row in zip(
            *(c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()), strict=True
        )
    ]


# Score distributions


def distributions(content: ReportContent) -> list[Chart]:
    """The scores of each sample as the sum of its positives and negatives."""
    calibration, sketch, answer = content.calibration, content.sketch, content.prior.answer
    bins = score_bins(sketch)
    samples = {
        "unlabeled": (bins.unlabeled, sketch.unlabeled * calibration.posterior, answer.alpha),
        "labeled": (bins.labeled, sketch.labeled * calibration.posterior_labeled, answer.beta),
    }
    shares = {name: counts / counts.sum() for name, (counts, _, _) in samples.items()}
    charts = []
    for name, (counts, positives, share) in samples.items():
        other = "labeled" if name == "unlabeled" else "unlabeled"
        positive = (binned(sketch, positives, bins.edges) / counts.sum()).clip(0, shares[name])
        charts.append(
            Chart(
                name=f"scores-{name}",
                title=f"Scores of the {name} rows",
                alt=f"Histogram of the scores of the {name} rows, split into the estimated "
                f"positives, {percent(share or 0)} of the area, and negatives, with the scores of "
                f"the {other} rows as a line.",
                rows=_rows(
                    low=bins.edges[:-1],
                    high=bins.edges[1:],
                    middle=(bins.edges[:-1] + bins.edges[1:]) / 2,
                    total=shares[name],
                    positive=positive,
                    negative=shares[name] - positive,
                    other=shares[other],
                ),
                columns=_distribution_columns(name, other),
                draw=_distribution(name, other, bins.edges),
            )
        )
    return charts


def _distribution(name: str, other: str, edges: FloatArray) -> Callable[[Palette], Spec]:
    line = f"{other} rows"

    def draw(palette: Palette) -> Spec:
        scale = {
            "domain": ["positives", "negatives", line],
            "range": [palette.positive, palette.negative, getattr(palette, other)],
        }
        domain = [rounded(float(edges[0])), rounded(float(edges[-1]))]
        x = _field("low", "score", scale={"domain": domain, "nice": False, "zero": False})
        x |= {"axis": {"grid": False, "format": "~g"}}
        y: Spec = {"title": "share of rows", "axis": {"format": "~%", "tickCount": 4}}
        bar = {"type": "bar", "strokeWidth": 0, "binSpacing": 0}
        formats = dict.fromkeys(("total", "positive", "negative", "other"), ".2%")
        formats |= {"low": ".4~g", "high": ".4~g"}
        return {
            "layer": [
                {
                    "params": [_zoom("x")],
                    "mark": bar,
                    "encoding": {
                        "x": x,
                        "x2": {"field": "high"},
                        "y": _field("positive", **y),
                        "y2": {"datum": 0},
                        "color": {"datum": "positives", "scale": scale},
                    },
                },
                {
                    "mark": bar,
                    "encoding": {
                        "x": x,
                        "x2": {"field": "high"},
                        "y": _field("total", **y),
                        "y2": {"field": "positive"},
                        "color": {"datum": "negatives", "scale": scale},
                    },
                },
                {
                    "mark": {
                        "type": "line",
                        "interpolate": "step",
                        "strokeWidth": 1.6,
                    },
                    "encoding": {
                        "x": _field("middle", "score"),
                        "y": _field("other", **y),
                        "color": {"datum": line, "scale": scale},
                    },
                },
                {
                    "params": [_pointed()],
                    "mark": {"type": "rect", "color": palette.ink},
                    "encoding": {
                        "x": x,
                        "x2": {"field": "high"},
                        "opacity": _shown_on_hover(0.12),
                        "tooltip": _tooltips(_distribution_columns(name, other), formats),
                    },
                },
            ]
        }

    return draw


def _distribution_columns(name: str, other: str) -> dict[str, str]:
    return {
        "low": "score from",
        "high": "to",
        "total": f"{name} rows",
        "positive": "of which positives",
        "negative": "of which negatives",
        "other": f"{other} rows",
    }


# ROC

OBSERVED, RECOVERED = "labeled against unlabeled (seen)", "positives against negatives (recovered)"


def roc_curves(content: ReportContent) -> Chart:
    """The ROC that is seen, and the one of the classes behind it."""
    curves = {OBSERVED: observed_roc(content.sketch)}
    if (recovered := recovered_roc(content.calibration)) is not None:
        curves[RECOVERED] = recovered
    rows = [row for name, curve in curves.items() for row in _roc_rows(name, curve)]
    aucs = "; ".join(f"{name}: area {curve.auc:.3f}" for name, curve in curves.items())
    columns = {"curve": "curve", "threshold": "score at least", "y": "share above", "x": "against"}

    def draw(palette: Palette) -> Spec:
        color = _field("curve", kind="nominal")
        color["scale"] = {
            "domain": [OBSERVED, RECOVERED],
            "range": [palette.labeled, palette.positive],
        }
        color["legend"] = {"columns": 1}
        axis = {"format": "~%", "tickCount": 5}
        x = _field("x", "unlabeled rows (negatives) above the threshold", axis=axis)
        y = _field("y", "labeled rows (positives) above it", axis=axis)
        # An expression, as Vega-Lite loses the text among the fields of what is nearest
        near = "(datum.datum || datum)"
        parts = [f"'curve': {near}.curve"] + [
            f"'{columns[name]}': format({near}.{name}, '{form}')"
            for name, form in (("threshold", ".4~g"), ("y", ".1%"), ("x", ".1%"))
        ]
        tooltip = {"value": {"expr": f"{{{', '.join(parts)}}}"}}
        return {
            "layer": [
                {
                    "data": {"values": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]},
                    "mark": {"type": "line", "strokeDash": [3, 4], "strokeWidth": 1},
                    "encoding": {"x": x, "y": y, "color": {"value": palette.faint}},
                },
                {
                    "params": [_zoom("x", "y")],
                    "mark": {"type": "line", "strokeWidth": 2.2},
                    "encoding": {"x": x, "y": y, "color": color, "order": _field("i")},
                },
                {
                    "params": [_nearest("i", "curve")],
                    "mark": {"type": "point", "filled": True, "size": 70},
                    "encoding": {
                        "x": x,
                        "y": y,
                        "color": color,
                        "opacity": _shown_on_hover(),
                        "tooltip": tooltip,
                    },
                },
            ]
        }

    return Chart("roc", "ROC curves", f"Two ROC curves. {aucs}.", rows, columns, draw, TALL)


def _roc_rows(name: str, curve: Roc) -> list[Row]:
    n = len(curve.x)
    return _rows(i=range(n), curve=[name] * n, threshold=curve.threshold, x=curve.x, y=curve.y)


# AlphaMax's log-likelihoods

DIRECTIONS = {
    "alpha_plus": ("α⁺: how much of the labeled distribution fits into the unlabeled one", "α+"),
    "beta_plus": ("β⁺: how much of the unlabeled distribution fits into the labeled one", "β+"),
}


def likelihoods(prior: PriorView, elbow: Estimates | None) -> list[Chart]:
    """AlphaMax's curve in each direction, with its elbow and what the answer amounts to."""
    return [
        _likelihood(prior, name, elbow)
        for name in DIRECTIONS
        if name in prior.curves and prior.curves[name][0]
    ]


def _likelihood(prior: PriorView, name: str, elbow: Estimates | None) -> Chart:
    title, symbol = DIRECTIONS[name]
    proportion, value = (np.array(values) for values in prior.curves[name])
    order = np.argsort(proportion, kind="stable")
    order = order[:: -(-len(order) // MOST_POINTS)]
    proportion, value = proportion[order], value[order]
    marked = [(f"{symbol} of the answer ({shortened(prior.answer.method, 20)})", prior.answer)]
    if elbow is not None and elbow.method != prior.answer.method:
        marked.append((f"AlphaMax's elbow ({elbow.method})", elbow))
    points: list[Row] = [
        {"mark": label, "x": rounded(at), "y": round(float(np.interp(at, proportion, value)), 2)}
        for label, estimate in marked
        if (at := getattr(estimate, name)) is not None
    ]
    said = "; ".join(f"{point['mark']}: {point['x']:.3g}" for point in points)
    columns = {"x": symbol, "y": "log-likelihood"}
    formats = {"x": ".4f", "y": ",.1f"}

    def draw(palette: Palette) -> Spec:
        x = _field("x", symbol, scale={"domain": [0, 1]}, axis={"grid": False})
        y = _field("y", "log-likelihood", scale={"zero": False}, axis={"format": ",.7~g"})
        layers: list[Spec] = [
            {
                "params": [_zoom("x", "y")],
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {"x": x, "y": y, "color": {"value": palette.faint}},
            },
            {
                "params": [_nearest("x")],
                "mark": {"type": "point", "filled": True, "size": 60},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": {"value": palette.ink},
                    "opacity": _shown_on_hover(),
                    "tooltip": _tooltips(columns, formats),
                },
            },
        ]
        if points:  # a layer without data would have no extent
            labels = [point["mark"] for point in points]
            tooltip = _tooltips({"mark": "point", **columns}, formats)
            encoding = {"x": x, "y": y, **_point_styles(labels, palette), "tooltip": tooltip}
            mark = {"type": "point", "filled": True, "size": 110, "opacity": 1}
            layers.append({"data": {"values": points}, "mark": mark, "encoding": encoding})
        return {"layer": layers}

    return Chart(
        name=f"likelihood-{name.replace('_', '-')}",
        title=title,
        alt=f"AlphaMax's log-likelihood by {symbol}, flat at first and falling beyond the elbow. "
        f"{said}.",
        # in full: the elbow is a matter of a few units among millions
        rows=[
            {"x": rounded(x), "y": round(y, 2)}
            for x, y in zip(proportion.tolist(), value.tolist(), strict=True)
        ],
        columns=columns,
        draw=draw,
        height=220,
    )


def _point_styles(labels: list[str], palette: Palette) -> Spec:
    """Up to two kinds of points, told apart by colour and by shape."""
    field = {**_field("mark", kind="nominal"), "legend": {"columns": 1}}
    ranges = {"color": [palette.positive, palette.labeled], "shape": ["diamond", "circle"]}
    return {
        channel: {**field, "scale": {"domain": labels, "range": values[: len(labels)]}}
        for channel, values in ranges.items()
    }


# Forest plots: methods side by side, and samples


@dataclass(frozen=True)
class ForestLine:
    """One line of a forest plot."""

    label: str
    value: float
    interval: tuple[float, float] | None
    stressed: bool = False


def forest(name: str, title: str, symbol: str, lines: Sequence[ForestLine]) -> Chart:
    """Estimates with their intervals, one below the other."""
    labels = _distinct([shortened(line.label, 40) for line in lines])
    said = "; ".join(
        f"{line.label[:40]}: {percent(line.value)}"
        + (f" ({percent_range(line.interval)})" if line.interval else "")
        for line in lines[:12]
    )
    rest = "" if len(lines) <= 12 else f"; and {len(lines) - 12} more"
    rows = [
        {
            "label": label,
            "value": rounded(line.value),
            "low": rounded(line.interval[0]) if line.interval else None,
            "high": rounded(line.interval[1]) if line.interval else None,
            "stressed": line.stressed,
        }
        for label, line in zip(labels, lines, strict=True)
    ]
    columns = {"label": "name", "value": symbol, "low": "from", "high": "to"}

    def draw(palette: Palette) -> Spec:
        y = _field("label", kind="nominal", sort=None)
        y["axis"] = {"labelLimit": 150, "grid": False, "ticks": False, "domain": False}
        # a little wider than [0, 1], so that estimates at its ends are drawn whole
        scale = {"domain": [-0.02, 1.02], "nice": False}
        x = {"scale": scale, "axis": {"format": "~%", "tickCount": 5}, "title": symbol}
        color = {
            "condition": {"test": "datum.stressed", "value": palette.positive},
            "value": palette.faint,
        }
        tooltip = _tooltips(columns, dict.fromkeys(("value", "low", "high"), ".2%"))
        return {
            "encoding": {"y": y},
            "layer": [
                {
                    "params": [_pointed()],
                    "mark": {"type": "rect", "color": palette.ink},
                    "encoding": {"opacity": _shown_on_hover(0.08), "tooltip": tooltip},
                },
                {
                    "params": [_zoom("x")],
                    "mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round"},
                    "encoding": {
                        "x": {"field": "low", "type": "quantitative", **x},
                        "x2": {"field": "high"},
                        "color": color,
                        "tooltip": tooltip,
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
                    "encoding": {
                        "x": {"field": "value", "type": "quantitative", **x},
                        "color": color,
                        "tooltip": tooltip,
                    },
                },
            ],
        }

    return Chart(name, title, f"{title}. {said}{rest}.", rows, columns, draw, STEP * len(rows))


def _distinct(labels: Iterable[str]) -> list[str]:
    """Labels made distinct by a number where several are the same."""
    seen: dict[str, int] = {}
    distinct = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        distinct.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return distinct


def methods(prior: PriorView) -> list[Chart]:
    """α and β by each method that ran."""
    charts = []
    for name, symbol in (("alpha", "α"), ("beta", "β")):
        lines = [
            ForestLine(
                estimate.method,
                getattr(estimate, name),
                getattr(estimate, f"{name}_ci"),
                estimate.method == prior.answer.method,
            )
            for estimate in prior.estimates
            if getattr(estimate, name) is not None
        ]
        if lines:
            charts.append(forest(f"methods-{name}", f"{symbol} by method", symbol, lines))
    return charts


# Calibration and posteriors


def calibration_chart(content: ReportContent) -> Chart:
    """What the calibrated p(S=1|x) predicts against the labeled share that is seen."""
    groups = reliability(content.calibration)
    rows = _rows(**asdict(groups))
    top = rounded(float(max(groups.high.max(), groups.predicted.max())))
    columns = {
        "predicted": "predicted share",
        "observed": "labeled share seen",
        "low": "from",
        "high": "to",
        "rows": "rows",
    }
    formats = dict.fromkeys(("predicted", "observed", "low", "high"), ".2%") | {"rows": ",.0f"}

    def draw(palette: Palette) -> Spec:
        axis = {"format": "~%", "tickCount": 5}
        x = _field("predicted", "predicted labeled share (tau)", axis=axis)
        y = _field("observed", "labeled share seen", axis=axis)
        return {
            "layer": [
                {
                    "data": {"values": [{"predicted": v, "observed": v} for v in (0, top)]},
                    "mark": {"type": "line", "strokeDash": [3, 4], "strokeWidth": 1},
                    "encoding": {"x": x, "y": y, "color": {"value": palette.faint}},
                },
                {
                    "params": [_zoom("x", "y")],
                    "mark": {"type": "rule", "strokeWidth": 1.5},
                    "encoding": {
                        "x": x,
                        "y": _field("low", "labeled share seen"),
                        "y2": {"field": "high"},
                        "color": {"value": palette.labeled},
                    },
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                    "encoding": {
                        "x": x,
                        "y": y,
                        "color": {"value": palette.labeled},
                        "tooltip": _tooltips(columns, formats),
                    },
                },
            ]
        }

    outside = int(((groups.predicted < groups.low) | (groups.predicted > groups.high)).sum())
    return Chart(
        name="calibration",
        title="Calibration: predicted and seen share of labeled rows",
        alt=f"{len(rows)} groups of rows by score; in {len(rows) - outside} of them the predicted "
        "share of labeled rows lies within the 95 % interval of the share seen.",
        rows=rows,
        columns=columns,
        draw=draw,
        height=240,
    )


def posterior_curves(content: ReportContent) -> Chart:
    """The probability of being positive by score, of an unlabeled and of a labeled row."""
    calibration = content.calibration
    cells = curve_cells(content.sketch)
    rows = _rows(
        score=content.sketch.scores[cells],
        posterior=calibration.posterior[cells],
        posterior_labeled=calibration.posterior_labeled[cells],
        fdr=calibration.fdr[cells],
    )
    columns = {
        "score": "score",
        "posterior": "posterior, unlabeled row",
        "posterior_labeled": "posterior, labeled row",
        "fdr": "FDR of calling from here up",
    }
    formats = {"score": ".4~g"} | dict.fromkeys(("posterior", "posterior_labeled", "fdr"), ".1%")
    names = {"posterior": "an unlabeled row", "posterior_labeled": "a labeled row"}

    def draw(palette: Palette) -> Spec:
        scale = {"domain": list(names.values()), "range": [palette.positive, palette.labeled]}
        x = _field("score", "score", scale={"zero": False, "nice": False})
        x["axis"] = {"grid": False, "format": "~g"}
        y: Spec = {"axis": {"format": "~%", "tickCount": 5}, "scale": {"domain": [0, 1]}}
        title = "probability of being positive"
        return {
            "layer": [
                *(
                    {
                        "params": [_zoom("x")] if name == "posterior" else [],
                        "mark": {"type": "line", "strokeWidth": 2.2},
                        "encoding": {
                            "x": x,
                            "y": _field(name, title, **y),
                            "color": {"datum": label, "scale": scale},
                        },
                    }
                    for name, label in names.items()
                ),
                {
                    "params": [_nearest("score")],
                    "mark": {"type": "rule", "strokeWidth": 1},
                    "encoding": {
                        "x": x,
                        "color": {"value": palette.ink},
                        "opacity": _shown_on_hover(0.6),
                        "tooltip": _tooltips(columns, formats),
                    },
                },
            ]
        }

    half = next((row["score"] for row in rows if row["posterior"] >= 0.5), None)
    where = "never reaches" if half is None else f"from a score of {half:.3g} on is at least"
    return Chart(
        name="posterior-by-score",
        title="Posterior by score",
        alt="Probability of being positive by score, rising, for unlabeled and labeled rows. That "
        f"of an unlabeled row {where} one half.",
        rows=rows,
        columns=columns,
        draw=draw,
        height=240,
    )


def posterior_histogram(content: ReportContent) -> Chart:
    """How many unlabeled rows have which posterior."""
    counts = posterior_counts(content.calibration)
    edges = np.linspace(0, 1, POSTERIOR_BINS + 1)
    rows = _rows(low=edges[:-1], high=edges[1:], rows=counts.astype(int))
    columns = {"low": "posterior from", "high": "to", "rows": "unlabeled rows"}
    formats = {"low": ".2f", "high": ".2f", "rows": ",.0f"}

    def draw(palette: Palette) -> Spec:
        x = _field("low", "posterior of an unlabeled row", scale={"domain": [0, 1]})
        x["axis"] = {"grid": False, "tickCount": 5}
        y = _field("rows", "rows (square-root scale)", scale={"type": "sqrt"})
        y["axis"] = {"tickCount": 4, "format": ",.7~g"}
        color = {
            "condition": {"test": "datum.low >= 0.4999", "value": palette.positive},
            "value": palette.negative,
        }
        return {
            "params": [_zoom("x")],
            "mark": {"type": "bar", "binSpacing": 1},
            "encoding": {
                "x": x,
                "x2": {"field": "high"},
                "y": y,
                "y2": {"datum": 0},
                "color": color,
                "tooltip": _tooltips(columns, formats),
            },
        }

    sure = int(counts[POSTERIOR_BINS // 2 :].sum())
    return Chart(
        name="posteriors",
        title="Posteriors of the unlabeled rows",
        alt=f"Histogram of the posteriors of the unlabeled rows; {sure:,} are at least 0.5.",
        rows=rows,
        columns=columns,
        draw=draw,
    )
