"""How often one-sided 95 % bounds at a score hold, and the levels of evidence that rest on them.

python benchmarks/bounds.py --draws 500
python benchmarks/bounds.py --draws 100 --genes

Three kinds of samples: of families that `auto` was not trained on, α and β from the prior it
assumes, as in sbc.py, with α and β estimated and with α and β known; and of two densities with a
likelihood ratio that rises with the score, α and β known. A level of evidence is right where the
weakest of the rows called has a true likelihood ratio of at least the level's, and where all rows
called at that level have it together. With --genes, rows come in groups that are alike, and bounds
know of the groups or not.
"""

from __future__ import annotations

import argparse
import itertools
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
from accuracy import markdown
from sbc import sampled

from pu_noise_cli.numerics import FloatArray
from pu_noise_cli.posterior.calibration import GroupCopies, bounds, calibrate
from pu_noise_cli.prior.base import Settings, Shares
from pu_noise_cli.prior.document import shares_for
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.rows import LABELED, UNLABELED
from pu_noise_cli.variants.rules import Grading

PLACES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)  # quantiles of the unlabeled rows
SLACKS = (0.01, 0.0)  # posteriors next to 0 and 1 are missed by less than decides anything
CASES = (  # α, β and the numbers of labeled and unlabeled rows
    (0.0441, 0.95, 1000, 4000),
    (0.2, 0.95, 300, 1000),
    (0.2, 0.8, 1000, 10_000),
    (0.5, 1.0, 500, 2000),
    (0.1, 1.0, 5000, 50_000),
)
PRIORS = (0.001, 0.999)  # at which the rule of evidence makes sense
ACMG = Grading.read("acmg")
GENES = 40
DENSITIES = ("binormal 1", "binormal 2", "binormal 3", "gamma", "beta")

Found = dict[str, float]


def judged(
    sketch: Sketch,
    shares: Shares,
    alpha: float,
    f1: FloatArray,
    f0: FloatArray,
    groups: GroupCopies | None = None,
) -> Found:
    """Whether bounds and levels are right, given the true densities in each cell."""
    with np.errstate(divide="ignore", invalid="ignore"):
        truth = alpha * f1 / (alpha * f1 + (1 - alpha) * f0)
        ratio = f1 / f0
    held = bounds(calibrate(sketch, shares), 0, groups)
    low, high = held.posterior
    rank = np.cumsum(sketch.unlabeled) / sketch.n_unlabeled
    found = {}
    for place in PLACES:
        cell = int(np.searchsorted(rank, place))
        for slack in SLACKS:
            found[f"low {place} {slack}"] = float(low[cell] <= truth[cell] + slack)
            found[f"high {place} {slack}"] = float(high[cell] >= truth[cell] - slack)
    for against in (False, True):
        graded = ACMG.levels(float(np.clip(alpha, *PRIORS)))
        mine = [level for level in graded if level.against == against]
        taken = np.zeros(len(f1), bool)
        for level in mine:
            called = held.lr[1] <= level.lr if against else held.lr[0] >= level.lr
            if not called.any():
                continue
            edge = np.flatnonzero(called)[-1 if against else 0]
            sides = f1[called & ~taken].sum(), level.lr * f0[called & ~taken].sum()
            found[f"{level.code} weakest"] = (
                (ratio[edge] <= level.lr) if against else (ratio[edge] >= level.lr)
            )
            if (called & ~taken).any():
                found[f"{level.code} all"] = (
                    sides[0] <= sides[1] if against else sides[0] >= sides[1]
                )
            taken |= called
    top = (rank > 0.9) & np.isfinite(truth)
    weight = sketch.unlabeled * top + 1e-12
    found["bound of the top tenth"] = np.average(low, weights=weight)
    found["truth of the top tenth"] = np.average(np.nan_to_num(truth), weights=weight)
    return found


def of_belief(seed: int, known: bool, index: int) -> Found:
    """A sample as `auto` expects them."""
    classes, problem = sampled(seed, index)
    sketch = problem.sketch
    cells = sketch.edges.astype(int)  # problems are on the cells of their classes
    shares = Shares(problem.alpha, problem.beta, from_these_rows=False)
    if not known:
        _, shares, _ = shares_for(estimate_prior(sketch, "auto", Settings()), sketch)
    return judged(sketch, shares, problem.alpha, classes.positives[cells], classes.negatives[cells])


def of_densities(seed: int, known: bool, index: int) -> Found:
    """A sample of two densities, each case in turn; with the shares known, or estimated."""
    from scipy import stats

    pairs = {
        "binormal 1": (stats.norm(1), stats.norm(0)),
        "binormal 2": (stats.norm(2), stats.norm(0)),
        "binormal 3": (stats.norm(3), stats.norm(0)),
        "gamma": (stats.gamma(6), stats.gamma(2)),
        "beta": (stats.beta(5, 1.2), stats.beta(1, 3)),
    }
    of_cases = list(itertools.product(DENSITIES, CASES))
    name, (alpha, beta, n_labeled, n_unlabeled) = of_cases[index % len(of_cases)]
    positives, negatives = pairs[name]
    rng = np.random.default_rng([seed, index])

    def drawn(share: float, n: int) -> FloatArray:
        both = [kind.rvs(n, random_state=rng) for kind in (positives, negatives)]
        return np.where(rng.random(n) < share, *both)

    sketch = Sketch.from_samples(drawn(beta, n_labeled), drawn(alpha, n_unlabeled))
    shares = Shares(alpha, beta, from_these_rows=False)
    if not known:
        _, shares, _ = shares_for(estimate_prior(sketch, "auto", Settings()), sketch)
    x = sketch.scores
    return judged(sketch, shares, alpha, positives.pdf(x), negatives.pdf(x))


def of_genes(seed: int, grouped: bool, index: int) -> Found:
    """A sample in genes, between which half of the variance is, also that of being positive.

    The bounds know of the genes, or not.
    """
    from scipy import stats

    rng = np.random.default_rng([seed, index])
    alpha, beta, n_labeled, n_unlabeled = 0.2, 0.9, 1000, 4000
    sets = np.repeat([LABELED, UNLABELED], [n_labeled, n_unlabeled]).astype(np.int8)
    gene = rng.integers(GENES, size=len(sets))

    def alike() -> FloatArray:
        return (rng.normal(size=GENES)[gene] + rng.normal(size=len(sets))) / np.sqrt(2)

    positive = alike() < stats.norm.ppf(np.where(sets == LABELED, beta, alpha))
    scores = 2 * positive + alike()
    sketch = Sketch.from_rows(scores, sets)
    copies = GroupCopies.from_rows(scores, sets, pa.array(gene).cast(pa.string()))
    shares, x = Shares(alpha, beta, from_these_rows=False), sketch.scores
    f1, f0 = stats.norm(2).pdf(x), stats.norm(0).pdf(x)
    return judged(sketch, shares, alpha, f1, f0, copies if grouped else None)


def report(title: str, draws: pd.DataFrame) -> str:
    """How often bounds hold by place, and levels by name, with the draws in which they are met."""
    table = {
        f"quantile {place}": {
            f"{name} bound holds within {slack:g}": draws[f"{key} {place} {slack}"].mean()
            for slack in SLACKS
            for key, name in (("low", "lower"), ("high", "upper"))
        }
        for place in PLACES
    }
    codes = [level.code for level in ACMG.levels(0.1)]
    by_level = {
        code: {
            "reached": draws[f"{code} weakest"].notna().mean(),
            "its weakest row has it": draws[f"{code} weakest"].mean(),
            "over all draws": (draws[f"{code} weakest"] != False).mean(),  # noqa: E712
            "its rows have it together": draws[f"{code} all"].mean(),
        }
        for code in codes
        if f"{code} all" in draws
    }
    rest = draws[["bound of the top tenth", "truth of the top tenth"]]
    lines = [f"- {name}: {value:.3f}" for name, value in rest.mean().items()]
    heading = f"## {title}, {len(draws)} draws\n"
    return "\n".join([heading, markdown(table, "place"), markdown(by_level, "level"), *lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--genes", action="store_true", help="rows that come in groups")
    options = parser.parse_args()
    kinds = {
        "Samples as `auto` expects them, α and β estimated": partial(
            of_belief, options.seed, False
        ),
        "The same, α and β known": partial(of_belief, options.seed, True),
        "Two densities, α and β estimated": partial(of_densities, options.seed, False),
        "Two densities, α and β known": partial(of_densities, options.seed, True),
    }
    if options.genes:
        kinds = {
            "In genes, which the bounds know": partial(of_genes, options.seed, True),
            "In genes, which the bounds do not know": partial(of_genes, options.seed, False),
        }
    with ProcessPoolExecutor(options.processes) as pool:
        for title, job in kinds.items():
            draws = pd.DataFrame(pool.map(job, range(options.draws)))
            print(report(title, draws), flush=True)


if __name__ == "__main__":
    main()
