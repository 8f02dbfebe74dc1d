"""What is shipped: wheel, sdist, conda recipe, container, Galaxy tool."""

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

import jinja2
import pytest
import yaml

from pu_noise_cli import __version__

ROOT = Path(__file__).parents[2]
BIN = str(Path(sys.executable).parent)
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
ON_CONDA = {"msgspec": "msgspec-python"}  # where a package has another name there
VERSIONED = {
    "CITATION.cff": r"(?m)^version: (.+)$",
    "packaging/recipe/meta.yaml": r'version = "(.+)"',
    "packaging/Dockerfile": r'version="(.+)"',
    "packaging/galaxy/punoise_run.xml": r'token name="@TOOL_VERSION@">(.+)<',
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


def recipe_text() -> str:
    """The recipe as conda-build renders it."""
    text = (ROOT / "packaging" / "recipe" / "meta.yaml").read_text()
    pin = "punoise >=0.1.0,<0.2.0a0"
    return jinja2.Template(text).render(PYTHON="python", pin_subpackage=lambda *_, **__: pin)


def recipe_commands() -> list[str]:
    test = recipe_text().split("\ntest:\n")[1].split("\n\n")[0]
    modules, commands = test.split("  commands:\n")
    imports = re.findall(r"- (pu_noise_cli\S*)", modules)
    assert imports
    return [f"python -c 'import {name}'" for name in imports] + [
        line.strip().removeprefix("- ") for line in commands.splitlines()
    ]


def test_the_recipe_is_complete_for_a_review():
    recipe = recipe_text()
    for key in ("sha256:", "run_exports:", "noarch: python", "pip check", "license_file: LICENSE"):
        assert key in recipe
    for key in ("home:", "doc_url:", "dev_url:", "recipe-maintainers:"):
        assert key in recipe
    assert re.search(rf"url: https://\S+/punoise-{re.escape(__version__)}\.tar\.gz", recipe)


def run(*command: object, folder: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    env["PATH"] = f"{BIN}:{env['PATH']}"
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme_links_work_on_pypi():
    """A relative link has no meaning there; one to a heading of the page has."""
    links = re.findall(r"\]\(([^)\s]+)", (ROOT / "README.md").read_text())
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_workflows_call_what_exists():
    """The steps of the hosted CI are commands of this repository."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    folder = ROOT / ".github" / "workflows"
    if not folder.is_dir():
        pytest.skip("an sdist has no workflows")
    for path in folder.glob("*.yml"):
        workflow = yaml.safe_load(path.read_text())
        commands = [
            step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]
        ]
        assert {c.split()[1] for c in commands if c.startswith("make ")} <= targets
    assert ".ci/run" in (folder / "ci.yml").read_text()
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        assert yaml.safe_load(path.read_text())


GALAXY = ROOT / "packaging" / "galaxy" / "punoise_run.xml"
EDAM = [*ROOT.glob(".venv/planemo/lib/python*/site-packages/edam_ontology/EDAM.tsv")]


@pytest.mark.skipif(not EDAM, reason="no EDAM: make lint-galaxy")
def test_terms_of_edam_are_current():
    """The Galaxy tool refers to it."""
    rows = [line.split("\t") for line in EDAM[0].read_text().splitlines()]
    current = {row[0].rsplit("/", 1)[-1] for row in rows if row[4] == "FALSE"}
    used = set(re.findall(r"(?:operation|topic)_\d{4}", GALAXY.read_text()))
    assert used
    assert used - current == set()


def members(archive: Path) -> set[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name for name in wheel.namelist() if ".dist-info/" not in name}
    with tarfile.open(archive) as sdist:
        return {name.split("/", 1)[-1] for name in sdist.getnames()}


@pytest.mark.ci
def test_the_distributions_hold_what_is_committed_and_do_the_demo(tmp_path):
    committed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if committed.returncode:
        pytest.skip("not a clone of the repository")
    source = tmp_path / "source"
    for name in committed.stdout.splitlines():
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    run(sys.executable, "-m", "build", source, "--outdir", tmp_path, folder=tmp_path)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    files = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    unpacked = (".ci/", ".github/")
    assert members(sdist) == {"PKG-INFO", *(f for f in files if not f.startswith(unpacked))}
    assert members(wheel) == {name for name in files if name.startswith("pu_noise_cli/")}

    venv.create(tmp_path / "empty", with_pip=True)
    bin = tmp_path / "empty" / "bin"
    run(bin / "pip", "install", "--disable-pip-version-check", wheel, folder=tmp_path)
    for command in recipe_commands():
        env = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"}
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True)
        assert done.returncode == 0, (command, done.stderr)


PLANEMO = Path(sys.executable).parent.parent / "planemo" / "bin"


@pytest.mark.ci
@pytest.mark.skipif(not PLANEMO.exists(), reason="no planemo: make lint-galaxy")
def test_the_galaxy_tool_does_what_its_tests_say(tmp_path):
    script = Path(__file__).with_name("galaxy_tests.py")
    lines = run(PLANEMO / "python", script, GALAXY, folder=tmp_path)
    assert lines.count("passed") == GALAXY.read_text().count("</test>")
