"""Tables with a known answer: Gaussian features of positives and negatives."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .results import staged
from .writing import write_table

SEPARATION = 1.81  # between the class means in standard deviations: an AUC of 0.9
SUBCLASSES = 3  # of the positives, where they are labeled unequally
APART = 4.0  # how far from the negatives these are, so that they are clusters of their own


@dataclass(frozen=True)
class Simulation:
    """Features of shape (n, d) of each table, and the hidden classes of shape (n,)."""

    labeled: NDArray[np.float64]
    unlabeled: NDArray[np.float64]
    negatives: NDArray[np.float64]
    labeled_y: NDArray[np.bool_]
    unlabeled_y: NDArray[np.bool_]


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
    """Draw the tables; the shares of positives are as near to α and β as whole rows allow.

    Positives are shifted along a random direction, so that all features carry some of the signal.
    With a selection above 1 they are three equal subclasses, shifted along directions of their own
    and labeled at rates that fall from `selection` to 1, evenly on the log scale.
    """
    rng = np.random.default_rng(seed)
    kinds, distance = (SUBCLASSES, APART) if selection > 1 else (1, SEPARATION)
    directions = rng.normal(size=(kinds, n_features))
    shifts = distance * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    rates = np.geomspace(max(selection, 1.0), 1.0, kinds)

    def table(
        share: float, n: int, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        y = rng.permutation(n) < round(share * n)
        rows = rng.normal(size=(n, n_features))
        of = rng.choice(kinds, size=n, p=weights / weights.sum()) if kinds > 1 else np.zeros(n, int)
        return rows + y[:, None] * shifts[of], y

    labeled, labeled_y = table(beta, n_labeled, rates)
    unlabeled, unlabeled_y = table(alpha, n_unlabeled, np.ones(kinds))
    negatives = rng.normal(size=(n_negatives, n_features))
    return Simulation(labeled, unlabeled, negatives, labeled_y, unlabeled_y)


def write_simulation(simulation: Simulation, out_dir: str) -> None:
    """Write labeled.csv, unlabeled.csv and truth.csv with the class of each of their rows.

    Where known negatives were drawn, they go to negatives.csv.
    """
    with staged(out_dir) as stage:
        _write(simulation, str(stage.path))
        stage.commit(last="truth.csv")


def _write(simulation: Simulation, folder: str) -> None:
    for name in ("labeled", "unlabeled", "negatives"):
        matrix = getattr(simulation, name)
        if len(matrix) == 0:
            continue
        features = [f"x{i}" for i in range(1, matrix.shape[1] + 1)]
        batch = pa.RecordBatch.from_arrays([pa.array(x) for x in matrix.T], features)
        write_table(os.path.join(folder, f"{name}.csv"), batch)
    classes = (simulation.labeled_y, simulation.unlabeled_y)
    truth = {
        "id": [str(i) for y in classes for i in range(len(y))],
        "set": np.repeat(["labeled", "unlabeled"], [len(y) for y in classes]).tolist(),
        "y": np.concatenate(classes).astype(int),
    }
    write_table(os.path.join(folder, "truth.csv"), pa.RecordBatch.from_pydict(truth))
