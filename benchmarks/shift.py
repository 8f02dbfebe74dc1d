"""Alpha of a new sample without labels: does its interval hold the truth, and is it worth it?

python benchmarks/shift.py --repeats 100

Scores of positives are normal around `separation`, those of negatives around 0; where a score is
learned, five features are, and logistic regression learns from the training rows. The new rows have
another fraction of positives. Coverage of the 95% interval, mean absolute error, and that of taking
the training rows' alpha for the new rows.

`--varied` draws classes of any shape, alpha and beta from the prior of `auto` for every repeat: the
population that its belief is about. The new alpha is a part of the old one, or far above it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from simulator import draw_shares, univariate

from pu_noise_cli.prior.auto import DRAWS, believe
from pu_noise_cli.prior.base import Settings
from pu_noise_cli.prior.shift import shifted_alpha, usual_density
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


Drawn = tuple[Sketch, np.ndarray, float]
VARIED = ((50, 2000, 500), (100, 5000, 2000), (300, 3000, 1000), (1000, 10000, 5000))


def draw(setting: Setting, seed: int) -> Drawn:
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


def draw_varied(sizes: tuple[int, int, int], rarer: bool, seed: int) -> Drawn:
    """The same for classes, alpha and beta that differ between draws."""
    rng = np.random.default_rng(seed)
    classes, (alpha, beta) = univariate(rng), draw_shares(rng)
    new_alpha = alpha * rng.random() / 2 if rarer else alpha + (1 - alpha) * rng.uniform(0.2, 0.6)
    shares = (beta, alpha, new_alpha)
    cells, sets, positive = [], [], []
    for code, (n, share) in enumerate(zip(sizes, shares, strict=True)):
        y = rng.random(n) < share
        for kind, density in ((True, classes.positives), (False, classes.negatives)):
            drawn = rng.choice(len(density), (y == kind).sum(), p=density / density.sum())
            cells.append(drawn)
            sets.append(np.full(len(drawn), code))
        positive.append(y.mean())
    scores, code = np.concatenate(cells).astype(float), np.concatenate(sets)
    training = code < 2
    sketch = Sketch.from_rows(scores[training], (code[training] == 0).astype(np.int8))
    return sketch, scores[~training], float(positive[2])


def once(drawn: Drawn) -> tuple[bool, float, float, float]:
    """Covered, error, error of the old alpha, width."""
    sketch, new, truth = drawn
    belief, _, _ = believe(sketch, Settings())  # that of `auto`
    old = float(belief.alphas(np.array([0.5]))[0])
    counts = np.bincount(sketch.cell_index(new), minlength=len(sketch.edges))
    found = shifted_alpha(sketch, counts, belief.draws(DRAWS), usual_density)
    low, high = found.alpha_ci
    return low <= truth <= high, abs(found.alpha - truth), abs(old - truth), high - low


def summary(draws: Iterable[Drawn], repeats: int) -> str:
    """Cells of the table."""
    covered, error, old, width = np.mean([once(drawn) for drawn in draws], axis=0)
    return f"{100 * covered:.0f}% of {repeats} | {width:.3f} | {error:.4f} | {old:.4f} |"


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--varied", action="store_true")
    options = parser.parse_args()
    if options.varied:
        print("| rows (L, U, new) | new α | covered | width | error | old α |\n|" + "---|" * 6)
        for number, sizes in enumerate(VARIED):
            for rarer in (True, False):
                first = 100_000 + 2000 * number + 1000 * rarer
                draws = (draw_varied(sizes, rarer, first + i) for i in range(options.repeats))
                cells = f"{', '.join(map(str, sizes))} | {'below half' if rarer else 'above'}"
                print(f"| {cells} | {summary(draws, options.repeats)}", flush=True)
        return
    print("| α | new α | β | rows (L, U, new) | score | covered | width | error | old α |")
    print("|" + "---|" * 9)
    for number, setting in enumerate(SETTINGS):
        draws = (draw(setting, 1000 * number + i) for i in range(options.repeats))
        kind = "learned" if setting.learned else f"d = {setting.separation}"
        rows = f"{setting.labeled}, {setting.unlabeled}, {setting.new}"
        shares = f"{setting.alpha} | {setting.new_alpha} | {setting.beta}"
        print(f"| {shares} | {rows} | {kind} | {summary(draws, options.repeats)}", flush=True)


if __name__ == "__main__":
    main()
