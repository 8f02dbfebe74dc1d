"""What `auto` assumes of α and β before it sees the scores: a prior, and what the user may add.

The prior, in words: positives are the fewer, with a density of α that falls as (1-α)², and three
times in ten α is small, evenly spread over orders of magnitude from .001 to .3; β is exactly 1
three times in ten, else mostly above a half and often above .9; and β is at least .05 above α.
So α is below .05 with probability .32, above .3 with .22, and has its median at .12.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..sketch import FloatArray, Sketch
from .base import Settings

LOG_UNIFORM, SMALL_ALPHA = 0.3, (0.001, 0.3)
FALL = 2.0  # the power of 1-α to which the other α are likely
SIMULATED_FALL = 1.0  # that power in the simulations that the likelihood was learned from
# β: probability of each piece, and the ends between which it is uniform
BETA_PIECES = ((0.3, 1.0, 1.0), (0.2, 0.9, 1.0), (0.45, 0.5, 1.0), (0.05, 0.2, 0.5))
POINTS = 400  # of each piece of α, a fifth of them of β, at which the prior is summed
LEAST_EXCESS = 0.05  # of β over α
FULL_AUC = 0.65  # of labeled against unlabeled rows, below which less purity is assumed
TOP = 0.2  # of the labeled rows, the best-scoring


def top_cells(sketch: Sketch) -> NDArray[np.bool_]:
    """Whether a cell has rows that score like the top fifth of the labeled ones, shape (cells,)."""
    above = np.cumsum(sketch.labeled[::-1])[::-1] - sketch.labeled
    return np.asarray(above < TOP * sketch.n_labeled)


def top_ratio(sketch: Sketch) -> float:
    """g / f over those rows; where no unlabeled row is among them, as if half a row were."""
    top = top_cells(sketch)
    labeled = sketch.labeled[top].sum() / sketch.n_labeled
    unlabeled = max(float(sketch.unlabeled[top].sum()), 0.5) / sketch.n_unlabeled
    return float(labeled / unlabeled)


def top_purity(alpha: FloatArray, beta: FloatArray, ratio: float) -> FloatArray:
    """The share of positives among the unlabeled rows where g / f is that ratio."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(alpha * ((1 - alpha) * ratio - (1 - beta)) / (beta - alpha))


def hats(nodes: FloatArray, x: FloatArray) -> FloatArray:
    """The weights of the nodes in linear interpolation at x, shape (len(x), nodes)."""
    return np.stack([np.interp(x, nodes, unit) for unit in np.eye(len(nodes))], axis=1)


def prior_mass(alpha: FloatArray, beta: FloatArray, fall: float = FALL) -> FloatArray:
    """The prior on nodes of α and β, shape (k, m), by quadrature at quantiles of its pieces."""
    at = (np.arange(POINTS) + 0.5) / POINTS
    low, high = SMALL_ALPHA
    a = np.concatenate([low * (high / low) ** at, 1 - at ** (1 / (1 + fall))])
    a_weight = np.repeat([LOG_UNIFORM, 1 - LOG_UNIFORM], POINTS)[:, None] * hats(alpha, a)
    few = at[2::5]
    b = np.concatenate([start + (end - start) * few for _, start, end in BETA_PIECES])
    b_weight = np.repeat([share for share, _, _ in BETA_PIECES], len(few))[:, None] * hats(beta, b)
    possible = b - a[:, None] >= LEAST_EXCESS
    mass = a_weight.T @ possible.astype(np.float64) @ b_weight
    return np.asarray(mass / mass.sum())


def purity_asked(purity: float, sketch: Sketch) -> float:
    """The least purity of the top that is assumed."""
    return purity * float(np.clip((sketch.auc - 0.5) / (FULL_AUC - 0.5), 0, 1))


def stated_ranges(settings: Settings) -> str:
    """The ranges that the user gives, in words."""
    ranges = {"alpha": settings.alpha_between, "beta": settings.beta_between}
    return " and ".join(
        f"{name} is between {between[0]:g} and {between[1]:g}"
        for name, between in ranges.items()
        if between is not None
    )


def assumed(settings: Settings, purity: float) -> dict[str, Any]:
    """The prior of an estimation, in words and numbers."""
    words = [
        "alpha is likely as (1 - alpha)^2, or (3 in 10) spread evenly over orders of magnitude "
        "from 0.001 to 0.3",
        "beta is 1 (3 in 10) or between 0.2 and 1, mostly above 0.5, and at least 0.05 above alpha"
        if settings.beta is None
        else f"beta is {settings.beta:g}",
    ]
    if settings.alpha_between or settings.beta_between:
        words.append(stated_ranges(settings))
    if purity > 0:
        words.append(
            f"at least {purity:.2g} of the unlabeled rows that score like the top fifth of the "
            "labeled ones are positive"
        )
    return {
        "words": "; ".join(words),
        "alpha": {"fall": FALL, "log_uniform": LOG_UNIFORM, "between": list(SMALL_ALPHA)},
        "beta": settings.beta
        if settings.beta is not None
        else [{"share": share, "between": [low, high]} for share, low, high in BETA_PIECES],
        "purity": purity,
        "alpha_between": None if settings.alpha_between is None else list(settings.alpha_between),
        "beta_between": None if settings.beta_between is None else list(settings.beta_between),
    }
