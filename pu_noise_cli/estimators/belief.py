"""What is believed of α and β together: a distribution on a grid that other evidence multiplies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..sketch import FloatArray

Range = tuple[float, float]

FLAT = 64  # nodes either way of a flat belief
GOLDEN = (np.sqrt(5) - 1) / 2  # its multiples modulo 1 fill [0, 1] evenly, however many there are


@dataclass(frozen=True, eq=False)
class Belief:
    """The joint distribution of α and β.

    The mass of a node is spread evenly over its cell, which reaches half-way to its neighbours;
    that of the first α reaches down to 0, and a last β of 1 is exactly 1.
    """

    alpha: FloatArray  # (k,), increasing
    beta: FloatArray  # (m,), increasing
    mass: FloatArray  # (k, m), at least 0, sums to 1
    ranges: tuple[Range, Range] = ((0.0, 1.0), (0.0, 1.0))  # of α and β, all that is possible

    @classmethod
    def flat(cls, alpha: Range, beta: Range) -> Belief:
        """Nothing but the ranges is known, and that β is above α."""
        alphas, betas = np.linspace(*alpha, FLAT), np.linspace(*beta, FLAT)
        mass = (betas > alphas[:, None]) + 1e-9
        return cls(alphas, betas, mass / mass.sum(), (alpha, beta))

    def agreeing(self, weight: FloatArray) -> float:
        """The mass that a weight of each pair, shape (k, m), leaves."""
        return float((self.mass * weight).sum())

    def given(self, weight: FloatArray) -> Belief:
        """The belief after evidence: each pair is multiplied by how likely it makes the evidence.

        A weight of shape (k, m), or one that broadcasts to it; it must leave some mass.
        """
        mass = self.mass * weight
        return replace(self, mass=mass / mass.sum())

    def refined(self, parts: int) -> Belief:
        """The same belief on cells of α cut into equal parts."""
        edges = self.alpha_edges
        at = (np.arange(parts) + 0.5) / parts
        alpha = (edges[:-1, None] + np.diff(edges)[:, None] * at).ravel()
        return replace(self, alpha=alpha, mass=np.repeat(self.mass, parts, axis=0) / parts)

    @property
    def alpha_edges(self) -> FloatArray:
        """The ends of the cells of α, shape (k + 1,)."""
        return _edges(self.alpha)

    def within(self, alpha: Range, beta: Range) -> FloatArray:
        """How much of each cell is inside both ranges, shape (k, m)."""
        return _inside(self.alpha, *alpha)[:, None] * _inside(self.beta, *beta)

    def between(self, alpha: Range, beta: Range) -> Belief:
        """The belief if α and β are known to be in these ranges, which must hold some mass."""
        return replace(self.given(self.within(alpha, beta)), ranges=(alpha, beta))

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
        """Intervals of α and of β that leave as much belief below as above them."""
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        alphas, betas = self.alphas(tails), self.betas(tails)
        return (float(alphas[0]), float(alphas[1])), (float(betas[0]), float(betas[1]))

    def draws(self, n: int) -> tuple[tuple[float, float], ...]:
        """Equally likely pairs of α and β, always the same: α at even quantiles, in order."""
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
    """How much of each node's cell is between two shares, shape (nodes,).

    All of a cell without width, or with one single share that is allowed, if that is inside.
    """
    edges = _edges(nodes)
    width = np.diff(edges)
    inside = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
    part = np.clip(inside / np.maximum(width, 1e-12), 0, 1)
    return np.where((width > 0) & (high > low), part, inside >= 0)


def _quantiles(nodes: FloatArray, mass: FloatArray, levels: FloatArray | float) -> FloatArray:
    """Quantiles of masses at nodes, spread over their cells, of the levels' shape."""
    cdf = np.append(0.0, np.cumsum(mass) / mass.sum())
    return np.asarray(np.interp(levels, cdf, _edges(nodes)))
