"""Dask writes what one process writes: a real scheduler and real worker processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import contents, needs_slurm
from searches import outputs, pin_lines, pin_table, write_pin

from pu_noise_cli.scale import engine

FAST = ("--classifier", "logistic", "--max-train-rows", "120")


@contextlib.contextmanager
def _process(module: str, *args: object, until: str, log: Path) -> Iterator[re.Match[str]]:
    """A process in the background that has said what it is to say; it is killed at the end."""
    command = [sys.executable, "-m", module, *map(str, args)]
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stderr=file, stdout=file, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(until, log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield found
    finally:
        _kill(process.pid)
        process.wait()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory) -> Iterator[str]:
    pytest.importorskip("distributed", reason="Dask is not installed")
    log = tmp_path_factory.mktemp("dask") / "scheduler.log"
    module, options = "distributed.cli.dask_scheduler", ("--host", "127.0.0.1", "--port", 0)
    with _process(
        module, *options, "--no-dashboard", until=r"Scheduler at:\s+(tcp://\S+)", log=log
    ) as found:
        yield found[1]


@contextlib.contextmanager
def worker(scheduler: str, folder: Path, name: str) -> Iterator[int]:
    """A worker of one thread; gives its process id."""
    (folder / name).mkdir()
    options = ("--nthreads", 1, "--no-dashboard", "--no-nanny", "--local-directory", folder / name)
    module, log, pid_file = (
        "distributed.cli.dask_worker",
        folder / f"{name}.log",
        folder / name / "p",
    )
    with _process(
        *(module, scheduler, *options, "--pid-file", pid_file), until="Registered to:", log=log
    ):
        yield int(pid_file.read_text())


def shell(*args: object, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a Dask client leaves threads behind."""
    command = [sys.executable, "-m", "pu_noise_cli", *map(str, args)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == expect, result.stderr
    return result


def test_dask_writes_the_bytes_of_the_local_run(scheduler, sharded, punoise, tmp_path):
    punoise("run", *sharded, *FAST, "--out-dir", tmp_path / "local", "--shards")
    with worker(scheduler, tmp_path, "w1"), worker(scheduler, tmp_path, "w2"):
        shell("run", *sharded, *FAST, "--out-dir", tmp_path / "dask", "--dask", scheduler)
        prior = shell("estimate-prior", "--scores", tmp_path / "dask/scores", "--dask", scheduler)
        direct = shell("estimate-prior", *sharded, *FAST, "--dask", scheduler)
    assert contents(tmp_path / "dask") == contents(tmp_path / "local")
    assert prior.stdout == (tmp_path / "local" / "prior.json").read_text() == direct.stdout


@pytest.mark.ci
def test_shards_by_dask_say_that_labeled_rows_are_negatives(scheduler, sharded, tmp_path):
    negatives = ("--labeled-are", "negatives")
    with worker(scheduler, tmp_path, "w1"):
        out = ("--out", f"{tmp_path}/s/", "--dask", scheduler)
        shell("transform", *sharded, *FAST, *negatives, *out)
        there = shell("estimate-prior", "--scores", tmp_path / "s", "--dask", scheduler)
    local = shell("estimate-prior", "--scores", tmp_path / "s", *negatives)
    assert json.loads(there.stdout)["labeled_are"] == "negatives"
    assert there.stdout == local.stdout


@pytest.mark.ci
def test_dask_finds_the_groups_of_the_local_run(scheduler, sharded, punoise, tmp_path):
    for path in (tmp_path / "l.parquet", *(tmp_path / "u").glob("*.parquet")):
        frame = pd.read_parquet(path)
        frame.assign(gene=np.where(frame.b > 0, "high", "low")).to_parquet(path)
    command = ("calibrate", *sharded, "--score-column", "a", "--by", "gene")
    punoise(*command, "--out-dir", tmp_path / "local", "--shards")
    with worker(scheduler, tmp_path, "w1"), worker(scheduler, tmp_path, "w2"):
        shell(*command, "--out-dir", tmp_path / "dask", "--dask", scheduler)
    assert contents(tmp_path / "dask") == contents(tmp_path / "local")
    assert len(pd.read_parquet(tmp_path / "dask" / "groups.parquet")) == 3


@pytest.mark.ci
def test_an_error_on_a_worker_is_an_error_here(scheduler, sharded, frames, tmp_path):
    frames[1].assign(a=float("inf")).to_parquet(tmp_path / "u" / "part3.parquet")
    command = ("transform", *sharded, *FAST, "--out", f"{tmp_path}/s/", "--dask", scheduler)
    with worker(scheduler, tmp_path, "w"):
        result = shell(*command, expect=3)
    assert "part3.parquet: column 'a'" in result.stderr
    assert not (tmp_path / "s" / engine.MANIFEST).exists()


def test_no_scheduler_is_a_usage_error(sharded, tmp_path, punoise, monkeypatch):
    pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.setattr("pu_noise_cli.scale.engine.CONNECT_SECONDS", 1)
    command = ("transform", *sharded, *FAST, "--out", f"{tmp_path}/s/")
    result = punoise(*command, "--dask", "tcp://127.0.0.1:9", expect=2)
    assert "no scheduler answers" in result.err


@pytest.mark.ci
def test_dask_reads_parquet_only(scheduler, sharded, scores, tables, tmp_path):
    for source in (["--scores", scores], tables):
        result = shell("estimate-prior", *source, "--dask", scheduler, expect=2)
        assert "Parquet" in result.stderr
    (tmp_path / "file").write_text("{}")
    command = ("transform", *sharded, *FAST, "--out", f"{tmp_path}/s/")
    result = shell(*command, "--dask", tmp_path / "file", expect=2)
    assert "no scheduler answers" in result.stderr


@pytest.mark.ci
def test_a_worker_killed_in_the_middle_changes_nothing(scheduler, frames, tmp_path):
    labeled, unlabeled = frames
    (tmp_path / "u").mkdir()
    for i in range(12):
        rows = unlabeled.sample(20_000, replace=True, random_state=i, ignore_index=True)
        rows.to_parquet(tmp_path / "u" / f"{i:02}.parquet")
    labeled.to_parquet(tmp_path / "l.parquet")
    tables = ("--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "u")
    shell("train", *tables, "--max-train-rows", 500, "--out", tmp_path / "m")
    score = ("score", "--model", tmp_path / "m", "--table", tmp_path / "u", "--out")
    shell(*score, f"{tmp_path}/local/")
    out = tmp_path / "dask"
    with worker(scheduler, tmp_path, "w1"), worker(scheduler, tmp_path, "w2") as doomed:
        command = [*score, f"{out}/", "--dask", scheduler]
        running = subprocess.Popen([sys.executable, "-m", "pu_noise_cli", *map(str, command)])
        deadline = time.monotonic() + 60
        while not list(out.glob(".*/[0-9]*.parquet")):
            assert time.monotonic() < deadline
            assert running.poll() is None
            time.sleep(0.01)
        _kill(doomed)
        done = len(list(out.glob(".*/[0-9]*.parquet")))
        assert running.wait(120) == 0
    assert done < 12, "all was done before the worker was killed"
    assert contents(out) == contents(tmp_path / "local")
    assert sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet")) == 240_000


@pytest.mark.slurm
@needs_slurm
def test_dask_on_slurm_writes_the_bytes_of_the_local_run(sharded, punoise, tmp_path):
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    punoise("run", *sharded, *FAST, "--out-dir", tmp_path / "local", "--shards")
    script = Path(__file__).parents[2] / "docs" / "dask_on_slurm.py"
    command = [sys.executable, script, "run", *sharded, *FAST, "--out-dir", tmp_path / "slurm"]
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DASK_JOBQUEUE__SLURM__INTERFACE": "lo",  # a scratch cluster has no other
    }
    result = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert contents(tmp_path / "slurm") == contents(tmp_path / "local")


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["pin", "parquet"])
def test_dask_finds_the_matches_of_the_local_run(kind, scheduler, tmp_path):
    (tmp_path / "runs").mkdir()
    for seed, name in enumerate("abc"):
        if kind == "pin":
            write_pin(tmp_path / "runs" / f"{name}.pin", pin_lines(300, seed))
        else:
            pin_table(300, seed).to_parquet(tmp_path / "runs" / f"{name}.parquet")
    given = ("matches", tmp_path / "runs", "--max-train-rows", 700)
    shell(*given, "--out-dir", tmp_path / "local")
    with worker(scheduler, tmp_path, "w1"), worker(scheduler, tmp_path, "w2"):
        shell(*given, "--out-dir", tmp_path / "dask", "--dask", scheduler)
    assert outputs(tmp_path / "dask") == outputs(tmp_path / "local")
