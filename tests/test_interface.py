"""The Python interface gives what the commands give."""

import json
import runpy
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import pu_noise_cli as punoise_api
from pu_noise_cli.errors import InputError, UsageError

NOTEBOOK = Path(__file__).parent.parent / "docs" / "notebook.py"


@pytest.mark.parametrize("form", ["pandas", "arrow"])
def test_data_frames_give_exactly_the_numbers_of_run(form, frames, tables, punoise, tmp_path):
    punoise("run", *tables, "--out-dir", tmp_path / "out")
    labeled, unlabeled = frames
    labeled.index = [f"known {i}" for i in range(len(labeled))]
    given = (
        frames
        if form == "pandas"
        else [pa.Table.from_pandas(f, preserve_index=False) for f in frames]
    )
    found = punoise_api.estimate(*given)
    assert found.prior == json.loads((tmp_path / "out" / "prior.json").read_text())
    assert (found.alpha, list(found.alpha_ci)) == (found.prior["alpha"], found.prior["alpha_ci"])
    written = pd.read_parquet(tmp_path / "out" / "posterior.parquet")
    for ours, name in ((found.labeled, "labeled"), (found.unlabeled, "unlabeled")):
        theirs = written[written["set"] == name].reset_index(drop=True)
        pd.testing.assert_frame_equal(ours.reset_index(drop=True), theirs[ours.columns])
    if form == "pandas":
        assert found.labeled.index.equals(labeled.index)
        assert found.unlabeled.index.equals(unlabeled.index)


def test_new_rows_are_scored_as_the_command_scores_them(frames, tables, punoise, tmp_path):
    fast = ("--classifier", "logistic")
    model, scores = tmp_path / "m.punoise", tmp_path / "s.parquet"
    punoise("transform", *tables, *fast, "--out", tmp_path / "t.tsv", "--model-out", model)
    punoise("score", "--model", model, "--table", tables[3], "--out", scores)
    found = punoise_api.estimate(*frames, classifier="logistic").score(frames[1])
    assert found["score"].tolist() == pd.read_parquet(scores)["score"].tolist()
    assert found.index.equals(frames[1].index)
    assert "posterior_labeled" not in found


def test_a_score_column_and_errors_are_those_of_the_commands(frames):
    labeled, unlabeled = frames
    found = punoise_api.estimate(labeled, unlabeled, score_column="a", beta=0.9)
    assert found.unlabeled["score"].tolist() == unlabeled["a"].tolist()
    assert found.beta == 0.9
    with pytest.raises(InputError, match="'b' is missing"):
        punoise_api.estimate(labeled, unlabeled.drop(columns="b"))
    with pytest.raises(InputError, match="at least 20"):
        punoise_api.estimate(labeled.head(3), unlabeled)
    with pytest.raises(UsageError, match="group_column"):
        punoise_api.estimate(labeled, unlabeled, score_column="a", group_column="b")


@pytest.mark.parametrize("form", ["pandas", "arrow"])
def test_columns_go_through_whatever_they_hold(form, frames):
    """Chromosomes are numbers and text in one column, as pandas reads them."""
    plain = punoise_api.estimate(*frames, classifier="logistic")
    given = []
    for frame in frames:
        frame.index = ["twice"] * len(frame)
        chromosome = [i if i % 3 else "X" for i in range(len(frame))]
        frame = frame.assign(CHROM=chromosome, note=lambda f: f["a"].astype(str))
        if form == "arrow":
            frame = pa.Table.from_pandas(frame.astype({"CHROM": str}), preserve_index=False)
        given.append(frame)
    keep = {"keep_columns": ["CHROM"], "drop_columns": ["note"]}
    found = punoise_api.estimate(*given, classifier="logistic", **keep)
    assert found.alpha == plain.alpha
    assert [*map(str, found.unlabeled["CHROM"][:4])] == ["X", "1", "2", "X"]
    assert [*found.labeled] == [*plain.labeled, "CHROM"]
    assert len(found.score(given[1])) == len(frames[1])
    with pytest.raises(InputError, match="'none' to keep"):
        punoise_api.estimate(*given, keep_columns=["none"])
    with pytest.raises(InputError, match="'none' to drop"):
        punoise_api.estimate(*given, drop_columns=["none"])


@pytest.mark.parametrize("option", ["labeled_are", "method", "classifier", "missing_score"])
def test_a_choice_is_one_of_those_there_are(frames, option):
    with pytest.raises(UsageError, match=f"{option}.*'negative'"):
        punoise_api.estimate(*frames, **{option: "negative"})


@pytest.mark.parametrize(
    ("option", "value"),
    [("beta", 2), ("beta", float("nan")), ("seed", -1), ("threads", 0), ("max_train_rows", 9)],
)
def test_a_number_is_in_its_range(frames, option, value):
    with pytest.raises(UsageError, match=f"{option}.*{value}"):
        punoise_api.estimate(*frames, **{option: value})


def test_groups_have_the_numbers_of_run(frames, punoise, tmp_path):
    given, options = [], []
    for frame, name in zip(frames, ("labeled", "unlabeled"), strict=True):
        given.append(frame.assign(gene=[f"g{i % 7 % 3}" for i in range(len(frame))]))
        given[-1].to_csv(tmp_path / f"{name}.csv", index=False)
        options += [f"--{name}", tmp_path / f"{name}.csv"]
    fast = ("--classifier", "logistic", "--by", "gene")
    out, model = tmp_path / "out", tmp_path / "out" / "model.punoise"
    punoise("run", *options, *fast, "--out-dir", out)
    found = punoise_api.estimate(*given, classifier="logistic", by="gene")
    theirs = pd.read_parquet(out / "groups.parquet").set_index("group")
    pd.testing.assert_frame_equal(found.groups, theirs)
    written = pd.read_parquet(out / "posterior.parquet")
    for ours, name in ((found.labeled, "labeled"), (found.unlabeled, "unlabeled")):
        rows = written[written["set"] == name].reset_index(drop=True)
        pd.testing.assert_frame_equal(ours, rows[ours.columns])
    new = ("--scores", tmp_path / "s.parquet", "--model", model, "--prior", out / "prior.json")
    keep = ("--keep-columns", "gene", "--out", tmp_path / "s.parquet")
    punoise("score", "--model", model, "--table", options[3], *keep)
    by = ("--by", "gene", "--groups", out / "groups.parquet", "--out", tmp_path / "p.parquet")
    punoise("posterior", *new, *by)
    theirs, scored = pd.read_parquet(tmp_path / "p.parquet"), found.score(given[1])
    pd.testing.assert_frame_equal(scored, theirs[scored.columns])
    found.report(tmp_path / "r.html")
    assert "Largest groups" in (tmp_path / "r.html").read_text()
    assert punoise_api.estimate(*frames, classifier="logistic").groups is None
    with pytest.raises(InputError, match="no column 'gene'"):
        found.score(frames[1])
    with pytest.raises(UsageError, match="score"):
        punoise_api.estimate(*given, score_column="a", by="a")


def test_the_report_of_data_frames(frames, tmp_path):
    punoise_api.estimate(*frames, classifier="logistic").report(tmp_path / "r.html")
    assert "unlabeled rows" in (tmp_path / "r.html").read_text()


def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(NOTEBOOK))
    shown = capsys.readouterr().out
    assert "candidate" in shown
    assert "known" in shown
    assert (tmp_path / "report.html").exists()


def test_a_report_holds_blas_at_one_thread(frames, tmp_path, monkeypatch):
    from threadpoolctl import threadpool_info, threadpool_limits

    from pu_noise_cli import pipeline

    found = punoise_api.estimate(*frames, classifier="logistic")
    threads, real = [], pipeline.sample_report

    def noting(*args):
        threads.extend(
            pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"
        )
        return real(*args)

    monkeypatch.setattr(pipeline, "sample_report", noting)
    with threadpool_limits(2, user_api="blas"):
        found.report(tmp_path / "report.html")
    assert threads
    assert set(threads) == {1}
