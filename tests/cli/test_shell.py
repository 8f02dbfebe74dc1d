"""At home in a shell: completion, help, pipes, process substitution, many at a time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import COMMANDS, options_of

from pu_noise_cli.cli import process
from pu_noise_cli.cli.process import Console
from pu_noise_cli.notices import kinds

BIN = Path(sys.executable).parent
ENV = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PUNOISE_THREADS": "1"}


def shell(script: str, folder: Path, name: str = "bash") -> str:
    options = ["-o", "pipefail"] if name == "bash" else []
    command = [name, *options, "-e"] if name != "fish" else [name]
    done = subprocess.run(
        [*command, "-c", script], cwd=folder, env=ENV, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tables, tmp_path) -> Path:
    """A directory with labeled.csv and unlabeled.csv."""
    return tmp_path


PRIOR = "punoise estimate-prior --quiet --score-column a"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_completion_script_loads(name, tmp_path):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    script = f"_PUNOISE_COMPLETE={name}_source punoise > completion"
    shell(script if name != "fish" else f"env {script}", tmp_path, name)
    init = "autoload -U compinit && compinit -D -u\n" if name == "zsh" else ""
    shown = {"bash": "complete -p punoise", "zsh": "print $_comps[punoise]"}
    show = shown.get(name, "complete -c punoise")
    assert "punoise" in shell(f"{init}source ./completion\n{show}", tmp_path, name)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("punoise est", "plain,estimate-prior"),
        ("punoise estimate-prior --unl", "plain,--unlabeled\nplain,--unlabeled-value"),
        ("punoise estimate-prior --method alphamax-nm", "plain,alphamax-nm"),
        ("punoise posterior --scores re", "file,re"),
        ("punoise summarize re", "file,re"),
        ("punoise estimate-prior --sample re", ""),
    ],
)
def test_words_complete(words, expected, tmp_path):
    position = len(words.split()) - 1
    request = f"COMP_WORDS='{words}' COMP_CWORD={position} _PUNOISE_COMPLETE=bash_complete punoise"
    assert shell(request, tmp_path).strip() == expected


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"help"}))
def test_help_has_an_example_of_each_command(name, punoise):
    text = punoise(name, "--help").out.decode()
    assert "--threads" in text
    examples = [line.strip() for line in text.splitlines() if line.startswith("  punoise ")]
    assert any(example.startswith(f"punoise {name} ") for example in examples)
    for example in examples:
        command, *words = example.split()[1:]
        assert {word for word in words if word.startswith("--")} <= options_of(command)


def test_process_substitution(folder):
    shell(f"{PRIOR} --labeled labeled.csv --unlabeled unlabeled.csv --out plain.json", folder)
    shell(
        f"gzip --keep labeled.csv\n"
        f"{PRIOR} --labeled <(cat labeled.csv.gz) --unlabeled <(cat unlabeled.csv)"
        " --out >(cat > fifo.json); wait",
        folder,
    )
    assert (folder / "fifo.json").read_bytes() == (folder / "plain.json").read_bytes()


def test_a_pipe_of_commands_gives_what_files_do(folder):
    tables = "--labeled labeled.csv --score-column a --quiet"
    shell(
        f"punoise transform {tables} --unlabeled unlabeled.csv --out scores.tsv\n"
        "punoise estimate-prior --quiet --scores scores.tsv --out prior.json\n"
        "punoise posterior --quiet --scores scores.tsv --prior prior.json --out posterior.tsv",
        folder,
    )
    piped = shell(
        f"tr , '\\t' < unlabeled.csv | punoise transform {tables} --unlabeled - --out -"
        " | tee piped.tsv | punoise posterior --quiet --scores -"
        " --prior <(punoise estimate-prior --quiet --scores scores.tsv) --out -",
        folder,
    )
    assert (folder / "piped.tsv").read_text() == (folder / "scores.tsv").read_text()
    assert piped == (folder / "posterior.tsv").read_text()


def test_a_closed_pipe_is_quiet(folder):
    script = "set +o pipefail; punoise help prior.json 2> err | head -n 1; test ! -s err"
    assert shell(script, folder) == "{\n"


@pytest.mark.ci
@pytest.mark.parametrize(
    "many",
    ["xargs -P 2 -I{} sh -c '{}'", "parallel -j 2"],
    ids=["xargs", "parallel"],
)
def test_many_at_a_time(many, folder):
    if shutil.which(many.split()[0]) is None:
        pytest.skip(f"{many.split()[0]} is not installed")
    one = f"{PRIOR} --labeled labeled.csv --unlabeled unlabeled.csv --sample"
    shell(f"for i in 1 2 3; do echo {one} $i --out $i.json; done | {many}", folder)
    rows = shell("punoise summarize 1.json 2.json 3.json", folder).splitlines()
    assert [row.split("\t")[0] for row in rows] == ["sample", "1", "2", "3"]
    assert len({row.split("\t", 1)[1] for row in rows[1:]}) == 1


def test_the_short_help_lists_what_people_use(punoise):
    short, full = punoise("run", "-h").out.decode(), punoise("run", "--help").out.decode()
    assert "--labeled FILE" in short
    assert "--out-dir DIR" in short
    assert "--dask" not in short
    assert "--dask" in full
    assert len(short.splitlines()) < len(full.splitlines()) / 2
    assert "'punoise run --help' shows details" in short
    assert punoise("run", expect=2).err == short
    assert punoise("help", "run").out.decode() == full
    assert "mean run?" in punoise("help", "rum", expect=2).err


def test_a_terminal_gets_a_summary_and_a_pipe_gets_the_document(tmp_path):
    sizes = "--n-labeled 100 --n-unlabeled 500 --n-features 1"
    shell(f"punoise simulate --out-dir . {sizes}", tmp_path)
    command = "punoise estimate-prior --labeled labeled.csv --unlabeled unlabeled.csv"
    seen = shell(f"script -qec '{command}' /dev/null", tmp_path)
    assert re.search(r"alpha\W.*\d%", seen)
    assert "punoise.prior/1" not in seen
    assert "punoise.prior/1" in shell(f"{command} | cat", tmp_path)
    assert "punoise.prior/1" in shell(f"script -qec '{command} --out -' /dev/null", tmp_path)


@pytest.mark.parametrize(("variable", "expected"), [("NO_COLOR=", True), ("NO_COLOR=1", False)])
def test_errors_have_color_on_a_terminal_unless_the_user_wants_none(variable, expected, tmp_path):
    seen = shell(
        f"{variable} TERM=xterm script -qc 'punoise run --labeled no.csv' /dev/null", tmp_path
    )
    assert "error" in seen
    assert ("\x1b[31m" in seen) is expected


def test_commands_say_what_they_wrote(punoise, tmp_path):
    punoise("simulate", "--out-dir", tmp_path, "--n-labeled", 100, "--n-unlabeled", 300)
    tables = ["--labeled", tmp_path / "labeled.csv", "--unlabeled", tmp_path / "unlabeled.csv"]
    out = tmp_path / "scores.tsv"
    result = punoise("transform", *tables, "--score-column", "x1", "--out", out)
    assert f"wrote  {out}" in result.err


def test_help_explains_commands_and_warnings(punoise):
    assert "--out-dir DIR" in punoise("help", "run").out.decode()
    explained = punoise("help", "wide-interval").out.decode()
    assert kinds()["wide-interval"].remedy.split() == explained.split(": ")[-1].split()
    assert "mean wide-interval?" in punoise("help", "wide-intervals", expect=2).err


def test_an_option_of_another_name_is_suggested(punoise, folder):
    said = punoise("run", "--positives", "labeled.csv", "--out-dir", folder / "out", expect=2).err
    assert "Use '--labeled'" in said


def test_the_missing_table_is_named(punoise, folder):
    out = ("--out-dir", folder / "out")
    labeled, unlabeled = folder / "labeled.csv", folder / "unlabeled.csv"
    assert "no unlabeled table" in punoise("run", "--labeled", labeled, *out, expect=2).err
    assert "no labeled table" in punoise("run", "--unlabeled", unlabeled, *out, expect=2).err


def test_progress_is_a_counter_or_a_bar_and_is_removed(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("TERM", raising=False)
    console = Console()
    with console.rows("read", None) as done:
        done(1500)
    counter = capsys.readouterr().err
    assert "read  1,500 rows" in counter
    assert "[" not in counter.replace("\x1b[K", "")
    with console.rows("score", 1000) as done:
        done(500)
    with console.stage("train") as fraction:
        fraction(0.25)
    bars = capsys.readouterr().err
    assert "[###############---------------]  50%" in bars
    assert bars.endswith("\r\x1b[K")
    assert "\n" not in counter + bars
    monkeypatch.setenv("TERM", "dumb")
    with console.stage("train") as fraction:
        fraction(0.5)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("is_verbose", [True, False])
def test_progress_in_a_log_is_a_line_now_and_then(is_verbose, capsys, monkeypatch):
    monkeypatch.setattr(process, "DETAIL_SECONDS", 0.05)
    console = Console(verbose=is_verbose)
    with console.rows("score", 200) as done:
        done(50)
        time.sleep(0.06)
        done(50)
        done(50)
    assert capsys.readouterr().err == "punoise: score: 50% (0 s)\n" * is_verbose
    console.took("train", 59)
    assert bool(capsys.readouterr().err) == is_verbose
    console.took("train", 61)
    assert capsys.readouterr().err == "punoise: train took 61.00 s\n"
