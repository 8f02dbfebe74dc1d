"""README and docs are true: commands run, and what they name exists; what exists is named."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from conftest import COMMANDS as CLICK
from conftest import options_of
from standins import write_variants

from pu_noise_cli import errors
from pu_noise_cli.notices import kinds
from pu_noise_cli.prior.base import ESTIMATORS
from pu_noise_cli.prior.document import reference_rows
from pu_noise_cli.score.classifiers import CLASSIFIERS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import run_pages  # noqa: E402

README = (ROOT / "README.md").read_text()
REFERENCE = {path.name: path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md")}
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    )
}
TUTORIALS = [name for name in PAGES if name.startswith("docs/tutorials/")]
BANNED = ("is no ", "goes with", "of which", "those that")
JUSTIFIED = (  # idioms that a native writer uses
    *("there is no ", "is no longer", "is no estimate"),
    "those that score like",  # an option's help, where a noun would be longer
    "those that SCORES has",
    "controls of which none",
    "matches that is no `.pin` file",
)


def messages(code: str) -> list[str]:
    """The texts of a module that are not docstrings."""
    nodes = list(ast.walk(ast.parse(code)))
    docstrings = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    texts = (
        node for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings
    )
    return [node.value for node in texts if isinstance(node.value, str)]


def flags(command: str) -> set[str]:
    """Its options, without positional arguments."""
    return {word for word in options_of(command) if word.startswith("-")}


def prose(page: str) -> str:
    """A page without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`|<!--.*?-->", " ", page, flags=re.DOTALL)


class Reader:
    """Somebody who types the commands of pages, each command once."""

    def __init__(self, punoise, folder: Path) -> None:
        self.punoise, self.folder, self.printed = punoise, folder, {}

    def run(self, command: str) -> str:
        if command not in self.printed:
            words = shlex.split(command)
            if words[0] == "punoise":
                result = self.punoise(*words[1:])
                self.printed[command] = result.out.decode() + result.err
            else:
                python = [sys.executable if word == "python" else word for word in words]
                done = subprocess.run(
                    python, cwd=self.folder, capture_output=True, text=True, check=True
                )
                self.printed[command] = done.stdout + done.stderr
        return self.printed[command]

    def read(self, page: str, is_shown: Callable[[str, str], bool]) -> None:
        """Run all blocks, and compare what they print with what the page shows."""
        for block in run_pages.blocks(page):
            printed = "".join(map(self.run, block.commands))
            if block.shown is not None:
                refreshed = run_pages.refreshed(block.shown, printed)
                assert is_shown(refreshed, block.shown), f"{block.shown}\nis now\n{refreshed}"


def same_words(printed: str, shown: str) -> bool:
    """Whether two outputs on different data have the same structure."""
    return run_pages.masked(printed) == run_pages.masked(shown)


def test_the_guides_show_what_their_commands_print(full_training, punoise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_variants(tmp_path)
    reader = Reader(punoise, tmp_path)
    for name in run_pages.CHAIN:
        reader.read(PAGES[name], run_pages.is_shown)
    assert len(reader.printed) > 25
    check_columns(tmp_path)


def check_columns(folder: Path) -> None:
    """The reference lists the files and columns that were written, and no others."""
    page = REFERENCE["files.md"]
    for title, files in {
        "scores": ["scores.tsv", "new_scores.tsv"],
        "posterior": ["posterior.tsv", "calls.tsv", "rare.tsv", "revel/posterior.parquet"],
        "thresholds": ["revel/thresholds.tsv"],
        "groups": ["by_gene/groups.parquet"],
        "audit": ["audit.tsv", "top.tsv"],
        "summary": ["summary.tsv"],
        "candidates": ["results/candidates.tsv"],
        "labels_to_check": ["results/labels_to_check.tsv"],
        "columns": ["results/columns.tsv"],
    }.items():
        section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
        listed = set(re.findall(r"`([a-z_]+)`", section))
        for file in files:
            path = folder / file
            table = (
                pd.read_parquet(path)
                if path.suffix == ".parquet"
                else pd.read_csv(path, sep="\t", nrows=2)
            )
            assert set(table.columns) <= listed | {"x1", "x2"}, file
    written = {path.name.split(".")[0] for path in (folder / "results").iterdir()}
    assert written <= set(re.findall(r"^(?:## |\| )([\w]+)", page, re.MULTILINE))


@pytest.mark.ci
@pytest.mark.parametrize("name", TUTORIALS)
def test_every_command_of_a_tutorial_runs(name, full_training, punoise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reader = Reader(punoise, tmp_path)
    stand_ins = run_pages.STAND_IN.findall(PAGES[name])
    for script in (ROOT / "docs" / "tutorials").glob("*.py"):
        shutil.copy(script, tmp_path)
    for command in stand_ins:
        reader.run(command)
    reader.read(PAGES[name], same_words if stand_ins else run_pages.is_shown)


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_number_of_a_tutorial_is_shown(name):
    """Percentages and counts in the text are in an output, a table or a command of the page."""
    page = PAGES[name]
    numbers = r"\d+(?:\.\d+)?%|\d{1,3}(?:,\d{3})+"
    text = re.sub(r"^\|.*$", "", prose(page), flags=re.MULTILINE)
    blocks = "\n".join(
        re.findall(r"```.*?```|^\|[^\n]*$|<!-- given:.*?-->", page, re.DOTALL | re.M)
    )
    shown = set(re.findall(numbers, blocks))
    shown |= {f"{int(n):,}" for n in re.findall(r"\b\d{4,}\b", blocks)}
    assert set(re.findall(numbers, text)) <= shown


@pytest.mark.parametrize("name", PAGES)
def test_every_option_and_link_exists(name):
    known = {"--version", "--help"}
    known |= {option for command in CLICK for option in options_of(command)}
    others = (
        r"`?python [^`\n]*`?|`?pip [^`\n]*`?|<p class=\"stamp\">[^\n]*"  # have their own options
    )
    ours = re.sub(others, "", PAGES[name])
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)) <= known
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGES[name]):
        target = (ROOT / name).parent / link
        assert target.exists(), link


def test_the_readme_is_short_and_has_no_link_that_breaks_on_pypi():
    assert len(README.splitlines()) <= 130
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert all(link.startswith(("https://", "#")) for link in links)
    headings = re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    anchors = {"#" + re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in headings}
    assert {link for link in links if link.startswith("#")} <= anchors
    named = re.findall(r"`((?:docs|snakemake_example|nextflow_example|packaging)/[^`]*)`", README)
    assert len(named) > 10
    assert all((ROOT / path).exists() for path in named)


def test_every_page_is_in_the_navigation():
    named = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert {f"docs/{page}" for page in named} == {n for n in PAGES if n.startswith("docs/")}


def test_the_reference_is_up_to_date():
    """Its commands, options, keys and warnings are written by docs/make_reference.py."""
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    for name in made["PARTS"]:
        assert made["updated"](name, REFERENCE[name]) == REFERENCE[name], "run make reference"


def test_the_plots_show_the_measurements():
    """Plots, their stamps and the table to download are written by docs/make_plots.py."""
    made = runpy.run_path(str(ROOT / "docs" / "make_plots.py"))
    assert made["outdated"]() == [], "run make results"
    named = set(re.findall(r"assets/results/(\w+)\.svg", PAGES["docs/results.md"]))
    assert named == {figure.__name__ for figure, names in made["FIGURES"].items() if names}
    assert len(named) >= 8
    for names in made["FIGURES"].values():
        for name in names:
            figures = {key: made["measured"](name)[key] for key in ("commit", "date", "repeats")}
            assert all(figures.values()), name


def test_claims_are_the_measured_figures():
    """One number for each quantity, on every page."""
    measured = runpy.run_path(str(ROOT / "docs" / "make_plots.py"))["measured"]

    def everywhere(name: str) -> dict:
        return next(row for row in measured(name)["rows"] if row["stratum"] == "all")

    unequal = measured("selection")["unequal"]
    negatives, verdicts = measured("negatives")["all"], everywhere("field-verdicts")
    biased = f"{unequal['auto_covered']:.1%}"
    claims = [
        f"{100 * measured('accuracy-twelve-sets')['means']['auto']['error']:.1f} percentage points",
        f"{everywhere('field-coverage')['covered']:.1%} of draws from",
        f"{everywhere('simulated-coverage')['covered']:.1%} of simulated samples",
        f"contain alpha in {biased} of {unequal['draws']} draws",
        f"{unequal['subclasses_covered']:.1%}",
        f"from {negatives['width']:.3f} to {negatives['width_with']:.3f}",
        f"from {verdicts['width']:.3f} to {verdicts['width_20_verdicts']:.3f}",
        f"{everywhere('field-fdr')['of_all_calls']:.1%} are negative",
    ]
    page = " ".join(PAGES["docs/results.md"].split())
    assert [claim for claim in claims if claim not in page] == []
    assert f"contained alpha in {biased}" in " ".join(README.split())


def test_the_reference_is_complete():
    """Every option, warning and key, each with a place of its own."""
    commands = REFERENCE["commands.md"]
    for name in CLICK:
        section = commands.split(f"\n## punoise {name}\n")[1].split("\n## ")[0]
        rows = "".join(re.findall(r"^\| `.*?` \|", section, re.MULTILINE))
        listed = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", rows))
        assert listed - {"-h"} == (flags(name) | {"--help"}) - {"-h"}, name
    assert set(re.findall(r"^## (\S+)$", REFERENCE["warnings.md"], re.MULTILINE)) == set(kinds())
    for key, _ in reference_rows():
        assert f"| `{key}` |" in REFERENCE["files.md"]


def test_the_reference_lists_every_exit_code():
    codes = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.PunoiseError)
    }
    listed = re.findall(r"^\| ([\d, ]+) \|", REFERENCE["exit-codes.md"], re.MULTILINE)
    found = {int(code) for codes in listed for code in codes.split(",")}
    assert found == codes | {0, 129, 130, 143}


def test_man_pages_are_written_for_every_command(tmp_path):
    runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["write_man_pages"](tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"punoise.1", *(f"punoise-{name}.1" for name in CLICK)}
    for name in CLICK:
        page = (tmp_path / f"punoise-{name}.1").read_text().replace("\\-", "-")
        assert all(flag in page for flag in flags(name))


def test_every_method_and_classifier_is_explained():
    page = PAGES["docs/choices.md"]
    for name in (*(n for n in ESTIMATORS if ":" not in n), *CLASSIFIERS):
        assert f"`{name}`" in page, name


def test_no_page_has_a_turn_that_reads_as_translated():
    places = {**PAGES, **{f"help of {name}": CLICK[name].help or "" for name in CLICK}}
    for name, command in CLICK.items():
        texts = [getattr(entry, "help", None) for entry in command.params]
        places[f"options of {name}"] = "\n".join(filter(None, texts))
    places["warnings"] = (ROOT / "pu_noise_cli" / "notices.toml").read_text()
    for path in ("snakemake_example/README.md", "nextflow_example/README.md"):
        places[path] = (ROOT / path).read_text()
    places["Galaxy"] = (ROOT / "packaging" / "galaxy" / "punoise_run.xml").read_text()
    for path in sorted((ROOT / "pu_noise_cli").rglob("*.py")):
        places[path.name] = "\n".join(messages(path.read_text()))
    found = [
        f"{name}: {match[0]}"
        for name, text in places.items()
        for turn in BANNED
        for match in re.finditer(rf".{{0,25}}{turn}.{{0,25}}", " ".join(text.split()))
        if not any(good.lower() in match[0].lower() for good in JUSTIFIED)
    ]
    assert found == []
