"""How the commands grow with the rows: time, rows a second, peak memory, beside bare pyarrow.

    python benchmarks/scale.py --rows 1e5 1e6 1e7 1e8 --feature-rows 1e5 1e6 1e7 2e7

Each command runs in a process of its own, so that its start is in its time and its memory is its
own; pyarrow's time is that of its calls alone.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
import protocol
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

STEP = 1 << 19
N_FEATURES = 20
LABELED_SHARE = 0.01
SHARDS = 32

READ_SCORES = """
import pyarrow.parquet as pq
file = pq.ParquetFile({path!r})
start = time.perf_counter()
for group in range(file.num_row_groups):
    file.read_row_group(group, ["score"])
"""
READ_SCORES_AT_ONCE = """
import pyarrow.parquet as pq
start = time.perf_counter()
pq.read_table({path!r}, columns=["score"])
"""
READ_AND_WRITE = """
import pyarrow.parquet as pq
scores, made = pq.ParquetFile({path!r}), pq.ParquetFile({made!r})
elapsed, start = 0.0, time.perf_counter()
for group in range(scores.num_row_groups):
    scores.read_row_group(group)
elapsed = time.perf_counter() - start
with pq.ParquetWriter({out!r}, made.schema_arrow) as writer:
    for group in range(made.num_row_groups):
        table = made.read_row_group(group)
        start = time.perf_counter()
        writer.write_table(table)
        elapsed += time.perf_counter() - start
start = time.perf_counter() - elapsed
"""
READ_FEATURES = """
import pyarrow.parquet as pq
start = time.perf_counter()
file = pq.ParquetFile({path!r})
for group in range(file.num_row_groups):
    file.read_row_group(group)
"""
SKLEARN = """
import numpy as np
from sklearn.ensemble import BaggingClassifier
from sklearn.neural_network import MLPClassifier
rng = np.random.default_rng(0)
features, labels = rng.normal(size=(2000, {features})), rng.random(2000) < 0.5
network = MLPClassifier((5,), activation="tanh", max_iter=20)
model = BaggingClassifier(network, n_estimators=100, n_jobs={threads}).fit(features, labels)
rows = rng.normal(size=({rows}, {features}))
start = time.perf_counter()
model.predict_proba(rows)
"""


class Measured(NamedTuple):
    seconds: float
    peak_mb: float
    cpu: float = 0.0  # seconds of the processor


def measured(command: list[str], stdout: int | TextIO = subprocess.DEVNULL) -> Measured:
    """A process's wall time, peak memory and time of the processor."""
    start, before, peak = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN), 0
    process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL)
    while process.poll() is None:  # what wait4 says of memory includes that of this process
        with contextlib.suppress(OSError, TypeError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(peak, int(re.search(r"VmHWM:\s+(\d+)", status)[1]))
        time.sleep(0.01)
    seconds = time.perf_counter() - start
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(seconds, peak / 1024, cpu)


def punoise(*args: object, threads: int = 2) -> Measured:
    """A command of punoise in a process of its own."""
    command = [sys.executable, "-m", "pu_noise_cli", *map(str, args), "--threads", str(threads)]
    return measured(command)


def bare(script: str, **names: object) -> float:
    """The seconds that a few calls take in a process of their own, its start left out."""
    code = f"import time\n{script.format(**names)}\nprint(time.perf_counter() - start)"
    return float(
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    )


def write_scores(path: Path, rows: int) -> None:
    """SCORES with a share of labeled rows, as `transform` writes it."""
    rng = np.random.default_rng(0)
    n_labeled = max(int(rows * LABELED_SHARE), 100)
    schema = pa.schema([("id", pa.string()), ("set", pa.string()), ("score", pa.float64())])
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=["set"]) as writer:
        for first in range(0, rows, STEP):
            row = np.arange(first, min(first + STEP, rows))
            labeled = row < n_labeled
            y = rng.random(len(row)) < np.where(labeled, 0.95, 0.2)
            score = 1 / (1 + np.exp(-rng.normal(2.0 * y - 1, 1)))
            ids = pc.cast(pa.array(np.where(labeled, row, row - n_labeled)), pa.string())
            sets = pa.array(["unlabeled", "labeled"]).take(pa.array(labeled.astype(np.int8)))
            writer.write_batch(pa.record_batch([ids, sets, pa.array(score)], schema=schema))


def write_features(path: Path, rows: int, share: float, seed: int) -> None:
    """A table of features in which a share of the rows is positive."""
    rng = np.random.default_rng(seed)
    names = [f"x{i}" for i in range(N_FEATURES)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for first in range(0, rows, STEP // 4):
            n = min(STEP // 4, rows - first)
            y = rng.random(n) < share
            columns = [pa.array(rng.normal(0.6 * y, 1)) for _ in names]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def growth(rows: list[int], found: list[Measured]) -> str:
    """How time grows: the exponent from 10^6 rows to the largest size, and over the last step."""
    first = rows.index(10**6)

    def exponent(start: int) -> float:
        return math.log(found[-1].seconds / found[start].seconds) / math.log(rows[-1] / rows[start])

    memory = found[-1].peak_mb / found[first].peak_mb
    return (
        f"time grows as n^{exponent(first):.2f} from 10^6 rows to the largest size, over the last "
        f"step as n^{exponent(-2):.2f}; peak memory grows by {memory:.2f}"
    )


def scores_table(folder: Path, sizes: list[int]) -> str:
    """estimate-prior and posterior on SCORES of growing length."""
    lines = [
        "| rows | estimate-prior s | rows/s | MB | over read | over read at once "
        "| posterior s | rows/s | MB | over read + write |",
        "|---" * 10 + "|",
    ]
    times: dict[str, list[Measured]] = {"estimate-prior": [], "posterior": []}
    for rows in sizes:
        path, prior, out = folder / "scores.parquet", folder / "p.json", folder / "q.parquet"
        write_scores(path, rows)
        read = bare(READ_SCORES, path=str(path))
        at_once = bare(READ_SCORES_AT_ONCE, path=str(path))
        estimate = punoise("estimate-prior", "--scores", path, "--out", prior)
        posterior = punoise("posterior", "--scores", path, "--prior", prior, "--out", out)
        copy = folder / "copy.parquet"
        both = bare(READ_AND_WRITE, path=str(path), made=str(out), out=str(copy))
        times["estimate-prior"].append(estimate)
        times["posterior"].append(posterior)
        lines.append(
            f"| {rows:,} | {estimate.seconds:.2f} | {rows / estimate.seconds:,.0f} "
            f"| {estimate.peak_mb:.0f} | {estimate.seconds / read:.2f} "
            f"| {estimate.seconds / at_once:.2f} | {posterior.seconds:.2f} "
            f"| {rows / posterior.seconds:,.0f} | {posterior.peak_mb:.0f} "
            f"| {posterior.seconds / both:.2f} |"
        )
        print(lines[-1], flush=True)
        for file in (path, out, copy):
            file.unlink()
    lines.append("")
    for name, found in times.items():
        lines.append(f"{name}: {growth(sizes, found)}.")
    return "\n".join(lines) + "\n"


def features_table(folder: Path, sizes: list[int], threads: int) -> str:
    """score on feature tables of growing length, beside scikit-learn's bagged networks."""
    labeled, model = folder / "l.parquet", folder / "m.punoise"
    write_features(labeled, 2000, 0.95, 1)
    write_features(folder / "u.parquet", 20_000, 0.2, 2)
    punoise("train", "--labeled", labeled, "--unlabeled", folder / "u.parquet", "--out", model)
    sample = 100_000
    theirs = sample / bare(SKLEARN, rows=sample, features=N_FEATURES, threads=threads)
    lines = [
        "| rows × 20 | score s | rows/s | MB | bare read s | over scikit-learn's networks |",
        "|---" * 6 + "|",
    ]
    found = []
    for rows in sizes:
        path, out = folder / "t.parquet", folder / "s.parquet"
        write_features(path, rows, 0.2, 3)
        read = bare(READ_FEATURES, path=str(path))
        ours = punoise("score", "--model", model, "--table", path, "--out", out, threads=threads)
        found.append(ours)
        rate = rows / ours.seconds
        lines.append(
            f"| {rows:,} | {ours.seconds:.1f} | {rate:,.0f} | {ours.peak_mb:.0f} "
            f"| {read:.1f} | {rate / theirs:.1f} × ({theirs:,.0f} rows/s) |"
        )
        print(lines[-1], flush=True)
        path.unlink()
        out.unlink()
    lines += ["", f"score: {growth(sizes, found)}."]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def process(log: Path, until: str, *command: object) -> Iterator[str]:
    """A process in the background that has said what it is to say."""
    with open(log, "wb") as file:
        running = subprocess.Popen(list(map(str, command)), stdout=file, stderr=file)
    try:
        while not (found := re.search(until, log.read_text())):
            if running.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.05)
        yield found[1]
    finally:
        running.kill()
        running.wait()


@contextlib.contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """A scheduler and workers of one thread each; gives the address."""
    module = [sys.executable, "-m"]
    scheduler = [*module, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", 0]
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(
            process(
                folder / "scheduler.log",
                r"Scheduler at:\s+(tcp://\S+)",
                *(*scheduler, "--no-dashboard"),
            )
        )
        for number in range(workers):
            worker = [*module, "distributed.cli.dask_worker", address, "--nthreads", 1]
            options = ["--no-dashboard", "--no-nanny", "--local-directory", folder]
            log = folder / f"worker{number}.log"
            stack.enter_context(process(log, "(Registered to):", *worker, *options))
        yield address


def dask_table(folder: Path, rows: int) -> str:
    """score and posterior on shards, by one worker, by two, and without Dask by one thread."""
    model, shards = folder / "m.punoise", folder / "shards"
    shards.mkdir()
    for number in range(SHARDS):
        write_features(shards / f"{number:02}.parquet", rows // SHARDS, 0.2, 10 + number)
    small = folder / "small"
    small.mkdir()
    for number in range(SHARDS):
        write_features(small / f"{number:02}.parquet", 10_000, 0.2, number)
    command = ["score", "--model", model, "--table", shards]
    seconds = {
        "one process, one thread": punoise(*command, "--out", f"{folder}/s0/", threads=1).seconds
    }
    for workers in (1, 2):
        with cluster(folder, workers) as address:
            out = f"{folder}/s{workers}/"
            warm = ["score", "--model", model, "--table", small, "--out", f"{folder}/w{workers}/"]
            punoise(*warm, "--dask", address)  # so that all workers have their imports behind them
            run = punoise(*command, "--out", out, "--dask", address)
            seconds[f"{workers} Dask worker{'s' * (workers > 1)}"] = run.seconds
        same = all(
            path.read_bytes() == Path(out, path.name).read_bytes()
            for path in Path(folder, "s0").iterdir()
        )
        assert same, "the outputs differ"
    one, two = list(seconds.values())[1:]
    lines = [f"| score, {rows:,} × 20 rows in {SHARDS} shards | s |", "|---|---|"]
    lines += [f"| {name} | {value:.1f} |" for name, value in seconds.items()]
    lines += [
        "",
        f"Two workers are {one / two:.2f} × as fast as one; all outputs are the same bytes.",
    ]
    return "\n".join(lines) + "\n"


def write_shards(folder: Path, rows: int, files: int) -> list[str]:
    """Tables for `run`, the unlabeled rows in files; returns the options that name them."""
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{i}", pa.float32()) for i in range(N_FEATURES)])

    def write(path: Path, count: int, share: float) -> None:
        with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
            for first in range(0, count, STEP // 4):
                y = rng.random(min(STEP // 4, count - first)) < share
                x = rng.standard_normal((N_FEATURES, len(y)), dtype=np.float32)
                x += 0.6 * y.astype(np.float32)
                writer.write_batch(pa.record_batch([pa.array(v) for v in x], schema=schema))

    (folder / "u").mkdir(parents=True)
    write(folder / "l.parquet", 20_000, 0.95)
    for number in range(files):
        write(folder / "u" / f"{number:02}.parquet", rows // files, 0.2)
    return ["--labeled", f"{folder}/l.parquet", "--unlabeled", f"{folder}/u"]


def run_table(folder: Path, sizes: list[int], files: int) -> str:
    """`run --shards` on growing tables, on one thread."""
    lines = [f"| rows × 20, {files} files | s | s of the processor | MB |", "|---" * 4 + "|"]
    found = []
    for rows in sizes:
        tables = write_shards(folder / f"{rows}", rows, files)
        command = ["run", *tables, "--shards", "--out-dir", folder / f"{rows}" / "out"]
        found.append(punoise(*command, threads=1))
        seconds, peak, cpu = found[-1]
        lines.append(f"| {rows:,} | {seconds:.1f} | {cpu:.1f} | {peak:.0f} |")
        print(lines[-1], flush=True)
        shutil.rmtree(folder / f"{rows}")
    times = found[-1].cpu / found[0].cpu
    lines += ["", f"{sizes[-1] / sizes[0]:g} times the rows take {times:.2f} times the processor."]
    return "\n".join(lines) + "\n"


def workers_table(folder: Path, rows: int, files: int) -> str:
    """`run --dask` by one and two workers, with a training that hardly counts.

    Beside the time on the wall, which other work on the machine changes, that of the processor: of
    all workers and of the busiest.
    """
    from distributed import Client

    tables = write_shards(folder / "run", rows, files)
    few = write_shards(folder / "warm", 20_000, 4)
    quick = ("--max-train-rows", 2000)
    lines = ["| workers | s | their processors, s | the busiest one's | the client's |"]
    lines.append("|---" * 5 + "|")
    found = []
    for workers in (1, 2):
        with cluster(folder, workers) as address, Client(address, set_as_default=False) as client:
            out = folder / f"out{workers}"
            punoise("run", *few, *quick, "--out-dir", f"{out}.warm", "--dask", address)
            before = client.run(time.process_time)
            run = punoise("run", *tables, *quick, "--out-dir", out, "--dask", address)
            after = client.run(time.process_time)
        spent = [after[worker] - before[worker] for worker in after]
        found.append((sum(spent), max(spent)))
        times = " | ".join(f"{x:.1f}" for x in (run.seconds, *found[-1], run.cpu))
        lines.append(f"| {workers} | {times} |")
        print(lines[-1], flush=True)
    (one, _), (both, busiest) = found
    ratios = f"1 / {one / busiest:.2f} of what one alone does, evenly 1 / {2 * one / both:.2f}"
    return "\n".join([*lines, "", f"Of two workers, the busier spends {ratios}."]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="*", default=[1e5, 1e6, 1e7, 1e8])
    parser.add_argument("--feature-rows", type=float, nargs="*", default=[1e5, 1e6, 1e7, 2e7])
    parser.add_argument("--dask-rows", type=float, default=16e6)
    parser.add_argument("--run-rows", type=float, nargs="*", default=[1e7, 1e8])
    parser.add_argument("--run-files", type=int, default=64)
    parser.add_argument("--workers-rows", type=float, default=1e7)
    parser.add_argument("--only", nargs="*", help="titles of the parts to do")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scratch", type=Path, help="where the tables are made")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.scratch))
    parts: list[tuple[str, Callable[[], str]]] = [
        ("Scores", lambda: scores_table(folder, [int(n) for n in options.rows])),
        (
            "Features",
            lambda: features_table(folder, [int(n) for n in options.feature_rows], options.threads),
        ),
        ("Dask", lambda: dask_table(folder, int(options.dask_rows))),
        ("Run", lambda: run_table(folder, [int(n) for n in options.run_rows], options.run_files)),
        ("Workers", lambda: workers_table(folder, int(options.workers_rows), SHARDS)),
    ]
    wanted = [(title, part) for title, part in parts if not options.only or title in options.only]
    try:
        text = "\n".join(f"### {title}\n\n{part()}" for title, part in wanted)
    finally:
        shutil.rmtree(folder)
    protocol.report(options.results / "scale.md", "Scale", text)


if __name__ == "__main__":
    main()
