"""Known negatives as a third set of rows, and labeled rows that are negatives, in sketches."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from pu_noise_cli.errors import UsageError
from pu_noise_cli.posterior.calibration import calibrate
from pu_noise_cli.prior.base import ESTIMATORS, Settings, Shares
from pu_noise_cli.prior.document import shares_for
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.prior.negatives import Mixture
from pu_noise_cli.score.sketch import Sketch, load_sketch, save_sketch

GAP = np.sqrt(2) * norm.ppf(0.87)


def scores(rng: np.random.Generator, n: int, share: float) -> np.ndarray:
    return rng.normal(size=n) + GAP * (rng.random(n) < share)


def three(seed: int, alpha: float, beta: float, n_negative: int = 500, shift: float = 0) -> Sketch:
    rng = np.random.default_rng(seed)
    negatives = rng.normal(size=n_negative) + shift
    return Sketch.from_samples(scores(rng, 1000, beta), scores(rng, 10_000, alpha), negatives)


# ---- What they say of alpha


@pytest.mark.ci
def test_negatives_narrow_the_interval_and_it_still_covers():
    covered, widths, without = [], [], []
    for seed in range(40):
        sketch = three(seed, 0.2, 1.0)
        found = ESTIMATORS["auto"].estimate(sketch, Settings())
        plain = ESTIMATORS["auto"].estimate(sketch.without_negatives(), Settings())
        covered.append(found.alpha_ci[0] <= 0.2 <= found.alpha_ci[1])
        widths.append(np.ptp(found.alpha_ci))
        without.append(np.ptp(plain.alpha_ci))
    assert np.mean(covered) >= 0.85
    assert np.mean(widths) <= 0.6 * np.mean(without)


def test_small_shares_need_no_assumption_on_the_top():
    """Without negatives the default purity is wrong here, and the interval misses."""
    found = ESTIMATORS["auto"].estimate(three(1, 0.02, 0.75, 1000), Settings())
    assert found.alpha_ci[0] <= 0.02 <= found.alpha_ci[1]
    assert found.assumed.purity == 0
    insisted = ESTIMATORS["auto"].estimate(three(1, 0.02, 0.75, 1000), Settings(purity=0.3))
    assert insisted.assumed.purity > 0


@pytest.mark.ci
def test_many_rows_give_a_sharp_share():
    rng = np.random.default_rng(4)
    sketch = Sketch.from_samples(
        scores(rng, 100_000, 1), scores(rng, 1_000_000, 0.2), rng.normal(size=100_000)
    )
    found = ESTIMATORS["auto"].estimate(sketch, Settings(beta=1.0))
    assert found.alpha == pytest.approx(0.2, abs=0.004)
    assert np.ptp(found.alpha_ci) < 0.01


@pytest.mark.parametrize(("shift", "fires"), [(0, (0, 4)), (-0.5, (16, 20)), (0.5, (16, 20))])
def test_negatives_that_are_not_typical_are_told(shift, fires):
    told = sum(
        bool(Mixture.from_sketch(three(seed, 0.2, 0.9, 500, shift)).notices()) for seed in range(20)
    )
    assert fires[0] <= told <= fires[1]


@pytest.mark.parametrize("seed", range(5))
def test_negatives_may_fit_the_unlabeled_rows_to_the_last_digit(seed):
    rng = np.random.default_rng(seed)
    negative = rng.integers(6, size=100).astype(float)
    labeled = rng.integers(2, 8, size=60).astype(float)
    sketch = Sketch.from_samples(labeled, np.repeat(negative, 3), negative)
    assert Mixture.from_sketch(sketch).notices() == ()


def test_a_method_that_cannot_use_them_says_so():
    sketch = three(0, 0.2, 0.9)
    found = estimate_prior(sketch, "bound", Settings())
    assert "negatives-not-used" in {notice.code for notice in found.notices}
    assert found.n_negatives == 500
    plain = estimate_prior(sketch.without_negatives(), "bound", Settings())
    assert (found.alpha, found.beta) == (plain.alpha, plain.beta)
    assert "negatives-not-used" not in {
        notice.code for notice in estimate_prior(sketch, "auto", Settings()).notices
    }


def test_the_warning_names_the_set_that_departs():
    """Of a few negatives the fit makes what it needs: they depart from it, and many others not."""
    (notice,) = Mixture.from_sketch(three(1, 0.2, 1.0, n_negative=60, shift=-1)).notices()
    found = re.search(r"there are (\d+) (\w+) rows, \w+ than the (\d+) expected", notice.message)
    seen, due = float(found[1]), float(found[3])
    assert found[2] == "negative"
    assert abs(seen - due) > 2 * np.sqrt(max(due, 1))


# ---- Sketches and calibration


def test_sketches_of_three_sets_merge_and_are_read_back(tmp_path):
    rng = np.random.default_rng(5)
    values, sets = rng.normal(size=30_000), rng.integers(0, 3, 30_000).astype(np.int8)
    whole = Sketch.from_rows(values, sets)
    parts = [Sketch.from_rows(values[i::7], sets[i::7]) for i in range(7)]
    merged = Sketch.merge(parts[::-1])
    assert np.array_equal(merged.counts, whole.counts)
    assert np.array_equal(merged.edges, whole.edges)
    with open(tmp_path / "s", "wb") as file:
        save_sketch(whole, file)
    with open(tmp_path / "s", "rb") as file:
        again = load_sketch("s", file)
    assert np.array_equal(again.counts, whole.counts)


def test_negatives_sharpen_the_likelihood_ratio():
    rng = np.random.default_rng(6)
    errors = {"with": [], "without": []}
    for _ in range(6):
        labeled, unlabeled = scores(rng, 500, 1), scores(rng, 500, 0.2)
        sketch = Sketch.from_samples(labeled, unlabeled, rng.normal(size=5000))
        at = np.linspace(0, GAP, 20)
        truth = GAP * at - GAP**2 / 2
        for name, one in (("with", sketch), ("without", sketch.without_negatives())):
            found = calibrate(one, Shares(0.2, 1.0))
            errors[name].append(np.abs(np.log(found.lr[one.cell_index(at)]) - truth).mean())
    assert np.mean(errors["with"]) < np.mean(errors["without"])


def test_negatives_may_score_below_and_above_all_other_rows():
    rng = np.random.default_rng(6)
    plain = Sketch.from_samples(scores(rng, 500, 1), scores(rng, 500, 0.2))
    ends = Sketch.from_samples(np.empty(0), np.empty(0), np.repeat([-9.0, 9.0], 300))
    before, after = (
        calibrate(sketch, Shares(0.2, 1.0), smooth=True)
        for sketch in (plain, Sketch.merge([plain, ends]))
    )
    np.testing.assert_allclose(after.posterior[1:-1], before.posterior, rtol=1e-12)
    np.testing.assert_allclose(after.posterior[[0, -1]], before.posterior[[0, -1]], rtol=1e-12)


def test_without_unlabeled_rows_labeled_ones_and_negatives_calibrate():
    rng = np.random.default_rng(7)
    sketch = Sketch.from_samples(scores(rng, 4000, 1), np.empty(0), rng.normal(size=4000))
    found = calibrate(sketch, Shares(0.05, 1.0, from_these_rows=False))
    at = np.array([0.0, GAP / 2, GAP])
    truth = 1 / (1 + 19 * np.exp(-(GAP * at - GAP**2 / 2)))
    np.testing.assert_allclose(found.posterior[sketch.cell_index(at)], truth, rtol=0.35)
    assert found.fdr[0] == pytest.approx(0.95, abs=0.01)
    assert not found.notices


# ---- Labeled negatives


def test_labeled_negatives_are_the_mirror_image_of_labeled_positives():
    """The same scores with the opposite sign, and every share turned round."""
    rng = np.random.default_rng(9)
    labeled, unlabeled = scores(rng, 2000, 1), scores(rng, 5000, 0.3)
    as_positives = Sketch.from_samples(labeled, unlabeled)
    as_negatives = replace(Sketch.from_samples(-labeled, -unlabeled), labeled_class="negative")
    plain = estimate_prior(as_positives, "bound", Settings())
    turned = estimate_prior(as_negatives, "bound", Settings())
    assert turned.alpha == pytest.approx(1 - plain.alpha)
    assert turned.beta == pytest.approx(plain.beta)
    assert turned.auc == pytest.approx(plain.auc)
    assert turned.alpha_min == pytest.approx(1 - plain.alpha_max)
    ours = calibrate(*shares_for(plain, as_positives)[:2])
    theirs = calibrate(*shares_for(turned, as_negatives)[:2])
    np.testing.assert_allclose(theirs.posterior[::-1], 1 - ours.posterior, atol=1e-9)
    np.testing.assert_allclose(
        theirs.posterior_labeled[::-1], 1 - ours.posterior_labeled, atol=1e-9
    )
    assert (np.diff(theirs.posterior) >= 0).all()
    assert theirs.fdr[-1] < theirs.fdr[0]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_labeled_negatives_give_the_share_of_positives(alpha):
    rng = np.random.default_rng(10)
    sketch = Sketch.from_samples(rng.normal(size=3000), scores(rng, 5000, alpha) + 0.0)
    sketch = replace(sketch, labeled_class="negative")
    found = estimate_prior(sketch, "auto", Settings(beta=1.0))
    assert found.alpha_ci[0] - 0.01 <= alpha <= found.alpha_ci[1] + 0.01
    assert found.alpha == pytest.approx(alpha, abs=0.08)
    assert found.draws == tuple(sorted(found.draws))


def test_labeled_negatives_and_known_ones_do_not_go_together():
    sketch = replace(three(0, 0.2, 0.9), labeled_class="negative")
    with pytest.raises(UsageError, match="cannot be combined"):
        estimate_prior(sketch, "auto", Settings())
    with pytest.raises(UsageError, match="cannot be combined"):
        calibrate(sketch, Shares(0.8, 0.0))
