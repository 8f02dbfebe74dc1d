"""Values that too many rows share in scores; ordinary scores give no warning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pu_noise_cli.prior.base import Estimate, Settings
from pu_noise_cli.prior.checks import Case, diagnose
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.columns import isolated_in_column

CODES = {"lone-value", "saturated-score"}


def drawn(shape, seed: int, n_labeled: int = 1000, n_unlabeled: int = 5000) -> list[np.ndarray]:
    """Scores of labeled and unlabeled rows: Gaussians, of which a function makes something."""
    rng = np.random.default_rng(seed)
    samples = []
    for n, share in ((n_labeled, 0.9), (n_unlabeled, 0.1)):
        positive = rng.random(n) < share
        samples.append(np.asarray(shape(rng.normal(size=n) + 2 * positive, positive, rng)))
    return samples


def due(labeled: np.ndarray, unlabeled: np.ndarray) -> dict[str, str]:
    """The warnings of this kind, with their messages."""
    found = diagnose(Case(Sketch.from_samples(labeled, unlabeled), Estimate(0.1, 0.9)))
    return {notice.code: notice.message for notice in found if notice.code in CODES}


ORDINARY = {
    "normal": lambda z, y, rng: z,
    "share": lambda z, y, rng: 1 / (1 + np.exp(2 - 2 * z)),
    "whole numbers": lambda z, y, rng: np.round(10 * z),
    "few whole numbers": lambda z, y, rng: np.round(2 * z),
    "counts": lambda z, y, rng: rng.poisson(2 + 6 * y).astype(float),
    "phred": lambda z, y, rng: np.round(-10 * np.log10(rng.beta(1, 1 + 20 * y) + 1e-4)),
    "lognormal": lambda z, y, rng: np.exp(z),
    "bounded": lambda z, y, rng: np.where(
        y, rng.uniform(0.4, 1, len(z)), rng.uniform(0, 0.8, len(z))
    ),
}


@pytest.mark.parametrize("case", ORDINARY)
def test_ordinary_scores_give_no_warning(case):
    for seed in range(20):
        assert due(*drawn(ORDINARY[case], seed, 1000 if seed % 2 else 100)) == {}, seed


@pytest.mark.parametrize("n", [2000, 20_000])
@pytest.mark.parametrize("labeled_negatives", [False, True])
def test_a_lone_score_is_told_whatever_the_labels_say(n, labeled_negatives):
    def shape(z, y, rng):
        return np.where(rng.random(len(z)) < 0.05, -1, np.abs(z) + 0.5)

    labeled, unlabeled = drawn(shape, 0, n // 2, n)
    sketch = Sketch.from_samples(labeled, unlabeled)
    if labeled_negatives:
        sketch = replace(sketch, labeled_class="negative")
    found = estimate_prior(sketch, "bound", Settings())
    told = {notice.code: notice.message for notice in found.notices}
    assert "the score -1" in told["lone-value"]


SATURATED = {
    "cut off": lambda z, y, rng: np.minimum(z, 2.5),
    "rounded share": lambda z, y, rng: np.round(1 / (1 + np.exp(2 - 4 * z)), 3),
    "a wall": lambda z, y, rng: np.where(rng.random(len(z)) < 0.01, 6.0, z),
    "no more labeled rows at the top": lambda z, y, rng: np.where(
        rng.random(len(z)) < 0.08, rng.uniform(3, 5, len(z)), np.minimum(z, 3 - rng.random(len(z)))
    ),
}


@pytest.mark.parametrize("case", SATURATED)
def test_a_score_that_runs_into_a_wall_is_told(case):
    for seed in range(20):
        assert "saturated-score" in due(*drawn(SATURATED[case], seed)), seed


@pytest.mark.parametrize("code", [-1, -999, 99])
@pytest.mark.parametrize("share", [0.02, 0.4])
def test_a_code_for_a_missing_value_is_told(code, share):
    def shape(z, y, rng):
        return np.where(rng.random(len(z)) < share, code, 1 / (1 + np.exp(-z)))

    for seed in range(10):
        message = due(*drawn(shape, seed))["lone-value"]
        assert f"the score {code}" in message
        assert f"--na {code}" in message


def test_the_only_negative_value_is_told_however_near():
    def shape(z, y, rng):
        return np.where(rng.random(len(z)) < 0.02, -1, np.abs(np.round(10 * z)))

    assert "lone-value" in due(*drawn(shape, 0))


def test_a_zero_far_below_is_a_code_and_one_among_others_is_not():
    rng = np.random.default_rng(0)
    values, labeled = rng.normal(50, 5, 3000), rng.random(3000) < 0.2
    values[:60] = 0
    assert isolated_in_column(values, labeled).value == 0
    assert isolated_in_column(values - 50, labeled).value == -50
    assert isolated_in_column(np.maximum(values - 50, 0), labeled) is None  # many zeros, none apart
    assert isolated_in_column(values + 0.5, labeled) is None  # a code is a whole number
    assert isolated_in_column(np.full(10, np.nan), labeled[:10]) is None
