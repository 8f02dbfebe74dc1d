"""PUClassifier: positive-unlabeled learning with the interface of scikit-learn classifiers."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from .api import Estimated, estimate, located
from .errors import EstimationError, InputError

LABELED, UNLABELED, NEGATIVE = 1, 0, -1  # values of y
SETS = {"labeled": LABELED, "negatives": NEGATIVE, "unlabeled": UNLABELED}
ALLOWED = "y is 1 or True (labeled), 0, None or NaN (unlabeled), -1 (known negative)"
ON_FAILURE = ("warn", "raise")
SCORE = "score"  # the column of an estimator's scores
FloatArray = NDArray[np.float64]
GROUP = "group"


class PUClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn from labeled positives, some of them wrong, and unlabeled rows.

    `fit(X, y)` takes y = 1 or True for labeled rows, 0, None or NaN for unlabeled rows and -1 for
    known negatives; other values are refused. It estimates which fraction of the unlabeled rows is
    positive (alpha) and which fraction of the labels is right (beta). `predict_proba` gives the
    probability that a row is positive, not that it is labeled.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Learns to tell labeled rows from all others. It is fitted on `cv` folds, so that every row
        is scored by a model that has not seen it, and then on all rows. By default punoise learns
        the score itself, out of fold, as `estimate` does, and copes with missing values. With an
        estimator, X may have missing values if the estimator allows them.
    purity : float, optional
        The least fraction of positives among the unlabeled rows that score like the top fifth of
        the labeled ones. By default nothing is assumed. If it is not true, alpha_ci_ is wrong. It
        never changes `score`, so a search cannot choose it.
    beta : float, optional
        The fraction of the labels that is right, if it is known.
    alpha_between, beta_between : pair of floats, optional
        Ranges in which alpha and beta are known to lie.
    threshold : float, default 0.5
        `predict` calls rows whose probability of being positive is at least this.
    fdr : float, optional
        `predict` instead calls rows up to this false discovery rate.
    cv : int, default 5
        Folds for `estimator`. With `groups`, a group is never split between folds.
    on_failure : "warn" or "raise", default "warn"
        What to do if alpha cannot be estimated, as labeled or unlabeled rows are fewer than 20 or
        score alike: warn, leave alpha_ and beta_ NaN and result_ None, and predict the probability
        of being labeled, by `estimator` or by logistic regression; or raise a ValueError.
    seed : int, default 0
        Of all random numbers.
    threads : int, default 1

    Attributes
    ----------
    alpha_, beta_ : float
        The fraction of positives among unlabeled rows, and of correct labels.
    alpha_ci_, beta_ci_ : pair of floats
        Their 95% intervals; None without an estimate. See `Estimated.alpha_ci` for a lower end
        near 0. If `beta` is stated, both ends of beta_ci_ are its value.
    result_ : Estimated
        Everything else: posteriors of the training rows, charts, the report. Its frames have the
        index of X, or else the positions in X. `result_.score` takes rows as X, or the values of
        `score_samples` if there is an `estimator`.
    estimator_ : the estimator fitted on all rows; None if punoise learned the score
    oof_scores_ : array
        The score of each training row by a model that has not seen it; with `estimator` only.
    classes_ : array

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from pu_noise_cli import PUClassifier
    >>> rng = np.random.default_rng(0)
    >>> positive = np.r_[np.ones(190), np.zeros(10), np.ones(400), np.zeros(1600)]
    >>> X = rng.normal(size=(2200, 4)) + 1.5 * positive[:, None]
    >>> y = np.r_[np.ones(200), np.zeros(2000)]
    >>> model = PUClassifier(LogisticRegression()).fit(X, y)
    >>> 0.1 < model.alpha_ < 0.3
    True
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        purity: float | None = None,
        beta: float | None = None,
        alpha_between: tuple[float, float] | None = None,
        beta_between: tuple[float, float] | None = None,
        threshold: float = 0.5,
        fdr: float | None = None,
        cv: int = 5,
        on_failure: str = "warn",
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        self.estimator = estimator
        self.purity = purity
        self.beta = beta
        self.alpha_between = alpha_between
        self.beta_between = beta_between
        self.threshold = threshold
        self.fdr = fdr
        self.cv = cv
        self.on_failure = on_failure
        self.seed = seed
        self.threads = threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # at telling labels, which is not the aim
        tags.input_tags.allow_nan = self._allows_nan()
        return tags

    def _allows_nan(self) -> bool:
        """Whether the estimator copes with missing values, as the default one does."""
        if self.estimator is None:
            return True
        is_tagged = hasattr(self.estimator, "__sklearn_tags__")
        return is_tagged and bool(get_tags(self.estimator).input_tags.allow_nan)

    # ---- Fitting

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn a score and estimate alpha, beta and posteriors.

        Parameters
        ----------
        X : array or data frame of numbers, shape (n, d)
        y : array, shape (n,)
            1 or True: labeled; 0, None or NaN: unlabeled; -1: known negative.
        groups : array, shape (n,), optional
            Rows of one group, such as a gene, are never split between training and scoring. In a
            search, `GridSearchCV(PUClassifier(...), ..., cv=GroupKFold()).fit(X, y, groups=genes)`
            splits by group, but passes no groups on; with `enable_metadata_routing=True` and
            `set_fit_request(groups=True)`, `fit` gets them, too.
        """
        if self.on_failure not in ON_FAILURE:
            raise ValueError(f"on_failure={self.on_failure!r}: give {' or '.join(ON_FAILURE)}")
        index = getattr(X, "index", None) if hasattr(X, "iloc") else None
        X, y = validate_data(self, X, _coded(y), ensure_min_samples=2, **self._accepted())
        sets = self._sets(y)
        if groups is not None:
            groups = column_or_1d(groups)
            check_consistent_length(X, groups)
        self.estimator_: Any = None
        self.result_: Estimated | None = None
        try:
            found = self._estimate(X, sets, groups)
        except (InputError, EstimationError) as error:
            if self.on_failure == "raise":
                raise
            warnings.warn(f"no estimate of alpha: {error}", UserWarning, stacklevel=2)
            if self.estimator_ is None:
                self.estimator_ = _logistic_regression().fit(X, sets == LABELED)
            self.alpha_, self.beta_, self.alpha_ci_, self.beta_ci_ = np.nan, np.nan, None, None
            return self
        places = {name: np.flatnonzero(sets == code) for name, code in SETS.items()}
        self.result_ = located(found, index, places)
        self.alpha_, self.beta_ = found.alpha, found.beta
        self.alpha_ci_, self.beta_ci_ = found.alpha_ci, found.beta_ci
        self._cutoff = self._least_score(found)
        return self

    def _estimate(self, X: FloatArray, sets: NDArray[np.int64], groups: Any) -> Estimated:
        """Alpha, beta and posteriors by scores of the estimator, or by a score to be learned."""
        passed = ("purity", "beta", "alpha_between", "beta_between", "fdr", "seed", "threads")
        options = {name: getattr(self, name) for name in passed}
        rows = _table(X, self._names())
        if self.estimator is not None:
            self.oof_scores_ = self._cross_fit(X, sets == LABELED, groups)
            self.estimator_ = clone(self.estimator).fit(X, sets == LABELED)
            rows = _table(self.oof_scores_, [SCORE])
        else:
            options["transform"] = True
            if groups is not None:
                column = GROUP
                while column in rows.column_names:
                    column += "_"
                rows = rows.append_column(column, pa.array([str(group) for group in groups]))
                options["group_column"] = column
        parts = {name: rows.filter(pa.array(sets == code)) for name, code in SETS.items()}
        return estimate(**{name: part for name, part in parts.items() if part.num_rows}, **options)

    def _names(self) -> list[str]:
        """The columns of a data frame; those of an array are numbered."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        if not names or len({*names}) < len(names):
            return [f"x{j}" for j in range(self.n_features_in_)]
        return names

    def _sets(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The set of each row."""
        check_classification_targets(y)
        values = unique_labels(y)
        if len(values) < 2:
            raise ValueError(f"y has one class, {values[0]}: labeled (1) and unlabeled (0) needed")
        if wrong := [value for value in values.tolist() if value not in SETS.values()]:
            binary = "Only binary classification is supported: " if len(values) > 2 else ""
            raise ValueError(f"{binary}y has the value {wrong[0]!r}; {ALLOWED}")
        for name in ("labeled", "unlabeled"):
            if SETS[name] not in values:
                raise ValueError(f"y has no {name} rows ({SETS[name]}); {ALLOWED}")
        self.classes_ = np.array([UNLABELED, LABELED], dtype=y.dtype)
        return y.astype(np.int64)

    def _cross_fit(self, X: FloatArray, labeled: NDArray[np.bool_], groups: Any) -> FloatArray:
        """Scores of all rows, each by a model that saw neither the row nor its group."""
        if not is_classifier(self.estimator):
            raise ValueError(f"estimator={self.estimator!r} is not a classifier")
        folds = StratifiedKFold if groups is None else StratifiedGroupKFold
        splits = folds(self.cv, shuffle=True, random_state=self.seed).split(X, labeled, groups)
        scores = np.full(len(labeled), np.nan)
        for train, test in splits:
            if labeled[train].all() or not labeled[train].any():
                raise ValueError("a fold has rows of one kind only: use fewer folds (cv)")
            scores[test] = _scores(clone(self.estimator).fit(X[train], labeled[train]), X[test])
        return scores

    def _least_score(self, found: Estimated) -> float:
        """The score above which rows are called positive."""
        columns, scores = found.posteriors.by_cell, found.posteriors.calibration.sketch.scores
        called = columns["posterior"] >= self.threshold
        if self.fdr is not None:
            called = columns["fdr"] <= self.fdr
        first = int(called.argmax()) if called.any() else len(scores)
        if first == len(scores):
            return float(scores[-1]) + 1
        return float(scores[first] + (scores[first - 1] if first else scores[0] - 2)) / 2

    # ---- New rows

    def _accepted(self) -> dict[str, Any]:
        """What `validate_data` is to accept."""
        finite = "allow-nan" if self._allows_nan() else True
        return {"dtype": np.float64, "ensure_all_finite": finite}

    def _checked(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, **self._accepted()))

    def _scored(self, X: FloatArray) -> pa.Table:
        """The columns of POSTERIOR of checked rows."""
        assert self.result_ is not None
        rows = _table(X, self._names())
        if self.estimator_ is not None:
            rows = _table(_scores(self.estimator_, X), [SCORE])
        return self.result_.score(rows, self.threads)

    def score_samples(self, X: Any) -> FloatArray:
        """The score of each row, which ranks rows as their probability does, but finer."""
        X = self._checked(X)
        if self.estimator_ is not None:
            return _scores(self.estimator_, X)
        return np.asarray(self._scored(X)["score"], np.float64)

    def decision_function(self, X: Any) -> FloatArray:
        """How far the score is above that from which rows are called: positive if called."""
        check_is_fitted(self)
        if self.result_ is None:
            return np.asarray(self.predict_proba(X)[:, 1] - 0.5)
        return self.score_samples(X) - self._cutoff

    def predict_proba(self, X: Any) -> FloatArray:
        """The probabilities that a row is negative and positive, shape (n, 2)."""
        X = self._checked(X)
        if self.result_ is not None:
            p = np.asarray(self._scored(X)["posterior"], np.float64)
        elif hasattr(self.estimator_, "predict_proba"):
            p = np.asarray(self.estimator_.predict_proba(X)[:, 1], np.float64)
        else:
            p = 1 / (1 + np.exp(-_scores(self.estimator_, X)))
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row, at `threshold` or, if given, at `fdr`."""
        called = self.decision_function(X) > 0
        return np.asarray(self.classes_[called.astype(int)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The AUC of labeled rows against all others; `y` is as in `fit`.

        Accuracy would need true classes. The AUC compares estimators. It depends neither on
        `purity` nor on other assumptions, as these change probabilities, not the order of rows.
        """
        scores = self.score_samples(X)
        labeled = _coded(y) == self.classes_[1]
        return float(roc_auc_score(labeled, scores, sample_weight=sample_weight))


def _coded(y: Any) -> NDArray[Any]:
    """The sets of rows as numbers; missing values are unlabeled."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    values = np.asarray(y)
    if values.dtype.kind in "Of":
        objects = values.astype(object)
        missing = np.frompyfunc(_is_missing, 1, 1)(objects).astype(bool)
        if missing.any() or values.dtype.kind == "O":
            values = np.where(missing, UNLABELED, objects)
            values = np.array(values.tolist())
    coded = column_or_1d(check_array(values, ensure_2d=False, dtype=None), warn=True)
    if coded.dtype.kind in "USO":
        raise ValueError(f"y has texts; {ALLOWED}")
    return coded.astype(np.int64) if coded.dtype == bool else coded


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or pandas' NA."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _logistic_regression() -> Any:
    """What learns to tell labeled rows where punoise cannot: on very few rows, for one."""
    imputer = SimpleImputer(keep_empty_features=True)
    return make_pipeline(imputer, StandardScaler(), LogisticRegression(max_iter=1000))


def _scores(estimator: Any, X: FloatArray) -> FloatArray:
    """The scores of a fitted classifier, shape (n,), high for labeled rows."""
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), np.float64).ravel()
    return np.asarray(estimator.predict_proba(X)[:, 1], np.float64)


def _table(X: FloatArray, names: list[str]) -> pa.Table:
    columns = X.reshape(len(X), -1)
    return pa.table({name: columns[:, j] for j, name in enumerate(names)})
