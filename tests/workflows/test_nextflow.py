"""The Nextflow example: real Nextflow and, under `make test-slurm`, SLURM."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import test_workflow as snakemake
from conftest import needs_slurm

from pu_noise_cli import __version__

EXAMPLE = Path(__file__).parents[2] / "nextflow_example"
BIN = Path(sys.executable).parent
ENV = {**snakemake.ENV, "NXF_ANSI_LOG": "false"}
RUN_FILES = ("results", "work", ".nextflow*")
VERSIONS = "punoise_mqc_versions.yml"
LOGISTIC = "--classifier logistic"

undisturbed = snakemake.undisturbed  # the Snakemake example, run once

NEXTFLOW = shutil.which("nextflow", path=ENV["PATH"])
needs_nextflow = pytest.mark.skipif(
    NEXTFLOW is None or shutil.which("java") is None,
    reason="Nextflow is not set up: make example-nextflow (needs Java 17 and Maven)",
)
needs_snakemake = snakemake.needs_snakemake


def start(folder: Path, script: str, *args: object) -> subprocess.Popen[str]:
    """Nextflow in the folder, as the head of a process group."""
    return subprocess.Popen(
        [str(NEXTFLOW), "run", script, *map(str, args)],
        cwd=folder,
        env=ENV,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def nextflow(folder: Path, script: str, *args: object, fails: bool = False) -> str:
    process = start(folder, script, *args)
    output, _ = process.communicate(timeout=300)
    assert (process.returncode != 0) == fails, output
    return output


def copied(folder: Path) -> Path:
    """The example elsewhere, with the settings and the sheet of the Snakemake example's test."""
    other = snakemake.copied(folder.parent / f"{folder.name}_settings")
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(*RUN_FILES))
    shutil.copy(other / "config.yaml", folder / "example.yaml")
    shutil.copy(other / "samples.tsv", folder)
    return folder


EXAMPLE_RUN = ("main.nf", "-params-file", "example.yaml")


@pytest.fixture(scope="session")
def finished(shared) -> Path:
    """The example, run once."""
    run = shared("nextflow", lambda top: nextflow(copied(top / "example"), *EXAMPLE_RUN))
    return run / "example"


def test_versions_agree():
    config = (EXAMPLE / "nextflow.config").read_text()
    assert re.findall(r"punoise[:=]([\d.]+)", config) == [__version__] * 2


@pytest.mark.ci
@needs_nextflow
@needs_snakemake
def test_the_files_are_those_of_snakemake_to_the_byte(finished, undisturbed):
    ours, theirs = snakemake.results(finished), snakemake.results(undisturbed)
    assert ours.pop(VERSIONS).count(__version__.encode()) == 7  # processes
    for name in ("scores.parquet", "model.punoise"):  # an empty file there, none here
        assert theirs.pop(f"blank/{name}") == b""
    assert set(ours) == set(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []
    blank = snakemake.read_summary(finished)["blank"]
    assert blank["status"] == "failed"
    assert blank["reason"].startswith("inputs/blank/labeled.csv: only 5 labeled rows")


@pytest.mark.ci
@needs_nextflow
@needs_snakemake
def test_multiqc_shows_samples_and_versions(finished, tmp_path):
    command = [BIN / "multiqc", finished / "results", "--outdir", tmp_path]
    subprocess.run(command, check=True, env=ENV, capture_output=True)
    data = tmp_path / "multiqc_data"
    rows = (data / "multiqc_general_stats.txt").read_text().splitlines()
    assert {row.split("\t")[0] for row in rows} == {"Sample", "kidney", "heart", "blank"}
    assert __version__ in (data / "multiqc_software_versions.txt").read_text()


@pytest.mark.ci
@needs_nextflow
def test_killed_and_resumed_it_gives_the_same_bytes(finished, tmp_path):
    folder = copied(tmp_path / "example")
    first = start(folder, *EXAMPLE_RUN)
    scores = snakemake.wait_until(lambda: [*folder.glob("results/*/scores.parquet")])[0]
    os.killpg(first.pid, signal.SIGKILL)  # all of it at once, as when the power goes
    first.communicate(timeout=120)
    assert not (folder / "results" / "summary.tsv").exists()
    scores.write_bytes(scores.read_bytes()[:100])  # as if killed while it was copied
    output = nextflow(folder, *EXAMPLE_RUN, "-resume")
    assert "Cached process > PUNOISE_SIMULATE" in output
    assert "Submitted process > SAMPLES:PUNOISE_SUMMARIZE" in output
    assert snakemake.results(folder) == snakemake.results(finished)


SAMPLE = ("scores.parquet", "model.punoise", "prior.json", "posterior.parquet", "report.html")
STUBS = {
    "main.nf": {
        *("summary.tsv", "punoise_mqc.json", VERSIONS),
        *(f"{sample}/{f}" for sample in ("kidney", "heart", "blank") for f in SAMPLE),
    },
    "shards.nf": {
        *("shards/model.punoise", "shards/prior.json", f"shards/{VERSIONS}"),
        *(
            f"shards/{file}"
            for part in ("labeled/labeled", "unlabeled/unlabeled.1")
            for file in (
                f"scores/{part}.parquet",
                f"sketches/{part}.sketch",
                f"posterior/{part}.parquet",
            )
        ),
    },
}


@pytest.mark.ci
@needs_nextflow
@pytest.mark.parametrize("script", STUBS)
def test_stub_run(script, tmp_path):
    folder = copied(tmp_path / "example")
    nextflow(folder, script, "-stub-run", "-params-file", "example.yaml")
    made = snakemake.results(folder)
    assert set(made) == STUBS[script]
    assert sum(map(len, made.values())) < 1000  # nothing was computed


def punoise(folder: Path, command: str) -> None:
    subprocess.run([BIN / "punoise", *command.split(), "--quiet"], cwd=folder, env=ENV, check=True)


@pytest.mark.ci
@needs_nextflow
def test_shards_give_exactly_what_the_whole_table_does(tmp_path):
    folder = copied(tmp_path / "example")
    punoise(folder, "simulate --out-dir whole --n-labeled 500 --n-unlabeled 2000")
    header, *rows = (folder / "whole" / "unlabeled.csv").read_text().splitlines(keepends=True)
    (folder / "parts").mkdir()
    for i in range(3):
        text = "".join([header, *rows[i * 700 : (i + 1) * 700]])
        (folder / "parts" / f"part.{i}.csv").write_text(text)
    options = f"{LOGISTIC} --max-train-rows 1000"  # so most rows are not trained on
    (folder / "options.json").write_text(json.dumps({"train": options, "posterior": "--fdr 0.1"}))
    tables = ("--labeled", "whole/labeled.csv", "--unlabeled", "parts/*.csv")
    nextflow(folder, "shards.nf", *tables, "-params-file", "options.json")
    for command in (
        f"transform --labeled whole/labeled.csv --unlabeled whole/unlabeled.csv {options}"
        " --out scores.parquet",
        "estimate-prior --scores scores.parquet --out prior.json",
        "posterior --scores scores.parquet --prior prior.json --fdr 0.1 --out posterior.parquet",
    ):
        punoise(folder, command)
    sharded = folder / "results" / "shards"
    assert (sharded / "prior.json").read_bytes() == (folder / "prior.json").read_bytes()
    for name in ("scores", "posterior"):
        files = [sharded / name / "labeled" / "labeled.parquet"]
        files += [sharded / name / "unlabeled" / f"part.{i}.parquet" for i in range(3)]
        rows = pa.concat_tables([pq.read_table(file) for file in files])
        assert rows.num_rows == 2500
        assert rows.equals(pq.read_table(folder / f"{name}.parquet"))


@pytest.mark.ci
@needs_nextflow
def test_tables_anywhere_and_names_with_spaces(tmp_path):
    folder, data = copied(tmp_path / "example"), tmp_path / "my data"
    for sample, rows, negatives in (("one", 200, 100), ("two", 5, 0), ("three", 200, 5)):
        sizes = f"--n-labeled {rows} --n-unlabeled 400 --n-negatives {negatives}"
        punoise(tmp_path, f"simulate --out-dir {sample} {sizes}")
        for table in ("labeled", "unlabeled", *(["negatives"] if negatives else [])):
            (data / table).mkdir(parents=True, exist_ok=True)
            shutil.move(tmp_path / sample / f"{table}.csv", data / table / f"{sample}.csv")
    lines = ["sample\tlabeled\tunlabeled\tnegatives\ttable\tlabel_column\tlabeled_value"]
    for s in ("two", "one", "three"):  # one name for all
        known = "" if s == "two" else f"{data}/negatives/{s}.csv"
        lines.append(f"{s} é\t{data}/labeled/{s}.csv\t{data}/unlabeled/{s}.csv\t{known}\t\t\t")
    sets = {name: pd.read_csv(data / name / "one.csv") for name in ("labeled", "unlabeled")}
    pd.concat(sets, names=["from"]).reset_index("from").to_csv(data / "all.csv", index=False)
    lines.append(f"all\t\t\t\t{data}/all.csv\tfrom\tlabeled")
    (folder / "sheet.tsv").write_text("\n".join(lines) + "\n")
    (folder / "options.json").write_text(json.dumps({"transform": LOGISTIC}))
    nextflow(folder, "main.nf", "--samples", "sheet.tsv", "-params-file", "options.json")
    summary = snakemake.read_summary(folder)
    assert [(name, row["status"]) for name, row in summary.items()] == [
        ("two é", "failed"),
        ("one é", "ok"),
        ("three é", "failed"),
        ("all", "ok"),
    ]
    assert (summary["all"]["n_labeled"], summary["all"]["n_unlabeled"]) == ("200", "400")
    assert summary["one é"]["n_negatives"] == "100"
    assert summary["three é"]["reason"].startswith("negatives/three.csv: only 5 negative rows")
    assert summary["two é"]["reason"].startswith("labeled/two.csv: only 5 labeled rows")
    assert (folder / "results" / "one é" / "report.html").exists()


@pytest.mark.ci
@needs_nextflow
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("liver\tno.csv\tno.csv", "No such file"),
        ("kidney\ta.csv\tb.csv", "kidney is listed"),
        ("a/b\ta.csv\tb.csv", "'a/b'"),
    ],
)
def test_a_bad_sheet_stops_it_at_once(row, message, tmp_path):
    folder = copied(tmp_path / "example")
    with open(folder / "samples.tsv", "a") as sheet:
        sheet.write(f"{row}\t\n")
    output = nextflow(folder, *EXAMPLE_RUN, fails=True)
    assert message in output
    assert "Submitted process" not in output


def slurm_job(folder: Path) -> int | None:
    """The number of a punoise transform that SLURM has started within a folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            ours = b"transform" in command and (process / "cwd").readlink().is_relative_to(folder)
            if ours and b"SLURM_JOB_ID=" in (process / "environ").read_bytes():
                return int(process.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return None


@pytest.mark.slurm
@needs_slurm
@needs_nextflow
def test_slurm_gives_the_same_bytes(finished, tmp_path):
    folder = copied(tmp_path / "example")
    (folder / "small.config").write_text("process.resourceLimits = [memory: '3 GB']")  # the node's
    first = start(folder, *EXAMPLE_RUN, "-profile", "slurm", "-c", "small.config")
    os.kill(snakemake.wait_until(lambda: slurm_job(folder)), signal.SIGKILL)
    output, _ = first.communicate(timeout=300)
    assert first.returncode == 0, output
    assert "Execution is retried" in output
    assert snakemake.results(folder) == snakemake.results(finished)
