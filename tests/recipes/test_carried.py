"""Ids of several columns, and columns that go through to the outputs, as written."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from conftest import sketch_scores

from pu_noise_cli.audit.design import COLUMNS
from pu_noise_cli.posterior.calibration import bounds, calibrate
from pu_noise_cli.posterior.table import posterior_columns
from pu_noise_cli.prior.base import Shares
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.rows import OWN_COLUMNS

IDS = ["CHROM", "POS", "REF", "ALT"]
BY_IDS = ["--id-column", ",".join(IDS), "--keep-columns", "gene,hgvs_p"]


def variants(n: int, share: float, seed: int, chromosomes: list[str]) -> pd.DataFrame:
    """Rows with the columns of a table of variants and one score."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n) + 2 * (np.arange(n) < share * n)
    return pd.DataFrame(
        {
            "CHROM": rng.choice(chromosomes, n),
            "POS": rng.integers(10**6, 10**8, n).astype(str),
            "REF": rng.choice(list("ACGT"), n),
            "ALT": rng.choice(list("ACGT"), n),
            "score_a": score.round(5),
            "gene": rng.choice(["BRCA1", "TP53", "007", ""], n),
            "hgvs_p": [f"p.Ala{i}Val" for i in range(n)],
        }
    )


@pytest.fixture
def tables(tmp_path) -> tuple[list[str], pd.DataFrame]:
    """Options that name the tables, in one of which chromosomes are numbers, and all rows."""
    labeled, unlabeled = variants(60, 0.9, 1, ["1", "2"]), variants(200, 0.3, 2, ["1", "X"])
    labeled.to_csv(tmp_path / "labeled.tsv", sep="\t", index=False)
    unlabeled.to_parquet(tmp_path / "unlabeled.parquet")
    labeled.astype({"CHROM": int, "POS": int}).to_parquet(tmp_path / "labeled.parquet")
    names = ["--labeled", tmp_path / "labeled.tsv", "--unlabeled", tmp_path / "unlabeled.parquet"]
    return [*map(str, names)], pd.concat([labeled, unlabeled], ignore_index=True)


def table(path) -> pd.DataFrame:
    """A table of text as it stands in the file."""
    if str(path).endswith("parquet"):
        return pd.read_parquet(path)
    return pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)


@pytest.mark.parametrize("form", ["tsv", "parquet"])
def test_ids_and_kept_columns_go_through_a_run(form, tables, punoise, tmp_path):
    given, rows = tables
    out = tmp_path / "out"
    punoise("run", *given, *BY_IDS, "--format", form, "--out-dir", out)
    scores, posterior = table(out / f"scores.{form}"), table(out / f"posterior.{form}")
    assert list(scores) == [*IDS, "set", "score", "gene", "hgvs_p"]
    made = ["tau", "posterior", "lr", "fdr", "posterior_labeled"]
    assert list(posterior) == [*IDS, "set", "score", *made, "gene", "hgvs_p"]
    for found in (scores, posterior):
        carried = rows.drop(columns="score_a")
        assert found[list(carried)].to_numpy().tolist() == carried.to_numpy().tolist()
    np.testing.assert_array_equal(scores["score"].astype(float), rows["score_a"])
    assert json.loads((out / "provenance.json").read_text())["score_column"] == "score_a"


@pytest.mark.parametrize("form", ["tsv", "parquet"])
def test_the_bytes_are_the_same_for_any_batches_and_threads(
    form, tables, punoise, tmp_path, monkeypatch
):
    _, rows = tables
    rows = rows.assign(score_a=rows["score_a"].where(rows.index % 7 > 0), known=rows.index < 60)
    path = tmp_path / f"all.{form}"
    rows.to_parquet(path) if form == "parquet" else rows.to_csv(path, sep="\t", index=False)
    source = ("--table", path, "--label-column", "known", "--missing-score", "skip", *BY_IDS)
    for threads in (1, 3):
        out = ("--threads", threads, "--format", form, "--out-dir", tmp_path / str(threads))
        punoise("run", *source, *out)
        monkeypatch.setattr("pu_noise_cli.tables.reading.BATCH_ROWS", 13)
    for name in (f"scores.{form}", f"posterior.{form}", "prior.json", "model.punoise"):
        one, other = ((tmp_path / t / name).read_bytes() for t in ("1", "3"))
        assert one == other, name


def test_every_later_command_reads_ids_of_several_columns(tables, punoise, tmp_path):
    given, rows = tables
    scores, prior = tmp_path / "scores.tsv", tmp_path / "prior.json"
    punoise("transform", *given, *BY_IDS, "--out", scores)
    punoise("estimate-prior", "--scores", scores, "--out", prior)
    sketch_scores(scores, tmp_path / "s.sketch")
    source = ("--scores", scores, "--prior", prior)
    punoise("posterior", *source, "--fdr", 0.1, "--out", tmp_path / "posterior.tsv")
    punoise("report", *source, "--out", tmp_path / "r.html")
    doubtful = rows.loc[rows["score_a"][:60].idxmin(), "POS"]
    assert f">{doubtful}<" in (tmp_path / "r.html").read_text()  # among the labels to check
    audit = tmp_path / "audit.tsv"
    punoise("audit", *source, "--rows", 40, "--labeled-rows", 20, "--out", audit)
    drawn = table(audit)
    assert list(drawn) == [*IDS, *COLUMNS, "gene", "hgvs_p"]
    same = rows.loc[drawn["row"].astype(int) - 1, [*IDS, "gene", "hgvs_p"]].reset_index(drop=True)
    pd.testing.assert_frame_equal(drawn[[*IDS, "gene", "hgvs_p"]], same)
    drawn.assign(verdict=np.arange(len(drawn)) % 2).to_csv(audit, sep="\t", index=False)
    verified = punoise("estimate-prior", "--scores", scores, "--verdicts", audit).prior
    assert verified["n_verdicts"] == 60
    drawn.assign(POS="1").to_csv(audit, sep="\t", index=False)
    refused = punoise("estimate-prior", "--scores", scores, "--verdicts", audit, expect=3)
    assert f"'{drawn['CHROM'][0]}:1:" in refused.err


def test_known_negatives_are_neither_drawn_nor_in_the_way(tables, punoise, tmp_path):
    given, rows = tables
    negatives = variants(80, 0.0, 3, ["1", "X"])
    negatives = pd.concat([negatives, rows.iloc[60:100]])  # ids that unlabeled rows have, too
    negatives.to_parquet(tmp_path / "negatives.parquet")
    given += ["--negatives", str(tmp_path / "negatives.parquet")]
    out, audit = tmp_path / "out", tmp_path / "audit.tsv"
    punoise("run", *given, *BY_IDS, "--out-dir", out)
    scores = out / "scores.parquet"
    source = ("--scores", scores, "--prior", out / "prior.json")
    punoise("report", *source, "--out", tmp_path / "r.html")
    punoise("audit", *source, "--rows", 200, "--labeled-rows", 60, "--out", audit)
    drawn = table(audit)
    sets = pd.read_parquet(scores)["set"]
    assert sets.value_counts().to_dict() == {"unlabeled": 200, "negative": 120, "labeled": 60}
    assert sets[drawn["row"].astype(int) - 1].tolist() == drawn["set"].tolist()
    drawn.assign(verdict="no").drop(columns="row").to_csv(audit, sep="\t", index=False)
    punoise("estimate-prior", "--scores", scores, "--verdicts", audit)


def test_one_id_column_is_called_id(tables, punoise, tmp_path):
    given, rows = tables
    options = ("--id-column", "hgvs_p", "--score-column", "score_a", "--out", tmp_path / "s.tsv")
    punoise("transform", *given, *options)
    found = table(tmp_path / "s.tsv")
    assert list(found) == ["id", "set", "score"]
    assert found["id"].tolist() == rows["hgvs_p"].tolist()


def test_chromosome_x_is_text_in_ids_whatever_the_other_table_holds(tables, punoise, tmp_path):
    given, rows = tables
    given = [name.replace("labeled.tsv", "labeled.parquet") for name in given]
    punoise("transform", *given, *BY_IDS, "--out", tmp_path / "s.tsv")
    pd.testing.assert_frame_equal(table(tmp_path / "s.tsv")[IDS], rows[IDS])
    feature = ("--features", "CHROM,score_a", "--out", tmp_path / "s.tsv")
    assert "--categorical CHROM" in punoise("transform", *given, *feature, expect=3).err


def test_scoring_new_rows_carries_columns_too(tables, punoise, tmp_path):
    given, rows = tables
    model = tmp_path / "model.punoise"
    punoise("train", *given, *BY_IDS, "--out", model)
    scored = ("score", "--model", model, "--table", given[1], *BY_IDS)
    for more in ([], ["--set", "labeled"]):
        punoise(*scored, *more, "--out", tmp_path / "new.tsv")
        found = table(tmp_path / "new.tsv")
        assert list(found) == [*IDS, *(["set"] if more else []), "score", "gene", "hgvs_p"]
        pd.testing.assert_frame_equal(found[[*IDS, "gene"]], rows.loc[:59, [*IDS, "gene"]])


def test_shards_carry_columns_and_are_made_again_for_others(tables, punoise, tmp_path):
    given, rows = tables
    (tmp_path / "parts").mkdir()
    for i in range(3):
        part = rows.iloc[60 + i :: 3]
        part.to_parquet(tmp_path / "parts" / f"{i}.parquet")
    given = ["--labeled", tmp_path / "labeled.parquet", "--unlabeled", tmp_path / "parts"]
    out = f"{tmp_path}/scores/"
    punoise("transform", *given, *BY_IDS, "--out", out)
    punoise("transform", *given, *BY_IDS, "--out", tmp_path / "scores.parquet")
    assert pd.read_parquet(out).equals(pd.read_parquet(tmp_path / "scores.parquet"))
    other = ("--id-column", ",".join(IDS), "--keep-columns", "gene", "--drop-columns", "hgvs_p")
    punoise("transform", *given, *other, "--out", out)
    assert list(pd.read_parquet(out)) == [*IDS, "set", "score", "gene"]


def test_a_kept_column_may_be_a_feature_by_name(tables, punoise, tmp_path):
    given, rows = tables
    options = (
        "--features",
        "score_a,gene",
        "--keep-columns",
        "gene,CHROM",
        "--categorical",
        "gene",
    )
    punoise("transform", *given, *options, "--out", tmp_path / "s.tsv")
    found = table(tmp_path / "s.tsv")
    assert list(found) == ["id", "set", "score", "gene", "CHROM"]
    assert found["gene"].tolist() == rows["gene"].tolist()
    assert found["id"].tolist() == [*map(str, range(60)), *map(str, range(200))]


def test_extra_columns_of_own_scores_go_on_but_results_of_before_do_not(scores, punoise, tmp_path):
    frame = pd.read_csv(scores, sep="\t", dtype=str).assign(note="a b", call="yes")
    frame = frame[["note", "score", "call", "id", "set"]]
    frame.to_csv(tmp_path / "own.tsv", sep="\t", index=False)
    again = ("--alpha", "0.3", "--out", tmp_path / "p.tsv")
    punoise("posterior", "--scores", tmp_path / "own.tsv", *again)
    found = table(tmp_path / "p.tsv")
    assert found["note"].tolist() == frame["note"].tolist()
    assert list(found)[:3] == ["id", "set", "score"]
    assert "call" not in found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--keep-columns", "none"], "no column 'none' for --keep-columns"),
        (["--id-column", "CHROM,none"], "no column 'none' for --id-column"),
        (["--features", "POS,score_a", "--id-column", "CHROM,POS"], "'POS'"),
        (["--keep-columns", "tau"], "'tau'"),
        (["--id-column", "id,CHROM"], "--id-column"),
    ],
)
def test_columns_that_cannot_be_carried_are_refused(options, said, tables, punoise, tmp_path):
    given, _ = tables
    expect = 3 if "no column" in said else 2
    result = punoise("transform", *given, *options, "--out", tmp_path / "s.tsv", expect=expect)
    assert said in result.err


def test_the_names_of_own_columns_are_all_known():
    sketch = Sketch.from_samples(np.linspace(0.2, 1, 50), np.linspace(0, 1, 80))
    calibration = calibrate(sketch, Shares(0.2, 0.9))
    limits = bounds(calibration, 0)
    made = posterior_columns(calibration, bounds=limits, target_alpha=0.1, fdr=0.1)
    assert {*made, *COLUMNS, "id", "evidence"} <= OWN_COLUMNS
