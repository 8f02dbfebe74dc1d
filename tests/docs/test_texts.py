"""Texts in the sources: warnings are explained, and options and terminal are the command line's."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pu_noise_cli

PACKAGE = Path(pu_noise_cli.__file__).parent
NAMES_OPTIONS = {"cli", "errors", "report", "settings"}  # errors.option spells one for the caller


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


MODULES = sorted(PACKAGE.rglob("*.py"))
BELOW = [path for path in MODULES if room(path) != "cli"]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]


def strings(path: Path) -> list[tuple[int, str]]:
    """The string literals of a file with their lines, docstrings left out."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree(path))
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]


def test_below_the_command_line_no_option_is_named():
    named = {
        f"{path.name}:{line} {text!r}"
        for path in BELOW
        if room(path) not in NAMES_OPTIONS
        for line, text in strings(path)
        if re.search(r"--[a-z]", text)
    }
    assert not named, "\n".join(sorted(named))


def test_only_the_command_line_speaks():
    output = re.compile(r"print|click\.echo|sys\.std(out|err)\.write")
    speaking = {
        f"{path.name}:{node.lineno}"
        for path in BELOW
        for node in calls(path)
        if output.fullmatch(ast.unparse(node.func))
    }
    assert not speaking


def test_every_warning_has_a_meaning_and_a_remedy():
    kinds = tomllib.loads((PACKAGE / "notices.toml").read_text())
    raised = set()
    for path in MODULES:
        for node in calls(path):
            if ast.unparse(node.func).split(".")[-1] == "Notice":
                code = node.args[0] if node.args else node.keywords[0].value
                choice = (code.body, code.orelse) if isinstance(code, ast.IfExp) else (code,)
                raised |= {part.value for part in choice if isinstance(part, ast.Constant)}
    named = {text for path in MODULES for _, text in strings(path)}
    assert raised <= kinds.keys()
    assert kinds.keys() <= named, "of these no module knows: " + ", ".join(kinds.keys() - named)
