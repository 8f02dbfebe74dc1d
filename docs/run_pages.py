"""Runs the commands of the pages and brings the output that they show up to date.

python docs/run_pages.py                          README.md and the pages that need no data
python docs/run_pages.py docs/tutorials/selection.md
python docs/run_pages.py docs/tutorials/peptides.md --data DIR    with the files in DIR

Commands are the lines of ```sh blocks; a ```text block right after one shows what it prints. The
shown lines are found by their first word, so a page may leave lines out.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from standins import write_variants  # noqa: E402

CHAIN = (  # in one folder, in this order: a page may use what an earlier one has written
    *("README.md", "docs/first-analysis.md", "docs/report.md", "docs/verify.md"),
    *("docs/negatives.md", "docs/groups.md", "docs/tables.md", "docs/posteriors.md"),
    *("docs/choices.md", "docs/workflows.md", "docs/large.md"),
)
BLOCK = re.compile(r"```sh\n(?P<code>.*?)```\n(?:\n?```text\n(?P<shown>.*?)```\n)?", re.DOTALL)
STAND_IN = re.compile(r"<!-- stand-in: (.*?) -->")  # writes small files like those of a tutorial
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
RELATIVE, ABSOLUTE = 0.06, 0.3  # what an interval may move on another processor: 29.1% to 27.9%


@dataclass(frozen=True)
class Block:
    """Commands of a page, and the output it shows for them."""

    code: str
    shown: str | None
    span: tuple[int, int]  # of the shown output in the page

    @property
    def commands(self) -> list[str]:
        """One for each line; lines that end in a backslash go on."""
        lines = self.code.replace("\\\n", " ").splitlines()
        return [" ".join(line.split()) for line in lines if line and not line.startswith("#")]


def blocks(page: str) -> list[Block]:
    return [Block(m["code"], m["shown"], m.span("shown")) for m in BLOCK.finditer(page)]


def refreshed(shown: str, printed: str) -> str:
    """Shown lines, each replaced by the printed line with the same first word."""
    words = {first_word(line) for line in shown.splitlines()}
    by_word = {w: iter([p for p in printed.splitlines() if first_word(p) == w]) for w in words}
    lines = []
    for line in shown.splitlines():
        found = next(by_word[first_word(line)], None) if line.strip() else ""
        if found is None:
            raise LookupError(f"nothing printed begins as: {line}")
        lines.append(found.rstrip())
    return "".join(f"{line}\n" for line in lines)


def first_word(line: str) -> str:
    return line.split(maxsplit=1)[0] if line.strip() else ""


def masked(text: str) -> list[str]:
    """Words with their numbers taken out, for outputs on other data."""
    return NUMBER.sub("0", text).split()


def is_shown(printed: str, shown: str) -> bool:
    """Whether a page shows what is printed: the words, and the digits that every processor gives.

    Another processor adds in another order, which moves the last digits of what networks learn.
    """
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=False)
    numbers = [(float(a.replace(",", "")), float(b.replace(",", ""))) for a, b in pairs]
    return masked(printed) == masked(shown) and all(
        math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) for a, b in numbers
    )


def run_page(page: str, run: Callable[[str], str]) -> str:
    """A page with all shown output refreshed."""
    parts, end = [], 0
    for block in blocks(page):
        printed = "".join(run(command) for command in block.commands)
        if block.shown is not None:
            parts += [page[end : block.span[0]], refreshed(block.shown, printed)]
            end = block.span[1]
    return "".join(parts) + page[end:]


def in_shell(folder: Path) -> Callable[[str], str]:
    """Runs commands as a reader would, with this environment's punoise."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={"PATH": path, "HOME": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            sys.exit(f"{command}\n{done.stdout}")
        return done.stdout

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--data", type=Path, help="directory of files that the pages need")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for path in options.pages or [ROOT / name for name in CHAIN]:
            page = path.read_text(encoding="utf-8")
            where = Path(tempfile.mkdtemp(dir=folder)) if options.pages else Path(folder)
            write_variants(where)
            if options.data is not None:
                shutil.copytree(options.data, where, dirs_exist_ok=True)
            path.write_text(run_page(page, in_shell(where)), encoding="utf-8")


if __name__ == "__main__":
    main()
