"""The default method: networks that have learned from simulated samples what α and β they hide.

What the scores leave open about α and β (the classes may overlap everywhere, the ranking is only as
good as its classifier) is settled by what such scores usually come from, as simulated by
benchmarks/simulator.py; benchmarks/train_auto.py trains the networks. Their outputs are medians and
95 % intervals, so the intervals carry that uncertainty as well as that of the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from ..sketch import FloatArray, Sketch
from .base import Estimate, Settings, register
from .summary import summarise

LEVELS = (0.025, 0.5, 0.975)
WEIGHTS = "auto_weights.npz"
STRETCH = 1.02  # of the outputs' range beyond 1, so that exactly 1 is within reach
FARTHEST = 6.0  # the largest standardised input


@dataclass(frozen=True)
class Networks:
    """Networks of two hidden layers with a linear bypass, and what standardises their inputs.

    Each gives three numbers for α and three for β: the logit of the median, and the distances from
    it to the interval's ends before these are made positive. The members' numbers are averaged.
    """

    center: FloatArray  # (d,)
    scale: FloatArray  # (d,)
    layers: tuple[FloatArray, ...]  # (members, ...): W1, b1, W2, b2, W3, b3, and the bypass

    def quantiles(self, inputs: FloatArray) -> FloatArray:
        """Quantiles at LEVELS of α and of β, shape (n, 2, 3), for inputs of shape (n, d)."""
        x = np.clip((inputs - self.center) / self.scale, -FARTHEST, FARTHEST)
        w1, b1, w2, b2, w3, b3, bypass = self.layers
        hidden = np.maximum(x @ w1 + b1[:, None], 0)
        hidden = np.maximum(hidden @ w2 + b2[:, None], 0)
        out = (hidden @ w3 + b3[:, None] + x @ bypass).mean(0).reshape(-1, 2, 3)
        middle, below, above = np.moveaxis(out, -1, 0)
        low, high = middle - np.logaddexp(0, below), middle + np.logaddexp(0, above)
        logits = np.stack([low, middle, high], axis=-1)
        return np.asarray(np.minimum(STRETCH / (1 + np.exp(-logits)), 1.0))


def inputs(features: FloatArray, beta: float | None) -> FloatArray:
    """What the networks see, shape (d,): the summary, and β where it is known."""
    known = [0.0, 0.0] if beta is None else [1.0, beta]
    return np.concatenate([features, known])


@cache
def networks() -> Networks:
    """The trained networks."""
    with (
        resources.files(__package__).joinpath(WEIGHTS).open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        layers = tuple(arrays[f"layer{i}"].astype(np.float64) for i in range(7))
        return Networks(arrays["center"], arrays["scale"], layers)


@register("auto")
def auto(sketch: Sketch, settings: Settings) -> Estimate:
    """Learned from simulated samples: the most accurate, with intervals of its own."""
    x = inputs(summarise(sketch), settings.beta)
    alphas, betas = networks().quantiles(x[None])[0]
    if settings.beta is not None:
        betas = np.full(3, settings.beta)
    alphas = np.minimum(alphas, betas)
    alpha, beta = float(alphas[1]), float(betas[1])
    return Estimate(
        alpha=alpha,
        beta=beta,
        alpha_plus=alpha / beta if beta > 0 else 0.0,
        beta_plus=(1 - beta) / (1 - alpha) if alpha < 1 else 0.0,
        alpha_ci=(float(alphas[0]), float(alphas[2])),
        beta_ci=(float(betas[0]), float(betas[2])),
    )
