"""README and docs are true: commands run, and what they name exists; what exists is named."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
from conftest import COMMANDS as CLICK
from conftest import options_of

from pu_noise_cli import errors
from pu_noise_cli.prior.base import ESTIMATORS
from pu_noise_cli.score.classifiers import CLASSIFIERS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
DOCS = {
    path.name: path.read_text()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"))
}
LARGE = (ROOT / "docs" / "large.md").read_text()  # goes on with the README's files
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README + LARGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("punoise ")
]


def section(title: str) -> str:
    return REFERENCE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_command_of_the_readme_runs(punoise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) >= 12
    for command in COMMANDS:
        punoise(*shlex.split(command)[1:])
    written = {path.name for path in (tmp_path / "results").iterdir()}
    listed = set(re.findall(r"^\| (\S+) \| ", section("Files"), re.MULTILINE))
    assert {name.split(".")[0] for name in written} <= {name.split(".")[0] for name in listed}


@pytest.mark.parametrize("name", DOCS)
def test_every_option_and_link_exists(name):
    known = {"--version", "--help"}
    known |= {option for command in CLICK for option in options_of(command)}
    ours = re.sub(r"`python [^`]*`", "", DOCS[name])  # scripts have options of their own
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)) <= known
    folder = ROOT if (ROOT / name).exists() else ROOT / "docs"
    for link in re.findall(r"\]\(([^)#:]+)\)", DOCS[name]):
        assert (folder / link).exists(), link


def test_the_reference_is_up_to_date():
    """Its tables of options, keys and warnings are made by docs/make_reference.py."""
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["updated"](REFERENCE)
    assert made == REFERENCE, "run make reference"


def test_the_reference_lists_every_exit_code():
    codes = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.PunoiseError)
    }
    listed = re.findall(r"^\| ([\d, ]+) \|", section("Exit codes"), re.MULTILINE)
    assert {int(code) for codes in listed for code in codes.split(",")} == codes | {
        0,
        129,
        130,
        143,
    }


def test_the_readme_names_every_method_and_classifier():
    for name in (*(n for n in ESTIMATORS if ":" not in n), *CLASSIFIERS):
        assert f"`{name}`" in README, name


def test_the_readme_shows_what_run_prints(full_training, punoise, tmp_path, monkeypatch):
    """The block after the first commands, but for the last digits, which processors differ in."""
    monkeypatch.chdir(tmp_path)
    simulate, run = COMMANDS[:2]
    punoise(*shlex.split(simulate)[1:])
    printed = punoise(*shlex.split(run)[1:]).err
    (shown,) = re.findall(r"```\n(punoise: learned a score.*?)```", README, re.DOTALL)

    def plain(text: str) -> str:
        return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.2f}", text)

    assert plain(printed).split() == plain(shown).split()
