"""What people decide by: bounds, calls, evidence strengths, other populations, performance."""

import numpy as np
import pandas as pd
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


@pytest.fixture
def prior_file(punoise, scores, tmp_path):
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "prior.json")
    return tmp_path / "prior.json"


def test_new_rows_are_calibrated_by_the_model(punoise, tables, frames, tmp_path):
    names = ("m.punoise", "s.tsv", "p.json", "q.tsv", "new.tsv", "new_q.tsv")
    model, scores, prior, posterior, new, new_posterior = (tmp_path / name for name in names)
    fast = ("--classifier", "logistic")
    punoise("transform", *tables, *fast, "--out", scores, "--model-out", model)
    punoise("estimate-prior", "--scores", scores, "--out", prior)
    punoise("posterior", "--scores", scores, "--prior", prior, "--out", posterior)
    punoise("score", "--model", model, "--table", tables[3], "--out", new)
    own = ("--prior", prior, "--model", model)
    punoise("posterior", "--scores", new, *own, "--out", new_posterior)
    found = pd.read_csv(new_posterior, sep="\t")
    assert list(found.columns) == ["id", "score", "tau", "posterior", "lr", "fdr"]
    known = pd.read_csv(posterior, sep="\t").query("set == 'unlabeled'")
    assert np.corrcoef(found["posterior"], known["posterior"])[0, 1] > 0.98
    result = punoise("posterior", "--scores", new, "--prior", prior, "--out", "-", expect=3)
    assert "'set'" in result.err
    assert "--model" in result.err


def test_a_prior_of_as_many_other_rows_is_noticed(punoise, scores, tmp_path):
    frame = pd.read_csv(scores, sep="\t")
    frame.assign(score=frame["score"] ** 2 + 0.01 * (frame.index % 7)).to_csv(
        tmp_path / "other.tsv", sep="\t", index=False
    )
    punoise("estimate-prior", "--scores", tmp_path / "other.tsv", "--out", tmp_path / "p.json")
    options = ("--prior", tmp_path / "p.json", "--out", tmp_path / "q.tsv", "--strict")
    result = punoise("posterior", "--scores", scores, *options, expect=4)
    assert "prior-of-other-rows" in result.err
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    punoise("posterior", "--scores", scores, *options[:-1])


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


def test_posterior_with_everything(punoise, scores, prior_file, tmp_path):
    out = tmp_path / "p.parquet"
    options = ("--bounds", "--fdr", 0.1, "--target-alpha", 0.0441, "--out", out)
    result = punoise("posterior", "--scores", scores, "--prior", prior_file, *options)
    table = pd.read_parquet(out)
    assert list(table.columns)[8:] == ["target_alpha", "posterior_low", "posterior_high", "call"]
    assert (table["posterior_low"] <= table["posterior"]).all()
    assert (table["posterior"] <= table["posterior_high"]).all()
    assert (table["call"] == (table["fdr"] <= 0.1)).all()
    called = table.loc[table["set"] == "unlabeled", "call"].sum()
    assert f"{called} unlabeled rows" in result.err
