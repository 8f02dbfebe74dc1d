"""What a chart is: a Vega-Lite specification with its data, its text and a name for files.

And the parts that all charts are made of: fields, tooltips, and what a pointer does.

Forest plots: estimates with their intervals one below the other, of methods or of samples.

What is certain, what rests on an assumption, and what α's interval becomes under others.

The charts of scores: their distributions, ROC curves, and AlphaMax's likelihoods.

The charts of posteriors: their calibration, by score, and how many rows have which.

Evidence by score: the local posterior with its bounds, and where each level begins.

The charts as files for papers: SVG, PNG, and a table of what they show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ..errors import UsageError
from ..evidence.thresholds import Threshold, Thresholds
from ..numerics import FloatArray, IntArray
from ..posterior.calibration import posterior_at
from ..prior.base import Estimate, Interval
from ..prior.belief import purity_asked
from ..prior.document import MethodEstimate, Prior, ProfileCurve
from ..prior.estimation import CURVE_METHOD
from ..prior.summary import LITTLE, Wording, certainty, is_contradicted, lower_end
from ..score.sketch import Sketch
from ..tables.rows import LABELED, NEGATIVE, SETS, UNLABELED
from .content import (
    NBSP,
    POSTERIOR_BINS,
    PosteriorCurve,
    ReportContent,
    Roc,
    binned,
    curve_cells,
    number,
    observed_roc,
    percent,
    percent_range,
    posterior_counts,
    recovered_roc,
    reliability,
    rounded,
    score_bins,
    shortened,
)

Spec = dict[str, Any]
Row = dict[str, Any]
SMALL, MIDDLE, TALL = 190, 240, 300  # pixels
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
    known: str  # negatives


# The page's style sheet gives these their values, so that they follow its light and dark modes.
PAGE = Palette(*(f"var(--{each.name})" for each in fields(Palette)))
PRINT = Palette(
    *("#1c2430", "#5b6573", "#e3e7ec", "#1f6fbf", "#8e99a8", "#c2500a", "#1c2430", "#8a1c7c")
)


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


def channel(name: str, title: str | None = None, kind: str = "quantitative", **more: Any) -> Spec:
    """An encoding channel that shows a field."""
    return {"field": name, "type": kind, "title": title, **more}


def zooming(*encodings: str) -> Spec:
    """Pinch, or the wheel with Ctrl held, zooms; dragging moves; a double click goes back.

    A bare wheel must go on scrolling the page.
    """
    select = {"type": "interval", "encodings": list(encodings), "zoom": "wheel![event.ctrlKey]"}
    return {"name": "zoom", "select": select, "bind": "scales"}


def pointed_at(**more: Any) -> Spec:
    """What the pointer is at."""
    select = {"type": "point", "on": "pointerover", "clear": "pointerout", **more}
    return {"name": "hover", "select": select}


def nearest_to(*names: str) -> Spec:
    """What the pointer is nearest to, by these fields."""
    return pointed_at(nearest=True, fields=list(names))


def shown_on_hover(opacity: float = 1) -> Spec:
    """The opacity of a mark that only the pointer brings out."""
    return {"condition": {"param": "hover", "empty": False, "value": opacity}, "value": 0}


def tooltips(columns: dict[str, str], formats: dict[str, str]) -> list[Spec]:
    """A tooltip that lists fields by their headings; those that have a format are numbers."""
    return [
        {
            "field": name,
            "title": title,
            "type": "quantitative" if formats.get(name) else "nominal",
            **({"format": formats[name]} if formats.get(name) else {}),
        }
        for name, title in columns.items()
    ]


def as_rows(**columns: Any) -> list[Row]:
    """Columns of equal length to rows, numbers rounded to what a chart needs."""
    return [
        {k: rounded(v) if isinstance(v, float) else v for k, v in zip(columns, row, strict=True)}
        for row in zip(
            *(c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()), strict=True
        )
    ]


STEP = 26  # the height of a line in pixels
MOST_SAID = 12  # lines that are in the text of a chart
NO_ESTIMATE = "failed: no estimate"
SYMBOLS = {"alpha": "α", "beta": "β"}


@dataclass(frozen=True)
class ForestLine:
    """One line of a forest plot; a sample that failed has no value."""

    label: str
    value: float | None
    interval: Interval | None = None
    stressed: bool = False

    @classmethod
    def of(
        cls, label: str, share: str, estimate: Estimate | MethodEstimate | None, stressed: bool
    ) -> ForestLine:
        """The line of alpha or beta by an estimate, if there is one."""
        if estimate is None:
            return cls(label, None)
        return cls(label, getattr(estimate, share), getattr(estimate, f"{share}_ci"), stressed)

    @property
    def said(self) -> str:
        """The estimate in words."""
        if self.value is None:
            return NO_ESTIMATE
        interval = f" ({percent_range(self.interval)})" if self.interval else ""
        return percent(self.value) + interval


def forest(name: str, title: str, symbol: str, lines: Sequence[ForestLine]) -> Chart:
    """Estimates with their intervals, one below the other."""
    labels = _distinct([shortened(line.label, 40) for line in lines])
    said = "; ".join(f"{line.label[:40]}: {line.said}" for line in lines[:MOST_SAID])
    rest = "" if len(lines) <= MOST_SAID else f"; and {len(lines) - MOST_SAID} more"
    rows: list[Row] = []
    for label, line in zip(labels, lines, strict=True):
        low, high = (lower_end(line.interval), line.interval[1]) if line.interval else (None, None)
        values = {"value": line.value, "low": low, "high": high}
        shown = {name: None if value is None else rounded(value) for name, value in values.items()}
        rows.append({"label": label, **shown, "said": line.said, "stressed": line.stressed})
    return Chart(
        name,
        title,
        f"{title}. {said}{rest}.",
        rows,
        {"label": "name", "value": symbol, "low": "from", "high": "to"},
        _draw_forest(symbol, labels, any(line.value is None for line in lines)),
        STEP * len(rows),
    )


def _draw_forest(symbol: str, labels: list[str], with_failed: bool) -> Callable[[Palette], Spec]:
    y = channel("label", kind="nominal", sort=None, scale={"domain": labels})
    y["axis"] = {"labelLimit": 150, "grid": False, "ticks": False, "domain": False}
    # a little wider than [0, 1], so that estimates at its ends are drawn whole
    scale = {"domain": [-0.02, 1.02], "nice": False}
    x: Spec = {"scale": scale, "axis": {"format": "~%", "tickCount": 5}, "title": symbol}

    def draw(palette: Palette) -> Spec:
        color = {
            "condition": {"test": "datum.stressed", "value": palette.positive},
            "value": palette.faint,
        }
        # in words, as Vega would write 0 % where there is no number
        tooltip = tooltips({"label": "name", "said": symbol}, {})
        failed = {
            "transform": [{"filter": "datum.value === null"}],
            "mark": {"type": "text", "align": "left", "fontSize": 12, "color": palette.faint},
            "encoding": {"x": {"datum": 0, **x}, "text": {"value": NO_ESTIMATE}},
        }
        return {
            "encoding": {"y": y},
            "layer": [
                {
                    "params": [pointed_at()],
                    "mark": {"type": "rect", "color": palette.ink},
                    "encoding": {"opacity": shown_on_hover(0.08), "tooltip": tooltip},
                },
                {
                    "params": [zooming("x")],
                    "transform": [{"filter": "datum.low !== null"}],
                    "mark": {"type": "rule", "strokeWidth": 3, "strokeCap": "round"},
                    "encoding": {
                        "x": channel("low", **x),
                        "x2": {"field": "high"},
                        "color": color,
                        "tooltip": tooltip,
                    },
                },
                {
                    "transform": [{"filter": "datum.value !== null"}],
                    "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
                    "encoding": {"x": channel("value", **x), "color": color, "tooltip": tooltip},
                },
                *([failed] if with_failed else []),
            ],
        }

    return draw


def _distinct(labels: Iterable[str]) -> list[str]:
    """Labels made distinct by a number where several are the same."""
    distinct: dict[str, None] = {}
    for label in labels:
        found, number = label, 1
        while found in distinct:
            number += 1
            found = f"{label} ({number})"
        distinct[found] = None
    return list(distinct)


def methods(prior: Prior) -> list[Chart]:
    """α and β by each method that ran."""
    if not prior.estimates:
        return []
    return [
        forest(
            f"methods-{share}",
            f"{symbol} by method",
            symbol,
            [
                ForestLine.of(estimate.method, share, estimate, estimate.method == prior.method)
                for estimate in prior.estimates
            ],
        )
        for share, symbol in SYMBOLS.items()
    ]


TITLE = "What α's interval becomes if more is assumed"
FEWEST, MOST = 3, 100  # purities that make a curve, and that are drawn of a document's
SENSITIVITY_COLUMNS = {"purity": "assumed: at least", "low": "α from", "high": "to"}


def _percent_of(share: float, digits: int) -> str:
    """A share of so many decimals in per cent, where more than one decimal says too much."""
    return f"{100 * share:.{min(max(digits - 2, 0), 1)}f}{NBSP}%"


REPORT = Wording("α", "β", _percent_of)


def certainty_list(prior: Prior) -> str:
    """What is certain, what is likely and what would narrow it, a line each."""
    said = certainty(prior, REPORT)
    lines = {
        "Certain, at 95&nbsp;% confidence": said.get("sure"),
        "Likely": _likely(prior, said.get("given")),
        "To narrow it": said.get("next"),
    }
    items = "".join(
        f"<li><strong>{name}:</strong> {text.replace('--purity', '<code>--purity</code>')}.</li>\n"
        for name, text in lines.items()
        if text is not None
    )
    return f'<ul class="certainty">{items}</ul>' if items else ""


def _likely(prior: Prior, given: str | None) -> str | None:
    """What the intervals rest on; nothing of intervals that leave everything open."""
    answer = prior.answer
    if answer is None or answer.alpha_ci is None or not answer.draws:
        return None
    if given is not None:
        return f"the 95{NBSP}% intervals above, given {given}"
    if answer.assumed is None:
        return f"the 95{NBSP}% intervals above, which reflect sampling error only"
    end = "lowest-scoring" if prior.labeled_negatives else "best-scoring"
    return f"the 95{NBSP}% intervals above, which assume nothing of the {end} rows"


# The chart


def sensitivity(content: ReportContent) -> list[Chart]:
    """The ends of α's interval by the purity assumed, where there are enough of them to draw."""
    answer, prior = content.answer, content.prior
    if answer.assumed is None or not answer.draws or not content.calibration.shares.from_these_rows:
        return []
    # where scores separate little, less is assumed than is stated
    sketch = content.sketch.mirrored() if prior.labeled_negatives else content.sketch
    by_purity = {
        purity_asked(stated, sketch): (lower_end((low, high)), high)
        for stated, low, high in answer.assumed.sensitivity
    }
    if len(by_purity) < FEWEST:
        return []
    purity = answer.assumed.purity
    used = 0.0 if is_contradicted(prior) or purity < LITTLE else purity
    if used and answer.alpha_ci is not None:
        by_purity[used] = lower_end(answer.alpha_ci), answer.alpha_ci[1]
    purities = sorted(by_purity)
    rows = as_rows(
        purity=purities,
        low=[by_purity[purity][0] for purity in purities],
        high=[by_purity[purity][1] for purity in purities],
    )[:: -(-len(purities) // MOST)]
    end = "lowest-scoring" if prior.labeled_negatives else "best-scoring"
    alt = (
        f"The 95 % interval of α by the least share of {prior.labeled_class}s assumed among the "
        f"{end} unlabeled rows: {_sensitivity_in_words(rows[0])}; "
        f"{_sensitivity_in_words(rows[-1])}."
    )
    if used:
        alt += f" Assumed here: {percent(used)}."
    axis = f"least share of {prior.labeled_class}s assumed at the "
    axis += "bottom" if prior.labeled_negatives else "top"
    return [
        Chart(
            "assumption",
            TITLE,
            alt,
            rows,
            SENSITIVITY_COLUMNS,
            _draw_sensitivity(rounded(used), axis),
            MIDDLE,
        )
    ]


def _sensitivity_in_words(row: Row) -> str:
    return f"{percent_range((row['low'], row['high']))} at {percent(row['purity'])}"


def sensitivity_text(content: ReportContent) -> str:
    """The chart in two sentences."""
    assert content.answer.assumed is not None
    purity = content.answer.assumed.purity
    least = f"at least {_percent_of(purity, 2)}"
    if is_contradicted(content.prior):
        here = f"That {least} of them are contradicts the scores and was not used"
    elif purity >= LITTLE:
        here = f"This result assumes {least} (the dashed line)"
    else:
        here = "This result assumes nothing of them (the left end)"
    best, then = "best", "the higher the least share α can have"
    if content.prior.labeled_negatives:
        best, then = "lowest-scoring", "the lower the largest share α can have"
    return (
        f"<p>The more of the unlabeled rows that score like your {best} labeled ones you know to "
        f"be {content.prior.labeled_class}, {then}. {here}; if you know better, for example "
        "because you followed up some of these rows, state it with <code>--purity</code>.</p>"
    )


def _draw_sensitivity(used: float, axis: str) -> Callable[[Palette], Spec]:
    """A band over the purities, with a line at the one that was used unless it is none."""
    x = channel("purity", axis)
    x["axis"] = {"format": "~%", "grid": False, "tickCount": 5}
    y: Spec = {"axis": {"format": "~%", "tickCount": 5}, "scale": {"zero": True}}
    names = {"high": "upper end", "low": "lower end"}
    here, title = "assumed here", "95 % interval of α"

    def draw(palette: Palette) -> Spec:
        colors = dict(zip(names.values(), (palette.unlabeled, palette.positive), strict=True))
        if used:
            colors[here] = palette.labeled
        scale = {"domain": list(colors), "range": list(colors.values())}
        band = {
            "mark": {"type": "area", "color": palette.positive, "opacity": 0.22},
            "encoding": {"x": x, "y": channel("low", title, **y), "y2": {"field": "high"}},
        }
        lines: list[Spec] = [
            {
                "params": [zooming("x")] if name == "low" else [],
                "mark": {"type": "line", "strokeWidth": 2.2},
                "encoding": {
                    "x": x,
                    "y": channel(name, title, **y),
                    "color": {"datum": label, "scale": scale},
                },
            }
            for name, label in names.items()
        ]
        mark = {
            "data": {"values": [{"purity": used}]},
            "mark": {"type": "rule", "strokeWidth": 2, "strokeDash": [6, 4]},
            "encoding": {"x": x, "color": {"datum": here, "scale": scale}},
        }
        pointer = {
            "params": [nearest_to("purity")],
            "mark": {"type": "rule", "strokeWidth": 1},
            "encoding": {
                "x": x,
                "color": {"value": palette.ink},
                "opacity": shown_on_hover(0.6),
                "tooltip": tooltips(SENSITIVITY_COLUMNS, dict.fromkeys(SENSITIVITY_COLUMNS, ".1%")),
            },
        }
        return {"layer": [band, *lines, *([mark] if used else []), pointer]}

    return draw


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
        if prior.curves and name in prior.curves and prior.curves[name].proportion
    ]


def _likelihood(prior: Prior, name: str, curve: ProfileCurve, elbow: Estimate | None) -> Chart:
    title, symbol = DIRECTIONS[name]
    order = np.argsort(curve.proportion, kind="stable")
    order = order[:: -(-len(order) // MOST_POINTS)]
    proportion, value = (np.array(x)[order] for x in (curve.proportion, curve.log_likelihood))
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


EVIDENCE_COLUMNS = {
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
    low, high = found.bounds.at(found.prior)
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
            alt=_evidence_in_words(found),
            rows=sorted(rows, key=lambda row: float(row["score"])),
            columns=EVIDENCE_COLUMNS,
            draw=_draw_evidence(content, found),
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


def _evidence_in_words(found: Thresholds) -> str:
    said = "; ".join(f"{one.level.code} {_begins(found, one)}" for one in found.levels)
    return f"The posterior by score with one-sided 95 % bounds, and where levels begin: {said}."


def _draw_evidence(content: ReportContent, found: Thresholds) -> Callable[[Palette], Spec]:
    title = "score" if content.provenance is None else content.provenance.score_column or "score"
    x = channel("score", shortened(title), scale={"zero": False, "nice": False})
    x["axis"] = {"grid": False, "format": "~g"}
    axis = {"labelExpr": AS_SHARE, "values": _log_odds(np.array(TICKS)).tolist()}
    said = "probability of being positive"

    def y(name: str) -> Spec:
        return channel(f"{name}_odds", said, axis=axis, scale={"zero": False})

    band = {"x": x, "y": y("low"), "y2": {"field": "high_odds"}}
    formats = {name: ".4~g" if name == "score" else ".3~p" for name in EVIDENCE_COLUMNS}

    def draw(palette: Palette) -> Spec:
        pointer = {
            "params": [nearest_to("score")],
            "mark": {"type": "rule", "strokeWidth": 1},
            "encoding": {
                "x": x,
                "color": {"value": palette.ink},
                "opacity": shown_on_hover(0.6),
                "tooltip": tooltips(EVIDENCE_COLUMNS, formats),
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


WIDTH = 460  # pixels
PNG_SCALE = 3


def converter() -> Any:
    """The module that draws charts without a browser, which only the `report` extra brings."""
    try:
        import vl_convert
    except ImportError:
        raise UsageError("--figures needs another package: pip install 'punoise[report]'") from None
    return vl_convert


def images(charts: Iterable[Chart]) -> list[tuple[str, bytes]]:
    """Each chart as an SVG and a PNG file: names and contents."""
    convert = converter()
    files: list[tuple[str, bytes]] = []
    for chart in charts:
        svg = convert.vegalite_to_svg(chart.spec(PRINT, WIDTH))
        files.append((f"{chart.name}.svg", svg.encode()))
        files.append((f"{chart.name}.png", convert.svg_to_png(svg, scale=PNG_SCALE)))
    return files


def summary(charts: Iterable[Chart]) -> list[tuple[str, str, str, str]]:
    """What the charts show, one value a row: the figure, its row, the quantity, the value."""
    return [
        (chart.name, str(number), heading, "" if row[field] is None else str(row[field]))
        for chart in charts
        for number, row in enumerate(chart.rows, start=1)
        for field, heading in chart.columns.items()
    ]
