"""The house stays in order: imports point one way, things stand once, nothing grows too long."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import time
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pu_noise_cli

PACKAGE = Path(pu_noise_cli.__file__).parent
MODULES = {
    ".".join(("pu_noise_cli", *path.relative_to(PACKAGE).with_suffix("").parts)): path
    for path in PACKAGE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
}
CALLS_THE_REPORT = ("pu_noise_cli.run", "pu_noise_cli.commands.")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(name: str, path: Path) -> set[str]:
    """The modules of the package that one imports, wherever in it."""
    found = set()
    package = name.split(".")[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            stem = ".".join(part for part in base if part)
            found |= {stem, *(f"{stem}.{alias.name}" for alias in node.names)}
    return found & MODULES.keys()


def test_no_module_imports_in_a_circle():
    graph = {name: imports(name, path) for name, path in MODULES.items()}
    assert sum(map(len, graph.values())) > 100  # else they are not found
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_core_does_not_know_the_report():
    for name, path in MODULES.items():
        if not name.startswith(("pu_noise_cli.report.", *CALLS_THE_REPORT)):
            assert not [m for m in imports(name, path) if m.startswith("pu_noise_cli.report.")], (
                name
            )


def test_only_the_command_layer_prints():
    speaks = ("main", "console", "parameters", "commands.")
    for name, path in MODULES.items():
        if not name.removeprefix("pu_noise_cli.").startswith(speaks):
            assert not re.search(r"\bprint\(|click\.echo|sys\.stderr\.write", path.read_text()), (
                name
            )


def test_the_names_of_documents_stand_once():
    for schema in ("punoise.prior/1", "punoise.provenance/1", "punoise.manifest/1"):
        holding = [name for name, path in MODULES.items() if f'"{schema}"' in path.read_text()]
        assert len(holding) == 1, (schema, holding)


def test_nothing_is_too_long():
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 500, path
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 60, (path, node.name)


def test_no_two_classes_share_a_name():
    places: dict[str, Path] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                assert node.name not in places, (node.name, path, places[node.name])
                places[node.name] = path


def test_every_module_says_what_it_owns():
    for info in pkgutil.walk_packages(pu_noise_cli.__path__, "pu_noise_cli."):
        if not info.name.endswith("__main__"):
            assert importlib.import_module(info.name).__doc__, info.name


def test_importing_the_interface_costs_little():
    """At most half as much again as numpy, the best of several runs of each."""

    def best(module: str) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
            times.append(time.perf_counter() - start)
        return min(times)

    assert best("pu_noise_cli") < 1.5 * best("numpy")
