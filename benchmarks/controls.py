"""How often levels of evidence are wrong by number of controls and share of outliers.

python benchmarks/controls.py --draws 100
python benchmarks/controls.py --draws 5 --variants clingen2019.parquet --published table2.csv

Simulated: scores of two unit Gaussians, 300 controls of one class and fewer of the other, of which
a share scores like the first. A called level is wrong if the true likelihood ratio at its threshold
is below the level's. Real: thresholds of subsamples beside those of all variants; too liberal where
the ratio estimated from all variants is below the level's. "before" leaves out what counts show by
themselves, so that bounds rest on the curve alone.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from unittest import mock

import numpy as np
import pandas as pd
from thresholds import ACMG, PRIOR, between, predictors

from pu_noise_cli.evidence import thresholds as evidence
from pu_noise_cli.evidence.strengths import Grading
from pu_noise_cli.evidence.thresholds import Threshold, Thresholds
from pu_noise_cli.numerics import FloatArray
from pu_noise_cli.posterior.calibration import Bounds, Calibration, bounds, calibrate
from pu_noise_cli.prior.base import Shares
from pu_noise_cli.score.sketch import Sketch

CONTROLS, OUTLIERS, OTHERS = (10, 37, 100, 300, 1000), (0, 0.01, 0.03), 300
SEPARATIONS = (2.0, 3.0, 4.0)
SIZES = (100, 300, 1000)  # of subsamples, of each class


class NoReach:
    """Leaves bounds as they are."""

    @classmethod
    def from_calibration(cls, calibration: Calibration) -> NoReach:
        return cls()

    def limit(self, bounds: Bounds, calibration: Calibration) -> Bounds:
        return bounds


def both(sketch: Sketch, prior: float, rule: Grading) -> Iterator[tuple[str, Thresholds]]:
    """The thresholds with and without the limits of counts."""
    calibration = calibrate(sketch, Shares(prior, 1.0, from_these_rows=False))
    held = bounds(calibration, 0)
    yield "now", Thresholds.from_calibration(calibration, held, rule)
    with mock.patch.object(evidence, "Reach", NoReach):
        yield "before", Thresholds.from_calibration(calibration, held, rule)


def true_ratio(x: float, apart: float, outliers: float) -> float:
    """f1/f0 where a share of f0 is f1."""
    ratio = np.exp(apart * x - apart**2 / 2)
    return float(ratio / (1 - outliers + outliers * ratio))


def simulated(draws: int, seed: int) -> None:
    """Wrong and called levels; of benign controls, and likewise of pathogenic ones."""
    rule = Grading.read("acmg", 0.1)
    counts: dict[tuple[int, float], Counter[tuple[str, int, str]]] = defaultdict(Counter)
    settings = itertools.product(SEPARATIONS, CONTROLS, OUTLIERS, range(draws))
    for apart, n, outliers, draw in settings:
        rng = np.random.default_rng([seed, draw, n, round(1000 * outliers), round(apart)])
        many = rng.normal(size=OTHERS) + apart
        few = rng.normal(size=n) + apart * (rng.random(n) < outliers)
        mirrored = draw % 2 == 1  # the few controls are pathogenic ones then
        sketch = Sketch.from_samples(many, np.empty(0), few)
        if mirrored:
            sketch = Sketch.from_samples(apart - few, np.empty(0), apart - many)
        for name, found in both(sketch, 0.1, rule):
            for one in found.levels:
                if one.reached is None or one.level.against != mirrored:
                    continue
                at = one.reached.score_from
                true = true_ratio(apart - at if mirrored else at, apart, outliers)
                needed = 1 / one.level.lr if mirrored else one.level.lr
                points = abs(one.level.points or 0)
                counts[n, outliers][name, points, "called"] += 1
                counts[n, outliers][name, points, "wrong"] += true < needed
    print(f"wrong of called, {draws * len(SEPARATIONS)} draws each; before / now\n")
    print("| controls | outliers | supporting | moderate | strong | very strong |")
    print("|---|---|---|---|---|---|")
    for (n, outliers), count in counts.items():
        cells = [
            " / ".join(
                f"{count[name, points, 'wrong']} of {count[name, points, 'called']}"
                for name in ("before", "now")
            )
            for points in (1, 2, 4, 8)
        ]
        print(f"| {n} | {outliers:.0%} | {' | '.join(cells)} |")


def real(data: pd.DataFrame, published: pd.DataFrame, draws: int, seed: int) -> None:
    """Thresholds of subsamples: too liberal, and how far before and now are apart."""
    liberal, called, apart = Counter[str](), Counter[str](), []
    for _, _, scores in predictors(data, published):
        x, y = scores.to_numpy(), (data.loc[scores.index, "y"] == 1).to_numpy()
        whole = Sketch.from_samples(x[y], np.empty(0), x[~y])
        truth = calibrate(whole, Shares(PRIOR, 1.0, from_these_rows=False))
        for size, draw in itertools.product(SIZES, range(draws)):
            rng = np.random.default_rng([seed, draw, size])
            samples = [rng.choice(x[side], size, replace=False) for side in (y, ~y)]
            sketch = Sketch.from_samples(samples[0], np.empty(0), samples[1])
            levels = {name: found.levels for name, found in both(sketch, PRIOR, ACMG)}
            for name, some in levels.items():
                called[name] += sum(one.reached is not None for one in some)
                liberal[name] += sum(is_liberal(one, truth) for one in some)
            for one, other in zip(levels["before"], levels["now"], strict=True):
                apart.append(lost(x, one, other))
    for name in ("before", "now"):
        share = liberal[name] / called[name]
        print(f"- {name}: {liberal[name]} of {called[name]} called are too liberal ({share:.1%})")
    print(f"- variants that lose the level: mean {np.mean(apart):.4f}")


def is_liberal(one: Threshold, truth: Calibration) -> bool:
    """Whether the ratio that all variants give at a threshold is below the level's."""
    if one.reached is None:
        return False
    lr = truth.lr[truth.sketch.cell_index(np.array([one.reached.score_from]))[0]]
    return bool(lr > one.level.lr if one.level.against else lr < one.level.lr)


def lost(x: FloatArray, before: Threshold, now: Threshold) -> float:
    """The share of variants that had a level before and have not now."""
    if before.reached is None:
        return 0.0
    start = before.reached.score_from
    if now.reached is None:
        return float((x <= start if before.level.against else x >= start).mean())
    return between(x, start, now.reached.score_from, before.level.code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants")
    parser.add_argument("--published")
    options = parser.parse_args()
    if options.variants is None:
        simulated(options.draws, options.seed)
        return
    published = pd.read_csv(options.published, index_col="tool")
    real(pd.read_parquet(options.variants), published, options.draws, options.seed)


if __name__ == "__main__":
    main()
