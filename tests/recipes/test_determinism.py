"""The same bytes whatever the threads, the engine and a row's place; also under other kernels.

A run of this file tests the kernels that OpenBLAS takes for this processor, or those that
OPENBLAS_CORETYPE names; a row's place is tried under all of them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy._core._multiarray_umath import __cpu_features__ as cpu

# the kernels of OpenBLAS, and what the processor must have for them
KERNELS = {
    "Nehalem": "SSE42",
    "Sandybridge": "AVX",
    "Haswell": "AVX2",
    "Zen": "AVX2",
    "SkylakeX": "AVX512_SKX",
}
SIZES = (70_001, 1, 99_999, 40_000)  # of the unlabeled files

PLACES = """
import numpy as np, sys
from threadpoolctl import threadpool_info, threadpool_limits
from pu_noise_cli.score.classifiers import Linear
from pu_noise_cli.score.networks import Networks
from pu_noise_cli.score.trees import Trees

(taken,) = {part["architecture"] for part in threadpool_info()}
assert taken in ("%s", "Haswell"), taken  # which is also Zen's, in a build that knows fewer
threadpool_limits(1)
rng = np.random.default_rng(0)
for d in (1, 7, 8, 13, 20, 126, 400):
    networks = [
        Networks(rng.normal(scale=d**-0.5, size=(d, m)).astype(np.float32), *vectors, 0.1)
        for m in (5, 21, 40)
        for vectors in [rng.normal(size=(2, m)).astype(np.float32)]
    ]
    splits = rng.integers(d, size=(9, 6)), rng.normal(size=(9, 6)).astype(np.float32)
    trees = Trees(*splits, rng.normal(size=(9, 64)).astype(np.float32))
    for scorer in (*networks, trees, Linear(rng.normal(size=d), 0.1)):
        rows = rng.normal(size=(3, d)).astype(np.float32)
        for order in "CF":
            logit = scorer.logit(np.asarray(np.repeat(rows, 1700, axis=0), order=order))
            logit = logit.reshape(3, 1700)
            assert (logit == logit[:, :1]).all(), (d, type(scorer).__name__)
"""


def environment(**variables: object) -> dict[str, str]:
    return {**os.environ, **{name: str(value) for name, value in variables.items()}}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_score_does_not_depend_on_the_place_of_the_row(kernel: str) -> None:
    if not cpu.get(KERNELS[kernel], False):
        pytest.skip(f"the processor lacks {KERNELS[kernel]}")
    command = [sys.executable, "-c", PLACES % kernel]
    subprocess.run(command, env=environment(OPENBLAS_CORETYPE=kernel), check=True)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options that name three tables, of which the unlabeled one has over 200,000 rows."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)

    def write(name: str, n: int, share: float) -> None:
        x = rng.normal(size=(n, 8)) + (rng.random(n) < share)[:, None]
        frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(8)])
        frame.to_parquet(folder / name, row_group_size=30_000)

    write("labeled.parquet", 3000, 0.9)
    write("negatives.parquet", 2000, 0.0)
    (folder / "unlabeled").mkdir()
    for i, n in enumerate(SIZES):
        write(f"unlabeled/{i}.parquet", n, 0.2)
    files = {
        "labeled": "labeled.parquet",
        "negatives": "negatives.parquet",
        "unlabeled": "unlabeled",
    }
    return [word for name, file in files.items() for word in (f"--{name}", f"{folder}/{file}")]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "provenance.json"
    }


@pytest.fixture(scope="module")
def run(tables: list[str], tmp_path_factory: pytest.TempPathFactory):
    """Runs on the tables in a process of its own; gives the folder of what was written."""

    def call(*options: object, **variables: object) -> Path:
        folder = tmp_path_factory.mktemp("run")
        command = ["run", *tables, "--max-train-rows", 12_000, "--out-dir", folder, *options]
        subprocess.run(
            [sys.executable, "-m", "pu_noise_cli", *map(str, command)],
            env=environment(**variables),
            check=True,
            capture_output=True,
        )
        return folder

    return call


@pytest.fixture(scope="module")
def plain(run) -> Path:
    return run("--threads", 1, OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1)


@pytest.fixture(scope="module")
def sharded(run) -> Path:
    return run("--shards", "--threads", 1, OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1)


@pytest.mark.parametrize(("blas", "threads"), [(2, 2), pytest.param(4, 8, marks=pytest.mark.ci)])
def test_threads_change_no_byte(run, plain, blas, threads):
    again = run("--threads", threads, OMP_NUM_THREADS=blas, OPENBLAS_NUM_THREADS=blas)
    assert contents(again) == contents(plain)


@pytest.mark.ci
def test_threads_change_no_byte_of_shards(run, sharded):
    again = run("--shards", "--threads", 2, OMP_NUM_THREADS=4, OPENBLAS_NUM_THREADS=4)
    assert contents(again) == contents(sharded)


@pytest.mark.ci
def test_shards_hold_what_the_plain_run_writes(plain, sharded):
    for name in ("prior.json", "model.punoise"):
        assert (sharded / name).read_bytes() == (plain / name).read_bytes()
    for name in ("scores", "posterior"):
        files = ["labeled-labeled", "negative-negatives"]
        files += [f"unlabeled-{i}" for i in range(len(SIZES))]
        parts = [pd.read_parquet(sharded / name / f"{file}.parquet") for file in files]
        whole = pd.concat(parts, ignore_index=True)
        assert len(whole) == 3000 + 2000 + sum(SIZES)
        pd.testing.assert_frame_equal(
            whole, pd.read_parquet(plain / f"{name}.parquet"), check_exact=True
        )


@contextlib.contextmanager
def process(log: Path, module: str, *options: object, **variables: object) -> Iterator[None]:
    with log.open("w") as file:
        command = [sys.executable, "-m", module, *map(str, options)]
        started = subprocess.Popen(
            command, env=environment(**variables), stdout=file, stderr=file, cwd=log.parent
        )
        try:
            yield
        finally:
            started.terminate()
            started.wait()


@pytest.mark.ci
def test_dask_writes_the_bytes_of_the_plain_shards(run, sharded, tmp_path):
    """The worker runs two tasks at once, in a process whose BLAS was started with four threads."""
    pytest.importorskip("distributed")
    found = tmp_path / "scheduler.json"
    at = ("--scheduler-file", found)
    scheduler = ("distributed.cli.dask_scheduler", *at, "--host", "127.0.0.1", "--port", 0)
    worker = ("distributed.cli.dask_worker", *at, "--no-nanny", "--nthreads", 2)
    with process(tmp_path / "scheduler.log", *scheduler, "--no-dashboard"):
        deadline = time.monotonic() + 60
        while not found.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        several = {"OMP_NUM_THREADS": 4, "OPENBLAS_NUM_THREADS": 4}
        with process(tmp_path / "worker.log", *worker, "--no-dashboard", **several):
            again = run("--dask", found)
    assert contents(again) == contents(sharded)


TRAINING_THREADS = """
from distributed import Client, LocalCluster
from pu_noise_cli.scale.engine import Engine
from pu_noise_cli.score.training import ScoreSettings

def threads_of(settings):
    return settings.threads

if __name__ == "__main__":
    only = {"n_workers": 1, "threads_per_worker": 3, "processes": False, "dashboard_address": None}
    with LocalCluster(**only) as cluster:
        with Client(cluster) as client:
            found = Engine(client=client).call("threads", threads_of, ScoreSettings(threads=7))
            assert found == 3, found
"""


@pytest.mark.ci
def test_training_takes_the_threads_of_the_dask_worker(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    script = tmp_path / "script.py"
    script.write_text(TRAINING_THREADS)
    subprocess.run([sys.executable, script], check=True)
