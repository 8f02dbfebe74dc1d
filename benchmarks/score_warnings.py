"""How often the warnings about a score column fire, where they should and where they should not.

python benchmarks/score_warnings.py --draws 200 --predictors variants.parquet

Simulated scores of many shapes, ordinary and spoilt; and, where a table of predictors with the
class `y` is given, each of them: 1,000 labeled rows of which 5 % are wrong, 4,000 unlabeled ones.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from pu_noise_cli.prior.base import Estimate, Settings
from pu_noise_cli.prior.checks import Case, diagnose
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.score.sketch import Sketch

CODES = ("lone-value", "saturated-score")
FAR_OFF = 0.1  # an error of alpha for which there should be a warning
ALPHAS = (0.0441, 0.2)
LOWER = ("SIFT_score", "FATHMM_score")  # predictors of which low values mean positive

SHAPES = {  # of Gaussians that are `gap` apart, and of the classes
    "normal": lambda z, y, gap, rng: z,
    "probability": lambda z, y, gap, rng: 1 / (1 + np.exp(-gap * (z - gap / 2))),
    "lognormal": lambda z, y, gap, rng: np.exp(z),
    "whole numbers": lambda z, y, gap, rng: np.round(5 * z),
    "a few whole numbers": lambda z, y, gap, rng: np.round(z),
    "phred": lambda z, y, gap, rng: np.round(-10 * np.log10(rng.beta(1, 1 + 20 * y) + 1e-4)),
    "counts": lambda z, y, gap, rng: rng.poisson(2 + 4 * gap * y).astype(float),
    "bounded": lambda z, y, gap, rng: rng.beta(2 + 3 * y, 5 - 3 * y),
    "cut off in the middle of the positives": lambda z, y, gap, rng: np.minimum(z, gap),
    "cut off above nine in ten of them": lambda z, y, gap, rng: np.minimum(z, gap + 1.28),
    "3 % are -1, others in [0, 1]": lambda z, y, gap, rng: np.where(
        rng.random(len(z)) < 0.03, -1, 1 / (1 + np.exp(-z))
    ),
    "3 % are 0, others about 50 ± 5": lambda z, y, gap, rng: np.where(
        rng.random(len(z)) < 0.03, 0, 50 + 2 * z
    ),
}


def fired(sketch: Sketch) -> list[bool]:
    found = {notice.code for notice in diagnose(Case(sketch, Estimate(0.2, 0.9)))}
    return [code in found for code in CODES]


def simulated(draws: int) -> pd.DataFrame:
    """How often each warning fires for each shape."""
    rows = []
    for name, shape in SHAPES.items():
        counts = np.zeros(len(CODES), int)
        for draw in range(draws):
            rng = np.random.default_rng([draw, 1])
            gap, alpha, beta = rng.choice([1, 2, 3]), rng.uniform(0.02, 0.6), rng.uniform(0.8, 1)
            sizes = rng.choice([100, 1000, 5000]), rng.choice([1000, 10000])
            samples = []
            for n, share in zip(sizes, (beta, alpha), strict=True):
                y = rng.random(n) < share
                samples.append(shape(rng.normal(size=n) + gap * y, y, gap, rng))
            counts += fired(Sketch.from_samples(*samples))
        rows.append([name, *(f"{count} of {draws}" for count in counts)])
    return pd.DataFrame(rows, columns=["scores", *CODES])


def predictors(file: str, draws: int) -> pd.DataFrame:
    """For each predictor and α the mean estimate, errors and warnings."""
    table, rows = pd.read_parquet(file), []
    numbers = table.select_dtypes("number").drop(columns=["y", "MAF", "hg19_pos"], errors="ignore")
    for name in numbers:
        known = table[name].notna()
        scores = table.loc[known, name].to_numpy() * (-1 if name in LOWER else 1)
        positive = table.loc[known, "y"].to_numpy() == 1
        for alpha in ALPHAS:
            found = [_one(scores, positive, alpha, draw) for draw in range(draws)]
            off = [abs(estimate - alpha) > FAR_OFF for estimate, _ in found]
            silent = [far and not codes for far, (_, codes) in zip(off, found, strict=True)]
            rows.append(
                [
                    *(name, alpha, f"{np.mean([estimate for estimate, _ in found]):.3f}"),
                    *(f"{sum(flags)} of {draws}" for flags in (off, silent)),
                    *(f"{sum(c in codes for _, codes in found)} of {draws}" for c in CODES),
                ]
            )
    columns = ["predictor", "α", "estimate", f"off by over {FAR_OFF}", "of these without a warning"]
    return pd.DataFrame(rows, columns=[*columns, *CODES])


def _one(
    scores: np.ndarray, positive: np.ndarray, alpha: float, draw: int
) -> tuple[float, set[str]]:
    rng = np.random.default_rng([draw, round(1e4 * alpha)])
    p, n = rng.permutation(scores[positive]), rng.permutation(scores[~positive])
    k = round(4000 * alpha)
    labeled = np.concatenate([p[:950], n[:50]])
    unlabeled = np.concatenate([p[950 : 950 + k], n[50 : 4050 - k]])
    prior = estimate_prior(Sketch.from_samples(labeled, unlabeled), "auto", Settings())
    assert prior.alpha is not None
    return prior.alpha, {notice.code for notice in prior.notices}


def markdown(table: pd.DataFrame) -> str:
    lines = [list(table), ["---"] * len(table.columns), *table.astype(str).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--predictors", help="a Parquet file of predictors and the class y")
    parser.add_argument("--repeats", type=int, default=10, help="draws of each predictor")
    given = parser.parse_args()
    print(markdown(simulated(given.draws)))
    if given.predictors:
        print(markdown(predictors(given.predictors, given.repeats)))


if __name__ == "__main__":
    main()
