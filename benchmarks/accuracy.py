"""Our methods and published ones on the same scores: errors of α and β, and what intervals cover.

python benchmarks/accuracy.py --data DIRECTORY --repeats 10

On the .parquet files of a directory (features and y) and scikit-learn's bundled sets, by the
protocol of the paper's table 1, and on simulated scores of families that `auto` was not trained on.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import protocol
import simulator
from peers import PEERS
from scipy import stats

from pu_noise_cli.prior.base import ESTIMATORS, Settings
from pu_noise_cli.prior.document import CI_LEVEL
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.score.sketch import Sketch

BETAS = (1.0, 0.95, 0.75)
OURS = [name for name, method in ESTIMATORS.items() if method.needs == "scores"]
SMALL_ALPHA = 0.05

Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A pair of score samples and the shares of positives they hide."""

    sketch: Sketch
    alpha: float
    beta: float


# Simulations that the training of `auto` has not seen the like of


def left_out(family: str, rng: Rng) -> simulator.Classes:
    """The classes' densities of the scores, on a grid, from one of FAMILIES."""
    if family == "beta":
        x = np.linspace(1e-4, 1 - 1e-4, simulator.GRID)
        a, b = rng.uniform(0.6, 3, 2)
        f0 = stats.beta.pdf(x, a, b + rng.uniform(0.5, 5))
        f1 = stats.beta.pdf(x, a + rng.uniform(0.5, 5), b)
    elif family == "gumbel":
        x = np.linspace(-8, 16, simulator.GRID)
        f0 = (stats.gumbel_l if rng.random() < 0.5 else stats.gumbel_r).pdf(x)
        f1 = stats.gumbel_r.pdf(x, rng.uniform(1, 6), rng.uniform(0.7, 1.4))
    elif family == "weibull":
        x = np.linspace(1e-3, 12, simulator.GRID)
        f0 = stats.weibull_min.pdf(x, rng.uniform(0.8, 2.5))
        f1 = stats.weibull_min.pdf(x, rng.uniform(1.5, 5), scale=rng.uniform(1.5, 5))
    elif family == "triangle":
        x = np.linspace(0, 1, simulator.GRID)
        low = rng.uniform(0.1, 0.5)
        f0 = stats.triang.pdf(x, rng.uniform(0, 0.4), 0, rng.uniform(0.5, 0.9))
        f1 = stats.triang.pdf(x, rng.uniform(0.5, 1), low, 1 - low)
    else:  # a hyperbolic secant against normals with an exponential tail
        x = np.linspace(-6, 14, simulator.GRID)
        f0 = stats.hypsecant.pdf(x, 0, 0.6)
        f1 = stats.exponnorm.pdf(x, rng.uniform(0.5, 3), rng.uniform(1, 4))
    return simulator.Classes.of(f0 + 1e-15, f1 + 1e-15)


FAMILIES = ("beta", "gumbel", "weibull", "triangle", "secant")


def simulated(family: str, small: bool, rng: Rng) -> Case:
    """Samples of a left-out family; α is below SMALL_ALPHA or anywhere above it."""
    alpha = simulator.log_uniform(rng, 0.001, SMALL_ALPHA) if small else rng.uniform(0.05, 0.8)
    beta = 1.0 if rng.random() < 0.3 else rng.uniform(0.6, 1)
    alpha = min(alpha, 0.8 * beta)
    sizes = int(simulator.log_uniform(rng, 60, 3000)), int(simulator.log_uniform(rng, 500, 20_000))
    problem = simulator.draw(left_out(family, rng), alpha, beta, *sizes, rng)
    return Case(problem.sketch, problem.alpha, problem.beta)


# Real data


def write_bundled(directory: Path) -> None:
    """scikit-learn's own data sets that are large enough, as files like those of --data."""
    from sklearn import datasets

    directory.mkdir(parents=True, exist_ok=True)
    digits, diabetes = datasets.load_digits(), datasets.load_diabetes()
    cancer = datasets.load_breast_cancer()
    for name, features, y in (
        ("breast_cancer", cancer.data, cancer.target == 0),
        ("diabetes", diabetes.data, diabetes.target > diabetes.target.mean()),
        ("digits_odd", digits.data, digits.target % 2 == 1),
        ("digits_high", digits.data, digits.target >= 5),
        ("digits_389", digits.data, np.isin(digits.target, [3, 8, 9])),
        ("digits_8", digits.data, digits.target == 8),
    ):
        frame = pd.DataFrame(features, columns=[f"x{j}" for j in range(features.shape[1])])
        frame.assign(y=y.astype(np.int8)).to_parquet(directory / f"{name}.parquet")


def scored(path: Path, beta: float, repeat: int, classifier: str, rng: Rng) -> Case:
    """One repeat of a real set: its samples after the transform."""
    draw = protocol.real(path, beta, rng)
    return Case(protocol.transformed(draw, classifier, repeat), draw.alpha, beta)


# One case by all methods


def pulearn_peers() -> dict[str, object]:
    """pulearn's estimators that look at scores, if it is installed."""
    try:
        from pulearn import HistogramMatchPriorEstimator, ScarEMPriorEstimator
    except ImportError:
        return {}
    return {
        "pulearn histogram": HistogramMatchPriorEstimator(),
        "pulearn EM": ScarEMPriorEstimator(),
    }


def by_pulearn(estimator: object, sketch: Sketch) -> float:
    """Its share of positives among all rows as that among the unlabeled ones."""
    values = np.clip(sketch.scores, *np.quantile(sketch.scores, [0.001, 0.999]))
    x = np.concatenate([np.repeat(values, sketch.labeled), np.repeat(values, sketch.unlabeled)])
    y = np.repeat([1, 0], [sketch.n_labeled, sketch.n_unlabeled])
    share = estimator.estimate(((x - x.mean()) / (x.std() + 1e-12))[:, None], y).pi
    return float(np.clip((share * len(y) - sketch.n_labeled) / sketch.n_unlabeled, 0, 1))


def work(
    label: str, repeat: int, *, paths: dict[str, Path], classifier: str, intervals: list[str]
) -> dict[str, float]:
    """What each method says in one repeat of a set, and the truth."""
    name, variant = label.rsplit(" ", 1)
    rng = np.random.default_rng([repeat, *label.encode()])
    if name in paths:
        case = scored(paths[name], float(variant), repeat, classifier, rng)
    else:
        case = simulated(name.removeprefix("simulated "), variant == "small", rng)
    said = {"alpha": case.alpha, "beta": case.beta}
    for method in OURS:
        if method in intervals:
            estimate = estimate_prior(case.sketch, method, Settings())
        else:
            estimate = ESTIMATORS[method].estimate(case.sketch, Settings())
        said |= {f"{method} alpha": estimate.alpha, f"{method} beta": estimate.beta}
        for share in ("alpha", "beta"):
            interval = getattr(estimate, f"{share}_ci")
            if interval is not None:
                said |= {
                    f"{method} {share} low": interval[0],
                    f"{method} {share} high": interval[1],
                }
    for peer, function in PEERS.items():
        said[f"{peer} alpha"] = function(case.sketch)
    for peer, estimator in pulearn_peers().items():
        said[f"{peer} alpha"] = by_pulearn(estimator, case.sketch)
    return said


# Figures


def figures(said: pd.DataFrame, method: str) -> dict[str, float]:
    """Errors of one method over cases, and of its intervals, if it has any."""
    error = said[f"{method} alpha"] - said["alpha"]
    found = {"α error": error.abs().mean(), "α bias": error.mean()}
    if f"{method} beta" in said:
        found["β error"] = (said[f"{method} beta"] - said["beta"]).abs().mean()
    for share, symbol in (("alpha", "α"), ("beta", "β")):
        if f"{method} {share} low" in said:
            low, high = said[f"{method} {share} low"], said[f"{method} {share} high"]
            below, above = (low - said[share]).clip(0), (said[share] - high).clip(0)
            found[f"{symbol} covered"] = ((below < 1e-9) & (above < 1e-9)).mean()
            found[f"{symbol} width"] = (high - low).mean()
            score = high - low + 2 / (1 - CI_LEVEL) * (below + above)
            found[f"{symbol} interval score"] = score.mean()
    return found


def markdown(rows: dict[str, dict[str, float]], corner: str) -> str:
    """A table of figures; those that a row does not have stay empty."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [[corner, *columns], ["---"] * (len(columns) + 1)]
    for name, row in rows.items():
        lines.append([name, *(f"{row[c]:.4f}" if c in row else "" for c in columns)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="directory of .parquet files with a column y")
    parser.add_argument("--repeats", type=int, default=10, help="of each set at each β")
    parser.add_argument("--simulations", type=int, default=100, help="of each family, twice")
    parser.add_argument("--classifier", default="networks", choices=list(protocol.CLASSIFIERS))
    parser.add_argument(
        "--intervals", nargs="*", default=["auto", "bound"], choices=OURS, metavar="METHOD"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--results", type=Path, default=protocol.HERE / "results")
    options = parser.parse_args()
    if not pulearn_peers():
        print("pulearn is not installed: its estimators are left out (pip install pulearn)")

    bundled = options.results / "bundled"
    write_bundled(bundled)
    real = sorted(options.data.glob("*.parquet")) if options.data else []
    paths = {f"real {p.stem}": p for p in real}
    paths |= {f"bundled {p.stem}": p for p in sorted(bundled.glob("*.parquet"))}
    tasks = [
        (f"{name} {beta}", repeat)
        for name in paths
        for beta in BETAS
        for repeat in range(options.repeats)
    ]
    tasks += [
        (f"simulated {family} {size}", repeat)
        for family in FAMILIES
        for size in ("small", "large")
        for repeat in range(options.simulations)
    ]
    job = partial(work, paths=paths, classifier=options.classifier, intervals=options.intervals)
    found = protocol.run(options.results / "accuracy.partial.jsonl", tasks, job, options.processes)
    said = pd.DataFrame([dict(r, label=label) for label, rs in found.items() for r in rs])
    document = report(said)
    print(document)
    (options.results / "accuracy.md").write_text(document)


def report(said: pd.DataFrame) -> str:
    """All figures: overall by kind of data, noise and size of α; then the error of α per set."""
    methods = [c.removesuffix(" alpha") for c in said if c.endswith(" alpha")]
    kind = said["label"].str.split(" ").str[0]
    groups = {}
    for name in dict.fromkeys(kind):
        of_kind = said[kind == name]
        groups[f"{name} data"] = of_kind
        if name == "simulated":
            small = of_kind["alpha"] < SMALL_ALPHA
            groups |= {
                f"{name} data, α < {SMALL_ALPHA}": of_kind[small],
                f"{name} data, α ≥ {SMALL_ALPHA}": of_kind[~small],
            }
        else:
            groups |= {f"{name} data, β = {b}": of_kind[of_kind["beta"] == b] for b in BETAS}
    parts = ["# Accuracy\n"]
    for name, group in groups.items():
        rows = {method: figures(group, method) for method in methods}
        parts += [f"## {name[0].upper()}{name[1:]}, {len(group)} cases\n", markdown(rows, "method")]
    rows = {
        str(label): {method: figures(group, method)["α error"] for method in methods}
        for label, group in said.groupby("label", sort=False)
    }
    parts += ["## Mean absolute error of α per set\n", markdown(rows, "set")]
    return "\n".join(parts)


if __name__ == "__main__":
    main()
