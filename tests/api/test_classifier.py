"""PUClassifier behaves as scikit-learn expects and gives the numbers of estimate()."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import pu_noise_cli as punoise_api
from pu_noise_cli import PUClassifier
from pu_noise_cli.score import networks

OTHER_VALUES = "the check's targets are 1 and 2: which of them means labeled is not guessed"
EXPECTED = {
    "check_classifiers_classes": "the check's targets are texts, of which the same is true",
    "check_classifier_data_not_an_array": OTHER_VALUES,
    "check_estimators_dtypes": OTHER_VALUES,
    "check_fit2d_1feature": OTHER_VALUES,
}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, s and the true classes; alpha 0.3, beta 0.9."""
    rng = np.random.default_rng(1)
    y = np.r_[np.arange(200) < 180, np.arange(800) < 240]
    order = rng.permutation(1000)
    x = rng.normal(size=(1000, 3)) + 1.5 * y[:, None]
    return x[order], (np.arange(1000) < 200).astype(int)[order], y[order]


@pytest.mark.parametrize(
    "estimator", [None, pytest.param(LogisticRegression(), marks=pytest.mark.ci)]
)
def test_scikit_learn_accepts_it(estimator, monkeypatch):
    monkeypatch.setattr(networks, "STEPS", 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            PUClassifier(estimator), expected_failed_checks=EXPECTED, on_fail=None
        )
    by_status = {
        status: {r["check_name"] for r in results if r["status"] == status}
        for status in ("passed", "failed", "xfail")
    }
    assert not by_status["failed"]
    assert by_status["xfail"] == {*EXPECTED}
    assert len(by_status["passed"]) > 40


def test_without_an_estimate_the_probability_is_that_of_being_labeled(rows):
    x, s, _ = rows
    few = np.r_[np.flatnonzero(s == 1)[:10], np.flatnonzero(s == 0)[:100]]
    gaps = x[few].copy()
    gaps[3, 1] = np.nan
    for features, estimator in ((gaps, None), (x[few], LogisticRegression())):
        model = PUClassifier(estimator)
        with pytest.warns(UserWarning, match="alpha.*at least 20"):
            model.fit(features, y=s[few])
        assert np.isnan([model.alpha_, model.beta_]).all()
        assert model.result_ is None
        p = model.predict_proba(features)[:, 1]
        assert p[:10].mean() > p[10:].mean()
        assert (model.predict(features) == (p > 0.5)).all()
        with pytest.raises(ValueError, match="at least 20"):
            clone(model).set_params(on_failure="raise").fit(features, s[few])


def test_it_gives_the_numbers_of_estimate(rows):
    x, s, _ = rows
    model = PUClassifier(beta=0.9).fit(x, s)
    found = punoise_api.estimate(x[s == 1], x[s == 0], beta=0.9)
    assert (model.alpha_, model.alpha_ci_, model.beta_) == (found.alpha, found.alpha_ci, 0.9)
    new = x[:50] + 0.01
    scored = found.score(new)
    assert model.predict_proba(new)[:, 1].tolist() == scored["posterior"].tolist()
    assert model.score_samples(new).tolist() == scored["score"].tolist()
    called = model.predict(new)
    assert (called == (model.decision_function(new) > 0)).all()
    assert (called == (scored["posterior"] >= 0.5)).mean() > 0.97


def test_any_classifier_gives_the_score(rows):
    x, s, y = rows
    model = PUClassifier(RandomForestClassifier(50, min_samples_leaf=5, random_state=0)).fit(x, s)
    assert model.alpha_ci_[0] < 0.3 < model.alpha_ci_[1]
    assert ((model.predict(x) == 1) == y).mean() > 0.8
    strict = PUClassifier(LogisticRegression(), fdr=0.3).fit(x, s)
    loose = PUClassifier(LogisticRegression(), threshold=0.2).fit(x, s)
    assert 0 < strict.predict(x).sum() < loose.predict(x).sum()
    again = pickle.loads(pickle.dumps(strict))
    assert (again.predict_proba(x) == strict.predict_proba(x)).all()


def test_values_of_y(rows):
    x, s, y = rows
    model = PUClassifier(LogisticRegression()).fit(x, s)
    for same in (
        s.astype(bool),
        [True if v else None for v in s],
        np.where(s, 1, np.nan),
        pd.Series(s).astype("Int64").replace(0, pd.NA),
        pd.Series(s).astype("boolean").replace(False, pd.NA),
    ):
        assert PUClassifier(LogisticRegression()).fit(x, same).alpha_ == model.alpha_
    negative = np.where((s == 0) & ~y & (np.arange(len(s)) % 4 == 0), -1, s)
    with_negatives = PUClassifier(LogisticRegression()).fit(x, negative)
    assert with_negatives.result_.prior["n_negatives"] == (negative == -1).sum()
    for wrong, message in (
        (np.where(s, "yes", "no"), "texts"),
        (np.arange(len(s)) % 4, "binary"),
        (np.ones(len(s)), "one class"),
        (np.where(s == 1, 1, -1), r"unlabeled rows \(0\)"),
        (s - 1, r" labeled rows \(1\)"),
        (s + 1, r"value 2.*\(labeled\), 0, None or NaN"),
        (5 * s, "value 5"),
        (np.where(s, 1, 0.5), "label type"),
    ):
        with pytest.raises(ValueError, match=message):
            PUClassifier(LogisticRegression()).fit(x, wrong)
    with pytest.raises(ValueError, match="purity=2"):
        PUClassifier(LogisticRegression(), purity=2).fit(x, s)
    with pytest.raises(ValueError, match="on_failure='ignore'"):
        PUClassifier(LogisticRegression(), on_failure="ignore").fit(x, s)


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_rows_are_named_as_in_x(rows, estimator):
    x, s, y = rows
    s = np.where((s == 0) & ~y & (np.arange(len(s)) % 4 == 0), -1, s)
    found = PUClassifier(estimator).fit(x, s).result_
    for frame, code in ((found.labeled, 1), (found.unlabeled, 0), (found.negatives, -1)):
        assert frame.index.tolist() == np.flatnonzero(s == code).tolist()
    best, doubtful, audit = found.candidates(5), found.labels_to_check(5), found.audit(60)
    assert (s[best.index] == 0).all()
    assert (s[doubtful.index] == 1).all()
    assert (found.unlabeled.loc[best.index, "score"] == best["score"]).all()
    assert (found.unlabeled.loc[audit.index, "score"] == audit["score"]).all()
    named = pd.DataFrame(x, columns=["a", "b", "c"], index=[f"r{i}" for i in range(len(x))])
    model = PUClassifier(estimator).fit(named, s, groups=np.arange(len(s)))
    assert model.result_.unlabeled.index.equals(named.index[s == 0])
    assert {*model.result_.candidates(5).index} < {*named.index[s == 0]}
    if estimator is None:
        scored = model.result_.score(named)
        assert scored["posterior"].tolist() == model.predict_proba(named)[:, 1].tolist()
    else:
        scored = model.result_.score(model.score_samples(named))
        assert scored["posterior"].tolist() == model.predict_proba(named)[:, 1].tolist()


def test_missing_values_go_to_estimators_that_cope_with_them(rows):
    x, s, _ = rows
    gaps = np.where(np.random.default_rng(0).random(x.shape) < 0.1, np.nan, x)
    model = PUClassifier(HistGradientBoostingClassifier(max_iter=20)).fit(gaps, s)
    assert 0 < model.alpha_ < 1
    assert np.isfinite(model.predict_proba(gaps)).all()
    with pytest.raises(ValueError, match="NaN"):
        PUClassifier(LogisticRegression()).fit(gaps, s)


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers the rows that it was fitted on: the first column is the group."""

    def fit(self, X, y):
        self.classes_, self.groups_ = np.unique(y), {*X[:, 0]}
        return self

    def predict_proba(self, X):
        seen = self.groups_ & {*X[:, 0]}
        assert not seen or len(seen) == len(self.groups_), "a group is split"
        p = 1 / (1 + np.exp(-X[:, 1]))
        return np.column_stack([1 - p, p])


def test_a_group_is_never_split(rows):
    x, s, _ = rows
    groups = np.arange(len(s)) % 40
    grouped = np.column_stack([groups, x[:, 0]])
    PUClassifier(Recorder()).fit(grouped, s, groups=groups)
    with pytest.raises(AssertionError, match="split"):
        PUClassifier(Recorder()).fit(grouped, s)
    model = PUClassifier().fit(x, s, groups=groups)
    assert 0 < model.alpha_ < 1


def test_it_works_with_the_tools_of_scikit_learn(rows, tmp_path):
    x, s, _ = rows
    search = GridSearchCV(
        PUClassifier(LogisticRegression()),
        {"estimator__C": [0.1, 1.0]},
        cv=2,
        error_score="raise",
    ).fit(x, s)
    assert 0.7 < search.best_score_ < 1
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(kind=np.where(x[:, 0] > 0, "u", "v"))
    columns = ColumnTransformer(
        [("scale", StandardScaler(), ["a", "b", "c"]), ("kind", OneHotEncoder(), ["kind"])]
    )
    pipeline = make_pipeline(columns, PUClassifier(LogisticRegression()))
    pipeline = clone(pipeline).set_output(transform="default").fit(frame, s)
    joblib.dump(pipeline, tmp_path / "model.joblib")
    loaded = joblib.load(tmp_path / "model.joblib")
    assert (loaded.predict_proba(frame) == pipeline.predict_proba(frame)).all()
    scaled = make_pipeline(StandardScaler(), PUClassifier(LogisticRegression()))
    scaled.set_output(transform="pandas").fit(frame[["a", "b", "c"]], s)
    assert [*scaled[-1].feature_names_in_] == ["a", "b", "c"]
