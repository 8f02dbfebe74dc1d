"""The README is true: its commands run, and the options, codes and files it names exist."""

import re
import shlex
from pathlib import Path

import pytest

from pu_noise_cli import cli

README = (Path(__file__).parent.parent / "README.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("punoise ")
]


def options() -> set[str]:
    found = {"--version", "--help"}
    for command in cli.cli.commands.values():
        for parameter in command.params:
            found |= {*parameter.opts, *parameter.secondary_opts}
    return found


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_runs(punoise, workdir):
    assert len(COMMANDS) >= 12
    for command in COMMANDS:
        punoise(*shlex.split(command)[1:])
    written = {path.name for path in (workdir / "results").iterdir()}
    named = re.findall(r"^\| (\S+) \| .*$", README, re.MULTILINE)
    assert {name.split(".")[0] for name in written} <= {name.split(".")[0] for name in named}


def test_every_option_exists():
    assert set(re.findall(r"--[a-z][a-z-]+", README)) <= options()


def test_every_warning_is_listed():
    source = "".join(p.read_text() for p in Path(cli.__file__).parent.rglob("*.py"))
    raised = set(re.findall(r'^\s+"([a-z]+(?:-[a-z]+)+)",$', source, re.MULTILINE))
    raised |= set(re.findall(r'Notice\(\s*"([a-z-]+)"', source))
    raised |= set(re.findall(r'\((?:alpha [<>] [\d.]+), "([a-z-]+)"', source))
    listed = set(re.findall(r"`([a-z-]+)`", README.split("## Warnings")[1]))
    assert raised - listed == set()
    assert {"few-rows", "alpha-near-zero", "leaking-column", "posterior-mean-off"} <= raised


def test_the_exit_codes_are_those_of_the_errors():
    from pu_noise_cli import errors

    codes = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.PunoiseError)
    }
    listed = {int(code) for code in re.findall(r"^\| (\d)[ ,]", README, re.MULTILINE)}
    assert codes - {errors.ClosedPipe.exit_code} <= listed
