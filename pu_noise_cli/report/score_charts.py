"""The charts of scores: their distributions, ROC curves, and AlphaMax's likelihoods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..estimation import CURVE_METHOD
from ..estimators import Curve, Estimate
from ..prior import Prior
from ..sketch import LABELED, NEGATIVE, SETS, UNLABELED, FloatArray, IntArray, Sketch
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


@dataclass(frozen=True)
class _Sample:
    """How a sample is drawn as a line over the bars of another."""

    field: str
    title: str
    color: str  # of the palette
    dash: tuple[int, ...] = ()

    def line(self, x: Spec, y: Spec, scale: Spec) -> Spec:
        """The layer, for a channel of scores and what is said of that of heights."""
        dash = {"strokeDash": list(self.dash)} if self.dash else {}
        return {
            "mark": {"type": "line", "interpolate": "step", "strokeWidth": 1.6, **dash},
            "encoding": {
                "x": x,
                "y": channel(self.field, **y),
                "color": {"datum": self.title, "scale": scale},
            },
        }


SAMPLES = {
    "labeled": _Sample("other", "labeled rows", "labeled"),
    "unlabeled": _Sample("other", "unlabeled rows", "unlabeled"),
    "negative": _Sample("known", "known negatives", "known", (5, 3)),
}


@dataclass(frozen=True, eq=False)
class _Histogram:
    """The scores of one sample: shares of its rows, all arrays of shape (bins,)."""

    sample: str  # labeled, unlabeled, or the population where there is none of these
    subject: str  # the same, in a sentence
    edges: FloatArray  # (bins + 1,)
    total: FloatArray
    positive: FloatArray
    lines: dict[str, FloatArray]  # the other samples, by name
    score_title: str

    @property
    def is_flat(self) -> bool:
        """Whether there are positives, but bars too low to be seen."""
        tallest = max(float(height.max()) for height in (self.total, *self.lines.values()))
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
            **{SAMPLES[name].field: height for name, height in self.lines.items()},
        )

    @property
    def columns(self) -> dict[str, str]:
        return {
            "low": "score from",
            "high": "to",
            "total": f"{self.sample} rows" if self.sample in SAMPLES else "all rows",
            "positive": "of which positives",
            "negative": "of which negatives",
            **{SAMPLES[name].field: SAMPLES[name].title for name in self.lines},
        }


def distributions(content: ReportContent) -> list[Chart]:
    """The scores of each sample as the sum of its positives and negatives.

    Without unlabeled rows, the population with the stated α is in their place. Where its positives
    are too few to be seen, there is an enlarged chart of them too.
    """
    calibration, sketch, answer = content.calibration, content.sketch, content.answer
    bins, title = score_bins(sketch), content.score_title
    counts = {"labeled": bins.labeled, "unlabeled": bins.unlabeled, "negative": bins.negative}
    shares = {name: rows / rows.sum() for name, rows in counts.items() if rows.any()}

    def histogram(
        sample: str, subject: str, rows: FloatArray | IntArray, p: FloatArray
    ) -> _Histogram:
        total = binned(sketch, rows, bins.edges) / rows.sum()
        positive = (binned(sketch, rows * p, bins.edges) / rows.sum()).clip(0, total)
        lines = {name: share for name, share in shares.items() if name != sample}
        return _Histogram(sample, subject, bins.edges, total, positive, lines, title)

    sample, subject = "unlabeled", "the unlabeled rows"
    if not sketch.n_unlabeled:
        sample, subject = "population", f"a population with {percent(answer.alpha)} positives"
    theirs = histogram(sample, subject, calibration.population, calibration.posterior)
    ours = histogram("labeled", "the labeled rows", sketch.labeled, calibration.posterior_labeled)
    return [
        _distribution(theirs, answer.alpha),
        *([_enlarged(theirs)] if theirs.is_flat else []),
        _distribution(ours, content.labeled_positives),
    ]


def _distribution(histogram: _Histogram, share: float) -> Chart:
    others = " and of the ".join(SAMPLES[name].title for name in histogram.lines)
    line = "a line" if len(histogram.lines) == 1 else "lines"
    return Chart(
        name=f"scores-{histogram.sample}",
        title=f"Scores of {histogram.subject}",
        alt=f"Histogram of the scores of {histogram.subject}, split into the estimated positives, "
        f"{percent(share)} of the area, and negatives, with the scores of the {others} as {line}.",
        rows=histogram.rows,
        columns=histogram.columns,
        draw=_draw_distribution(histogram),
    )


def _enlarged(histogram: _Histogram) -> Chart:
    top = ROOM * float(histogram.positive.max())
    among = "among" if histogram.sample in SAMPLES else "in"
    return Chart(
        name=f"positives-{histogram.sample}",
        title=f"Positives {among} {histogram.subject}, enlarged",
        alt=f"The same histogram of {histogram.subject} with its vertical axis cut at "
        f"{percent(top)} of the rows, so that the few positives can be seen.",
        rows=histogram.rows,
        columns=histogram.columns,
        draw=_draw_distribution(histogram, top),
    )


def _draw_distribution(
    histogram: _Histogram, top: float | None = None
) -> Callable[[Palette], Spec]:
    """Bars of positives and negatives; other samples as lines, unless cut off at the top."""
    domain = [rounded(float(histogram.edges[end])) for end in (0, -1)]
    x = channel("low", histogram.score_title)
    x |= {"scale": {"domain": domain, "nice": False, "zero": False}}
    x |= {"axis": {"grid": False, "format": "~g"}}
    height = {} if top is None else {"scale": {"domain": [0, rounded(top)], "nice": False}}
    y: Spec = {"title": "share of rows", "axis": {"format": "~%", "tickCount": 4}, **height}
    shares = ("total", "positive", "negative", "other", "known")
    formats = dict.fromkeys(shares, ".3~%") | dict.fromkeys(("low", "high"), ".4~g")

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
        others = [SAMPLES[name] for name in histogram.lines] if top is None else []
        colors = {"positives": palette.positive, "negatives": palette.negative}
        colors |= {sample.title: getattr(palette, sample.color) for sample in others}
        scale = {"domain": list(colors), "range": list(colors.values())}
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
        positives = bars("positive", {"datum": 0}, "positives", scale)
        negatives = bars("total", {"field": "positive"}, "negatives", scale)
        if top is not None:  # not by clipping, for which Vega would number each chart it ever drew
            cut = {"calculate": f"min(datum.total, {rounded(top)})", "as": "cut"}
            negatives["transform"], negatives["encoding"]["y"]["field"] = [cut], "cut"
        x_of_lines = channel("middle", histogram.score_title)
        lines = [sample.line(x_of_lines, y, scale) for sample in others]
        return {"layer": [{"params": [zooming("x")], **positives}, negatives, *lines, pointer]}

    return draw


# ROC

RECOVERED = "positives against negatives (recovered)"
ROC_COLUMNS = {"curve": "curve", "threshold": "score at least", "y": "share above", "x": "against"}


@dataclass(frozen=True)
class Comparison:
    """Two samples of which the upper should score higher, by the codes of their sets."""

    upper: int
    lower: int

    @property
    def curve(self) -> str:
        """The name of its curve."""
        lower = "known negatives" if self.lower == NEGATIVE else SETS[self.lower]
        return f"{SETS[self.upper]} against {lower} (observed)"

    @property
    def said(self) -> str:
        """The two in a sentence."""
        if self.lower == NEGATIVE:
            return "labeled rows against known negatives"
        return f"{SETS[self.upper]} against {SETS[self.lower]} rows"

    def auc(self, sketch: Sketch) -> float:
        """P(upper score > lower score) + P(equal) / 2; one of the samples is the labeled one."""
        if self.lower == LABELED:
            return 1 - sketch.auc_against(self.upper)
        return sketch.auc_against(self.lower)


def comparisons(content: ReportContent) -> list[Comparison]:
    """The samples to compare; all point to positives."""
    if content.prior.labeled_negatives:
        return [Comparison(UNLABELED, LABELED)]
    others = (UNLABELED, NEGATIVE)
    return [Comparison(LABELED, other) for other in others if content.sketch.counts[:, other].any()]


def roc_curves(content: ReportContent) -> Chart:
    """The ROCs that are observed, and the one of the classes behind them."""
    sketch, compared, rows = content.sketch, comparisons(content), list[Row]()
    for each in compared:
        rows += _roc_rows(each.curve, observed_roc(sketch, each.upper, each.lower))
    said = "; ".join(f"{each.curve}: AUC {each.auc(sketch):.3f}" for each in compared)
    if (recovered := recovered_roc(content.calibration)) is not None:
        rows += _roc_rows(RECOVERED, recovered)
        if content.auc is not None:
            said += f"; {RECOVERED}: AUC {content.auc:.3f}"
    alt = f"ROC curves. {said}."
    return Chart("roc", "ROC curves", alt, rows, ROC_COLUMNS, _draw_roc(compared), TALL)


def _roc_rows(name: str, curve: Roc) -> list[Row]:
    n = len(curve.x)
    return as_rows(i=range(n), curve=[name] * n, threshold=curve.threshold, x=curve.x, y=curve.y)


def _draw_roc(compared: Sequence[Comparison]) -> Callable[[Palette], Spec]:
    first = compared[0]
    lower = "negatives" if first.lower == NEGATIVE else f"{SETS[first.lower]} rows (negatives)"
    axis = {"format": "~%", "tickCount": 5}
    x = channel("x", f"{lower} above the threshold", axis=axis)
    y = channel("y", f"{SETS[first.upper]} rows (positives) above it", axis=axis)

    def draw(palette: Palette) -> Spec:
        colors = {
            each.curve: palette.known if each.lower == NEGATIVE else palette.labeled
            for each in compared
        }
        colors[RECOVERED] = palette.positive
        color = channel("curve", kind="nominal", legend={"columns": 1})
        color["scale"] = {"domain": list(colors), "range": list(colors.values())}
        return {"layer": _roc_layers(x, y, color, palette)}

    return draw


def _roc_layers(x: Spec, y: Spec, color: Spec, palette: Palette) -> list[Spec]:
    """The diagonal, the curves, and what a pointer is nearest to."""
    # An expression, as Vega-Lite loses the text among the fields of what is nearest
    near = "(datum.datum || datum)"
    parts = [f"'curve': {near}.curve"] + [
        f"'{ROC_COLUMNS[name]}': format({near}.{name}, '{form}')"
        for name, form in (("threshold", ".4~g"), ("y", ".1%"), ("x", ".1%"))
    ]
    return [
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
