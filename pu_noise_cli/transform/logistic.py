"""Logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .base import Arrays, Fit, Matrix, Progress, Training, check_weights, register
from .held_out import Units, balanced, out_of_fold
from .threads import by_chunks

FOLDS = 5


@dataclass(frozen=True)
class Linear:
    """The logit of the score is linear in the features."""

    coefficients: NDArray[np.float64]  # (d,)
    intercept: float

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        from scipy.special import expit

        def score(rows: Matrix) -> NDArray[np.float64]:
            # column by column: in a product by BLAS the place of a row shows in its last digits
            logit = np.full(len(rows), self.intercept)
            for column, coefficient in zip(rows.T, self.coefficients, strict=True):
                logit += coefficient * column
            return np.asarray(expit(logit))

        return by_chunks(score, features)

    def arrays(self) -> Arrays:
        """All there is to store."""
        return {"coefficients": self.coefficients, "intercept": np.array(self.intercept)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The model that arrays() came from."""
        return cls(np.asarray(arrays["coefficients"], dtype=np.float64), float(arrays["intercept"]))

    def check(self, d: int) -> None:
        """Stop with a ValueError unless there is a number for each of d features."""
        check_weights(self.coefficients, (d,))
        check_weights(np.array(self.intercept), ())


@register("logistic", Linear)
def logistic(training: Training, *, seed: int, threads: int, progress: Progress) -> Fit:
    """L2 logistic regression out of fold; the model has the folds' mean coefficients."""
    from sklearn.linear_model import LogisticRegression

    units = Units(training)
    folds = min(FOLDS, units.fewest)
    fold = units.folds(folds, np.random.default_rng(seed))[units.of_row]

    def fit(held_out: int) -> Linear:
        seen = fold != held_out
        labeled = training.labeled[seen]
        # a normal prior that gives the logit unit variance; balancing adds weight, not evidence
        share = labeled.mean()
        strength = 4 * share * (1 - share) / training.features.shape[1]
        model = LogisticRegression(C=strength, max_iter=1000)
        model.fit(training.features[seen], labeled, sample_weight=balanced(labeled))
        return Linear(model.coef_[0].astype(np.float64), float(model.intercept_[0]))

    parts, scores = out_of_fold(fit, training, fold, threads, progress)
    coefficients = np.mean([part.coefficients for part in parts], axis=0)
    return Fit(Linear(coefficients, float(np.mean([part.intercept for part in parts]))), scores)
