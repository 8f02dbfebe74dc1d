"""The default method: networks that have learned from simulations which α and β scores hide.

A summary turns a sketch into a few hundred numbers that do not change under increasing transforms
of the scores. From them, networks give the likelihood of each pair of α and β on a grid. What
scores leave open (classes may overlap everywhere, a ranking is only as good as its classifier) is
settled by what such scores usually come from: benchmarks/simulator.py simulates it, and
benchmarks/train_auto.py trains the networks. Likelihood times prior and what the user knows is the
belief, from which estimates, intervals and draws are taken.

The prior of `auto`, in words: positives are the minority, with a density of α that falls as (1-α)²,
and two times in five α is small, spread evenly over orders of magnitude from .0005 to .3; β is
exactly 1 three times in ten, above .9 as often again, and rarely below a half; and β is at least
.05 above α. So α is below .01 with probability .21, below .05 with .38, above .3 with .19, and has
its median at .10. Prior and sharpness were chosen on tables of the field (benchmarks/field.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from ..notices import Notice
from ..numerics import FloatArray, expit, isotonic
from ..score.sketch import Sketch
from ..tables.rows import LabeledClass
from .alphamax import correct_for_noise
from .base import AlphaPrior, Assumptions, BetaPiece, Estimate, Settings, register
from .bound import best_bins, sampling_interval
from .negatives import Mixture

LEVEL = 0.95  # of the intervals
DRAWS = 200
FINER = 8  # times as many α on the grid with known negatives, which narrow α/β
PURITIES = tuple(i / 10 for i in range(10))  # at which the interval of α is reported
# The power of the likelihood by the number of labels, between these on a logarithmic scale: real
# tables vary less than simulated ones, which shows where labels are many
LABELS, SHARPNESS = (50, 1000), (1.0, 1.5)
CONTRADICTED = 1e-3  # an assumption so many times as probable after the scores is contradicted

# ---- The belief in α and β

Range = tuple[float, float]

FLAT_NODES = 64  # of a flat belief, in each direction
GOLDEN = (np.sqrt(5) - 1) / 2  # any number of its multiples modulo 1 fills [0, 1] evenly
POINTS = 400  # at which the prior is summed, in each piece of α and of β
MIN_EXCESS = 0.05  # of β over α
TOP = 0.2  # the fraction of the labeled rows that are the top
RATIO_NODES = 9  # at which the sampling error of the top's g / f is averaged over
INFLATION = 1.25  # of its variance, as the networks have seen the same rows
MIN_PURITY = 1e-4  # the least purity of the top, and the least impurity


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


def top_purity(alpha: FloatArray, beta: FloatArray, ratio: float | FloatArray) -> FloatArray:
    """The fraction of the labeled class among unlabeled rows where g / f is that ratio."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(alpha * ((1 - alpha) * ratio - (1 - beta)) / (beta - alpha))


@dataclass(frozen=True)
class TopVerdicts:
    """Verified unlabeled rows that score like the top fifth of the labeled rows."""

    positive: int  # of the labeled class
    checked: int

    def log_likelihood(self, belief: Belief, sketch: Sketch) -> FloatArray:
        """The logarithm of the probability of these verdicts for each pair, shape (k, m)."""
        purity, weight = likely_purities(belief, sketch)
        no = self.checked - self.positive
        log = self.positive * np.log(purity) + no * np.log1p(-purity)
        highest = log.max(-1)
        mean = np.einsum("kmr,r->km", np.exp(log - highest[..., None]), weight)
        return np.asarray(highest + np.log(mean))


def likely_purities(belief: Belief, sketch: Sketch) -> tuple[FloatArray, FloatArray]:
    """What the purity of the top may be for each pair, shape (k, m, nodes), and the nodes' weights.

    The ratio is known only as far as the rows in the top can tell.
    """
    ratio, weight = likely_top_ratios(sketch)
    purity = top_purity(belief.alpha[:, None, None], belief.beta[:, None], ratio)
    return np.clip(np.nan_to_num(purity), MIN_PURITY, 1 - MIN_PURITY), weight


def likely_top_ratios(sketch: Sketch) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the distribution of g / f over the top cells, given their counts.

    Each of g and f has a Beta distribution; the logarithm of their ratio is taken as normal.
    """
    from scipy.special import polygamma

    top = top_cells(sketch)
    mean, variance = 0.0, 0.0
    # the top ends at a labeled row, so its number of labeled rows is not random
    for sign, rows, more in ((1, sketch.labeled, 0), (-1, sketch.unlabeled, 0.5)):
        a, n = float(rows[top].sum()) + more, float(rows.sum()) + 1
        mean += sign * float(polygamma(0, a) - polygamma(0, n))
        variance += float(polygamma(1, a) - polygamma(1, n))
    z, weight = np.polynomial.hermite_e.hermegauss(RATIO_NODES)
    return np.exp(mean + np.sqrt(INFLATION * variance) * z), weight / weight.sum()


def hats(nodes: FloatArray, x: FloatArray) -> FloatArray:
    """The weights of the nodes in linear interpolation at x, shape (len(x), nodes)."""
    return np.stack([np.interp(x, nodes, unit) for unit in np.eye(len(nodes))], axis=1)


@dataclass(frozen=True)
class SharePrior:
    """A prior of α and β, with β at least MIN_EXCESS above α."""

    small: float  # the probability that α is log-uniform ...
    small_alpha: Range  # ... over this range
    fall: float  # the power of 1-α to which it is likely otherwise
    beta: tuple[tuple[float, float, float], ...]  # probabilities, and ends of uniform pieces
    negatives: bool = False  # the labeled rows are negatives: the density is of 1 - α

    def mass(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        """The mass on nodes of α and β, shape (k, m), by quadrature at quantiles of the pieces."""
        at = (np.arange(POINTS) + 0.5) / POINTS
        low, high = self.small_alpha
        a = np.concatenate([low * (high / low) ** at, 1 - at ** (1 / (1 + self.fall))])
        a = 1 - a if self.negatives else a
        order = np.argsort(a)
        weight = np.repeat([self.small, 1 - self.small], POINTS)[:, None] * hats(alpha, a)
        up_to = np.cumsum(np.concatenate([np.zeros((1, len(alpha))), weight[order]]), axis=0)
        b = np.concatenate([start + (end - start) * at for _, start, end in self.beta])
        b_weight = np.repeat([share for share, _, _ in self.beta], POINTS)[:, None] * hats(beta, b)
        excess = 0.0 if self.negatives else MIN_EXCESS
        possible = np.searchsorted(a[order], b - excess, side="right")
        mass = np.einsum("bk,bm->km", up_to[possible], b_weight)
        return np.asarray(mass / mass.sum())


DEFAULT = SharePrior(
    small=0.4,
    small_alpha=(0.0005, 0.3),
    fall=2.0,
    beta=((0.3, 1.0, 1.0), (0.3, 0.9, 1.0), (0.38, 0.5, 1.0), (0.02, 0.2, 0.5)),
)
# Of labeled negatives: the field was not searched for these, so rare positives are less likely
OF_NEGATIVES = replace(DEFAULT, small=0.2, small_alpha=(0.001, 0.3), negatives=True)
# The prior of the simulations that the networks learned from
SIMULATED = SharePrior(
    small=0.3,
    small_alpha=(0.001, 0.3),
    fall=1.0,
    beta=((0.3, 1.0, 1.0), (0.2, 0.9, 1.0), (0.45, 0.5, 1.0), (0.05, 0.2, 0.5)),
)


def _shares(labeled_class: LabeledClass) -> SharePrior:
    return OF_NEGATIVES if labeled_class == "negative" else DEFAULT


def describe_purity(purity: float, labeled_class: LabeledClass) -> str:
    """The assumed purity of the top, in words."""
    end = "bottom" if labeled_class == "negative" else "top"
    return (
        f"at least {purity:.2g} of the unlabeled rows that score like the {end} fifth of the "
        f"labeled rows are {labeled_class}"
    )


def describe_top(top: TopVerdicts, labeled_class: LabeledClass) -> str:
    """The verdicts at the top, in words."""
    end = "bottom" if labeled_class == "negative" else "top"
    return f"{top.positive} of {top.checked} verified rows at the {end} are {labeled_class}"


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
    top: TopVerdicts | None = None,
) -> Assumptions:
    """The prior of an estimation, in words and numbers."""
    shares = _shares(labeled_class)
    low, high = shares.small_alpha
    excess = "above 1 - alpha" if shares.negatives else "at least 0.05 above alpha"
    words = [
        f"labeled {labeled_class}s are representative of all {labeled_class}s",
        f"alpha is likely as (1 - alpha)^{shares.fall:g}, or (with probability {shares.small:g}) "
        f"spread evenly over orders of magnitude from {low:g} to {high:g}",
        f"beta is 1 (3 in 10), 0.9 to 1 (3 in 10), or 0.5 to 1, rarely less, and {excess}"
        if settings.beta is None
        else f"beta is {settings.beta:g}",
    ]
    if settings.alpha_between or settings.beta_between:
        words.append(describe_ranges(settings, labeled_class))
    if purity > 0:
        words.append(describe_purity(purity, labeled_class))
    if top is not None:
        words.append(describe_top(top, labeled_class))
    pieces = tuple(BetaPiece(share=share, between=(a, b)) for share, a, b in shares.beta)
    return Assumptions(
        words="; ".join(words),
        alpha=AlphaPrior(power=shares.fall, small=shares.small, between=shares.small_alpha),
        beta=pieces if settings.beta is None else settings.beta,
        purity=purity,
        alpha_between=settings.alpha_between,
        beta_between=settings.beta_between,
        sensitivity=sensitivity,
    )


# ---- The summary of a sketch

# Counts of larger samples are scaled down to these sizes, beyond which sampling hardly matters.
MAX_LABELED, MAX_UNLABELED = 5_000, 30_000
RESOLUTION = 0.02  # cells have at most this fraction of the rows between them and the nearer end
WIDTHS = np.array([0.03, 0.1, 0.2, 0.3, 0.5, 1.0])  # of the published width of best bin estimation
DROPS = np.array([0.3, 1.4, 4.0, 10.0])  # of twice the log-likelihood, at which a profile is read
FINE_LOGITS = np.linspace(-9, 9, 361)
FINE = expit(FINE_LOGITS)  # the proportions at which a profile is computed
PROPORTIONS = expit(np.linspace(-6, 6, 25))  # at which a profile is tabulated
QUANTILES = expit(np.linspace(-7, 7, 29))  # at which the ROC curve is read
POOLED = np.linspace(0, 1, 21)  # quantiles of all rows, the ends of the bins of the local ratio


def summarize(sketch: Sketch) -> FloatArray:
    """The features of a sketch, shape (n_features,), all finite.

    Sizes and ties, the ROC curve of labeled against unlabeled rows, the bounds of best bin
    estimation and the likelihood profiles of a monotone ratio, each from both ends of the scores.
    """
    labeled, unlabeled = _coarsen(
        sketch.labeled * np.float64(min(1.0, MAX_LABELED / sketch.n_labeled)),
        sketch.unlabeled * np.float64(min(1.0, MAX_UNLABELED / sketch.n_unlabeled)),
    )
    n_labeled, n_unlabeled = labeled.sum(), unlabeled.sum()
    fraction = isotonic(labeled / (labeled + unlabeled), labeled + unlabeled)[0]
    tops = best_bins(unlabeled[::-1], labeled[::-1], WIDTHS)
    bottoms = best_bins(labeled, unlabeled, WIDTHS)
    top_profile = _profile(labeled, unlabeled, fraction)
    bottom_profile = _profile(unlabeled[::-1], labeled[::-1], 1 - fraction[::-1])
    top_drops, bottom_drops = _crossings(top_profile), _crossings(bottom_profile)
    alpha_plus, beta_plus = np.append(tops, top_drops), np.append(bottoms, bottom_drops)
    alpha_and_beta = np.array(list(map(correct_for_noise, alpha_plus, beta_plus)))
    auc = sketch.auc
    spread = np.sqrt((n_labeled + n_unlabeled + 1) / (12 * n_labeled * n_unlabeled))
    cells = (sketch.labeled + sketch.unlabeled) / (sketch.n_labeled + sketch.n_unlabeled)
    return np.concatenate(
        [
            [np.log(n_labeled), np.log(n_unlabeled), auc, np.arcsinh((auc - 0.5) / spread)],
            [cells.max(), cells[0], cells[-1], (cells**2).sum()],
            _logit(np.concatenate([tops, bottoms, top_drops, bottom_drops])),
            _logit(alpha_and_beta.ravel()),
            np.log1p(np.interp(PROPORTIONS, FINE, top_profile)),
            np.log1p(np.interp(PROPORTIONS, FINE, bottom_profile)),
            _roc(unlabeled, labeled),
            _roc(labeled, unlabeled),
            _local_ratio(labeled, unlabeled),
        ]
    )


def _logit(fraction: FloatArray) -> FloatArray:
    fraction = np.clip(fraction, 1e-4, 1 - 1e-4)
    return np.asarray(np.log(fraction / (1 - fraction)))


def _coarsen(labeled: FloatArray, unlabeled: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The counts on fewer cells, single at both ends and wider towards the middle."""
    total = labeled + unlabeled
    after = np.cumsum(total)
    rank = after - (total + 1) // 2
    n = after[-1]
    # a step of 1 where ranks are below 1 / RESOLUTION, then a step per RESOLUTION of growth
    from_end = np.maximum(np.minimum(rank, n - 1 - rank), 0) * RESOLUTION
    position = np.where(from_end < 1, from_end, 1 + np.log(np.maximum(from_end, 1))) / RESOLUTION
    last = 2 * (1 + np.log(max(n / 2 * RESOLUTION, 1))) / RESOLUTION + 2
    group = np.floor(np.where(rank < n / 2, position, last - position)).astype(np.int64)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return np.add.reduceat(labeled, starts), np.add.reduceat(unlabeled, starts)


def _profile(labeled: FloatArray, unlabeled: FloatArray, fraction: FloatArray) -> FloatArray:
    """The drop D(r) of twice the log-likelihood if f ≥ r g everywhere, at each r of FINE.

    The constrained fit is the isotonic `fraction` of labeled rows, clipped from above at
    |L| / (|L| + r|U|), so only the blocks above the clip contribute, and cumulative sums over them
    give all r at once.
    """
    n_labeled, n_unlabeled = labeled.sum(), unlabeled.sum()
    clip = n_labeled / (n_labeled + FINE * n_unlabeled)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(labeled > 0, labeled * np.log(fraction), 0.0) + np.where(
            unlabeled > 0, unlabeled * np.log1p(-fraction), 0.0
        )
    first = np.searchsorted(fraction, clip, side="right")

    def beyond(values: FloatArray) -> FloatArray:
        sums = np.append(np.cumsum(values[::-1])[::-1], 0.0)
        return np.asarray(sums[first])

    clipped = beyond(labeled) * np.log(clip) + beyond(unlabeled) * np.log1p(-clip)
    return np.maximum(2 * (beyond(gain) - clipped), 0.0)


def _crossings(profile: FloatArray) -> FloatArray:
    """The proportions at which the profile reaches each of DROPS, shape (drops,)."""
    increasing = np.maximum.accumulate(profile)
    logits = np.interp(DROPS, increasing, FINE_LOGITS)
    return expit(logits)


def _roc(x: FloatArray, y: FloatArray) -> FloatArray:
    """Logits of the fraction of y below each of QUANTILES of x, shape (quantiles,)."""
    n_x, n_y = x.sum(), y.sum()
    below_x = np.append(0.0, np.cumsum(x)) / n_x
    below_y = np.append(0.0, np.cumsum(y))
    at = np.interp(QUANTILES, below_x, below_y)
    return np.asarray(np.log((at + 0.5) / (n_y - at + 0.5)))


def _local_ratio(labeled: FloatArray, unlabeled: FloatArray) -> FloatArray:
    """Log of g / f between neighboring quantiles of the pooled samples, shape (bins,)."""
    n_labeled, n_unlabeled = labeled.sum(), unlabeled.sum()
    below_l = np.append(0.0, np.cumsum(labeled)) / n_labeled
    below_u = np.append(0.0, np.cumsum(unlabeled)) / n_unlabeled
    pooled = (below_l + below_u) / 2
    g, f = (np.diff(np.interp(POOLED, pooled, below)) for below in (below_l, below_u))
    return np.asarray(np.log((g + 0.5 / n_labeled) / (f + 0.5 / n_unlabeled)))


# ---- The networks

WEIGHTS = "auto_weights.npz"
FARTHEST = 6.0  # the largest standardized input


def _alpha_grid() -> FloatArray:
    """From .0005 to .95, in steps of a seventh up to an eightieth."""
    nodes = [0.0005]
    while nodes[-1] < 0.95:
        nodes.append(nodes[-1] + min(max(0.14 * nodes[-1], 0.0005), 0.0125))
    return np.minimum(nodes, 0.95)


NOISE = np.concatenate(
    [
        [0, 0.006, 0.012, 0.02, 0.03, 0.042, 0.056, 0.072, 0.09, 0.11, 0.135, 0.16, 0.19, 0.22],
        [0.26, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8],
    ]
)
ALPHA, BETA = _alpha_grid(), 1 - NOISE[::-1]  # the grid, shapes (k,) and (m,)
BEYOND = np.array([0.965, 0.98, 0.99, 0.995, 0.999, 1.0])  # further α, if it may be close to 1
# The nodes of the parts of the likelihood, see `basis`
TOPS, BOTTOMS = np.append(ALPHA, [0.97, 1.0]), np.append(NOISE, [0.9, 1.0])
FEW_TOPS = np.array([0.0005, 0.003, 0.01, 0.03, 0.07, 0.13, 0.2, 0.3, 0.42, 0.55, 0.7, 0.85, 1])
FEW_BOTTOMS = np.array([0, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.8, 1])
OUTPUTS = len(TOPS) + len(BOTTOMS) + len(FEW_TOPS) * len(FEW_BOTTOMS)


@cache
def basis() -> FloatArray:
    """The matrix from the networks' outputs to log-likelihoods, shape (outputs, k * m).

    The upper end of the scores shows α/β, the lower end (1-β)/(1-α). The log-likelihood is a
    function of the one, plus a function of the other, plus a smooth function of both.
    """
    alpha, beta = (x.ravel() for x in np.meshgrid(ALPHA, BETA, indexing="ij"))
    top, bottom = np.minimum(alpha / beta, 1), np.minimum((1 - beta) / (1 - alpha), 1)
    both = hats(FEW_TOPS, top)[:, :, None] * hats(FEW_BOTTOMS, bottom)[:, None, :]
    parts = [hats(TOPS, top), hats(BOTTOMS, bottom), both.reshape(len(alpha), -1)]
    return np.concatenate(parts, axis=1).T


@dataclass(frozen=True)
class Networks:
    """Networks of two hidden layers with a linear bypass, and the scaling of their inputs."""

    center: FloatArray  # (d,)
    scale: FloatArray  # (d,)
    layers: tuple[FloatArray, ...]  # (members, ...): W1, b1, W2, b2, W3, b3, and the bypass

    def log_likelihood(self, features: FloatArray) -> FloatArray:
        """The log-likelihood of each pair on the grid up to a constant, shape (k, m).

        Features have shape (d,). Sums avoid BLAS, which may depend on its number of threads.
        """
        x = np.clip((features - self.center) / self.scale, -FARTHEST, FARTHEST)
        w1, b1, w2, b2, w3, b3, bypass = self.layers
        hidden = np.maximum(np.einsum("d,mdh->mh", x, w1) + b1, 0)
        hidden = np.maximum(np.einsum("mh,mhi->mi", hidden, w2) + b2, 0)
        out = np.einsum("mi,mio->mo", hidden, w3) + b3 + np.einsum("d,mdo->mo", x, bypass)
        return np.asarray(np.einsum("o,oc->c", out.mean(0), basis())).reshape(len(ALPHA), -1)


@cache
def networks() -> Networks:
    """The trained networks."""
    with (
        resources.files(__package__).joinpath(WEIGHTS).open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        layers = tuple(arrays[f"layer{i}"].astype(np.float64) for i in range(7))
        return Networks(arrays["center"], arrays["scale"], layers)


# ---- What is believed of α and β


@cache
def prior_belief(shares: SharePrior = DEFAULT) -> Belief:
    """The belief before any rows are seen; labeled negatives may be nearly all unlabeled rows."""
    alpha = np.append(ALPHA, BEYOND) if shares.negatives else ALPHA
    return Belief(alpha, BETA, shares.mass(alpha, BETA))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the rows say of α and β, before any prior."""

    log_likelihood: FloatArray  # (k, m): of the networks, from labeled and unlabeled rows
    mixture: Mixture | None  # with known negatives

    @classmethod
    def from_sketch(cls, sketch: Sketch, power: float | None = None) -> Evidence:
        """The evidence of a sketch, with the labeled class on top; by default, see SHARPNESS."""
        mixture = Mixture.from_sketch(sketch) if sketch.n_negative else None
        two_sets = sketch.without_negatives() if sketch.n_negative else sketch
        if power is None:
            power = float(np.interp(np.log(sketch.n_labeled), np.log(LABELS), SHARPNESS))
        return cls(power * networks().log_likelihood(summarize(two_sets)), mixture)


def believe(
    sketch: Sketch,
    settings: Settings,
    evidence: Evidence | None = None,
    top: TopVerdicts | None = None,
) -> tuple[Belief, float, list[Notice]]:
    """The belief in α and β, with the labeled class on top.

    Parameters
    ----------
    evidence
        That of the sketch, if it is known already.
    top
        Verdicts at the top, which take the place of an assumed purity.

    Returns
    -------
    belief
        If the scores contradict a stated range, it is flat over the range.
    purity
        The least purity of the top that it assumes; 0 if the scores contradict it.
    notices
        Warnings about assumptions that the scores contradict.
    """
    evidence = evidence or Evidence.from_sketch(sketch)
    log_likelihood, of_negatives = evidence.log_likelihood, sketch.labeled_class == "negative"
    before = prior_belief(_shares(sketch.labeled_class))
    if of_negatives:
        beyond = np.repeat(log_likelihood[-1:], len(BEYOND), axis=0)  # nothing was learned there
        log_likelihood = np.concatenate([log_likelihood, beyond])
    if settings.beta is not None:
        before, log_likelihood = _at_beta(before, log_likelihood, settings.beta)
    after = before.times(np.exp(log_likelihood - log_likelihood[before.mass > 0].max()))
    if evidence.mixture is not None:
        before, after = before.refined(FINER), after.refined(FINER)
        after = after.times(evidence.mixture.weight(after.alpha_edges, after.beta))
    notices = []
    if settings.alpha_between or settings.beta_between:
        fixed = (settings.beta or 0.0, settings.beta or 1.0)
        ranges = settings.alpha_between or (0.0, 1.0), settings.beta_between or fixed
        if _contradicts(before, after, before.within(*ranges)):
            notices.append(_contradiction(describe_ranges(settings, sketch.labeled_class)))
            before = after = Belief.flat(*ranges)
        else:
            before, after = before.between(*ranges), after.between(*ranges)
    if top is not None:
        log_likelihood = top.log_likelihood(after, sketch)
        weight = np.exp(log_likelihood - log_likelihood[after.mass > 0].max())
        return after.times(weight), 0.0, notices
    purity = settings.purity or 0.0
    if purity > 0:
        purities = top_purity(after.alpha[:, None], after.beta, top_ratio(sketch))
        weight = (purities >= purity).astype(np.float64)
        if _contradicts(before, after, weight):
            notices.append(_contradiction(describe_purity(purity, sketch.labeled_class)))
            purity = 0.0
        else:
            after = after.times(weight)
    return after, purity, notices


def _at_beta(before: Belief, log_likelihood: FloatArray, beta: float) -> tuple[Belief, FloatArray]:
    """The prior and the likelihood of α if β is known, shapes (k, 1)."""
    at = hats(BETA, np.array([beta]))[0]
    mass = (before.mass / before.mass.sum(0)) @ at
    mass = np.where(max(beta, 2 * ALPHA[0]) > before.alpha, mass, 0.0)[:, None]
    ranges = (0.0, beta), (beta, beta)
    known = Belief(before.alpha, np.array([beta]), mass / mass.sum(), ranges)
    return known, (log_likelihood @ at)[:, None]


def _contradicts(before: Belief, after: Belief, weight: FloatArray) -> bool:
    """Whether the scores contradict an assumption, a weight of each pair of shape (k, m)."""
    return bool((after.mass * weight).sum() <= CONTRADICTED * (before.mass * weight).sum())


def _contradiction(assumption: str) -> Notice:
    return Notice("assumption-contradicted", f"the scores rule out that {assumption}")


def _sensitivity(
    sketch: Sketch, settings: Settings, evidence: Evidence
) -> tuple[tuple[float, float, float], ...]:
    """Each of PURITIES that the scores allow, with the ends of the interval of α under it."""
    intervals = []
    for purity in PURITIES:
        belief, _, notices = believe(sketch, replace(settings, purity=purity), evidence)
        if not notices:
            intervals.append((purity, *belief.interval(LEVEL)[0]))
    return tuple(intervals)


@register("auto", options=("purity", "alpha_between", "beta_between"), negatives=True)
def auto(sketch: Sketch, settings: Settings) -> Estimate:
    """Learned from simulated samples: the most accurate, with intervals of its own."""
    evidence = Evidence.from_sketch(sketch)
    belief, purity, notices = believe(sketch, settings, evidence)
    if evidence.mixture is not None:
        notices.extend(evidence.mixture.notices())
    alpha = float(belief.alphas(np.array([0.5]))[0])  # least absolute error
    beta = belief.means[1]  # least squared error
    alpha_ci, beta_ci = belief.interval(LEVEL)
    beta_ci = min(beta_ci[0], beta), max(beta_ci[1], beta)  # a mean may lie outside of both
    sampling = sampling_interval(sketch, alpha)
    return Estimate(
        alpha=alpha,
        beta=beta,
        alpha_plus=alpha / beta if beta > 0 else 0.0,
        beta_plus=(1 - beta) / (1 - alpha) if alpha < 1 else 0.0,
        alpha_ci=alpha_ci,
        beta_ci=beta_ci,
        notices=tuple(notices),
        draws=belief.draws(DRAWS),
        alpha_ci_sampling=(max(sampling[0], alpha_ci[0]), min(sampling[1], alpha_ci[1])),
        assumed=assumptions(
            settings, purity, sketch.labeled_class, _sensitivity(sketch, settings, evidence)
        ),
    )
