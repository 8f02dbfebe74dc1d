"""`matches`: what a lab types, what comes out of it, and what other commands refuse."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from conftest import call_quietly
from searches import HEADER, pin_lines

COLUMNS = ["PSMId", "score", "q-value", "posterior_error_prob", "peptide", "file", "run_q-value"]


@pytest.fixture
def pin(tmp_path) -> str:
    path = tmp_path / "psms.pin"
    path.write_text("\n".join(pin_lines()) + "\n")
    return str(path)


def test_what_is_wrong_with_a_pin_file_is_said(punoise, tmp_path):
    path = tmp_path / "a.pin"

    def refused(lines: list[str], code: int = 3) -> str:
        path.write_text("\n".join(lines) + "\n")
        return punoise("matches", path, "--out-dir", tmp_path / "out", expect=code).err

    lines = pin_lines(30)
    odd = [*lines]
    odd[5] = odd[5].replace("\t-1\t", "\t2\t").replace("\t1\t", "\t2\t", 1)
    assert "'2' in row 4" in refused(odd)
    short = [*lines[:6], "s\t1\t2", *lines[6:]]
    assert "row 5 has 3 values" in refused(short)
    assert "decoys (Label -1): only 0 labeled rows" in refused(
        [x for x in lines if "\t-1\t" not in x]
    )
    without = [lines[0].replace("ScanNr", "Scan"), *lines[2:]]
    assert "no column ScanNr" in refused(without)


@pytest.mark.parametrize("name", ["a.pin", "a.pin.gz"])
@pytest.mark.parametrize(
    "command",
    [
        ("run", "--labeled", "{}", "--unlabeled", "{}", "--out-dir", "out"),
        ("run", "--table", "{}", "--out-dir", "out"),
        ("calibrate", "--table", "{}", "--out-dir", "out"),
        ("transform", "--table", "{}", "--label-column", "Label", "--out", "out"),
        ("estimate-prior", "--table", "{}", "--out", "out"),
        ("score", "--model", "model.punoise", "--table", "{}", "--out", "out"),
        ("posterior", "--scores", "{}", "--alpha", "0.2", "--out", "out"),
    ],
    ids=" ".join,
)
def test_only_matches_takes_a_pin_file(command, name, results, punoise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(results / "model.punoise", tmp_path)
    content = "\n".join(pin_lines(30)).encode()
    Path(name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert "matches" in punoise(*(word.format(name) for word in command), expect=2).err
    assert not Path("out").exists()


# PSMs and peptides


@pytest.fixture(scope="session")
def ran(shared) -> tuple[Path, pd.DataFrame]:
    """What `matches` writes of a search, and its table of PSMs."""

    def fill(folder: Path) -> None:
        (folder / "psms.pin").write_text("\n".join(pin_lines()) + "\n")
        call_quietly("matches", folder / "psms.pin", "--out-dir", folder / "out")

    out = shared("psms", fill) / "out"
    return out, level(out / "psms.tsv")


def level(path: Path) -> pd.DataFrame:
    """A table of matches, whose last column is ragged."""
    header, *lines = path.read_text().splitlines()
    names = header.split("\t")
    table = pd.DataFrame([line.split("\t", len(names) - 1) for line in lines], columns=names)
    return table.astype(dict.fromkeys(["score", "q-value", "posterior_error_prob"], float))


def test_psms_are_the_best_matches_of_their_spectra(ran, punoise, pin, tmp_path):
    out, psms = ran
    decoys = level(out / "decoys.psms.tsv")
    assert list(psms.columns) == list(decoys.columns) == [*COLUMNS, "proteinIds"]
    scans = [table["PSMId"].str.extract(r"s(\d+)_")[0].astype(int) for table in (psms, decoys)]
    assert sorted(pd.concat(scans)) == list(range(1500))  # one of each spectrum
    assert psms["score"].is_monotonic_decreasing
    assert psms["q-value"].is_monotonic_increasing
    assert psms["q-value"].nunique() == psms["score"].nunique()  # no other ties
    assert psms["posterior_error_prob"].is_monotonic_increasing
    summary = json.loads((out / "matches.json").read_text())["levels"]["psms"]
    assert (summary["targets"], summary["decoys"]) == (len(psms), len(decoys))
    assert summary["pi0"] == pytest.approx(len(decoys) / len(psms))
    accepted = psms["q-value"] <= 0.01
    assert accepted.sum() > 500
    assert (scans[0][accepted] % 2 == 0).mean() > 0.97  # the correct ones, not their opposite
    assert psms["proteinIds"].str.split("\t").str.len().max() == 3  # as Percolator has them
    result = punoise("matches", pin, "--out-dir", tmp_path / "again", "--threads", 2)
    assert re.search(rf"psms\s+{accepted.sum()} at", result.err)
    for name in ("psms.tsv", "peptides.tsv"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()


def test_peptides_have_their_own_q_values(ran):
    out, psms = ran
    peptides = level(out / "peptides.tsv").set_index("peptide")
    best = psms.sort_values("score").drop_duplicates("peptide", keep="last").set_index("peptide")
    assert sorted(peptides.index) == sorted(best.index)
    assert (peptides["PSMId"] == best.loc[peptides.index, "PSMId"]).all()
    same = best.loc[peptides.index, "q-value"].to_numpy()
    assert (peptides["q-value"].to_numpy() != same).mean() > 0.9


def test_decoys_without_proteins_of_their_own_are_bad_input(punoise, tmp_path):
    head, default, *lines = pin_lines()
    rows = [[*line.split("\t")[: len(HEADER) + 1], "one protein"] for line in lines]
    path = tmp_path / "psms.pin"
    path.write_text("\n".join([head, default, *("\t".join(row) for row in rows)]) + "\n")
    options = ["--protein-column", "Proteins", "--out-dir", tmp_path / "results"]
    result = punoise("matches", path, *options, expect=3)
    assert "proteins" in result.err
