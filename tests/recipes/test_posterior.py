"""Posteriors of scores: bounds and calls, new rows, and priors of other rows."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def prior_file(punoise, scores, tmp_path):
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "prior.json")
    return tmp_path / "prior.json"


def test_new_rows_are_calibrated_by_the_model(punoise, tables, frames, tmp_path):
    names = ("m.punoise", "s.tsv", "p.json", "q.tsv", "new.tsv", "new_q.tsv")
    model, scores, prior, posterior, new, new_posterior = (tmp_path / name for name in names)
    fast = ("--classifier", "logistic")
    punoise("transform", *tables, *fast, "--out", scores, "--model-out", model)
    punoise("estimate-prior", "--scores", scores, "--out", prior)
    punoise("posterior", "--scores", scores, "--prior", prior, "--out", posterior)
    punoise("score", "--model", model, "--table", tables[3], "--out", new)
    own = ("--prior", prior, "--model", model)
    punoise("posterior", "--scores", new, *own, "--out", new_posterior)
    found = pd.read_csv(new_posterior, sep="\t")
    assert list(found.columns) == ["id", "score", "tau", "posterior", "lr", "fdr"]
    known = pd.read_csv(posterior, sep="\t").query("set == 'unlabeled'")
    assert np.corrcoef(found["posterior"], known["posterior"])[0, 1] > 0.98
    result = punoise("posterior", "--scores", new, "--prior", prior, "--out", "-", expect=3)
    assert "'set'" in result.err
    assert "--model" in result.err


def test_a_prior_of_as_many_other_rows_is_noticed(punoise, scores, tmp_path):
    frame = pd.read_csv(scores, sep="\t")
    frame.assign(score=frame["score"] ** 2 + 0.01 * (frame.index % 7)).to_csv(
        tmp_path / "other.tsv", sep="\t", index=False
    )
    punoise("estimate-prior", "--scores", tmp_path / "other.tsv", "--out", tmp_path / "p.json")
    options = ("--prior", tmp_path / "p.json", "--out", tmp_path / "q.tsv", "--strict")
    result = punoise("posterior", "--scores", scores, *options, expect=4)
    assert "prior-of-other-rows" in result.err
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    punoise("posterior", "--scores", scores, *options[:-1])


def test_posterior_with_everything(punoise, scores, prior_file, tmp_path):
    out = tmp_path / "p.parquet"
    options = ("--bounds", "--fdr", 0.1, "--target-alpha", 0.0441, "--out", out)
    result = punoise("posterior", "--scores", scores, "--prior", prior_file, *options)
    table = pd.read_parquet(out)
    assert list(table.columns)[8:] == ["target_alpha", "posterior_low", "posterior_high", "call"]
    assert (table["posterior_low"] <= table["posterior"]).all()
    assert (table["posterior"] <= table["posterior_high"]).all()
    assert (table["call"] == (table["fdr"] <= 0.1)).all()
    called = table.loc[table["set"] == "unlabeled", "call"].sum()
    assert f"{called} unlabeled rows" in result.err


def test_a_prior_of_other_rows_is_said(punoise, scores, tmp_path):
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    lines = (tmp_path / "scores.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "other.tsv").write_text("".join(lines[:350]))
    options = ("--prior", tmp_path / "p.json", "--out", tmp_path / "out.tsv", "--strict")
    result = punoise("posterior", "--scores", tmp_path / "other.tsv", *options, expect=4)
    assert "prior-of-other-rows" in result.err
