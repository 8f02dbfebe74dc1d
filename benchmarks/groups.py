"""α of each of many genes: partial pooling (--by) against separate estimates and one for all.

python benchmarks/groups.py --repeats 20

A repeat has 30 genes of 30 to 3,000 unlabeled variants (log-uniform) and a quarter as many labeled
ones, at least 20, 95 % of them right. Scores are normal, those of positives higher by `distance`;
where `shift` is given, the scores of each gene are moved by a normal number of that standard
deviation. Errors are means over genes of |estimate - α|. The separate estimates are `auto` on each
gene's own rows, and on its unlabeled and all labeled rows. Partial pooling is also shown without
shifts of groups.
"""

from __future__ import annotations

import argparse
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

import numpy as np

from pu_noise_cli.posterior import pooling
from pu_noise_cli.posterior.calibration import calibrate
from pu_noise_cli.posterior.pooling import Bins, pool
from pu_noise_cli.prior.base import Settings
from pu_noise_cli.prior.document import Prior, shares_for
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.rows import LABELED, UNLABELED

GENES, SMALLEST, LARGEST = 30, 30, 3000
LOW, HIGH, BETA = 0.01, 0.5, 0.95
POOLED = "partial pooling"
PARTS = {"pooling, hardly any shifts": {"SPREADS": (0.0,)}}


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
        pooling._shift_priors.cache_clear()
        yield
    pooling._shift_priors.cache_clear()


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
            theirs = np.array([(one.alpha, *(one.alpha_ci or (0, 1))) for one in answers]).T
            found[name].append(_judged(truth, *theirs))
        for name, constants in PARTS.items():
            with changed(**constants):
                found[name].append(_judged(truth, *pooled(genes)[:3]))
        found[POOLED].append(_judged(truth, alpha, low, high))
    return {name: tuple(np.mean(values, axis=(0, 2))) for name, values in found.items()}


def _judged(truth: np.ndarray, alpha: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple:
    return abs(alpha - truth), (low <= truth) & (truth <= high), high - low


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
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
