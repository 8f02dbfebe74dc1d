"""Directories that a stranger prepared, or that an earlier run left; and signals of all kinds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

FAST = ("--classifier", "logistic")
RESULTS = {"scores.parquet", "posterior.parquet", "model.punoise", "report.html", "provenance.json"}
RESULTS |= {"candidates.tsv", "columns.tsv", "labels_to_check.tsv"}


@pytest.fixture
def parquet(frames, tmp_path) -> list[str]:
    """The options that name the small tables as Parquet files."""
    options = list(FAST)
    for frame, name in zip(frames, ("labeled", "unlabeled"), strict=True):
        frame.to_parquet(tmp_path / f"{name}.parquet")
        options += [f"--{name}", str(tmp_path / f"{name}.parquet")]
    return options


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a directory, by its path in it."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


# ---- Links out of the directory


@pytest.mark.parametrize("name", ["scores", "posterior"])
@pytest.mark.parametrize("options", [[], ["--shards"], ["--on-failure", "write"]])
def test_a_linked_directory_of_shards_is_not_followed(name, options, parquet, punoise, tmp_path):
    out, victim = tmp_path / "out", tmp_path / "victim"
    punoise("run", *parquet, "--shards", "--out-dir", out)
    (out / name).rename(victim)
    (out / name).symlink_to(victim, target_is_directory=True)
    state(out, complete=False)
    before = content(victim)
    refused = 2 if options == ["--shards"] else 0
    fails = ["--drop-columns", "none"] if "--on-failure" in options else []
    punoise("run", *parquet, "--seed", "1", *options, *fails, "--out-dir", out, expect=refused)
    assert content(victim) == before


def test_a_planted_provenance_removes_nothing_outside(parquet, punoise, tmp_path):
    out, victim = tmp_path / "out", tmp_path / "victim"
    punoise("run", *parquet, "--shards", "--out-dir", out)
    shutil.move(out / "scores", victim)
    (out / "scores").symlink_to(victim, target_is_directory=True)
    before = content(victim)
    punoise("run", *parquet, "--out-dir", out)
    assert content(victim) == before


# ---- Provenances


def state(out: Path, **changes: object) -> None:
    """Change what a provenance says."""
    name = out / "provenance.json"
    name.write_text(json.dumps(json.loads(name.read_text()) | changes))


def test_an_incomplete_provenance_removes_no_other_files(tables, punoise, tmp_path):
    out = tmp_path / "out"
    punoise("run", *tables, *FAST, "--out-dir", out)
    mine = [tmp_path / "victim", out / "notes.txt", out / "scores" / "notes.txt"]
    mine[2].parent.mkdir()
    for path in mine:
        path.write_text("mine")
    names = ["../victim", "notes.txt", "scores/notes.txt", "scores/../notes.txt", str(mine[0])]
    state(out, complete=False, files=dict.fromkeys(names, "0" * 64))
    punoise("run", *tables, *FAST, "--format", "tsv", "--out-dir", out)
    assert [path.read_text() for path in mine] == ["mine"] * 3


@pytest.mark.parametrize("kind", ["pipe", "brackets", "other"])
def test_a_provenance_that_is_none_stops_no_reader(kind, results, punoise, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(results, out)
    provenance = out / "provenance.json"
    provenance.unlink()
    if kind == "pipe":
        os.mkfifo(provenance)
    else:
        provenance.write_text({"brackets": "[" * 200_000, "other": '{"complete": false}'}[kind])
    read = ["posterior", "--scores", out / "scores.parquet", "--prior", out / "prior.json"]
    punoise(*read, "--out", "-")


@pytest.mark.parametrize(
    "words",
    [
        ("summarize", "prior.json"),
        ("report", "--scores", "scores.parquet", "--prior", "prior.json"),
        ("posterior", "--scores", "scores.parquet", "--prior", "prior.json"),
        ("estimate-prior", "--scores", "scores.parquet"),
    ],
    ids=lambda words: words[0],
)
def test_no_command_reads_files_of_incomplete_results(words, results, punoise, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(results, out)
    state(out, complete=False)
    given = [out / word if "." in word else word for word in words]
    assert "is incomplete" in punoise(*given, "--out", tmp_path / "x.tsv", expect=3).err


# ---- What a failed run leaves


def failing(tables: list[str]) -> list[str]:
    quick = () if "--classifier" in tables else FAST
    return [*tables, *quick, "--drop-columns", "none", "--on-failure", "write"]


@pytest.mark.parametrize("form", ["parquet", "tsv"])
def test_a_failure_leaves_no_result_of_an_earlier_run(form, tables, punoise, tmp_path):
    out = tmp_path / "out"
    population = ("--target-alpha", "0.1")
    punoise("calibrate", *tables, *FAST, *population, "--format", form, "--out-dir", out)
    (out / "notes.txt").write_text("mine")
    punoise("run", *failing(tables), "--out-dir", out)
    names = {path.name for path in out.iterdir()}
    assert names == {"prior.json", "provenance.json", "notes.txt"}
    assert json.loads((out / "prior.json").read_text())["alpha"] is None


def test_a_failure_leaves_no_shards_of_an_earlier_run(parquet, punoise, tmp_path):
    out = tmp_path / "out"
    punoise("run", *parquet, "--shards", "--out-dir", out)
    punoise("run", *failing(parquet), "--shards", "--out-dir", out)
    assert {path.name for path in out.iterdir()} == {"prior.json", "provenance.json"}


def test_a_result_that_was_changed_stays_but_is_marked(tables, punoise, tmp_path):
    out = tmp_path / "out"
    punoise("run", *tables, *FAST, "--format", "tsv", "--out-dir", out)
    with open(out / "posterior.tsv", "a") as file:
        file.write("\n")
    punoise("run", *failing(tables), "--out-dir", out)
    prior = json.loads((out / "prior.json").read_text())
    names = {path.name for path in out.iterdir()}
    assert names == {"prior.json", "provenance.json", "posterior.tsv"}
    assert "posterior.tsv" in prior["warnings"][0]["message"]


def test_a_failure_after_a_kill_leaves_no_files_of_two_runs(tables, punoise, tmp_path):
    from test_hardening import killed_among_renames

    out = tmp_path / "out"
    punoise("run", *tables, *FAST, "--out-dir", out)
    killed_among_renames(3, out, *tables, *FAST)
    punoise("run", *failing(tables), "--out-dir", out)
    assert json.loads((out / "prior.json").read_text())["alpha"] is None
    assert {path.name for path in out.iterdir()} == {"prior.json", "provenance.json"}
    punoise("run", *tables, *FAST, "--out-dir", out)
    assert {path.name for path in out.iterdir()} == {*RESULTS, "prior.json"}


@pytest.mark.parametrize("options", [[], ["--shards"]])
@pytest.mark.parametrize("exists", [False, True])
def test_an_error_leaves_directories_as_they_were(exists, options, frames, punoise, tmp_path):
    labeled, unlabeled = frames
    labeled.head(5).to_parquet(tmp_path / "few.parquet")
    unlabeled.to_parquet(tmp_path / "u.parquet")
    pair = ("--labeled", tmp_path / "few.parquet", "--unlabeled", tmp_path / "u.parquet", *FAST)
    out = tmp_path / "deep" / "out"
    if exists:
        out.mkdir(parents=True)
    punoise("run", *pair, *options, "--out-dir", out, expect=3)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_dir()}
    assert left == ({"deep", "deep/out"} if exists else set())


def test_an_error_leaves_no_directory_of_shards(frames, punoise, tmp_path):
    frames[0].head(5).to_parquet(tmp_path / "few.parquet")
    frames[1].to_parquet(tmp_path / "u.parquet")
    pair = ("--labeled", tmp_path / "few.parquet", "--unlabeled", tmp_path / "u.parquet", *FAST)
    punoise("transform", *pair, "--out", f"{tmp_path}/new/", expect=3)
    assert not (tmp_path / "new").exists()
    (tmp_path / "mine").mkdir()
    punoise("transform", *pair, "--out", f"{tmp_path}/mine/", expect=3)
    assert (tmp_path / "mine").exists()


# ---- Signals

SLOW = """
import os, sys, threading, time
from pu_noise_cli import pipeline
from pu_noise_cli.cli import process
def wait(*args, **more):
    print("ready", flush=True)
    time.sleep(60)
pipeline.{step} = wait
process.main()
"""


def stopped(number: int, step: str, *words: object) -> int:
    """The exit code of a command that gets a signal when it comes to a step."""
    command = [sys.executable, "-c", SLOW.replace("{step}", step), *map(str, words)]

    def heed() -> None:  # signals that are ignored at start stay ignored
        signal.signal(number, signal.SIG_DFL)

    with subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=heed) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        return process.wait(30)


MORE = ("SIGTERM", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU")


@pytest.mark.parametrize(
    "name",
    ["SIGHUP", *(pytest.param(n, marks=pytest.mark.ci) for n in MORE)],
)
def test_every_signal_that_ends_a_run_cleans_up(name, tables, tmp_path):
    number, out = getattr(signal, name), tmp_path / "deep" / "out"
    code = stopped(number, "estimate", "run", *tables, *FAST, "--out-dir", out)
    assert code == 128 + number
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize(
    "step", ["train", pytest.param("estimate", marks=pytest.mark.ci), "sample_report"]
)
def test_a_signal_among_shards_leaves_the_old_results(step, parquet, punoise, tmp_path):
    out = tmp_path / "out"
    run = ("run", *parquet, "--shards", "--out-dir", out)
    punoise(*run)
    before = content(out)
    assert stopped(signal.SIGTERM, step, *run, "--seed", "1") == 143
    assert content(out) == before
    punoise(*run)
    assert content(out).keys() == before.keys()


# ---- Names and values


def test_a_ragged_row_that_is_not_utf8_is_bad_input(punoise, tmp_path):
    file = tmp_path / "x.pin"
    head = "SpecId\tLabel\tScanNr\tscore\tPeptide\tProteins\n"
    good = "".join(f"s{i}\t{1 - 2 * (i % 2)}\t{i}\t{i}\tAK\tp\n" for i in range(60))
    file.write_bytes(f"{head}{good}".encode() + b"s\xff\t1\t9\n")
    result = punoise("matches", file, "--out-dir", tmp_path / "out", expect=3)
    assert "row 61" in result.err


def test_a_long_code_for_missing_values_ends(tmp_path, punoise):
    """Not after a time that grows with the square of its length."""
    rng = np.random.default_rng(0)
    for name, n in (("l", 100), ("u", 300)):
        frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    pair = ("--labeled", tmp_path / "l.csv", "--unlabeled", tmp_path / "u.csv", *FAST)
    punoise("transform", *pair, "--na", "9" * 8000 + "x", "--out", tmp_path / "s.tsv")
    punoise("transform", *pair, "--na", "9" * 8000, "--out", tmp_path / "s.tsv")


def test_the_names_of_levels_turn_no_text_around(tables, punoise, tmp_path):
    level = {"name": "x", "code": "\u202eevil", "lr": 2}
    rule = {"schema": "punoise.evidence/1", "levels": [level]}
    (tmp_path / "rule.json").write_text(json.dumps(rule))
    graded = ("--evidence", tmp_path / "rule.json", "--out-dir", tmp_path / "out")
    punoise("calibrate", *tables, *FAST, *graded)
    body = (tmp_path / "out/report.html").read_text().split("<body>")[1].split("<script")[0]
    assert "\\u202eevil" in body
    assert "\u202e" not in body
