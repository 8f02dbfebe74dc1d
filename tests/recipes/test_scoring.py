"""From tables to honest scores: sampling, groups, leaks, stored models, odd feature tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import pu_noise_cli

FAST = ("--classifier", "logistic")


def write(folder, labeled: pd.DataFrame, unlabeled: pd.DataFrame) -> list[object]:
    """Options that name the two tables."""
    folder.mkdir(exist_ok=True)
    options = []
    for name, frame in (("labeled", labeled), ("unlabeled", unlabeled)):
        frame.to_parquet(folder / f"{name}.parquet", index=False)
        options += [f"--{name}", folder / f"{name}.parquet"]
    return options


@pytest.fixture
def scores_of(punoise, tmp_path):
    """A function that transforms tables; gives what it wrote."""

    def call(*options: object) -> pd.DataFrame:
        punoise("transform", *options, "--out", tmp_path / "scores.parquet")
        return pd.read_parquet(tmp_path / "scores.parquet")

    return call


def auc(scores: pd.DataFrame) -> float:
    return roc_auc_score(scores["set"] == "labeled", scores["score"])


def plain(n: int, shift: float, seed: int, d: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(shift, 1, (n, d)), columns=[f"x{i}" for i in range(d)])


def grouped(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Groups of near-identical rows, each wholly labeled or unlabeled, by chance."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(60, 40))
    group = np.repeat(np.arange(60), 40)
    frame = pd.DataFrame(centers[group] + 0.01 * rng.normal(size=(2400, 40)))
    frame.columns = [f"x{i}" for i in range(40)]
    frame["family"] = [f"g{i}" for i in group]
    return frame[group < 20], frame[group >= 20]


# ---- Groups


@pytest.mark.parametrize("rows", [100_000, 600])
def test_groups_do_not_leak_even_where_rows_are_sampled(rows, scores_of, tmp_path):
    tables = [*write(tmp_path, *grouped()), *FAST, "--max-train-rows", rows]
    assert auc(scores_of(*tables, "--group-column", "family")) < 0.6
    assert auc(scores_of(*tables, "--drop-columns", "family")) > 0.8


def test_where_rows_are_sampled_three_groups_must_be_labeled(punoise, tmp_path):
    labeled, unlabeled = grouped()
    tables = write(tmp_path, labeled.head(80), unlabeled)
    options = (*FAST, "--group-column", "family", "--max-train-rows", 400)
    assert "2 groups" in punoise("estimate-prior", *tables, *options, expect=4).err


@pytest.mark.parametrize("rows", [100_000, 600])
def test_a_row_without_a_group_is_named(rows, punoise, tmp_path):
    labeled, unlabeled = grouped()
    unlabeled = unlabeled.assign(family=unlabeled["family"].where(np.arange(len(unlabeled)) != 700))
    tables = write(tmp_path, labeled, unlabeled)
    options = (*FAST, "--group-column", "family", "--max-train-rows", rows)
    error = punoise("estimate-prior", *tables, *options, expect=3).err
    for word in ("unlabeled.parquet", "'family'", "row 701"):
        assert word in error


# ---- Samples of rows


def test_every_row_is_scored_though_few_are_trained_on(scores_of, tmp_path):
    tables = write(tmp_path, plain(3000, 1.0, 1), plain(9000, 0.0, 2))
    few = scores_of(*tables, *FAST, "--max-train-rows", 1000)
    assert len(few) == 12_000
    assert np.isfinite(few["score"]).all()
    assert auc(few) == pytest.approx(auc(scores_of(*tables, *FAST)), abs=0.02)


def test_the_sample_depends_on_the_seed_alone(scores_of, tmp_path):
    tables = write(tmp_path, plain(3000, 1.0, 1), plain(9000, 0.0, 2))
    once, again, other = (
        scores_of(*tables, *FAST, "--max-train-rows", 500, "--seed", seed) for seed in (0, 0, 1)
    )
    assert once.equals(again)
    assert not once.equals(other)


def test_the_order_of_rows_does_not_matter_much(scores_of, tmp_path):
    labeled, unlabeled = plain(400, 1.0, 1), plain(1200, 0.0, 2)
    shuffled = write(tmp_path / "other", labeled[::-1], unlabeled.sample(frac=1, random_state=0))
    in_order = write(tmp_path, labeled, unlabeled)
    aucs = [auc(scores_of(*tables, *FAST)) for tables in (in_order, shuffled)]
    assert aucs[0] == pytest.approx(aucs[1], abs=0.01)


def test_a_column_that_gives_the_label_away_is_named(punoise, tmp_path):
    labeled, unlabeled = plain(100, 0.5, 1), plain(300, 0.0, 2)
    tables = write(tmp_path, labeled.assign(run=7.0), unlabeled.assign(run=3.0))
    warnings = punoise("estimate-prior", *tables, *FAST).prior["warnings"]
    (leak,) = [warning for warning in warnings if warning["code"] == "leaking-column"]
    assert "'run'" in leak["message"]
    warnings = punoise("estimate-prior", *write(tmp_path, labeled, unlabeled), *FAST).prior
    assert "leaking-column" not in [warning["code"] for warning in warnings["warnings"]]


# ---- Features and models

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
def test_odd_features_are_taken(case, classifier, scores_of, tmp_path):
    tables = write(tmp_path, ODD[case](plain(150, 1.0, 1)), ODD[case](plain(350, 0.0, 2)))
    scores = scores_of(*tables, "--classifier", classifier)
    assert auc(scores) > 0.75
    assert scores["score"].between(0, 1).all()


@pytest.mark.parametrize("classifier", ["networks", "logistic"])
def test_a_stored_model_scores_as_the_model_did(classifier, punoise, tmp_path):
    labeled = plain(120, 1.0, 1).assign(k=["a", "b", None] * 40)
    unlabeled = plain(240, 0.0, 2).assign(k=["a", "b", "c"] * 80)
    tables = write(tmp_path, labeled, unlabeled)
    models = [tmp_path / "one.punoise", tmp_path / "two.punoise"]
    for model in models:
        out = ("--out", tmp_path / "s.tsv", "--model-out", model)
        punoise("transform", *tables, "--classifier", classifier, *out)
    assert models[0].read_bytes() == models[1].read_bytes()
    new = ("--table", tables[3], "--out", tmp_path / "new.parquet")
    punoise("score", "--model", models[0], *new)
    in_memory = pu_noise_cli.estimate(labeled, unlabeled, classifier=classifier).score(unlabeled)
    stored = pd.read_parquet(tmp_path / "new.parquet")["score"]
    np.testing.assert_array_equal(stored, in_memory["score"])


@pytest.mark.parametrize("classifier", ["networks", "logistic"])
def test_a_score_does_not_depend_on_how_the_table_is_cut(classifier, punoise, tmp_path):
    tables = write(tmp_path, plain(120, 1.0, 1, d=20), plain(300, 0.0, 2, d=20))
    model, out = tmp_path / "m.punoise", tmp_path / "out.parquet"
    punoise("train", *tables, "--classifier", classifier, "--out", model)
    rows = plain(9000, 0.5, 3, d=20)

    def scored(part: pd.DataFrame) -> np.ndarray:
        part.to_parquet(tmp_path / "part.parquet", index=False)
        punoise("score", "--model", model, "--table", tmp_path / "part.parquet", "--out", out)
        return pd.read_parquet(out)["score"].to_numpy()

    whole = scored(rows)
    for cut in (1, 4095, 4097):
        parts = [scored(rows[:cut]), scored(rows[cut:])]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def two_shifted(rng, shifts, n_labeled=1500, n_unlabeled=4000, alpha=0.3):
    """Normal features whose means differ by the shifts between the classes."""
    positive = np.append(np.ones(n_labeled, bool), rng.random(n_unlabeled) < alpha)
    x = rng.normal(size=(len(positive), len(shifts))) + np.outer(positive, shifts)
    return x, np.arange(len(positive)) < n_labeled


def test_a_run_writes_them_and_a_score_column_has_none(punoise, tmp_path):
    rng = np.random.default_rng(4)
    x, labeled = two_shifted(rng, [1.0, 0.0], 300, 900)
    table = pd.DataFrame(x, columns=["good", "noise"]).assign(
        known=labeled.astype(int),
        kind=np.where(rng.random(1200) < 0.5 + 0.4 * labeled, "a", "b"),
    )
    table.loc[rng.random(1200) < 0.1, "noise"] = np.nan
    table.to_csv(tmp_path / "rows.csv", index=False)
    source = ("--table", tmp_path / "rows.csv", "--label-column", "known")
    punoise("run", *source, "--out-dir", tmp_path / "out")
    written = pd.read_csv(tmp_path / "out/columns.tsv", sep="\t").set_index("column")
    assert list(written.columns) == ["share", "spread", "direction", "flag"]
    assert {*written.index} == {"good", "noise", "kind"}
    assert written.loc["good", "direction"] == "higher"
    assert pd.isna(written.loc["kind", "direction"])
    assert written.loc["kind", "share"] > 0.2
    assert list(written["share"]) == sorted(written["share"], reverse=True)
    punoise("run", *source, "--score-column", "good", "--out-dir", tmp_path / "out")
    assert not (tmp_path / "out/columns.tsv").exists()
