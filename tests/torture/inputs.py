"""Damaged and crafted inputs: an error message or a right answer, and nothing left behind."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from child import Ended, punoise
from damage import damage

TABLES = ("estimate-prior", "--labeled", "labeled.csv", "--unlabeled", "unlabeled.csv")
LEARN = ("--classifier", "logistic", "--drop-columns", "g", "--id-column", "id")
SCORED = ("--scores", "scores.parquet")
# the kind of file, those that are damaged, and the commands that read them; {} is the damaged one
READERS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]] = {
    "table": (
        ("labeled.csv", "unlabeled.csv", "labeled.tsv.gz", "labeled.parquet"),
        (
            ("estimate-prior", "--labeled", "{}", "--unlabeled", "unlabeled.csv", *LEARN),
            ("transform", "--labeled", "labeled.csv", "--unlabeled", "{}", *LEARN),
            ("score", "--model", "logistic.model", "--table", "{}", "--id-column", "id"),
            ("transform", "--labeled", "{}", "--unlabeled", "{}", "--score-column", "x1"),
        ),
    ),
    "scores": (
        ("scores.parquet", "scores.tsv"),
        (
            ("estimate-prior", "--scores", "{}"),
            ("posterior", "--scores", "{}", "--prior", "prior.json"),
            ("posterior", "--scores", "{}", "--alpha", ".2", "--bounds"),
            ("report", "--scores", "{}", "--prior", "prior.json"),
        ),
    ),
    "prior": (
        ("prior.json",),
        (
            ("posterior", *SCORED, "--prior", "{}"),
            ("report", *SCORED, "--prior", "{}"),
            ("summarize", "{}"),
        ),
    ),
    "provenance": (
        ("provenance.json",),
        (("report", *SCORED, "--prior", "prior.json", "--provenance", "{}"),),
    ),
    "sketch": (
        ("all.sketch",),
        (
            ("estimate-prior", "--sketch", "{}", "all.sketch"),
            ("estimate-prior", "--sketch", "{}"),
            ("posterior", *SCORED, "--prior", "prior.json", "--sketch", "{}"),
        ),
    ),
    "model": (
        ("networks.model", "logistic.model", "groups.model"),
        (
            ("score", "--model", "{}", "--table", "unlabeled.csv", "--id-column", "id"),
            ("score", "--model", "{}", "--table", "unlabeled.csv", "--set", "unlabeled"),
            ("posterior", *SCORED, "--prior", "prior.json", "--model", "{}"),
        ),
    ),
    "thresholds": (
        ("thresholds.tsv", "thresholds.json"),
        (("apply", "--thresholds", "{}", "--table", "unlabeled.csv", "--score-column", "x0"),),
    ),
}
OUTPUTS = {
    "estimate-prior": "out.json",
    "report": "out.html",
}


def one_input(kind: str, samples: Path, folder: Path, rng: Random) -> tuple[Ended, str | None]:
    """Damage one file, let a command read it, and look at what comes of it."""
    names, commands = READERS[kind]
    source = samples / rng.choice(names)
    _, content = damage(source, rng)
    for sample in samples.iterdir():
        if sample.is_file() and not (folder / sample.name).exists():
            (folder / sample.name).symlink_to(sample)
    damaged = folder / f"damaged{''.join(source.suffixes)}"
    damaged.write_bytes(content)
    slow = [0.25 if command[0] == "report" else 1.0 for command in commands]
    (chosen,) = rng.choices(commands, slow)
    command = [word.replace("{}", damaged.name) for word in chosen]
    out = OUTPUTS.get(command[0], rng.choice(("out.parquet", "out.tsv")))
    before = {path.name for path in folder.iterdir()} | {"stdout", "stderr"}
    ended = punoise(*command, "--threads", "1", "--out", out, folder=folder)
    fault = ended.fault or _wrong(folder, out, ended, before)
    (folder / out).unlink(missing_ok=True)
    return ended, None if fault is None else f"{' '.join(command)}: {fault}"


def _wrong(folder: Path, out: str, ended: Ended, before: set[str]) -> str | None:
    left = {path.name for path in folder.iterdir()} - before - {out}
    if left:
        return f"left behind: {left}"
    there = (folder / out).exists()
    if ended.code != 0:
        if ended.code not in (2, 3, 4):
            return f"exit code {ended.code}: {ended.err[:200]}"
        return f"an output after exit code {ended.code}" if there else None
    return has_nan(folder / out) if there else "exit code 0 without an output"


def has_nan(path: Path) -> str | None:
    """Whether an output holds what is no number."""
    if path.suffix == ".json":
        text = path.read_text()
        try:
            json.loads(text, parse_constant=_no_constant)
        except ValueError as error:
            return str(error)
    elif path.suffix == ".parquet":
        table = pq.read_table(path)
        for name, column in zip(table.schema.names, table.columns, strict=True):
            if pa.types.is_floating(column.type) and any(
                value is not None and math.isnan(value) for value in column.to_pylist()
            ):
                return f"NaN in column {name}"
    elif path.suffix == ".tsv":
        head, *rows = path.read_text(errors="replace").split("\n")
        at = head.split("\t").index("score") if "score" in head.split("\t") else None
        if at is not None and any("\tnan" in row.split("\t", at)[-1] for row in rows if row):
            return "nan in a table"
    return None


def _no_constant(text: str) -> None:
    if text == "NaN":
        raise ValueError("NaN in JSON")


def clean(folder: Path) -> None:
    """An empty directory."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
