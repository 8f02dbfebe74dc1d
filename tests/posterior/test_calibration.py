"""The posterior is a probability whatever the prior, and right where the truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pu_noise_cli.numerics import smooth_logit
from pu_noise_cli.posterior.calibration import MEAN_TOLERANCE, bounds, calibrate
from pu_noise_cli.prior.base import Shares
from pu_noise_cli.score.sketch import Sketch

shares = st.floats(0, 1)


@st.composite
def sketches(draw) -> Sketch:
    """Samples of any shape: overlapping, separated, tied, tiny or far out of [0, 1]."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    sizes = draw(st.integers(20, 300)), draw(st.integers(20, 300))
    gap, digits = draw(st.floats(-3, 6)), draw(st.sampled_from([0, 1, 9]))
    scale = draw(st.sampled_from([1e-12, 1, 1e12]))
    labeled, unlabeled = rng.normal(gap, 1, sizes[0]), rng.normal(0, 1, sizes[1])
    return Sketch.from_samples(labeled.round(digits) * scale, unlabeled.round(digits) * scale)


@settings(deadline=None)
@given(sketches(), shares, shares, st.booleans(), st.booleans())
def test_posteriors_are_bounded_and_monotone(sketch, alpha, beta, estimated, smooth):
    calibration = calibrate(sketch, Shares(alpha, beta, from_these_rows=estimated), smooth)
    for name in ("tau", "posterior", "posterior_labeled", "fdr"):
        values = getattr(calibration, name)
        assert ((values >= 0) & (values <= 1)).all(), name
    assert (np.diff(calibration.posterior) >= 0).all()
    assert (np.diff(calibration.tau) >= -1e-12).all()
    assert (np.diff(calibration.fdr) <= 1e-12).all()
    assert (calibration.lr >= 0).all()
    if 0.001 < alpha < min(0.999, beta):
        assert np.array_equal(np.isinf(calibration.lr), calibration.posterior == 1)


@settings(deadline=None)
@given(sketches(), shares, shares)
def test_the_mean_is_alpha_or_a_warning_says_why_not(sketch, alpha, beta):
    calibration = calibrate(sketch, Shares(alpha, beta))
    mean = calibration.posterior @ sketch.unlabeled / sketch.n_unlabeled
    warned = [notice.code for notice in calibration.notices] == ["posterior-mean-off"]
    assert (abs(mean - alpha) > MEAN_TOLERANCE) == warned


def gaussian(n_labeled, n_unlabeled, alpha, beta, seed=0):
    """Scores of two unit Gaussians two apart, with the posterior that is true of each."""
    rng = np.random.default_rng(seed)
    parts = []
    for n, share in ((n_labeled, beta), (n_unlabeled, alpha)):
        y = rng.random(n) < share
        parts.append((rng.normal(size=n) + 2 * y, y))
    return parts


@pytest.mark.parametrize("beta", [1.0, 0.8])
def test_the_posterior_nears_the_truth(beta):
    alpha = 0.3
    (labeled, labeled_y), (unlabeled, _) = gaussian(20_000, 50_000, alpha, beta)
    sketch = Sketch.from_samples(labeled, unlabeled)
    calibration = calibrate(sketch, Shares(alpha, beta))
    ratio = np.exp(2 * sketch.scores - 2)
    truth = alpha * ratio / (alpha * ratio + 1 - alpha)
    error = np.abs(calibration.posterior - truth) @ sketch.unlabeled / sketch.n_unlabeled
    assert error < 0.02
    truth_labeled = beta * ratio / (beta * ratio + 1 - beta)
    error = np.abs(calibration.posterior_labeled - truth_labeled) @ sketch.labeled
    assert error / sketch.n_labeled < 0.02
    mean = calibration.posterior_labeled @ sketch.labeled / sketch.n_labeled
    assert mean == pytest.approx(beta, abs=1e-6)
    assert labeled_y.mean() == pytest.approx(beta, abs=0.01)


@pytest.mark.ci
def test_calls_from_few_labeled_rows_keep_their_fdr():
    """Isotonic regression has 0.07 here: it makes the most of the labeled rows at the very top."""
    alpha, beta, false_shares = 0.2, 0.9, []
    for seed in range(60):
        (labeled, _), (unlabeled, y) = gaussian(100, 2000, alpha, beta, seed)
        sketch = Sketch.from_samples(labeled, unlabeled)
        called = calibrate(sketch, Shares(alpha, beta)).fdr[sketch.cell_index(unlabeled)] <= 0.05
        if called.any():
            false_shares.append(1 - y[called].mean())
    assert len(false_shares) > 40
    assert np.mean(false_shares) < 0.055


def test_a_single_labeled_row_on_top_is_no_certainty():
    (labeled, _), (unlabeled, _) = gaussian(200, 2000, 0.3, 0.9)
    sketch = Sketch.from_samples(np.append(labeled, 100.0), unlabeled)
    p = calibrate(sketch, Shares(0.3, 0.9)).posterior
    assert 0.9 < p[-1] < 0.999


@pytest.mark.parametrize("rows", [1000, 300_000])
def test_scores_that_rank_the_wrong_way_say_nothing(rows):
    """So many rows rule out every non-decreasing posterior but the constant one."""
    (labeled, _), (unlabeled, _) = gaussian(rows // 5, rows, 0.3, 0.9)
    p = calibrate(Sketch.from_samples(-labeled, -unlabeled), Shares(0.3, 0.9)).posterior
    np.testing.assert_allclose(p, 0.3, atol=1e-6)


@pytest.mark.ci
def test_more_rows_near_the_truth():
    errors = []
    for rows in (1000, 30_000, 1_000_000):
        (labeled, _), (unlabeled, _) = gaussian(rows // 5, rows, 0.3, 0.9)
        sketch = Sketch.from_samples(labeled, unlabeled)
        ratio = np.exp(2 * sketch.scores - 2)
        truth = 0.3 * ratio / (0.3 * ratio + 0.7)
        p = calibrate(sketch, Shares(0.3, 0.9)).posterior
        errors.append(np.abs(p - truth) @ sketch.unlabeled / sketch.n_unlabeled)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.008


def test_well_separated_classes_are_told_apart():
    """A block of many rows at one ratio must not be smeared into its neighbours."""
    rng = np.random.default_rng(0)
    y = np.arange(1000) < 20
    unlabeled = rng.normal(size=1000) + np.where(y, 6, -6)
    sketch = Sketch.from_samples(rng.normal(size=200) + 6, unlabeled)
    p = calibrate(sketch, Shares(0.02, 1.0)).posterior[sketch.cell_index(unlabeled)]
    assert p[y].mean() > 0.9
    assert p[~y].mean() < 0.005


def test_fdr_is_the_share_of_negatives_above():
    (labeled, _), (unlabeled, y) = gaussian(20_000, 50_000, 0.3, 0.9)
    sketch = Sketch.from_samples(labeled, unlabeled)
    calibration = calibrate(sketch, Shares(0.3, 0.9))
    rows = calibration.fdr[sketch.cell_index(unlabeled)] <= 0.1
    assert rows.sum() > 1000
    assert 1 - y[rows].mean() == pytest.approx(0.1, abs=0.03)


def test_above_all_unlabeled_rows_the_fdr_is_that_of_the_row():
    sketch = Sketch.from_samples(np.array([0.2, 0.9, 0.95]), np.array([0.1, 0.2, 0.3, 0.4]))
    calibration = calibrate(sketch, Shares(0.2, 0.9))
    assert calibration.fdr[-1] == 1 - calibration.posterior[-1]


def test_neighbouring_scores_do_not_jump_by_a_block():
    (labeled, _), (unlabeled, _) = gaussian(2000, 10_000, 0.3, 0.9)
    calibration = calibrate(Sketch.from_samples(labeled, unlabeled), Shares(0.3, 0.9))
    assert np.diff(calibration.posterior).max() < 0.05


def test_a_spline_finds_a_smooth_curve():
    rng = np.random.default_rng(8)
    score = np.sort(rng.normal(size=20_000))
    logit = 2 * np.tanh(score) - 1
    odds = 0.1 + 1.4 / (1 + np.exp(-logit))
    labeled = rng.random(len(score)) < odds / (1 + odds)
    rows = np.ones(len(score), np.int64)
    found, _ = smooth_logit(labeled.astype(np.int64), rows, (0.1, 1.5))
    inner = slice(500, -500)
    assert np.abs(found[inner] - logit[inner]).mean() < 0.1
    of_three = smooth_logit(rows[:3], rows[:3], (0.0, 1.0))[0]  # all labeled, and three cells
    assert np.isfinite(of_three).all()


def test_a_smooth_curve_may_level_off_below_certainty():
    """Some correct matches score as low as any: the lowest PEPs are not 1."""
    rng = np.random.default_rng(3)
    rank = (np.arange(60_000) + 0.5) / 60_000
    p = np.where(rank > 0.3, 0.95, 0.95 * (rank / 0.3) ** 2)
    labeled = rng.random(len(p)) < p / (1 + p)
    rows = np.ones(len(p), np.int64)
    found, _ = smooth_logit(labeled.astype(np.int64), rows, (0.0, 1.0))
    assert np.abs(1 / (1 + np.exp(-found)) - p).mean() < 0.015
    assert 1 / (1 + np.exp(-found[-1])) < 0.985


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("labeled_class", ["positive", "negative"])
def test_no_positives_at_all_give_finite_ratios(labeled_class):
    """A method may find an alpha of 0 although some of its bootstrap samples do not."""
    rng = np.random.default_rng(0)
    sketch = Sketch.from_samples(rng.normal(3, 1, 100), rng.normal(0, 1, 300))
    alphas = np.linspace(0, 0.1, 200)
    certain = Shares(0.0, 1.0, draws=tuple((alpha, 1.0) for alpha in alphas))
    if labeled_class == "negative":
        sketch = replace(sketch.mirrored(), labeled_class="negative")
        certain = Shares(1.0, 0.0, draws=tuple((1 - alpha, 0.0) for alpha in alphas[::-1]))
    calibration = calibrate(sketch, certain)
    assert (calibration.posterior == certain.alpha).all()
    assert (calibration.lr == 1).all()
    low, high = bounds(calibration, 0).posterior
    assert (high - low).max() > 0.5, "alpha need not be 0"
