"""What the paper's tables share: its figures, its samples, repeats in parallel, and a table.

Finished repeats are kept in results/<name>.partial.jsonl, so that a run that was stopped goes on
where it was; the table goes to standard output and to results/<name>.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from pu_noise_cli.prior.base import ESTIMATORS, Samples, Settings
from pu_noise_cli.score.classifiers import CLASSIFIERS, Training
from pu_noise_cli.score.model import fit_scaling
from pu_noise_cli.score.sketch import Sketch

HERE = Path(__file__).parent
MAX_UNLABELED = 10_000
SIGNIFICANCE = 0.05

Row = dict[str, float | str]


def paper(table: str) -> list[Row]:
    """The rows of one of the paper's tables, with the mean absolute errors it reports."""
    return pd.read_csv(HERE / "paper" / f"{table}.csv").to_dict("records")


def rows_at_hand(table: str, data: Path) -> dict[str, Row]:
    """The rows of a table whose data set is in the directory, by a label."""
    return {
        f"{row['data']} {row['beta']}": row
        for row in paper(table)
        if (data / f"{row['data']}.parquet").exists()
    }


# Samples


@dataclass(frozen=True)
class Draw:
    """The features or the scores of both samples, and the classes they hide."""

    labeled: np.ndarray
    unlabeled: np.ndarray
    labeled_y: np.ndarray
    unlabeled_y: np.ndarray

    @property
    def alpha(self) -> float:
        return float(self.unlabeled_y.mean())


LAPLACE_SCALES = {"unit-variance": np.sqrt(0.5), "unit-scale": 1.0}


def univariate(row: Row, n_labeled: int, laplace: str, rng: np.random.Generator) -> Draw:
    """A draw of table 2: unit normals or Laplaces, positives delta_mu higher.

    The paper's text says Laplaces of unit scale. Its figures come from unit variance, and from
    samples that hold α and β exactly: its MSGMM column cannot be had otherwise (at Δμ = 2, 1,000
    labeled and β = 1 it has errors of .014, .027 and .068; plain EM has .012, .042 and .071 with
    unit variance, and .020, .117 and .442 with unit scale).
    """

    def sample(positive: np.ndarray) -> np.ndarray:
        n = len(positive)
        gaussian = row["family"] == "gaussian"
        noise = (
            rng.normal(size=n) if gaussian else rng.laplace(scale=LAPLACE_SCALES[laplace], size=n)
        )
        return noise + row["delta_mu"] * positive

    labeled_y = np.arange(n_labeled) < round(row["beta"] * n_labeled)
    unlabeled_y = np.arange(MAX_UNLABELED) < round(row["alpha"] * MAX_UNLABELED)
    return Draw(sample(labeled_y), sample(unlabeled_y), labeled_y, unlabeled_y)


@cache
def table(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The features, shape (n, d), and classes, shape (n,), of a data set."""
    frame = pd.read_parquet(path)
    return frame.drop(columns="y").to_numpy(np.float64), frame["y"].to_numpy() == 1


def real(path: Path, beta: float, rng: np.random.Generator) -> Draw:
    """A draw of table 1: 1,000 labeled rows, or 100 of a small set; the rest unlabeled."""
    features, y = table(path)
    n_labeled = 1000 if y.sum() >= 1000 else 100
    n_positive = round(beta * n_labeled)
    positive, negative = (rng.permutation(np.flatnonzero(y == side)) for side in (True, False))
    labeled = np.concatenate([positive[:n_positive], negative[: n_labeled - n_positive]])
    rest = np.concatenate([positive[n_positive:], negative[n_labeled - n_positive :]])
    unlabeled = rng.permutation(rest)[:MAX_UNLABELED]
    return Draw(features[labeled], features[unlabeled], y[labeled], y[unlabeled])


def scores(draw: Draw, classifier: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Out-of-bag scores of the labeled and of the unlabeled rows, by a classifier of the two."""
    features = np.concatenate([draw.labeled, draw.unlabeled])
    labeled = np.arange(len(features)) < len(draw.labeled)
    training = Training(fit_scaling(features).apply(features), labeled)
    train = CLASSIFIERS[classifier]
    found = train(training, seed=seed, threads=1, progress=lambda share: None).scores
    return found[labeled], found[~labeled]


def transformed(draw: Draw, classifier: str, seed: int) -> Sketch:
    """The sketch of those scores."""
    return Sketch.from_samples(*scores(draw, classifier, seed))


def errors(draw: Draw, sketch: Sketch, methods: list[str], settings: Settings) -> dict[str, float]:
    """The absolute error of α by each method."""
    samples = Samples(draw.labeled, draw.unlabeled)
    found = {}
    for name in methods:
        method = ESTIMATORS[name]
        data = sketch if method.needs == "scores" else samples
        found[name] = abs(method.estimate(data, settings).alpha - draw.alpha)
    return found


def real_draw(row: Row, repeat: int, data: Path) -> Draw:
    """The draw of one repeat of one row of table 1."""
    name, beta = str(row["data"]), float(row["beta"])
    rng = np.random.default_rng([repeat, round(100 * beta), *name.encode()])
    return real(data / f"{name}.parquet", beta, rng)


def errors_on_real_data(
    row: Row, repeat: int, methods: list[str], data: Path, classifier: str, settings: Settings
) -> dict[str, float]:
    """One repeat of one row of table 1."""
    draw = real_draw(row, repeat, data)
    return errors(draw, transformed(draw, classifier, repeat), methods, settings)


# Repeats


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that all tables have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=50, help="of each row (50 as in the paper)")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--also", nargs="*", default=[], choices=list(ESTIMATORS), metavar="METHOD")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    return parser


def real_data_arguments(description: str) -> argparse.ArgumentParser:
    """The options of the tables on real data."""
    parser = arguments(description)
    parser.add_argument("--data", type=Path, required=True, help="directory of <data>.parquet")
    parser.add_argument("--classifier", default="networks", choices=list(CLASSIFIERS))
    return parser


def run(
    partial: Path, tasks: list[tuple], work: Callable[..., dict[str, float]], processes: int
) -> dict[str, list[dict[str, float]]]:
    """work(*task) for each (label, repeat, ...), as lists of results by label, repeats in order."""
    partial.parent.mkdir(parents=True, exist_ok=True)
    finished: dict[tuple[str, int], dict[str, float]] = {}
    if partial.exists():
        for line in partial.read_text().splitlines():
            entry = json.loads(line)
            finished[entry["label"], entry["repeat"]] = entry["errors"]
    waiting = [task for task in tasks if task[:2] not in finished]
    workers = ProcessPoolExecutor(processes, initializer=threadpool_limits, initargs=(1,))
    with workers as pool, partial.open("a") as file:
        futures = {pool.submit(work, *task): task[:2] for task in waiting}
        for n, future in enumerate(as_completed(futures), 1):
            label, repeat = futures[future]
            finished[label, repeat] = future.result()
            entry = {"label": label, "repeat": repeat, "errors": finished[label, repeat]}
            print(json.dumps(entry), file=file, flush=True)
            print(f"\r{n} of {len(waiting)} repeats", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    results: dict[str, list[dict[str, float]]] = {}
    for label, repeat, *_ in tasks:
        results.setdefault(label, []).append(finished[label, repeat])
    return results


# The table


@dataclass(frozen=True)
class Line:
    """A row of the table: its cells, our errors by method (repeats,), and the paper's means."""

    cells: list[str]
    ours: dict[str, np.ndarray]
    papers: dict[str, float]


def winner(ours: dict[str, np.ndarray]) -> tuple[str, bool]:
    """The method with the least mean error, and whether it significantly beats each other one.

    As in the paper: P 0.05 with Bonferroni correction, here by paired t-tests.
    """
    from scipy.stats import ttest_1samp

    best = min(ours, key=lambda method: ours[method].mean())
    margins = [errors - ours[best] for method, errors in ours.items() if method != best]
    level = SIGNIFICANCE / len(margins)
    return best, all(np.ptp(x) > 0 and ttest_1samp(x, 0).pvalue < level for x in margins)


def markdown(header: list[str], lines: list[Line], groups: dict[str, list[Line]]) -> str:
    """Each method's mean error, ours / the paper's; the winner is bold, * if significantly so."""
    methods = list(lines[0].ours)

    def figure(line: Line, method: str) -> str:
        best, significant = winner(line.ours)
        shown = f"{line.ours[method].mean():.3f}"
        if method == best:
            shown = f"**{shown}**" + ("*" if significant else "")
        return shown + (f" / {line.papers[method]:.3f}" if method in line.papers else "")

    def mean(group: list[Line], method: str) -> str:
        shown = f"{np.mean([line.ours[method].mean() for line in group]):.4f}"
        papers = [line.papers[method] for line in group if method in line.papers]
        return shown + (f" / {np.mean(papers):.4f}" if papers else "")

    blank = [""] * (len(header) - 1)
    body = [[*line.cells, *(figure(line, m) for m in methods)] for line in lines]
    body += [
        [f"mean, {g}", *blank, *(mean(group, m) for m in methods)] for g, group in groups.items()
    ]
    body += [
        [
            f"rows won, {g}",
            *blank,
            *(str(sum(winner(x.ours)[0] == m for x in group)) for m in methods),
        ]
        for g, group in groups.items()
    ]
    table = [[*header, *methods], ["---"] * (len(header) + len(methods)), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in table) + "\n"


NOTE = (
    "Mean absolute error of alpha, ours / the paper's. Bold: least of ours; *: significantly.\n\n"
)


def report(path: Path, title: str, text: str) -> None:
    """Print a table and save it."""
    document = f"# {title}\n\n{text}"
    print(document)
    path.write_text(document)
