"""What is shipped: wheel, sdist, conda recipe, containers, Galaxy wrapper, Nextflow module."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from pu_noise_cli import __version__

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
ON_CONDA = {"msgspec": "msgspec-python"}  # where a package has another name there
VERSIONED = {
    "packaging/recipe/meta.yaml": r'version = "(.+)"',
    "packaging/Dockerfile": r'version="(.+)"',
    "packaging/apptainer.def": r"version (.+)",
    "packaging/galaxy/punoise.xml": r'token name="@TOOL_VERSION@">(.+)<',
    "snakemake_example/environment.yaml": r"punoise =(.+)",
}


@pytest.mark.parametrize(("name", "pattern"), VERSIONED.items(), ids=list(VERSIONED))
def test_versions_agree(name, pattern):
    assert set(re.findall(pattern, (ROOT / name).read_text())) == {__version__}


def test_the_recipe_needs_what_the_package_needs():
    recipe = (ROOT / "packaging" / "recipe" / "meta.yaml").read_text()
    run = recipe.split("\n  run:\n")[1].split("\n\n")[0]
    listed = {re.sub(r"^\s*- |\s", "", line) for line in run.splitlines()}
    needed = {
        re.sub(r"^[\w-]+", lambda m: ON_CONDA.get(m[0], m[0]), d) for d in PROJECT["dependencies"]
    }
    assert listed == {*needed, f"python{PROJECT['requires-python']}"}


def run(*command: object, folder: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_file_of_the_package_is_packed():
    """Those that are not Python are named in pyproject.toml."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "package-data"
    ]
    packed = {
        path
        for package, patterns in data.items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    files = {path for path in (ROOT / "pu_noise_cli").rglob("*") if path.is_file()}
    assert {p for p in files if p.suffix not in (".py", ".pyc")} == {
        p for p in packed if p.is_file()
    }


@pytest.mark.ci
def test_the_wheel_alone_does_the_demo(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "pu_noise_cli", source / "pu_noise_cli", ignore=ignored)
    run(sys.executable, "-m", "build", source, "--outdir", tmp_path, folder=tmp_path)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")

    files = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    with tarfile.open(sdist) as archive:
        assert files <= {name.split("/", 1)[-1] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {name for name in files if name.startswith("pu_noise_cli/")}

    venv.create(tmp_path / "empty", with_pip=True)
    bin = tmp_path / "empty" / "bin"
    run(bin / "pip", "install", "--disable-pip-version-check", wheel, folder=tmp_path)
    run(bin / "punoise", "simulate", "--out-dir", "demo", folder=tmp_path)
    tables = ("--labeled", "demo/labeled.csv", "--unlabeled", "demo/unlabeled.csv")
    run(bin / "punoise", "run", *tables, "--out-dir", "results", folder=tmp_path)
    written = {path.name for path in (tmp_path / "results").iterdir()}
    assert {"scores.parquet", "prior.json", "posterior.parquet", "model.punoise"} <= written


@pytest.mark.ci
def test_planemo_accepts_the_galaxy_wrapper(tmp_path):
    own = Path(sys.executable).parent.parent / "planemo" / "bin" / "planemo"
    planemo = own if own.exists() else shutil.which("planemo")
    if planemo is None:
        pytest.skip("planemo is not installed: make lint-galaxy")
    run(planemo, "lint", ROOT / "packaging" / "galaxy", folder=tmp_path)
