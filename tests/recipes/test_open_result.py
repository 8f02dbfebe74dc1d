"""What a run prints, writes and shows is one set of numbers, which its directory gives again."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from pu_noise_cli.prior.document import percent
from pu_noise_cli.recipes.report import open_result
from pu_noise_cli.scale.engine import Engine

LEARNED = ("--classifier", "logistic", "--drop-columns", "gene")
SCORE = ("--score-column", "a")
KINDS = {
    "plain": ("run", *LEARNED),
    "csv": ("run", *LEARNED, "--format", "csv"),
    "by": ("run", "--classifier", "logistic", "--by", "gene"),
    "score": ("run", *SCORE),
    "groups": ("run", *SCORE, "--group-column", "gene", "--format", "tsv"),
    "negatives": ("run", *LEARNED, "--negatives", "negatives.csv"),
    "target": ("run", *LEARNED, "--target-alpha", 0.05),
    "stated": ("run", *LEARNED, "--alpha", 0.3, "--beta", 0.9),
    "methods": ("run", *LEARNED, "--method", "all"),
    "calibrate": ("calibrate", *SCORE),
    "calibrate by": ("calibrate", *SCORE, "--by", "gene"),
    "calibrate groups": ("calibrate", *SCORE, "--group-column", "gene"),
    "calibrate learned": ("calibrate", *LEARNED),
}


@pytest.fixture(scope="module")
def tables(shared):
    def fill(folder):
        rng = np.random.default_rng(3)
        for name, rows, fraction in (
            ("labeled", 200, 0.9),
            ("unlabeled", 900, 0.3),
            ("negatives", 120, 0),
        ):
            positive = rng.random(rows) < fraction
            x = rng.normal(size=(rows, 3)) + 1.5 * positive[:, None]
            frame = pd.DataFrame(x.round(6), columns=["a", "b", "c"])
            frame.insert(0, "gene", rng.choice(list("uvwxyz"), rows))
            frame.insert(0, "name", [f"{name}{i}" for i in range(rows)])
            frame.to_csv(folder / f"{name}.csv", index=False)

    return shared("open_result", fill)


@pytest.mark.parametrize("kind", KINDS)
def test_terminal_files_and_report_have_the_numbers_of_the_summary(
    kind, tables, punoise, tmp_path, monkeypatch
):
    monkeypatch.chdir(tables)
    out = tmp_path / "out"
    command, *options = KINDS[kind]
    given = ("--labeled", "labeled.csv", "--unlabeled", "unlabeled.csv", "--id-column", "name")
    said = punoise(command, *given, *options, "--out-dir", out).err
    page = (out / "report.html").read_bytes()
    summary = open_result(str(out), Engine()).summary
    prior = summary.prior

    assert prior.to_json() == json.loads((out / "prior.json").read_text())
    assert re.search(rf"^alpha +{re.escape(percent(prior.alpha))} ", said, re.MULTILINE)
    assert re.search(rf"^beta +{re.escape(percent(prior.beta))} ", said, re.MULTILINE)
    assert {*re.findall(r"\[([a-z-]+)\]$", said, re.MULTILINE)} >= {
        notice.code for notice in summary.notices
    }
    (table,) = (path for path in out.iterdir() if path.name.startswith("posterior"))
    if table.suffix == ".parquet":
        rows = pd.read_parquet(table)
    else:
        rows = pd.read_csv(table, sep="\t" if table.suffix == ".tsv" else ",")
    unlabeled = rows[rows["set"] == "unlabeled"]
    if summary.likely is None:
        assert "by" in kind
    else:
        assert summary.likely == (unlabeled["posterior"] >= 0.5).sum()
        assert f"{summary.likely:,} unlabeled" in said
        for call in summary.by_fdr:
            assert call.unlabeled == (unlabeled["fdr"] <= call.level).sum()
    first = pd.read_csv(out / "candidates.tsv", sep="\t").iloc[0]
    assert first["posterior"] == pytest.approx(unlabeled["posterior"].max(), abs=1e-9)

    punoise("report", out)
    assert (out / "report.html").read_bytes() == page


def test_a_directory_without_results_is_named(punoise, tmp_path):
    assert "provenance.json" in punoise("report", tmp_path, expect=2).err
