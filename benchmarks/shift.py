"""Alpha of a new sample without labels: does its interval hold the truth, and is it worth it?

python benchmarks/shift.py --repeats 100

Scores of positives are normal around `separation`, those of negatives around 0; where a score is
learned, five features are, and logistic regression learns from the training rows. The new rows have
another fraction of positives. Coverage of the 95% interval, mean absolute error, and that of taking
the training rows' alpha for the new rows.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from pu_noise_cli.prior.auto import DRAWS, believe
from pu_noise_cli.prior.base import Settings
from pu_noise_cli.prior.shift import shifted_alpha
from pu_noise_cli.score.classifiers import CLASSIFIERS, Training
from pu_noise_cli.score.model import fit_scaling
from pu_noise_cli.score.sketch import Sketch

FEATURES = 5


class Setting(NamedTuple):
    """How rows are drawn."""

    alpha: float  # of the training rows
    new_alpha: float
    beta: float
    labeled: int
    unlabeled: int
    new: int
    separation: float
    learned: bool = False


SETTINGS = (
    Setting(0.20, 0.50, 0.95, 500, 5000, 2000, 2.5),
    Setting(0.40, 0.10, 0.95, 500, 5000, 2000, 2.5),
    Setting(0.05, 0.25, 0.90, 300, 5000, 1000, 2.0),
    Setting(0.30, 0.02, 1.00, 1000, 10000, 5000, 2.0),
    Setting(0.10, 0.40, 0.80, 200, 2000, 500, 3.0),
    Setting(0.50, 0.20, 0.95, 300, 3000, 3000, 1.5),
    Setting(0.20, 0.50, 0.95, 500, 4000, 2000, 2.5, learned=True),
    Setting(0.30, 0.10, 0.90, 300, 3000, 1000, 2.0, learned=True),
)


def draw(setting: Setting, seed: int) -> tuple[Sketch, np.ndarray, float]:
    """Training scores, new scores, and the fraction of positives among the new rows."""
    rng = np.random.default_rng(seed)
    sizes = (setting.labeled, setting.unlabeled, setting.new)
    shares = np.repeat([setting.beta, setting.alpha, setting.new_alpha], sizes)
    y = rng.random(len(shares)) < shares
    d = FEATURES if setting.learned else 1
    x = rng.normal(size=(len(y), d)) + y[:, None] * setting.separation / np.sqrt(d)
    n = setting.labeled + setting.unlabeled
    labeled = np.arange(n) < setting.labeled
    scores, new = x[:n, 0], x[n:, 0]
    if setting.learned:
        scaling = fit_scaling(x[:n])
        train = CLASSIFIERS["logistic"].train
        fit = train(Training(scaling.apply(x[:n]), labeled), 0, 1, lambda fraction: None)
        scores, new = fit.scores, fit.model.predict(scaling.apply(x[n:]))
    return Sketch.from_rows(scores, labeled.astype(np.int8)), new, float(y[n:].mean())


def once(setting: Setting, seed: int) -> tuple[bool, float, float, float]:
    """Covered, error, error of the old alpha, width."""
    sketch, new, truth = draw(setting, seed)
    belief, _, _ = believe(sketch, Settings())  # that of `auto`
    old = float(belief.alphas(np.array([0.5]))[0])
    counts = np.bincount(sketch.cell_index(new), minlength=len(sketch.edges))
    found = shifted_alpha(sketch, counts, belief.draws(DRAWS))
    low, high = found.alpha_ci
    return low <= truth <= high, abs(found.alpha - truth), abs(old - truth), high - low


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--settings", type=int, nargs="*", default=range(len(SETTINGS)))
    options = parser.parse_args()
    print("| training α | new α | β | rows (L, U, new) | score | covered | width | error | old α |")
    print("|---|---|---|---|---|---|---|---|---|")
    for number in options.settings:
        setting = SETTINGS[number]
        seeds = range(1000 * number, 1000 * number + options.repeats)
        covered, error, old, width = np.mean([once(setting, seed) for seed in seeds], axis=0)
        kind = "learned" if setting.learned else f"d = {setting.separation}"
        rows = f"{setting.labeled}, {setting.unlabeled}, {setting.new}"
        share = f"{100 * covered:.0f}% of {options.repeats}"
        print(
            f"| {setting.alpha} | {setting.new_alpha} | {setting.beta} | {rows} | {kind} "
            f"| {share} | {width:.3f} | {error:.4f} | {old:.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
