"""One suite for all classifiers: honest, repeatable, storable, and at ease with odd features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pu_noise_cli.errors import EstimationError
from pu_noise_cli.score.classifiers import (
    CLASSIFIERS,
    DIVISIONS,
    FEW_LABELED,
    FOLDS,
    Fit,
    Model,
    Training,
)
from pu_noise_cli.score.model import Scaling, fit_scaling
from pu_noise_cli.score.trees import Trees

every_classifier = pytest.mark.parametrize("name", list(CLASSIFIERS))
few_and_many = pytest.mark.parametrize("n_labeled", [FEW_LABELED, FEW_LABELED + 1])


def fit(name: str, training: Training, threads: int = 2, seed: int = 1) -> Fit:
    return CLASSIFIERS[name](training, seed=seed, threads=threads, progress=lambda _: None)


def auc(labeled: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """The chance that a labeled row scores above an unlabeled one, ties counting half."""
    unlabeled = np.sort(scores[~labeled])
    below, up_to = (np.searchsorted(unlabeled, scores[labeled], side) for side in ("left", "right"))
    return float(np.mean(below + up_to)) / 2 / len(unlabeled)


def shifted(n_labeled: int, n_unlabeled: int, d: int = 4, shift: float = 1.5) -> Training:
    """Normal features; the first is higher in labeled rows."""
    rng = np.random.default_rng(0)
    labeled = np.arange(n_labeled + n_unlabeled) < n_labeled
    features = rng.normal(size=(len(labeled), d))
    features[:, 0] += shift * labeled
    return Training(features.astype(np.float32), labeled)


@every_classifier
@few_and_many
def test_the_same_bytes_at_one_and_two_threads(name: str, n_labeled: int) -> None:
    training = shifted(n_labeled, 600)
    one, two = (fit(name, training, threads) for threads in (1, 2))
    assert one.scores.tobytes() == two.scores.tobytes()
    rows = np.random.default_rng(1).normal(size=(5000, 4)).astype(np.float32)
    assert one.model.predict(rows).tobytes() == two.model.predict(rows).tobytes()
    assert one.scores.tobytes() != fit(name, training, seed=2).scores.tobytes()


@every_classifier
@few_and_many
def test_a_stored_model_predicts_the_same(name: str, n_labeled: int) -> None:
    training = shifted(n_labeled, 300)
    model = fit(name, training).model
    arrays = model.arrays()
    assert all(array.dtype != object for array in arrays.values())
    again = Model.from_arrays(arrays, training.features.shape[1])
    scores = model.predict(training.features)
    assert scores.shape == (n_labeled + 300,)
    assert scores.min() >= 0
    assert scores.max() <= 1
    assert scores.tobytes() == again.predict(training.features).tobytes()
    assert len(model.predict(training.features[:0])) == 0


@every_classifier
def test_the_model_ranks_new_rows_as_out_of_bag_scores_rank_old_ones(name: str) -> None:
    training, new = shifted(200, 1000), shifted(500, 500)
    fitted = fit(name, training)
    held_out = auc(training.labeled, fitted.scores)
    assert held_out == pytest.approx(0.855, abs=0.04)  # the best possible is Φ(1.5 / √2)
    fresh = np.random.default_rng(5).normal(size=new.features.shape).astype(np.float32)
    fresh[:, 0] += 1.5 * new.labeled
    assert auc(new.labeled, fitted.model.predict(fresh)) == pytest.approx(held_out, abs=0.04)


@every_classifier
def test_random_labels_are_not_learned(name: str) -> None:
    rng = np.random.default_rng(3)
    labeled = rng.permutation(np.arange(1000) < 300)
    training = Training(rng.normal(size=(1000, 5)).astype(np.float32), labeled)
    assert auc(labeled, fit(name, training).scores) == pytest.approx(0.5, abs=0.06)


@every_classifier
def test_copies_leak_unless_they_are_grouped(name: str) -> None:
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(150), 4)
    labeled = rng.permutation(np.arange(150) < 50)[groups]
    features = rng.normal(size=(150, 30))[groups].astype(np.float32)
    leaking = auc(labeled, fit(name, Training(features, labeled)).scores)
    honest = auc(labeled, fit(name, Training(features, labeled, groups)).scores)
    assert leaking > 0.6
    assert honest == pytest.approx(0.5, abs=0.12)


@every_classifier
@pytest.mark.parametrize("few", [2, 5])
def test_few_groups_are_enough(name: str, few: int) -> None:
    training = shifted(40, 200, shift=3)
    # labeled rows in few groups, the rest in as many others
    groups = np.arange(240) % few + few * ~training.labeled
    scores = fit(name, Training(training.features, training.labeled, groups)).scores
    assert np.isfinite(scores).all()
    assert auc(training.labeled, scores) > 0.8


@every_classifier
def test_one_labeled_group_cannot_be_scored_honestly(name: str) -> None:
    training = shifted(20, 50)
    groups = np.where(training.labeled, 0, np.arange(70))
    with pytest.raises(EstimationError, match="at least 2 groups"):
        fit(name, Training(training.features, training.labeled, groups))


@every_classifier
@pytest.mark.parametrize(("n_labeled", "n_unlabeled"), [(20, 20), (20, 5000), (1000, 30)])
def test_sizes_far_apart(name: str, n_labeled: int, n_unlabeled: int) -> None:
    training = shifted(n_labeled, n_unlabeled, shift=3)
    scores = fit(name, training).scores
    assert np.isfinite(scores).all()
    assert auc(training.labeled, scores) > 0.85


@every_classifier
def test_constant_and_single_features(name: str) -> None:
    labeled = np.arange(400) < 100
    constant = fit(name, Training(np.zeros((400, 3), dtype=np.float32), labeled)).scores
    assert np.ptp(constant) < 0.2
    single = Training(shifted(100, 300, shift=3).features[:, :1], labeled)
    assert auc(labeled, fit(name, single).scores) > 0.9


@every_classifier
def test_progress_rises_to_one(name: str) -> None:
    seen: list[float] = []
    CLASSIFIERS[name](shifted(30, 60), seed=0, threads=2, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[0] > 0
    assert seen[-1] == 1


class TestScaling:
    def test_units_do_not_matter(self) -> None:
        column = np.random.default_rng(0).normal(size=500)
        features = np.stack([column * unit for unit in (1, 1e-12, 1e12, 1e300)], axis=1)
        scaled = fit_scaling(features).apply(features)
        assert np.allclose(scaled, scaled[:, :1], atol=1e-5)
        assert scaled[:, 0].mean() == pytest.approx(0, abs=0.01)
        assert scaled[:, 0].std() == pytest.approx(1, abs=0.01)

    def test_everything_finite_stays_within_bounds(self) -> None:
        rng = np.random.default_rng(1)
        features = np.stack(
            [
                rng.standard_cauchy(1000) * 1e300,
                np.where(rng.random(1000) < 0.5, 1.7e308, -1.7e308),
                np.arange(1000) == 7,
                np.full(1000, 3.0),
                np.full(1000, np.nan),
            ],
            axis=1,
        )
        scaled = fit_scaling(features).apply(features * np.array([1, 1, 1e9, 1e9, 1]))
        assert np.isfinite(scaled).all()
        assert np.abs(scaled).max() <= 5
        assert not scaled[:, 3:].any()

    def test_it_interpolates(self) -> None:
        rng = np.random.default_rng(4)
        columns = [
            rng.normal(size=40_000),
            rng.lognormal(sigma=4, size=40_000),
            rng.standard_cauchy(40_000) * 1e300,
            1e6 + 1e-3 * rng.normal(size=40_000),
            1e-300 * rng.normal(size=40_000),
            rng.poisson(2, 40_000),
        ]
        features = np.stack(columns, axis=1)
        scaling = fit_scaling(features[:20_000])
        scaled = scaling.apply(features)
        for j, column in enumerate(features.T):
            knots = slice(*scaling.first[j : j + 2])
            expected = np.interp(column / 4, scaling.values[knots] / 4, scaling.scaled[knots])
            assert scaled[:, j] == pytest.approx(expected, abs=1e-6)

    def test_missing_is_the_centre(self) -> None:
        column = np.append(np.arange(101.0), np.nan)
        scaled = fit_scaling(column[:, None]).apply(np.array([[np.nan], [50], [1e9]]))
        assert scaled[:, 0].tolist() == pytest.approx([0, 0, 2.6], abs=0.1)

    def test_indicators_become_z_scores(self) -> None:
        column = np.arange(100) < 20
        scaled = fit_scaling(column[:, None].astype(float)).apply(np.array([[0.0], [1.0]]))
        assert scaled[:, 0].tolist() == pytest.approx([-0.5, 2], abs=1e-6)

    def test_order_is_kept(self) -> None:
        column = np.random.default_rng(2).lognormal(sigma=3, size=5000)
        scaled = fit_scaling(column[:, None]).apply(np.sort(column)[:, None])[:, 0]
        assert (np.diff(scaled) >= 0).all()
        assert len(np.unique(scaled)) > 4900

    def test_round_trip(self) -> None:
        features = np.random.default_rng(3).normal(size=(300, 3))
        scaling = fit_scaling(features)
        again = Scaling.from_arrays(scaling.arrays(), len(scaling.first) - 1)
        assert again.apply(features).tobytes() == scaling.apply(features).tobytes()
        with pytest.raises(ValueError, match="2 columns"):
            scaling.apply(features[:, :2])


def test_given_folds_are_kept_apart() -> None:
    """Rows that say how they are labeled are no use to the members of their own folds."""
    rng = np.random.default_rng(6)
    groups = np.arange(600) % 60
    labeled = (groups < 20)[rng.permutation(60)][groups]
    features = rng.normal(size=(60, 30))[groups].astype(np.float32)
    training = Training(features, labeled, groups, rng.integers(FOLDS**DIVISIONS, size=60)[groups])
    fitted = fit("standard", training)
    assert auc(labeled, fitted.scores) == pytest.approx(0.5, abs=0.15)
    again = fitted.model.predict(features, training.place)
    np.testing.assert_allclose(again, fitted.scores, rtol=1e-6)
    assert auc(labeled, fitted.model.predict(features)) > 0.9


@every_classifier
def test_two_groups_of_unlabeled_rows_must_be_in_two_folds(name: str) -> None:
    training = shifted(60, 200, shift=3)
    groups = np.where(training.labeled, np.arange(260) % 6, 6 + np.arange(260) % 2)
    places = np.array([0, 40, 80, 0, 40, 80, 40, 80])  # all digits 0, 1 or 2
    given = replace(training, groups=groups, place=places[groups])
    assert auc(training.labeled, fit(name, given).scores) > 0.8
    places[6:] = 40
    with pytest.raises(EstimationError, match="in one fold"):
        fit(name, replace(given, place=places[groups]))


def test_new_rows_vary_as_training_rows_do() -> None:
    """Or labeled rows, which are in the sample, reach scores that most unlabeled rows cannot."""
    rng = np.random.default_rng(1)
    labeled = np.arange(10_000) < 2000
    positive = labeled | (rng.random(10_000) < 0.2)
    features = rng.normal(size=(10_000, 10)) + 0.9 * positive[:, None]
    fitted = fit("standard", Training(features.astype(np.float32), labeled))
    new = (rng.normal(size=(20_000, 10)) + 0.9).astype(np.float32)  # positives, as the labeled rows
    above = fitted.model.predict(new) > np.quantile(fitted.scores[labeled], 0.97)
    assert above.mean() == pytest.approx(0.03, abs=0.006)  # 0.016 by the mean of all members


def test_a_score_does_not_depend_on_the_other_rows() -> None:
    training = shifted(FEW_LABELED + 1, 900)
    model, rng = fit("standard", training).model, np.random.default_rng(2)
    rows = rng.normal(size=(1000, 4)).astype(np.float32)
    scores, order = model.predict(rows), rng.permutation(1000)
    assert (model.predict(rows[order]) == scores[order]).all()
    assert (model.predict(rows[:7]) == scores[:7]).all()


@pytest.mark.parametrize("trees", [1, 2, 5])
@pytest.mark.parametrize("depth", [1, 6, 8])
def test_trees_add_the_values_of_their_leaves(trees: int, depth: int) -> None:
    rng = np.random.default_rng(0)
    feature, threshold = rng.integers(3, size=(trees, depth)), rng.normal(size=(trees, depth))
    value = rng.normal(size=(trees, 1 << depth))
    x = rng.normal(size=(500, 3)).astype(np.float32)
    threshold, value = threshold.astype(np.float32), value.astype(np.float32)
    answers = x[:, feature] > threshold  # (rows, trees, depth)
    leaf = answers @ (1 << np.arange(depth)[::-1])
    expected = value[np.arange(trees), leaf].sum(1)
    assert np.allclose(Trees(feature, threshold, value).logit(x), expected, atol=1e-5)


def test_few_informative_columns_are_found() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 60)).astype(np.float32)
    positive = (x[:, 0] > 0.5) ^ (x[:, 1] > 0.5)  # neither column alone says much
    labeled = positive & (rng.random(4000) < 0.3)
    scores = fit("standard", Training(x, labeled)).scores[~labeled]
    assert labeled.sum() > FEW_LABELED
    assert auc(positive[~labeled], scores) > 0.98
