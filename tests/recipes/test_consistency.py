"""One answer: the terminal, prior.json and the report give the same numbers for every kind of run.

No limit excludes what stands beside it, and nothing claims more than is known.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import normals, validated
from report_samples import Outline, section

from pu_noise_cli.notices import kinds
from pu_noise_cli.prior.document import percent

PERCENT = r">?\d+(?:\.\d+)?%"
TABLES = {  # alpha, beta, labeled and unlabeled rows, and how far apart the classes are
    "usual": (0.2, 0.95, 200, 1000, 2.5),
    "apart": (0.2, 1.0, 200, 1000, 6.0),
    "overlapping": (0.2, 0.9, 200, 1000, 1.0),
    "few": (0.3, 1.0, 40, 80, 3.0),
    "rare": (0.01, 0.95, 200, 2000, 4.0),
    "common": (0.8, 1.0, 200, 800, 3.0),
    "noisy": (0.2, 0.6, 300, 1000, 3.0),
    "alike": (0.3, 0.3, 200, 600, 2.0),
    "separable": (0.0, 1.0, 200, 1000, 12.0),
}
KNOWLEDGE = {
    "purity 0": ("--purity", 0),
    "purity 0.9": ("--purity", 0.9),
    "alpha in a range": ("--alpha-between", 0.1, 0.3),
    "alpha in an impossible range": ("--alpha-between", 0.7, 0.8),
    "beta in a range": ("--beta-between", 0.9, 1),
    "beta in an impossible range": ("--beta-between", 0.25, 0.3),
    "beta 1": ("--beta", 1),
    "beta 0.9": ("--beta", 0.9),
    "alpha stated": ("--alpha", 0.15),
    "alpha and beta stated": ("--alpha", 0.15, "--beta", 0.9),
    "another population": ("--target-alpha", 0.05),
    "groups": ("--by", "gene"),
    "evidence": ("--evidence", "acmg", "--unlabeled-value", "unlabeled"),
    "a sample": ("--sample", "liver"),
}
METHODS = ("bound", "msgmm", "alphamax", "alphamax-n", "elkan-noto", "all")
RUNS = {
    **{name: (name, ()) for name in TABLES},
    **{f"{name}, all methods": (name, ("--method", "all")) for name in ("apart", "rare", "few")},
    **{name: ("usual", options) for name, options in KNOWLEDGE.items()},
    **{f"{name}, small alpha": ("rare", KNOWLEDGE[name]) for name in ("beta 1", "purity 0")},
    **{method: ("usual", ("--method", method)) for method in METHODS},
    **{
        f"negatives, {name}": (name, ("--labeled-are", "negatives"))
        for name in ("usual", "apart", "overlapping", "noisy")
    },
    "negatives, alpha in a range": (
        "usual",
        ("--labeled-are", "negatives", "--alpha-between", 0.7, 0.9),
    ),
    "negatives, beta 1": ("apart", ("--labeled-are", "negatives", "--beta", 1)),
    "known negatives": ("usual", ("--negative-value", "known", "--unlabeled-value", "unlabeled")),
    "known negatives, overlapping": (
        "overlapping",
        ("--negative-value", "known", "--unlabeled-value", "unlabeled"),
    ),
}


def table(name: str, path: Path, options: tuple) -> None:
    """Rows of a set with a score, which is turned round if the labeled rows are negatives."""
    alpha, beta, n_labeled, n_unlabeled, separation = TABLES[name]
    labeled, unlabeled = normals(alpha, beta, n_labeled, n_unlabeled, 3, separation)
    sets = ["labeled"] * n_labeled + ["unlabeled"] * n_unlabeled
    scores = [labeled, unlabeled]
    if "known" in options:
        scores.append(np.random.default_rng(8).normal(size=200))
        sets += ["known"] * 200
    score = np.concatenate(scores)
    frame = pd.DataFrame({"id": np.arange(len(score)), "set": sets, "score": score})
    if "--labeled-are" in options:
        frame["score"] *= -1
    frame["gene"] = frame["id"] % 7
    frame.to_csv(path, index=False)


class Screen:
    """What a user sees of a run."""

    def __init__(self, terminal: str, folder: Path) -> None:
        self.terminal = terminal
        self.prior = validated(json.loads((folder / "prior.json").read_text()))
        self.folder, self.page = folder, folder / "report.html"
        self.report = Outline(self.page.read_text()).text if self.page.exists() else ""

    def section(self, name: str) -> str:
        """The text of a section of the report."""
        return section(self.page.read_text(), name)

    def line(self, name: str) -> str:
        """The line of the terminal that starts with a name; empty if there is none."""
        lines = [line for line in self.terminal.splitlines() if line.startswith(f"{name:<7}")]
        assert len(lines) <= 1, lines
        return lines[0][7:] if lines else ""


def check(screen: Screen) -> None:
    """Every number that appears twice is the same, and no two statements exclude each other."""
    for text in (screen.terminal, screen.report):
        assert not re.search(r"\b(sure|[Cc]ertain)\b|nothing unusual", text)
    _check_warnings(screen)
    _check_estimates(screen)
    _check_limits(screen)
    _check_calls(screen)


def _check_warnings(screen: Screen) -> None:
    known = kinds()
    said = {(w["code"], w["message"]) for w in screen.prior["warnings"]}
    for code, message in said:
        assert f"punoise: warning: {message} [{code}]\n" in screen.terminal
        assert f"         {known[code].remedy}\n" in screen.terminal
        if screen.report:
            assert " ".join(message.split()) in " ".join(screen.report.split())
    if screen.report:
        unchecked = "Your call" in screen.section("usable")
        assert unchecked == (screen.prior["representative"] == "assumed")


def _check_estimates(screen: Screen) -> None:
    prior, answer = screen.prior, screen.section("answer")
    assert screen.section("usable")
    for name, rows in (("alpha", "n_unlabeled"), ("beta", "n_labeled")):
        value, interval = prior[name], prior[f"{name}_ci"]
        numbers = re.findall(PERCENT, screen.line(name))
        assert numbers[0] == percent(value)
        assert percent(value) in answer
        if interval is not None and interval[0] < interval[1]:
            assert interval[0] <= value <= interval[1]
            assert f"{numbers[1]} to {numbers[2]}" in answer
            assert numbers[2] == percent(interval[1])
        else:
            assert len(numbers) == 1
        if about := re.search(r"about ([\d,]+)", screen.line(name)):
            assert int(about[1].replace(",", "")) == round(value * prior[rows])
            assert about[0] in answer
    for auc in re.findall(r"\d\.\d{3}", screen.line("AUC")):
        assert auc in screen.report
    assert ("assumed; set" in screen.line("beta")) == (
        prior["method"] == "stated" and prior["beta"] == 1
    )
    if line := screen.line("groups"):
        assert len(re.findall(PERCENT, line)) == 2, "a range, and no second alpha of all rows"


def _check_limits(screen: Screen) -> None:
    prior = screen.prior
    ends = {name: prior[f"{name}_ci"] or [prior[name]] * 2 for name in ("alpha", "beta")}
    limits = {
        "alpha <=": (prior["alpha_max"], 1, ends["alpha"][1]),
        "alpha >=": (prior["alpha_min"], 0, ends["alpha"][0]),
        "beta >=": (prior["beta_min"], 0, ends["beta"][0]),
    }
    for name, (limit, trivial, end) in limits.items():
        shown = re.search(rf"{name} ({PERCENT})", screen.line("limit"))
        assert (shown is not None) == (limit is not None and limit != trivial)
        if limit is not None:
            assert limit >= end if "<=" in name else limit <= end
        if shown:
            assert shown[1] == percent(limit)
            symbol = name.replace("alpha", "α").replace("beta", "β")
            assert f"{symbol} {shown[1]}" in screen.report
    by_factor = dict(prior["alpha_max_by_selection"] or ())
    assert all(limit >= ends["alpha"][1] for limit in by_factor.values())
    assert list(by_factor.values()) == sorted(by_factor.values())
    if prior["alpha_max"] is not None and by_factor:
        assert by_factor[1] == prior["alpha_max"]
    assumed = prior["representative"] == "assumed"
    for text in (screen.terminal, screen.report):
        assert ("cannot show this" in text) == assumed
    assert bool(screen.line("bias")) == (assumed and 2 in by_factor)
    if said := screen.line("bias"):
        assert re.findall(PERCENT, said) == [percent(by_factor[2])]
        assert said.replace("alpha", "α") in screen.report


def _check_calls(screen: Screen) -> None:
    posterior = screen.folder / "posterior.parquet"
    if (line := screen.line("calls")) and posterior.exists():
        rows = pq.read_table(posterior).to_pandas()
        called = int(line.split()[0])
        column = "target_posterior" if "target_posterior" in rows else "posterior"
        assert ((rows["set"] == "unlabeled") & (rows[column] >= 0.5)).sum() == called
        assert re.search(rf"at least 0\.5 {called:,}\b", screen.report)
        _check_lists(screen, rows)


def _check_lists(screen: Screen, rows: pd.DataFrame) -> None:
    """Calls, candidates and labels to check are those of the files."""
    said = screen.section("candidates")
    fdr = rows.loc[rows["set"] == "unlabeled", "fdr"]
    for level in (1, 5, 10, 20):
        assert re.search(rf"at most {level}% {(fdr <= level / 100).sum():,}\b", said)
    assert percent(fdr.min()) in said
    candidates = pd.read_csv(screen.folder / "candidates.tsv", sep="\t", dtype={"id": str})
    first = candidates.iloc[0]
    shown = f"{first['id']} {first['score']:.4g} {first['posterior']:.4g}"
    assert shown in said
    assert f"The {min(200, len(candidates))} unlabeled rows" in said
    labels = screen.section("labels")
    listed = pd.read_csv(screen.folder / "labels_to_check.tsv", sep="\t", dtype={"id": str})
    doubtful = len(listed) > 0 and screen.prior["beta"] <= 1 - 1e-9
    assert ("expected to be" in labels) == doubtful
    if doubtful:
        first = listed.iloc[0]
        assert f"{first['id']} {first['score']:.4g} {first['posterior_labeled']:.4g}" in labels


QUICK = {  # the others in .ci/run
    *("usual", "few", "rare", "alike", "separable", "purity 0.9", "alpha in a range"),
    *("beta in an impossible range", "beta 0.9", "alpha stated", "another population", "groups"),
    *("bound", "alphamax-n", "negatives, usual", "negatives, alpha in a range", "known negatives"),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.ci) for kind in RUNS]
)
def test_a_run_gives_one_answer(kind, punoise, tmp_path):
    name, options = RUNS[kind]
    table(name, tmp_path / "rows.csv", options)
    columns = ("--id-column", "id", "--label-column", "set", "--labeled-value", "labeled")
    source = ("--table", tmp_path / "rows.csv", *columns, "--score-column", "score")
    folder = tmp_path / "out"
    if name == "alike":  # then there is no answer
        punoise("run", *source, "--out-dir", folder, expect=4)
        assert not folder.exists()
        return
    command = "calibrate" if "--evidence" in options else "run"
    said = punoise(command, *source, *options, "--out-dir", folder).err
    screen = Screen(said, folder)
    check(screen)
    for step in re.findall(r"^next   verify .* ±([\d.]+) .*: punoise (.*)$", said, re.MULTILINE):
        width = punoise(*shlex.split(step[1])[:-1], tmp_path / "audit.tsv").err
        after, now = re.search(r"([\d.]+) after 100.*now ([\d.]+)", width).groups()
        assert float(step[0]) == pytest.approx(float(after) / 2, abs=0.55)
        assert float(after) <= 0.75 * float(now) + 0.1
        assert f"±{step[0]} percentage points" in screen.report


@pytest.mark.parametrize(
    ("name", "labeled_rows"),
    [("usual", 60), ("rare", 0), ("alike", 0)]
    + [
        pytest.param(name, rows, marks=pytest.mark.ci)
        for name, rows in (("usual", 0), ("rare", 60), ("overlapping", 0), ("overlapping", 60))
    ],
)
def test_an_audit_gives_one_answer(name, labeled_rows, punoise, tmp_path):
    table(name, tmp_path / "scores.csv", ())
    scores, folder = ("--scores", tmp_path / "scores.csv"), tmp_path / "out"
    folder.mkdir()
    first = tmp_path / "first.json"
    punoise("estimate-prior", *scores, "--out", first)
    if json.loads(first.read_text())["alpha"] is None:
        punoise("audit", *scores, "--prior", first, "--out", tmp_path / "a.tsv", expect=4)
        punoise("report", *scores, "--prior", first, "--out", tmp_path / "r.html", expect=4)
        return
    audit, drawn = tmp_path / "audit.tsv", ("--rows", 90, "--labeled-rows", labeled_rows)
    punoise("audit", *scores, "--prior", first, *drawn, "--out", audit)
    alpha, beta, n_labeled, n_unlabeled, _ = TABLES[name]
    truth = np.concatenate(
        [np.arange(n) < round(part * n) for part, n in ((beta, n_labeled), (alpha, n_unlabeled))]
    )
    rows = pd.read_csv(audit, sep="\t")
    verdicts = np.where(truth[rows["row"] - 1], "yes", "no")
    rows.assign(verdict=verdicts).to_csv(audit, sep="\t", index=False)
    out = ("--verdicts", audit, "--out", folder / "prior.json")
    said = punoise("estimate-prior", *scores, *out).err
    made = ("--prior", folder / "prior.json", "--out", folder / "report.html")
    punoise("report", *scores, *made)
    screen = Screen(said, folder)
    check(screen)
    assert screen.prior["representative"] == "checked"
    assert screen.line("audit") in screen.report
