"""Thresholds of each gene beside one set of thresholds for all genes, on held-out variants.

python benchmarks/gene_thresholds.py clingen2019.parquet --predictor REVEL_score

Six random halves of the variants are calibrated with both classes known, at the prior of Pejaver et
al. (2022); the other halves are graded. For each level: graded variants of each class, and the
likelihood ratio that they show. "named" genes are those in the warning `groups-not-typical`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np
import pandas as pd
from groups import DOWNWARD
from thresholds import ACMG, PRIOR

from pu_noise_cli.posterior.calibration import bounds, calibrate
from pu_noise_cli.posterior.groups import GroupPosteriors, Groups
from pu_noise_cli.posterior.pooling import Bins, pool
from pu_noise_cli.prior.base import Shares
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.rows import LABELED, NEGATIVE
from pu_noise_cli.variants.groups import GroupThresholds
from pu_noise_cli.variants.thresholds import Thresholds

SPLITS, MANY = 6, 20
WAYS = ("shared", "own")


def calibrated(train: pd.DataFrame, names: tuple[str, ...]) -> GroupThresholds:
    """The thresholds of each gene, by variants of known class."""
    parts = {LABELED: train[train["y"] == 1], NEGATIVE: train[train["y"] == 0]}
    scores = {code: part["score"].to_numpy() for code, part in parts.items()}
    sketch = Sketch.from_samples(scores[LABELED], np.empty(0), scores[NEGATIVE])
    calibration = calibrate(sketch, Shares(PRIOR, 1.0, from_these_rows=False))
    found = Thresholds.from_calibration(calibration, bounds(calibration, 0), ACMG)
    bins, place = Bins.from_calibration(calibration), {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(names), 3, len(bins.first)), np.int64)
    for code, part in parts.items():
        cells = bins.by_cell[sketch.cell_index(scores[code])]
        np.add.at(counts, (part["genename"].map(place), code, cells), 1)
    groups = Groups("genename", names, counts.sum(2), pool(calibration, bins, counts))
    posteriors = GroupPosteriors(groups, calibration, found.bounds)
    return GroupThresholds.from_posteriors(posteriors, found)


def levels_of(thresholds: GroupThresholds, places: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The index of each row's level, counted from 1; 0 for none. The strongest level wins."""
    found = np.zeros(len(scores), np.int64)
    for i, level in reversed([*enumerate(thresholds.levels)]):
        begins = thresholds.begins[places, i]
        found[scores <= begins if level.against else scores >= begins] = i + 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("variants")
    parser.add_argument("--predictor", default="REVEL_score")
    options = parser.parse_args()
    data, name = pd.read_parquet(options.variants), options.predictor
    data["score"] = data[name] * (-1 if name in DOWNWARD else 1)
    data = data[data["score"].notna()].reset_index(drop=True)
    names = ("(other)", *sorted(data["genename"].unique()))
    graded: dict[str, np.ndarray] = defaultdict(lambda: np.zeros((len(WAYS), 2, 9)))
    for seed in range(SPLITS):
        train = np.random.default_rng([7, seed]).random(len(data)) < 0.5
        by_group, new = calibrated(data[train], names), data[~train]
        place = new["genename"].map({name: i for i, name in enumerate(names)}).to_numpy()
        scores, y = new["score"].to_numpy(), new["y"].to_numpy()
        rows, is_named = by_group.groups.rows.sum(1), np.zeros(len(names), bool)
        is_named[by_group.groups.atypical()] = True
        kinds = {
            "all": place >= 0,
            f"at least {MANY} rows": rows[place] >= MANY,
            "fewer": rows[place] < MANY,
            "named": is_named[place],
        }
        for way, places in enumerate((np.zeros_like(place), place)):
            levels = levels_of(by_group, places, scores)
            for kind, some in kinds.items():
                for known in (0, 1):
                    counted = np.bincount(levels[some & (y == known)], minlength=9)
                    graded[kind][way, known] += counted
    print("| genes | level | needs | shared: P, B | ratio | own: P, B | ratio |")
    print("|---|---|---|---|---|---|---|")
    for kind, counts in graded.items():
        for i, level in enumerate(by_group.levels, start=1):
            if not counts[:, :, i].any():
                continue
            cells = []
            for benign, pathogenic in counts:
                ratio = pathogenic[i] / pathogenic.sum() / (max(benign[i], 1) / benign.sum())
                cells.append(f"{pathogenic[i]:.0f}, {benign[i]:.0f} | {ratio:.3g}")
            print(f"| {kind} | {level.code} | {level.lr:.3g} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
