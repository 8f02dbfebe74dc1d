"""Pages: one HTML file with its texts, tables, charts, and the scripts that draw them."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import shlex
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..tables.writing import Provenance
from .charts import (
    MAX_NAME,
    MAX_TEXT,
    Chart,
    population,
    sample_charts,
    shortened,
    visible,
)
from .content import ReportContent, count, number, percent

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MAX_LISTED = 100  # columns, files, options and codes that are listed one by one
MAX_WARNINGS = 50
FULL_TEXT_BYTES = 150_000  # of all long names of a page together, so that it stays light


def render(content: ReportContent) -> str:
    """The page of one sample."""
    charts = sample_charts(content)
    provenance = content.provenance
    options = {} if provenance is None else _shown_options(provenance)
    proportions = {"α": content.alpha, "β": content.beta}
    return render_page(
        "sample.html",
        "punoise report",
        [chart for group in charts.values() for chart in group],
        **vars(content),
        charts=charts,
        population=population(content),
        wide=[symbol for symbol, proportion in proportions.items() if proportion.is_wide],
        columns=None if provenance is None else _column_totals(provenance),
        options=[(name, _option_text(value)) for name, value in options.items()][:MAX_LISTED],
        command=shlex.join(command_words(options)),
        max_warnings=MAX_WARNINGS,
    )


def render_page(template: str, title: str, drawn: list[Chart], **values: Any) -> str:
    """A page of charts, by a template that extends base.html."""
    scripts = [_asset("vega.js"), _asset("page.js")]
    # Only these two scripts may run, whatever a name in the data tries; Vega compiles expressions
    # of the specifications, which needs 'unsafe-eval'. Nothing may be fetched from anywhere.
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        f"form-action 'none'; script-src 'unsafe-eval' {' '.join(map(_source_hash, scripts))}"
    )
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            drawn=drawn,
            version=__version__,
            policy=policy,
            style=_asset("page.css"),
            scripts=scripts,
            name=Names().html,
            short_name=Names(budget=0).html,
            max_listed=MAX_LISTED,
            **values,
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["script_json"] = lambda value: _html(script_json(value))
    environment.filters |= {
        "percent": percent,
        "count": count,
        "number": number,
        "decimals": lambda value: "–" if value is None else f"{value:.4f}",
        "shortened": shortened,
        "base_name": base_name,
        "code_options": lambda text: _html(
            re.sub(r"--[a-z][a-z-]*", r"<code>\g<0></code>", escape(text))
        ),
    }
    return environment


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _source_hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _html(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(text)


# ---- Text and JSON from anywhere


def script_json(value: Any) -> str:
    """JSON for a script element: nothing in it ends the element or a line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


class Names:
    """Names from the data as HTML: isolated, on one line, and long ones in full behind a click.

    Full texts are kept until a budget of bytes is spent; later long names are only cut.
    """

    def __init__(self, budget: int = FULL_TEXT_BYTES) -> None:
        self.budget = budget

    def html(self, text: str, limit: int = MAX_NAME) -> Markup:
        short = f"<bdi>{escape(shortened(text, limit))}</bdi>"
        if len(text) <= limit and len(visible(text)) <= limit:
            return _html(short)
        full = f"<bdi>{escape(visible(text))}</bdi>"
        size = len(full.encode())
        if size > self.budget:
            return _html(f"{short} <small>({count(len(text))} characters)</small>")
        self.budget -= size
        cut = "" if len(text) <= MAX_TEXT else f" … ({count(len(text))} characters)"
        return _html(
            f'<details class="long"><summary>{short}</summary>'
            f'<div class="whole">{full}{cut}</div></details>'
        )


# ---- Provenance

COLUMN_KINDS = {"number": "numeric", "boolean": "true/false", "category": "categorical"}


def _column_totals(provenance: Provenance) -> dict[str, Any]:
    kinds: dict[str, set[str]] = {}
    for column in provenance.columns:
        kind = COLUMN_KINDS.get(column.kind or "", "of another kind")
        kinds.setdefault(kind, set()).add(column.column)
    missing = sum(column.missing for column in provenance.columns)
    values = sum(column.values for column in provenance.columns)
    return {
        "total": len({column.column for column in provenance.columns}),
        "kinds": ", ".join(f"{len(names)} {kind}" for kind, names in kinds.items()),
        "missing": missing,
        "missing_fraction": missing / max(missing + values, 1),
    }


def base_name(path: str) -> str:
    """A file's name without its directories, which differ between machines."""
    return Path(path).name or path


def _shown_options(provenance: Provenance) -> dict[str, Any]:
    """The options, files first and without their directories."""
    tables = [entry.table for entry in provenance.inputs]
    files = {name: base_name(v) for name, v in provenance.options.items() if v in tables}
    return files | {name: v for name, v in provenance.options.items() if name not in files}


def _option_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_option_text, value))
    return str(value)


def command_words(options: dict[str, Any]) -> list[str]:
    """The command line that gives `run` these options."""
    words = ["punoise", "run"]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if name == "transform" and value is False:
            words.append("--no-transform")
        elif value is True:
            words.append(option)
        elif isinstance(value, list | tuple):
            for item in value:
                words += [option, _comma_list(item)]
        elif value is not None and value is not False:
            words += [option, str(value)]
    return [*words, "--out-dir", "results"]


def _comma_list(item: Any) -> str:
    if not isinstance(item, list | tuple):
        return str(item)
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(item)
    return line.getvalue()
