"""Kills and signals at random moments of every command that writes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from child import ENDING, Child, punoise
from samples import PAIR

SCORED = ("--scores", "scores.parquet")
LEARN = ("-q", "--threads", "1", "--classifier", "logistic", "--drop-columns", "g")
SCORE = ("-q", "--threads", "1", "--score-column", "x0")
LABELED = ("--labeled", "labeled.parquet", "--unlabeled")


@dataclass(frozen=True)
class Writer:
    """A command that writes, and what changes between two runs of it."""

    args: tuple[str, ...]
    vary: tuple[tuple[str, ...], tuple[str, ...]]
    last: str | None = None  # the outputs must be of one run, unless this file is missing
    scores: str | None = None  # of a directory of results, which is refused while incomplete


SEEDS = (("--seed", "1"), ("--seed", "2"))
FORMATS = (("--seed", "1", "--format", "tsv"), ("--seed", "2"))
SHARDS = (("other.parquet", "--seed", "1"), ("unlabeled.parquet", "--seed", "2"))
ALPHAS = (("--alpha", "0.2"), ("--alpha", "0.3"))
PRIOR = ("--prior", "prior.json")
WRITERS = {
    "run": Writer(("run", *LEARN, *PAIR, "--out-dir", "out"), FORMATS, scores="scores.parquet"),
    "run --shards": Writer(
        ("run", *LEARN, "--shards", "--out-dir", "out", *LABELED), SHARDS, scores="scores/"
    ),
    "calibrate": Writer(
        ("calibrate", *SCORE, *PAIR, "--out-dir", "out"), FORMATS, scores="scores.parquet"
    ),
    "simulate": Writer(
        ("simulate", "--n-labeled", "300", "--n-unlabeled", "300", "--out-dir", "out"),
        SEEDS,
        last="truth.csv",
    ),
    "transform": Writer(("transform", *LEARN, *PAIR, "--out", "out/s.tsv"), SEEDS),
    "train": Writer(("train", *LEARN, *PAIR, "--out", "out/m"), SEEDS),
    "estimate-prior": Writer(("estimate-prior", "-q", *SCORED, "--out", "out/p.json"), SEEDS),
    "posterior": Writer(("posterior", "-q", *SCORED, "--out", "out/p.parquet"), ALPHAS),
    "report": Writer(
        ("report", *SCORED, *PRIOR, "--out", "out/r.html"),
        ((), ("--provenance", "provenance.json")),
    ),
    "score": Writer(
        ("score", "-q", "--table", "unlabeled.csv", "--out", "out/s.csv.gz"),
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
            found.append(digests(folder / "out"))
            if variant == writer.vary[0]:
                shutil.copytree(folder / "out", self.old(name))
        assert found[0] != found[1], name
        self.digests[name] = found

    def old(self, name: str) -> Path:
        """What the first variant has written."""
        return self.samples.parent / f"old-{name.replace(' ', '')}"

    def prepare(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "out").mkdir(parents=True)
        for sample in self.samples.iterdir():
            (folder / sample.name).symlink_to(sample)

    def stop(
        self, name: str, numbers: tuple[int, ...], folder: Path, rng: Random
    ) -> tuple[str, str | None]:
        """Write one variant, stop the command that writes the other, and look at what is there.

        Returns
        -------
        The state of the outputs, and what is wrong with it or with what the next run makes of it.
        """
        if name not in self.digests:
            self.learn(name, folder)
        writer = WRITERS[name]
        self.prepare(folder)
        old, new = self.digests[name]
        if rng.random() < 0.7:
            shutil.copytree(self.old(name), folder / "out", dirs_exist_ok=True)
        else:
            old = {}
        killed = signal.SIGKILL in numbers
        if killed and rng.random() < 0.5:
            renames = rng.randrange(len(old) + len(new) + 2)
            self.start(writer, folder, partial(die_among_renames, renames)).wait()
        else:
            slow = rng.random() < 0.5
            child = self.start(writer, folder, slow_renames if slow else None)
            time.sleep(rng.uniform(0, self.seconds[name] * (1.3 if slow else 1.05)))
            for number in numbers:
                child.signal(number)
                time.sleep(rng.choice((0, 0, 0.001, 0.01)))
            ended = child.wait()
            if not killed and (ended.fault or ended.code not in (0, *(128 + n for n in ENDING))):
                return "fault", ended.fault or f"exit code {ended.code}: {ended.err[:300]}"
        state, fault = self.state(writer, folder, old, new, killed)
        return state, fault or self.again(writer, folder, new)

    def start(
        self, writer: Writer, folder: Path, prepare: Callable[[], None] | None = None
    ) -> Child:
        return Child([*writer.args, *writer.vary[1]], folder, prepare)

    def state(
        self, writer: Writer, folder: Path, old: dict[str, str], new: dict[str, str], killed: bool
    ) -> tuple[str, str | None]:
        """Whether the files are the old ones, the new ones, or refused; and what is wrong."""
        out = folder / "out"
        hidden = [path.name for path in out.rglob(".*")]
        if hidden and not killed:
            return "left behind", str(hidden)
        found, stated = digests(out), provenance(out)
        if writer.scores is not None and stated is not None and not stated["complete"]:
            return "refused", None if killed else "a signal was answered among renames"
        for state, expected in (("old", old), ("new", new)):
            if found == expected and (stated is None or stated["files"] == found):
                return state, None
        if writer.last is not None and writer.last not in found:
            return "without the last", None
        return "mixed", f"{sorted(found)} of {sorted(new)}"

    def again(self, writer: Writer, folder: Path, new: dict[str, str]) -> str | None:
        """What is refused is refused by every reader; the next run repairs it."""
        out = folder / "out"
        stated = provenance(out)
        if stated is not None and not stated["complete"]:
            for ended in self.read(writer, folder):
                if ended.code != 3 or "incomplete" not in ended.err:
                    return f"not refused: {ended.code} {ended.err[:200]}"
        ended = self.start(writer, folder).wait()
        hidden = [path.name for path in out.rglob(".*")]
        if ended.code != 0 or hidden or digests(out) != new:
            return f"the next run: {ended.code} {ended.err[:200]} {hidden}"
        if stated is not None:
            for ended in self.read(writer, folder):
                if ended.code != 0:
                    return f"not repaired: {ended.code} {ended.err[:200]}"
        return None

    @staticmethod
    def read(writer: Writer, folder: Path) -> list[Any]:
        """Commands that read a directory of results."""
        files = ("--scores", f"out/{writer.scores}", "--prior", "out/prior.json")
        made_by = ("--provenance", "out/provenance.json")
        return [
            punoise("report", *files, *made_by, "--out", "r.html", folder=folder),
            punoise("posterior", "-q", *files, "--out", "p.tsv", folder=folder),
        ]


def slow_renames() -> None:
    """For a child: what takes microseconds takes milliseconds, so that it can be hit."""
    for name in ("replace", "rename", "unlink", "chmod"):
        real = getattr(os, name)

        def slow(*args: object, real: object = real, **more: object) -> None:
            time.sleep(0.004)
            real(*args, **more)  # type: ignore[operator]
            time.sleep(0.004)

        setattr(os, name, slow)


def die_among_renames(left: int) -> None:
    """For a child: it dies after so many changes to files that are not hidden."""
    for name in ("replace", "unlink"):
        real = getattr(os, name)

        def counted(*args: Any, real: object = real, **more: object) -> None:
            nonlocal left
            if not any(part[0] == "." for part in Path(os.fsdecode(args[-1])).parts):
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
            real(*args, **more)  # type: ignore[operator]

        setattr(os, name, counted)


def digests(out: Path) -> dict[str, str]:
    """The digest of each file, by name, but for the provenance, which has times."""
    files = (path for path in sorted(out.rglob("*")) if path.is_file())
    by_name = {path.relative_to(out).as_posix(): path for path in files}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in by_name.items()
        if name != "provenance.json" and not any(part[0] == "." for part in name.split("/"))
    }


def provenance(out: Path) -> dict[str, Any] | None:
    """The provenance of results, if there is one."""
    name = out / "provenance.json"
    return json.loads(name.read_text()) if name.exists() else None
