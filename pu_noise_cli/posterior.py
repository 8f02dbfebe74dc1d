"""Scores and a prior to p(Y=1|x): the paper's equation on an isotonic calibration, bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .errors import Notice
from .sketch import FloatArray, IntArray, Sketch

MEAN_TOLERANCE = 0.005
SMALLEST = 1e-9  # shares and differences below it are none


@dataclass(frozen=True, eq=False)
class Calibration:
    """What a score says, for each cell of the sketch; all arrays have shape (cells,)."""

    sketch: Sketch
    tau: FloatArray  # p(S=1|x), S=1 being labeled
    posterior: FloatArray  # p(Y=1|x) of an unlabeled row
    posterior_labeled: FloatArray  # p(Y=1|x) of a labeled row
    lr: FloatArray  # f1/f0
    fdr: FloatArray  # expected share of negatives among unlabeled rows scored at least as high
    notices: tuple[Notice, ...] = ()


def calibrate(sketch: Sketch, alpha: float, beta: float, match_prior: bool = True) -> Calibration:
    """The posterior for each score, in [0, 1] and non-decreasing in it by construction.

    By the paper's equation it is linear in ρ = g/f, 0 at (1-β)/(1-α) and 1 at β/α. With
    `match_prior`, ρ is scaled so that the posterior averages to α over the unlabeled rows, and the
    odds of labeled rows so that theirs averages to β.
    """
    notices = []
    if min(alpha, 1 - alpha, beta - alpha) < SMALLEST:  # the score adds nothing to alpha
        p, lr = np.full(len(sketch.edges), float(alpha)), np.ones(len(sketch.edges))
        rho = lr
    else:
        p, mean_error = _posterior(sketch, alpha, beta, match_prior)
        rho = (1 - beta) / (1 - alpha) * (1 - p) + beta / alpha * p
        with np.errstate(divide="ignore"):
            lr = p / (1 - p) * (1 - alpha) / alpha
        if match_prior and abs(mean_error) > MEAN_TOLERANCE:
            notices.append(
                Notice(
                    "posterior-mean-off",
                    f"the posterior averages to {alpha + mean_error:.4f} over the unlabeled rows, "
                    f"not to alpha {alpha:.4f}: the scores leave no room for it",
                )
            )
    return Calibration(
        sketch,
        tau=sketch.n_labeled * rho / (sketch.n_unlabeled + sketch.n_labeled * rho),
        posterior=p,
        posterior_labeled=_posterior_labeled(sketch, lr, beta, match_prior),
        lr=lr,
        fdr=_false_discovery_rate(p, sketch.unlabeled),
        notices=tuple(notices),
    )


def _posterior(
    sketch: Sketch, alpha: float, beta: float, match_prior: bool
) -> tuple[FloatArray, float]:
    """p(Y=1|x) for each cell, and how far its mean over the unlabeled rows is from α."""
    low, high = (1 - beta) / (1 - alpha), beta / alpha
    ratio, position = _isotonic_ratio(sketch)
    rank = _mid_rank(sketch.labeled + sketch.unlabeled)

    def bounded(scale: float) -> FloatArray:
        blocks = ((scale * ratio - low) / (high - low)).clip(0, 1)
        return np.interp(rank, position, blocks)  # so that neighbours do not jump by a block

    def mean(scale: float) -> float:
        return _mean(bounded(scale), sketch.unlabeled)

    scale = _solve(mean, alpha) if match_prior else 1.0
    return bounded(scale), mean(scale) - alpha


def _isotonic_ratio(sketch: Sketch) -> tuple[FloatArray, FloatArray]:
    """The isotonic g/f of each block of scores, and the block's middle rank, shape (blocks,)."""
    from scipy.optimize import isotonic_regression

    total = sketch.labeled + sketch.unlabeled
    kept = total > 0
    fit = isotonic_regression(sketch.labeled[kept] / total[kept], weights=total[kept])
    starts = fit.blocks[:-1]
    labeled = np.add.reduceat(sketch.labeled[kept], starts)
    unlabeled = np.add.reduceat(sketch.unlabeled[kept], starts)
    with np.errstate(divide="ignore"):
        ratio = (labeled / sketch.n_labeled) / (unlabeled / sketch.n_unlabeled)
    return ratio, _mid_rank(labeled + unlabeled)


def _mid_rank(counts: IntArray) -> FloatArray:
    return np.cumsum(counts) - counts / 2


def _mean(values: FloatArray, counts: IntArray) -> float:
    return float(values @ counts / counts.sum())


def _solve(mean: Callable[[float], float], target: float) -> float:
    """The scale at which a non-decreasing mean comes nearest to its target, by bisection."""
    low, high = -40.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2
        if mean(2.0**middle) < target:
            low = middle
        else:
            high = middle
    return min((2.0**low, 2.0**high), key=lambda scale: abs(mean(scale) - target))


def _posterior_labeled(
    sketch: Sketch, lr: FloatArray, beta: float, match_prior: bool
) -> FloatArray:
    """p(Y=1|x, labeled): the odds are β/(1-β) times the likelihood ratio."""
    if beta == 1:
        return np.ones(len(lr))

    def posterior(scale: float) -> FloatArray:
        odds = scale * beta / (1 - beta) * lr
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(odds), 1.0, odds / (1 + odds))

    if not match_prior:
        return posterior(1.0)
    return posterior(_solve(lambda s: _mean(posterior(s), sketch.labeled), beta))


def _false_discovery_rate(p: FloatArray, unlabeled: IntArray) -> FloatArray:
    """The mean of 1-p over unlabeled rows from each cell up; above them all, 1-p itself."""
    rows = np.cumsum(unlabeled[::-1])[::-1]
    negatives = np.cumsum((unlabeled * (1 - p))[::-1])[::-1]
    return np.where(rows > 0, negatives / np.maximum(rows, 1), 1 - p)
