"""The field's tables: rare positives, few labels, weak scores.

python benchmarks/field.py draw --data DIRECTORY ... --repeats 5    # score the draws, once
python benchmarks/field.py measure                                  # what each method says of them
python benchmarks/field.py labels --data DIRECTORY ...              # how many labels one needs
python benchmarks/field.py small                                    # a minute, on bundled tables

A table with known classes gives tables with any α by leaving out positives: α and the number of
labels are swept, β is 1, .95 and .75 in turn. The unlabeled rows are as many as the table allows,
at most 10,000. The score is the one that `run` learns by default.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import protocol
from accuracy import OURS, markdown, write_bundled
from peers import PEERS
from threadpoolctl import threadpool_limits

from pu_noise_cli.posterior.calibration import bounds, calibrate
from pu_noise_cli.prior.auto import Evidence, TopVerdicts, believe, top_cells
from pu_noise_cli.prior.base import ESTIMATORS, Estimate, Settings
from pu_noise_cli.prior.checks import Case
from pu_noise_cli.prior.document import CI_LEVEL, shares_for
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.score.sketch import Sketch

ALPHAS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
LABELS = (50, 100, 300, 1000)
BETAS = (1.0, 0.95, 0.75)
CLASSIFIER = "standard"
MAX_UNLABELED = 10_000
MIN_UNLABELED = 300
FDR = 0.05
SLACK = 0.01  # a bound that misses the truth by less decides nothing
PLACES = (0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 1)  # quantiles of the unlabeled rows
BINS = 40  # for Fisher's information
SMALL_ALPHAS, SMALL_LABELS, SMALL_COVERED = (0.01, 0.05, 0.2), (50, 100), 0.9
VERDICTS = (10, 20, 50)  # at the top
RARE = (0.0, 0.05)  # a range of α that a lab may know beforehand
STRATA = {
    "alpha": [0, 0.0085, 0.045, 0.15, 0.35, 1],  # α is swept; rounding keeps it near its level
    "labeled": [0, 75, 200, 500, 2000],
    "AUC": [0, 0.7, 0.8, 0.9, 0.97, 1.01],
    "top purity": [0, 0.1, 0.3, 0.6, 1.01],
    "beta": [0, 0.9, 0.99, 1.01],
}
DRAWS = protocol.HERE / "results" / "field"


# ---- Draws


@dataclass(frozen=True)
class Cell:
    """A kind of table that is drawn from a source, several times."""

    source: str
    alpha: float
    n_labeled: int

    @property
    def name(self) -> str:
        return f"{self.source} {self.alpha:g} {self.n_labeled}"


@dataclass(frozen=True)
class Draw:
    """Scores with the classes that they hide: counts of rows at each distinct score."""

    source: str
    beta: float
    scores: np.ndarray  # (cells,), increasing
    labeled: np.ndarray  # (2, cells): negatives and positives
    unlabeled: np.ndarray  # (2, cells)

    @property
    def alpha(self) -> float:
        return float(self.unlabeled[1].sum() / self.unlabeled.sum())

    @property
    def sketch(self) -> Sketch:
        labeled, unlabeled = self.labeled.sum(0), self.unlabeled.sum(0)
        return Sketch.from_samples(
            np.repeat(self.scores, labeled), np.repeat(self.scores, unlabeled)
        )

    @property
    def auc(self) -> float:
        """Of positives against negatives, among the unlabeled rows."""
        u0, u1 = self.unlabeled / self.unlabeled.sum(1, keepdims=True)
        return float(u1 @ (np.cumsum(u0) - u0 / 2))


@cache
def table(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes; categories are one-hot, missing values are marked and imputed."""
    frame = pd.read_parquet(path)
    y = frame.pop("y").to_numpy() == 1
    frame = frame[[column for column in frame if not column.startswith("id_")]]
    text = [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c])]
    frame = pd.get_dummies(frame, columns=text, dtype=float).astype(float)
    missing = frame.isna().loc[:, frame.isna().any()].astype(float).add_suffix(" missing")
    frame = pd.concat([frame.fillna(frame.median()), missing], axis=1)
    return frame.to_numpy(np.float64), y


def sizes(y: np.ndarray, cell: Cell, beta: float) -> tuple[int, int, int, int] | None:
    """Positives and negatives, labeled and unlabeled; None if the table has not enough of them."""
    l1 = round(beta * cell.n_labeled)
    l0 = cell.n_labeled - l1
    positives, negatives = int(y.sum()) - l1, int((~y).sum()) - l0
    if positives < 1 or negatives < 1:
        return None
    n = min(MAX_UNLABELED, positives / cell.alpha, negatives / (1 - cell.alpha))
    u1 = round(cell.alpha * n)
    u0 = round(n) - u1
    if u1 < 1 or n < MIN_UNLABELED or abs(u1 / (u0 + u1) / cell.alpha - 1) > 0.5:
        return None
    return l1, l0, u1, u0


def file_of(folder: Path, cell: Cell, repeat: int) -> Path:
    return folder / f"{cell.name} {repeat}.npz"


def all_tasks(paths: dict[str, Path], repeats: int) -> list[tuple[Path, Cell, int]]:
    """Every draw, the first of each cell first."""
    of_tables = list(cells(paths))
    return [(paths[cell.source], cell, repeat) for repeat in range(repeats) for cell in of_tables]


def cells(paths: dict[str, Path]) -> Iterator[Cell]:
    """The cells that the tables have rows for, whatever β."""
    for (name, path), alpha, n_labeled in itertools.product(paths.items(), ALPHAS, LABELS):
        cell = Cell(name, alpha, n_labeled)
        if all(sizes(table(path)[1], cell, beta) for beta in BETAS):
            yield cell


def rows_of(path: Path, cell: Cell, repeat: int) -> tuple[np.ndarray, np.ndarray]:
    """The labeled and the unlabeled rows of a draw, in a table of the source."""
    rng = np.random.default_rng([repeat, *cell.name.encode()])
    _, y = table(path)
    found = sizes(y, cell, BETAS[repeat % len(BETAS)])
    assert found is not None
    l1, l0, u1, u0 = found
    positive, negative = (rng.permutation(np.flatnonzero(y == side)) for side in (True, False))
    labeled = np.concatenate([positive[:l1], negative[:l0]])
    return labeled, np.concatenate([positive[l1 : l1 + u1], negative[l0 : l0 + u0]])


def score(path: Path, cell: Cell, repeat: int, target: Path) -> None:
    """Draw a table, learn its score and write both."""
    features, y = table(path)
    labeled, unlabeled = rows_of(path, cell, repeat)
    drawn = protocol.Draw(features[labeled], features[unlabeled], y[labeled], y[unlabeled])
    write(target, cell, repeat, drawn, protocol.scores(drawn, CLASSIFIER, repeat))


def write(
    target: Path,
    cell: Cell,
    repeat: int,
    drawn: protocol.Draw,
    scores: tuple[np.ndarray, np.ndarray],
) -> None:
    """Write the counts of each class at each score."""
    distinct, place = np.unique(np.concatenate(scores), return_inverse=True)

    def counts(places: np.ndarray, classes: np.ndarray) -> np.ndarray:
        kinds = [np.bincount(places[classes == side], minlength=len(distinct)) for side in (0, 1)]
        return np.stack(kinds).astype(np.int32)

    n = cell.n_labeled
    by_set = counts(place[:n], drawn.labeled_y), counts(place[n:], drawn.unlabeled_y)
    beta = BETAS[repeat % len(BETAS)]
    np.savez_compressed(target, scores=distinct, labeled=by_set[0], unlabeled=by_set[1], beta=beta)


def score_all(folder: Path, tasks: list[tuple[Path, Cell, int]], processes: int) -> None:
    """Score every draw that is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting = [
        (*task, target) for task in tasks if not (target := file_of(folder, *task[1:])).exists()
    ]
    print(f"{len(waiting)} of {len(tasks)} draws to score", flush=True)
    workers = ProcessPoolExecutor(processes, initializer=threadpool_limits, initargs=(1,))
    with workers as pool:
        for n, _ in enumerate(pool.map(score, *zip(*waiting, strict=True)), 1):
            if n % 100 == 0:
                print(n, flush=True)


# ---- What is said of a draw


def read(path: Path) -> Draw:
    with np.load(path) as arrays:
        return Draw(
            path.stem.split(" ")[0],
            float(arrays["beta"]),
            *(arrays[name] for name in ("scores", "labeled", "unlabeled")),
        )


def about(draw: Draw) -> dict[str, float | str]:
    """The truth, and what makes it easy or hard to find."""
    labeled = draw.labeled.sum(0)
    sketch = Sketch(draw.scores, np.column_stack([draw.unlabeled.sum(0), labeled, 0 * labeled]))
    top = top_cells(sketch)
    return {
        "source": draw.source,
        "alpha": draw.alpha,
        "beta": draw.beta,
        "labeled": int(labeled.sum()),
        "unlabeled": int(draw.unlabeled.sum()),
        "AUC": draw.auc,
        "answered": Case(sketch, Estimate(0.0, 1.0)).ranks_labeled_higher,
        "top purity": draw.unlabeled[1, top].sum() / max(draw.unlabeled[:, top].sum(), 1),
    }


def verified_at_the_top(draw: Draw, seed: int) -> dict[str, float]:
    """What `auto` says after true verdicts on rows at the top."""
    sketch, rng = draw.sketch, np.random.default_rng(seed)
    top = top_cells(sketch)[sketch.cell_index(draw.scores)]
    order = rng.permutation(np.repeat([False, True], draw.unlabeled[:, top].sum(1)))
    evidence, found = Evidence.from_sketch(sketch), {}
    for n in VERDICTS:
        seen = order[:n]
        belief, _, _ = believe(
            sketch, Settings(), evidence, TopVerdicts(int(seen.sum()), len(seen))
        )
        low, high = belief.interval(CI_LEVEL)[0]
        alpha = float(belief.alphas(np.array([0.5]))[0])
        name = f"{n} verdicts"
        found |= {f"{name} alpha": alpha, f"{name} low": low, f"{name} high": high}
    return found


def estimates(sketch: Sketch, alpha: float) -> dict[str, float]:
    """What `auto` says under several assumptions, with intervals, and what other methods say."""
    known = {"default": {}, "purity 0.3": {"purity": 0.3}}
    if alpha <= RARE[1]:
        known["rare"] = {"alpha_between": RARE}
    found = {}
    for name, assumed in known.items():
        estimate = ESTIMATORS["auto"].estimate(sketch, Settings(**assumed))
        found |= {f"{name} alpha": estimate.alpha}
        found |= {f"{name} low": estimate.alpha_ci[0], f"{name} high": estimate.alpha_ci[1]}
    for method in OURS:
        if method != "auto" and ":" not in method:
            found[f"{method} alpha"] = ESTIMATORS[method].estimate(sketch, Settings()).alpha
    for peer, function in PEERS.items():
        found[f"{peer} alpha"] = function(sketch)
    return found


def calls(draw: Draw) -> dict[str, float]:
    """Calls at FDR by default, how many of them are false, and how many bounds hold.

    The truth that a bound must hold is the fraction of positives among the unlabeled rows between
    two quantiles, if positives are distributed as labeled and unlabeled ones are together; it may
    be missed by SLACK and two standard errors.
    """
    sketch = draw.sketch
    prior = estimate_prior(sketch, "auto", Settings())
    if prior.alpha is None:  # labeled and unlabeled rows score alike: no answer, and no calls
        return {"called": 0.0, "false": 0.0, "recalled": 0.0, "bounds hold": np.nan}
    calibration = calibrate(*shares_for(prior, sketch)[:2])
    cell = sketch.cell_index(draw.scores)
    called = calibration.fdr[cell] <= FDR
    false, right = draw.unlabeled[:, called].sum(1)
    low, high = (bound[cell] for bound in bounds(calibration, 0).posterior)
    u0, u1 = draw.unlabeled
    f1, n1 = u1 + draw.labeled[1], u1.sum() + draw.labeled[1].sum()
    rank = (np.cumsum(u0 + u1) - (u0 + u1) / 2) / (u0 + u1).sum()
    held = []
    for start, end in itertools.pairwise(PLACES):
        here = (rank >= start) & (rank < end)
        rows = (u0 + u1)[here]
        if rows.sum() == 0:
            continue
        positives = u1.sum() * f1[here].sum() / n1
        truth = positives / (positives + u0[here].sum())
        error = SLACK + 2 * np.sqrt(
            truth * (1 - truth) / rows.sum() + truth**2 / max(f1[here].sum(), 1)
        )
        held.append(np.average(low[here], weights=rows) <= truth + error)
        held.append(np.average(high[here], weights=rows) >= truth - error)
    return {
        "called": float(false + right),
        "false": float(false),
        "recalled": float(right / u1.sum()),
        "bounds hold": float(np.mean(held)),
    }


def said(with_calls: bool, path: Path) -> dict[str, float | str]:
    draw = read(path)
    found = about(draw) | estimates(draw.sketch, draw.alpha) | verified_at_the_top(draw, 0)
    return found | (calls(draw) if with_calls else {})


# ---- Figures


def figures(draws: pd.DataFrame, name: str) -> dict[str, float]:
    """Errors and, where there are intervals, their coverage, width and score."""
    error = draws[f"{name} alpha"] - draws["alpha"]
    found = {"draws": len(draws), "error": error.abs().mean(), "bias": error.mean()}
    if f"{name} low" in draws:
        low, high = draws[f"{name} low"], draws[f"{name} high"]
        below, above = (low - draws["alpha"]).clip(0), (draws["alpha"] - high).clip(0)
        found |= {
            "covered": ((below < 1e-9) & (above < 1e-9)).mean(),
            "too high": (below >= 1e-9).mean(),
            "width": (high - low).mean(),
            "interval score": (high - low + 2 / (1 - CI_LEVEL) * (below + above)).mean(),
            "low / estimate": (low / draws[f"{name} alpha"].clip(1e-6)).mean(),
        }
    return found


def call_figures(draws: pd.DataFrame) -> dict[str, float]:
    draws = draws[draws["called"].notna()]
    share = draws["false"] / draws["called"].clip(1)
    return {
        "draws": len(draws),
        "draws with calls": (draws["called"] > 0).mean(),
        "false share": share.mean(),
        "false share where any is called": share[draws["called"] > 0].mean(),
        "of all calls": draws["false"].sum() / max(draws["called"].sum(), 1),
        "recalled": draws["recalled"].mean(),
        "bounds hold": draws["bounds hold"].mean(),
    }


def by_stratum(
    draws: pd.DataFrame, figure: Callable[[pd.DataFrame], dict[str, float]]
) -> dict[str, dict[str, float]]:
    rows = {"all": figure(draws)}
    for column, edges in STRATA.items():
        for low, high in itertools.pairwise(edges):
            inside = draws[(draws[column] >= low) & (draws[column] < high)]
            if len(inside):
                rows[f"{column} {low:g} to {min(high, 1) if high < 2 else high:g}"] = figure(inside)
    return rows | {f"source {s}": figure(group) for s, group in draws.groupby("source")}


def report(draws: pd.DataFrame) -> str:
    answered = draws["answered"].mean()
    parts = [
        f"# The field: {len(draws)} draws of {draws['source'].nunique()} sources\n",
        f"{1 - answered:.1%} of them have no answer: labeled and unlabeled rows score alike. All "
        "figures are of the rest.\n",
    ]
    draws = draws[draws["answered"]]
    for name in ("default", "purity 0.3", "rare", *(f"{n} verdicts" for n in VERDICTS)):
        here = draws[draws[f"{name} alpha"].notna()]
        parts += [
            f"## auto, {name}\n",
            markdown(by_stratum(here, partial(figures, name=name)), "stratum"),
        ]
    methods = [c.removesuffix(" alpha") for c in draws if c.endswith(" alpha")]
    rows = {
        m: {
            k: v["error"]
            for k, v in by_stratum(draws, partial(figures, name=m)).items()
            if "source" not in k
        }
        for m in methods
        if m not in ("rare", *(f"{n} verdicts" for n in VERDICTS))
    }
    parts += ["## Error of α by method\n", markdown(rows, "method")]
    if "called" in draws:
        parts += [
            f"## Calls at fdr {FDR} and bounds\n",
            markdown(by_stratum(draws, call_figures), "stratum"),
        ]
    return "\n".join(parts)


def measure(folder: Path, every: int, processes: int) -> pd.DataFrame:
    """Measure all draws; calls and bounds on those of the first repeats of `every`."""
    paths = sorted(folder.glob("*.npz"))
    with_calls = [int(path.stem.split(" ")[-1]) % every == 0 for path in paths]
    workers = ProcessPoolExecutor(processes, initializer=threadpool_limits, initargs=(1,))
    with workers as pool:
        return pd.DataFrame(pool.map(said, with_calls, paths, chunksize=20))


# ---- How many labels


@cache
def supervised(path: Path) -> np.ndarray:
    """The score of a classifier that was trained on all classes, out of fold."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import cross_val_predict

    features, y = table(path)
    model = HistGradientBoostingClassifier(max_iter=100, learning_rate=0.08, random_state=0)
    return cross_val_predict(model, features, y, cv=5, method="predict_proba")[:, 1]


def sampling_error(draw: Draw) -> float:
    """The mean error of α if its classes' score distributions were known: Fisher's bound."""
    below = np.cumsum(draw.unlabeled.sum(0)) / draw.unlabeled.sum()
    starts = np.flatnonzero(np.diff((below * BINS).astype(int), prepend=-1))
    f0, f1 = np.add.reduceat(draw.unlabeled + draw.labeled, starts, axis=1).astype(float)
    f0, f1 = f0 / f0.sum(), f1 / f1.sum()
    f = draw.alpha * f1 + (1 - draw.alpha) * f0
    information = ((f1 - f0) ** 2 / np.maximum(f, 1e-12)).sum()
    return float(np.sqrt(2 / np.pi / information / draw.unlabeled.sum()))


def parts_of_error(folder: Path, path: Path, cell: Cell, repeat: int) -> dict[str, float | str]:
    """The error of α, and what remains of it with a better score, and with known classes."""
    draw = read(file_of(folder, cell, repeat))
    labeled, unlabeled = rows_of(path, cell, repeat)
    best = supervised(path)
    auto = ESTIMATORS["auto"].estimate
    with_best = auto(Sketch.from_samples(best[labeled], best[unlabeled]), Settings())
    by_default = auto(draw.sketch, Settings())
    return about(draw) | {
        "error": abs(by_default.alpha - draw.alpha),
        "width": by_default.alpha_ci[1] - by_default.alpha_ci[0],
        "error with the best score": abs(with_best.alpha - draw.alpha),
        "error by sampling alone": sampling_error(draw),
    }


def labels_needed(folder: Path, tasks: list[tuple[Path, Cell, int]], processes: int) -> str:
    """The parts of the error by the number of labels and the AUC."""
    scored = [task for task in tasks if file_of(folder, *task[1:]).exists()]
    job = partial(parts_of_error, folder)
    workers = ProcessPoolExecutor(processes, initializer=threadpool_limits, initargs=(1,))
    with workers as pool:
        draws = pd.DataFrame(pool.map(job, *zip(*scored, strict=True), chunksize=40))
    rows, draws = {}, draws[draws["answered"]]
    groups = [pd.cut(draws["AUC"], STRATA["AUC"], right=False), "labeled"]
    for (auc, n), group in draws.groupby(groups, observed=True):
        means = group[[c for c in group if c.startswith(("error", "width"))]].mean()
        rows[f"AUC {auc.left:g} to {min(auc.right, 1):g}, {n} labels"] = {
            "draws": len(group),
            **means,
        }
    return markdown(rows, "draws of")


def small(processes: int) -> None:
    """A few draws of scikit-learn's own tables; fails where intervals do not hold what they say."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_bundled(folder / "tables")
        paths = {p.stem: p for p in sorted((folder / "tables").glob("*.parquet"))}
        tasks = [
            task
            for task in all_tasks(paths, 2)
            if task[1].alpha in SMALL_ALPHAS and task[1].n_labeled in SMALL_LABELS
        ]
        score_all(folder, tasks, processes)
        draws = measure(folder, 1, processes)
    print(report(draws))
    covered = figures(draws[draws["answered"]], "default")["covered"]
    if covered < SMALL_COVERED:
        raise SystemExit(f"intervals hold alpha in {covered:.3f} of the draws only")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=["draw", "measure", "labels", "small"])
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--draws", type=Path, default=DRAWS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--calls-every", type=int, default=3, help="repeats, with calls and bounds")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    folder, processes = options.draws, options.processes
    if options.step == "small":
        small(processes)
        return
    if options.step == "measure":
        draws = measure(folder, options.calls_every, processes)
        draws.to_parquet(folder / "measured.parquet")
        print(report(draws))
        return
    paths = {p.stem: p for d in options.data for p in sorted(d.glob("*.parquet"))}
    tasks = all_tasks(paths, options.repeats)
    if options.step == "draw":
        score_all(folder, tasks, processes)
    else:
        print(labels_needed(folder, tasks, processes))


if __name__ == "__main__":
    main()
