"""The charts of scores: their distributions, ROC curves, and AlphaMax's likelihoods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..estimation import CURVE_METHOD
from ..estimators import Curve, Estimate
from ..prior import Prior
from ..sketch import FloatArray
from .aggregates import Roc, binned, observed_roc, recovered_roc, score_bins
from .chart import (
    TALL,
    Chart,
    Palette,
    Row,
    Spec,
    as_rows,
    channel,
    nearest_to,
    pointed_at,
    shown_on_hover,
    tooltips,
    zooming,
)
from .content import ReportContent
from .text import percent, rounded, shortened

MOST_POINTS = 500  # of a curve that a document brings
LEAST_VISIBLE = 0.05  # of the height of a chart: lower bars are drawn once more, enlarged
ROOM = 1.3  # the height of an enlarged chart, in that of its tallest bar of positives


# Score distributions


@dataclass(frozen=True, eq=False)
class _Histogram:
    """The scores of one sample: shares of its rows, all arrays of shape (bins,)."""

    sample: str  # labeled or unlabeled
    other: str  # the sample drawn as a line
    edges: FloatArray  # (bins + 1,)
    total: FloatArray
    positive: FloatArray
    line: FloatArray
    score_title: str

    @property
    def is_flat(self) -> bool:
        """Whether there are positives, but bars too low to be seen."""
        tallest = max(float(self.total.max()), float(self.line.max()))
        return 0 < float(self.positive.max()) < LEAST_VISIBLE * tallest

    @property
    def rows(self) -> list[Row]:
        return as_rows(
            low=self.edges[:-1],
            high=self.edges[1:],
            middle=(self.edges[:-1] + self.edges[1:]) / 2,
            total=self.total,
            positive=self.positive,
            negative=self.total - self.positive,
            other=self.line,
        )

    @property
    def columns(self) -> dict[str, str]:
        return {
            "low": "score from",
            "high": "to",
            "total": f"{self.sample} rows",
            "positive": "of which positives",
            "negative": "of which negatives",
            "other": f"{self.other} rows",
        }


def distributions(content: ReportContent) -> list[Chart]:
    """The scores of each sample as the sum of its positives and negatives.

    Where the unlabeled positives are too few to be seen, there is an enlarged chart of them too.
    """
    calibration, sketch, answer = content.calibration, content.sketch, content.answer
    bins = score_bins(sketch)
    shares = {
        "unlabeled": bins.unlabeled / sketch.n_unlabeled,
        "labeled": bins.labeled / sketch.n_labeled,
    }
    positives = {
        "unlabeled": sketch.unlabeled * calibration.posterior,
        "labeled": sketch.labeled * calibration.posterior_labeled,
    }
    charts = []
    for name, other, rows, share in (
        ("unlabeled", "labeled", sketch.n_unlabeled, answer.alpha),
        ("labeled", "unlabeled", sketch.n_labeled, answer.beta),
    ):
        positive = (binned(sketch, positives[name], bins.edges) / rows).clip(0, shares[name])
        histogram = _Histogram(
            name, other, bins.edges, shares[name], positive, shares[other], content.score_title
        )
        charts.append(_distribution(histogram, share))
        if name == "unlabeled" and histogram.is_flat:
            charts.append(_enlarged(histogram))
    return charts


def _distribution(histogram: _Histogram, share: float) -> Chart:
    sample, other = histogram.sample, histogram.other
    return Chart(
        name=f"scores-{sample}",
        title=f"Scores of the {sample} rows",
        alt=f"Histogram of the scores of the {sample} rows, split into the estimated positives, "
        f"{percent(share)} of the area, and negatives, with the scores of the {other} rows as a "
        "line.",
        rows=histogram.rows,
        columns=histogram.columns,
        draw=_draw_distribution(histogram),
    )


def _enlarged(histogram: _Histogram) -> Chart:
    top = ROOM * float(histogram.positive.max())
    return Chart(
        name=f"positives-{histogram.sample}",
        title=f"Positives among the {histogram.sample} rows, enlarged",
        alt=f"The same histogram of the {histogram.sample} rows with its vertical axis cut at "
        f"{percent(top)} of the rows, so that the few positives can be seen.",
        rows=histogram.rows,
        columns=histogram.columns,
        draw=_draw_distribution(histogram, top),
    )


def _draw_distribution(
    histogram: _Histogram, top: float | None = None
) -> Callable[[Palette], Spec]:
    """Bars of positives and negatives; the other sample as a line, unless cut off at the top."""
    edges = histogram.edges
    domain = [rounded(float(edges[0])), rounded(float(edges[-1]))]
    x = channel("low", histogram.score_title)
    x |= {"scale": {"domain": domain, "nice": False, "zero": False}}
    x |= {"axis": {"grid": False, "format": "~g"}}
    y: Spec = {"title": "share of rows", "axis": {"format": "~%", "tickCount": 4}}
    if top is not None:
        y |= {"scale": {"domain": [0, rounded(top)], "nice": False}}
    formats = dict.fromkeys(("total", "positive", "negative", "other"), ".3~%")
    formats |= {"low": ".4~g", "high": ".4~g"}

    def bars(height: str, base: Spec, label: str, scale: Spec) -> Spec:
        return {
            "mark": {"type": "bar", "strokeWidth": 0, "binSpacing": 0},
            "encoding": {
                "x": x,
                "x2": {"field": "high"},
                "y": channel(height, **y),
                "y2": base,
                "color": {"datum": label, "scale": scale},
            },
        }

    def draw(palette: Palette) -> Spec:
        labels = ["positives", "negatives", f"{histogram.other} rows"]
        colors = [palette.positive, palette.negative, getattr(palette, histogram.other)]
        drawn = 3 if top is None else 2
        scale = {"domain": labels[:drawn], "range": colors[:drawn]}
        line = {
            "mark": {"type": "line", "interpolate": "step", "strokeWidth": 1.6},
            "encoding": {
                "x": channel("middle", histogram.score_title),
                "y": channel("other", **y),
                "color": {"datum": labels[2], "scale": scale},
            },
        }
        pointer = {
            "params": [pointed_at()],
            "mark": {"type": "rect", "color": palette.ink},
            "encoding": {
                "x": x,
                "x2": {"field": "high"},
                "opacity": shown_on_hover(0.12),
                "tooltip": tooltips(histogram.columns, formats),
            },
        }
        positives = bars("positive", {"datum": 0}, labels[0], scale)
        negatives = bars("total", {"field": "positive"}, labels[1], scale)
        layers = [{"params": [zooming("x")], **positives}, negatives, line, pointer]
        if top is not None:  # not by clipping, for which Vega would number each chart it ever drew
            cut = {"calculate": f"min(datum.total, {rounded(top)})", "as": "cut"}
            negatives["transform"], negatives["encoding"]["y"]["field"] = [cut], "cut"
            layers.remove(line)
        return {"layer": layers}

    return draw


# ROC

OBSERVED = "labeled against unlabeled (observed)"
RECOVERED = "positives against negatives (recovered)"
ROC_COLUMNS = {"curve": "curve", "threshold": "score at least", "y": "share above", "x": "against"}


def roc_curves(content: ReportContent) -> Chart:
    """The ROC that is observed, and the one of the classes behind it."""
    rows = _roc_rows(OBSERVED, observed_roc(content.sketch))
    said = f"{OBSERVED}: AUC {content.sketch.auc:.3f}"
    if (recovered := recovered_roc(content.calibration)) is not None:
        rows += _roc_rows(RECOVERED, recovered)
        if content.prior.auc is not None:
            said += f"; {RECOVERED}: AUC {content.prior.auc:.3f}"
    return Chart("roc", "ROC curves", f"ROC curves. {said}.", rows, ROC_COLUMNS, _draw_roc, TALL)


def _roc_rows(name: str, curve: Roc) -> list[Row]:
    n = len(curve.x)
    return as_rows(i=range(n), curve=[name] * n, threshold=curve.threshold, x=curve.x, y=curve.y)


def _draw_roc(palette: Palette) -> Spec:
    color = channel("curve", kind="nominal", legend={"columns": 1})
    color["scale"] = {"domain": [OBSERVED, RECOVERED], "range": [palette.labeled, palette.positive]}
    axis = {"format": "~%", "tickCount": 5}
    x = channel("x", "unlabeled rows (negatives) above the threshold", axis=axis)
    y = channel("y", "labeled rows (positives) above it", axis=axis)
    # An expression, as Vega-Lite loses the text among the fields of what is nearest
    near = "(datum.datum || datum)"
    parts = [f"'curve': {near}.curve"] + [
        f"'{ROC_COLUMNS[name]}': format({near}.{name}, '{form}')"
        for name, form in (("threshold", ".4~g"), ("y", ".1%"), ("x", ".1%"))
    ]
    return {
        "layer": [
            {
                "data": {"values": [{"x": 0, "y": 0}, {"x": 1, "y": 1}]},
                "mark": {"type": "line", "strokeDash": [3, 4], "strokeWidth": 1},
                "encoding": {"x": x, "y": y, "color": {"value": palette.faint}},
            },
            {
                "params": [zooming("x", "y")],
                "mark": {"type": "line", "strokeWidth": 2.2},
                "encoding": {"x": x, "y": y, "color": color, "order": channel("i")},
            },
            {
                "params": [nearest_to("i", "curve")],
                "mark": {"type": "point", "filled": True, "size": 70},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": color,
                    "opacity": shown_on_hover(),
                    "tooltip": {"value": {"expr": f"{{{', '.join(parts)}}}"}},
                },
            },
        ]
    }


# AlphaMax's log-likelihoods

DIRECTIONS = {
    "alpha_plus": ("α⁺: how much of the labeled distribution fits into the unlabeled one", "α⁺"),
    "beta_plus": ("β⁺: how much of the unlabeled distribution fits into the labeled one", "β⁺"),
}


def likelihoods(prior: Prior, elbow: Estimate | None) -> list[Chart]:
    """AlphaMax's curve in each direction, with its elbow and what the answer amounts to."""
    return [
        _likelihood(prior, name, prior.curves[name], elbow)
        for name in DIRECTIONS
        if name in prior.curves and len(prior.curves[name].proportion)
    ]


def _likelihood(prior: Prior, name: str, curve: Curve, elbow: Estimate | None) -> Chart:
    title, symbol = DIRECTIONS[name]
    order = np.argsort(curve.proportion, kind="stable")
    order = order[:: -(-len(order) // MOST_POINTS)]
    proportion, value = curve.proportion[order], curve.log_likelihood[order]
    marked = [(f"{symbol} of the answer ({shortened(prior.method, 20)})", prior.answer)]
    if prior.method != CURVE_METHOD:
        marked.append((f"AlphaMax's elbow ({CURVE_METHOD})", elbow))
    points: list[Row] = [
        {"mark": label, "x": rounded(at), "y": round(float(np.interp(at, proportion, value)), 2)}
        for label, estimate in marked
        if (at := getattr(estimate, name, None)) is not None
    ]
    said = "; ".join(f"{point['mark']}: {point['x']:.3g}" for point in points)
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
        columns={"x": symbol, "y": "log-likelihood"},
        draw=_draw_likelihood(symbol, points),
        height=220,
    )


def _draw_likelihood(symbol: str, points: list[Row]) -> Callable[[Palette], Spec]:
    columns, formats = {"x": symbol, "y": "log-likelihood"}, {"x": ".4f", "y": ",.1f"}
    x = channel("x", symbol, scale={"domain": [0, 1]}, axis={"grid": False})
    y = channel("y", "log-likelihood", scale={"zero": False}, axis={"format": ",.7~g"})

    def draw(palette: Palette) -> Spec:
        layers: list[Spec] = [
            {
                "params": [zooming("x", "y")],
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {"x": x, "y": y, "color": {"value": palette.faint}},
            },
            {
                "params": [nearest_to("x")],
                "mark": {"type": "point", "filled": True, "size": 60},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": {"value": palette.ink},
                    "opacity": shown_on_hover(),
                    "tooltip": tooltips(columns, formats),
                },
            },
        ]
        if points:  # a layer without data would have no extent
            labels = [point["mark"] for point in points]
            tooltip = tooltips({"mark": "point", **columns}, formats)
            encoding = {"x": x, "y": y, **_point_styles(labels, palette), "tooltip": tooltip}
            mark = {"type": "point", "filled": True, "size": 110, "opacity": 1}
            layers.append({"data": {"values": points}, "mark": mark, "encoding": encoding})
        return {"layer": layers}

    return draw


def _point_styles(labels: list[str], palette: Palette) -> Spec:
    """Up to two kinds of points, told apart by colour and by shape."""
    mark = channel("mark", kind="nominal", legend={"columns": 1})
    ranges = {"color": [palette.positive, palette.labeled], "shape": ["diamond", "circle"]}
    return {
        style: {**mark, "scale": {"domain": labels, "range": values[: len(labels)]}}
        for style, values in ranges.items()
    }
