"""Simulation-based calibration of `auto`: how often its intervals hold what they say.

python benchmarks/sbc.py --draws 4000
python benchmarks/sbc.py --draws 2000 --weak

α and β are drawn from the prior it assumes; the scores are of families that it was not trained on:
half are densities of other shapes, half come from classifiers of other kinds. By default; with a
purity of the top, among the draws for which it is true; and with a range of α and one of β, among
the draws that are in them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import simulator
from accuracy import FAMILIES, left_out, markdown

from pu_noise_cli.prior.base import ESTIMATORS, Settings
from pu_noise_cli.prior.bound import limits

STRATA = {
    "AUC": [0, 0.6, 0.7, 0.8, 1],
    "labeled": [0, 200, 1000, np.inf],
    "unlabeled": [0, 1000, 5000, np.inf],
    "estimate": [0, 0.05, 0.15, 0.3, 1],
    "alpha": [0, 0.01, 0.05, 0.3, 1],
}
PURITY = 0.3
ALPHA_RANGE, BETA_RANGE = (0.05, 0.5), (0.8, 1.0)
BINS = 10  # of the rank of the truth

Rng = np.random.Generator


def other_classifier(n: int, rng: Rng) -> Any:
    """Of a kind that no score in the training comes from."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.neural_network import MLPClassifier

    kind, seed = rng.integers(3), int(rng.integers(2**31))
    if kind == 0:
        return LinearDiscriminantAnalysis()
    if kind == 1:
        return ExtraTreesClassifier(
            40, min_samples_leaf=int(rng.integers(2, 10)), random_state=seed
        )
    return MLPClassifier((20,), alpha=1.0, max_iter=30, early_stopping=n > 500, random_state=seed)


def plausible(rng: Rng, weak: bool = False) -> tuple[simulator.Classes, tuple[int, int]]:
    """Classes of a left-out family, as often as they are met, and sizes of samples."""
    while True:
        if weak:
            task = simulator.learned(rng, other_classifier, weak=True)
            return task.classes, simulator.sizes_like(task, rng, 20)
        if rng.random() < 0.5:
            task = simulator.learned(rng, other_classifier)
            classes, sizes = task.classes, simulator.sizes_like(task, rng)
        else:
            shapes = left_out(str(rng.choice(FAMILIES)), rng)
            classes = simulator.scored(shapes.negatives, shapes.positives, rng)
            sizes = simulator.draw_sizes(rng)
        if rng.random() < classes.plausibility:
            return classes, sizes


def sampled(
    seed: int, index: int, weak: bool = False
) -> tuple[simulator.Classes, simulator.Problem]:
    """Classes of a left-out family, and samples of them."""
    rng = np.random.default_rng([seed, index])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a classifier that did not converge is as good as any
        classes, sizes = plausible(rng, weak)
    return classes, simulator.draw(classes, *simulator.draw_shares(rng), *sizes, rng)


def one(seed: int, weak: bool, index: int) -> dict[str, float]:
    """The truth and what is said of it."""
    _, problem = sampled(seed, index, weak)
    sketch = problem.sketch
    found = {
        "alpha": problem.alpha,
        "beta": problem.beta,
        "pure": problem.purity >= PURITY,
        "AUC": sketch.auc,
        "labeled": sketch.n_labeled,
        "unlabeled": sketch.n_unlabeled,
    }
    for name, settings in {
        "nothing": Settings(),
        "purity": Settings(purity=PURITY),
        "ranges": Settings(alpha_between=ALPHA_RANGE, beta_between=BETA_RANGE),
    }.items():
        estimate = ESTIMATORS["auto"].estimate(sketch, settings)
        found |= {
            f"{name} estimate": estimate.alpha,
            f"{name} low": estimate.alpha_ci[0],
            f"{name} high": estimate.alpha_ci[1],
            f"{name} beta low": estimate.beta_ci[0],
            f"{name} beta high": estimate.beta_ci[1],
            f"{name} rank": np.mean([alpha < problem.alpha for alpha, _ in estimate.draws]),
        }
    alpha_max, beta_min = limits(sketch)
    found["alpha_max holds"] = problem.alpha <= alpha_max
    found["beta_min holds"] = problem.beta >= beta_min
    return found


def figures(draws: pd.DataFrame, name: str) -> dict[str, float]:
    """How often the truth is inside, below and above the intervals."""
    below, above = draws["alpha"] < draws[f"{name} low"], draws["alpha"] > draws[f"{name} high"]
    beta = draws["beta"].between(draws[f"{name} beta low"], draws[f"{name} beta high"])
    return {
        "draws": len(draws),
        "covered": 1 - (below | above).mean(),
        "α below": below.mean(),
        "α above": above.mean(),
        "width": (draws[f"{name} high"] - draws[f"{name} low"]).mean(),
        "β covered": beta.mean(),
    }


def report(draws: pd.DataFrame) -> str:
    """Coverage overall and in strata, and the histogram of the ranks, for each assumption."""
    parts = ["# Calibration of the belief\n"]
    for name, rows in {
        "nothing": draws,
        "purity": draws[draws["pure"]],
        "ranges": draws[draws["alpha"].between(*ALPHA_RANGE) & draws["beta"].between(*BETA_RANGE)],
    }.items():
        table = {"all": figures(rows, name)}
        for column, edges in STRATA.items():
            values = rows[f"{name} estimate" if column == "estimate" else column]
            for low, high in itertools.pairwise(edges):
                inside = (values >= low) & (values < high)
                if inside.any():
                    table[f"{column} {low:g} to {high:g}"] = figures(rows[inside], name)
        counts, _ = np.histogram(rows[f"{name} rank"], BINS, (0, 1))
        shares = " ".join(f"{share:.3f}" for share in counts / len(rows))
        parts += [f"## Assuming {name}\n", markdown(table, "stratum"), f"Ranks: {shares}\n"]
    holds = draws[["alpha_max holds", "beta_min holds"]].mean()
    parts.append(f"alpha_max holds in {holds.iloc[0]:.4f}, beta_min in {holds.iloc[1]:.4f}\n")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--weak", action="store_true", help="tables like those of biology")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        job = partial(one, options.seed, options.weak)
        draws = pd.DataFrame(pool.map(job, range(options.draws), chunksize=50))
    print(report(draws))


if __name__ == "__main__":
    main()
