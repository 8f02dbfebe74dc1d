"""This version reads what earlier versions wrote, with the same numbers (tests/recipes/golden)."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import pytest
from conftest import call_quietly

GOLDEN = Path(__file__).parent / "golden"
spec = importlib.util.spec_from_file_location("golden_make", GOLDEN / "make.py")
assert spec is not None
assert spec.loader is not None
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)

STORED = sorted(path for path in GOLDEN.glob("*/answers/*"))
MAY_DIFFER = ("punoise_version", "version")


def parsed(path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(path.read_text())
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def differences(stored: Any, now: Any, place: str = "$") -> list[str]:
    """Where the answers differ; a later version may add keys and columns."""
    if isinstance(stored, dict) and isinstance(now, dict):
        return [
            line
            for key in stored
            if key not in MAY_DIFFER
            for line in (
                differences(stored[key], now[key], f"{place}.{key}")
                if key in now
                else [f"{place}.{key} is missing"]
            )
        ]
    if isinstance(stored, list) and isinstance(now, list) and len(stored) == len(now):
        pairs = enumerate(zip(stored, now, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{place}[{i}]")]
    a, b = number(stored), number(now)
    if a is not None and b is not None:
        same = math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-7) or (math.isnan(a) and math.isnan(b))
    else:
        same = stored == now
    return [] if same else [f"{place}: {stored!r} became {now!r}"]


def test_there_is_a_corpus():
    assert {path.name for path in STORED} == set(make.READERS)
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*") if path.is_file()) < 460_000


@pytest.mark.parametrize("stored", STORED, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_files_of_released_versions_give_the_same_numbers(stored, tmp_path, monkeypatch):
    monkeypatch.chdir(stored.parent.parent)
    now = tmp_path / stored.name
    call_quietly(*make.READERS[stored.name].format(now).split())
    assert differences(parsed(stored), parsed(make.answer(now)))[:5] == []


def test_another_number_is_noticed():
    stored = {"alpha": 0.2, "warnings": [{"code": "few-rows"}], "punoise_version": "0.1.0"}
    assert differences(stored, {**stored, "punoise_version": "9", "new": 1}) == []
    assert differences(stored, {**stored, "alpha": 0.2001}) == ["$.alpha: 0.2 became 0.2001"]
    assert differences(stored, {"alpha": 0.2}) == ["$.warnings is missing"]
