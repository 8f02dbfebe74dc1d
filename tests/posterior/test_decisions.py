"""What people decide by: bounds, and other populations."""

import numpy as np
import pytest

from pu_noise_cli.posterior.calibration import bounds, calibrate, replicates, shift_prior
from pu_noise_cli.prior.base import Shares
from pu_noise_cli.score.sketch import Sketch


@pytest.fixture(scope="module")
def gaussian():
    """Two unit Gaussians two apart: scores, hidden classes, and their sketch; α 0.3, β 0.9."""
    rng = np.random.default_rng(11)
    y = rng.random(20_000) < 0.3
    labeled = rng.normal(size=4000) + 2 * (rng.random(4000) < 0.9)
    unlabeled = rng.normal(size=20_000) + 2 * y
    return unlabeled, y, Sketch.from_samples(labeled, unlabeled)


DRAWS = np.random.default_rng(3).normal([0.3, 0.9], 0.015, (100, 2))


PRIOR = Shares(0.3, 0.9, draws=tuple((float(a), float(b)) for a, b in DRAWS))


def true_posterior(sketch, alpha):
    ratio = np.exp(2 * sketch.scores - 2)
    return alpha * ratio / (alpha * ratio + 1 - alpha)


def test_bounds_hold_the_true_posterior(gaussian):
    _, _, sketch = gaussian
    calibration = calibrate(sketch, PRIOR)
    low, high = bounds(calibration, 0).posterior
    truth = true_posterior(sketch, 0.3)
    slack = 0.01  # interpolation between blocks
    inside = (low - slack <= truth) & (truth <= high + slack)
    assert inside @ sketch.unlabeled / sketch.n_unlabeled > 0.9
    assert (high - low) @ sketch.unlabeled / sketch.n_unlabeled < 0.15


def test_another_population_is_bayes_rule(gaussian):
    _, _, sketch = gaussian
    shifted, fdr = shift_prior(calibrate(sketch, Shares(0.3, 0.9)), 0.05)
    error = np.abs(shifted - true_posterior(sketch, 0.05)) @ sketch.unlabeled
    assert error / sketch.n_unlabeled < 0.02
    rng = np.random.default_rng(1)
    y = rng.random(200_000) < 0.05
    cells = sketch.cell_index(rng.normal(size=200_000) + 2 * y)
    called = fdr[cells] <= 0.4
    assert 1 - y[called].mean() == pytest.approx(0.4, abs=0.06)
    same, _ = shift_prior(calibrate(sketch, Shares(0.3, 0.9)), 0.3)
    np.testing.assert_allclose(same, calibrate(sketch, Shares(0.3, 0.9)).posterior)


def test_another_population_where_there_were_no_positives(gaussian):
    _, _, sketch = gaussian
    shifted, fdr = shift_prior(calibrate(sketch, Shares(0.0, 0.9)), 0.1)
    np.testing.assert_allclose(shifted, 0.1)
    np.testing.assert_allclose(fdr, 0.9)


def test_tiny_scores_have_bounds():
    rng = np.random.default_rng(0)
    sketch = Sketch.from_samples(1e-310 * (1 + rng.random(100)), 1e-310 * rng.random(300))
    calibration = calibrate(sketch, PRIOR)
    low, high = bounds(calibration, 0).posterior
    assert np.isfinite([low, high]).all()


def test_every_bootstrap_copy_averages_to_its_own_alpha(gaussian):
    _, _, sketch = gaussian
    copies = replicates(calibrate(sketch, PRIOR), 0)
    alphas = [copy.shares.alpha for copy in copies]
    assert np.std(alphas) > 0.01
    for copy in copies:
        mean = copy.posterior @ copy.sketch.unlabeled / copy.sketch.n_unlabeled
        assert mean == pytest.approx(copy.shares.alpha, abs=1e-6)


def test_posteriors_are_less_sure_where_alpha_is_uncertain(gaussian):
    """At the top, where a smaller alpha would make negatives of some; on average they are alpha."""
    _, _, sketch = gaussian
    wide = np.random.default_rng(0).uniform([0.1, 0.85], [0.5, 0.95], (200, 2))
    shares = Shares(0.3, 0.9, draws=tuple((float(a), float(b)) for a, b in np.sort(wide, 0)))
    sure, unsure = calibrate(sketch, Shares(0.3, 0.9)), calibrate(sketch, shares)
    assert (unsure.posterior[-100:] < sure.posterior[-100:]).all()
    for calibration in (sure, unsure):
        mean = calibration.posterior @ sketch.unlabeled / sketch.n_unlabeled
        assert mean == pytest.approx(0.3, abs=1e-6)
    np.testing.assert_array_equal(sure.tau, unsure.tau)
