"""The belief in α and β: its quantiles and draws, what assumptions make of it, and the limits."""

from __future__ import annotations

import importlib
from pathlib import Path

import conftest
import numpy as np
import pytest

from pu_noise_cli.prior.auto import DEFAULT, Belief, top_cells, top_purity, top_ratio
from pu_noise_cli.prior.base import ESTIMATORS, Estimate, Settings
from pu_noise_cli.prior.bound import FACTORS, limits, limits_by_selection, sampling_interval
from pu_noise_cli.score.sketch import Sketch


def normals(*args, separation=2.0) -> Sketch:
    return Sketch.from_samples(*conftest.normals(*args, separation=separation))


def auto(sketch: Sketch, **settings) -> Estimate:
    return ESTIMATORS["auto"].estimate(sketch, Settings(**settings))


@pytest.fixture(scope="module")
def sketch() -> Sketch:
    return normals(0.2, 0.9, 1000, 10_000, 1)


def bell(atom: float = 0.0) -> Belief:
    """α about .3 ± .05 and β about .8 ± .04, or exactly 1 with some probability."""
    alpha, beta = np.linspace(0.005, 0.6, 120), np.linspace(0.6, 1.0, 81)
    a, b = (
        np.exp(-(((x - m) / s) ** 2) / 2) for x, m, s in ((alpha, 0.3, 0.05), (beta, 0.8, 0.04))
    )
    b = np.append((1 - atom) * b[:-1] / b[:-1].sum(), atom)
    return Belief(alpha, beta, a[:, None] / a.sum() * b)


# Any belief


def test_quantiles_and_means_are_those_of_the_distribution():
    belief = bell()
    assert belief.means == pytest.approx((0.3, 0.8), abs=1e-3)
    (low, high), (beta_low, beta_high) = belief.interval(0.95)
    assert (low, high) == pytest.approx((0.3 - 1.96 * 0.05, 0.3 + 1.96 * 0.05), abs=2e-3)
    assert (beta_low, beta_high) == pytest.approx((0.8 - 1.96 * 0.04, 0.8 + 1.96 * 0.04), abs=2e-3)


def test_one_is_a_value_of_its_own():
    assert bell(0.1).interval(0.9)[1][1] == 1
    assert bell(0.01).interval(0.95)[1][1] < 0.9


def test_draws_are_joint_and_always_the_same():
    tilted = bell().times(np.exp(300 * (bell().alpha[:, None] - 0.3) * (bell().beta - 0.8)))
    draws = np.array(tilted.draws(2000))
    assert tilted.draws(2000) == tilted.draws(2000)
    alpha, beta = tilted.alpha[:, None], tilted.beta
    for power in [(1, 0), (0, 1), (2, 0), (0, 2), (1, 1)]:
        expected = (tilted.mass * alpha ** power[0] * beta ** power[1]).sum()
        assert (draws ** np.array(power)).prod(1).mean() == pytest.approx(expected, rel=2e-3)
    assert np.corrcoef(draws.T)[0, 1] > 0.3


def test_evidence_multiplies_in():
    belief = bell()
    likelihood = belief.alpha[:, None] ** 30 * (1 - belief.alpha[:, None]) ** 20
    updated = belief.times(likelihood)
    assert belief.means[0] < updated.means[0] < 0.6
    assert updated.mass.sum() == pytest.approx(1)
    assert updated.times(1 / likelihood).means == pytest.approx(belief.means)


def test_ranges_hold_all_that_is_left():
    belief = bell().between((0.32, 0.37), (0.801, 0.802))
    draws = np.array(belief.draws(100))
    for values, (low, high) in zip(draws.T, ((0.32, 0.37), (0.801, 0.802)), strict=True):
        assert low <= values.min() <= values.max() <= high
    assert 0.32 < belief.means[0] < 0.37
    assert (bell().mass * bell().within((0.3, 1), (0, 1))).sum() == pytest.approx(0.5, abs=0.02)


# The prior


def test_prior_is_what_is_said_of_it():
    nodes = np.linspace(0, 1, 401)
    alpha = DEFAULT.mass(nodes, nodes).sum(1)
    assert alpha[nodes < 0.01].sum() == pytest.approx(0.21, abs=0.03)
    assert alpha[nodes < 0.05].sum() == pytest.approx(0.38, abs=0.02)
    assert alpha[nodes > 0.3].sum() == pytest.approx(0.19, abs=0.02)
    joint = DEFAULT.mass(nodes, nodes)
    assert joint[nodes[:, None] > nodes - 0.045].sum() == 0
    assert joint[:, -1].sum() == pytest.approx(0.31, abs=0.01)


def test_prior_is_the_one_that_is_simulated(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    simulator = importlib.import_module("simulator")
    rng = np.random.default_rng(0)
    draws = np.array([simulator.draw_shares(rng) for _ in range(4000)])
    nodes = np.linspace(0, 1, 201)
    prior = Belief(nodes, nodes, DEFAULT.mass(nodes, nodes))
    levels = np.linspace(0.1, 0.9, 9)
    assert np.quantile(draws[:, 0], levels) == pytest.approx(prior.alphas(levels), abs=0.015)
    assert np.quantile(draws[:, 1], levels) == pytest.approx(prior.betas(levels), abs=0.015)


# What the user knows


def test_purity_of_the_top_is_the_formula():
    rng = np.random.default_rng(0)
    positive = np.arange(200_000) < 60_000
    unlabeled = rng.normal(size=len(positive)) + 2 * positive
    labeled = rng.normal(size=50_000) + 2 * (np.arange(50_000) < 45_000)
    sketch = Sketch.from_samples(labeled, unlabeled)
    lowest = sketch.edges[top_cells(sketch)].min()
    assert (labeled >= lowest).mean() == pytest.approx(0.2, abs=0.005)
    found = top_purity(np.array(0.3), np.array(0.9), top_ratio(sketch))
    assert found == pytest.approx(positive[unlabeled >= lowest].mean(), abs=0.02)


def test_purity_lifts_the_lower_end(sketch):
    lows = [auto(sketch, purity=purity).alpha_ci[0] for purity in (0, 0.3, 0.7)]
    assert lows == sorted(lows)
    assert lows[0] < 0.95 * lows[1]
    assert lows[2] < 0.2
    assert auto(sketch).assumed.purity == 0  # by default
    assert auto(sketch).alpha_ci[0] == lows[0]
    assert auto(sketch, purity=0.3).assumed.purity == 0.3


@pytest.mark.parametrize("alpha", [0.002, pytest.param(0.01, marks=pytest.mark.ci), 0.05])
def test_rare_positives_are_not_ruled_out(alpha):
    """Weak scores of few labels: a hard purity of .3 misses these, the default does not."""
    covered, insisted = [], []
    for seed in range(10):
        rng = np.random.default_rng([seed, round(1000 * alpha)])
        positive = np.arange(5000) < alpha * 5000
        unlabeled = rng.normal(size=5000) + 1.2 * positive
        weak = Sketch.from_samples(rng.normal(1.2, size=100), unlabeled)
        for intervals, settings in ((covered, {}), (insisted, {"purity": 0.3})):
            low, high = auto(weak, **settings).alpha_ci
            intervals.append(low <= alpha <= high)
    assert sum(covered) >= 9
    assert sum(covered) > sum(insisted)


def test_ranges_narrow_the_interval_and_say_so(sketch):
    plain = auto(sketch)
    known = auto(sketch, alpha_between=(0.15, 0.3), beta_between=(0.85, 1))
    assert 0.15 <= known.alpha_ci[0] <= known.alpha <= known.alpha_ci[1] <= 0.3
    assert known.beta_ci[0] >= 0.85
    assert np.ptp(known.alpha_ci) < np.ptp(plain.alpha_ci)
    assert not known.notices
    assert known.assumed.alpha_between == (0.15, 0.3)
    for value in ("0.15", "0.3", "0.85"):
        assert value in known.assumed.words


def test_a_range_may_be_one_share(sketch):
    at_beta = auto(sketch, beta_between=(0.9, 0.9))
    assert at_beta.beta_ci == (0.9, 0.9)
    assert at_beta.alpha == pytest.approx(auto(sketch, beta=0.9).alpha, abs=0.01)
    at_alpha = auto(sketch, alpha_between=(0.2, 0.2))
    assert at_alpha.alpha_ci == (0.2, 0.2)
    assert not (*at_beta.notices, *at_alpha.notices)


@pytest.mark.parametrize(
    "ranges",
    [
        {"alpha_between": (0.6, 0.8)},
        {"alpha_between": (0.97, 0.99)},
        {"beta_between": (0.05, 0.15)},
        {"alpha_between": (0.6, 0.8), "beta": 0.9},
    ],
)
def test_a_range_that_the_scores_contradict_is_kept_and_noticed(sketch, ranges):
    estimate = auto(sketch, **ranges)
    assert [notice.code for notice in estimate.notices] == ["assumption-contradicted"]
    for name, between in ranges.items():
        if name == "beta":
            assert estimate.beta == between
            continue
        low, high = getattr(estimate, name.replace("between", "ci"))
        assert between[0] <= low < high <= between[1]
        assert high - low > 0.8 * (between[1] - between[0])
        assert name.removesuffix("_between") in estimate.notices[0].message


def test_a_purity_that_contradicts_a_range_is_not_assumed():
    few = normals(0.02, 0.9, 1000, 10_000, 5)
    estimate = auto(few, alpha_between=(0.001, 0.004), purity=0.3)
    assert [notice.code for notice in estimate.notices] == ["assumption-contradicted"]
    assert "0.3" in estimate.notices[0].message
    assert estimate.assumed.purity == 0
    assert 0.001 <= estimate.alpha_ci[0] < estimate.alpha_ci[1] <= 0.004


def test_draws_of_an_estimate_are_its_belief(sketch):
    estimate = auto(sketch)
    draws = np.array(estimate.draws)
    assert np.median(draws[:, 0]) == pytest.approx(estimate.alpha, abs=0.002)
    assert draws[:, 1].mean() == pytest.approx(estimate.beta, abs=0.005)
    assert np.quantile(draws[:, 0], [0.025, 0.975]) == pytest.approx(estimate.alpha_ci, abs=0.01)
    assert (draws[:, 0] <= draws[:, 1]).all()


# Limits


@pytest.mark.ci
def test_limits_hold_where_the_classes_do_not_overlap():
    """The worst case: the limits are then of α/β and (1-β)/(1-α) themselves."""
    held = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        alpha, beta = rng.uniform(0.05, 0.6), rng.uniform(0.7, 1)
        labeled, unlabeled = rng.random(200), rng.random(2000)
        labeled += rng.random(200) < beta
        unlabeled += rng.random(2000) < alpha
        alpha_max, beta_min = limits(Sketch.from_samples(labeled, unlabeled))
        held.append((alpha / beta <= alpha_max, 1 - (1 - beta) / (1 - alpha) >= beta_min))
    assert (np.mean(held, axis=0) >= 0.95).all()


def selected(factor: float, alpha: float, n: int, rng: np.random.Generator) -> Sketch:
    """The worst case: classes apart, and positives labeled at the factor or its inverse."""
    hardly = 1 / (factor + 1)  # of the labeled rows are of the kind that is hardly labeled
    n_positive = rng.binomial(10 * n, alpha)
    is_hardly = rng.random(n_positive) < factor * hardly
    high = hardly + (1 - hardly) * rng.random(n_positive)
    positive = np.where(is_hardly, hardly * rng.random(n_positive), high)
    negative = -rng.random(10 * n - n_positive)
    return Sketch.from_samples(rng.random(n), np.concatenate([positive, negative]))


@pytest.mark.ci
@pytest.mark.parametrize("factor", FACTORS[1:])
def test_the_limit_holds_where_rates_of_labeling_differ_by_the_factor(factor):
    rng = np.random.default_rng(7)
    found = [dict(limits_by_selection(selected(factor, 0.3, 100, rng))) for _ in range(300)]
    assert (
        np.mean([limits[factor] >= 0.3 for limits in found]) >= 0.94
    )  # 95%, less a standard error


def test_the_limit_by_selection_starts_at_the_limit_and_solves_its_equation():
    sketch = normals(0.2, 0.9, 20_000, 200_000, 3, separation=2)
    found = limits_by_selection(sketch)
    assert [factor for factor, _ in found] == [1, 1.5, 2, 3, 5]
    assert found[0][1] == limits(sketch)[0]
    # the densities themselves, at many scores
    x = np.linspace(-6, 8, 20_001)
    f0, f1 = (np.exp(-((x - mean) ** 2) / 2) for mean in (0, 2))
    f0, f1 = f0 / f0.sum(), f1 / f1.sum()
    g, f = 0.9 * f1 + 0.1 * f0, 0.2 * f1 + 0.8 * f0
    for factor, limit in found[1:]:
        alphas = np.linspace(0.01, 1, 2000)
        allowed = [np.minimum(factor * g, f / alpha).sum() >= 1 for alpha in alphas]
        solved = alphas[np.flatnonzero(allowed)[-1]]
        solved = min(solved, factor * (f / g).min())
        assert solved <= limit <= 1.15 * solved


def test_an_unequal_rate_of_labeling_raises_the_limit_to_the_truth():
    rng = np.random.default_rng(1)
    sketch = selected(3.0, 0.3, 2000, rng)
    found = dict(limits_by_selection(sketch))
    assert found[1] < 0.15
    assert 0.3 <= found[3] < 0.35


def test_limits_close_in_on_the_bounds():
    def limit(n: int) -> tuple[float, float]:
        return limits(normals(0.2, 0.9, n, 10 * n, 3, separation=5))

    (few_alpha, few_beta), (many_alpha, many_beta) = limit(100), limit(20_000)
    assert 0.2 / 0.9 < many_alpha < 0.24 < few_alpha
    assert few_beta < 0.85 < many_beta < 0.9


def test_sampling_alone_leaves_less_and_less():
    widths = [
        np.ptp(auto(normals(0.2, 0.9, n, 10 * n, 4)).alpha_ci_sampling) for n in (100, 1000, 10_000)
    ]
    assert widths[0] > 2 * widths[1] > 4 * widths[2]
    estimate = auto(normals(0.2, 0.9, 1000, 10_000, 4))
    assert estimate.alpha_ci_sampling[0] < estimate.alpha < estimate.alpha_ci_sampling[1]
    assert np.ptp(estimate.alpha_ci_sampling) < np.ptp(estimate.alpha_ci)


def test_an_interval_without_width_is_in_order():
    """Where the best bins hold all rows, rounding alone decides which end is lower."""
    sketch = Sketch.from_samples(np.zeros(50), np.zeros(80))
    for alpha in np.random.default_rng(0).random(200):
        low, high = sampling_interval(sketch, float(alpha))
        assert low <= alpha <= high
