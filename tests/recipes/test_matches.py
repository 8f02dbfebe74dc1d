"""Tables of matches: what is refused, and what is left out of them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_samples import data_of, section
from searches import outputs, pin_lines, pin_table, write_pin

from pu_noise_cli.proteomics import levels


@pytest.fixture
def apart(tmp_path) -> tuple[Path, Path]:
    """Targets and decoys of the same spectra in two files."""
    header, _, *lines = pin_lines()
    paths = tmp_path / "targets.pin", tmp_path / "decoys.pin"
    for path, label in zip(paths, ("1", "-1"), strict=True):
        write_pin(path, [header, *(line for line in lines if line.split("\t")[1] == label)])
    return paths


# the columns of pin_table() with a column `decoy` in place of Label
ROLES = ["--label-column", "decoy", "--id-column", "SpecId", "--group-column", "ScanNr"]
ROLES += ["--spectrum-columns", "ScanNr,ExpMass", "--peptide-column", "Peptide"]


def psms(path: Path) -> dict[str, float]:
    """What matches.json says of the PSMs."""
    return json.loads((path / "matches.json").read_text())["levels"]["psms"]


# What is wrong with tables of matches


def test_text_that_separates_targets_from_decoys_is_not_learned_from(punoise, tmp_path):
    table = pin_table().drop(columns=["CalcMass", "Proteins"])
    rng = np.random.default_rng(1)
    prefix = np.where(table["Label"] == -1, "rev_", "")
    table["protein"] = prefix + np.char.add("P", rng.integers(0, 60, len(table)).astype(str))
    table["instrument"] = rng.choice(["a", "b", "c"], len(table))
    table["decoy"] = (table.pop("Label") == -1).astype(int)
    table.to_csv(tmp_path / "named.tsv", sep="\t", index=False)
    named = punoise("matches", tmp_path / "named.tsv", *ROLES, "--out-dir", tmp_path / "a")
    assert "'protein'" in named.err
    assert "'instrument'" not in named.err
    table.drop(columns="protein").to_csv(tmp_path / "plain.tsv", sep="\t", index=False)
    punoise("matches", tmp_path / "plain.tsv", *ROLES, "--out-dir", tmp_path / "b")
    tables = [(tmp_path / name / "psms.tsv").read_text().splitlines() for name in "ab"]
    assert len(tables[0]) > 500
    first, second = ([line.split("\t")[:5] for line in lines] for lines in tables)
    assert first == second


def test_targets_and_decoys_of_a_glob_compete_by_the_names_of_their_files(apart, punoise, tmp_path):
    write_pin(tmp_path / "whole.dat", pin_lines())
    punoise("matches", tmp_path / "*.pin", "--out-dir", tmp_path / "apart")
    whole = [tmp_path / "whole.dat", "--input-format", "pin"]
    punoise("matches", *whole, "--out-dir", tmp_path / "whole")
    found, expected = (psms(tmp_path / name) for name in ("apart", "whole"))
    assert found["pi0"] == pytest.approx(expected["pi0"], abs=0.03)
    assert found["targets"] + found["decoys"] == 1500
    for path, name in zip(apart, ("x.pin", "y.pin"), strict=True):
        path.rename(tmp_path / name)
    said = punoise("matches", tmp_path / "*.pin", "--out-dir", tmp_path / "out", expect=3).err
    assert "y.pin" in said
    assert "decoys only" in said


def test_parquet_with_the_columns_of_a_pin_file_is_one(punoise, tmp_path):
    pin_table().to_parquet(tmp_path / "psms.parquet")
    write_pin(tmp_path / "psms.pin", pin_lines())
    for kind in ("parquet", "pin"):
        punoise("matches", tmp_path / f"psms.{kind}", "--out-dir", tmp_path / kind)
    lines = [(tmp_path / kind / "psms.tsv").read_text() for kind in ("parquet", "pin")]
    ids = [[line.split("\t")[0] for line in text.splitlines()] for text in lines]
    assert ids[0] == ids[1]
    assert "P12999_0;P12999_1" in lines[0]  # the proteins are shown


def test_a_reversed_score_of_matches_is_said_once(punoise, tmp_path):
    table = pin_table()
    table["bad"] = -table["xcorr"]
    table.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    given = [tmp_path / "t.tsv", "--score-column", "bad", "--out-dir", tmp_path / "o"]
    said = punoise("matches", *given).err
    assert said.count("warning:") == 1
    assert "--lower-is-positive" in said
    assert "warning:" not in punoise("matches", *given, "--lower-is-positive").err


# The command


@pytest.fixture
def experiment(tmp_path) -> list[Path]:
    """Two runs with the same scan numbers."""
    paths = [tmp_path / "runs" / name for name in ("b.pin", "a.pin")]
    paths[0].parent.mkdir()
    for seed, path in enumerate(paths):
        write_pin(path, pin_lines(700, seed))
    return paths


def test_matches_are_the_same_in_any_order_of_files_and_workers(experiment, punoise, tmp_path):
    said = punoise("matches", *experiment, "--out-dir", tmp_path / "one").err
    assert "q-value" in said
    punoise("matches", *experiment[::-1], "--threads", 2, "--out-dir", tmp_path / "two")
    punoise("matches", experiment[0].parent, "--out-dir", tmp_path / "three")
    first, *others = (outputs(tmp_path / name) for name in ("one", "two", "three"))
    assert others == [first, first]
    assert {"psms.tsv", "peptides.tsv", "decoys.psms.tsv", "decoys.peptides.tsv"} <= first.keys()
    assert not [path for path in (tmp_path / "one").iterdir() if path.name[0] == "."]


def test_matches_name_the_file_and_list_decoys(experiment, punoise, tmp_path):
    punoise("matches", *experiment, "--out-dir", tmp_path / "out")
    psms, decoys, peptides = (
        [line.split("\t") for line in (tmp_path / "out" / name).read_text().splitlines()]
        for name in ("psms.tsv", "decoys.psms.tsv", "peptides.tsv")
    )
    assert psms[0] == [*psms[0][:5], "file", "run_q-value", "proteinIds"]
    assert {line[5] for line in psms[1:]} == {"a.pin", "b.pin"}
    assert len({(line[0], line[5]) for line in psms[1:]}) == len(psms) - 1
    assert len(psms) + len(decoys) - 2 == 1400  # the best of each spectrum
    assert all(line[4].startswith("K.DECOY") for line in decoys[1:])
    names = [line[4] for line in peptides[1:]]
    assert len(names) == len({*names})  # once for the experiment
    stated = json.loads((tmp_path / "out" / "matches.json").read_text())
    assert [run["name"] for run in stated["runs"]] == ["a.pin", "b.pin"]
    assert stated["levels"]["psms"]["decoys"] == len(decoys) - 1


def test_text_tables_of_matches_give_the_results_of_a_pin_file(punoise, tmp_path):
    lines = pin_lines()
    write_pin(tmp_path / "a.pin", lines)
    punoise("matches", tmp_path / "a.pin", "--out-dir", tmp_path / "pin")
    table = pin_table()
    table["decoy"] = (table.pop("Label") == -1).astype(int)
    table.drop(columns="CalcMass").to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    proteins = ("--protein-column", "Proteins")
    punoise("matches", tmp_path / "a.tsv", *ROLES, *proteins, "--out-dir", tmp_path / "tsv")
    both = [(tmp_path / kind / "psms.tsv").read_text().splitlines() for kind in ("pin", "tsv")]
    first, second = ([line.split("\t")[:5] for line in lines] for lines in both)
    assert first == second
    assert len((tmp_path / "tsv" / "proteins.tsv").read_text().splitlines()) > 100


def test_kept_columns_are_in_all_tables(experiment, punoise, tmp_path):
    given = ["--keep-columns", "xcorr", "--out-dir", tmp_path / "out"]
    punoise("matches", *experiment, *given)
    for name in ("psms", "decoys.peptides"):
        header, first, *_ = (tmp_path / f"out/{name}.tsv").read_text().splitlines()
        place = header.split("\t").index("xcorr")
        source = next(p for p in experiment if p.name in first.split("\t"))
        (line,) = (x for x in source.read_text().splitlines() if x.startswith(first.split("\t")[0]))
        column = source.read_text().split("\n", 1)[0].split("\t").index("xcorr")
        assert first.split("\t")[place] == line.split("\t")[column]
    header, *lines = pin_lines(30)
    write_pin(tmp_path / "own.pin", [header.replace("deltaCn", "score"), *lines])
    punoise("matches", tmp_path / "own.pin", given[0], "score", *given[2:], expect=2)


def test_tables_are_sorted_by_score_in_bounded_memory(experiment, punoise, tmp_path, monkeypatch):
    outputs = []
    for ranks in (levels.RANKS, 100):
        monkeypatch.setattr(levels, "RANKS", ranks)
        punoise("matches", *experiment, "--out-dir", tmp_path / str(ranks))
        outputs.append({p.name: p.read_text() for p in (tmp_path / str(ranks)).glob("*.tsv")})
    assert outputs[0] == outputs[1]
    for text in outputs[0].values():
        scores = [float(line.split("\t")[1]) for line in text.splitlines()[1:]]
        assert len(scores) > 100
        assert scores == sorted(scores, reverse=True)


def test_the_report_of_matches_has_the_counts_of_the_files(experiment, punoise, tmp_path):
    said = punoise("matches", *experiment, "--out-dir", tmp_path / "out").err
    page = (tmp_path / "out/report.html").read_text()
    answer, runs = section(page, "answer"), section(page, "runs")
    document = json.loads((tmp_path / "out/matches.json").read_text())
    for name, shown in (("psms", "PSMs"), ("peptides", "peptides")):
        lines = (tmp_path / f"out/{name}.tsv").read_text().splitlines()[1:]
        accepted = sum(float(line.split("\t")[2]) <= 0.01 for line in lines)
        assert accepted > 0
        assert f"{accepted:,} {shown} with" in answer
        assert re.search(rf"{name} +{accepted:,} at 1%", said)
        targets, decoys = (document["levels"][name][kind] for kind in ("targets", "decoys"))
        assert f"of {targets:,} targets; {decoys:,} decoys" in answer
    assert len(document["runs"]) == len(experiment)
    for run in document["runs"]:
        counts = " ".join(f"{run[key]:,}" for key in ("accepted", "targets", "decoys"))
        assert f"{run['name']} {counts}" in runs
    drawn = data_of(page)
    at_1 = [row for row in drawn["q-values"]["datasets"]["rows"] if row["q_value"] == 0.01]
    assert [row["accepted"] for row in at_1] == [
        dict(document["levels"][name]["accepted"])[0.01] for name in ("psms", "peptides")
    ]
    targets = sum(row["targets"] for row in drawn["targets-decoys"]["datasets"]["rows"])
    assert targets == document["levels"]["psms"]["targets"]


def test_a_stored_model_scores_a_new_file_in_one_command(experiment, punoise, tmp_path):
    new, old = experiment
    punoise("matches", old, "--out-dir", tmp_path / "old")
    model = ["--model", tmp_path / "old" / "model.punoise"]
    punoise("matches", *model, new, "--out-dir", tmp_path / "new")
    stated = json.loads((tmp_path / "new" / "matches.json").read_text())
    accepted = dict(map(tuple, stated["levels"]["psms"]["accepted"]))[0.01]
    assert 250 < accepted < 400  # 350 are correct
    assert not (tmp_path / "new" / "model.punoise").exists()
    assert not stated["warnings"]
    again = punoise("matches", *model, old, "--out-dir", tmp_path / "again").err
    assert "[training-rows-scored]" in again


def test_groups_have_q_values_of_their_own(experiment, punoise, tmp_path):
    punoise("matches", *experiment, "--by", "charge", "--out-dir", tmp_path / "out")
    stated = json.loads((tmp_path / "out" / "matches.json").read_text())
    assert [group["name"] for group in stated["groups"]] == ["0", "1", "2"]
    header = (tmp_path / "out" / "psms.tsv").read_text().split("\n", 1)[0].split("\t")
    assert header[-2:] == ["group", "proteinIds"]
    rare = [line.replace("\t2\tK.", "\t9\tK.", i < 30) for i, line in enumerate(pin_lines(700, 5))]
    write_pin(tmp_path / "rare.pin", rare)
    given = ["matches", tmp_path / "rare.pin", "--by", "charge", "--out-dir", tmp_path / "rare"]
    assert "few-decoys" in punoise(*given).err
    out = tmp_path / "by_id"
    refused = punoise("matches", *experiment, "--by", "SpecId", "--out-dir", out, expect=3)
    assert "SpecId" in refused.err
    assert not (out / "psms.tsv").exists()


# What the guide shows


def guide_command(start: str) -> list[str]:
    """The words of the command in the guide that begins so."""
    page = (Path(__file__).parents[2] / "docs" / "proteomics.md").read_text()
    blocks = re.findall(r"```\n(.*?)```", page, re.DOTALL)
    (command,) = (block for block in blocks if block.startswith(start))
    return shlex.split(command.replace("\\\n", " "))[1:]


def test_the_guide_reads_a_report_of_dia_nn(punoise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(1), 1200
    decoy = np.arange(n) % 2
    correct = (decoy == 0) & (rng.random(n) < 0.5)
    columns = ("Evidence", "Mass.Evidence", "Quantity.Quality", "RT", "Predicted.RT")
    features = {name: rng.normal(size=n) + 2 * correct for name in columns}
    pair = np.arange(n) // 2
    names = {"Run": np.where(pair < 300, "a", "b"), "Precursor.Id": [f"PEP{i}2" for i in pair]}
    names["Stripped.Sequence"] = np.where(decoy, "DEC", "PEP") + pair.astype(str).astype(object)
    report = pd.DataFrame({**names, "Decoy": decoy, **features, "Q.Value": decoy / 2})
    report.to_parquet("report.parquet")
    punoise(*guide_command("punoise matches report.parquet"))
    stated = json.loads((tmp_path / "results" / "matches.json").read_text())
    psms = stated["levels"]["psms"]
    assert psms["targets"] + psms["decoys"] == n // 2  # a target competes with its decoy
    assert 200 < dict(map(tuple, psms["accepted"]))[0.01] < 330  # of some 300 correct ones


def test_the_guide_finds_the_fdr_without_decoys(punoise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)

    def table(correct: np.ndarray, name: str) -> pd.DataFrame:
        features = {f"x{i}": rng.normal(size=len(correct)) + 2 * correct for i in range(4)}
        ids = [f"{name}{i}" for i in range(len(correct))]
        return pd.DataFrame({"psm": ids, "peptide": ids, **features})

    correct = rng.random(3000) < 0.4
    table(np.ones(300, bool), "known").to_csv("confirmed.tsv", sep="\t", index=False)
    table(correct, "m").to_csv("all_matches.tsv", sep="\t", index=False)
    punoise(*guide_command("punoise run --labeled confirmed.tsv"))
    found = pd.read_parquet(tmp_path / "results" / "posterior.parquet")
    found = found[found["id"].str.startswith("m")].set_index("id")
    wrong = ~correct[found.index.str[1:].astype(int)]
    accepted = (found["fdr"] <= 0.05).to_numpy()
    assert accepted.sum() > 600
    assert wrong[accepted].mean() < 0.1
