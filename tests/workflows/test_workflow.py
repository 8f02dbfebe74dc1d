"""The example workflow: real Snakemake, MultiQC and, under `make test-slurm`, SLURM."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import needs_slurm

T = TypeVar("T")
EXAMPLE = Path(__file__).parents[2] / "snakemake_example"
BIN = Path(sys.executable).parent
ENV = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PUNOISE_THREADS": "1"}
RUN_FILES = ("results", "logs", "benchmarks", "inputs", ".snakemake")
SLURM = (  # for a cluster that neither keeps accounts nor makes one wait
    *("--profile", "slurm", "--slurm-no-account", "--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"),
    *("--latency-wait", "5"),
)

needs_snakemake = pytest.mark.skipif(
    not (BIN / "snakemake").exists(), reason="Snakemake is not installed: the extra 'workflow'"
)
pytestmark = [needs_snakemake, pytest.mark.ci]


def start(folder: Path, *args: str) -> subprocess.Popen[str]:
    """Snakemake in the folder, as the head of a process group."""
    return subprocess.Popen(
        ["snakemake", "--cores", "2", *args],
        cwd=folder,
        env=ENV,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def snakemake(folder: Path, *args: str) -> None:
    process = start(folder, *args)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output


def copied(folder: Path) -> Path:
    """The example elsewhere, with few rows, a quick classifier and one sample less."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(*RUN_FILES))
    config = {
        "samples": "samples.tsv",
        "transform": "--classifier logistic",
        "estimate_prior": "",
        "posterior": "--fdr 0.1",
        "simulate": {
            "kidney": "--alpha 0.3 --n-labeled 200 --n-unlabeled 400",
            "heart": "--alpha 0.2 --n-labeled 200 --n-unlabeled 400",
            "blank": "--n-labeled 5 --n-unlabeled 400",
        },
    }
    (folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    sheet = (folder / "samples.tsv").read_text().splitlines(keepends=True)
    kept = [line for line in sheet if line.split("\t")[0] in ("sample", *config["simulate"])]
    (folder / "samples.tsv").write_text("".join(kept))
    return folder


def results(folder: Path) -> dict[str, bytes]:
    """All that the workflow is for; times and logs differ from run to run."""
    top = folder / "results"
    files = [path for path in top.rglob("*") if path.is_file()]
    return {str(path.relative_to(top)): path.read_bytes() for path in files}


def read_summary(folder: Path) -> dict[str, dict[str, str]]:
    with open(folder / "results" / "summary.tsv", newline="") as file:
        return {row["sample"]: row for row in csv.DictReader(file, delimiter="\t")}


@pytest.fixture(scope="session")
def undisturbed(shared) -> Path:
    """The example, run once."""
    return shared("snakemake", lambda top: snakemake(copied(top / "example"))) / "example"


def wait_until(true: Callable[[], T], seconds: float = 300) -> T:
    """The first value that is true."""
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
    return value


def test_an_unusable_sample_does_not_stop_the_others(undisturbed):
    expected = {"summary.tsv", "punoise_mqc.json"}
    for sample in ("kidney", "heart", "blank"):
        expected |= {f"{sample}/{f}" for f in ("scores.parquet", "model.punoise", "prior.json")}
    for sample in ("kidney", "heart"):
        expected |= {f"{sample}/{f}" for f in ("posterior.parquet", "report.html")}
    assert set(results(undisturbed)) == expected
    summary = read_summary(undisturbed)
    assert list(summary) == ["kidney", "heart", "blank"]
    assert summary["kidney"]["status"] == summary["heart"]["status"] == "ok"
    assert summary["heart"]["beta"] == "0.99"  # from the sample sheet
    assert 0 < float(summary["kidney"]["alpha"]) < 1
    assert summary["blank"]["status"] == "failed"
    assert summary["blank"]["reason"].startswith("inputs/blank/labeled.csv: only 5 labeled rows")
    assert summary["blank"]["alpha"] == ""


def test_one_table_with_a_label_column(tmp_path):
    folder = copied(tmp_path / "example")
    command = "simulate --out-dir data --n-labeled 200 --n-unlabeled 400"
    subprocess.run(["punoise", *command.split()], cwd=folder, check=True, env=ENV)
    frames = [pd.read_csv(folder / "data" / f"{name}.csv") for name in ("labeled", "unlabeled")]
    both = [frame.assign(ec=label) for frame, label in zip(frames, ("1.1.1.1", ""), strict=True)]
    pd.concat(both).to_csv(folder / "data" / "all.csv", index=False)
    tables = "data/labeled.csv\tdata/unlabeled.csv"
    lines = [f"two\t{tables}\t\t\t", "one\t\t\tdata/all.csv\tec\t*", "few\t\t\tdata/all.csv\tec\tX"]
    sheet = ["sample\tlabeled\tunlabeled\ttable\tlabel_column\tlabeled_value", *lines]
    (folder / "samples.tsv").write_text("\n".join(sheet) + "\n")
    snakemake(folder)
    summary = read_summary(folder)
    assert summary["one"]["alpha"] == summary["two"]["alpha"] != ""
    assert "'X' in column 'ec'" in summary["few"]["reason"]


def test_known_negatives_come_from_the_sample_sheet(tmp_path):
    folder = copied(tmp_path / "example")
    command = "simulate --out-dir data --n-labeled 200 --n-unlabeled 400 --n-negatives 100"
    subprocess.run([BIN / "punoise", *command.split(), "--quiet"], cwd=folder, check=True)
    data = (folder / "data").rename(folder / "my data")
    few = (data / "negatives.csv").read_text().splitlines(keepends=True)[:6]
    (data / "few.csv").write_text("".join(few))
    tables = "my data/labeled.csv\tmy data/unlabeled.csv"
    negatives = {"with": "my data/negatives.csv", "without": "", "few": "my data/few.csv"}
    lines = [f"{sample}\t{tables}\t{name}" for sample, name in negatives.items()]
    sheet = ["sample\tlabeled\tunlabeled\tnegatives", *lines]
    (folder / "samples.tsv").write_text("\n".join(sheet) + "\n")
    config = json.loads((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(json.dumps({**config, "simulate": {}}))
    snakemake(folder)
    summary = read_summary(folder)
    assert [summary[s]["n_negatives"] for s in negatives] == ["100", "", ""]
    assert summary["few"]["reason"].startswith("my data/few.csv: only 5 negative rows")
    (data / "negatives.csv").unlink()
    refused = start(folder)
    assert "my data/negatives.csv" in refused.communicate(timeout=300)[0]
    assert refused.returncode == 1


def test_multiqc_shows_the_samples(undisturbed, tmp_path):
    command = [BIN / "multiqc", undisturbed / "results", "--outdir", tmp_path]
    subprocess.run(command, check=True, env=ENV, capture_output=True)
    with open(tmp_path / "multiqc_data" / "multiqc_general_stats.txt", newline="") as file:
        shown = {row["Sample"]: row for row in csv.DictReader(file, delimiter="\t")}
    assert set(shown) == {"kidney", "heart", "blank"}
    for name, row in read_summary(undisturbed).items():
        for column in ("alpha", "alpha_low", "alpha_high", "beta", "auc", "warnings"):
            (key,) = (key for key in shown[name] if key.endswith(f"punoise-{column}"))
            value, expected = shown[name][key], row[column]
            assert (value == expected) or float(value) == float(expected)
    page = (tmp_path / "multiqc_report.html").read_text()
    assert "Share of positives" in page


@pytest.mark.parametrize("snakefile", ["Snakefile", "shards.smk", "proteomics.smk"])
def test_lint(snakefile, tmp_path):
    folder = copied(tmp_path / "example")
    snakemake(folder, "--snakefile", snakefile, "--lint")


def punoise_job(session: int) -> int | None:
    """The number of a punoise transform that works within a session of Snakemake's."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            if b"transform" in command and os.getsid(int(process.name)) == session:
                return int(process.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return None


def test_killed_and_resumed_it_gives_the_same_bytes(undisturbed, tmp_path):
    folder = copied(tmp_path / "example")
    first = start(folder)
    os.kill(wait_until(lambda: punoise_job(first.pid)), signal.SIGKILL)
    output, _ = first.communicate(timeout=120)
    assert first.returncode != 0, output
    second = start(folder, "--rerun-incomplete")  # now all of it at once, as when the power goes
    wait_until(lambda: punoise_job(second.pid))
    os.killpg(second.pid, signal.SIGKILL)
    second.communicate(timeout=120)
    assert results(folder) != results(undisturbed)
    snakemake(folder, "--unlock")
    snakemake(folder, "--rerun-incomplete")
    assert results(folder) == results(undisturbed)


def test_shards_give_exactly_what_the_whole_table_does(tmp_path):
    folder = copied(tmp_path / "example")
    options = "--classifier logistic --max-train-rows 1000"  # so most rows are not trained on
    snakemake(folder, "--snakefile", "shards.smk", "--config", f"train={options}")
    tables = "--labeled inputs/shards/labeled.csv --unlabeled inputs/shards/unlabeled.csv"
    for command in (
        f"transform {tables} {options} --out scores.parquet",
        "estimate-prior --scores scores.parquet --out prior.json",
        "posterior --scores scores.parquet --prior prior.json --out posterior.parquet",
    ):
        subprocess.run([BIN / "punoise", *command.split(), "--quiet"], cwd=folder, check=True)
    sharded = folder / "results" / "shards"
    assert (sharded / "prior.json").read_bytes() == (folder / "prior.json").read_bytes()
    for name in ("scores", "posterior"):
        files = [sharded / name / "labeled" / "all.parquet"]
        files += [sharded / name / "unlabeled" / f"{shard}.parquet" for shard in "abcd"]
        rows = pa.concat_tables([pq.read_table(file) for file in files])
        assert rows.num_rows == 4500
        assert rows.equals(pq.read_table(folder / f"{name}.parquet"))


@pytest.mark.slurm
@needs_slurm
def test_slurm_gives_the_same_bytes(undisturbed, tmp_path):
    folder = copied(tmp_path / "example")
    first = start(folder, *SLURM)
    running = ["squeue", "--noheader", "--states=R", "--format=%A"]
    job = wait_until(lambda: subprocess.check_output(running, text=True).split())[0]
    subprocess.run(["scancel", "--signal=KILL", "--full", job], check=True)
    output, _ = first.communicate(timeout=300)
    assert first.returncode != 0, output
    snakemake(folder, *SLURM)
    assert results(folder) == results(undisturbed)
