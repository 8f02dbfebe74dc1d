"""The default method: networks that have learned from simulations which α and β scores hide.

A summary turns a sketch into a few hundred numbers that do not change under increasing transforms
of the scores. From them, networks give the likelihood of each pair of α and β on a grid. What
scores leave open (classes may overlap everywhere, a ranking is only as good as its classifier) is
settled by what such scores usually come from: benchmarks/simulator.py simulates it, and
benchmarks/train_auto.py trains the networks. Likelihood times prior and what the user knows is the
belief, from which estimates, intervals and draws are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np

from ..notices import Notice
from ..numerics import FloatArray, expit, isotonic
from ..score.sketch import Sketch
from .alphamax import correct_for_noise
from .base import Estimate, Settings, register
from .belief import (
    DEFAULT,
    Belief,
    SharePrior,
    assumptions,
    describe_purity,
    describe_ranges,
    effective_purity,
    hats,
    top_purity,
    top_ratio,
)
from .bound import best_bins, sampling_interval
from .negatives import Mixture

LEVEL = 0.95  # of the intervals
DRAWS = 200
FINER = 8  # times as many α on the grid with known negatives, which narrow α/β
PURITIES = tuple(i / 10 for i in range(10))  # at which the interval of α is reported
CONTRADICTED = 1e-3  # an assumption so many times as probable after the scores is contradicted

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


# ---- The belief


@cache
def grid_prior(shares: SharePrior = DEFAULT) -> FloatArray:
    """The prior on the grid, shape (k, m)."""
    return shares.mass(ALPHA, BETA)


@cache
def _negatives_prior() -> Belief:
    """The prior if labeled rows are negatives, which may be nearly all unlabeled rows."""
    alpha = np.append(ALPHA, BEYOND)
    return Belief(alpha, BETA, replace(DEFAULT, of_negatives=True).mass(alpha, BETA))


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the rows say of α and β, before any prior."""

    log_likelihood: FloatArray  # (k, m): of the networks, from labeled and unlabeled rows
    mixture: Mixture | None  # with known negatives

    @classmethod
    def from_sketch(cls, sketch: Sketch) -> Evidence:
        """The evidence of a sketch, with the labeled class on top."""
        mixture = Mixture.from_sketch(sketch) if sketch.n_negative else None
        return cls(networks().log_likelihood(summarize(sketch.without_negatives())), mixture)


def believe(
    sketch: Sketch, settings: Settings, evidence: Evidence | None = None
) -> tuple[Belief, float, list[Notice]]:
    """The belief in α and β, with the labeled class on top.

    Parameters
    ----------
    evidence
        That of the sketch, if it is known already.

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
    before, log_likelihood = Belief(ALPHA, BETA, grid_prior()), evidence.log_likelihood
    if sketch.labeled_class == "negative":
        before = _negatives_prior()
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
    purity = effective_purity(settings.purity, sketch)
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
    return after.mass_of(weight) <= CONTRADICTED * before.mass_of(weight)


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
    alpha, beta = (
        float(belief.alphas(np.array([0.5]))[0]),
        belief.means[1],
    )  # least absolute, and squared, error
    alpha_ci, beta_ci = belief.interval(LEVEL)
    beta_ci = min(beta_ci[0], beta), max(beta_ci[1], beta)  # a mean may lie outside of both
    sampling = sampling_interval(sketch.without_negatives(), alpha)
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
