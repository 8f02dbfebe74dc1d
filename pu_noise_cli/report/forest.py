"""Forest plots: estimates with their intervals one below the other, of methods or of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..estimators import Estimate, Interval
from ..prior import Prior, lower_end
from .chart import Chart, Palette, Row, Spec, channel, pointed_at, shown_on_hover, tooltips, zooming
from .text import percent, percent_range, rounded, shortened

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
    def of(cls, label: str, share: str, estimate: Estimate | None, stressed: bool) -> ForestLine:
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
                ForestLine.of(method, share, estimate, method == prior.method)
                for method, estimate in prior.estimates.items()
            ],
        )
        for share, symbol in SYMBOLS.items()
    ]
