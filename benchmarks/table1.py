"""The paper's table 1: twelve real data sets after the transform.

python benchmarks/table1.py --data DIRECTORY --repeats 5
"""

from __future__ import annotations

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


def main() -> None:
    options = protocol.real_data_arguments("Table 1 of the paper.").parse_args()
    methods = [*COLUMNS, *(m for m in options.also if m not in COLUMNS)]
    rows = protocol.rows_at_hand("table1", options.data)
    name = "-".join(["table1", options.classifier, "robust", *options.also])
    found = protocol.run(
        options.results / f"{name}.partial.jsonl",
        [(label, repeat, rows[label]) for label in rows for repeat in range(options.repeats)],
        partial(work, methods=methods, data=options.data, classifier=options.classifier),
        options.processes,
    )
    lines = [
        protocol.Line(
            [str(row["data"]), str(row["alpha"]), str(row["beta"])],
            {m: np.array([errors[m] for errors in found[label]]) for m in methods},
            {m: row[column] for m, column in COLUMNS.items()},
        )
        for label, row in rows.items()
    ]
    groups = {"all rows": lines} | {
        f"β = {beta}": [line for line in lines if line.cells[2] == beta]
        for beta in dict.fromkeys(line.cells[2] for line in lines)
    }
    text = protocol.markdown(["data", "α", "β"], lines, groups)
    title = f"Table 1, {options.repeats} repeats, {options.classifier}, robust elbow"
    protocol.report(options.results / f"{name}.md", title, protocol.NOTE + text)


if __name__ == "__main__":
    main()
