"""What a chart is: a Vega-Lite specification with its data, its text and a name for files.

And the parts that all charts are made of: fields, tooltips, and what a pointer does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .text import rounded

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
