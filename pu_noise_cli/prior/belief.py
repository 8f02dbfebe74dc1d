"""The belief in α and β: a joint distribution on a grid, its prior, and what the user may add.

The prior of `auto`, in words: positives are the minority, with a density of α that falls as (1-α)²,
and one time in five α is small, spread evenly over orders of magnitude from .001 to .3; β is
exactly 1 three times in ten, above .9 as often again, and rarely below a half; and β is at least
.05 above α. So α is below .05 with probability .26, above .3 with .26, and has its median at .15.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..numerics import FloatArray
from ..score.sketch import Sketch
from ..tables.rows import LabeledClass
from .base import Settings
from .document import AlphaPrior, Assumptions, BetaPiece

Range = tuple[float, float]

FLAT_NODES = 64  # of a flat belief, in each direction
GOLDEN = (np.sqrt(5) - 1) / 2  # any number of its multiples modulo 1 fills [0, 1] evenly
SMALL_ALPHA = (0.001, 0.3)
POINTS = 400  # at which the prior is summed, in each piece of α and of β
MIN_EXCESS = 0.05  # of β over α
FULL_AUC = 0.6  # of labeled against unlabeled rows; below it, less purity is assumed
PURITY = 0.3  # the default for the top
TOP = 0.2  # the fraction of the labeled rows that are the top


@dataclass(frozen=True, eq=False)
class Belief:
    """The joint distribution of α and β.

    The mass of a node is spread evenly over its cell, which extends halfway to its neighbors. The
    cell of the first α extends to 0, and a last β of 1 is exactly 1.
    """

    alpha: FloatArray  # (k,), increasing
    beta: FloatArray  # (m,), increasing
    mass: FloatArray  # (k, m), at least 0, sums to 1
    ranges: tuple[Range, Range] = ((0.0, 1.0), (0.0, 1.0))  # of possible α and β

    @classmethod
    def flat(cls, alpha: Range, beta: Range) -> Belief:
        """The belief if only the ranges are known, and that β is above α."""
        alphas, betas = np.linspace(*alpha, FLAT_NODES), np.linspace(*beta, FLAT_NODES)
        mass = (betas > alphas[:, None]) + 1e-9
        return cls(alphas, betas, mass / mass.sum(), (alpha, beta))

    def mass_of(self, weight: FloatArray) -> float:
        """The mass that remains after weighting each pair, shape (k, m)."""
        return float((self.mass * weight).sum())

    def times(self, weight: FloatArray) -> Belief:
        """The belief after evidence.

        The weight is the likelihood of the evidence for each pair; it broadcasts to shape (k, m)
        and must leave some mass.
        """
        mass = self.mass * weight
        return replace(self, mass=mass / mass.sum())

    def refined(self, parts: int) -> Belief:
        """The same belief, with each cell of α cut into equal parts."""
        edges = self.alpha_edges
        at = (np.arange(parts) + 0.5) / parts
        alpha = (edges[:-1, None] + np.diff(edges)[:, None] * at).ravel()
        return replace(self, alpha=alpha, mass=np.repeat(self.mass, parts, axis=0) / parts)

    @property
    def alpha_edges(self) -> FloatArray:
        """The ends of the cells of α, shape (k + 1,)."""
        return _edges(self.alpha)

    def within(self, alpha: Range, beta: Range) -> FloatArray:
        """The fraction of each cell that is inside both ranges, shape (k, m)."""
        return _inside(self.alpha, *alpha)[:, None] * _inside(self.beta, *beta)

    def between(self, alpha: Range, beta: Range) -> Belief:
        """The belief if α and β are known to be in these ranges, which must have some mass."""
        return replace(self.times(self.within(alpha, beta)), ranges=(alpha, beta))

    def alphas(self, levels: FloatArray) -> FloatArray:
        """Quantiles of α, shape (levels,)."""
        return np.clip(_quantiles(self.alpha, self.mass.sum(1), levels), *self.ranges[0])

    def betas(self, levels: FloatArray) -> FloatArray:
        """Quantiles of β, shape (levels,)."""
        return np.clip(_quantiles(self.beta, self.mass.sum(0), levels), *self.ranges[1])

    @property
    def means(self) -> tuple[float, float]:
        """The means of α and of β."""
        alpha = np.clip(self.alpha @ self.mass.sum(1), *self.ranges[0])
        return float(alpha), float(np.clip(self.mass.sum(0) @ self.beta, *self.ranges[1]))

    def interval(self, level: float) -> tuple[Range, Range]:
        """Intervals of α and of β with equal tails."""
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        alphas, betas = self.alphas(tails), self.betas(tails)
        return (float(alphas[0]), float(alphas[1])), (float(betas[0]), float(betas[1]))

    def draws(self, n: int) -> tuple[tuple[float, float], ...]:
        """Equally likely pairs of α and β, the same each time: α at even quantiles, in order."""
        levels = (np.arange(n) + 0.5) / n
        alpha = self.alphas(levels)
        cells = np.searchsorted(np.cumsum(self.mass.sum(1)), levels)
        cells = np.minimum(cells, len(self.alpha) - 1)
        spread = (0.5 + GOLDEN * np.arange(n)) % 1
        betas = [
            _quantiles(self.beta, self.mass[cell], level)
            for cell, level in zip(cells, spread, strict=True)
        ]
        beta = np.maximum(np.clip(betas, *self.ranges[1]), alpha)
        return tuple(zip(alpha.tolist(), beta.tolist(), strict=True))


def _edges(nodes: FloatArray) -> FloatArray:
    """The ends of the nodes' cells, shape (nodes + 1,); the cell of a node of 1 has no width."""
    edges = np.concatenate([nodes[:1], (nodes[1:] + nodes[:-1]) / 2, nodes[-1:]])
    if len(nodes) > 1 and nodes[0] < 0.01:
        edges[0] = 0.0
    if nodes[-1] == 1:
        edges[-2] = 1.0
    return edges


def _inside(nodes: FloatArray, low: float, high: float) -> FloatArray:
    """The fraction of each node's cell that is between two values, shape (nodes,).

    It is all or nothing for a cell without width, and for a range of a single value.
    """
    edges = _edges(nodes)
    width = np.diff(edges)
    inside = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
    part = np.clip(inside / np.maximum(width, 1e-12), 0, 1)
    return np.where((width > 0) & (high > low), part, inside >= 0)


def _quantiles(nodes: FloatArray, mass: FloatArray, levels: FloatArray | float) -> FloatArray:
    """Quantiles of masses at nodes, spread over their cells; shape of the levels."""
    cdf = np.append(0.0, np.cumsum(mass) / mass.sum())
    return np.asarray(np.interp(levels, cdf, _edges(nodes)))


def top_cells(sketch: Sketch) -> NDArray[np.bool_]:
    """Which cells have rows that score like the top fifth of the labeled rows, shape (cells,)."""
    above = np.cumsum(sketch.labeled[::-1])[::-1] - sketch.labeled
    return np.asarray(above < TOP * sketch.n_labeled)


def top_ratio(sketch: Sketch) -> float:
    """g / f over the top cells; with half an unlabeled row if there is none."""
    top = top_cells(sketch)
    labeled = sketch.labeled[top].sum() / sketch.n_labeled
    unlabeled = max(float(sketch.unlabeled[top].sum()), 0.5) / sketch.n_unlabeled
    return float(labeled / unlabeled)


def top_purity(alpha: FloatArray, beta: FloatArray, ratio: float) -> FloatArray:
    """The fraction of the labeled class among unlabeled rows where g / f is that ratio."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(alpha * ((1 - alpha) * ratio - (1 - beta)) / (beta - alpha))


def hats(nodes: FloatArray, x: FloatArray) -> FloatArray:
    """The weights of the nodes in linear interpolation at x, shape (len(x), nodes)."""
    return np.stack([np.interp(x, nodes, unit) for unit in np.eye(len(nodes))], axis=1)


@dataclass(frozen=True)
class SharePrior:
    """A prior of α and β, with β at least MIN_EXCESS above α."""

    small: float  # the probability that α is log-uniform over SMALL_ALPHA
    fall: float  # the power of 1-α to which it is likely otherwise
    beta: tuple[tuple[float, float, float], ...]  # probabilities, and ends of uniform pieces
    of_negatives: bool = False  # the labeled rows are negatives: the density is of 1 - α

    def mass(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        """The mass on nodes of α and β, shape (k, m), by quadrature at quantiles of the pieces."""
        at = (np.arange(POINTS) + 0.5) / POINTS
        low, high = SMALL_ALPHA
        a = np.concatenate([low * (high / low) ** at, 1 - at ** (1 / (1 + self.fall))])
        a = 1 - a if self.of_negatives else a
        order = np.argsort(a)
        weight = np.repeat([self.small, 1 - self.small], POINTS)[:, None] * hats(alpha, a)
        up_to = np.cumsum(np.concatenate([np.zeros((1, len(alpha))), weight[order]]), axis=0)
        b = np.concatenate([start + (end - start) * at for _, start, end in self.beta])
        b_weight = np.repeat([share for share, _, _ in self.beta], POINTS)[:, None] * hats(beta, b)
        excess = 0.0 if self.of_negatives else MIN_EXCESS
        possible = np.searchsorted(a[order], b - excess, side="right")
        mass = np.einsum("bk,bm->km", up_to[possible], b_weight)
        return np.asarray(mass / mass.sum())


DEFAULT = SharePrior(
    small=0.2,
    fall=2.0,
    beta=((0.3, 1.0, 1.0), (0.3, 0.9, 1.0), (0.38, 0.5, 1.0), (0.02, 0.2, 0.5)),
)
# The prior of the simulations that the networks learned from
SIMULATED = SharePrior(
    small=0.3,
    fall=1.0,
    beta=((0.3, 1.0, 1.0), (0.2, 0.9, 1.0), (0.45, 0.5, 1.0), (0.05, 0.2, 0.5)),
)


def effective_purity(purity: float | None, sketch: Sketch) -> float:
    """The least purity of the top to assume: less of it if the scores separate little.

    By default it is 0 with known negatives, which show what it would otherwise stand for.
    """
    if purity is None:
        purity = 0.0 if sketch.n_negative else PURITY
    return purity * float(np.clip((sketch.auc - 0.5) / (FULL_AUC - 0.5), 0, 1))


def describe_purity(purity: float, labeled_class: LabeledClass) -> str:
    """The assumed purity of the top, in words."""
    end = "bottom" if labeled_class == "negative" else "top"
    return (
        f"at least {purity:.2g} of the unlabeled rows that score like the {end} fifth of the "
        f"labeled rows are {labeled_class}"
    )


def describe_ranges(settings: Settings, labeled_class: LabeledClass) -> str:
    """The ranges of α and β that the user states, in words."""
    alpha = settings.alpha_between
    if alpha is not None and labeled_class == "negative":
        alpha = 1 - alpha[1], 1 - alpha[0]
    ranges = {"alpha": alpha, "beta": settings.beta_between}
    return " and ".join(
        f"{name} is between {between[0]:g} and {between[1]:g}"
        for name, between in ranges.items()
        if between is not None
    )


def assumptions(
    settings: Settings,
    purity: float,
    labeled_class: LabeledClass,
    sensitivity: tuple[tuple[float, float, float], ...],
) -> Assumptions:
    """The prior of an estimation, in words and numbers."""
    excess = "above 1 - alpha" if labeled_class == "negative" else "at least 0.05 above alpha"
    words = [
        "alpha is likely as (1 - alpha)^2, or (1 in 5) spread evenly over orders of magnitude from "
        "0.001 to 0.3",
        f"beta is 1 (3 in 10), 0.9 to 1 (3 in 10), or 0.5 to 1, rarely less, and {excess}"
        if settings.beta is None
        else f"beta is {settings.beta:g}",
    ]
    if settings.alpha_between or settings.beta_between:
        words.append(describe_ranges(settings, labeled_class))
    if purity > 0:
        words.append(describe_purity(purity, labeled_class))
    pieces = tuple(BetaPiece(share=share, between=(low, high)) for share, low, high in DEFAULT.beta)
    return Assumptions(
        words="; ".join(words),
        alpha=AlphaPrior(power=DEFAULT.fall, small=DEFAULT.small, between=SMALL_ALPHA),
        beta=pieces if settings.beta is None else settings.beta,
        purity=purity,
        alpha_between=settings.alpha_between,
        beta_between=settings.beta_between,
        sensitivity=sensitivity,
    )
