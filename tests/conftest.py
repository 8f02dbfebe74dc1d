"""Shared fixtures: the command line called in-process, and small tables with a known answer."""

from __future__ import annotations

import os

from pu_noise_cli.cli.process import limit_blas

limit_blas()  # as main() does, before numpy comes
os.environ.setdefault("PUNOISE_THREADS", "1")  # pytest has a process for each core

# ruff: noqa: E402
import fcntl
import functools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import jsonschema
import numpy as np
import pandas as pd
import pytest

from pu_noise_cli.cli.process import cli, exit_code
from pu_noise_cli.scale.engine import Engine
from pu_noise_cli.score import networks
from pu_noise_cli.score.scores import SketchScores, open_scores
from pu_noise_cli.score.sketch import write_sketch

# what most tests are about holds for any amount of training; `full_training` asks for all of it
FULL_STEPS, networks.STEPS = networks.STEPS, 150

N_SHARDS = 5  # of the table in shards

COMMANDS = {
    name: cli.get_command(click.Context(cli), name)
    for name in cli.list_commands(click.Context(cli))
}


def options_of(name: str) -> set[str]:
    """Every spelling of the options of a command."""
    return {word for p in COMMANDS[name].params for word in (*p.opts, *p.secondary_opts)}


def _has_slurm() -> bool:
    found = shutil.which("sinfo") is not None
    return found and subprocess.run(["sinfo"], capture_output=True).returncode == 0


needs_slurm = pytest.mark.skipif(
    not _has_slurm(), reason="no SLURM runs here: make test-slurm starts one"
)


def normals(
    alpha: float,
    beta: float,
    n_labeled: int,
    n_unlabeled: int,
    seed: int | np.random.Generator,
    separation: float = 3.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of labeled and unlabeled rows: unit Gaussians, the positives first and higher."""
    rng = np.random.default_rng(seed)

    def sample(share: float, n: int) -> np.ndarray:
        return rng.normal(size=n) + separation * (np.arange(n) < round(share * n))

    return sample(beta, n_labeled), sample(alpha, n_unlabeled)


@dataclass(frozen=True)
class Result:
    code: int
    out: bytes
    err: str

    @property
    def prior(self) -> dict:
        """Standard output as a valid PRIOR.json."""
        return validated(json.loads(self.out))


@functools.cache
def schema() -> dict:
    """The JSON Schema of PRIOR.json, as the command prints it."""
    command = [sys.executable, "-m", "pu_noise_cli", "help", "prior.json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def validated(prior: dict) -> dict:
    jsonschema.validate(prior, schema())
    return prior


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the tests in a browser, one is for every run; .ci/run has them all."""
    in_browser = [item for item in items if item.path.name == "test_browser.py"]
    for item in in_browser[1:]:
        item.add_marker("ci")


@pytest.fixture
def full_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks trained as long as users have them trained."""
    monkeypatch.setattr(networks, "STEPS", FULL_STEPS)


def call_quietly(*args: object) -> None:
    """A command that must succeed, for fixtures that many tests share."""
    cli.main([*map(str, args), "--quiet"], prog_name="punoise", standalone_mode=False)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that has a directory filled once, by whichever process comes first.

    Tests read what is in it and change nothing.
    """
    top = tmp_path_factory.getbasetemp()
    top = top.parent if "PYTEST_XDIST_WORKER" in os.environ else top

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder = top / "shared" / name
        folder.parent.mkdir(exist_ok=True)
        with open(folder.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.with_suffix(".done").exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                folder.with_suffix(".done").touch()
        return folder

    return make


@pytest.fixture
def punoise(capfdbinary):
    """Call the command line as the shell would; an exception that escapes is a bug."""

    def call(*args: object, expect: int = 0) -> Result:
        capfdbinary.readouterr()
        command = [str(arg) for arg in args]
        code = exit_code(lambda: cli.main(command, prog_name="punoise", standalone_mode=False))
        out, err = capfdbinary.readouterr()
        result = Result(code, out, err.decode())
        assert result.code == expect, result.err
        return result

    return call


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a directory; its provenance may differ between equal runs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "provenance.json"
    }


def sketch_scores(scores: object, out: object) -> None:
    """Write the sketch of a SCORES file, as `score` and `transform` do."""
    sketch = Engine().gather(SketchScores(), open_scores(str(scores)), "sketch")
    write_sketch(sketch, str(out))


def small_frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Labeled (150) and unlabeled (400) rows with three features; alpha 0.3, beta 0.9."""
    rng = np.random.default_rng(7)

    def table(n: int, share: float) -> pd.DataFrame:
        y = rng.permutation(n) < round(share * n)
        x = rng.normal(size=(n, 3)) + 1.5 * y[:, None]
        return pd.DataFrame(x.round(6), columns=["a", "b", "c"])

    return table(150, 0.9), table(400, 0.3)


@pytest.fixture
def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    return small_frames()


def write_csv(folder: Path) -> list[str]:
    """Write the small tables; the options that name them."""
    options = []
    for frame, name in zip(small_frames(), ("labeled", "unlabeled"), strict=True):
        frame.to_csv(folder / f"{name}.csv", index=False)
        options += [f"--{name}", str(folder / f"{name}.csv")]
    return options


@pytest.fixture
def tables(tmp_path) -> list[str]:
    """The options that name the small tables as CSV files."""
    return write_csv(tmp_path)


@pytest.fixture(scope="session")
def results(shared) -> Path:
    """What `run` writes of the small tables, with a quick classifier; to be read only."""

    def fill(folder: Path) -> None:
        call_quietly(
            "run", *write_csv(folder), "--classifier", "logistic", "--out-dir", folder / "out"
        )

    return shared("results", fill) / "out"


@pytest.fixture
def sharded(tmp_path, frames) -> list[str]:
    """The tables, the unlabeled one cut into shards of different sizes."""
    labeled, unlabeled = frames
    (tmp_path / "u").mkdir()
    labeled.to_parquet(tmp_path / "l.parquet")
    unlabeled.to_parquet(tmp_path / "whole.parquet")
    cuts = [0, 10, 200, 201, 300, len(unlabeled)]
    for i in range(N_SHARDS):
        unlabeled[cuts[i] : cuts[i + 1]].to_parquet(tmp_path / "u" / f"part{i}.parquet")
    return ["--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "u"]


@pytest.fixture
def scores(tmp_path) -> str:
    """A SCORES file of 100 labeled and 300 unlabeled rows."""
    rng = np.random.default_rng(3)
    labeled = rng.beta(5, 2, 100)
    unlabeled = np.concatenate([rng.beta(5, 2, 90), rng.beta(2, 5, 210)])
    frame = pd.DataFrame(
        {
            "id": [f"r{i}" for i in range(400)],
            "set": ["labeled"] * 100 + ["unlabeled"] * 300,
            "score": np.concatenate([labeled, unlabeled]),
        }
    )
    path = tmp_path / "scores.tsv"
    frame.to_csv(path, sep="\t", index=False)
    return str(path)


def in_genes(rng, n, share, genes, alike):
    """Scores and genes: of their variance, `alike` is between genes; classes are alike too."""
    gene = rng.integers(genes, size=n)
    effect, leaning = rng.normal(size=(2, genes))
    latent = np.sqrt(0.5) * leaning[gene] + np.sqrt(0.5) * rng.normal(size=n)
    positive = latent < np.quantile(latent, share)
    noise = np.sqrt(alike) * effect[gene] + np.sqrt(1 - alike) * rng.normal(size=n)
    return 2 * positive + noise, gene


@pytest.fixture(scope="session")
def genes():
    """Scores, sets and genes of 1,000 labeled and 4,000 unlabeled rows."""
    rng = np.random.default_rng(3)
    x, gene = in_genes(rng, 1000, 0.9, 40, 0.6)
    y, other = in_genes(rng, 4000, 0.2, 40, 0.6)
    sets = np.repeat([1, 0], [1000, 4000]).astype(np.int8)
    return np.concatenate([x, y]), sets, np.concatenate([gene, other])
