"""Peptide-spectrum matches: .pin files, competition, PEPs and q-values, roll-up, decoys."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import call_quietly
from searches import HEADER, pin_lines

from pu_noise_cli.errors import InputError
from pu_noise_cli.proteomics import pin as pin_tables
from pu_noise_cli.proteomics.matches import Matches, check_decoys, q_values
from pu_noise_cli.score.classifiers import CLASSIFIERS, Training, set_apart
from pu_noise_cli.score.training import discriminating_features
from pu_noise_cli.tables.reading import open_table

COLUMNS = ["PSMId", "score", "q-value", "posterior_error_prob", "peptide", "file", "proteinIds"]


@pytest.fixture
def pin(tmp_path) -> str:
    path = tmp_path / "psms.pin"
    path.write_text("\n".join(pin_lines()) + "\n")
    return str(path)


def read(path: str, columns: list[str], coded: str | None = None) -> dict[str, list[str]]:
    table = open_table(path)
    rows: dict[str, list[str]] = {column: [] for column in columns}
    for batch in table.batches(columns, coded=coded):
        for column in columns:
            rows[column] += batch.rows[column].to_pylist()
    return rows


# Reading


@pytest.mark.parametrize("block", [100, 1 << 19])
def test_text_of_a_pin_file_that_is_not_utf8_is_found(block, tmp_path, monkeypatch):
    monkeypatch.setattr(pin_tables, "BLOCK_BYTES", block)
    lines = "\n".join(pin_lines(20)).encode().split(b"\n")
    lines[2 + 16] = lines[2 + 16].replace(b"K.", b"\xe9.")
    (tmp_path / "a.pin").write_bytes(b"\n".join(lines))
    with pytest.raises(InputError, match="row 17 is not UTF-8"):
        read(str(tmp_path / "a.pin"), ["Peptide"])


@pytest.mark.parametrize("block", [100, 1 << 19])
def test_a_pin_file_is_read_in_any_blocks(block, tmp_path, monkeypatch):
    monkeypatch.setattr(pin_tables, "BLOCK_BYTES", block)
    lines = pin_lines(20)
    path = tmp_path / "a.pin.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))  # the last line has no end
    assert open_table(str(path)).columns == (*HEADER, "Peptide", "Proteins")
    found = read(str(path), ["Proteins", "Label", "xcorr"], coded="Label")
    fields = [line.split("\t") for line in lines[2:]]
    assert found["Proteins"] == ["\t".join(f[9:]) for f in fields]
    assert found["xcorr"] == [f[5] for f in fields]
    assert found["Label"] == ["labeled" if f[1] == "-1" else "unlabeled" for f in fields]
    assert read(str(path), ["Label"])["Label"] == [f[1] for f in fields]  # as written


def test_what_is_wrong_with_a_pin_file_is_said(punoise, tmp_path):
    path = tmp_path / "a.pin"

    def refused(lines: list[str], code: int = 3) -> str:
        path.write_text("\n".join(lines) + "\n")
        command = ("run", "--table", path, "--out-dir", tmp_path / "out")
        return punoise(*command, expect=code).err

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


def test_pins_are_known_by_name_or_by_option(pin, punoise, tmp_path):
    (tmp_path / "psms.dat").write_bytes(Path(pin).read_bytes())
    by_name = punoise("estimate-prior", "--table", pin).prior
    by_option = punoise(
        "estimate-prior", "--table", tmp_path / "psms.dat", "--input-format", "pin"
    ).prior
    assert by_name == by_option
    assert (by_name["labeled_are"], by_name["method"]) == ("negatives", "target-decoy")
    assert by_name["beta"] == 1
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.pin").write_bytes(Path(pin).read_bytes())
    assert punoise("estimate-prior", "--table", tmp_path / "folder").prior == by_name


# A run


@pytest.fixture(scope="session")
def ran(shared) -> tuple[Path, pd.DataFrame]:
    """What a run writes of the matches, and its table of them."""

    def fill(folder: Path) -> None:
        (folder / "psms.pin").write_text("\n".join(pin_lines()) + "\n")
        call_quietly("run", "--table", folder / "psms.pin", "--out-dir", folder / "out")

    out = shared("psms", fill) / "out"
    lines = (out / "psms.tsv").read_text().splitlines()
    psms = pd.DataFrame([line.split("\t", 6) for line in lines[1:]], columns=lines[0].split("\t"))
    return out, psms.astype(dict.fromkeys(COLUMNS[1:4], float))


def test_a_report_of_a_run_on_matches_has_the_warnings_of_the_run(ran, punoise, tmp_path):
    out, _ = ran
    files = ["--scores", out / "scores.parquet", "--prior", out / "prior.json"]
    assert "posterior-mean-off" not in punoise("report", *files, "--out", tmp_path / "r.html").err


def test_new_matches_have_the_ids_of_the_file(ran, punoise, pin, tmp_path):
    out, _ = ran
    scores = tmp_path / "new.tsv"
    punoise("score", "--model", out / "model.punoise", "--table", pin, "--out", scores)
    known = pd.read_parquet(out / "scores.parquet").id
    assert sorted(pd.read_csv(scores, sep="\t").id) == sorted(known)


def test_a_lab_types_one_command(ran, punoise, pin, tmp_path):
    out, psms = ran
    posterior = pd.read_parquet(out / "posterior.parquet")
    prior = json.loads((out / "prior.json").read_text())
    assert list(psms.columns) == COLUMNS
    assert len(posterior) == 3000  # no row is lost
    best = posterior[posterior["q_value"].notna()]
    assert len(best) == 1500  # one of each spectrum
    assert set(best["id"].str.extract(r"s(\d+)_")[0].astype(int)) == set(range(1500))
    assert np.allclose(best["pep"], 1 - best["posterior"], atol=1e-12)
    targets = best[best["set"] == "unlabeled"].set_index("id")
    assert list(psms["score"]) == sorted(psms["score"], reverse=True)
    assert sorted(psms["PSMId"]) == sorted(targets.index)
    assert np.allclose(psms["q-value"], targets.loc[psms["PSMId"], "q_value"])
    decoys = (best["set"] == "labeled").sum()
    assert prior["alpha"] == pytest.approx(1 - decoys / len(targets))
    assert (prior["n_labeled"], prior["n_unlabeled"]) == (decoys, len(targets))
    ordered = psms.sort_values("score", ascending=False, kind="stable")
    assert (np.diff(ordered["q-value"]) >= 0).all()
    assert ordered["q-value"].nunique() == ordered["score"].nunique()  # no other ties
    assert (np.diff(ordered["posterior_error_prob"]) >= 0).all()
    scan = psms["PSMId"].str.extract(r"s(\d+)_")[0].astype(int)
    accepted = psms["q-value"] <= 0.01
    assert accepted.sum() > 500
    assert (scan[accepted] % 2 == 0).mean() > 0.97  # the correct ones, not their opposite
    assert psms["proteinIds"].str.split("\t").str.len().max() == 3  # as Percolator has them
    result = punoise("run", "--table", pin, "--out-dir", tmp_path / "again", "--threads", 2)
    assert re.search(rf"psms\s+{accepted.sum()} at", result.err)
    for name in ("psms.tsv", "peptides.tsv", "posterior.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()


@pytest.mark.parametrize("extension", ["tsv", "parquet"])
def test_the_commands_one_by_one_give_the_numbers_of_a_run(extension, ran, punoise, pin, tmp_path):
    out, _ = ran
    scores, prior, posterior = (
        tmp_path / name for name in (f"s.{extension}", "prior.json", f"p.{extension}")
    )
    punoise("transform", "--table", pin, "--out", scores)
    punoise("estimate-prior", "--scores", scores, "--out", prior)
    punoise("posterior", "--scores", scores, "--prior", prior, "--out", posterior)
    chained, whole = (json.loads(file.read_text()) for file in (prior, out / "prior.json"))
    numbers = [name for name in whole if name.startswith(("alpha", "beta", "n_"))]
    assert {"alpha", "beta", "alpha_ci", "beta_ci", "n_labeled", "n_unlabeled"} <= {*numbers}
    assert {name: chained[name] for name in numbers} == {name: whole[name] for name in numbers}
    assert (chained["method"], chained["labeled_are"]) == ("target-decoy", "negatives")
    table = pd.read_parquet(posterior) if extension == "parquet" else pd.read_table(posterior)
    columns = ["score", "posterior", "pep", "q_value"]
    expected = pd.read_parquet(out / "posterior.parquet")[columns]
    pd.testing.assert_frame_equal(table[columns], expected, check_exact=True)


def test_peptides_have_their_own_q_values(ran):
    out, psms = ran
    lines = [line.split("\t", 6) for line in (out / "peptides.tsv").read_text().splitlines()]
    peptides = pd.DataFrame(lines[1:], columns=lines[0]).set_index("peptide")
    best = psms.sort_values("score").drop_duplicates("peptide", keep="last").set_index("peptide")
    assert sorted(peptides.index) == sorted(best.index)
    assert (peptides["PSMId"] == best.loc[peptides.index, "PSMId"]).all()
    same = best.loc[peptides.index, "q-value"].to_numpy()
    assert (peptides["q-value"].astype(float).to_numpy() != same).mean() > 0.9


def test_decoys_without_proteins_of_their_own_are_bad_input(punoise, tmp_path):
    head, default, *lines = pin_lines()
    rows = [[*line.split("\t")[: len(HEADER) + 1], "one protein"] for line in lines]
    path = tmp_path / "psms.pin"
    path.write_text("\n".join([head, default, *("\t".join(row) for row in rows)]) + "\n")
    options = ["--protein-column", "Proteins", "--out-dir", tmp_path / "results"]
    result = punoise("run", "--table", path, *options, expect=3)
    assert "proteins" in result.err


def test_other_tables_of_matches_give_the_same(ran, punoise, tmp_path):
    out, _ = ran
    fields = [line.split("\t", 9) for line in pin_lines()]
    table = pd.DataFrame(fields[2:], columns=fields[0])
    table["Label"] = (table["Label"] == "-1").astype(int)
    table["Proteins"] = table["Proteins"].str.replace("\t", ";")
    table.drop(columns="CalcMass").to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    options = ["--table", tmp_path / "t.tsv", "--label-column", "Label", "--id-column", "SpecId"]
    options += ["--group-column", "ScanNr", "--labeled-are", "negatives"]
    options += ["--spectrum-columns", "ScanNr,ExpMass", "--peptide-column", "Peptide"]
    options += ["--protein-column", "Proteins", "--out-dir", tmp_path / "other"]
    punoise("run", *options)
    for name in ("psms.tsv", "peptides.tsv"):
        theirs = (out / name).read_text().splitlines()
        ours = (tmp_path / "other" / name).read_text().splitlines()
        assert [line.split("\t")[:5] for line in ours] == [line.split("\t")[:5] for line in theirs]
    assert len((tmp_path / "other" / "proteins.tsv").read_text().splitlines()) > 100


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--labeled-are", "positives"], "decoys"),
        (["--shards"], "shards"),
        (["--by", "Peptide"], "--by"),
        (["--target-alpha", "0.1"], "--target-alpha"),
        (["--purity", "0.2"], "--purity"),
    ],
)
def test_what_does_not_go_with_a_pin_file(options, said, pin, punoise, tmp_path):
    error = punoise("run", "--table", pin, "--out-dir", tmp_path / "out", *options, expect=2).err
    assert said in error


def test_labels_of_a_pin_file_are_not_passed_over(pin, punoise, tmp_path):
    given = ("run", "--labeled", pin, "--unlabeled", pin, "--out-dir", tmp_path / "out")
    assert "decoys" in punoise(*given, expect=2).err


def test_targets_and_decoys_in_files_of_their_own_compete(pin, punoise, tmp_path):
    header, *lines = Path(pin).read_text().splitlines(keepends=True)
    lines = [line for line in lines if not line.startswith("DefaultDirection")]
    for name, label in (("decoys", "-1"), ("targets", "1")):
        mine = [line for line in lines if line.split("\t")[1] == label]
        (tmp_path / f"{name}.pin").write_text("".join([header, *mine]))
    common = ("--score-column", "xcorr", "--out")
    given = ["--labeled", tmp_path / "decoys.pin", "--unlabeled", tmp_path / "targets.pin"]
    given += ["--labeled-are", "negatives"]
    punoise("estimate-prior", *given, *common, tmp_path / "apart.json")
    punoise("estimate-prior", "--table", pin, *common, tmp_path / "whole.json")
    apart, whole = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("apart", "whole"))
    assert [apart[k] for k in ("n_labeled", "alpha")] == [whole[k] for k in ("n_labeled", "alpha")]
    (tmp_path / "more").mkdir()
    for part in "ab":
        (tmp_path / "more" / f"{part}.pin").write_text((tmp_path / "decoys.pin").read_text())
    given[1] = f"{tmp_path}/more/*.pin"
    said = punoise("estimate-prior", *given, *common, tmp_path / "x.json", expect=2).err
    assert "scan numbers" in said


def test_matches_have_no_groups_in_a_prior_either(pin, punoise, tmp_path):
    by = ("--by", "Peptide", "--groups-out", tmp_path / "groups.tsv")
    assert "--by" in punoise("estimate-prior", "--table", pin, *by, expect=2).err


def test_what_does_not_go_without_matches(punoise, tables, tmp_path, scores):
    out = ["--out-dir", tmp_path / "out"]
    assert (
        "--labeled-are negatives"
        in punoise("run", *tables, *out, "--spectrum-columns", "a", expect=2).err
    )
    assert (
        "--spectrum-columns" in punoise("run", *tables, *out, "--peptide-column", "a", expect=2).err
    )
    counting = ("--method", "target-decoy")
    assert "spectrum" in punoise("run", *tables, *out, *counting, expect=2).err
    for unused in ("--spectrum-columns", "--labeled-value"):
        given = ("--scores", scores, unused, "a")
        assert unused in punoise("estimate-prior", *given, expect=2).err


# Competition and q-values


def matches(score, labeled, spectrum=None) -> Matches:
    n = len(score)
    keys = {"spectrum": np.arange(n, dtype=np.uint64) if spectrum is None else spectrum}
    return Matches(np.arange(n), np.asarray(score, float), np.asarray(labeled, bool), keys)


def test_the_best_of_each_spectrum_stands_for_it():
    spectrum = np.array([7, 7, 3, 3, 3, 9], np.uint64)
    found = matches([0.1, 0.9, 0.5, 0.2, 0.4, 0.3], [1, 0, 0, 1, 1, 1], spectrum).best("spectrum")
    assert list(found.row) == [1, 2, 5]
    tied = matches(np.zeros(20_000), np.arange(20_000) % 2, np.arange(20_000, dtype=np.uint64) // 2)
    assert tied.best("spectrum").labeled.mean() == pytest.approx(0.5, abs=0.02)  # by lot


def test_q_values_count_decoys():
    score = [10, 9, 8, 7, 6, 5, 4, 3]
    found = q_values(matches(score, [0, 0, 0, 0, 1, 0, 0, 1]), 1.0)
    # before the first decoy (0 + 1) / 4, after it (1 + 1) / 6
    assert found[3] == pytest.approx(1 / 4)
    assert found[6] == pytest.approx(2 / 6)
    assert (np.diff(found) >= 0).all()
    assert len(set(found[:4])) == 4
    tied = q_values(matches([5, 5, 5, 1], [0, 0, 1, 0]), 1.0)
    assert len(set(tied[:3])) == 1


@pytest.mark.parametrize("correct", [400, 20_000])
def test_q_values_hold_what_they_say(correct):
    rng = np.random.default_rng(5)
    rates = []
    for _ in range(100):
        wrong, decoys = rng.poisson(4000), rng.poisson(4000)
        score = np.concatenate([rng.normal(3.5, 1, correct), rng.normal(size=wrong + decoys)])
        labeled = np.arange(len(score)) >= correct + wrong
        accepted = ~labeled & (q_values(matches(score, labeled), 1.0) <= 0.01)
        rates.append(accepted[correct:].sum() / max(accepted.sum(), 1))
    assert 0.008 < np.mean(rates) < 0.0115


# Decoys


def test_decoys_that_can_be_told_from_wrong_targets_are_told_of():
    rng = np.random.default_rng(3)
    labeled = np.arange(9000) >= 5000
    fair = matches(rng.normal(size=9000) + 3 * (np.arange(9000) < 1000), labeled)
    assert check_decoys(fair, ("x",)) == ()
    unfair = matches(fair.score - 0.3 * labeled, labeled)
    (notice,) = check_decoys(unfair, ("x", "y"))
    assert notice.code == "decoys-not-typical"
    assert "--drop-columns x,y" in notice.message


def test_the_features_that_tell_decoys_are_named():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(6000, 3)).astype(np.float32)
    labeled = np.arange(6000) < 3000
    x[labeled, 1] += 0.5
    x[5000:, 0] += 4  # correct targets, which do not count
    scores = 1 / (1 + np.exp(x[:, 0].astype(float)))
    training = Training(x, labeled)
    assert discriminating_features(training, scores, ["a", "b", "c"]) == ("b",)


@pytest.mark.usefixtures("full_training")
def test_the_second_round_learns_from_what_the_first_set_apart():
    rng = np.random.default_rng(6)
    labeled = np.arange(4000) < 1500
    x = rng.normal(size=(4000, 4)).astype(np.float32)
    x[3000:] += 1.5  # of the 2,500 unlabeled rows, 1,500 are as the labeled ones are
    fits = {
        name: CLASSIFIERS[name](Training(x, labeled), seed=0, threads=1, progress=lambda _: None)
        for name in ("networks", "semi-supervised")
    }
    apart = set_apart(fits["networks"].scores, labeled)
    assert not (apart & labeled).any()
    assert apart[3000:].mean() > 0.5 > 0.1 > apart[:3000].mean()
    wrong, right = fits["semi-supervised"].scores[1500:3000], fits["semi-supervised"].scores[3000:]
    # rows that it did not learn from score as labeled ones do
    assert abs((wrong > np.median(fits["semi-supervised"].scores[:1500])).mean() - 0.5) < 0.05
    assert (right[:, None] < wrong).mean() > 0.97


def test_bounds_of_matches_enclose_the_posteriors_of_run(punoise, pin, tmp_path):
    out = tmp_path / "out"
    punoise("run", "--table", pin, "--score-column", "xcorr", "--out-dir", out)
    source = ("--scores", out / "scores.parquet", "--prior", out / "prior.json")
    punoise("posterior", *source, "--bounds", "--out", tmp_path / "p.parquet")
    found = pd.read_parquet(tmp_path / "p.parquet")
    pd.testing.assert_series_equal(
        found["posterior"], pd.read_parquet(out / "posterior.parquet")["posterior"]
    )
    known = found[found["posterior"].notna()]
    assert (known["posterior_low"] <= known["posterior"]).all()
    assert (known["posterior"] <= known["posterior_high"]).all()
    assert (known["posterior_high"] - known["posterior_low"]).max() > 0.01
