"""Kinds of positives that are labeled at unequal rates: the method, its parts and its warning."""

from __future__ import annotations

import numpy as np
import pytest

from pu_noise_cli.prior.base import ESTIMATORS, Estimate, Samples, Settings
from pu_noise_cli.prior.estimation import conclude, run_methods
from pu_noise_cli.prior.subclasses import MIN_ROWS, RIDGE, Ratios, assign, divide, k_means
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.simulate import Simulation, simulate

ALPHA = 0.2


def simulated(
    selection: float, seed: int = 0, n_labeled: int = 600, beta: float = 1.0
) -> Simulation:
    return simulate(ALPHA, beta, n_labeled, 3000, 10, seed, selection)


def subclasses(drawn: Simulation, **settings) -> Estimate:
    samples = Samples(drawn.labeled, drawn.unlabeled)
    return ESTIMATORS["subclasses"].estimate(samples, Settings(**settings))


def codes(estimate: Estimate) -> list[str]:
    return [notice.code for notice in estimate.notices]


@pytest.mark.parametrize("selection", [10.0, 20.0])
def test_unequal_rates_are_noticed_and_undone(selection):
    drawn = simulated(selection)
    plain = divide(Samples(drawn.labeled, drawn.unlabeled), Settings()).plain
    found = subclasses(drawn)
    assert plain.alpha < 0.6 * ALPHA
    assert abs(found.alpha - ALPHA) < 0.7 * abs(plain.alpha - ALPHA)
    assert found.alpha_ci[0] < ALPHA < found.alpha_ci[1]
    assert plain.alpha_ci[1] < ALPHA  # which is why it takes another method
    assert codes(found) == ["labels-not-typical"]


@pytest.mark.parametrize("seed", range(2))
def test_of_few_positives_only_auto_is_told(seed):
    """The shares of clusters are far too high then, and seem to contradict each other."""
    drawn = simulate(0.005, 0.95, 600, 3000, 10, seed)
    samples = Samples(drawn.labeled, drawn.unlabeled)
    assert subclasses(drawn) == divide(samples, Settings()).plain


@pytest.mark.parametrize("seed", range(2))
def test_typical_labels_raise_no_warning_and_cost_little(seed):
    drawn = simulated(1.0, seed)
    found = subclasses(drawn)
    assert codes(found) == []
    assert found.alpha == pytest.approx(ALPHA, abs=0.1)
    assert found.alpha_ci[0] < ALPHA < found.alpha_ci[1]


def test_wrong_labels_are_no_kind_of_positives():
    found = [subclasses(simulated(20.0, seed, beta=0.9)) for seed in range(4)]
    assert np.mean([one.alpha for one in found]) == pytest.approx(ALPHA, abs=0.06)
    assert np.mean([one.beta for one in found]) == pytest.approx(0.9, abs=0.06)
    assert all(one.alpha_ci[0] < ALPHA < one.alpha_ci[1] for one in found)


def test_with_few_labeled_rows_it_is_auto():
    drawn = simulated(20.0, n_labeled=MIN_ROWS // 2)
    divided = divide(Samples(drawn.labeled, drawn.unlabeled), Settings())
    assert divided.signs is None
    assert subclasses(drawn).alpha == divided.plain.alpha


def test_draws_agree_with_the_interval():
    found = subclasses(simulated(20.0))
    alpha, beta = np.array(found.draws).T
    assert (np.diff(alpha) >= 0).all()
    assert (alpha <= beta).all()
    inside = (alpha >= found.alpha_ci[0]) & (alpha <= found.alpha_ci[1])
    assert inside.mean() == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("method", ["subclasses", pytest.param("all", marks=pytest.mark.ci)])
def test_the_prior_warns_and_assumes_no_typical_labels(method):
    drawn = simulated(20.0)
    samples = Samples(drawn.labeled, drawn.unlabeled)
    sketch = Sketch.from_samples(drawn.labeled.mean(1), drawn.unlabeled.mean(1))
    prior = conclude(run_methods(sketch, method, Settings(), samples=samples))
    found = [notice.code for notice in prior.notices]
    assert "labels-not-typical" in found
    if method == "all":
        assert prior.method == "auto"
        return
    assert prior.alpha > ALPHA / 2
    assert (prior.alpha_max, prior.beta_min, prior.representative) == (None, None, None)
    assert "refuted-by-auc" not in found


# Its parts


def test_ratios_leave_the_row_itself_out():
    rng = np.random.default_rng(0)
    rows, n_labeled = rng.normal(size=(60, 2)), 20
    members = np.arange(n_labeled) < 12
    ratios = Ratios(rows, n_labeled, np.random.default_rng(1))
    of_members, of_unlabeled = ratios.at(members)
    design = ratios._design

    def fit(labeled: np.ndarray, unlabeled: np.ndarray, total: int) -> np.ndarray:
        moments = design[unlabeled].T @ design[unlabeled] / total
        return np.linalg.solve(moments + RIDGE * np.eye(design.shape[1]), design[labeled].mean(0))

    chosen, unlabeled = np.flatnonzero(members), np.arange(n_labeled, 60)
    without = design[3] @ fit(np.delete(chosen, 3), unlabeled, 40)
    assert of_members[3] == pytest.approx(without, rel=1e-6)
    without = design[n_labeled + 7] @ fit(chosen, np.delete(unlabeled, 7), 40)
    assert of_unlabeled[7] == pytest.approx(without, rel=1e-6)


def test_ratios_find_the_density_ratio():
    rng = np.random.default_rng(0)
    labeled, unlabeled = rng.normal(1, 0.7, size=(2000, 1)), rng.normal(size=(4000, 1))
    ratios = Ratios(np.concatenate([labeled, unlabeled]), 2000, np.random.default_rng(1))
    _, found = ratios.at(np.ones(2000, bool))
    x = unlabeled[:, 0]
    true = np.exp(-((x - 1) ** 2) / (2 * 0.49) + x**2 / 2) / 0.7
    middle = np.abs(x) < 1.5
    assert np.abs(found - true)[middle].mean() < 0.15


def test_k_means_finds_blobs_and_heeds_weights():
    rng = np.random.default_rng(0)
    blobs = np.concatenate([rng.normal(size=(50, 2)) + at for at in ([0, 0], [20, 0], [0, 20])])
    centers = k_means(blobs, np.ones(150), 3, np.random.default_rng(1))
    found = sorted(np.round(centers / 20).astype(int).tolist())
    assert found == [[0, 0], [0, 1], [1, 0]]
    heavy = k_means(blobs, np.repeat([1.0, 1e-9, 1e-9], 50), 1, np.random.default_rng(1))
    assert np.abs(heavy).max() < 1


def test_k_means_of_fewer_distinct_rows_than_clusters():
    rows = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    centers = k_means(rows, np.ones(20), 5, np.random.default_rng(0))
    assert np.isfinite(centers).all()


def test_small_clusters_are_given_up():
    rows = np.concatenate([np.zeros((10, 1)), np.full((2, 1), 5.0), np.full((10, 1), 9.0)])
    centers = np.array([[0.0], [5.0], [9.0]])
    assert np.bincount(assign(rows, centers, min_rows=2)).tolist() == [10, 2, 10]
    assert np.bincount(assign(rows, centers, min_rows=3)).tolist() == [10, 12]
