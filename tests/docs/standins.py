"""A small table like the one that the guides call variants.tsv."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd


def write_variants(folder: Path) -> None:
    """variants.tsv of the guide to groups: one table with a label column and a score."""
    rng = np.random.default_rng(1)
    n = 900
    positive = rng.random(n) < 0.3
    pd.DataFrame(
        {
            "variant": [f"v{i}" for i in range(n)],
            "gene": rng.choice(["BRCA1", "MLH1", "TP53"], n),
            "known": (positive & (rng.random(n) < 0.5)).astype(int),
            "REVEL": (rng.normal(size=n) + 2 * positive).round(3),
        }
    ).to_csv(folder / "variants.tsv", sep="\t", index=False)
