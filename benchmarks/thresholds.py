"""Thresholds of PP3 and BP4 beside those of Pejaver et al. (2022), from the data behind them.

python benchmarks/thresholds.py clingen2019.parquet pejaver2022-table2.csv --draws 10

The table has a row for each variant, a column for each predictor, `y` (1 for pathogenic) and
`genename`; the other one a row for each `tool` with its `direction` and a column for each level.
First with both classes known, at the published prior. Then without the benign labels: 1,000
pathogenic variants as labeled rows, of which 5 % are wrong, and the others hidden among 4,000
unlabeled ones.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd
from accuracy import markdown

from pu_noise_cli import estimate
from pu_noise_cli.numerics import FloatArray
from pu_noise_cli.posterior.calibration import bounds, calibrate
from pu_noise_cli.prior.base import Settings, Shares
from pu_noise_cli.prior.document import shares_for
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.variants.rules import Grading
from pu_noise_cli.variants.thresholds import Thresholds

PRIOR = 0.0441
ACMG = Grading.read("acmg", PRIOR)
N_LABELED, N_UNLABELED, BETA = 1000, 4000, 0.95
ALPHAS = (PRIOR, 0.2)
COMPARED = ("PP3_Supporting", "PP3_Moderate", "BP4_Supporting", "BP4_Moderate")

Found = dict[str, float]  # the score from which on a level is reached, NaN where it is not


def thresholds(sketch: Sketch, shares: Shares) -> Found:
    """The thresholds of a score that runs upwards."""
    calibration = calibrate(sketch, shares)
    found = Thresholds.from_calibration(calibration, bounds(calibration, 0), ACMG)
    return {
        one.level.code: np.nan if one.reached is None else one.reached.score_from
        for one in found.levels
    }


def predictors(
    data: pd.DataFrame, published: pd.DataFrame
) -> Iterator[tuple[str, Found, pd.Series]]:
    """Each predictor with its published thresholds and its scores, all turned upwards."""
    for tool, row in published.iterrows():
        sign = -1 if row["direction"] == "lower" else 1
        theirs = {_code(name): sign * float(row[name]) for name in published.columns[1:]}
        yield str(tool), theirs, sign * data[tool].dropna()


def _code(column: str) -> str:
    """PP3_very_strong is PP3_VeryStrong here."""
    side, strength = column.split("_", 1)
    return f"{side}_{''.join(map(str.capitalize, strength.split('_')))}"


def between(scores: FloatArray, a: float, b: float, code: str) -> float:
    """The share of variants that one of two thresholds counts in and the other does not."""
    low, high = min(a, b), max(a, b)
    if code.startswith("PP3"):
        return float(((scores >= low) & (scores < high)).mean())
    return float(((scores > low) & (scores <= high)).mean())


def both_classes(data: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Our thresholds and theirs, a row for each predictor and level."""
    rows = []
    for tool, theirs, scores in predictors(data, published):
        pathogenic = data.loc[scores.index, "y"] == 1
        x = scores.to_numpy()
        sketch = Sketch.from_samples(x[pathogenic], np.empty(0), x[~pathogenic])
        ours = thresholds(sketch, Shares(PRIOR, 1.0, from_these_rows=False))
        for code, published_at in theirs.items():
            mine = ours[code]
            reached = np.isnan([mine, published_at])
            apart = np.nan if reached.any() else between(x, mine, published_at, code)
            rows.append((tool, code, mine, published_at, reached[0] == reached[1], apart))
    return pd.DataFrame(rows, columns=["tool", "level", "ours", "theirs", "agree", "apart"])


def hidden(
    data: pd.DataFrame, alpha: float, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labeled variants, some of them wrong, and unlabeled ones of which a share is pathogenic."""
    ours, other = (rng.permutation(np.flatnonzero(data["y"] == y)) for y in (1, 0))
    right, wrong = round(BETA * N_LABELED), N_LABELED - round(BETA * N_LABELED)
    pathogenic = round(alpha * N_UNLABELED)
    labeled = np.concatenate([ours[:right], other[:wrong]])
    unlabeled = np.concatenate(
        [ours[right : right + pathogenic], other[wrong : wrong + N_UNLABELED - pathogenic]]
    )
    return data.iloc[labeled], data.iloc[unlabeled]


def one_class(
    data: pd.DataFrame, published: pd.DataFrame, draws: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Thresholds without benign labels beside those with them, and the errors of α."""
    known = both_classes(data, published).set_index(["tool", "level"])["ours"]
    cells, errors = [], []
    for alpha, draw in itertools.product(ALPHAS, range(draws)):
        labeled, unlabeled = hidden(data, alpha, np.random.default_rng([seed, draw]))
        for tool, _, scores in predictors(data, published):
            x, y = (scores[scores.index.isin(part.index)] for part in (labeled, unlabeled))
            sketch = Sketch.from_samples(x.to_numpy(), y.to_numpy())
            prior = estimate_prior(sketch, "auto", Settings())
            codes = " ".join(notice.code for notice in prior.notices)
            assert prior.alpha is not None
            share = (unlabeled.loc[y.index, "y"] == 1).mean()
            errors.append((tool, alpha, abs(prior.alpha - share), codes))
            found = thresholds(sketch, shares_for(prior, sketch)[1])
            for code in COMPARED:
                mine, theirs = found[code], known[tool, code]
                apart = np.nan
                if not np.isnan([mine, theirs]).any():
                    apart = between(scores.to_numpy(), mine, theirs, code)
                cells.append((alpha, tool, code, np.isnan(mine), np.isnan(theirs), apart))
    names = ["alpha", "tool", "level", "not ours", "not known", "apart"]
    return (
        pd.DataFrame(cells, columns=names),
        pd.DataFrame(errors, columns=["tool", "alpha", "error", "warnings"]),
    )


def jointly(data: pd.DataFrame, tools: list[str], draws: int, seed: int) -> pd.DataFrame:
    """The errors of α from all predictors together, genes never split."""
    errors = []
    for alpha, draw in itertools.product(ALPHAS, range(draws)):
        parts = hidden(data, alpha, np.random.default_rng([seed, draw]))
        columns = [part[[*tools, "genename"]] for part in parts]
        found = estimate(*columns, group_column="genename", seed=draw)
        errors.append((alpha, found.alpha - alpha))
    return pd.DataFrame(errors, columns=["alpha", "error"])


def report_both(cells: pd.DataFrame) -> None:
    """Ours beside theirs, and how far apart they are."""
    print("## Both classes known: ours / published, all scores turned upwards\n")
    codes = list(dict.fromkeys(cells["level"]))
    print(f"| predictor | {' | '.join(codes)} |\n|{'---|' * (len(codes) + 1)}")
    for tool, part in cells.groupby("tool", sort=False):
        pairs = zip(part["ours"], part["theirs"], strict=True)
        print(f"| {tool} | {' | '.join(f'{_shown(a)} / {_shown(b)}' for a, b in pairs)} |")
    apart = cells["apart"].dropna()
    print(f"\n- agree on whether a level is reached: {cells['agree'].sum()} of {len(cells)}")
    print(f"- variants between the two, where both reach it: median {apart.median():.4f}, ", end="")
    print(f"ninth decile {apart.quantile(0.9):.4f} ({len(apart)} cells)\n")


def _shown(threshold: float) -> str:
    return "–" if np.isnan(threshold) else f"{threshold:.4g}"


def report_one(cells: pd.DataFrame, errors: pd.DataFrame, joint: pd.DataFrame) -> None:
    """How far thresholds are from those with both classes, and how wrong α is."""
    print("## Without the benign labels\n")
    table = {
        f"{level}, α = {alpha}": {
            "draws": len(part),
            "reached in both": (~part["not ours"] & ~part["not known"]).mean(),
            "in neither": (part["not ours"] & part["not known"]).mean(),
            "apart, median": part["apart"].median(),
            "ninth decile": part["apart"].quantile(0.9),
        }
        for (level, alpha), part in cells.groupby(["level", "alpha"])
    }
    print(markdown(table, "level"))
    print(f"- apart, median of all: {cells['apart'].median():.4f}")
    for alpha, part in joint.groupby("alpha"):
        mean = part["error"].abs().mean()
        print(f"- all predictors together, α = {alpha}: error {mean:.4f} ({len(part)} draws)")
    print(f"- both: {joint['error'].abs().mean():.4f}\n")
    far = errors["error"] > 0.1
    table = {
        f"{tool}, α = {alpha}": {
            "error of α": part["error"].mean(),
            "above 0.1": far[part.index].sum(),
            "of these without warning": (far & (errors["warnings"] == ""))[part.index].sum(),
        }
        for (tool, alpha), part in errors.groupby(["tool", "alpha"])
    }
    print(markdown(table, "predictor"))
    print(f"warnings: {errors['warnings'].str.split().explode().value_counts().to_dict()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("variants")
    parser.add_argument("published")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = pd.read_parquet(options.variants)
    published = pd.read_csv(options.published, index_col="tool")
    report_both(both_classes(data, published))
    cells, errors = one_class(data, published, options.draws, options.seed)
    joint = jointly(data, list(published.index), options.draws, options.seed)
    report_one(cells, errors, joint)


if __name__ == "__main__":
    main()
