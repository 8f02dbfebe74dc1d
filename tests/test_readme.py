"""README and docs are true: commands run, and what they name exists; what exists is named."""

import re
import shlex
from pathlib import Path

import click
import pytest
from conftest import COMMANDS as CLICK
from conftest import options_of

from pu_noise_cli import errors
from pu_noise_cli.notices import kinds
from pu_noise_cli.prior.base import ESTIMATORS
from pu_noise_cli.prior.document import reference_rows
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


def option_row(command: click.Command) -> str:
    """The options of a command as docs/reference.md lists them."""
    names = [
        "/".join(f"`{name}`" for name in (*p.opts, *p.secondary_opts))
        for p in command.params
        if isinstance(p, click.Option)
    ]
    return f"| `{command.name}` | {command.get_short_help_str(99)} | {', '.join(names)} |"


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


@pytest.mark.parametrize("name", list(CLICK))
def test_the_reference_lists_every_option(name):
    row = option_row(CLICK[name])
    assert row in section("Commands").splitlines(), f"add or change the row\n{row}"


def test_the_reference_lists_every_warning():
    rows = [f"| `{code}` | {k.meaning} | {k.remedy} |" for code, k in kinds().items()]
    listed = re.findall(r"^\| `.*$", section("Warnings"), re.MULTILINE)
    assert sorted(rows) == sorted(listed)


def test_the_reference_lists_every_key_of_the_prior():
    rows = [f"| `{key}` | {meaning} |" for key, meaning in reference_rows()]
    assert "\n".join(rows) in REFERENCE


def test_the_reference_lists_every_exit_code():
    codes = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.PunoiseError)
    }
    listed = re.findall(r"^\| ([\d, ]+) \|", section("Exit codes"), re.MULTILINE)
    assert {int(code) for codes in listed for code in codes.split(",")} == codes | {0, 130, 143}


def test_the_readme_names_every_method_and_classifier():
    for name in (*ESTIMATORS, *CLASSIFIERS):
        assert f"`{name}`" in README, name


def test_the_readme_shows_what_run_prints(full_training, punoise, tmp_path, monkeypatch):
    """The block after the first commands, but for the last digits, which processors differ in."""
    monkeypatch.chdir(tmp_path)
    simulate, run = COMMANDS[:2]
    punoise(*shlex.split(simulate)[1:])
    printed = punoise(*shlex.split(run)[1:]).err
    (shown,) = re.findall(r"```\n(punoise: a score.*?)```", README, re.DOTALL)

    def plain(text: str) -> str:
        return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.2f}", text)

    assert plain(printed).split() == plain(shown).split()
