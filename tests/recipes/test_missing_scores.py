"""Rows without a score: an error, or skipped; then they stay in every table and count nowhere."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from conftest import sketch_scores

import pu_noise_cli as punoise_interface
from pu_noise_cli.errors import InputError
from pu_noise_cli.score.sketch import Sketch, SketchBuilder, load_sketch

SKIP = ["--missing-score", "skip"]


@pytest.fixture
def gaps() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labeled and unlabeled rows with one score column, in which every ninth value is missing."""
    rng = np.random.default_rng(4)
    frames = []
    for n, share in ((150, 0.9), (400, 0.3)):
        score = rng.normal(size=n) + 2 * (rng.random(n) < share)
        score[::9] = np.nan
        frames.append(
            pd.DataFrame({"name": [f"r{i}" for i in range(n)], "score_a": score.round(6)})
        )
    return frames[0], frames[1]


@pytest.fixture
def options(gaps, tmp_path) -> list:
    """The options that name them as tables."""
    named = []
    for frame, name in zip(gaps, ("labeled", "unlabeled"), strict=True):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        named += [f"--{name}", tmp_path / f"{name}.csv"]
    return [*named, "--id-column", "name"]


@pytest.fixture
def known_only(gaps, tmp_path) -> list:
    """The options that name tables of the rows that have a score."""
    named = []
    for frame, name in zip(gaps, ("labeled", "unlabeled"), strict=True):
        frame.dropna().to_csv(tmp_path / f"known_{name}.csv", index=False)
        named += [f"--{name}", tmp_path / f"known_{name}.csv"]
    return [*named, "--id-column", "name"]


def codes(prior: dict) -> list[str]:
    return [warning["code"] for warning in prior["warnings"]]


MISSING = 17 + 45


def test_by_default_a_missing_score_is_an_error_that_names_the_option(options, punoise):
    for more in ([], ["--missing-score", "stop"]):
        result = punoise("estimate-prior", *options, *more, expect=3)
        assert "'score_a' has" in result.err
        assert "--missing-score skip" in result.err


@pytest.mark.parametrize("form", ["tsv", "parquet"])
def test_a_run_keeps_the_rows_and_gives_the_others_what_they_would_have(
    form, gaps, options, known_only, punoise, tmp_path
):
    out, other = tmp_path / "out", tmp_path / "other"
    result = punoise("run", *options, *SKIP, "--format", form, "--out-dir", out)
    assert f"{MISSING} rows have no" in result.err
    punoise("run", *known_only, "--format", form, "--out-dir", other)
    prior, expected = (json.loads((d / "prior.json").read_text()) for d in (out, other))
    assert "missing-scores" in codes(prior)
    assert prior | {"warnings": []} == expected | {"warnings": []}

    def read(path):
        return pd.read_parquet(path) if form == "parquet" else pd.read_csv(path, sep="\t")

    known = pd.concat(gaps)["score_a"].notna().to_numpy()
    for name in ("scores", "posterior"):
        found, wanted = (read(d / f"{name}.{form}") for d in (out, other))
        assert found["id"].tolist() == pd.concat(gaps)["name"].tolist()
        rest = found[known].reset_index(drop=True)
        pd.testing.assert_frame_equal(rest, wanted, check_dtype=False)
        assert found.loc[~known].drop(columns=["id", "set"]).isna().all(axis=None)


def test_every_later_command_copes(options, punoise, tmp_path):
    scores = tmp_path / "scores.tsv"
    assert "[missing-scores]" in punoise("transform", *options, *SKIP, "--out", scores).err
    prior = punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "prior.json")
    assert "[missing-scores]" in prior.err
    source = ("--scores", scores, "--prior", tmp_path / "prior.json")
    sketch_scores(scores, tmp_path / "1.sketch")
    by_sketch = punoise("estimate-prior", "--sketch", tmp_path / "1.sketch").out
    assert by_sketch == (tmp_path / "prior.json").read_bytes()
    asked = ("--bounds", "--fdr", "0.2", "--target-alpha", "0.1")
    made = punoise("posterior", *source, *asked, "--out", tmp_path / "p.tsv")
    assert f"{MISSING} rows have no" in made.err
    assert "prior-of-other-rows" not in made.err
    found = pd.read_csv(tmp_path / "p.tsv", sep="\t")
    gone = found["score"].isna()
    assert gone.sum() == MISSING
    assert found.loc[gone].drop(columns=["id", "set"]).isna().all(axis=None)
    assert found.loc[~gone].drop(columns="posterior_labeled").notna().all(axis=None)
    page = tmp_path / "r.html"
    punoise("report", *source, "--out", page)
    punoise("audit", *source, "--rows", 300, "--labeled-rows", 130, "--out", tmp_path / "audit.tsv")
    audit = pd.read_csv(tmp_path / "audit.tsv", sep="\t")
    assert audit["score"].notna().all()
    audit.assign(verdict=1).to_csv(tmp_path / "audit.tsv", sep="\t", index=False)
    verified = punoise("estimate-prior", "--scores", scores, "--verdicts", tmp_path / "audit.tsv")
    assert verified.prior["n_verdicts"] == len(audit)
    strict = punoise("estimate-prior", "--scores", scores, "--strict", expect=4)
    assert "missing-scores" in strict.err


def test_strict_does_not_stop_at_rows_that_are_to_be_skipped(options, punoise, tmp_path):
    skip = ("--score-column", "score_a", "--missing-score", "skip", "--out", tmp_path / "p.json")
    said = punoise("estimate-prior", *options, *skip, "--alpha-between", 0.2, 0.4, "--strict")
    assert "missing-scores" in said.err


def test_new_rows_are_skipped_as_the_model_or_the_option_says(options, punoise, tmp_path):
    models = {}
    for how in ("skip", "stop"):
        models[how] = tmp_path / f"{how}.punoise"
        given = [*options[:1], tmp_path / "l.csv", *options[2:3], tmp_path / "u.csv", *options[4:]]
        for old, new in ((options[1], given[1]), (options[3], given[3])):
            frame = pd.read_csv(old)
            (frame if how == "skip" else frame.dropna()).to_csv(new, index=False)
        more = ["--missing-score", how]
        punoise("run", *given, *more, "--out-dir", tmp_path / how)
        (tmp_path / how / "model.punoise").rename(models[how])
    new = ("--table", options[3], "--id-column", "name", "--out", tmp_path / "new.tsv")
    assert "45 rows" in punoise("score", "--model", models["skip"], *new).err
    assert pd.read_csv(tmp_path / "new.tsv", sep="\t")["score"].isna().sum() == 45
    refused = punoise("score", "--model", models["stop"], *new, expect=3)
    assert "--missing-score skip" in refused.err
    assert "45 rows" in punoise("score", "--model", models["stop"], *SKIP, *new).err
    prior = tmp_path / "skip" / "prior.json"
    source = ("--scores", tmp_path / "new.tsv", "--prior", prior, "--model", models["skip"])
    made = punoise("posterior", *source, "--out", tmp_path / "p.tsv")
    assert "45 rows" in made.err


def test_files_scored_one_by_one_and_shards_are_as_the_whole(gaps, options, punoise, tmp_path):
    punoise("transform", *options, *SKIP, "--out", tmp_path / "whole.tsv")
    punoise("train", *options, *SKIP, "--out", tmp_path / "m.punoise")
    lines = []
    for name, kind in (("labeled", 1), ("unlabeled", 3)):
        part = ("--table", options[kind], "--set", name, "--id-column", "name")
        punoise("score", "--model", tmp_path / "m.punoise", *part, "--out", tmp_path / "part.tsv")
        lines += (tmp_path / "part.tsv").read_text().splitlines()[len(lines) > 0 :]
    assert lines == (tmp_path / "whole.tsv").read_text().splitlines()
    gaps[0].to_parquet(tmp_path / "l.parquet")
    (tmp_path / "u").mkdir()
    for i in range(3):
        part = gaps[1].iloc[i * 140 : (i + 1) * 140]
        part.to_parquet(tmp_path / "u" / f"{i}.parquet")
    shards = ["--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "u"]
    shards += ["--id-column", "name"]
    said = punoise("transform", *shards, *SKIP, "--out", f"{tmp_path}/scores/").err
    assert f"{MISSING} rows have no" in said
    found = pd.read_parquet(tmp_path / "scores")
    whole = pd.read_csv(tmp_path / "whole.tsv", sep="\t")
    pd.testing.assert_frame_equal(found, whole, check_dtype=False)


def test_a_code_for_missing_is_skipped_with_na(gaps, options, punoise, tmp_path):
    expected = punoise("estimate-prior", *options, *SKIP).prior
    for name, path in zip(("labeled", "unlabeled"), (options[1], options[3]), strict=True):
        pd.read_csv(path).fillna(-99).to_csv(tmp_path / f"{name}.csv", index=False)
    assert "lone-value" in codes(punoise("estimate-prior", *options).prior)
    assert punoise("estimate-prior", *options, *SKIP, "--na", "-99").prior == expected


def test_too_few_scores_are_an_error(gaps, options, punoise, tmp_path):
    frame = gaps[0].assign(score_a=gaps[0]["score_a"].where(gaps[0].index < 20))
    frame.to_csv(options[1], index=False)
    result = punoise("estimate-prior", *options, *SKIP, expect=3)
    assert "labeled.csv: only 17 labeled rows" in result.err
    out = tmp_path / "scores.tsv"
    punoise("transform", *options, *SKIP, "--out", out, expect=3)
    assert not out.exists()


def test_negatives_without_any_score_are_an_error_and_not_left_out(options, punoise, tmp_path):
    negatives = tmp_path / "negatives.csv"
    names = [f"n{i}" for i in range(50)]
    pd.DataFrame({"name": names, "score_a": np.nan}).to_csv(negatives, index=False)
    column = ["--negatives", negatives, "--score-column", "score_a"]
    result = punoise("estimate-prior", *options, *column, *SKIP, expect=3)
    assert "negatives.csv: only 0 negative rows" in result.err


def test_too_few_scores_are_told_of_every_source(punoise, scores, tmp_path):
    frame = pd.read_csv(scores, sep="\t")
    few = frame["score"].where((frame["set"] != "labeled") | (frame.groupby("set").cumcount() < 17))
    frame.assign(score=few).to_csv(tmp_path / "few.tsv", sep="\t", index=False)
    prior, sketch = tmp_path / "prior.json", tmp_path / "few.sketch"
    punoise("estimate-prior", "--scores", scores, "--out", prior)
    sketch_scores(tmp_path / "few.tsv", sketch)
    report = ("report", "--scores", tmp_path / "few.tsv", "--prior", prior, "--out", tmp_path / "r")
    for words in (report, ("estimate-prior", "--sketch", sketch)):
        assert "17 labeled rows" in punoise(*words, expect=3).err


def test_a_learned_score_has_no_use_for_it(tables, punoise, tmp_path):
    fast = ["--classifier", "logistic"]
    refused = punoise("estimate-prior", *tables, *fast, *SKIP, expect=2)
    assert "--missing-score" in refused.err
    punoise("run", *tables, *fast, "--out-dir", tmp_path / "out")
    model = ("--model", tmp_path / "out" / "model.punoise", "--table", tables[1])
    refused = punoise("score", *model, *SKIP, "--out", tmp_path / "s.tsv", expect=2)
    assert "learned" in refused.err


def test_the_interface_skips_too(gaps):
    gaps = [frame.drop(columns="name") for frame in gaps]
    with pytest.raises(InputError, match="has no value"):
        punoise_interface.estimate(*gaps)
    found = punoise_interface.estimate(*gaps, missing_score="skip")
    known = gaps[1]["score_a"].notna()
    assert found.unlabeled["posterior"].notna().equals(known)
    assert found.labeled.loc[gaps[0]["score_a"].isna()].isna().all(axis=None)
    assert "missing-scores" in [warning.code for warning in found.warnings]
    assert found.alpha == punoise_interface.estimate(*(frame.dropna() for frame in gaps)).alpha
    assert found.score(gaps[1])["posterior"].equals(found.unlabeled["posterior"])


def test_a_sketch_counts_what_it_leaves_out(tmp_path, punoise, scores):
    rng = np.random.default_rng(0)
    values = rng.random(20_000)  # more than a sketch has cells for
    values[::7] = np.nan
    sets = (rng.random(20_000) < 0.3).astype(np.int8)
    builder = SketchBuilder()
    for start in range(0, 20_000, 1000):
        builder.add(values[start : start + 1000], sets[start : start + 1000])
    found, known = builder.sketch(), ~np.isnan(values)
    plain = Sketch.from_rows(values[known], sets[known])
    np.testing.assert_array_equal(found.counts, plain.counts)
    np.testing.assert_array_equal(found.edges, plain.edges)
    assert found.missing == (~known).sum()
    assert Sketch.merge([found, found]).missing == 2 * found.missing
    frame = pd.read_csv(scores, sep="\t")
    frame.loc[::50, "score"] = np.nan
    frame.to_csv(scores, sep="\t", index=False)
    sketch_scores(scores, tmp_path / "s.sketch")
    with open(tmp_path / "s.sketch", "rb") as file:
        assert load_sketch("s", file).missing == 8
