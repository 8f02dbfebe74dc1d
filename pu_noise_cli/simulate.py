"""Tables with a known answer: Gaussian features of positives and negatives."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .outputs import write_table
from .staging import staged

SEPARATION = 1.81  # between the class means in standard deviations: an AUC of 0.9


@dataclass(frozen=True)
class Simulation:
    """Features of shape (n, d) and the hidden classes of shape (n,), for both tables."""

    labeled: NDArray[np.float64]
    unlabeled: NDArray[np.float64]
    labeled_y: NDArray[np.bool_]
    unlabeled_y: NDArray[np.bool_]


def simulate(
    alpha: float, beta: float, n_labeled: int, n_unlabeled: int, n_features: int, seed: int
) -> Simulation:
    """Draw both tables; the shares of positives are as near to α and β as whole rows allow.

    Positives are shifted along a random direction, so that all features carry some of the signal.
    """
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=n_features)
    shift = SEPARATION * direction / np.linalg.norm(direction)

    def table(share: float, n: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        y = rng.permutation(n) < round(share * n)
        return rng.normal(size=(n, n_features)) + y[:, None] * shift, y

    labeled, labeled_y = table(beta, n_labeled)
    unlabeled, unlabeled_y = table(alpha, n_unlabeled)
    return Simulation(labeled, unlabeled, labeled_y, unlabeled_y)


def write_simulation(simulation: Simulation, out_dir: str) -> None:
    """Write labeled.csv and unlabeled.csv, and truth.csv with the class of each of their rows."""
    with staged(out_dir) as stage:
        _write(simulation, str(stage.path))
        stage.commit()


def _write(simulation: Simulation, folder: str) -> None:
    for name, matrix in (("labeled", simulation.labeled), ("unlabeled", simulation.unlabeled)):
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
