"""Verdicts as a belief, and the design of an audit: strata, intervals, what one more row adds."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normals
from scipy.stats import beta as beta_law
from scipy.stats import hypergeom

from pu_noise_cli.audit.verdicts import STRATA, Verified, allot, expected_width, stratify
from pu_noise_cli.prior.auto import TopVerdicts, believe, top_cells
from pu_noise_cli.prior.base import Settings
from pu_noise_cli.score.sketch import Sketch


def counts(*rows: tuple[int, int, int]) -> Verified:
    return Verified(*np.transpose(rows))


# ---- The numbers


@pytest.mark.parametrize(("k", "n"), [(0, 50), (1, 50), (20, 100), (100, 100)])
def test_one_stratum_gives_the_exact_binomial_interval(k, n):
    low, high = counts((10_000_000, n, k)).interval()
    assert low == pytest.approx(beta_law.ppf(0.025, k, n - k + 1) if k else 0, abs=1e-4)
    assert high == pytest.approx(beta_law.ppf(0.975, k + 1, n - k) if k < n else 1, abs=1e-4)


def test_one_small_stratum_gives_the_exact_hypergeometric_interval():
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = int(rng.integers(1, 400))
        n = int(rng.integers(1, rows + 1))
        k = int(rng.integers(0, n + 1))
        positives = np.arange(k, rows - n + k + 1)  # that all rows may have
        possible = positives[
            (hypergeom.sf(k - 1, rows, positives, n) > 0.025)
            & (hypergeom.cdf(k, rows, positives, n) > 0.025)
        ]
        expected = possible[0] / rows, possible[-1] / rows
        assert counts((rows, n, k)).interval() == pytest.approx(expected), (rows, n, k)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("strata", [[(300, 300, 70)], [(50, 50, 0), (60, 60, 50)], [(9, 9, 9)]])
def test_rows_that_are_all_verified_leave_nothing_open(strata):
    verified = counts(*strata)
    share = verified.positive.sum() / verified.rows.sum()
    assert verified.interval() == (share, share)
    assert verified.estimate() == share
    assert set(verified.draws(20)) == {share}


@pytest.mark.parametrize("rows", [200, 20_000])
def test_the_interval_narrows_with_the_rows_that_are_left(rows):
    """By the square root of the fraction of the rows that have no verdict."""
    fractions = np.array([0.1, 0.5, 0.9])
    checked = (rows * fractions).astype(int)
    finite = [np.ptp(counts((rows, n, n // 4)).interval()) for n in checked]
    endless = [np.ptp(counts((10**9, n, n // 4)).interval()) for n in checked]
    assert np.divide(finite, endless) == pytest.approx(np.sqrt(1 - fractions), rel=0.1)


@pytest.mark.ci
def test_the_interval_of_a_small_population_covers():
    rng = np.random.default_rng(0)
    rows, checked = np.array([60, 40, 30, 20]), np.array([20, 25, 20, 15])
    covered = []
    for _ in range(500):
        k = rng.binomial(rows, [0.02, 0.2, 0.6, 0.9])
        low, high = Verified(rows, checked, rng.hypergeometric(k, rows - k, checked)).interval()
        covered.append(low <= k.sum() / rows.sum() <= high)
    assert np.mean(covered) >= 0.94


def test_a_stratum_without_verdicts_may_be_anything():
    low, high = counts((500, 50, 0), (500, 0, 0)).interval()
    assert low == 0
    assert high > 0.5


@pytest.mark.filterwarnings("error")
def test_a_stratum_that_lost_its_rows_says_nothing():
    low, high = counts((500, 50, 20), (0, 0, 0), (500, 50, 30)).interval()
    assert (low, high) == pytest.approx(counts((500, 50, 20), (500, 50, 30)).interval(), abs=0.01)


@pytest.mark.ci
@pytest.mark.parametrize(("alpha", "n"), [(0.02, 50), (0.2, 100)])
def test_the_interval_covers_whether_or_not_the_model_is_right(alpha, n):
    """Posteriors that are too high or too low by a factor of five in the odds."""
    rng = np.random.default_rng(5)
    covered, widths, foreseen = [], [], []
    for i in range(250):
        y = rng.random(4000) < alpha
        x = np.sort(rng.normal(size=len(y)) + 1.6 * y)
        y = y[np.argsort(rng.normal(size=len(y)) * 0.7 + y)]  # in another order than the model's
        logit = np.log(alpha / (1 - alpha)) + 1.6 * x - 1.28 + (-1) ** i * np.log(5)
        stratum, due = stratify(1 / (1 + np.exp(-logit)), np.ones(len(y), int))
        rows = np.bincount(stratum)
        checked = allot(n, due, rows)
        positive = [rng.permutation(y[stratum == h])[:k].sum() for h, k in enumerate(checked)]
        low, high = Verified(rows, checked, np.array(positive)).interval()
        covered.append(low <= y.mean() <= high)
        widths.append(high - low)
        share = np.bincount(stratum, y) / rows
        foreseen.append(expected_width(n, due, rows, share))
    assert 0.92 <= np.mean(covered) <= 0.996
    assert np.median(np.abs(np.array(foreseen) / widths - 1)) < 0.25


def test_strata_are_due_what_is_doubtful_and_every_one_gets_rows():
    p = np.linspace(0.001, 0.6, 500) ** 2
    rows = np.full(500, 20)
    stratum, due = stratify(p, rows)
    assert (np.diff(stratum) >= 0).all()
    assert due == pytest.approx(np.full(STRATA, 1 / STRATA), abs=0.02)
    sizes = np.bincount(stratum, rows).astype(int)
    assert sizes[0] > 2 * sizes[-1]
    assert allot(100, due, sizes).sum() == 100
    assert allot(7, due, sizes).sum() == 7
    assert allot(10**6, due, sizes).tolist() == sizes.tolist()


def test_posteriors_that_are_all_sure_or_all_the_same_can_be_stratified():
    for p in (np.ones(3), np.zeros(3), np.full(1, 0.5)):
        stratum, due = stratify(p, np.full(len(p), 30))
        assert due.sum() == pytest.approx(1)
        assert len(due) == stratum.max() + 1


def test_few_labels_widen_what_verdicts_at_the_top_say():
    """Of 60 labeled rows 12 are the top, so that the ratio there is known within 30 % only."""
    rng = np.random.default_rng(8)
    covered = []
    for _ in range(120):
        labeled, unlabeled = normals(0.05, 1.0, 60, 3000, rng, separation=2.0)
        sketch = Sketch.from_samples(labeled, unlabeled)
        top = np.flatnonzero(unlabeled >= sketch.scores[top_cells(sketch)].min())
        checked = rng.permutation(top)[:50]
        verdicts = TopVerdicts(int((checked < 150).sum()), len(checked))
        belief, _, _ = believe(sketch, Settings(), top=verdicts)
        low, high = belief.interval(0.95)[0]
        covered.append(low <= 0.05 <= high)
    assert np.mean(covered) > 0.9
