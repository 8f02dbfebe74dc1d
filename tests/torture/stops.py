"""Kills and signals at random moments of every command that writes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from child import ENDING, Child, punoise
from samples import PAIR

SCORED = ("--scores", "scores.parquet")
LEARN = ("-q", "--threads", "1", "--classifier", "logistic", "--drop-columns", "g")
TABLES = ("--labeled", "labeled.parquet", "--unlabeled", "unlabeled.parquet")


@dataclass(frozen=True)
class Writer:
    """A command that writes, and what changes between two runs of it."""

    args: tuple[str, ...]
    outputs: tuple[str, ...]
    vary: tuple[tuple[str, ...], tuple[str, ...]]
    last: str | None = None  # the outputs must be of one run, unless this file is missing


SEEDS = (("--seed", "1"), ("--seed", "2"))
ALPHAS = (("--alpha", "0.2"), ("--alpha", "0.3"))
RUN_FILES = ("scores.parquet", "posterior.parquet", "prior.json", "model.punoise", "report.html")
SHARDED = ("prior.json", "model.punoise", "report.html")
WRITERS = {
    "run": Writer(("run", *LEARN, *PAIR, "--out-dir", "out"), RUN_FILES, SEEDS, "provenance.json"),
    "run --shards": Writer(
        ("run", *LEARN, *TABLES, "--shards", "--out-dir", "out"), SHARDED, SEEDS, "provenance.json"
    ),
    "simulate": Writer(
        ("simulate", "--n-labeled", "300", "--n-unlabeled", "300", "--out-dir", "out"),
        ("labeled.csv", "unlabeled.csv", "truth.csv"),
        SEEDS,
        "truth.csv",
    ),
    "transform": Writer(("transform", *LEARN, *PAIR, "--out", "out/s.tsv"), ("s.tsv",), SEEDS),
    "train": Writer(("train", *LEARN, *PAIR, "--out", "out/m"), ("m",), SEEDS),
    "estimate-prior": Writer(
        ("estimate-prior", "-q", *SCORED, "--out", "out/p.json"), ("p.json",), SEEDS
    ),
    "posterior": Writer(
        ("posterior", "-q", *SCORED, "--out", "out/p.parquet"), ("p.parquet",), ALPHAS
    ),
    "report": Writer(
        ("report", *SCORED, "--out", "out/r.html"),
        ("r.html",),
        (
            ("--prior", "prior.json"),
            ("--prior", "prior.json", "--provenance", "provenance.json"),
        ),
    ),
    "sketch": Writer(("sketch", "--out", "out/s"), ("s",), (SCORED, ("--scores", "scores.tsv"))),
    "score": Writer(
        ("score", "-q", "--table", "unlabeled.csv", "--out", "out/s.csv.gz"),
        ("s.csv.gz",),
        (("--model", "networks.model"), ("--model", "logistic.model")),
    ),
}


class Stops:
    """The writers with what each writes in both variants, by digest."""

    def __init__(self, samples: Path) -> None:
        self.samples = samples
        self.digests: dict[str, list[dict[str, str]]] = {}
        self.seconds: dict[str, float] = {}

    def learn(self, name: str, folder: Path) -> None:
        """Run both variants undisturbed."""
        writer, found = WRITERS[name], []
        for variant in writer.vary:
            self.prepare(folder)
            ended = punoise(*writer.args, *variant, folder=folder)
            assert ended.code == 0, (name, ended.err)
            self.seconds[name] = ended.seconds
            found.append(digests(folder / "out", writer))
            if variant == writer.vary[0]:
                shutil.copytree(folder / "out", self.old(name))
        assert found[0] != found[1] or name == "sketch", name
        self.digests[name] = found

    def old(self, name: str) -> Path:
        """What the first variant has written."""
        return self.samples.parent / f"old-{name.replace(' ', '')}"

    def prepare(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "out").mkdir(parents=True)
        for sample in self.samples.iterdir():
            (folder / sample.name).symlink_to(sample)

    def stop(self, name: str, numbers: tuple[int, ...], folder: Path, rng: Random) -> str | None:
        """Write one variant, stop the command that writes the other, and look at what is there."""
        if name not in self.digests:
            self.learn(name, folder)
        writer = WRITERS[name]
        self.prepare(folder)
        old, new = self.digests[name]
        if rng.random() < 0.7:
            shutil.copytree(self.old(name), folder / "out", dirs_exist_ok=True)
        else:
            old = {}
        slow = rng.random() < 0.5
        child = Child([*writer.args, *writer.vary[1]], folder, slow_renames if slow else None)
        time.sleep(rng.uniform(0, self.seconds[name] * (1.3 if slow else 1.05)))
        for number in numbers:
            child.signal(number)
            time.sleep(rng.choice((0, 0, 0.001, 0.01)))
        ended = child.wait()
        killed = signal.SIGKILL in numbers
        if not killed and (ended.fault or ended.code not in (0, *(128 + n for n in ENDING))):
            return ended.fault or f"exit code {ended.code}: {ended.err[:300]}"
        fault = self.state(writer, folder / "out", old, new, killed)
        return fault or self.again(writer, folder, new)

    def state(
        self, writer: Writer, out: Path, old: dict[str, str], new: dict[str, str], killed: bool
    ) -> str | None:
        """What is wrong with the files that are there."""
        found = digests(out, writer)
        hidden = [path.name for path in out.rglob(".*")]
        if hidden and not killed:
            return f"left behind: {hidden}"
        if found in (old, new):
            return None
        if writer.last is not None:
            refused = ".punoise-unfinished" in hidden
            return None if refused else f"mixed: {sorted(found)} of {sorted(new)}"
        return "torn"

    def again(self, writer: Writer, folder: Path, new: dict[str, str]) -> str | None:
        """The next run removes what is left and gives the right files."""
        ended = punoise(*writer.args, *writer.vary[1], folder=folder)
        hidden = [path.name for path in (folder / "out").rglob(".*")]
        if ended.code != 0 or hidden or digests(folder / "out", writer) != new:
            return f"the next run: {ended.code} {ended.err[:200]} {hidden}"
        return None


def slow_renames() -> None:
    """For a child: what takes microseconds takes milliseconds, so that it can be hit."""
    for name in ("replace", "rename", "unlink", "chmod"):
        real = getattr(os, name)

        def slow(*args: object, real: object = real, **more: object) -> None:
            time.sleep(0.004)
            real(*args, **more)  # type: ignore[operator]
            time.sleep(0.004)

        setattr(os, name, slow)


def digests(out: Path, writer: Writer) -> dict[str, str]:
    """The digest of each output that is there."""
    found = {}
    for name in writer.outputs:
        if (out / name).exists():
            found[name] = hashlib.sha256((out / name).read_bytes()).hexdigest()
    if "--shards" in writer.args and (out / "provenance.json").exists():
        stated = json.loads((out / "provenance.json").read_text())["files"]
        found |= {name: digest for name, digest in stated.items() if "/" in name}
    return found
