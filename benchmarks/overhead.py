"""What punoise costs beside its work: many small samples through the example workflow.

python benchmarks/overhead.py --samples 100

Wall: the command's time in the workflow, by Snakemake's benchmark files. Work: the same command
called once more in a process that has all imports behind it, less what it spends in reading and
writing (by the profiler, from where the code enters pyarrow and the modules that open files).
Overhead: the rest of the wall time: start-up, imports, input, output and waiting for a core. CPU:
what one process takes of the cores in all, which is the wall time to expect on an idle machine.
"""

import argparse
import cProfile
import csv
import os
import pstats
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pu_noise_cli.cli import process as cli

EXAMPLE = Path(__file__).parent.parent / "snakemake_example"
BIN = Path(sys.executable).parent
IO_MODULES = ("/pyarrow/", "/pu_noise_cli/tables.py", "/pu_noise_cli/outputs.py")
REPEATS = 5
LIMIT = 1.5  # seconds


def run_workflow(folder: Path, samples: int, cores: int) -> float:
    """Run the example on so many samples; returns the seconds it took."""
    for name in ("Snakefile", "environment.yaml"):
        shutil.copy(EXAMPLE / name, folder)
    names = [f"s{i:03}" for i in range(samples)]
    rows = "".join(f"{n}\tinputs/{n}/labeled.csv\tinputs/{n}/unlabeled.csv\n" for n in names)
    (folder / "samples.tsv").write_text("sample\tlabeled\tunlabeled\n" + rows)
    simulate = "".join(f"  {name}: --seed {i}\n" for i, name in enumerate(names))
    (folder / "config.yaml").write_text(
        "samples: samples.tsv\ntransform: ''\nestimate_prior: ''\nposterior: ''\n"
        f"simulate:\n{simulate}"
    )
    start = time.perf_counter()
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    subprocess.run(
        ["snakemake", "--cores", str(cores), "--quiet", "all"], cwd=folder, env=env, check=True
    )
    return time.perf_counter() - start


def wall_times(folder: Path, rule: str) -> list[float]:
    """The seconds of each job of a rule."""
    times = []
    for path in folder.glob(f"benchmarks/**/{rule}.tsv"):
        with open(path, newline="") as file:
            times += [float(row["s"]) for row in csv.DictReader(file, delimiter="\t")]
    return times


def commands(sample: str, samples: list[str]) -> dict[str, list[str]]:
    """The command of each rule, on files that the workflow has left."""
    result = f"results/{sample}"
    tables = [f"--{t}=inputs/{sample}/{t}.csv" for t in ("labeled", "unlabeled")]
    scored = [f"--scores={result}/scores.parquet"]
    prior, one, two = f"--prior={result}/prior.json", "--threads=1", "--threads=2"
    return {
        "simulate": ["--n-labeled=500", "--n-unlabeled=2000", "--out-dir=again", one],
        "transform": [*tables, "--out=again/s.parquet", "--model-out=again/m.punoise", two],
        "estimate-prior": [*scored, "--out=again/prior.json", one],
        "posterior": [*scored, prior, "--out=again/p.parquet", one],
        "report": [
            *(*scored, prior, f"--posterior={result}/posterior.parquet"),
            *("--out=again/r.html", one),
        ],
        "summarize": [
            *(f"results/{name}/prior.json" for name in samples),
            *("--out=again/s.tsv", "--multiqc=again/s_mqc.json", one),
        ],
    }


def work_seconds(command: list[str]) -> float:
    """A command in this process after a first call, without its input and output."""

    def call() -> float:
        start = time.perf_counter()
        cli.cli.main([*command, "--quiet"], prog_name="punoise", standalone_mode=False)
        return time.perf_counter() - start

    call()
    whole = statistics.median(call() for _ in range(REPEATS))
    profile = cProfile.Profile()
    profiled = profile.runcall(call)
    return whole * max(0.0, 1 - io_seconds(profile) / profiled)


def cpu_seconds(command: list[str]) -> float:
    """The time that a new process spends on the cores, at the median."""

    def call() -> float:
        process = subprocess.Popen([BIN / "punoise", *command, "--quiet"])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"exit code {process.returncode}: {' '.join(command)}")
        return usage.ru_utime + usage.ru_stime

    return statistics.median(call() for _ in range(REPEATS))


def io_seconds(profile: cProfile.Profile) -> float:
    """The time between entering the modules that read and write and leaving them."""

    def is_io(function: tuple[str, int, str]) -> bool:
        return any(part in function[0] or part.strip("/") in function[2] for part in IO_MODULES)

    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return sum(
        cumulative
        for function, (_, _, _, _, callers) in stats.items()
        if is_io(function)
        for caller, (_, _, _, cumulative) in callers.items()
        if not is_io(caller)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        total = run_workflow(folder, given.samples, given.cores)
        os.chdir(folder)
        names = sorted(path.name for path in Path("inputs").iterdir())
        print("| command | runs | wall, mean | work | overhead | CPU of one |")
        print("|---|---|---|---|---|---|")
        jobs, waste, slow = 0, 0.0, []
        for name, options in commands(names[0], names).items():
            times = wall_times(folder, name.replace("-", "_"))
            mean, work = statistics.mean(times), work_seconds([name, *options])
            cpu = cpu_seconds([name, *options])
            print(
                f"| {name} | {len(times)} | {mean:.2f} s | {work:.2f} s | {mean - work:.2f} s"
                f" | {cpu:.2f} s |",
                flush=True,
            )
            jobs, waste = jobs + len(times), waste + sum(times) - work * len(times)
            slow += [name] if mean - work > LIMIT else []
        print(
            f"\n{given.samples} samples, {jobs} jobs, {given.cores} cores: {total:.0f} s in all, "
            f"{waste / jobs:.2f} s of overhead a job."
        )
        if slow:
            sys.exit(f"overhead above {LIMIT} s: {', '.join(slow)}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
