"""One suite for every method, and the exact curve against a general-purpose optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normals
from scipy.optimize import minimize

from pu_noise_cli.prior import alphamax, msgmm
from pu_noise_cli.prior.base import ESTIMATORS, Estimate, Samples, Settings
from pu_noise_cli.score.sketch import Sketch

# those that count matches need as many labeled rows as there are unlabeled ones of their class
METHODS = [name for name, method in ESTIMATORS.items() if method.needs != "best scores"]
ACCURATE = [name for name in METHODS if ":" not in name]  # variants are there for comparison
NOISE_FREE = {"alphamax", "elkan-noto"}  # they take the labeled rows as clean
TOLERANCE = {"elkan-noto": 0.3, "alphamax-nm": 0.1}  # biased by overlap, and by wide bins


def estimate(method: str, labeled: np.ndarray, unlabeled: np.ndarray, **settings) -> Estimate:
    """Of samples of scores, which for methods on features become the first of three columns."""
    estimator = ESTIMATORS[method]
    if estimator.needs == "scores":
        return estimator.estimate(Sketch.from_samples(labeled, unlabeled), Settings(**settings))
    rng = np.random.default_rng(1)

    def table(scores: np.ndarray) -> np.ndarray:
        # seeded by the scores themselves, so that the order of the rows carries nothing
        noise = [np.random.default_rng(int(abs(x) % 1 * 1e9)).normal(size=2) for x in scores[:2000]]
        extra = np.concatenate([noise, rng.normal(size=(max(len(scores) - 2000, 0), 2))])
        return np.column_stack([scores, extra])

    return estimator.estimate(Samples(table(labeled), table(unlabeled)), Settings(**settings))


def draw(rng, alpha, beta, n_labeled, n_unlabeled, separation=4.0):
    return normals(alpha, beta, n_labeled, n_unlabeled, rng, separation)


def assert_sound(result: Estimate) -> None:
    assert 0 <= result.alpha <= result.beta <= 1
    for share in (result.alpha_plus, result.beta_plus):
        assert share is None or 0 <= share <= 1
    for curve in result.curves.values():
        assert np.isfinite(curve.log_likelihood).all()


# The exact curve


def slsqp_optimum(mixture, component, r):
    """The appendix's constrained optimum on the same histogram, by a general-purpose optimiser."""
    v, c = mixture / mixture.sum(), component / component.sum()
    total, seen, scale = r * c + v, component > 0, mixture.sum() + component.sum()

    def loss(p):
        likelihood = mixture @ np.log(total - p) + component[seen] @ np.log(p[seen] / r)
        gradient = -mixture / (total - p)
        gradient[seen] += component[seen] / p[seen]
        return -likelihood / scale, -gradient / scale

    bounds = [(1e-12 * x, x) if s else (0, x * (1 - 1e-12)) for x, s in zip(v, seen, strict=True)]
    best = np.inf
    for p in (r * v, np.minimum(r * c, v)):
        for _ in range(5):  # where its line search gives up, SLSQP goes on from there
            found = minimize(
                loss,
                p,
                jac=True,
                method="SLSQP",
                bounds=bounds,
                constraints={"type": "eq", "fun": lambda p: p.sum() - r, "jac": np.ones_like},
                options={"maxiter": 1000, "ftol": 1e-16},
            )
            p = found.x
            if abs(p.sum() - r) < 1e-9:
                best = min(best, found.fun)
    return -best * scale


@pytest.mark.parametrize("case", range(20))
def test_exact_curve_equals_slsqp(case):
    rng = np.random.default_rng(case)
    bins = rng.integers(3, 15)
    mixture = rng.multinomial(rng.integers(50, 5000), rng.dirichlet(np.ones(bins))) + 1.0
    component = 1.0 * rng.multinomial(rng.integers(20, 2000), rng.dirichlet(np.ones(bins)))
    r = rng.uniform(0.02, 0.98)
    exact = alphamax.log_likelihood(mixture, component, np.array([r]))[0]
    assert exact == pytest.approx(slsqp_optimum(mixture, component, r), rel=1e-8)


def test_curve_never_rises():
    labeled, unlabeled = draw(np.random.default_rng(0), 0.3, 0.9, 500, 5000, separation=2)
    for curve in estimate("alphamax-n", labeled, unlabeled).curves.values():
        slack = 1e-9 * np.abs(curve.log_likelihood).max()
        assert (np.diff(curve.log_likelihood) <= slack).all()


def test_bins_without_component_count_as_one():
    mixture, component = np.array([30.0, 20, 10, 40]), np.array([0.0, 5, 0, 15])
    pooled = np.array([20.0, 40, 40]), np.array([5.0, 15, 0])
    curves = [alphamax.log_likelihood(*h, alphamax.GRID) for h in ((mixture, component), pooled)]
    offset = curves[0] - curves[1]
    assert offset == pytest.approx(np.full_like(offset, offset[0]))


def test_bin_width_is_matlabs():
    x = np.random.default_rng(0).normal(size=1000)
    assert alphamax.bin_width(x, np.ones(1000, dtype=np.int64)) == pytest.approx(0.3)


@pytest.mark.parametrize("alpha", [0.01, 0.5, 0.99])
def test_both_ends_are_within_reach(alpha):
    rng = np.random.default_rng(5)
    result = estimate("alphamax-n", *draw(rng, alpha, 1.0, 20_000, 200_000, separation=6))
    assert result.alpha == pytest.approx(alpha, abs=0.2 * alpha if alpha < 0.1 else 0.04)
    assert result.beta == pytest.approx(1, abs=0.02)


def test_authors_elbow_cannot_go_below_a_tenth():
    samples = draw(np.random.default_rng(0), 0.03, 1.0, 1000, 10_000)
    assert estimate("alphamax:authors", *samples).alpha >= 0.1
    assert estimate("alphamax", *samples).alpha == pytest.approx(0.03, abs=0.01)


def test_authors_elbow_finds_a_plain_one():
    samples = draw(np.random.default_rng(0), 0.4, 1.0, 1000, 10_000)
    assert estimate("alphamax:authors", *samples).alpha == pytest.approx(0.4, abs=0.05)


# Every method


@pytest.mark.parametrize("method", ACCURATE)
def test_recovers_a_known_prior(method):
    beta = 1.0 if method in NOISE_FREE else 0.85
    result = estimate(method, *draw(np.random.default_rng(0), 0.3, beta, 2000, 10_000))
    assert result.alpha == pytest.approx(0.3, abs=TOLERANCE.get(method, 0.03))
    assert result.beta == pytest.approx(beta, abs=0.08)
    assert_sound(result)


@pytest.mark.parametrize("method", ACCURATE)
def test_known_beta_corrects_for_the_noise(method):
    samples = draw(np.random.default_rng(0), 0.3, 0.75, 2000, 10_000)
    result = estimate(method, *samples, beta=0.75)
    assert result.beta == 0.75
    assert result.alpha == pytest.approx(0.3, abs=TOLERANCE.get(method, 0.03))
    assert_sound(result)


@pytest.mark.parametrize(("method", "tolerance"), [("elkan-noto", 0.02), ("elkan-noto:e3", 0.2)])
def test_elkan_noto_on_separated_classes(method, tolerance):
    samples = draw(np.random.default_rng(0), 0.3, 1.0, 2000, 10_000, separation=8)
    result = estimate(method, *samples)
    assert result.alpha == pytest.approx(0.3, abs=tolerance)


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_msgmm_with_unequal_variances(spread):
    rng = np.random.default_rng(0)

    def sample(share, n):
        positive = np.arange(n) < share * n
        return np.where(positive, rng.normal(3, spread, n), rng.normal(size=n))

    result = estimate("msgmm", sample(0.9, 1000), sample(0.3, 10_000))
    assert result.alpha == pytest.approx(0.3, abs=0.03)
    assert result.beta == pytest.approx(0.9, abs=0.03)


def test_msgmm_is_not_misled_by_heavy_tails():
    rng = np.random.default_rng(0)
    labeled, unlabeled = rng.laplace(4, size=1000), rng.laplace(size=10_000)
    unlabeled[:500] += 4
    assert estimate("msgmm", labeled, unlabeled).alpha == pytest.approx(0.05, abs=0.03)


def test_msgmm_says_when_it_has_not_converged(monkeypatch):
    monkeypatch.setattr(msgmm, "LONG_RUN", 1)
    result = estimate("msgmm", *draw(np.random.default_rng(0), 0.3, 0.9, 300, 3000, separation=1))
    assert result.converged is False
    assert [notice.code for notice in result.notices] == ["not-converged"]


@pytest.mark.parametrize("method", METHODS)
def test_row_order_is_irrelevant_and_results_repeat(method):
    rng = np.random.default_rng(3)
    labeled, unlabeled = draw(rng, 0.3, 0.9, 300, 1500, separation=2)
    once = estimate(method, labeled, unlabeled)
    assert estimate(method, labeled, unlabeled).alpha == once.alpha
    shuffled = estimate(method, rng.permutation(labeled), rng.permutation(unlabeled))
    assert shuffled.alpha == pytest.approx(once.alpha, abs=1e-6)


@pytest.mark.parametrize("method", ACCURATE)
def test_error_shrinks_with_the_samples(method):
    beta = 1.0 if method in NOISE_FREE else 0.9

    def error(n):
        return np.mean(
            [
                abs(
                    estimate(method, *draw(np.random.default_rng(i), 0.4, beta, n, 4 * n, 5)).alpha
                    - 0.4
                )
                for i in range(2)
            ]
        )

    assert error(1000) < max(error(60), 0.012)


# Degenerate inputs


def degenerate() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=300), rng.normal(size=900)
    return {
        "identical": (x, x.copy()),
        "separated": (x + 100, y),
        "reversed": (x - 100, y),
        "all-tied": (np.full(50, 0.5), np.full(200, 0.5)),
        "all-zero": (np.zeros(50), np.zeros(200)),
        "twenty-rows": (x[:5] + 1, y[:15]),
        "one-row-each": (x[:1], y[:1]),
        "one-labeled-value": (np.full(100, 0.7), y),
        "one-unlabeled-value": (x, np.full(100, 0.7)),
        "two-values": (np.repeat([0.0, 1.0], [10, 90]), np.repeat([0.0, 1.0], [400, 100])),
        "outside-unit": (1e4 * x + 3e4, 1e4 * y - 7e4),
        "tiny": (1e-300 * (x + 3), 1e-300 * y),
        "huge": (1e300 * (x + 1), 1e300 * y),
        "tiny-and-huge": (np.append(1e-300 * x, 1e300), np.append(y, [-1e300, 1e-300])),
        "subnormal": (np.full(30, 5e-324), np.append(np.zeros(60), 5e-324)),
        "one-outlier": (x, np.append(y, 1e9)),
        "heavy-tails": (rng.standard_cauchy(300) + 2, rng.standard_cauchy(2000)),
        "many-unlabeled": (x[:20], rng.normal(size=10_000)),
    }


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", degenerate())
def test_degenerate_inputs_give_an_answer(method, case):
    labeled, unlabeled = degenerate()[case]
    assert_sound(estimate(method, labeled, unlabeled))
    if method != "subclasses":  # the slowest
        assert_sound(estimate(method, labeled, unlabeled, beta=0.8))


@pytest.mark.parametrize("method", ACCURATE)
def test_separated_samples_share_nothing(method):
    labeled, unlabeled = degenerate()["separated"]
    assert estimate(method, labeled, unlabeled).alpha < 0.02


def test_bootstrap_samples_with_empty_cells_work():
    sketch = Sketch.from_samples(*draw(np.random.default_rng(0), 0.3, 0.9, 100, 500))
    resampled = sketch.resample(np.random.default_rng(1))
    for method in METHODS:
        if ESTIMATORS[method].needs == "scores":
            assert_sound(ESTIMATORS[method].estimate(resampled, Settings()))
