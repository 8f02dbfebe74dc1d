"""Resource limits, a small disk and hostile names."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

from child import limit_memory, punoise
from inputs import has_nan

COMMANDS = (
    ("estimate-prior", "--scores", "scores.tsv", "--on-failure", "write", "--out", "out/p.json"),
    (
        "estimate-prior",
        "--scores",
        "scores.parquet",
        "--on-failure",
        "write",
        "--out",
        "out/p.json",
    ),
    ("posterior", "--scores", "scores.parquet", "--prior", "prior.json", "--out", "out/p.parquet"),
    ("score", "--model", "networks.model", "--table", "unlabeled.csv", "--out", "out/s.tsv.gz"),
    *(
        ("run", *pair, "--classifier", "logistic", "--on-failure", "write", "--out-dir", "out")
        for pair in [("--labeled", "labeled.csv", "--unlabeled", "unlabeled.csv")]
    ),
)
NAMES = (
    *(
        b"\xff\xfe",
        b"\x1b[2J",
        b"a\nb",
        b" ",
        b"-",
        b"--out",
        b"'\"",
        b"*?[",
        b"a" * 250,
        b"a" * 256,
    ),
    *("\u202e".encode(), "é".encode(), b"..", b"\\", b"$(id)", b"<script>", b"%s{}", b"=1+1", b"~"),
)


def limit(samples: Path, folder: Path, rng: Random) -> str | None:
    """Little memory or small files: exit code 5 or the right answer, never a failure believed."""
    link(samples, folder)
    command = rng.choice(COMMANDS)
    if rng.random() < 0.7:
        prepare = limit_memory(rng.randrange(1 << 20, 1 << 29))
    else:
        size = rng.choice((0, 100, 1000, 3000, 10_000))

        def prepare() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    ended = punoise(*command, "--threads", rng.choice("12"), folder=folder, prepare=prepare)
    return judge(command, folder / "out", ended.code, ended.fault, ended.err)


def small_disk(samples: Path, folder: Path, rng: Random) -> str | None:
    """Too little room for the outputs."""
    link(samples, folder)
    command = rng.choice(COMMANDS)
    with tmpfs(folder / "out", rng.choice((4, 8, 16, 32, 64))):
        ended = punoise(*command, "--threads", "1", folder=folder)
        return judge(command, folder / "out", ended.code, ended.fault, ended.err)


def judge(
    command: tuple[str, ...], out: Path, code: int, fault: str | None, err: str
) -> str | None:
    left = sorted(path for path in out.iterdir()) if out.exists() else []
    if code == 127 and "ABORT" in err and not left:  # the C library itself cannot go on
        return None
    what = " ".join(command[:3])
    if fault:
        return f"{what}: {fault}"
    if code == 0:
        for path in left:
            if path.suffix == ".json" and '"alpha": null' in path.read_text():
                return f"{what}: the machine's fault is written as a failure"
            if found := has_nan(path):
                return f"{what}: {found}"
        return None
    if code != 5:
        return f"{what}: exit code {code}: {err[:200]}"
    return f"{what}: left behind: {[path.name for path in left]}" if left else None


@contextlib.contextmanager
def tmpfs(path: Path, pages: int) -> Iterator[None]:
    path.mkdir(exist_ok=True)
    options = f"size={4096 * pages}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def can_mount(folder: Path) -> bool:
    """Whether a small disk can be had here."""
    if os.geteuid() != 0:
        return False
    try:
        with tmpfs(folder / "disk", 4):
            return True
    except (subprocess.CalledProcessError, OSError):
        return False


def hostile_name(samples: Path, folder: Path, rng: Random) -> str | None:
    """Odd names of inputs, outputs, directories, samples and columns."""
    link(samples, folder)
    name = os.fsdecode(rng.choice(NAMES))
    table = f"{name}.csv"
    with contextlib.suppress(OSError):
        os.link(samples / "unlabeled.csv", folder / table)
    commands = (
        ("estimate-prior", "--labeled", "labeled.csv", "--unlabeled", f"./{table}", "--out", "x"),
        (
            "run",
            "--labeled",
            "labeled.csv",
            "--unlabeled",
            "unlabeled.csv",
            "--out-dir",
            f"./{name}",
        ),
        ("posterior", "--scores", "scores.tsv", "--alpha", ".2", "--out", f"./{name}.tsv"),
        ("estimate-prior", "--scores", "scores.tsv", f"--sample={name}"),
        (
            "transform",
            "--labeled",
            "labeled.csv",
            "--unlabeled",
            table,
            f"--features={name}",
            "--out",
            "-",
        ),
        ("score", "--model", f"./{name}", "--table", "unlabeled.csv", "--out", "-"),
        ("report", "--scores", "scores.tsv", f"--prior={name}", "--out", "r.html"),
        ("apply", f"--thresholds={name}", "--table", "unlabeled.csv", "--out", "-"),
    )
    command = rng.choice(commands)
    more = ("--classifier", "logistic") if command[0] in ("run", "transform") else ()
    ended = punoise(*command, *more, folder=folder)
    if ended.fault or ended.code not in (0, 2, 3):
        return f"{command!r}: {ended.fault or ended.err[:200]}"
    return None


def link(samples: Path, folder: Path) -> None:
    (folder / "out").mkdir()
    for sample in samples.iterdir():
        if sample.is_file():
            (folder / sample.name).symlink_to(sample)
