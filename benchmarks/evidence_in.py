"""What verified rows, and known negatives, do for alpha and beta.

python benchmarks/evidence_in.py --draws 12
python benchmarks/evidence_in.py --top --draws 1000
python benchmarks/evidence_in.py --negatives --draws 200
python benchmarks/evidence_in.py [--negatives] --data DIR --repeats 5

Simulated: normal scores, 1,000 labeled and 10,000 unlabeled rows, at each AUC, alpha and beta. Each
draw is estimated by `auto` and calibrated; rows are then drawn as `punoise audit` does, with their
true classes as verdicts. Beside it the exact binomial interval (Clopper and Pearson) of as many
rows drawn at random. `announced` is the median of |width announced / width found - 1|.
With --top: verdicts on rows at the top, on the scores of `sbc.py` (families that `auto` was not
trained on) at three ranges of alpha, with few and with more labels; `default` and `none` are
`auto` without verdicts, as it is and with nothing assumed of the purity.
With --negatives: `auto` with 200 and with 1,000 of them beside `auto` without, and with beta known
(`ratio` is that of the mean errors); how often the warning fires where the negatives are as they
should be, and where they are shifted by half a standard deviation down or up.
Real: `<name>.parquet` files with feature columns and `y`, scored by the networks.
"""

from __future__ import annotations

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import sbc
import simulator
from accuracy import markdown
from scipy.stats import beta as beta_law
from scipy.stats import norm

from pu_noise_cli.audit.design import TOP_SIZES
from pu_noise_cli.audit.verdicts import Verified, allot, expected_width, stratify
from pu_noise_cli.posterior.calibration import calibrate
from pu_noise_cli.prior.auto import (
    LEVEL,
    MIN_EXCESS,
    Evidence,
    TopVerdicts,
    believe,
    top_cells,
)
from pu_noise_cli.prior.base import ESTIMATORS, Settings, Shares
from pu_noise_cli.prior.negatives import Mixture
from pu_noise_cli.score.sketch import Sketch

AUCS, ALPHAS, BETAS = (0.75, 0.87, 0.95), (0.02, 0.2, 0.5), (1.0, 0.9, 0.75)
SIZES = (50, 100, 200)
AUDITS = 20  # of each estimated draw
LABELED, UNLABELED = 1000, 10_000
NEGATIVES, SHIFT = (200, 1000), 0.5
RANGES = {"< .01": (0.002, 0.01), ".01 to .1": (0.01, 0.1), "> .1": (0.1, 0.6)}
LABELS = ((50, 100), (100, 3000))
LEAST_AUC = 0.55


def exact_width(positive: int, n: int) -> float:
    """The width of Clopper and Pearson's 95 % interval."""
    low = beta_law.ppf(0.025, positive, n - positive + 1) if positive > 0 else 0.0
    high = beta_law.ppf(0.975, positive + 1, n - positive) if positive < n else 1.0
    return float(high - low)


def audited(
    posterior: np.ndarray, rows: np.ndarray, cells: np.ndarray, y: np.ndarray, seed: list[int]
) -> list[dict[str, float]]:
    """Audits of one sample: posterior and rows by cell, the cell and the class of each row."""
    rng = np.random.default_rng(seed)
    stratum, due = stratify(posterior, rows)
    sizes = np.bincount(stratum, rows).astype(int)
    share = np.bincount(stratum, rows * posterior) / sizes
    positive, found = np.bincount(stratum[cells], y, len(due)).astype(int), []
    for n in SIZES:
        announced = expected_width(n, due, sizes, share)
        checked = allot(n, due, sizes)
        for _ in range(AUDITS):
            verified = Verified(
                sizes, checked, rng.hypergeometric(positive, sizes - positive, checked)
            )
            at_random = rng.hypergeometric(y.sum(), (~y).sum(), min(n, len(y)))
            low, high = verified.interval()
            found.append(
                {
                    "rows": n,
                    "covered": low <= y.mean() <= high,
                    "width": high - low,
                    "at random": exact_width(at_random, min(n, len(y))),
                    "announced": announced / (high - low) - 1,
                    "error": abs(verified.estimate() - y.mean()),
                }
            )
    return found


def of_scores(
    labeled: np.ndarray, unlabeled: np.ndarray, classes: list[np.ndarray], seed: list[int]
) -> list[dict[str, object]]:
    """Audits of unlabeled rows for alpha and of labeled ones for beta, after `auto`."""
    sketch = Sketch.from_samples(labeled, unlabeled)
    auto = ESTIMATORS["auto"].estimate(sketch, Settings())
    found = calibrate(sketch, Shares(auto.alpha, auto.beta, draws=auto.draws or ()))
    of_unlabeled = found.posterior, sketch.unlabeled, sketch.cell_index(unlabeled), classes[1]
    of_labeled = found.posterior_labeled, sketch.labeled, sketch.cell_index(labeled), classes[0]
    return [
        {"of": name, "without": float(np.ptp(ci)), **one}
        for name, data, ci in (
            ("alpha", of_unlabeled, auto.alpha_ci),
            ("beta", of_labeled, auto.beta_ci),
        )
        for one in audited(*data, seed)
    ]


def simulated(cell: tuple[float, float, float], seed: int, index: int) -> list[dict[str, object]]:
    """One draw of a cell: AUC, alpha and beta."""
    auc, alpha, beta = cell
    rng = np.random.default_rng([seed, index, *(int(1000 * x) for x in cell)])
    classes = [rng.random(LABELED) < beta, rng.random(UNLABELED) < alpha]
    scores = [rng.normal(size=len(y)) + np.sqrt(2) * norm.ppf(auc) * y for y in classes]
    place = dict(zip(("AUC", "α", "β"), cell, strict=True))
    return [place | one for one in of_scores(*scores, classes, [seed, index])]


def drawn(
    file: Path, seed: int, index: int, most_known: int
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The features and classes of a table, and its labeled, unlabeled and known negative rows.

    A third of the positives is labeled, with a tenth of wrong labels.
    """
    table = pd.read_parquet(file)
    x, y = table.drop(columns="y"), table["y"].to_numpy() > 0
    order = np.random.default_rng([seed, index]).permutation(len(y))
    positives, negatives = order[y[order]], order[~y[order]]
    count, known = len(positives) // 3, min(most_known, len(negatives) // 4)
    labeled = np.append(positives[:count], negatives[: count // 9])
    rest = negatives[count // 9 :]
    return x, y, labeled, np.append(positives[count:], rest[known:]), rest[:known]


def real(file: Path, seed: int, index: int) -> list[dict[str, object]]:
    """One draw from a table."""
    import pu_noise_cli

    x, y, labeled, unlabeled, _ = drawn(file, seed, index, 0)
    found = pu_noise_cli.estimate(x.iloc[labeled], x.iloc[unlabeled])
    scores = [frame["score"].to_numpy() for frame in (found.labeled, found.unlabeled)]
    audits = of_scores(*scores, [y[labeled], y[unlabeled]], [seed, index])
    return [{"data": file.stem} | one for one in audits]


# ---- Verdicts at the top


def verified_top(problem: simulator.Problem, n: int, rng: np.random.Generator) -> TopVerdicts:
    """Verdicts on n rows at the top of a problem, or on all that there are."""
    rows = int(problem.sketch.unlabeled[top_cells(problem.sketch)].sum())
    positive = round(problem.purity * rows)
    checked = min(n, rows)
    found = rng.hypergeometric(positive, rows - positive, checked) if rows else 0
    return TopVerdicts(int(found), checked)


def at_top(seed: int, index: int) -> list[dict[str, object]]:
    """One pair of classes, at each range of alpha and of labels."""
    rng, found = np.random.default_rng([seed, index]), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a classifier that did not converge is as good as any
        classes, _ = sbc.plausible(rng)
    for (name, between), labels in product(RANGES.items(), LABELS):
        alpha = simulator.log_uniform(rng, *between)
        beta = 0.0
        while beta < alpha + MIN_EXCESS:
            _, beta = simulator.draw_shares(rng)
        sizes = (int(simulator.log_uniform(rng, *ends)) for ends in (labels, (1e3, 3e4)))
        problem = simulator.draw(classes, alpha, beta, *sizes, rng)
        if problem.sketch.auc < LEAST_AUC:
            continue
        evidence = Evidence.from_sketch(problem.sketch)
        beliefs = {
            "default": believe(problem.sketch, Settings(), evidence)[0],
            "none": believe(problem.sketch, Settings(purity=0), evidence)[0],
        }
        for n in TOP_SIZES:
            top = verified_top(problem, n, rng)
            beliefs[f"{n}"] = believe(problem.sketch, Settings(), evidence, top)[0]
        for kind, belief in beliefs.items():
            low, high = belief.interval(LEVEL)[0]
            estimate = float(belief.alphas(np.array([0.5]))[0])
            found.append(
                {
                    "α": name,
                    "labels": f"{labels[0]} to {labels[1]}",
                    "verdicts": kind,
                    "covered": low <= problem.alpha <= high,
                    "below": problem.alpha < low,
                    "width": high - low,
                    "error": abs(estimate - problem.alpha),
                }
            )
    return found


def report_of_top(found: pd.DataFrame) -> str:
    """Coverage, width and error by range of alpha, labels and verdicts."""
    by = ["α", "labels", "verdicts"]
    grouped = found.groupby(by, sort=False)
    table = grouped[["covered", "below", "width", "error"]].mean().assign(draws=grouped.size())
    rows = {"; ".join(map(str, key)): dict(row) for key, row in table.iterrows()}
    return markdown(rows, "; ".join(by))


# ---- Known negatives


def informed(
    labeled: np.ndarray, unlabeled: np.ndarray, negatives: np.ndarray, alpha: float, beta: float
) -> dict[str, float]:
    """The interval of alpha without and with negatives, and with beta known too."""
    found: dict[str, float] = {}
    for name, sketch in (
        ("without", Sketch.from_samples(labeled, unlabeled)),
        ("with", Sketch.from_samples(labeled, unlabeled, negatives)),
    ):
        evidence = Evidence.from_sketch(sketch)
        for of, known in ((name, None), (f"{name}, β", beta)):  # as `auto` does it
            belief, _, _ = believe(sketch, Settings(beta=known), evidence)
            (low, high), _ = belief.interval(LEVEL)
            found[f"error {of}"] = abs(float(belief.alphas(np.array([0.5]))[0]) - alpha)
            found[f"width {of}"] = high - low
            found[f"covered {of}"] = low <= alpha <= high
    return found


def warned(*scores: np.ndarray) -> bool:
    return bool(Mixture.from_sketch(Sketch.from_samples(*scores)).notices())


def with_negatives(
    cell: tuple[float, float, float], seed: int, index: int
) -> list[dict[str, object]]:
    """One draw of a cell: AUC, alpha and beta."""
    auc, alpha, beta = cell
    rng = np.random.default_rng([seed, index, *(int(1000 * x) for x in cell)])
    classes = [rng.random(LABELED) < beta, rng.random(UNLABELED) < alpha]
    scores = [rng.normal(size=len(y)) + np.sqrt(2) * norm.ppf(auc) * y for y in classes]
    place, found = dict(zip(("AUC", "α", "β"), cell, strict=True)), []
    for n in NEGATIVES:
        negatives = rng.normal(size=n)
        shares = classes[1].mean(), classes[0].mean()
        row = informed(*scores, negatives, *shares) | {
            "warned": warned(*scores, negatives),
            "warned, down": warned(*scores, negatives - SHIFT),
            "warned, up": warned(*scores, negatives + SHIFT),
        }
        found.append(place | {"n": n} | row)
    return found


def real_with_negatives(file: Path, seed: int, index: int) -> list[dict[str, object]]:
    """The same of a table of which up to 500 negatives are set aside."""
    import pu_noise_cli

    x, y, labeled, unlabeled, known = drawn(file, seed, index, 500)
    found = pu_noise_cli.estimate(
        *(x.iloc[rows] for rows in (labeled, unlabeled)), negatives=x.iloc[known]
    )
    assert found.negatives is not None
    frames = (found.labeled, found.unlabeled, found.negatives)
    scores = [frame["score"].to_numpy() for frame in frames]
    row = informed(*scores, y[unlabeled].mean(), y[labeled].mean())
    return [{"data": file.stem, "n": len(known), "warned": warned(*scores)} | row]


def report_of_negatives(found: pd.DataFrame, by: list[str]) -> str:
    """Coverage, widths and errors of each cell, and over all of them."""
    cells = found.groupby(by).mean()
    rows = {" ".join(map(str, key)): row for key, row in cells.iterrows()} | {"all": cells.mean()}
    for row in rows.values():
        for known in ("", ", β"):
            row[f"ratio{known}"] = row[f"error with{known}"] / row[f"error without{known}"]
    return markdown({name: dict(row) for name, row in rows.items()}, " ".join(by))


def report(found: pd.DataFrame, by: list[str]) -> str:
    """Coverage and widths of each cell."""
    lines = []
    for name, part in found.groupby("of"):
        grouped = part.groupby([*by, "rows"])
        table = grouped[["covered", "width", "at random", "without", "error"]].mean()
        table["announced"] = grouped["announced"].agg(lambda x: x.abs().median())
        table["draws"] = grouped.size()
        rows = {" ".join(map(str, key)): dict(row) for key, row in table.iterrows()}
        lines += [f"## {name} by verdicts", markdown(rows, " ".join([*by, "verdicts"]))]
        worst = table["covered"].min(), table["covered"].max()
        lines.append(f"coverage from {worst[0]:.3f} to {worst[1]:.3f} over the cells\n")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--negatives", action="store_true", help="known negatives, not verdicts")
    parser.add_argument("--top", action="store_true", help="verdicts at the top only")
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--data", type=Path, help="directory of real tables, instead")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        if options.top:
            tasks = [pool.submit(at_top, options.seed, i) for i in range(options.draws)]
        elif options.data is not None:
            files, by = sorted(options.data.glob("*.parquet")), ["data"]
            one = partial(pool.submit, real_with_negatives if options.negatives else real)
            tasks = [one(f, options.seed, i) for f in files for i in range(options.repeats)]
        else:
            by = ["AUC", "α", "β"]
            one = partial(pool.submit, with_negatives if options.negatives else simulated)
            cells = product(AUCS, ALPHAS, BETAS)
            tasks = [one(c, options.seed, i) for c in cells for i in range(options.draws)]
        found = pd.DataFrame([row for task in tasks for row in task.result()])
    if options.top:
        print(report_of_top(found))
    else:
        print(report_of_negatives(found, [*by, "n"]) if options.negatives else report(found, by))


if __name__ == "__main__":
    main()
