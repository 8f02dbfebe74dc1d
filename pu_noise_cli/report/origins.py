"""The sections on where a result comes from: the data, the options, and the files."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from typing import Any

from .content import ColumnSummary, InputFile, ReportContent
from .frame import MAX_LISTED, table
from .text import Names, count, percent

KINDS_OF_COLUMNS = {"number": "numeric", "boolean": "true/false", "category": "categorical"}


def data_section(content: ReportContent, names: Names) -> str:
    """How many rows there are, and what the columns hold."""
    sketch = content.sketch
    labeled = "labeled as negatives" if content.prior.labeled_negatives else "labeled"
    sizes = {
        labeled: sketch.n_labeled,
        "unlabeled": sketch.n_unlabeled,
        "known negatives": sketch.n_negative,
    }
    rows = [[name, count(size)] for name, size in sizes.items() if size]
    text = table("Rows", ["set", "rows"], rows)
    if content.provenance is None:
        return text + "<p>Add <code>--provenance</code> for a summary of the columns.</p>"
    columns = content.provenance.columns
    gaps = sum(column.missing for column in columns)
    total = sum(column.values + column.missing for column in columns)
    kinds: dict[str, set[str]] = {}
    for column in columns:
        kind = KINDS_OF_COLUMNS.get(column.kind, "of another kind")
        kinds.setdefault(kind, set()).add(column.column)
    parts = ", ".join(f"{len(found)} {kind}" for kind, found in kinds.items())
    share = f" ({percent(gaps / total)} of all)" if gaps else ""
    text += (
        f"<p>{len({column.column for column in columns})} columns ({parts}); "
        f"{count(gaps)} missing values{share}.</p>"
    )
    return text + _columns_table(columns, names)


def _columns_table(columns: Sequence[ColumnSummary], names: Names) -> str:
    rows = [
        [
            names.html(column.column),
            names.html(column.table),
            names.html(column.kind),
            count(column.values),
            count(column.missing),
            "–" if column.levels is None else count(column.levels),
        ]
        for column in columns[:MAX_LISTED]
    ]
    head = ["column", "table", "kind", "values", "missing", "categories"]
    listed = table("Columns of the tables", head, rows, text_columns=3)
    return (
        f"<details><summary>All columns</summary>{listed}{_more(len(columns), 'lines')}</details>"
    )


def _more(found: int, what: str) -> str:
    if found <= MAX_LISTED:
        return ""
    return f"<p>{count(found - MAX_LISTED)} more {what} are in provenance.json.</p>"


def provenance_section(content: ReportContent, names: Names) -> str:
    """With what version and options the answer was made, and from which files."""
    prior, given = content.prior, content.provenance
    rows = [
        ["punoise", names.html(prior.version)],
        ["method", names.html(prior.method)],
        ["seed", str(prior.seed)],
    ]
    if prior.answer is not None and prior.answer.assumed is not None:
        rows.append(["assumed beforehand", names.html(prior.answer.assumed["words"], 500)])
    text = ""
    if given is not None:
        rows += [
            [f"option {names.html(name)}", names.html(_option_text(value), 200)]
            for name, value in list(given.options.items())[:MAX_LISTED]
            if name != "seed"
        ]
        text += _files("Inputs of the run", given.inputs, names)
        text += _command(given.options, names)
    if content.sources:
        text += _files("Files this report was made from", content.sources, names)
    if given is None:
        text += (
            "<p>Add <code>--provenance</code> with the provenance.json that <code>punoise run"
            "</code> wrote to list the inputs and options of the run.</p>"
        )
    return table("Versions and options", ["", ""], rows, text_columns=2) + text


def _files(caption: str, found: Sequence[InputFile], names: Names) -> str:
    rows = [
        [names.html(file.name), f"<code>{names.html(file.sha256, 64)}</code>"]
        for file in found[:MAX_LISTED]
    ]
    return table(caption, ["file", "SHA-256"], rows, text_columns=2) + _more(len(found), "files")


def _option_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_option_text, value))
    return str(value)


def _command(options: dict[str, Any], names: Names) -> str:
    words = " ".join(shlex.quote(word) for word in command_words(options))
    return f"<p>To repeat the run:</p><pre>{names.html(words, 1000)}</pre>"


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
