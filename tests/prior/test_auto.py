"""The learned estimator: what it finds, what its intervals cover, what it makes of odd input."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest
from conftest import normals

from pu_noise_cli.prior.auto import WEIGHTS, summarize
from pu_noise_cli.prior.base import ESTIMATORS, Estimate, Settings
from pu_noise_cli.score.sketch import Sketch

CLEAN = Settings()


def auto(sketch: Sketch, settings: Settings = CLEAN) -> Estimate:
    return ESTIMATORS["auto"].estimate(sketch, settings)


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("beta", [1.0, 0.95, 0.75])
def test_recovers_known_shares(alpha, beta):
    estimate = auto(Sketch.from_samples(*normals(alpha, beta, 2000, 20_000, seed=1)))
    assert estimate.alpha == pytest.approx(alpha, abs=0.03)
    assert estimate.beta == pytest.approx(beta, abs=0.07)
    assert estimate.alpha_plus == pytest.approx(alpha / beta, abs=0.04)


@pytest.mark.ci
def test_intervals_cover_small_and_large_alpha():
    covered = {"small": [], "large": []}
    for seed in range(120):
        rng = np.random.default_rng([5, seed])
        kind = "small" if seed % 2 else "large"
        alpha = np.exp(rng.uniform(np.log(0.002), np.log(0.05)))
        alpha = alpha if kind == "small" else rng.uniform(0.05, 0.6)
        beta = 1.0 if seed % 3 == 0 else rng.uniform(0.7, 1)
        sizes = int(rng.integers(100, 1000)), int(rng.integers(1000, 6000))
        samples = normals(alpha, beta, *sizes, seed, separation=rng.uniform(1.5, 4))
        low, high = auto(Sketch.from_samples(*samples)).alpha_ci
        covered[kind].append(low <= alpha <= high)
    assert np.mean(covered["small"]) > 0.88
    assert np.mean(covered["large"]) > 0.88


def test_intervals_narrow_with_the_overlap_and_hold_the_estimate():
    widths = []
    for separation in (1.0, 2.0, 4.0):
        estimate = auto(Sketch.from_samples(*normals(0.3, 0.9, 1000, 10_000, 2, separation)))
        low, high = estimate.alpha_ci
        assert 0 <= low <= estimate.alpha <= high <= 1
        assert 0 <= estimate.beta_ci[0] <= estimate.beta <= estimate.beta_ci[1] <= 1
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 0.15


def test_the_interval_of_beta_holds_its_mean_where_nearly_all_belief_is_in_1():
    rng = np.random.default_rng(5)
    y = rng.random(90_000) < 0.2
    sketch = Sketch.from_samples(rng.normal(size=3000) + 2.5, rng.normal(size=90_000) + 2.5 * y)
    found = ESTIMATORS["auto"].estimate(sketch, Settings())
    assert 0.999 < found.beta < 1
    assert found.beta_ci == (found.beta, 1.0)


def test_known_beta_is_kept_and_helps():
    errors = {"known": [], "unknown": []}
    for seed in range(30):
        sketch = Sketch.from_samples(*normals(0.3, 0.8, 300, 3000, seed, separation=1.5))
        known = auto(sketch, Settings(beta=0.8))
        assert known.beta == 0.8
        assert known.beta_ci == (0.8, 0.8)
        errors["known"].append(abs(known.alpha - 0.3))
        errors["unknown"].append(abs(auto(sketch).alpha - 0.3))
    assert np.mean(errors["known"]) < np.mean(errors["unknown"])


@pytest.mark.parametrize("beta", [0.0, 0.01, 0.3, 1.0])
def test_known_beta_bounds_alpha(beta):
    estimate = auto(Sketch.from_samples(*normals(0.5, 1.0, 200, 1000, 3)), Settings(beta=beta))
    assert 0 <= estimate.alpha <= beta
    assert estimate.alpha_ci[1] <= beta


def test_repeats():
    sketch = Sketch.from_samples(*normals(0.3, 0.9, 200, 1000, 4))
    assert auto(sketch) == auto(sketch, Settings(seed=7))


@pytest.mark.parametrize("transform", [np.exp, lambda x: x**3, lambda x: 1 / (1 + np.exp(-x))])
def test_any_increasing_transform_of_the_scores_gives_the_same(transform):
    samples = normals(0.3, 0.9, 1000, 5000, 5)
    plain = auto(Sketch.from_samples(*samples))
    transformed = auto(Sketch.from_samples(*(transform(x) for x in samples)))
    assert transformed.alpha == pytest.approx(plain.alpha, abs=0.005)
    assert transformed.beta == pytest.approx(plain.beta, abs=0.005)


def test_grid_of_a_large_sketch_hardly_matters():
    samples = normals(0.3, 0.9, 20_000, 100_000, 6)
    plain = auto(Sketch.from_samples(*samples))
    cubed = auto(Sketch.from_samples(*(x**3 for x in samples)))
    assert cubed.alpha == pytest.approx(plain.alpha, abs=0.01)


ODD = {
    "identical samples": (np.arange(50.0), np.arange(50.0)),
    "separated": (np.arange(50.0) + 100, np.arange(500.0) / 500),
    "separated, reversed": (np.arange(50.0) - 100, np.arange(500.0) / 500),
    "all tied": (np.ones(30), np.ones(100)),
    "20 rows each": (np.linspace(0, 2, 20), np.linspace(-1, 1, 20)),
    "one labeled value": (np.ones(40), np.linspace(-2, 2, 300)),
    "tiny and huge": (np.array([1e-300, 1e300] * 20), np.array([1e-300, -1e300, 1e300, 0.0] * 20)),
    "two values": (np.repeat([0.0, 1.0], [10, 90]), np.repeat([0.0, 1.0], [700, 300])),
    "one row each": (np.ones(1), np.zeros(1)),
}


@pytest.mark.parametrize("beta", [None, 0.9])
@pytest.mark.parametrize(("labeled", "unlabeled"), ODD.values(), ids=ODD.keys())
def test_odd_input_gives_finite_shares(labeled, unlabeled, beta):
    sketch = Sketch.from_samples(labeled, unlabeled)
    assert np.isfinite(summarize(sketch)).all()
    estimate = auto(sketch, Settings(beta=beta))
    low, high = estimate.alpha_ci
    assert 0 <= low <= estimate.alpha <= high <= 1
    assert estimate.alpha <= estimate.beta <= 1
    assert 0 <= estimate.alpha_plus <= 1
    assert 0 <= estimate.beta_plus <= 1


def test_separated_samples_hold_no_positives():
    assert auto(Sketch.from_samples(*ODD["separated"])).alpha < 0.02


def test_weights_are_small_and_plain():
    path = resources.files("pu_noise_cli.prior").joinpath(WEIGHTS)
    assert len(path.read_bytes()) < 2_000_000
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype.kind == "f" for name in arrays.files)
