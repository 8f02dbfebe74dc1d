"""Known negatives as a third set of rows, and labeled rows that are negatives."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from conftest import sketch_scores, validated
from scipy.stats import norm

GAP = np.sqrt(2) * norm.ppf(0.87)


def scores(rng: np.random.Generator, n: int, share: float) -> np.ndarray:
    return rng.normal(size=n) + GAP * (rng.random(n) < share)


@pytest.fixture
def files(frames, tmp_path):
    """Labeled (150), unlabeled (400) and negative (60) rows with three features and ids."""
    rng = np.random.default_rng(8)
    negatives = pd.DataFrame(rng.normal(size=(60, 3)).round(6), columns=["a", "b", "c"])
    named = dict(zip(("labeled", "unlabeled", "negatives"), (*frames, negatives), strict=True))
    options = {}
    for name, frame in named.items():
        frame = frame.assign(id=[f"{name}{i}" for i in range(len(frame))])
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        frame.to_parquet(tmp_path / f"{name}.parquet", index=False)
        options[name] = (f"--{name}", tmp_path / f"{name}.csv")
    return options


# ---- The commands


def test_every_row_of_three_tables_is_written(punoise, files, tmp_path):
    out = tmp_path / "out"
    tables = [option for pair in files.values() for option in pair]
    punoise("run", *tables, "--id-column", "id", "--out-dir", out, "-q")
    prior = validated(json.loads((out / "prior.json").read_text()))
    assert prior["n_negatives"] == 60
    table = pq.read_table(out / "posterior.parquet").to_pandas()
    assert table["set"].value_counts().to_dict() == {
        "unlabeled": 400,
        "labeled": 150,
        "negative": 60,
    }
    assert table["id"].tolist()[150:152] == ["negatives0", "negatives1"]
    assert table.loc[table["set"] != "labeled", "posterior_labeled"].isna().all()
    means = table.groupby("set")["posterior"].mean()
    assert means["negative"] < means["unlabeled"] < means["labeled"]


def test_steps_and_one_table_give_what_run_gives(punoise, files, tmp_path):
    tables = [option for pair in files.values() for option in pair]
    punoise("run", *tables, "--id-column", "id", "--out-dir", tmp_path / "out", "-q")
    prior = (tmp_path / "out" / "prior.json").read_bytes()
    punoise("transform", *tables, "--id-column", "id", "--out", tmp_path / "s.parquet")
    steps = ("--scores", tmp_path / "s.parquet", "--out", tmp_path / "p.json")
    punoise("estimate-prior", *steps)
    assert (tmp_path / "p.json").read_bytes() == prior
    sketch_scores(tmp_path / "s.parquet", tmp_path / "s.sketch")
    punoise("estimate-prior", "--sketch", tmp_path / "s.sketch", "--out", tmp_path / "q.json")
    assert json.loads((tmp_path / "q.json").read_text())["alpha"] == json.loads(prior)["alpha"]
    words = {"labeled": "labeled", "unlabeled": "0", "negatives": "negative"}
    frames = [
        pd.read_csv(tmp_path / f"{name}.csv").assign(label=word) for name, word in words.items()
    ]
    pd.concat(frames).to_csv(tmp_path / "all.csv", index=False)
    one = ("--table", tmp_path / "all.csv", "--label-column", "label", "--id-column", "id")
    found = punoise("estimate-prior", *one).prior
    assert (found["n_labeled"], found["n_unlabeled"], found["n_negatives"]) == (150, 400, 60)


def test_files_of_the_training_are_scored_one_by_one(punoise, files, tmp_path):
    tables = [option for pair in files.values() for option in pair]
    punoise("transform", *tables, "--id-column", "id", "--out", tmp_path / "s.tsv")
    punoise("train", *tables, "--id-column", "id", "--out", tmp_path / "m")
    whole = pd.read_csv(tmp_path / "s.tsv", sep="\t")
    for name, word in (("labeled", "labeled"), ("negatives", "negative")):
        of = ("--model", tmp_path / "m", "--table", tmp_path / f"{name}.csv", "--set", word)
        punoise("score", *of, "--id-column", "id", "--out", tmp_path / "one.tsv")
        one = pd.read_csv(tmp_path / "one.tsv", sep="\t")
        expected = whole[whole["set"] == word].reset_index(drop=True)
        pd.testing.assert_frame_equal(one, expected)


def test_shards_hold_the_rows_of_three_tables(punoise, files, tmp_path):
    tables = [a for name in files for a in (f"--{name}", tmp_path / f"{name}.parquet")]
    punoise("run", *tables, "--id-column", "id", "--out-dir", tmp_path / "a", "-q")
    punoise("run", *tables, "--id-column", "id", "--out-dir", tmp_path / "b", "--shards", "-q")
    plain, sharded = ((tmp_path / d / "prior.json").read_bytes() for d in "ab")
    assert plain == sharded
    names = sorted(path.name for path in (tmp_path / "b" / "posterior").glob("*.parquet"))
    parts = [pq.read_table(tmp_path / "b" / "posterior" / name) for name in names]
    whole = pq.read_table(tmp_path / "a" / "posterior.parquet")
    assert pa.concat_tables(parts).replace_schema_metadata().equals(whole.replace_schema_metadata())


def test_a_stated_prior_needs_no_unlabeled_rows(punoise, files, tmp_path):
    tables = [*files["labeled"], *files["negatives"], "--id-column", "id"]
    out = tmp_path / "out"
    punoise("run", *tables, "--alpha", 0.0441, "--out-dir", out, "-q")
    prior = validated(json.loads((out / "prior.json").read_text()))
    assert (prior["method"], prior["alpha"], prior["beta"]) == ("stated", 0.0441, 1.0)
    assert (prior["n_unlabeled"], prior["n_negatives"], prior["auc_pu"]) == (0, 60, None)
    again = ("--scores", out / "scores.parquet", "--prior", out / "prior.json")
    punoise("posterior", *again, "--out", tmp_path / "p.parquet")
    ours, theirs = (pq.read_table(f) for f in (tmp_path / "p.parquet", out / "posterior.parquet"))
    assert ours.equals(theirs)


def test_scores_without_unlabeled_rows_are_bad_input_of_an_estimate(punoise, files, tmp_path):
    tables = [*files["labeled"], *files["negatives"], "--id-column", "id", "--score-column", "a"]
    scores, prior = tmp_path / "scores.tsv", tmp_path / "prior.json"
    punoise("transform", *tables, "--out", scores)
    estimate = ("estimate-prior", "--scores", scores, "--out", prior)
    assert "--alpha" in punoise(*estimate, expect=3).err
    punoise(*estimate, "--on-failure", "write")
    assert json.loads(prior.read_text())["warnings"][0]["code"] == "bad-input"


def test_a_reversed_score_is_noticed_where_alpha_is_stated(punoise, files, tmp_path):
    tables = [*files["labeled"], *files["negatives"], "--id-column", "id", "--score-column", "a"]
    given, out = ("run", *tables, "--alpha", 0.0441, "--out-dir"), tmp_path / "out"
    assert "reversed-scores" not in punoise(*given, out).err
    backwards = punoise(*given, out, "--lower-is-positive").err
    assert "score lower" in backwards
    assert "population" in backwards  # no row is unlabeled
    warned = json.loads((out / "prior.json").read_text())["warnings"]
    assert [warning["code"] for warning in warned] == ["reversed-scores"]
    scores = ("--scores", out / "scores.parquet")
    own = (*scores, "--alpha", 0.0441, "--out")
    assert "reversed-scores" in punoise("posterior", *own, tmp_path / "p.tsv").err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labeled", "--negatives"], "--unlabeled"),
        (["--labeled", "--unlabeled", "--negatives", "negatives"], "--negatives"),
        (["--unlabeled", "--negatives"], "--labeled"),
    ],
)
def test_tables_that_do_not_go_together(punoise, files, tmp_path, options, message):
    given = [a for name in options if name[:2] == "--" for a in files[name[2:]]]
    if "negatives" in options:
        given += ["--labeled-are", "negatives"]
    assert message in punoise("estimate-prior", *given, expect=2).err


def test_negatives_that_are_named_must_be_there(punoise, files, tmp_path):
    pd.read_csv(tmp_path / "negatives.csv").head(0).to_csv(tmp_path / "none.csv", index=False)
    tables = (*files["labeled"], *files["unlabeled"], "--negatives", tmp_path / "none.csv")
    err = punoise("estimate-prior", *tables, "--id-column", "id", expect=3).err
    assert "none.csv: only 0 negative rows" in err
    both = [pd.read_csv(tmp_path / f"{name}.csv").assign(y=name) for name in list(files)[:2]]
    pd.concat(both).to_csv(tmp_path / "both.csv", index=False)
    table = ("--table", tmp_path / "both.csv", "--id-column", "id", "--label-column", "y")
    values = ("--labeled-value", "labeled", "--negative-value", "mistyped")
    values = (*values, "--unlabeled-value", "unlabeled")
    err = punoise("estimate-prior", *table, *values, expect=3).err
    assert "'mistyped'" in err


def test_groups_without_unlabeled_rows_have_the_stated_alpha(punoise, files, tmp_path):
    tables = []
    for name in ("labeled", "negatives"):
        frame = pd.read_csv(tmp_path / f"{name}.csv")
        frame.assign(gene=[f"g{i % 5}" for i in frame.index]).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
        tables += files[name]
    more = ("--id-column", "id", "--by", "gene", "--format", "tsv", "--out-dir", tmp_path / "run")
    punoise("run", *tables, "--alpha", 0.1, *more)
    groups = pd.read_csv(tmp_path / "run" / "groups.tsv", sep="\t", index_col="group")
    assert len(groups) == 6
    for column in ("alpha", "alpha_low", "alpha_high"):
        assert (groups[column] == 0.1).all()
    assert (groups["shift"].abs() < 0.2).all()


def test_few_negatives_are_an_error(punoise, files, tmp_path):
    few = pd.read_csv(tmp_path / "negatives.csv").head(5)
    few.to_csv(tmp_path / "few.csv", index=False)
    tables = (*files["labeled"], *files["unlabeled"], "--negatives", tmp_path / "few.csv")
    err = punoise("estimate-prior", *tables, "--id-column", "id", expect=3).err
    assert "few.csv: only 5 negative rows" in err


def test_every_output_of_labeled_negatives_points_to_positives(punoise, tmp_path):
    rng = np.random.default_rng(11)
    y = rng.random(1500) < 0.4
    decoys = pd.DataFrame(rng.normal(size=(600, 3)), columns=["a", "b", "c"])
    targets = pd.DataFrame(rng.normal(size=(1500, 3)) + 1.5 * y[:, None], columns=["a", "b", "c"])
    for name, frame in (("decoys", decoys), ("targets", targets)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    tables = ("--labeled", tmp_path / "decoys.csv", "--unlabeled", tmp_path / "targets.csv")
    out = tmp_path / "out"
    punoise("run", *tables, "--labeled-are", "negatives", "--beta", 1, "--out-dir", out, "-q")
    prior = validated(json.loads((out / "prior.json").read_text()))
    assert prior["labeled_are"] == "negatives"
    assert prior["alpha"] == pytest.approx(0.4, abs=0.1)
    assert prior["alpha_ci"][0] <= prior["alpha"] <= prior["alpha_ci"][1]
    table = pq.read_table(out / "posterior.parquet").to_pandas()
    ours = table[table["set"] == "unlabeled"]
    assert ours["score"].between(0, 1).all()
    assert ours.loc[y, "posterior"].mean() > 0.6 > 0.3 > ours.loc[~y, "posterior"].mean()
    called = (ours["fdr"] <= 0.05).to_numpy()
    assert called.sum() > 200
    assert y[called].mean() > 0.9
    steps = ("--scores", out / "scores.parquet", "--labeled-are", "negatives", "--beta", 1)
    assert punoise("estimate-prior", *steps).prior["alpha"] == prior["alpha"]
    assert prior["auc"] == pytest.approx(0.965, abs=0.05)


def test_the_direction_of_the_labels_is_told_from_that_of_the_scores(punoise, tmp_path):
    """Forgetting --labeled-are where it is needed is noticed."""
    rng = np.random.default_rng(12)
    frame = pd.DataFrame({"id": range(1200), "set": ["labeled"] * 400 + ["unlabeled"] * 800})
    frame["score"] = np.append(rng.normal(size=400), scores(rng, 800, 0.5))
    frame.to_csv(tmp_path / "s.tsv", sep="\t", index=False)
    codes = {
        w["code"]
        for w in punoise("estimate-prior", "--scores", tmp_path / "s.tsv").prior["warnings"]
    }
    assert "reversed-scores" in codes
    right = punoise("estimate-prior", "--scores", tmp_path / "s.tsv", "--labeled-are", "negatives")
    assert "reversed-scores" not in {w["code"] for w in right.prior["warnings"]}


def test_of_labeled_negatives_beta_bounds_the_share_of_negatives(punoise, tmp_path):
    rng = np.random.default_rng(12)
    frame = pd.DataFrame({"id": range(1200), "set": ["labeled"] * 400 + ["unlabeled"] * 800})
    frame["score"] = np.append(rng.normal(size=400), scores(rng, 800, 0.5))
    frame.to_csv(tmp_path / "s.tsv", sep="\t", index=False)
    words = ("estimate-prior", "--scores", tmp_path / "s.tsv", "--labeled-are", "negatives")
    low, high = punoise(*words, "--beta", 0.9, "--alpha-between", 0.3, 0.95).prior["alpha_ci"]
    assert 0.3 <= low < high <= 0.95
    refused = punoise(*words, "--beta", 0.9, "--alpha-between", 0, 0.1, expect=2)
    assert "alpha cannot be 0.1" in refused.err


@pytest.fixture
def of_decoys(tmp_path):
    """Options that name tables of two Parquet files each; the labeled rows are negatives."""
    rng = np.random.default_rng(13)
    y = rng.random(900) < 0.4
    tables = {
        "labeled": rng.normal(size=(300, 2)),
        "unlabeled": rng.normal(size=(900, 2)) + 2 * y[:, None],
    }
    for name, values in tables.items():
        (tmp_path / name).mkdir()
        for i, part in enumerate(np.array_split(values, 2)):
            frame = pd.DataFrame(part, columns=["a", "b"])
            frame.to_parquet(tmp_path / name / f"{i}.parquet")
    named = [option for name in tables for option in (f"--{name}", tmp_path / name)]
    return [*named, "--labeled-are", "negatives"]


@pytest.mark.parametrize("score", [(), ("--score-column", "a")])
def test_scores_say_that_labeled_rows_are_negatives(punoise, of_decoys, tmp_path, score):
    one, model = tmp_path / "s.parquet", tmp_path / "m.punoise"
    punoise("transform", *of_decoys, *score, "--out", one, "--model-out", model)
    said = ("--scores", one, "--labeled-are", "negatives")
    right = punoise("estimate-prior", *said).prior
    assert right["labeled_are"] == "negatives"
    assert punoise("estimate-prior", "--scores", one).prior == right
    # in shards, and from sketches of them
    punoise("transform", *of_decoys, *score, "--out", f"{tmp_path}/shards/")
    assert punoise("estimate-prior", "--scores", tmp_path / "shards").prior == right
    sketches = [tmp_path / f"{i}.sketch" for i in range(4)]
    for file, sketch in zip(sorted((tmp_path / "shards").glob("*.parquet")), sketches, strict=True):
        sketch_scores(file, sketch)
    assert punoise("estimate-prior", "--sketch", *sketches).prior == right
    # an alpha above beta is possible of labeled negatives only
    for source in (("--scores", one), ("--sketch", *sketches)):
        refused = punoise(
            "estimate-prior", *source, "--alpha-between", 0, 0.1, "--beta", 0.9, expect=2
        )
        assert "alpha cannot be 0.1" in refused.err
        punoise("estimate-prior", *source, "--alpha-between", 0.92, 0.95, "--beta", 0.9)
    stated = ("--alpha", 0.95, "--beta", 0.9)
    found = []
    for more in ((), ("--labeled-are", "negatives")):
        out = tmp_path / f"p{len(more)}.parquet"
        punoise("posterior", "--scores", one, *stated, *more, "--out", out)
        found.append(out.read_bytes())
    assert found[0] == found[1]


def test_new_rows_are_scored_by_a_model_that_knows_what_labels_say(punoise, of_decoys, tmp_path):
    model, new = tmp_path / "m.punoise", tmp_path / "unlabeled" / "0.parquet"
    punoise("transform", *of_decoys, "--out", tmp_path / "s.tsv", "--model-out", model)
    stated = ("--model", model, "--alpha", 0.95, "--beta", 0.99, "--out", tmp_path / "p.tsv")
    punoise("score", "--model", model, "--table", new, "--out", tmp_path / "new.parquet")
    punoise("posterior", "--scores", tmp_path / "new.parquet", *stated)
    right = (tmp_path / "p.tsv").read_bytes()
    # text says nothing of labels, but what it is calibrated by does
    punoise("score", "--model", model, "--table", new, "--out", tmp_path / "new.tsv")
    for said in ((), ("--labeled-are", "negatives")):
        punoise("posterior", "--scores", tmp_path / "new.tsv", *stated, *said)
        assert (tmp_path / "p.tsv").read_bytes() == right
    # and so do the scores of training rows, file by file
    punoise("train", *of_decoys, "--out", model)
    by_file = ("score", "--model", model, "--table", new, "--set", "unlabeled")
    punoise(*by_file, "--out", tmp_path / "0.parquet")
    metadata = pq.read_metadata(tmp_path / "0.parquet").metadata
    assert metadata[b"punoise.labeled_are"] == b"negatives"


def test_what_contradicts_the_scores_is_wrong_usage(punoise, of_decoys, tmp_path):
    one, prior = tmp_path / "s.parquet", tmp_path / "prior.json"
    punoise("transform", *of_decoys, "--out", one)
    wrong = ("--scores", one, "--labeled-are", "positives")
    assert "negatives" in punoise("estimate-prior", *wrong, expect=2).err
    stated = ("--alpha", 0.4, "--out", tmp_path / "p.tsv")
    assert "negatives" in punoise("posterior", *wrong, *stated, expect=2).err
    table = pq.read_table(one).replace_schema_metadata()
    turned = table.set_column(table.column_names.index("score"), "score", pc.negate(table["score"]))
    pq.write_table(turned, tmp_path / "unsaid.parquet")
    punoise("estimate-prior", "--scores", tmp_path / "unsaid.parquet", "--out", prior)
    files = ("--scores", one, "--prior", prior)
    for command in ("posterior", "audit", "report"):
        error = punoise(command, *files, "--out", tmp_path / "out.tsv", expect=2).err
        assert "positives" in error


def test_scores_that_say_different_things_of_labels_are_bad_input(punoise, of_decoys, tmp_path):
    one, two = tmp_path / "s1.parquet", tmp_path / "s2.parquet"
    punoise("transform", *of_decoys, "--out", one)
    pq.write_table(pq.read_table(one).replace_schema_metadata(), two)
    error = punoise("estimate-prior", "--scores", tmp_path / "s*.parquet", expect=3).err
    assert "some of" in error
    for file in (one, two):
        sketch_scores(file, file.with_suffix(".sketch"))
    sketches = (one.with_suffix(".sketch"), two.with_suffix(".sketch"))
    error = punoise("estimate-prior", "--sketch", *sketches, expect=3).err
    assert "only some" in error


def test_scores_of_labeled_positives_say_nothing_of_it(punoise, tables, tmp_path):
    punoise("transform", *tables, "--out", tmp_path / "s.parquet")
    assert b"punoise.labeled_are" not in (tmp_path / "s.parquet").read_bytes()
