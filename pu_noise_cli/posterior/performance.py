"""How good the score is as a classifier of Y, though no row's Y is known."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import __version__
from ..numerics import FloatArray
from .calibration import Calibration, corrected_auc, replicates

SCHEMA = "punoise.performance/1"


@dataclass(frozen=True, eq=False)
class Performance:
    """Expected figures of calling all rows from a score up; arrays have shape (thresholds,)."""

    auc: float
    threshold: FloatArray
    called: FloatArray  # the share of the unlabeled rows
    measures: dict[str, FloatArray]


def performance(calibration: Calibration, thresholds: FloatArray | None = None) -> Performance:
    """Figures on the population of the unlabeled rows, at each score or at given thresholds.

    An unlabeled row counts as p of a positive and 1-p of a negative, p being its posterior.
    """
    sketch, p = calibration.sketch, calibration.posterior
    share = calibration.population / calibration.population.sum()
    positives, negatives = share * p, share * (1 - p)
    at = sketch.scores if thresholds is None else thresholds
    first = np.searchsorted(sketch.scores, at)

    def above(mass: FloatArray) -> FloatArray:
        return np.append(np.cumsum(mass[::-1])[::-1], 0.0)[first]

    tp, fp = above(positives), above(negatives)
    fn, tn = np.maximum(positives.sum() - tp, 0), np.maximum(negatives.sum() - fp, 0)
    auc = corrected_auc(calibration)
    return Performance(
        auc=np.nan if auc is None else auc,
        threshold=at,
        called=np.minimum(tp + fp, 1.0),
        measures={
            "precision": _share(tp, tp + fp),
            "recall": _share(tp, tp + fn),
            "specificity": _share(tn, tn + fp),
            "f1": _share(2 * tp, 2 * tp + fp + fn),
            "mcc": _share(
                tp * tn - fp * fn, np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
            ),
            "accuracy": tp + tn,
        },
    )


@dataclass(frozen=True, eq=False)
class Figures:
    """Performance with 95 % intervals: the AUC, and columns of shape (thresholds,)."""

    auc: float
    auc_ci: tuple[float, float]
    columns: dict[str, FloatArray]

    def to_json(self) -> dict[str, Any]:
        """The document, null where there is no such figure."""
        rows = zip(*self.columns.values(), strict=True)
        return {
            "schema": SCHEMA,
            "punoise_version": __version__,
            "auc": _or_null(self.auc),
            "auc_ci": [_or_null(end) for end in self.auc_ci],
            "thresholds": [
                {name: _or_null(value) for name, value in zip(self.columns, row, strict=True)}
                for row in rows
            ],
        }


def figures(calibration: Calibration, thresholds: Sequence[float], seed: int) -> Figures:
    """Figures of calling rows from each threshold up; from every score where there is none."""
    sketch = calibration.sketch
    at = np.sort(np.array(thresholds)) if thresholds else sketch.scores
    found = performance(calibration, at)
    copies = [performance(copy, at) for copy in replicates(calibration, seed)]
    columns: dict[str, FloatArray] = {
        "threshold": at,
        "posterior": calibration.posterior[sketch.cell_index(at)],
        "called": found.called,
    }
    for name, values in found.measures.items():
        low, high = _interval([copy.measures[name] for copy in copies], values)
        columns |= {name: values, f"{name}_low": low, f"{name}_high": high}
    low, high = _interval([copy.auc for copy in copies], found.auc)
    return Figures(found.auc, (float(low), float(high)), columns)


def _or_null(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _interval(copies: Sequence[float] | Sequence[FloatArray], center: Any) -> tuple[Any, Any]:
    """The 95 % interval of replicates, widened where need be to hold the estimate itself."""
    with warnings.catch_warnings():  # a figure that no replicate has is NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        low, high = np.nanquantile(copies, [0.025, 0.975], axis=0)
    return np.fmin(low, center), np.fmax(high, center)


def _share(part: FloatArray | float, whole: FloatArray | float) -> FloatArray:
    """part / whole, NaN where there is nothing."""
    whole = np.asarray(whole, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 1e-12, np.asarray(part) / whole, np.nan)
