"""How well the learned score ranks positives above negatives among the unlabeled rows.

python benchmarks/score.py --data DIRECTORY --repeats 10
python benchmarks/score.py --honest --repeats 50         # labeled rows against unlabeled positives

Draws by the protocol of the paper's table 1 (β 1, .95 and .75) from .parquet files with features
and y, scored by the default and by the one before it (the paper's networks; with at most 300
labels, logistic regression if its log-loss is lower). Area under the ROC curve, average precision
and error of α, with paired differences; processor time of the training.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import protocol
from scipy.stats import ks_2samp, kstest
from sklearn.metrics import average_precision_score, roc_auc_score

from pu_noise_cli.prior.base import ESTIMATORS, Settings
from pu_noise_cli.score.classifiers import CLASSIFIERS, Fit, Training, log_loss
from pu_noise_cli.score.model import fit_scaling
from pu_noise_cli.score.sketch import Sketch

BETAS = (1.0, 0.95, 0.75)
FIGURES = ("AUC", "AP", "α error", "seconds")
DEFAULT, EARLIER = "standard", "earlier default"


def fit(classifier: str, training: Training, seed: int) -> Fit:
    return CLASSIFIERS[classifier](training, seed, threads=1, progress=lambda share: None)


def earlier_default(training: Training, seed: int) -> Fit:
    """The default until November 2026, for tables of fewer than 1,000 features."""
    fits = [fit("networks", training, seed)]
    if training.labeled.sum() <= 300:
        fits.append(fit("logistic", training, seed))
    return min(fits, key=lambda one: log_loss(one.scores, training.labeled))


CANDIDATES = {EARLIER: earlier_default, DEFAULT: partial(fit, DEFAULT)}


def work(label: str, repeat: int, *, data: Path) -> dict[str, float]:
    """The figures of both scores on one draw."""
    name, beta = label.rsplit(" ", 1)
    rng = np.random.default_rng([repeat, *label.encode()])
    draw = protocol.real(data / f"{name}.parquet", float(beta), rng)
    features = np.concatenate([draw.labeled, draw.unlabeled])
    labeled = np.arange(len(features)) < len(draw.labeled)
    training = Training(fit_scaling(features).apply(features), labeled)
    found: dict[str, float] = {"labeled": int(labeled.sum())}
    for score, train in CANDIDATES.items():
        start = time.process_time()
        scores = train(training, repeat).scores
        seconds = time.process_time() - start
        sketch = Sketch.from_samples(scores[labeled], scores[~labeled])
        alpha = ESTIMATORS["auto"].estimate(sketch, Settings()).alpha
        y, of_unlabeled = draw.unlabeled_y, scores[~labeled]
        figures = (
            roc_auc_score(y, of_unlabeled),
            average_precision_score(y, of_unlabeled),
            abs(alpha - draw.alpha),
            seconds,
        )
        found |= {f"{score} {name}": v for name, v in zip(FIGURES, figures, strict=True)}
    return found


def table(title: str, results: list[dict[str, float]]) -> list[str]:
    """A row for each figure: both means, and the mean paired difference with its error."""
    lines = [f"\n{title}, {len(results)} draws\n"]
    lines += [f"| | {EARLIER} | {DEFAULT} | difference |", "|---|---|---|---|"]
    for figure in FIGURES:
        old, new = (np.array([r[f"{s} {figure}"] for r in results]) for s in CANDIDATES)
        change = new - old
        error = change.std(ddof=1) / len(change) ** 0.5 if len(change) > 1 else np.nan
        means = f"{old.mean():.4f} | {new.mean():.4f}"
        lines.append(f"| {figure} | {means} | {change.mean():+.4f} ± {error:.4f} |")
    return lines


def honesty(repeats: int) -> None:
    """P values of labeled against unlabeled positives must be uniform, if scores are honest."""
    p = []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        n_labeled = (100, 300, 1000)[seed % 3]
        y = np.arange(n_labeled + 4000) < n_labeled + 1000
        labeled = np.arange(len(y)) < n_labeled
        x = rng.normal(size=(len(y), 10)) + 0.7 * y[:, None] * (np.arange(10) < 5)
        x[:, 5] = np.abs(x[:, 5]) * (1 + 0.5 * y)  # differs by more than its mean
        training = Training(fit_scaling(x).apply(x), labeled)
        scores = fit(DEFAULT, training, seed).scores
        p.append(ks_2samp(scores[labeled], scores[~labeled & y]).pvalue)
    below = [int((np.array(p) < level).sum()) for level in (0.05, 0.1, 0.5)]
    uniform = kstest(p, "uniform").pvalue
    print(f"{repeats} draws: p < .05, .1, .5 in {below}; uniform by p = {uniform:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="directory of .parquet files with a column y")
    parser.add_argument("--repeats", type=int, default=10, help="of each set at each β")
    parser.add_argument("--honest", action="store_true", help="compare the positives' scores")
    parser.add_argument("--name", default="score", help="of the files in the results")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--results", type=Path, default=protocol.HERE / "results")
    options = parser.parse_args()
    if options.honest:
        honesty(options.repeats)
        return
    names = sorted(path.stem for path in options.data.glob("*.parquet"))
    tasks = [(f"{n} {b}", r) for n in names for b in BETAS for r in range(options.repeats)]
    partial_file = options.results / f"{options.name}.partial.jsonl"
    found = protocol.run(partial_file, tasks, partial(work, data=options.data), options.processes)
    lines = ["# How well the learned score ranks (benchmarks/score.py)"]
    results = [r for of_label in found.values() for r in of_label]
    for count in sorted({r["labeled"] for r in results}, reverse=True):
        chosen = [r for r in results if r["labeled"] == count]
        lines += table(f"{count:.0f} labeled rows", chosen)
    for name in names:
        lines += table(name, [r for b in BETAS for r in found[f"{name} {b}"]])
    document = "\n".join(lines) + "\n"
    print(document)
    (options.results / f"{options.name}.md").write_text(document)


if __name__ == "__main__":
    main()
