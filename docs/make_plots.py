"""Draws the plots of docs/results.md from the measurements in benchmarks/results/*.json.

Also draws the two mixtures of docs/concepts.md, which need no measurements.

python docs/make_plots.py            write the plots, their stamps, and the table to download
python docs/make_plots.py --check    exit with 1 if one is out of date (needs no further package)

Drawing needs the extra `report`. Text and axes take the color of the page that holds a plot.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
PLOTS = DOCS / "assets" / "results"
PAGE = DOCS / "results.md"
WIDTH = 330  # of the plotting area: with labels, text stays readable on a phone
INK, PAPER_DARK = "#010203", "#dddddd"  # the first becomes the color of the page's text
BLUE, ORANGE, GRAY, GREEN = "#3b7dd8", "#d9730d", "#8a94a3", "#2f9e6e"
Spec = dict[str, Any]


def measured(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def _values(rows: list[dict[str, Any]]) -> Spec:
    return {"values": rows}


def _x(field: str, title: str, form: str = "", **more: Any) -> Spec:
    axis = {"title": title, "format": form} if form else {"title": title}
    return {"field": field, "type": "quantitative", "axis": axis, **more}


def _y(field: str, order: list[str], title: str | None = None) -> Spec:
    # readers have other fonts than the one that labels are measured with
    axis = {"title": title, "minExtent": 7.2 * max(map(len, order))}
    return {"field": field, "type": "nominal", "sort": order, "axis": axis}


def _legend(field: str, colors: dict[str, str]) -> Spec:
    scale = {"domain": list(colors), "range": list(colors.values())}
    legend = {"orient": "top", "title": None}
    return {"field": field, "type": "nominal", "scale": scale, "legend": legend}


def _line_at(axis: str, value: float, **encoding: Any) -> Spec:
    mark = {"type": "rule", "strokeDash": [4, 3], "color": INK, "opacity": 0.7}
    return {"data": _values([{}]), "mark": mark, "encoding": {axis: {"datum": value, **encoding}}}


def _range(stratum: str) -> str:
    """'alpha 0.0085 to 0.045' as '0.0085-0.045'."""
    low, high = stratum.removeprefix("alpha ").split(" to ")
    if float(low) == 0:
        return f"below {high}"
    return f"above {low}" if float(high) == 1 else f"{low} to {high}"


# ---- Plots, each with the measurements it shows


def accuracy() -> Spec:
    document = measured("accuracy-twelve-sets")
    means = document["means"]
    order = sorted(means, key=lambda method: means[method]["error"])
    sets: dict[tuple[str, str], list[float]] = {}
    for row in document["rows"]:
        sets.setdefault((row["method"], row["set"]), []).append(row["error"])
    dots = [{"method": m, "error": sum(e) / len(e)} for (m, _), e in sets.items()]
    ours = [{"method": m, "error": v["error"], "mean": "mean, punoise"} for m, v in means.items()]
    paper = [
        {"method": m, "error": v["paper"], "mean": "mean, paper"}
        for m, v in means.items()
        if v["paper"] is not None
    ]
    color = _legend("mean", {"mean, punoise": BLUE, "mean, paper": ORANGE})
    x, y = _x("error", "mean absolute error of alpha (dots: the twelve sets)"), _y("method", order)
    mark = {"type": "point", "shape": "diamond", "size": 110, "strokeWidth": 2}
    return {
        "layer": [
            {
                "data": _values(dots),
                "mark": {"type": "circle", "color": GRAY, "size": 28, "opacity": 0.6},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": _values([*ours, *paper]),
                "mark": mark,
                "encoding": {"x": x, "y": y, "color": color, "shape": _shape("mean", color)},
            },
        ]
    }


def _shape(field: str, color: Spec) -> Spec:
    """Marks that differ in shape as they do in color."""
    domain = color["scale"]["domain"]
    scale = {
        "domain": domain,
        "range": ["diamond", "circle", "square", "triangle-up"][: len(domain)],
    }
    return {"field": field, "type": "nominal", "scale": scale, "legend": color["legend"]}


def field() -> Spec:
    rows = sorted(measured("field-methods")["rows"], key=lambda row: row["error"])
    kinds = {"clean_labels": "labels correct", "noisy_labels": "a quarter of the labels wrong"}
    points = [
        {"method": row["method"], "error": row[key], "labels": kind}
        for row in rows
        for key, kind in kinds.items()
    ]
    color = _legend("labels", dict(zip(kinds.values(), (BLUE, ORANGE), strict=True)))
    encoding = {
        "x": _x("error", "mean absolute error of alpha"),
        "y": _y("method", [row["method"] for row in rows]),
    }
    return {
        "data": _values(points),
        "layer": [
            {
                "mark": {"type": "line", "color": GRAY, "strokeWidth": 2},
                "encoding": {**encoding, "detail": {"field": "method"}},
            },
            {
                "mark": {"type": "point", "size": 70, "filled": True},
                "encoding": {**encoding, "color": color, "shape": _shape("labels", color)},
            },
        ],
    }


def coverage() -> Spec:
    names = {"field-coverage": "26 real tables", "simulated-coverage": "simulated samples"}
    rows = [
        {"alpha": _middle(row["stratum"]), "covered": row["covered"], "data": name}
        for file, name in names.items()
        for row in measured(file)["rows"]
        if row["stratum"] != "all"
    ]
    color = _legend("data", dict(zip(names.values(), (BLUE, ORANGE), strict=True)))
    encoding = {
        "x": {
            "field": "alpha",
            "type": "quantitative",
            "scale": {"type": "log", "domain": [0.002, 0.8]},
            "axis": {"title": "true alpha (log scale)", "values": [0.003, 0.01, 0.03, 0.1, 0.3]},
        },
        "y": {
            "field": "covered",
            "type": "quantitative",
            "scale": {"domain": [0.8, 1]},
            "axis": {"title": "intervals that contain alpha", "format": ".0%"},
        },
        "color": color,
    }
    return {
        "layer": [
            _line_at("y", 0.95, scale={"domain": [0.8, 1]}),
            {"data": _values(rows), "mark": "line", "encoding": encoding},
            {
                "data": _values(rows),
                "mark": {"type": "point", "size": 60, "filled": True},
                "encoding": {**encoding, "shape": _shape("data", color)},
            },
        ],
        "height": 190,
    }


def _middle(stratum: str) -> float:
    """A place on a log scale for a range of alpha; those from 0 start at 0.002, to 1 end at 0.6."""
    low, high = map(float, stratum.removeprefix("alpha ").split(" to "))
    return float((max(low, 0.002) * min(high, 0.6)) ** 0.5)


def selection() -> Spec:
    rows = measured("selection")["rows"]
    colors = {"auto": BLUE, "subclasses": GREEN, "DEDPUL": GRAY, "BBE": ORANGE}
    points = [
        {"ratio": row["ratio"], "method": method, "error": row[method]}
        for row in rows
        for method in colors
    ]
    covered = [
        {"ratio": row["ratio"], "method": method, "covered": row[f"{method}_covered"]}
        for row in rows
        for method in ("auto", "subclasses")
    ]
    color = _legend("method", colors)
    ratio = {
        "field": "ratio",
        "type": "ordinal",
        "sort": [row["ratio"] for row in rows],
        "axis": {"labelAngle": 0},
    }

    def panel(values: list[dict[str, Any]], y: Spec) -> Spec:
        return {
            "width": WIDTH * 0.42,
            "height": 170,
            "data": _values(values),
            "mark": {"type": "line", "point": {"size": 50}},
            "encoding": {
                "x": {**ratio, "title": "ratio of labeling rates"},
                "y": y,
                "color": color,
            },
        }

    error = _x("error", "mean absolute error of alpha")
    share = _x("covered", "intervals that contain alpha", ".0%", scale={"domain": [0, 1]})
    return {"hconcat": [panel(points, error), panel(covered, share)]}


def narrowing() -> Spec:
    verdicts = [
        {"case": f"20 verdicts, α {_range(row['stratum'])}", "kind": kind, "width": row[key]}
        for row in measured("field-verdicts")["rows"]
        if row["stratum"] != "all"
        for kind, key in (("without", "width"), ("with", "width_20_verdicts"))
    ]
    negatives = [
        {
            "case": f"{row['negatives']:,} negatives, α {row['alpha']:g}",
            "kind": kind,
            "width": row[key],
        }
        for row in measured("negatives")["rows"]
        for kind, key in (("without", "width"), ("with", "width_with"))
    ]
    rows = [*verdicts, *negatives]
    color = _legend("kind", {"without": ORANGE, "with": BLUE})
    encoding = {
        "x": _x("width", "mean width of the 95% interval of alpha"),
        "y": _y("case", list(dict.fromkeys(row["case"] for row in rows))),
    }
    return {
        "data": _values(rows),
        "width": WIDTH * 0.75,
        "layer": [
            {
                "mark": {"type": "line", "color": GRAY, "strokeWidth": 2},
                "encoding": {**encoding, "detail": {"field": "case"}},
            },
            {
                "mark": {"type": "point", "size": 70, "filled": True},
                "encoding": {**encoding, "color": color, "shape": _shape("kind", color)},
            },
        ],
    }


def fdr() -> Spec:
    kinds = {"of_all_calls": "of all calls together", "mean_of_draws": "mean over the draws"}
    rows = [
        {"alpha": _range(row["stratum"]), "kind": kind, "wrong": row[key]}
        for row in measured("field-fdr")["rows"]
        if row["stratum"] != "all"
        for key, kind in kinds.items()
    ]
    color = _legend("kind", dict(zip(kinds.values(), (BLUE, GRAY), strict=True)))
    return {
        "layer": [
            {
                "data": _values(rows),
                "mark": {"type": "point", "size": 70, "filled": True},
                "encoding": {
                    "x": _x("wrong", "negatives among rows called at an fdr of 5%", ".0%"),
                    "y": _y(
                        "alpha", list(dict.fromkeys(row["alpha"] for row in rows)), "true alpha"
                    ),
                    "color": color,
                    "shape": _shape("kind", color),
                },
            },
            _line_at("x", 0.05),
        ]
    }


def thresholds() -> Spec:
    kinds = {
        (True, True): "both reach the level",
        (False, False): "neither does",
        (True, False): "only punoise",
        (False, True): "only published",
    }
    rows = [
        {
            "predictor": row["predictor"],
            "level": row["level"].replace("_", " ").replace("Very", "Very "),
            "who": kinds[row["punoise"] is not None, row["published"] is not None],
        }
        for row in measured("thresholds")["rows"]
    ]
    levels = list(dict.fromkeys(row["level"] for row in rows))
    color = _legend("who", dict(zip(kinds.values(), (BLUE, "#c3cad3", ORANGE, GREEN), strict=True)))
    color["legend"] = {**color["legend"], "columns": 2}
    return {
        "data": _values(rows),
        "mark": {"type": "rect", "stroke": "white", "strokeWidth": 1},
        "encoding": {
            "x": {"field": "level", "sort": levels, "title": None, "axis": {"labelAngle": -45}},
            "y": _y("predictor", list(dict.fromkeys(row["predictor"] for row in rows))),
            "color": color,
        },
        "height": 260,
    }


def psms() -> Spec:
    rows = [
        {**row, "text": f"{row['accepted']:,} ({row['wrong']:.2%} wrong)"}
        for row in measured("psms")["rows"]
    ]
    color = _legend("tool", {"punoise": BLUE, "mokapot": GRAY})
    encoding = {
        "x": _x("accepted", "PSMs accepted at 1% FDR", "~s", scale={"domain": [0, 36000]}),
        "y": _y("files", ["easy", "medium", "hard"], "simulated files"),
        "yOffset": {"field": "tool", "sort": ["punoise", "mokapot"]},
    }
    return {
        "data": _values(rows),
        "layer": [
            {"mark": "bar", "encoding": {**encoding, "color": color}},
            {
                "mark": {"type": "text", "align": "left", "dx": 4, "color": INK},
                "encoding": {**encoding, "text": {"field": "text"}},
            },
        ],
    }


def scale() -> Spec:
    rows = measured("scale")["rows"]
    commands = dict.fromkeys(row["command"] for row in rows)
    color = _legend("command", dict(zip(commands, (BLUE, GREEN, ORANGE), strict=True)))

    def panel(field: str, title: str, scale: Spec) -> Spec:
        return {
            "width": WIDTH * 0.42,
            "height": 170,
            "data": _values(rows),
            "mark": {"type": "line", "point": {"size": 50}},
            "encoding": {
                "x": _x("rows", "rows", "~s", scale={"type": "log"}),
                "y": _x(field, title, scale=scale),
                "color": color,
            },
        }

    seconds = panel("seconds", "seconds (log scale)", {"type": "log"})
    return {"hconcat": [seconds, panel("megabytes", "memory in MB", {"domain": [0, 400]})]}


def mixtures() -> Spec:
    """Two Gaussian classes: both tables, and the posterior between them."""
    grid = [i / 20 for i in range(-60, 101)]
    shares = {"unlabeled rows (alpha 20%)": 0.2, "labeled rows (beta 95%)": 0.95}

    def density(x: float, mean: float) -> float:
        return math.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi)

    def panel(title: str, share: float) -> Spec:
        rows = [
            {"score": x, "class": name, "density": part * density(x, mean)}
            for x in grid
            for name, part, mean in (("positives", share, 2.0), ("negatives", 1 - share, 0.0))
        ]
        colors = _legend("class", {"positives": BLUE, "negatives": GRAY})
        y = {"field": "density", "type": "quantitative", "stack": "zero", "axis": None}
        return {
            "height": 80,
            "width": WIDTH,
            "title": {"text": title, "anchor": "start", "fontWeight": "normal", "color": INK},
            "data": _values(rows),
            "mark": "area",
            "encoding": {"x": _x("score", ""), "y": y, "color": colors},
        }

    posterior = [
        {"score": x, "posterior": 0.2 * density(x, 2) / (0.2 * density(x, 2) + 0.8 * density(x, 0))}
        for x in grid
    ]
    curve = {
        "height": 80,
        "width": WIDTH,
        "title": {"text": "posterior of an unlabeled row", "anchor": "start", "color": INK},
        "data": _values(posterior),
        "mark": {"type": "line", "color": BLUE},
        "encoding": {"x": _x("score", "score"), "y": _x("posterior", "", ".0%")},
    }
    curve["title"]["fontWeight"] = "normal"
    return {"vconcat": [*(panel(title, share) for title, share in shares.items()), curve]}


FIGURES: dict[Callable[[], Spec], tuple[str, ...]] = {
    accuracy: ("accuracy-twelve-sets",),
    field: ("field-methods",),
    coverage: ("field-coverage", "simulated-coverage"),
    selection: ("selection",),
    narrowing: ("field-verdicts", "negatives"),
    fdr: ("field-fdr",),
    thresholds: ("thresholds",),
    psms: ("psms",),
    scale: ("scale",),
    mixtures: (),
}


# ---- Files


def stamp(names: tuple[str, ...]) -> str:
    """How the figures of a plot were measured."""
    parts = []
    for document in map(measured, names):
        earlier = " · an earlier default" if document["earlier_default"] else ""
        parts.append(
            f"{document['command']} · version {document['version']}, commit {document['commit']}, "
            f"{document['date']} · {document['repeats']}{earlier}"
        )
    return f'<p class="stamp">{"<br>".join(parts)}</p>'


def digest(names: tuple[str, ...]) -> str:
    """Of the measurements and of this file, which together make a plot."""
    texts = [(RESULTS / f"{name}.json").read_bytes() for name in names]
    return hashlib.sha256(b"".join([*texts, Path(__file__).read_bytes()])).hexdigest()[:16]


def drawn(spec: Spec, mark: str) -> str:
    import vl_convert

    font = {"labelFontSize": 12, "titleFontSize": 12, "labelColor": INK, "titleColor": INK}
    config = {
        "background": None,
        "font": "sans-serif",
        "view": {"stroke": None},
        "axis": {
            **font,
            "titleFontWeight": "normal",
            "domainColor": INK,
            "tickColor": INK,
            "gridColor": GRAY,
            "gridOpacity": 0.25,
            "labelLimit": 300,
            "labelFlush": False,
            "tickCount": 6,
        },
        "legend": {**font, "symbolStrokeWidth": 2, "labelLimit": 300, "columnPadding": 40},
    }
    base = {} if {"hconcat", "vconcat"} & {*spec} else {"width": WIDTH}
    svg = vl_convert.vegalite_to_svg({**base, **spec, "config": config})
    svg = svg.replace(INK, "currentColor")
    style = f"@media (prefers-color-scheme: dark) {{ svg {{ color: {PAPER_DARK} }} }}"
    return svg.replace(">", f"><!-- {mark} --><style>{style}</style>", 1)


def table() -> str:
    """Errors on the twelve sets, and the means of published methods, to download."""
    document, peers = measured("accuracy-twelve-sets"), measured("peers-twelve-sets")
    ours = {row["method"] for row in document["rows"]}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["set", "alpha", "beta", "method", "error", "error_in_paper", "measured"])
    for row in document["rows"]:
        cells = [row[key] for key in ("set", "alpha", "beta", "method", "error", "paper")]
        writer.writerow([*cells, f"{document['commit']} {document['date']}"])
    for row in peers["rows"]:
        if row["method"] not in ours and row["beta"] is not None:
            cells = ["mean of the twelve", None, row["beta"], row["method"], row["error"], None]
            writer.writerow([*cells, f"{peers['commit']} {peers['date']}"])
    return out.getvalue()


def stamped(page: str) -> str:
    """The page with the stamp of each plot below it."""
    for figure, names in FIGURES.items():
        if not names:
            continue
        image = rf"\n!\[[^\]]*\]\(assets/results/{figure.__name__}\.svg\)\n"
        pattern = rf'({image})(?:<p class="stamp">.*</p>\n)?'
        page, count = re.subn(pattern, lambda m, names=names: f"{m[1]}{stamp(names)}\n", page)
        assert count == 1, f"results.md: no plot {figure.__name__}"
    return page


def outdated() -> list[str]:
    """What does not match the measurements."""
    page = PAGE.read_text(encoding="utf-8")
    found = [] if stamped(page) == page else [PAGE.name]
    for figure, names in FIGURES.items():
        file = PLOTS / f"{figure.__name__}.svg"
        if not file.exists() or digest(names) not in file.read_text(encoding="utf-8"):
            found.append(file.name)
    file = PLOTS / "accuracy.csv"
    if not file.exists() or file.read_text(encoding="utf-8") != table():
        found.append(file.name)
    return found


def main() -> None:
    if "--check" in sys.argv[1:]:
        if found := outdated():
            sys.exit(f"{', '.join(found)}: out of date; run make results")
        return
    PLOTS.mkdir(parents=True, exist_ok=True)
    for figure, names in FIGURES.items():
        svg = drawn(figure(), digest(names))
        (PLOTS / f"{figure.__name__}.svg").write_text(svg, encoding="utf-8")
    (PLOTS / "accuracy.csv").write_text(table(), encoding="utf-8")
    PAGE.write_text(stamped(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
