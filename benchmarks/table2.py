"""The paper's table 2: univariate Gaussian and Laplace samples, no transform.

python benchmarks/table2.py --repeats 20
"""

from __future__ import annotations

from functools import partial

import numpy as np
import protocol

from pu_noise_cli.prior.base import Settings
from pu_noise_cli.score.sketch import Sketch

COLUMNS = {
    "elkan-noto": "elkan_noto",
    "alphamax": "alphamax",
    "alphamax-n": "alphamax_n",
    "msgmm": "msgmm",
}
SIZES = (100, 1000)


def work(
    label: str,
    repeat: int,
    row: protocol.Row,
    n_labeled: int,
    *,
    methods: list[str],
    laplace: str,
) -> dict[str, float]:
    """One repeat of one row."""
    rng = np.random.default_rng([repeat, *label.encode()])
    draw = protocol.univariate(row, n_labeled, laplace, rng)
    sketch = Sketch.from_samples(draw.labeled, draw.unlabeled)
    return protocol.errors(draw, sketch, methods, Settings())


def main() -> None:
    parser = protocol.arguments("Table 2 of the paper.")
    scales = list(protocol.LAPLACE_SCALES)
    parser.add_argument("--laplace", default=scales[0], choices=scales)
    options = parser.parse_args()
    methods = [*COLUMNS, *options.also]
    cells = {
        f"{row['family']} {row['delta_mu']} {row['alpha']} {row['beta']} {size}": (row, size)
        for size in SIZES
        for row in protocol.paper("table2")
    }
    tasks = [(c, repeat, *cells[c]) for c in cells for repeat in range(options.repeats)]
    job = partial(work, methods=methods, laplace=options.laplace)
    name = "-".join(["table2", options.laplace, "robust", *options.also])
    found = protocol.run(options.results / f"{name}.partial.jsonl", tasks, job, options.processes)
    lines = {
        label: protocol.Line(
            label.split(),
            {m: np.array([errors[m] for errors in found[label]]) for m in methods},
            {m: row[f"{column}_{size}"] for m, column in COLUMNS.items()},
        )
        for label, (row, size) in cells.items()
    }
    groups = {}
    for size in SIZES:
        of_size = {k: line for k, line in lines.items() if k.endswith(f" {size}")}
        overlapping = [line for k, line in of_size.items() if k.startswith("laplace 1 ")]
        groups |= {
            f"{size} labeled, identifiable rows": [
                line for k, line in of_size.items() if not k.startswith("laplace 1 ")
            ],
            f"{size} labeled, Gaussian rows": [
                line for k, line in of_size.items() if k.startswith("gaussian")
            ],
            f"{size} labeled, Laplace rows 1 apart": overlapping,
        }
    header = ["family", "Δμ", "α", "β", "labeled"]
    text = protocol.markdown(header, list(lines.values()), groups)
    title = f"Table 2, {options.repeats} repeats, {options.laplace} Laplaces, robust elbow"
    protocol.report(options.results / f"{name}.md", title, protocol.NOTE + text)


if __name__ == "__main__":
    main()
