"""The charts as files for papers: SVG, PNG, and a table of what they show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import UsageError
from .chart import PRINT, Chart

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
