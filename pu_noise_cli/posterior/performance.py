"""The performance of the score as a classifier of Y, though Y is not known of any row."""

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
    """Expected measures of calling all rows from a score up; arrays have shape (thresholds,)."""

    auc: float
    threshold: FloatArray
    called: FloatArray  # the fraction of the unlabeled rows
    measures: dict[str, FloatArray]


def performance(calibration: Calibration, thresholds: FloatArray | None = None) -> Performance:
    """Measures on the population of the unlabeled rows, at thresholds or at every score.

    An unlabeled row counts as p of a positive and 1-p of a negative, p being its posterior.
    """
    sketch, p = calibration.sketch, calibration.posterior
    fraction = calibration.population / calibration.population.sum()
    positives, negatives = fraction * p, fraction * (1 - p)
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
            "precision": _ratio(tp, tp + fp),
            "recall": _ratio(tp, tp + fn),
            "specificity": _ratio(tn, tn + fp),
            "f1": _ratio(2 * tp, 2 * tp + fp + fn),
            "mcc": _ratio(
                tp * tn - fp * fn, np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
            ),
            "accuracy": tp + tn,
        },
    )


@dataclass(frozen=True, eq=False)
class Figures:
    """Performance with 95% intervals: the AUC, and columns of shape (thresholds,)."""

    auc: float
    auc_ci: tuple[float, float]
    columns: dict[str, FloatArray]

    def to_json(self) -> dict[str, Any]:
        """The document, with null for undefined measures."""
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
    """Performance at each threshold, or at every score if there is none, with intervals."""
    sketch = calibration.sketch
    at = np.sort(np.array(thresholds)) if thresholds else sketch.scores
    estimate = performance(calibration, at)
    copies = [performance(copy, at) for copy in replicates(calibration, seed)]
    columns: dict[str, FloatArray] = {
        "threshold": at,
        "posterior": calibration.posterior[sketch.cell_index(at)],
        "called": estimate.called,
    }
    for name, values in estimate.measures.items():
        low, high = _interval([copy.measures[name] for copy in copies], values)
        columns |= {name: values, f"{name}_low": low, f"{name}_high": high}
    low, high = _interval([copy.auc for copy in copies], estimate.auc)
    return Figures(estimate.auc, (float(low), float(high)), columns)


def _or_null(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _interval(copies: Sequence[float] | Sequence[FloatArray], estimate: Any) -> tuple[Any, Any]:
    """The 95% interval of replicates, extended to enclose the estimate."""
    with warnings.catch_warnings():  # a measure that is undefined in every replicate is NaN
        warnings.simplefilter("ignore", RuntimeWarning)
        low, high = np.nanquantile(copies, [0.025, 0.975], axis=0)
    return np.fmin(low, estimate), np.fmax(high, estimate)


def _ratio(part: FloatArray | float, whole: FloatArray | float) -> FloatArray:
    """part / whole, NaN where the whole is 0."""
    whole = np.asarray(whole, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 1e-12, np.asarray(part) / whole, np.nan)
