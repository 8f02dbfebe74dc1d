"""`punoise summarize`: priors of many samples as a table and for MultiQC."""

from __future__ import annotations

import csv
import json

import pytest

HOSTILE = [
    'quoted "name"',
    "tab\there",
    "two\nlines\r\nor three",
    "<script>alert(1)</script>",
    "a/b",
    "a_b",
    "=1+1",
    "größe 🧬",
    "\ud800",  # JSON can hold what UTF-8 cannot
    "x" * 300,
]


@pytest.fixture
def prior(punoise, scores, tmp_path) -> dict:
    return punoise("estimate-prior", "--scores", scores, "--method", "elkan-noto").prior


@pytest.fixture
def write(tmp_path, prior):
    """Write the prior under a name, some of its values changed."""

    def write(name: str, **changed: object) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(prior | changed))
        return str(path)

    return write


def table(text: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(text.decode().splitlines(keepends=True), delimiter="\t"))


def test_a_row_holds_what_the_prior_says(punoise, write, prior):
    warnings = [{"code": "few-rows", "message": "a"}, {"code": "separable", "message": "b"}]
    (row,) = table(punoise("summarize", write("p.json", warnings=warnings)).out)
    assert row["sample"] == "p"
    assert row["status"] == "ok"
    assert row["reason"] == ""
    for key in ("alpha", "beta", "auc", "n_labeled", "n_unlabeled"):
        assert float(row[key]) == prior[key]
    assert [float(row["alpha_low"]), float(row["alpha_high"])] == prior["alpha_ci"]
    assert [float(row["beta_low"]), float(row["beta_high"])] == prior["beta_ci"]
    assert row["warnings"] == "few-rows,separable"


def test_known_negatives_are_counted_where_there_are_some(punoise, write):
    rows = table(punoise("summarize", write("some.json", n_negatives=40), write("none.json")).out)
    assert [row["n_negatives"] for row in rows] == ["40", ""]


def test_the_sample_is_the_priors_own_name_or_that_of_its_place(punoise, write):
    names = [
        write("one.json", sample="liver"),
        write("kidney.json"),
        write("heart/prior.json"),
        write("lung.json.gz"),  # its name alone: the content may be plain
    ]
    rows = table(punoise("summarize", *names).out)
    assert [row["sample"] for row in rows] == ["liver", "kidney", "heart", "lung"]


def test_a_failed_prior_is_a_row_with_its_reason(punoise, tmp_path, write):
    (tmp_path / "few.csv").write_text("x\n1\n2\n")
    command = ["estimate-prior", "--labeled", tmp_path / "few.csv", "--unlabeled"]
    failed = tmp_path / "failed.json"
    punoise(*command, tmp_path / "few.csv", "--on-failure", "write", "--out", failed)
    multiqc = tmp_path / "all_mqc.json"
    ok, bad = table(punoise("summarize", write("ok.json"), failed, "--multiqc", multiqc).out)
    assert (ok["status"], bad["status"]) == ("ok", "failed")
    assert "at least 20 are needed" in bad["reason"]
    assert bad["alpha"] == bad["beta_low"] == bad["auc"] == ""
    assert bad["warnings"] == "bad-input"
    assert json.loads(multiqc.read_text())["data"]["failed"] == {"warnings": "bad-input"}


def test_hostile_names_break_neither_file(punoise, write, tmp_path):
    names = [write(f"{i}.json", sample=name) for i, name in enumerate(HOSTILE)]
    out, multiqc = tmp_path / "summary.tsv", tmp_path / "all_mqc.json"
    punoise("summarize", *names, "--out", out, "--multiqc", multiqc)
    with open(out, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["sample"] for row in rows] == [
        name.replace("\ud800", "\\ud800") for name in HOSTILE
    ]
    assert all(row["status"] == "ok" and float(row["alpha"]) <= 1 for row in rows)
    shown = json.loads(multiqc.read_text(encoding="utf-8"))["data"]
    assert len(shown) == len(HOSTILE)
    assert not any(set(name) & set("<>\"'\t\r\n/") for name in shown)


def test_two_samples_of_one_name_are_bad_input(punoise, write):
    result = punoise(
        "summarize", write("a.json", sample="x"), write("b.json", sample="x"), expect=3
    )
    assert "a.json" in result.err
    assert "b.json" in result.err
    assert result.out == b""


@pytest.mark.parametrize(
    "changed",
    [
        {"schema": "punoise.prior/2"},
        {"alpha": "0.2"},
        {"alpha_ci": [0.1]},
        {"auc": "high"},
        {"auc": float("nan")},
        {"n_labeled": 10**30},
        {"n_unlabeled": 1.5},
        {"sample": 7},
        {"n_labeled": None, "alpha": 0.1},
        {"warnings": ["text"]},
        {"warnings": None},
    ],
)
def test_a_prior_that_cannot_be_read_is_bad_input(punoise, write, changed):
    result = punoise("summarize", write("good.json"), write("bad.json", **changed), expect=3)
    assert "bad.json" in result.err
    assert result.out == b""


def test_text_that_is_no_json_is_bad_input(punoise, tmp_path):
    (tmp_path / "bad.json").write_text("{")
    punoise("summarize", tmp_path / "bad.json", expect=3)
    punoise("summarize", tmp_path / "missing.json", expect=2)


def test_usage(punoise, write, tmp_path):
    name = write("p.json")
    punoise("summarize", expect=2)
    result = punoise("summarize", name, "--multiqc", tmp_path / "other.json", expect=2)
    assert "_mqc.json" in result.err
    punoise("summarize", name, "--out", name, expect=2)
    punoise("summarize", name, "--out", tmp_path / "summary.csv")
    assert (tmp_path / "summary.csv").read_text().startswith("sample,status,reason,alpha,")
