"""The paper's table 1: twelve real data sets after the transform.

python benchmarks/table1.py --data DIRECTORY --repeats 5
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
import protocol

from pu_noise_cli.prior.base import Settings

COLUMNS = {
    "elkan-noto": "elkan_noto",
    "alphamax": "alphamax",
    "alphamax-n": "alphamax_n",
    "msgmm": "msgmm_t",
}


def work(
    label: str,
    repeat: int,
    row: protocol.Row,
    *,
    methods: list[str],
    data: Path,
    classifier: str,
) -> dict[str, float]:
    """One repeat of one row."""
    return protocol.errors_on_real_data(row, repeat, methods, data, classifier, Settings())


def main(table: str = "table1", columns: dict[str, str] = COLUMNS) -> None:
    title = f"Table {table[-1]}"
    options = protocol.real_data_arguments(f"{title} of the paper.").parse_args()
    methods = [*columns, *(m for m in options.also if m not in columns)]
    rows = protocol.rows_at_hand(table, options.data)
    found = protocol.run(
        options.results / f"{name(table, options)}.partial.jsonl",
        [(label, repeat, rows[label]) for label in rows for repeat in range(options.repeats)],
        partial(work, methods=methods, data=options.data, classifier=options.classifier),
        options.processes,
    )
    lines = [
        protocol.Line(
            [str(row["data"]), str(row["alpha"]), str(row["beta"])],
            {m: np.array([errors[m] for errors in found[label]]) for m in methods},
            {m: row[column] for m, column in columns.items()},
        )
        for label, row in rows.items()
    ]
    groups = {"all rows": lines} | {
        f"β = {beta}": [line for line in lines if line.cells[2] == beta]
        for beta in dict.fromkeys(line.cells[2] for line in lines)
    }
    text = protocol.markdown(["data", "α", "β"], lines, groups)
    title += f", {options.repeats} repeats, {options.classifier}, robust elbow"
    protocol.report(options.results / f"{name(table, options)}.md", title, protocol.NOTE + text)


def name(table: str, options: argparse.Namespace) -> str:
    """Of the results of these options."""
    return "-".join([table, options.classifier, "robust", *options.also])


if __name__ == "__main__":
    main()
