"""Alpha of a new sample without labels: does its interval hold the truth, and is it worth it?

python benchmarks/shift.py --repeats 100
python benchmarks/shift.py --repeats 100 --classes densities
python benchmarks/shift.py --repeats 100 --classes normal

Each draw has classes, alpha and beta of its own: alpha and beta from the prior of `auto`, classes
as in sbc.py, half of them scores of classifiers, half densities, all of kinds that the networks of
`auto` have not seen; or `densities` as they have seen, however implausible. The new alpha is below
half of the old one, or far above it. `normal` has eight fixed settings: scores of positives are
normal around `separation`, those of negatives around 0; where a score is learned, five features
are, and logistic regression learns from the training rows.

Coverage of the 95% interval, its mean width, the mean absolute error, and that of taking the
training rows' alpha for the new rows. Draws whose training rows give no estimate are replaced.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import simulator
from sbc import plausible

from pu_noise_cli.pipeline import PriorSettings, ScoredRows, estimate
from pu_noise_cli.prior.shift import shifted_prior
from pu_noise_cli.scale.engine import Engine
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

# rows: labeled, unlabeled, new
SIZES = ((50, 2000, 500), (100, 5000, 2000), (300, 3000, 1000), (1000, 10000, 5000))
Drawn = tuple[Sketch, np.ndarray, float]


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
        train = CLASSIFIERS["logistic"]
        fit = train(Training(scaling.apply(x[:n]), labeled), 0, 1, lambda fraction: None)
        scores, new = fit.scores, fit.model.predict(scaling.apply(x[n:]))
    return Sketch.from_rows(scores, labeled.astype(np.int8)), new, float(y[n:].mean())


def any_classes(rng: np.random.Generator) -> simulator.Classes:
    """As those that `auto` is calibrated on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a classifier that did not converge is as good as any
        return plausible(rng)[0]


def draw_varied(sizes: tuple[int, int, int], rarer: bool, densities: bool, seed: int) -> Drawn:
    """The same for classes, alpha and beta that differ between draws."""
    rng = np.random.default_rng(seed)
    classes = simulator.univariate(rng) if densities else any_classes(rng)
    alpha, beta = simulator.draw_shares(rng)
    new_alpha = alpha * rng.random() / 2 if rarer else alpha + (1 - alpha) * rng.uniform(0.2, 0.6)
    training = simulator.draw(classes, alpha, beta, *sizes[:2], rng)
    positive = int(rng.binomial(sizes[2], new_alpha))
    drawn = rng.multinomial(positive, classes.positives)
    drawn += rng.multinomial(sizes[2] - positive, classes.negatives)
    new = np.repeat(np.arange(len(drawn), dtype=np.float64), drawn)
    return training.sketch, new, positive / sizes[2]


def once(drawn: Drawn) -> tuple[bool, float, float, float] | None:
    """Covered, width, error, error of the old alpha; None without an estimate."""
    sketch, new, truth = drawn
    prior = estimate(ScoredRows(sketch), PriorSettings(), Engine())
    if prior.alpha is None:
        return None
    found = shifted_prior(prior, sketch, Sketch.from_rows(new, np.zeros(len(new), np.int8)))
    low, high = found.alpha_ci
    return low <= truth <= high, high - low, abs(found.alpha - truth), abs(prior.alpha - truth)


def summary(draws: Iterable[Drawn], repeats: int) -> str:
    """Cells of the table."""
    answers = (found for drawn in draws if (found := once(drawn)) is not None)
    covered, width, error, old = np.mean([*itertools.islice(answers, repeats)], axis=0)
    return f"{100 * covered:.1f}% of {repeats} | {width:.3f} | {error:.4f} | {old:.4f} |"


def varied(densities: bool, repeats: int) -> Iterator[str]:
    """The rows of the table of varied classes."""
    yield "| rows (L, U, new) | new α | covered | width | error | old α |\n|" + "---|" * 6
    for number, (sizes, rarer) in enumerate(itertools.product(SIZES, (True, False))):
        drawn = partial(draw_varied, sizes, rarer, densities)
        cells = f"{', '.join(map(str, sizes))} | {'below half' if rarer else 'above'}"
        yield f"| {cells} | {summary(map(drawn, itertools.count(10_000 * number)), repeats)}"


def normal(repeats: int) -> Iterator[str]:
    """The rows of the table of fixed settings."""
    yield "| α | new α | β | rows (L, U, new) | score | covered | width | error | old α |"
    yield "|" + "---|" * 9
    for number, setting in enumerate(SETTINGS):
        drawn = partial(draw, setting)
        kind = "learned" if setting.learned else f"d = {setting.separation}"
        rows = f"{setting.labeled}, {setting.unlabeled}, {setting.new}"
        shares = f"{setting.alpha} | {setting.new_alpha} | {setting.beta}"
        found = summary(map(drawn, itertools.count(1000 * number)), repeats)
        yield f"| {shares} | {rows} | {kind} | {found}"


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--classes", choices=["any", "densities", "normal"], default="any")
    options = parser.parse_args()
    kind, repeats = options.classes, options.repeats
    lines = normal(repeats) if kind == "normal" else varied(kind == "densities", repeats)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
