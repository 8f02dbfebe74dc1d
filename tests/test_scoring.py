"""From tables to honest scores: sampling, groups, leaks, model files, and odd feature tables."""

import io

import numpy as np
import pandas as pd
import pytest

from pu_noise_cli.errors import EstimationError, InputError
from pu_noise_cli.pipeline import transform
from pu_noise_cli.scale.engine import Engine, Local
from pu_noise_cli.score.model import StoredModel, load_model, save_model
from pu_noise_cli.score.training import Trained, TransformSettings
from pu_noise_cli.tables.reading import open_table
from pu_noise_cli.tables.rows import Rows


def rows_of(tmp_path, labeled: pd.DataFrame, unlabeled: pd.DataFrame, **roles) -> Rows:
    for frame, name in ((labeled, "l"), (unlabeled, "u")):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    tables = [open_table(str(tmp_path / f"{name}.parquet")) for name in ("l", "u")]
    return Rows.from_tables(tables, **roles)


def auc(rows: Rows, **settings) -> float:
    scored, _ = transform(rows, TransformSettings("logistic", **settings), Engine(Local(1)))
    return scored.sketch.auc


def trained_on(rows: Rows, settings: TransformSettings) -> Trained:
    return transform(rows, settings, Engine(Local(1)))[1]


def grouped(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Groups of near-identical rows, each wholly labeled or unlabeled, by chance."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(60, 40))
    group = np.repeat(np.arange(60), 40)
    frame = pd.DataFrame(centers[group] + 0.01 * rng.normal(size=(2400, 40)))
    frame.columns = [f"x{i}" for i in range(40)]
    frame["family"] = [f"g{i}" for i in group]
    return frame[group < 20], frame[group >= 20]


@pytest.mark.parametrize("max_train_rows", [100_000, 600])
def test_groups_do_not_leak_even_where_rows_are_sampled(max_train_rows, tmp_path):
    with_groups = rows_of(tmp_path, *grouped(), group_column="family")
    assert auc(with_groups, max_train_rows=max_train_rows) < 0.6
    without = Rows.from_tables(with_groups.tables, drop=["family"])
    assert auc(without, max_train_rows=max_train_rows) > 0.8


def test_where_rows_are_sampled_three_groups_must_be_labeled(tmp_path):
    labeled, unlabeled = grouped()
    rows = rows_of(tmp_path, labeled.head(80), unlabeled, group_column="family")
    with pytest.raises(EstimationError, match="2 groups hold labeled rows"):
        auc(rows, max_train_rows=400)


@pytest.mark.parametrize("max_train_rows", [100_000, 600])
def test_a_row_without_a_group_is_named(max_train_rows, tmp_path):
    labeled, unlabeled = grouped()
    unlabeled = unlabeled.assign(family=unlabeled["family"].where(np.arange(len(unlabeled)) != 700))
    rows = rows_of(tmp_path, labeled, unlabeled, group_column="family")
    with pytest.raises(InputError, match=r"u\.parquet: column 'family' is empty in row 701"):
        auc(rows, max_train_rows=max_train_rows)


def plain(n: int, shift: float, seed: int, d: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(shift, 1, (n, d)), columns=[f"x{i}" for i in range(d)])


def test_every_row_is_scored_though_few_are_trained_on(tmp_path):
    rows = rows_of(tmp_path, plain(3000, 1.0, 1), plain(9000, 0.0, 2))
    settings = TransformSettings("logistic", max_train_rows=1000)
    trained = trained_on(rows, settings)
    assert len(trained.scorer.places) == 1000
    assert (trained.scorer.places[:, 0] == 0).sum() == 500
    scores = np.concatenate([s for _, s in trained.scorer.score_all(rows, 1)])
    assert len(scores) == 12_000
    assert np.isfinite(scores).all()
    assert auc(rows, max_train_rows=1000) == pytest.approx(auc(rows), abs=0.02)


def test_the_sample_depends_on_the_seed_alone(tmp_path):
    rows = rows_of(tmp_path, plain(3000, 1.0, 1), plain(9000, 0.0, 2))
    settings = [TransformSettings("logistic", max_train_rows=500, seed=s) for s in (0, 0, 1)]
    places = [trained_on(rows, one).scorer.places for one in settings]
    assert np.array_equal(places[0], places[1])
    assert not np.array_equal(places[0], places[2])


def test_the_order_of_rows_does_not_matter_much(tmp_path):
    labeled, unlabeled = plain(400, 1.0, 1), plain(1200, 0.0, 2)
    (tmp_path / "other").mkdir()
    shuffled = rows_of(tmp_path / "other", labeled[::-1], unlabeled.sample(frac=1, random_state=0))
    assert auc(rows_of(tmp_path, labeled, unlabeled)) == pytest.approx(auc(shuffled), abs=0.01)


def test_a_column_that_gives_the_label_away_is_named(tmp_path):
    labeled, unlabeled = plain(100, 0.5, 1), plain(300, 0.0, 2)
    rows = rows_of(tmp_path, labeled.assign(run=7.0), unlabeled.assign(run=3.0))
    trained = trained_on(rows, TransformSettings("logistic"))
    assert [n.code for n in trained.notices] == ["leaking-column"]
    assert "'run'" in trained.notices[0].message
    rows = rows_of(tmp_path, labeled, unlabeled)
    assert trained_on(rows, TransformSettings("logistic")).notices == ()


ODD = {
    "scales": lambda f: f * [1e-12, 1e12, 1e300, 1e-300],
    "constant": lambda f: f.assign(c=1.0),
    "all missing": lambda f: f.assign(c=np.nan),
    "half missing": lambda f: f.where(f > 0),
    "outliers": lambda f: pd.concat([f, f.head(2) * 1e15]),
    "many levels": lambda f: f.assign(c=[f"v{i % 500}" for i in range(len(f))]),
    "sparse": lambda f: f.join(pd.DataFrame(np.eye(len(f), 200)).add_prefix("b")),
}


@pytest.mark.parametrize("classifier", ["networks", "logistic"])
@pytest.mark.parametrize("case", ODD)
def test_odd_features_are_taken(case, classifier, tmp_path):
    rows = rows_of(tmp_path, ODD[case](plain(150, 1.0, 1)), ODD[case](plain(350, 0.0, 2)))
    scored, _ = transform(rows, TransformSettings(classifier), Engine(Local(1)))
    assert scored.sketch.auc > 0.75
    assert (scored.sketch.scores >= 0).all()
    assert (scored.sketch.scores <= 1).all()


@pytest.mark.parametrize("classifier", ["networks", "logistic"])
def test_a_stored_model_scores_as_the_model_did(classifier, tmp_path):
    labeled = plain(120, 1.0, 1).assign(k=["a", "b", None] * 40)
    unlabeled = plain(240, 0.0, 2).assign(k=["a", "b", "c"] * 80)
    rows = rows_of(tmp_path, labeled, unlabeled)
    scored, trained = transform(rows, TransformSettings(classifier), Engine(Local(1)))
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        save_model(StoredModel(trained.model, scored.sketch), file)
    assert files[0].getvalue() == files[1].getvalue()
    files[0].seek(0)
    loaded = load_model("m", files[0])
    assert np.array_equal(loaded.sketch.scores, scored.sketch.scores)
    for chunk in rows.chunks(rows.features):
        np.testing.assert_array_equal(loaded.model.score(chunk), trained.model.score(chunk))


@pytest.mark.parametrize("classifier", ["networks", "logistic"])
def test_a_score_does_not_depend_on_how_the_table_is_cut(classifier, tmp_path):
    rows = rows_of(tmp_path, plain(120, 1.0, 1, d=20), plain(300, 0.0, 2, d=20))
    _, trained = transform(rows, TransformSettings(classifier), Engine(Local(1)))
    features = np.random.default_rng(0).normal(size=(9000, 20)).astype(np.float32)
    predict = trained.model.model.predict
    for cut in (1, 7, 4095, 4097, 8191):
        parts = [predict(features[:cut]), predict(features[cut:])]
        np.testing.assert_array_equal(np.concatenate(parts), predict(features))
