"""How often the one-sided 95 % bounds on the posterior at a score hold, on simulated samples.

python benchmarks/bounds.py --draws 500

The scores are of families that `auto` was not trained on, α and β from the prior it assumes, as in
sbc.py; the draws are those for which the default purity is true. Also: the lower bound of the top
tenth of the unlabeled rows, and the true likelihood ratio of rows called at a level of evidence.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pandas as pd
from accuracy import markdown
from sbc import sampled

from pu_noise_cli.calibration import calibrate, lr_bounds, posterior_bounds, replicates
from pu_noise_cli.estimation import estimate_prior
from pu_noise_cli.estimators import Settings
from pu_noise_cli.estimators.assumptions import PURITY, purity_asked

PLACES = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99)  # quantiles of the unlabeled rows
SLACKS = (0.01, 0.0)  # posteriors next to 0 and 1 are missed by less than decides anything
LEVEL = 5.0  # a likelihood ratio


def one(seed: int, index: int) -> dict[str, float]:
    """Whether the bounds of one sample hold at each place."""
    classes, problem = sampled(seed, index)
    sketch = problem.sketch
    cells = sketch.edges.astype(int)  # problems are on the cells of their classes
    f1, f0 = classes.positives[cells], classes.negatives[cells]
    with np.errstate(divide="ignore", invalid="ignore"):
        truth = problem.alpha * f1 / (problem.alpha * f1 + (1 - problem.alpha) * f0)
    prior = estimate_prior(sketch, "auto", Settings())
    calibration = calibrate(sketch, prior.shares(sketch)[0])
    copies = replicates(calibration, "isotonic", 0)
    low, high = posterior_bounds(calibration, copies, None)
    rank = np.cumsum(sketch.unlabeled) / sketch.n_unlabeled
    found = {"pure": problem.purity >= purity_asked(PURITY, sketch), "AUC": sketch.auc}
    for place in PLACES:
        cell = int(np.searchsorted(rank, place))
        for slack in SLACKS:
            found[f"low {place} {slack}"] = float(low[cell] <= truth[cell] + slack)
            found[f"high {place} {slack}"] = float(high[cell] >= truth[cell] - slack)
    top = (rank > 0.9) & np.isfinite(truth)
    weight = sketch.unlabeled * top + 1e-12
    found["bound of the top tenth"] = np.average(low, weights=weight)
    found["truth of the top tenth"] = np.average(np.nan_to_num(truth), weights=weight)
    called = (lr_bounds(calibration, copies)[0] >= LEVEL) & (sketch.unlabeled > 0)
    rows = sketch.unlabeled * called
    positives, negatives = rows @ np.nan_to_num(truth), rows @ (1 - np.nan_to_num(truth))
    odds = problem.alpha / (1 - problem.alpha)
    found["called"] = float(called.any())
    found["ratio holds"] = positives >= LEVEL * odds * negatives if called.any() else np.nan
    return found


def report(draws: pd.DataFrame) -> str:
    """How often bounds hold, by place, and the means of the rest."""
    table = {
        f"quantile {place}": {
            f"{name} bound holds within {slack}": draws[f"{key} {place} {slack}"].mean()
            for slack in SLACKS
            for key, name in (("low", "lower"), ("high", "upper"))
        }
        for place in PLACES
    }
    rest = draws[["bound of the top tenth", "truth of the top tenth", "called", "ratio holds"]]
    lines = [f"- {name}: {value:.3f}" for name, value in rest.mean().items()]
    title = f"# Bounds on posteriors, {len(draws)} draws\n"
    return "\n".join([title, markdown(table, "place"), *lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        draws = pd.DataFrame(pool.map(partial(one, options.seed), range(options.draws)))
    print(report(draws[draws["pure"]]))


if __name__ == "__main__":
    main()
