"""Candidates and labels to check: the rows that come first, in files of their own."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from pu_noise_cli.posterior.candidates import MAX_ROWS


def tables(folder, n_labeled=400, n_unlabeled=3000, beta=0.9, seed=0, decimals=2):
    """Labeled and unlabeled rows with a score that ties, ids and a kept column."""
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    for name, n, share in (("labeled", n_labeled, beta), ("unlabeled", n_unlabeled, 0.2)):
        positive = rng.random(n) < share
        frame = pd.DataFrame(
            {
                "id": [f"{name[0]}{i}" for i in range(n)],
                "score": (rng.normal(size=n) + 2 * positive).round(decimals),
                "gene": rng.choice(["=A1", "B<b>", "C"], n),
            }
        )
        frame.to_parquet(folder / f"{name}.parquet")
    return (
        *("--labeled", folder / "labeled.parquet", "--unlabeled", folder / "unlabeled.parquet"),
        *("--id-column", "id", "--keep-columns", "gene", "--score-column", "score"),
    )


def listed(folder, name="candidates"):
    return pd.read_csv(folder / f"{name}.tsv", sep="\t", keep_default_na=False)


def posterior(folder):
    return pq.read_table(folder / "posterior.parquet").to_pandas()


def test_candidates_are_the_unlabeled_rows_in_order(punoise, tmp_path):
    source = tables(tmp_path / "in", n_unlabeled=MAX_ROWS + 500)
    punoise("run", *source, "--out-dir", tmp_path / "out")
    rows = posterior(tmp_path / "out")
    rows = rows[rows["set"] == "unlabeled"]
    first = rows.sort_values(["posterior", "score"], ascending=False, kind="stable")[:MAX_ROWS]
    found = listed(tmp_path / "out")
    assert list(found) == [
        *("id", "gene", "score", "posterior", "posterior_low", "posterior_high", "fdr")
    ]
    assert list(found["id"]) == list(first["id"])
    for name in {*found} & {*first}:
        assert list(found[name]) == list(first[name]), name
    scores = ("--scores", tmp_path / "out/scores.parquet", "--prior", tmp_path / "out/prior.json")
    punoise("posterior", *scores, "--bounds", "--out", tmp_path / "bounds.parquet")
    bounds = pq.read_table(tmp_path / "bounds.parquet").to_pandas().loc[first.index]
    for name in ("posterior_low", "posterior_high"):
        assert list(found[name]) == list(bounds[name])


def test_labels_to_check_are_the_labeled_rows_from_the_least_likely(punoise, tmp_path):
    source = tables(tmp_path / "in")
    punoise("run", *source, "--out-dir", tmp_path / "out", "--format", "csv")
    rows = pd.read_csv(tmp_path / "out/posterior.csv")
    rows = rows[rows["set"] == "labeled"]
    first = rows.sort_values(["posterior_labeled", "score"], kind="stable")
    found = listed(tmp_path / "out", "labels_to_check")
    assert list(found) == ["id", "gene", "score", "posterior_labeled"]
    assert list(found["id"]) == list(first["id"][: len(found)])
    assert (first["posterior_labeled"][len(found) :] == 1).all()


def test_labels_that_are_certain_need_no_check(punoise, tmp_path):
    source = tables(tmp_path / "in", beta=1.0)
    punoise("run", *source, "--beta", "1", "--out-dir", tmp_path / "out")
    assert len(listed(tmp_path / "out", "labels_to_check")) == 0


def test_shards_and_threads_give_the_same_bytes(punoise, tmp_path):
    source = tables(tmp_path / "in", n_unlabeled=5000)
    whole = pq.read_table(tmp_path / "in/unlabeled.parquet")
    folder = tmp_path / "in/unlabeled"
    folder.mkdir()
    for i, start in enumerate((0, 700, 701, 4000)):
        end = (700, 701, 4000, 5000)[i]
        pq.write_table(whole.slice(start, end - start), folder / f"{i}.parquet")
    sharded = [folder if str(arg).endswith("unlabeled.parquet") else arg for arg in source]
    punoise("run", *source, "--out-dir", tmp_path / "one", "--threads", "1")
    punoise("run", *sharded, "--shards", "--out-dir", tmp_path / "two", "--threads", "2")
    for name in ("candidates.tsv", "labels_to_check.tsv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_groups_and_evidence_have_their_own_candidates(punoise, tmp_path):
    source = tables(tmp_path / "in")
    punoise("calibrate", *source, "--by", "gene", "--out-dir", tmp_path / "out")
    rows = posterior(tmp_path / "out")
    rows = rows[rows["set"] == "unlabeled"]
    first = rows.sort_values(["posterior", "score"], ascending=False, kind="stable")[:MAX_ROWS]
    found = listed(tmp_path / "out")
    for name in ("id", "posterior", "fdr", "evidence", "gene"):
        assert list(found[name]) == list(first[name]), name
    assert (found["posterior_low"] <= found["posterior"] + 1e-12).all()
    assert (found["posterior_high"] >= found["posterior"] - 1e-12).all()


def test_without_unlabeled_rows_there_are_none(punoise, tmp_path):
    source = tables(tmp_path / "in")
    source = ["--negatives" if arg == "--unlabeled" else arg for arg in source]
    punoise("run", *source, "--alpha", "0.1", "--out-dir", tmp_path / "out")
    assert len(listed(tmp_path / "out")) == 0
    assert "posterior_low" in listed(tmp_path / "out")


@pytest.mark.parametrize("name", ["candidates.tsv", "labels_to_check.tsv"])
def test_a_failed_run_leaves_none_of_an_earlier_one(name, punoise, tmp_path):
    punoise("run", *tables(tmp_path / "in"), "--out-dir", tmp_path / "out")
    assert (tmp_path / "out" / name).exists()
    alike = tables(tmp_path / "alike", n_labeled=10)
    punoise("run", *alike, "--on-failure", "write", "--out-dir", tmp_path / "out")
    assert not (tmp_path / "out" / name).exists()
