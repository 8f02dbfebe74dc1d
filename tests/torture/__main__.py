"""The campaign: seeded, within a time budget; a table of what was tried and what failed.

PUNOISE_TORTURE_SECONDS or --seconds is the budget, ten minutes by default. With --inputs, --kills
and the like, so many of a kind are tried and no more, however long it takes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

from pu_noise_cli.cli.process import limit_blas

limit_blas()  # before numpy comes

# ruff: noqa: E402
from child import ENDING, warm_up
from inputs import READERS, clean, one_input
from limits import can_mount, hostile_name, limit, small_disk
from relations import cases
from samples import make
from stops import WRITERS, Stops

SHARES = {
    "relations": 0.3,
    "inputs": 0.3,
    "kills": 0.2,
    "signals": 0.1,
    "limits": 0.04,
    "disk": 0.03,
    "names": 0.03,
}


class Campaign:
    """What was tried and what failed, by kind."""

    def __init__(self, folder: Path, seed: int, writers: Sequence[str]) -> None:
        self.writers = writers
        self.samples, self.folder, self.seed = folder / "samples", folder / "work", seed
        self.tried: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}
        self.memory = 0
        self.codes: Counter[int] = Counter()
        self.samples.mkdir()
        make(self.samples)
        self.stops = Stops(self.samples)

    def attempt(self, kind: str, number: int) -> None:
        """One try, which the seed, the kind and its number settle."""
        rng = Random(f"{self.seed} {kind} {number}")
        clean(self.folder)
        start = time.monotonic()
        row, fault = getattr(self, kind)(rng)
        self.note(kind, number, row, fault, time.monotonic() - start)
        if fault is not None and (keep := os.environ.get("PUNOISE_TORTURE_KEEP")):
            shutil.copytree(self.folder, f"{keep}/{kind}-{number}", symlinks=True)

    def note(self, kind: str, number: int, row: str, fault: str | None, seconds: float) -> None:
        """Count a try."""
        self.tried[row] += 1
        self.slowest[row] = max(self.slowest.get(row, 0), seconds)
        if fault is not None:
            self.failed[row] += 1
            print(f"FAILED {kind} {number}: {row}: {fault}", flush=True)

    def relations(self, first: int, count: int | None, seconds: float) -> None:
        """Relations on all cores."""
        for number, (row, fault, took) in cases(self.seed, first, count, seconds):
            self.note("relations", number, row, fault, took)

    def inputs(self, rng: Random) -> tuple[str, str | None]:
        kind = rng.choice(list(READERS))
        ended, fault = one_input(kind, self.samples, self.folder, rng)
        self.memory = max(self.memory, ended.memory)
        self.codes[ended.code] += 1
        return f"damaged {kind}", fault

    def kills(self, rng: Random) -> tuple[str, str | None]:
        name = rng.choice(self.writers)
        state, fault = self.stops.stop(name, (signal.SIGKILL,), self.folder, rng)
        return f"kill of {name}: {state}", fault

    def signals(self, rng: Random) -> tuple[str, str | None]:
        name = rng.choice(self.writers)
        numbers = tuple(rng.choice(sorted(ENDING)) for _ in range(rng.choice((1, 2))))
        kind = "signal" if len(numbers) == 1 else "two signals"
        return kind, self.stops.stop(name, numbers, self.folder, rng)[1]

    def limits(self, rng: Random) -> tuple[str, str | None]:
        return "limit", limit(self.samples, self.folder, rng)

    def disk(self, rng: Random) -> tuple[str, str | None]:
        return "small disk", small_disk(self.samples, self.folder, rng)

    def names(self, rng: Random) -> tuple[str, str | None]:
        return "hostile name", hostile_name(self.samples, self.folder, rng)

    def table(self) -> str:
        lines = [f"{'kind':<32}{'tried':>7}{'failed':>8}{'slowest, s':>12}"]
        for row in sorted(self.tried):
            lines.append(
                f"{row:<32}{self.tried[row]:>7}{self.failed[row]:>8}{self.slowest[row]:>12.1f}"
            )
        total = f"{'all':<32}{self.tried.total():>7}{self.failed.total():>8}"
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        memory = f"damaged inputs: at most {self.memory >> 20} MB; exit codes {codes}"
        return "\n".join([*lines, total, memory])


def main() -> int:
    budget = float(os.environ.get("PUNOISE_TORTURE_SECONDS", "600"))
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=budget)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first try")
    parser.add_argument("--writer", action="append", choices=WRITERS, help="stop just this one")
    for kind in SHARES:
        parser.add_argument(f"--{kind}", type=int, help="try just so many of these")
    given = parser.parse_args()
    counts = {kind: getattr(given, kind) for kind in SHARES if getattr(given, kind) is not None}
    warm_up()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        kinds = [kind for kind in SHARES if kind != "disk" or can_mount(Path(folder))]
        campaign = Campaign(Path(folder), given.seed, given.writer or [*WRITERS])
        for kind in kinds:
            if kind == "relations":
                count = counts.get(kind, 0) if counts else None
                campaign.relations(given.first, count, given.seconds * SHARES[kind])
            elif counts:
                for number in range(counts.get(kind, 0)):
                    campaign.attempt(kind, given.first + number)
            else:
                within(given.seconds * SHARES[kind], lambda n, k=kind: campaign.attempt(k, n))
        print(campaign.table())
        return 1 if campaign.failed else 0


def within(seconds: float, attempt: Callable[[int], None]) -> None:
    """Attempts one after the other until the time is up."""
    deadline, number = time.monotonic() + seconds, 0
    while number == 0 or time.monotonic() < deadline:
        attempt(number)
        number += 1


if __name__ == "__main__":
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    sys.exit(main())
