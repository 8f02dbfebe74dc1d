"""Scores and a prior to p(Y=1|x): the paper's equation on a calibrated p(S=1|x), bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .errors import Notice
from .sketch import FloatArray, IntArray, Sketch

MEAN_TOLERANCE = 0.005
SMALLEST = 1e-9  # shares and differences below it are none
REPLICATES = 100
ONE_SIDED = 0.95  # the level of each of the two bounds


@dataclass(frozen=True)
class PriorShares:
    """α and β, with their intervals where they were estimated."""

    alpha: float
    beta: float
    alpha_ci: tuple[float, float] | None = None
    beta_ci: tuple[float, float] | None = None
    estimated: bool = True  # from these scores, so that the posterior must average to them
    rows: tuple[int, int] | None = None  # labeled and unlabeled, that they were estimated from

    def on(self, sketch: Sketch) -> tuple[PriorShares, list[Notice]]:
        """These shares for a sketch; not as estimated from it where its rows are others."""
        if self.rows in (None, (sketch.n_labeled, sketch.n_unlabeled)):
            return self, []
        message = (
            f"the prior was estimated from {self.rows[0]} labeled and {self.rows[1]} unlabeled "
            f"rows, the scores have {sketch.n_labeled} and {sketch.n_unlabeled}"
        )
        return replace(self, estimated=False, rows=None), [Notice("prior-of-other-rows", message)]

    def draw(self, rng: np.random.Generator) -> PriorShares:
        """Shares as uncertain as the 95 % intervals say: normal, with a width for each side."""

        def one(value: float, interval: tuple[float, float] | None) -> float:
            z = rng.normal() / 1.96
            if interval is None:
                return value
            low, high = interval
            return float(np.clip(value + z * (high - value if z > 0 else value - low), 0, 1))

        alpha, beta = one(self.alpha, self.alpha_ci), one(self.beta, self.beta_ci)
        return replace(self, alpha=alpha, beta=beta)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What a score says, for each cell of the sketch; all arrays have shape (cells,)."""

    sketch: Sketch
    prior: PriorShares
    posterior: FloatArray  # p(Y=1|x) of an unlabeled row
    tau: FloatArray  # p(S=1|x), S=1 being labeled
    lr: FloatArray  # f1/f0
    posterior_labeled: FloatArray  # p(Y=1|x) of a labeled row
    notices: tuple[Notice, ...] = ()

    @property
    def fdr(self) -> FloatArray:
        """The expected share of negatives among unlabeled rows scored at least as high."""
        return _false_discovery_rate(self.posterior, self.sketch.unlabeled)


def calibrate(sketch: Sketch, prior: PriorShares, calibrator: str = "isotonic") -> Calibration:
    """The posterior for each score, in [0, 1] and non-decreasing in it by construction.

    By the paper's equation it is linear in ρ = g/f, 0 at (1-β)/(1-α) and 1 at β/α. Where the prior
    was estimated from these scores, ρ is scaled so that the posterior averages to α over the
    unlabeled rows, and the odds of labeled rows so that theirs averages to β.
    """
    prior, notices = prior.on(sketch)
    alpha, beta = prior.alpha, prior.beta
    if beta - alpha < SMALLEST:
        notices.append(
            Notice(
                "beta-not-above-alpha",
                f"beta {beta:.4g} is not above alpha {alpha:.4g}: every posterior is alpha",
            )
        )
    if min(alpha, 1 - alpha, beta - alpha) < SMALLEST:  # the score adds nothing to alpha
        p, lr = np.full(len(sketch.edges), float(alpha)), np.ones(len(sketch.edges))
        rho = lr
    else:
        p, mean_error = _posterior(sketch, prior, CALIBRATORS[calibrator](sketch))
        rho = (1 - beta) / (1 - alpha) * (1 - p) + beta / alpha * p
        lr = _odds(p) * (1 - alpha) / alpha
        if abs(mean_error) > MEAN_TOLERANCE:
            notices.append(
                Notice(
                    "posterior-mean-off",
                    f"the posterior averages to {alpha + mean_error:.4f} over the unlabeled rows, "
                    f"not to alpha {alpha:.4f}: the scores do not agree with it",
                )
            )
    return Calibration(
        sketch,
        prior,
        posterior=p,
        tau=sketch.n_labeled * rho / (sketch.n_unlabeled + sketch.n_labeled * rho),
        lr=lr,
        posterior_labeled=_posterior_labeled(sketch, prior, lr),
        notices=tuple(notices),
    )


def _posterior(
    sketch: Sketch, prior: PriorShares, knots: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, float]:
    """p(Y=1|x) for each cell, and how far its mean over the unlabeled rows is from α."""
    low, high = (1 - prior.beta) / (1 - prior.alpha), prior.beta / prior.alpha
    ratio, position = knots
    rank = _mid_rank(sketch.labeled + sketch.unlabeled)

    def bounded(scale: float) -> FloatArray:
        at_knots = ((scale * ratio - low) / (high - low)).clip(0, 1)
        return np.interp(rank, position, at_knots)

    def mean(scale: float) -> float:
        return _mean(bounded(scale), sketch.unlabeled)

    scale = _solve(mean, prior.alpha) if prior.estimated else 1.0
    return bounded(scale), mean(scale) - prior.alpha


def _isotonic(sketch: Sketch) -> tuple[FloatArray, FloatArray]:
    """The isotonic g/f at the two ends of each block of scores, and their ranks, shape (knots,).

    The ends are drawn in by the cube root of the number of rows, or to the middle of a smaller
    block, and what lies between two blocks is interpolated: neighbours do not jump by a block.
    """
    from scipy.optimize import isotonic_regression

    total = sketch.labeled + sketch.unlabeled
    starts = isotonic_regression(sketch.labeled / total, weights=total).blocks[:-1]
    labeled = np.add.reduceat(sketch.labeled, starts)
    unlabeled = np.add.reduceat(sketch.unlabeled, starts)
    with np.errstate(divide="ignore"):
        ratio = (labeled / sketch.n_labeled) / (unlabeled / sketch.n_unlabeled)
    rows = labeled + unlabeled
    after = np.cumsum(rows)
    drawn_in = np.minimum(rows / 2, np.cbrt(after[-1]))
    ends = np.column_stack([after - rows + drawn_in, after - drawn_in])
    return np.repeat(ratio, 2), ends.ravel()


def _platt(sketch: Sketch) -> tuple[FloatArray, FloatArray]:
    """g/f from a logistic regression on the score (on its logit where it is a share)."""
    total = sketch.labeled + sketch.unlabeled
    x = sketch.scores
    if x[0] >= 0 and x[-1] <= 1:
        x = x.clip(1e-9, 1 - 1e-9)
        x = np.log(x / (1 - x))
    x = x - _mean(x, total)
    x /= max(np.sqrt(_mean(x**2, total)), np.finfo(float).tiny)
    design = np.column_stack([x, np.ones(len(x))])
    theta = np.array([0.0, np.log(sketch.n_labeled / sketch.n_unlabeled)])
    for _ in range(50):  # Newton's steps, kept short
        p = 1 / (1 + np.exp(-(design @ theta).clip(-30, 30)))
        gradient = design.T @ (sketch.labeled - total * p)
        curvature = (design.T * (total * p * (1 - p))) @ design + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, gradient).clip(-2, 2)
        theta += step
        if np.abs(step).max() < 1e-10:
            break
    slope, intercept = max(theta[0], 0.0), theta[1]
    logit = (slope * x + intercept).clip(-30, 30)
    return np.exp(logit) * sketch.n_unlabeled / sketch.n_labeled, _mid_rank(total)


CALIBRATORS = {"isotonic": _isotonic, "platt": _platt}


def _posterior_labeled(sketch: Sketch, prior: PriorShares, lr: FloatArray) -> FloatArray:
    """p(Y=1|x, labeled): the odds are β/(1-β) times the likelihood ratio."""
    if prior.beta > 1 - SMALLEST:
        return np.ones(len(lr))

    def posterior(scale: float) -> FloatArray:
        odds = scale * prior.beta / (1 - prior.beta) * lr
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(odds), 1.0, odds / (1 + odds))

    if not prior.estimated:
        return posterior(1.0)
    return posterior(_solve(lambda s: _mean(posterior(s), sketch.labeled), prior.beta))


def _false_discovery_rate(p: FloatArray, unlabeled: FloatArray | IntArray) -> FloatArray:
    """The mean of 1-p over unlabeled rows from each cell up; above them all, 1-p itself."""
    rows = np.cumsum(unlabeled[::-1])[::-1]
    negatives = np.cumsum((unlabeled * (1 - p))[::-1])[::-1]
    return np.where(rows > 0, negatives / np.where(rows > 0, rows, 1), 1 - p)


def shift_prior(calibration: Calibration, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Posterior and fdr in a population with another α, in which f1 and f0 are the same.

    The posterior odds change by the ratio of the prior odds (Bayes' rule); a row stands for as many
    rows of the other population as it is more frequent there.
    """
    lr, old = calibration.lr, calibration.prior.alpha
    certain = np.isinf(lr)
    finite = np.where(certain, 1.0, lr)
    density = alpha * finite + 1 - alpha  # in units of f0
    shifted = np.where(certain, 1.0, alpha * finite / density)
    weight = np.where(certain, alpha / max(old, SMALLEST), density / (old * finite + 1 - old))
    return shifted, _false_discovery_rate(shifted, calibration.sketch.unlabeled * weight)


def replicates(sketch: Sketch, prior: PriorShares, calibrator: str, seed: int) -> list[Calibration]:
    """Calibrations of bootstrap samples of the rows with priors drawn from their intervals."""
    rng = np.random.default_rng([seed, 2])
    return [calibrate(sketch.resample(rng), prior.draw(rng), calibrator) for _ in range(REPLICATES)]


def posterior_bounds(
    sketch: Sketch, copies: list[Calibration], target_alpha: float | None
) -> tuple[FloatArray, FloatArray]:
    """One-sided 95 % bounds on the posterior of each cell, from below and from above."""
    drawn = []
    for copy in copies:
        p = copy.posterior if target_alpha is None else shift_prior(copy, target_alpha)[0]
        drawn.append(p[copy.sketch.cells_of(sketch.scores)])
    low, high = np.quantile(drawn, [1 - ONE_SIDED, ONE_SIDED], axis=0)
    return np.maximum.accumulate(low), np.maximum.accumulate(high)


def _mid_rank(counts: IntArray) -> FloatArray:
    return np.cumsum(counts) - counts / 2


def _mean(values: FloatArray, counts: IntArray) -> float:
    return float(values @ counts / counts.sum())


def _odds(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return p / (1 - p)


def _solve(mean: Callable[[float], float], target: float) -> float:
    """The scale at which a non-decreasing mean comes nearest to its target, by bisection."""
    low, high = -40.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        if mean(2.0**middle) < target:
            low = middle
        else:
            high = middle
    return min((2.0**low, 2.0**high), key=lambda scale: abs(mean(scale) - target))
