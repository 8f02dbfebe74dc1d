"""Simulated tables with known classes: Gaussian features of positives and negatives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..errors import uninterrupted
from ..numerics import BoolArray, FloatArray
from .writing import take_name, temporary_directory, write_table

SEPARATION = 1.81  # between the class means in standard deviations: an AUC of 0.9
SUBCLASSES = 3  # of the positives, if they are labeled unequally
SUBCLASS_SEPARATION = 4.0  # of these from the negatives, so that they are distinct clusters


@dataclass(frozen=True)
class Simulation:
    """The features of each table, shape (n, d), and the hidden classes, shape (n,)."""

    labeled: FloatArray
    unlabeled: FloatArray
    negatives: FloatArray
    labeled_y: BoolArray
    unlabeled_y: BoolArray


def simulate(
    alpha: float,
    beta: float,
    n_labeled: int,
    n_unlabeled: int,
    n_features: int,
    seed: int,
    selection: float = 1.0,
    n_negatives: int = 0,
) -> Simulation:
    """Draw the tables; the fractions of positives are α and β, rounded to whole rows.

    Positives are shifted along a random direction, so that all features carry some of the signal.
    With a selection above 1 they are three equal subclasses, shifted along separate directions and
    labeled at rates that fall from `selection` to 1, evenly on the log scale.
    """
    rng = np.random.default_rng(seed)
    is_biased = selection > 1
    n_classes, distance = (SUBCLASSES, SUBCLASS_SEPARATION) if is_biased else (1, SEPARATION)
    directions = rng.normal(size=(n_classes, n_features))
    shifts = distance * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    rates = np.geomspace(max(selection, 1.0), 1.0, n_classes)

    def table(fraction: float, n: int, weights: FloatArray) -> tuple[FloatArray, BoolArray]:
        y = rng.permutation(n) < round(fraction * n)
        rows = rng.normal(size=(n, n_features))
        subclass = np.zeros(n, int)
        if is_biased:
            subclass = rng.choice(n_classes, size=n, p=weights / weights.sum())
        return rows + y[:, None] * shifts[subclass], y

    labeled, labeled_y = table(beta, n_labeled, rates)
    unlabeled, unlabeled_y = table(alpha, n_unlabeled, np.ones(n_classes))
    negatives = rng.normal(size=(n_negatives, n_features))
    return Simulation(labeled, unlabeled, negatives, labeled_y, unlabeled_y)


def write_simulation(simulation: Simulation, out_dir: str) -> None:
    """Write labeled.csv, unlabeled.csv, negatives.csv if there are any, and truth.csv."""
    classes = (simulation.labeled_y, simulation.unlabeled_y)
    truth = {
        "id": [str(i) for y in classes for i in range(len(y))],
        "set": np.repeat(["labeled", "unlabeled"], [len(y) for y in classes]).tolist(),
        "y": np.concatenate(classes).astype(int),
    }
    batches = {}
    for name in ("labeled", "unlabeled", "negatives"):
        if len(matrix := getattr(simulation, name)):
            features = [f"x{i}" for i in range(1, matrix.shape[1] + 1)]
            arrays = [pa.array(x) for x in matrix.T]
            batches[f"{name}.csv"] = pa.RecordBatch.from_arrays(arrays, features)
    batches["truth.csv"] = pa.RecordBatch.from_pydict(truth)  # the last: it must fit the others
    folder = Path(out_dir)
    with temporary_directory(folder) as temporary:
        for name, batch in batches.items():
            write_table(str(temporary / name), batch)
        with uninterrupted():
            (folder / "truth.csv").unlink(missing_ok=True)
            for name in batches:
                take_name(temporary / name, folder / name)
