"""The default method: networks that have learned from simulated samples what α and β they hide.

What the scores leave open about α and β (the classes may overlap everywhere, the ranking is only as
good as its classifier) is settled by what such scores usually come from, as simulated by
benchmarks/simulator.py; benchmarks/train_auto.py trains the networks. They give the likelihood of
each pair of α and β on a grid. Times a prior, and what the user knows, it is the belief from which
estimates, intervals and draws are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np

from ..notices import Notice, declare
from ..sketch import FloatArray, Sketch
from .assumptions import (
    DEFAULT,
    SharePrior,
    assumed,
    hats,
    purity_asked,
    stated_purity,
    stated_ranges,
    top_purity,
    top_ratio,
)
from .base import Estimate, Settings, register
from .belief import Belief
from .limits import sampling_interval
from .negatives import Mixture
from .summary import summarise

WEIGHTS = "auto_weights.npz"
FARTHEST = 6.0  # the largest standardised input
DRAWS = 200
FINER = 8  # times as many α on the grid where known negatives tell α/β
PURITIES = tuple(i / 10 for i in range(10))  # for which the interval is told
LEVEL = 0.95  # of the intervals
CONTRADICTION = declare(
    "assumption-contradicted",
    "The scores all but rule out what was assumed of alpha, beta or the purity of the top.",
    "Check --alpha-between, --beta-between and --purity; --purity 0 assumes nothing of the top.",
)
CONTRADICTED = 1e-3  # times as likely after the scores as before them: no longer believed


def _spaced() -> FloatArray:
    """From .0005 to .95, in steps of a seventh while they are below an eightieth."""
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
ALPHA, BETA = _spaced(), 1 - NOISE[::-1]  # the grid, shapes (k,) and (m,)
BEYOND = np.array([0.965, 0.98, 0.99, 0.995, 0.999, 1.0])  # more α, where it may be next to 1
# Where the likelihood's parts are learned, see `basis`
TOPS, BOTTOMS = np.append(ALPHA, [0.97, 1.0]), np.append(NOISE, [0.9, 1.0])
FEW_TOPS = np.array([0.0005, 0.003, 0.01, 0.03, 0.07, 0.13, 0.2, 0.3, 0.42, 0.55, 0.7, 0.85, 1])
FEW_BOTTOMS = np.array([0, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.8, 1])
OUTPUTS = len(TOPS) + len(BOTTOMS) + len(FEW_TOPS) * len(FEW_BOTTOMS)


@cache
def basis() -> FloatArray:
    """What turns the networks' outputs into log-likelihoods, shape (outputs, k * m).

    The scores' upper end shows α/β and their lower end (1-β)/(1-α), so the log-likelihood is a
    function of the one plus a function of the other plus a smooth function of both.
    """
    alpha, beta = (x.ravel() for x in np.meshgrid(ALPHA, BETA, indexing="ij"))
    top, bottom = np.minimum(alpha / beta, 1), np.minimum((1 - beta) / (1 - alpha), 1)
    both = hats(FEW_TOPS, top)[:, :, None] * hats(FEW_BOTTOMS, bottom)[:, None, :]
    parts = [hats(TOPS, top), hats(BOTTOMS, bottom), both.reshape(len(alpha), -1)]
    return np.concatenate(parts, axis=1).T


@cache
def prior(shares: SharePrior = DEFAULT) -> FloatArray:
    """The prior on the grid, shape (k, m)."""
    return shares.mass(ALPHA, BETA)


@cache
def _turned_prior() -> Belief:
    """The prior where labeled rows are negatives, of which there may be next to nothing else."""
    alpha = np.append(ALPHA, BEYOND)
    return Belief(alpha, BETA, replace(DEFAULT, turned=True).mass(alpha, BETA))


@dataclass(frozen=True)
class Networks:
    """Networks of two hidden layers with a linear bypass, and what standardises their inputs."""

    center: FloatArray  # (d,)
    scale: FloatArray  # (d,)
    layers: tuple[FloatArray, ...]  # (members, ...): W1, b1, W2, b2, W3, b3, and the bypass

    def log_likelihood(self, features: FloatArray) -> FloatArray:
        """Of each pair on the grid but for a constant, shape (k, m), for features of shape (d,).

        Sums are numpy's own: those of a BLAS may depend on how many threads it has.
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


# The belief


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the rows say of α and β, before any prior."""

    log_likelihood: FloatArray  # (k, m): the networks', by labeled and unlabeled rows
    mixture: Mixture | None  # where there are known negatives

    @classmethod
    def of(cls, sketch: Sketch) -> Evidence:
        mixture = Mixture.of(sketch) if sketch.n_negative else None
        return cls(networks().log_likelihood(summarise(sketch.without_negatives())), mixture)


def believed(
    sketch: Sketch, settings: Settings, evidence: Evidence | None = None
) -> tuple[Belief, float, list[Notice]]:
    """The belief in α and β, the purity of the top that it assumes, and what the scores contradict.

    A range that they contradict is kept, and nothing else believed; a purity is not assumed then.
    The evidence may be given, so as not to find it again.
    """
    evidence = evidence or Evidence.of(sketch)
    before, log_likelihood = Belief(ALPHA, BETA, prior()), evidence.log_likelihood
    if settings.labeled_negatives:
        before = _turned_prior()
        beyond = np.repeat(log_likelihood[-1:], len(BEYOND), axis=0)  # nothing was learned there
        log_likelihood = np.concatenate([log_likelihood, beyond])
    if settings.beta is not None:
        before, log_likelihood = _at_beta(before, log_likelihood, settings.beta)
    after = before.given(np.exp(log_likelihood - log_likelihood[before.mass > 0].max()))
    if evidence.mixture is not None:
        before, after = before.refined(FINER), after.refined(FINER)
        after = after.given(evidence.mixture.weight(after.alpha_edges, after.beta))
    notices = []
    if settings.alpha_between or settings.beta_between:
        fixed = (settings.beta or 0.0, settings.beta or 1.0)
        ranges = settings.alpha_between or (0.0, 1.0), settings.beta_between or fixed
        if _contradicted(before, after, before.within(*ranges)):
            notices.append(_contradiction(stated_ranges(settings)))
            before = after = Belief.flat(*ranges)
        else:
            before, after = before.between(*ranges), after.between(*ranges)
    purity = purity_asked(settings.purity, sketch)
    if purity > 0:
        purities = top_purity(after.alpha[:, None], after.beta, top_ratio(sketch))
        weight = (purities >= purity).astype(np.float64)
        if _contradicted(before, after, weight):
            notices.append(_contradiction(stated_purity(purity, settings.labeled_negatives)))
            purity = 0.0
        else:
            after = after.given(weight)
    return after, purity, notices


def _at_beta(before: Belief, log_likelihood: FloatArray, beta: float) -> tuple[Belief, FloatArray]:
    """The prior and the likelihood of α where β is known, shapes (k, 1)."""
    at = hats(BETA, np.array([beta]))[0]
    mass = (before.mass / before.mass.sum(0)) @ at
    mass = np.where(max(beta, 2 * ALPHA[0]) > before.alpha, mass, 0.0)[:, None]
    ranges = (0.0, beta), (beta, beta)
    known = Belief(before.alpha, np.array([beta]), mass / mass.sum(), ranges)
    return known, (log_likelihood @ at)[:, None]


def _contradicted(before: Belief, after: Belief, weight: FloatArray) -> bool:
    return after.agreeing(weight) <= CONTRADICTED * before.agreeing(weight)


def _contradiction(assumption: str) -> Notice:
    return CONTRADICTION(f"the scores contradict that {assumption}")


def _sensitivity(sketch: Sketch, settings: Settings, evidence: Evidence) -> list[list[float]]:
    """Each of PURITIES with the ends of the interval of α if it is assumed, while it can be."""
    found = []
    for purity in PURITIES:
        belief, _, notices = believed(sketch, replace(settings, purity=purity), evidence)
        if not notices:
            found.append([purity, *belief.interval(LEVEL)[0]])
    return found


@register("auto", options=("purity", "alpha_between", "beta_between"), negatives=True)
def auto(sketch: Sketch, settings: Settings) -> Estimate:
    """Learned from simulated samples: the most accurate, with intervals of its own."""
    evidence = Evidence.of(sketch)
    belief, purity, notices = believed(sketch, settings, evidence)
    if evidence.mixture is not None:
        notices.extend(evidence.mixture.notices())
    alpha, beta = float(belief.alphas(np.array([0.5]))[0]), belief.means[1]  # of least error
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
        assumed={
            **assumed(settings, purity),
            "sensitivity": _sensitivity(sketch, settings, evidence),
        },
    )
