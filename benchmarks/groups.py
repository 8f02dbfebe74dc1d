"""α of each of many genes: partial pooling (--by) against separate estimates and one for all.

python benchmarks/groups.py --repeats 20

A repeat has 30 genes of 30 to 3,000 unlabeled variants (log-uniform) and a quarter as many labeled
ones, at least 20, 95 % of them right. Scores are normal, those of positives higher by `distance`;
where `shift` is given, the scores of each gene are moved by a normal number of that standard
deviation. Errors are means over genes of |estimate - α|. The separate estimates are `auto` on each
gene's own rows, and on its unlabeled and all labeled rows. Partial pooling is also shown without
shifts of groups.

python benchmarks/groups.py --variants clingen2019.parquet --predictor VEST4_score

Real genes: 2,700 pathogenic variants with the predictor are labeled, all others are unlabeled, or
as many pathogenic ones as make α .1 or .044. A quarter of the unlabeled rows is held out. Six
splits each: log-loss of the hidden classes with and without --by, by the number of a gene's rows.
"named" is whether the warning names a gene.
"""

from __future__ import annotations

import argparse
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pandas as pd

from pu_noise_cli.posterior import pooling
from pu_noise_cli.posterior.calibration import calibrate
from pu_noise_cli.posterior.groups import GroupPosteriors, Groups
from pu_noise_cli.posterior.pooling import Bins, pool
from pu_noise_cli.prior.base import Settings
from pu_noise_cli.prior.document import Prior, shares_for
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.rows import LABELED, UNLABELED

GENES, SMALLEST, LARGEST = 30, 30, 3000
LOW, HIGH, BETA = 0.01, 0.5, 0.95
POOLED = "partial pooling"
PARTS = {"pooling, hardly any shifts": {"SPREADS": ((0.0, 0.0),)}}
N_LABELED, HELD_OUT, SPLITS = 2700, 0.25, 6
DOWNWARD = ("SIFT_score", "FATHMM_score")
NAMED = ("BRCA1", "TSC2", "KMT2D", "TTN")


@dataclass(frozen=True)
class Setting:
    """What genes are like."""

    priors: str  # how α is drawn between LOW and HIGH: log-uniform or uniform
    distance: float
    shift: float = 0.0


SETTINGS = (
    Setting("log-uniform", 2.0),
    Setting("log-uniform", 1.5),
    Setting("uniform", 2.0),
    Setting("uniform", 1.5),
    Setting("log-uniform", 2.0, 0.2),
    Setting("log-uniform", 1.5, 0.4),
)


@dataclass(frozen=True)
class Gene:
    alpha: float
    labeled: np.ndarray
    unlabeled: np.ndarray


def draw(setting: Setting, rng: np.random.Generator) -> list[Gene]:
    """The genes of a repeat."""
    sizes = np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST), GENES)).astype(int)
    if setting.priors == "uniform":
        alphas = rng.uniform(LOW, HIGH, GENES)
    else:
        alphas = np.exp(rng.uniform(np.log(LOW), np.log(HIGH), GENES))

    def scores(rows: int, share: float, shift: float) -> np.ndarray:
        return shift + rng.normal(size=rows) + setting.distance * (rng.random(rows) < share)

    genes = []
    for size, alpha in zip(sizes, alphas, strict=True):
        shift = setting.shift * rng.normal()
        labeled = scores(max(20, size // 4), BETA, shift)
        genes.append(Gene(alpha, labeled, scores(size, alpha, shift)))
    return genes


def estimate(labeled: np.ndarray, unlabeled: np.ndarray) -> Prior:
    """What `auto` says."""
    return estimate_prior(Sketch.from_samples(labeled, unlabeled), "auto", Settings())


@contextlib.contextmanager
def changed(**constants: object) -> Iterator[None]:
    """Partial pooling without a part of it."""
    with contextlib.ExitStack() as stack:
        for name, value in constants.items():
            stack.enter_context(mock.patch.object(pooling, name, value))
        yield


def pooled(genes: list[Gene]) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """α of each gene by partial pooling, the ends of the intervals, and one α for all."""
    sketch = Sketch.from_samples(
        *(np.concatenate(rows) for rows in zip(*map(_rows, genes), strict=True))
    )
    _, shares, _ = shares_for(estimate_prior(sketch, "auto", Settings()), sketch)
    calibration = calibrate(sketch, shares)
    bins = Bins.from_calibration(calibration)
    counts = np.zeros((len(genes) + 1, 3, len(bins.first)), np.int64)
    for group, gene in enumerate(genes, 1):
        for code, scores in ((LABELED, gene.labeled), (UNLABELED, gene.unlabeled)):
            cells = bins.by_cell[sketch.cell_index(scores)]
            counts[group, code] = np.bincount(cells, minlength=len(bins.first))
    found = pool(calibration, bins, counts)
    return found.alpha[1:], found.alpha_low[1:], found.alpha_high[1:], shares.alpha


def _rows(gene: Gene) -> tuple[np.ndarray, np.ndarray]:
    return gene.labeled, gene.unlabeled


def compare(setting: Setting, repeats: int) -> dict[str, tuple[float, float, float]]:
    """For each way the mean error, and the coverage and mean width of its 95 % intervals."""
    found = defaultdict(list)
    for repeat in range(repeats):
        genes = draw(setting, np.random.default_rng([19, repeat]))
        truth = np.array([gene.alpha for gene in genes])
        alpha, low, high, whole = pooled(genes)
        every = np.concatenate([gene.labeled for gene in genes])
        ways = {
            "separate": [estimate(*_rows(gene)) for gene in genes],
            "separate, all labels": [estimate(every, gene.unlabeled) for gene in genes],
        }
        found["one for all"].append((abs(whole - truth), np.nan * truth, np.nan * truth))
        for name, answers in ways.items():
            none = np.nan  # where there is no estimate, there is no error either
            theirs = np.array([(one.alpha or none, *(one.alpha_ci or (0, 1))) for one in answers]).T
            found[name].append(_judged(truth, *theirs))
        for name, constants in PARTS.items():
            with changed(**constants):
                found[name].append(_judged(truth, *pooled(genes)[:3]))
        found[POOLED].append(_judged(truth, alpha, low, high))
    return {name: tuple(np.nanmean(values, axis=(0, 2))) for name, values in found.items()}


def _judged(truth: np.ndarray, alpha: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple:
    return abs(alpha - truth), (low <= truth) & (truth <= high), high - low


def split_variants(data: pd.DataFrame, alpha: float | None, seed: int) -> list[pd.DataFrame]:
    """Labeled, unlabeled and held-out variants."""
    rng = np.random.default_rng([29, seed])
    pathogenic, benign = rng.permutation(np.flatnonzero(data["y"] == 1)), data["y"] == 0
    hidden = pathogenic[N_LABELED:]
    if alpha is not None:
        hidden = hidden[: round(benign.sum() * alpha / (1 - alpha))]
    unlabeled = np.concatenate([hidden, np.flatnonzero(benign)])
    held_out = rng.random(len(unlabeled)) < HELD_OUT
    parts = pathogenic[:N_LABELED], unlabeled[~held_out], unlabeled[held_out]
    return [data.iloc[rows] for rows in parts]


def log_loss(y: np.ndarray, p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return -np.log(np.where(y == 1, p, 1 - p))


def real_genes(data: pd.DataFrame, alpha: float | None, seed: int) -> tuple[list, list]:
    """Losses by rows and size of gene, and what is said of single genes."""
    labeled, unlabeled, held_out = split_variants(data, alpha, seed)
    sketch = Sketch.from_samples(*(part["score"] for part in (labeled, unlabeled)))
    _, shares, _ = shares_for(estimate_prior(sketch, "auto", Settings()), sketch)
    calibration = calibrate(sketch, shares)
    bins = Bins.from_calibration(calibration)
    names = ("(other)", *sorted(data["genename"].unique()))
    place = {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(names), 3, len(bins.first)), np.int64)
    for code, part in ((LABELED, labeled), (UNLABELED, unlabeled)):
        cells = sketch.cell_index(part["score"].to_numpy())
        np.add.at(counts, (part["genename"].map(place), code, bins.by_cell[cells]), 1)
    groups = Groups("genename", names, counts.sum(2), pool(calibration, bins, counts))
    by_group, size, losses = GroupPosteriors(groups, calibration), counts.sum((1, 2)), []
    for what, part in (("unlabeled", unlabeled), ("held out", held_out)):
        places, y = part["genename"].map(place).to_numpy(), part["y"].to_numpy()
        cells = sketch.cell_index(part["score"].to_numpy())
        by = log_loss(y, by_group.columns(places, cells)["posterior"])
        without = log_loss(y, calibration.posterior[cells])
        for name, low, high in (("<= 10", 0, 10), ("11-49", 11, 49), (">= 50", 50, np.inf)):
            some = (size[places] >= low) & (size[places] <= high)
            losses.append((alpha, what, name, seed, by[some].mean(), without[some].mean()))
    found, said = groups.shares, []
    for gene in NAMED:
        i, truth = place[gene], unlabeled.loc[unlabeled["genename"] == gene, "y"].mean()
        ends = found.alpha[i], found.alpha_low[i], found.alpha_high[i]
        said.append((alpha, gene, truth, *ends, i in groups.atypical()))
    return losses, said


def report_real(data: pd.DataFrame) -> None:
    """Tables of losses and of single genes."""
    runs = [real_genes(data, alpha, seed) for alpha in (None, 0.1, 0.044) for seed in range(SPLITS)]
    losses = pd.DataFrame(
        [row for run, _ in runs for row in run],
        columns=["alpha", "rows", "gene's rows", "seed", "--by", "without"],
    )
    losses["splits worse"] = losses["--by"] > losses["without"]
    keys = ["alpha", "rows", "gene's rows"]
    means = losses.groupby(keys, sort=False, dropna=False)[["--by", "without"]].mean()
    means["splits worse"] = losses.groupby(keys, sort=False, dropna=False)["splits worse"].sum()
    print(means.round(4).to_string())
    columns = ["alpha", "gene", "truth", "estimate", "low", "high", "named"]
    said = pd.DataFrame([row for _, run in runs for row in run], columns=columns)
    print(said.round(3).to_string(index=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--variants")
    parser.add_argument("--predictor", default="REVEL_score")
    options = parser.parse_args()
    if options.variants is not None:
        data, name = pd.read_parquet(options.variants), options.predictor
        data["score"] = data[name] * (-1 if name in DOWNWARD else 1)
        report_real(data[data["score"].notna()].reset_index(drop=True))
        return
    repeats = options.repeats
    print(
        "| priors | distance | shift | way | mean error | of it, pooling has | coverage | width |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for setting in SETTINGS:
        found = compare(setting, repeats)
        for name, (error, coverage, width) in found.items():
            ratio = found[POOLED][0] / error
            said = ("", "") if np.isnan(coverage) else (f"{coverage:.3f}", f"{width:.3f}")
            print(
                f"| {setting.priors} | {setting.distance} | {setting.shift} | {name} "
                f"| {error:.4f} | {ratio:.2f} | {said[0]} | {said[1]} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
