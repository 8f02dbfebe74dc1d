"""The default score: networks of two kinds and, with few labeled rows, logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..numerics import Matrix
from ..scale.engine import ShareDone
from ..tables.files import Arrays
from .classifiers import (
    Fit,
    Linear,
    Training,
    check_weights,
    log_loss,
    logistic,
    part_of,
    prefixed,
    progress_of,
    register,
)
from .networks import BLEND, Networks, train_networks

WIDE = 1000  # features, from which only a linear score is learned if labeled rows are fewer
FEW_LABELED = 300  # rows, up to which a linear score has a weight
WEIGHTS = np.linspace(0, 1, 5)  # of the linear score that are averaged
CERTAIN = 1e-9  # the smallest probability of an out-of-bag score


@dataclass(frozen=True)
class Blend:
    """The logit of the score is a weighted mean of those of networks and of a linear score."""

    networks: Networks | None
    linear: Linear | None
    weight: float  # of the linear score

    def predict(self, features: Matrix) -> NDArray[np.float64]:
        """Scores in [0, 1], shape (n,)."""
        from scipy.special import expit

        logit = np.zeros(len(features))
        for model, weight in ((self.networks, 1 - self.weight), (self.linear, self.weight)):
            if model is not None:
                logit += weight * model.logit(features)
        return np.asarray(expit(logit))

    def arrays(self) -> Arrays:
        """The arrays to store."""
        arrays: Arrays = {"weight": np.array(self.weight)}
        for name, model in (("networks", self.networks), ("linear", self.linear)):
            if model is not None:
                arrays |= prefixed(f"{name}.", model.arrays())
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The model of d features with these arrays; a ValueError if there is none."""
        check_weights(arrays["weight"], ())
        weight = float(arrays["weight"])
        networks, linear = (part_of(arrays, name) for name in ("networks.", "linear."))
        if not 0 <= weight <= 1 or not (networks or weight == 1) or not (linear or weight == 0):
            raise ValueError("a weight without a model")
        return cls(
            Networks.from_arrays(networks, d) if networks else None,
            Linear.from_arrays(linear, d) if linear else None,
            weight,
        )


@register("standard", Blend)
def standard(training: Training, seed: int, threads: int, progress: ShareDone) -> Fit:
    """Networks of two kinds; with few labeled rows, a mean of their and a linear logit."""
    n_labeled, d = int(training.labeled.sum()), training.features.shape[1]
    if d >= max(WIDE, n_labeled):
        fit = logistic(training, seed, threads, progress)
        assert isinstance(fit.model, Linear)
        return Fit(Blend(None, fit.model, 1.0), fit.scores, fit.parts)
    few = n_labeled <= FEW_LABELED
    part = progress_of(progress, 0, 2) if few else progress
    fit = train_networks(training, seed, threads, part, kinds=BLEND)
    assert isinstance(fit.model, Networks)
    if not few:
        return Fit(Blend(fit.model, None, 0.0), fit.scores, fit.parts)
    other = logistic(training, seed, threads, progress_of(progress, 1, 2))
    assert isinstance(other.model, Linear)
    weight, scores = _weighted(fit.scores, other.scores, training.labeled)
    parts = fit.parts if weight < 0.5 else other.parts
    return Fit(Blend(fit.model, other.model, weight), scores, parts)


def _weighted(
    scores: NDArray[np.float64], linear: NDArray[np.float64], labeled: NDArray[np.bool_]
) -> tuple[float, NDArray[np.float64]]:
    """The mean weight of the linear score by its likelihood on unseen rows, and the mean score.

    A choice of the best weight, or of one of the two scores, ranks worse than this mean.
    """
    from scipy.special import expit, logit

    first, second = (logit(part.clip(CERTAIN, 1 - CERTAIN)) for part in (scores, linear))
    losses = [log_loss(expit((1 - w) * first + w * second), labeled) for w in WEIGHTS]
    likelihood = np.exp(labeled.sum() * (min(losses) - np.array(losses)))
    weight = float((likelihood * WEIGHTS).sum() / likelihood.sum())
    return weight, np.asarray(expit((1 - weight) * first + weight * second))
