"""Under attack: nothing lost, nothing believed, nothing left behind."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pu_noise_cli import load as load_results
from pu_noise_cli.answer import FORMAT, load_answer
from pu_noise_cli.errors import InputError, MachineError, UsageError, from_os_error, printable
from pu_noise_cli.score.sketch import Sketch, load_sketch, read_sketches, save_sketch
from pu_noise_cli.tables import files, writing
from pu_noise_cli.tables import reading as tables
from pu_noise_cli.tables.files import write_archive

COMMAND = [sys.executable, "-m", "pu_noise_cli"]
FAST = ("--classifier", "logistic")


def call(*args: object, **more) -> subprocess.CompletedProcess:
    words = [arg if isinstance(arg, bytes) else str(arg) for arg in args]
    return subprocess.run([*COMMAND, *words], capture_output=True, **more)


# ---- The machine's faults


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (pa.ArrowMemoryError("malloc of size 64 failed"), MachineError),
        (MemoryError(), MachineError),
        (OSError(errno.EIO, "Input/output error"), MachineError),
        (OSError(errno.ESTALE, "Stale file handle"), MachineError),
        (OSError(errno.ENOSPC, "No space left on device"), MachineError),
        (OSError("ZSTD decompression failed: Allocation error : not enough memory"), MachineError),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), UsageError),
        (OSError("zlib inflate failed"), InputError),
        (OSError(errno.EINVAL, "Invalid argument"), InputError),
        (pa.ArrowInvalid("CSV parse error"), InputError),
    ],
    ids=str,
)
def test_whose_fault_it_is(error, kind):
    with pytest.raises(kind), files.input_errors("t.csv"):
        raise error


@pytest.mark.parametrize("error", [pa.ArrowMemoryError("x"), OSError(errno.EIO, "I/O error")])
@pytest.mark.parametrize("command", ["estimate-prior", "run"])
def test_the_machine_s_fault_is_never_written_as_a_failure(
    command, error, punoise, tables, scores, tmp_path, monkeypatch
):
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(files.Shard, "open", broken)
    options = {
        "estimate-prior": ["--scores", scores, "--out", tmp_path / "p.json"],
        "run": [*tables, "--out-dir", tmp_path / "out"],
    }[command]
    result = punoise(command, *options, "--on-failure", "write", expect=5)
    assert result.err.startswith("punoise: error: ")
    assert not (tmp_path / "p.json").exists()
    assert not (tmp_path / "out").exists()


def test_no_memory_for_a_library_is_the_machines_fault():
    fault = from_os_error(
        "sklearn", ImportError("_loss.so: failed to map segment from shared object")
    )
    assert isinstance(fault, MachineError)


def test_a_process_out_of_memory_does_not_exit_with_0(scores, tmp_path):
    rows = pd.concat([pd.read_csv(scores, sep="\t")] * 500)
    rows.to_csv(tmp_path / "many.tsv", sep="\t", index=False)
    options = ("--scores", tmp_path / "many.tsv", "--out", tmp_path / "p.json")
    program = (
        "import os, re, resource, sys; import pyarrow.csv\n"
        # all that the command will need, lest a library be what there is no memory for
        "from pu_noise_cli.cli import process\n"
        "import pu_noise_cli.pipeline, pu_noise_cli.prior.estimation, pu_noise_cli.cli.prior\n"
        "size = int(re.search(r'VmSize:\\s+(\\d+)', open('/proc/self/status').read())[1]) * 1024\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + (40 << 20),) * 2)\n"
        "process.main()"
    )
    words = ["estimate-prior", *map(str, options), "--on-failure", "write", "--threads", "1"]
    env = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, env=env, timeout=60)
    # now and then Arrow takes an allocation for granted, and a signal ends the process
    ended_by_blas = done.returncode == 1 and b"OpenBLAS" in done.stderr
    assert done.returncode == 5 or done.returncode < 0 or ended_by_blas, done.stderr
    if done.returncode == 5:
        assert b"out of memory" in done.stderr
    assert not (tmp_path / "p.json").exists()


# ---- Signals


def running(folder: Path, *before: str) -> subprocess.Popen:
    """A command that waits for the writer of a named pipe, which never comes."""
    if not (folder / "pipe").exists():
        os.mkfifo(folder / "pipe")
    words = [*before, *COMMAND, "estimate-prior", "--scores", str(folder / "pipe")]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:  # until it answers signals: SigCgt has SIGTERM, 15
        caught = Path(f"/proc/{process.pid}/status").read_text().split("SigCgt:")[1].split()[0]
        if int(caught, 16) >> 14 & 1:
            return process
        time.sleep(0.05)
    raise TimeoutError


def test_nohup_is_respected(tmp_path):
    process = running(tmp_path, "nohup")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    process.communicate()


@pytest.mark.parametrize("pair", [(signal.SIGTERM,) * 2, (signal.SIGINT, signal.SIGTERM)])
def test_two_signals_are_as_quiet_as_one(pair, tmp_path):
    process = running(tmp_path)
    for number in pair:
        process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode in (130, 143)
    assert b"Traceback" not in err


LOST = {  # places where an exception raised by a handler would be lost
    "destructor": "Lost()",
    "caught": "try: Lost().__del__(); time.sleep(1)\n    except BaseException: pass",
}


@pytest.mark.parametrize("way", list(LOST))
def test_a_signal_is_answered_where_exceptions_are_lost(way, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    program = (
        "import os, signal, sys, time; from pu_noise_cli.cli import process\n"
        "class Lost:\n"
        "    def __del__(self):\n"
        "        for _ in range(2): os.kill(os.getpid(), signal.SIGTERM)\n"
        "def command():\n"
        f"    {LOST[way]}\n"
        "    open(sys.argv[1])\n"
        "process.install_signals(); raise SystemExit(process.exit_code(command))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "pipe")]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (143, b"")


def test_results_are_not_interrupted_in_the_middle(tmp_path):
    """A signal that comes between two renames is answered after the last."""
    program = (
        "import os, pathlib, signal, sys; from pu_noise_cli.cli import process\n"
        "from pu_noise_cli.tables.results import Provenance, new_results\n"
        "process.install_signals(); real = os.replace\n"
        "def replace(*names):\n"
        "    if str(names[0]).endswith('/.meanwhile'): os.kill(os.getpid(), signal.SIGTERM)\n"
        "    real(*names)\n"
        "os.replace = replace\n"
        "with new_results(sys.argv[1]) as results:\n"
        "    for name in ('prior.json', 'report.html'):\n"
        "        pathlib.Path(results.path(name)).write_text('new')\n"
        "    results.commit(Provenance())\n"
    )
    for name in ("prior.json", "report.html"):
        (tmp_path / name).write_text("old")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True)
    assert done.returncode == 143, done.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"prior.json", "report.html", "provenance.json"}
    provenance = json.loads((tmp_path / "provenance.json").read_text())
    assert provenance["complete"]
    assert provenance["files"].keys() == {"prior.json", "report.html"}
    assert (tmp_path / "prior.json").read_text() == (tmp_path / "report.html").read_text() == "new"


# ---- What is in the directory of a run


def test_a_run_deletes_only_what_a_run_has_written(punoise, tables, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "scores.csv").write_text("mine")
    (out / "notes.txt").write_text("mine")
    punoise("run", *tables, *FAST, "--out-dir", out)
    punoise("run", *tables, *FAST, "--out-dir", out, "--format", "tsv")
    assert (out / "scores.csv").read_text() == (out / "notes.txt").read_text() == "mine"
    assert not (out / "scores.parquet").exists()
    (out / "scores.tsv").write_text("changed by hand")
    punoise("run", *tables, *FAST, "--out-dir", out)
    assert (out / "scores.tsv").read_text() == "changed by hand"
    assert not (out / "posterior.tsv").exists()


def killed_among_renames(renames: int, out: Path, *options: object) -> None:
    """Kill a run after so many files have taken their names; the first is the old provenance."""
    program = (
        "import os, signal, sys; from pu_noise_cli.cli import process\n"
        f"real, left, out = os.replace, {renames}, {str(out)!r}\n"
        "def replace(source, target):\n"
        "    global left\n"
        "    if '.punoise.' in str(source) and '.punoise.' not in str(target):\n"
        "        left -= 1\n"
        "        if left < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(source, target)\n"
        "os.replace = replace; process.main()\n"
    )
    words = ["run", "-q", *map(str, options), "--seed", "1", "--out-dir", str(out)]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def visible(folder: Path) -> dict[str, bytes]:
    """The files of a directory that are not hidden, with all that is in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    inside = {path.relative_to(folder): path for path in files}
    return {
        str(name): path.read_bytes()
        for name, path in inside.items()
        if not any(part[0] == "." for part in name.parts)
    }


def test_a_run_killed_before_its_renames_leaves_the_old_results(punoise, tables, tmp_path):
    out = tmp_path / "out"
    run = ("run", *tables, *FAST, "--out-dir", out)
    punoise(*run)
    before = visible(out)
    killed_among_renames(0, out, *tables, *FAST)
    assert visible(out) == before
    read = ["posterior", "--scores", out / "scores.parquet", "--prior", out / "prior.json"]
    punoise(*read, "--out", tmp_path / "p.tsv")
    punoise(*run)
    assert not [path for path in out.iterdir() if path.name[0] == "."]


@pytest.mark.parametrize("renames", [1, pytest.param(4, marks=pytest.mark.ci)])
def test_a_run_killed_among_its_renames_is_not_read_as_one(renames, punoise, tables, tmp_path):
    out = tmp_path / "out"
    punoise("run", *tables, *FAST, "--out-dir", out)
    killed_among_renames(renames, out, *tables, *FAST)
    read = ["posterior", "--scores", out / "scores.parquet", "--prior", out / "prior.json"]
    result = punoise(*read, "--out", tmp_path / "p.tsv", expect=3)
    assert "is incomplete" in result.err
    with pytest.raises(InputError):
        load_results(out / "model.punoise")
    few = (*tables, "--drop-columns", "none")
    punoise("run", *few, *FAST, "--out-dir", out, expect=3)
    punoise(*read, "--out", tmp_path / "p.tsv", expect=3)
    punoise("run", *tables, *FAST, "--out-dir", out, "--seed", "2")
    punoise(*read, "--out", tmp_path / "p.tsv")
    assert not [p for p in out.iterdir() if p.name.startswith(".")]


def test_files_of_the_killed_and_the_earlier_run_do_not_stay(punoise, tables, tmp_path):
    out = tmp_path / "out"
    punoise("run", *tables, *FAST, "--out-dir", tmp_path / "new", "--seed", "1")
    punoise("run", *tables, *FAST, "--out-dir", out, "--format", "tsv")
    killed_among_renames(3, out, *tables, *FAST)
    punoise("run", *tables, *FAST, "--out-dir", out, "--seed", "1")
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert sorted(path.name for path in out.iterdir()) == names
    for name in set(names) - {"provenance.json"}:
        assert (out / name).read_bytes() == (tmp_path / "new" / name).read_bytes()


def test_shards_of_a_run_that_was_killed_are_not_read(punoise, frames, tmp_path):
    for frame, name in zip(frames, "lu", strict=True):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    pair = ["--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "u.parquet", *FAST]
    other = tmp_path / "other.parquet"  # gives a shard of another name
    frames[1].to_parquet(other)
    out = tmp_path / "out"
    punoise("run", *pair[:3], other, *FAST, "--shards", "--out-dir", out)
    killed_among_renames(3, out, *pair, "--shards")
    for name in ("scores/", "scores/unlabeled-u.parquet", "scores/*.parquet"):
        read = ["posterior", "--scores", out / name, "--alpha", "0.1", "--out", "-"]
        assert "is incomplete" in punoise(*read, expect=3).err
    punoise("run", *pair, "--shards", "--out-dir", out)
    punoise(*read)
    shards = {"labeled-l.parquet", "unlabeled-u.parquet", "_manifest.json"}
    for name in ("scores", "posterior"):
        assert {path.name for path in (out / name).iterdir()} == shards
    punoise("run", *pair, "--out-dir", out)
    assert not (out / "scores").exists()


def test_a_provenance_knows_the_files_of_its_run(results, punoise, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(results, out)
    report = ["report", "--scores", out / "scores.parquet", "--prior", out / "prior.json"]
    report += ["--provenance", out / "provenance.json", "--out", tmp_path / "r.html"]
    punoise(*report)
    prior = ["estimate-prior", "--scores", out / "scores.parquet", "--seed", "5"]
    punoise(*prior, "--out", out / "prior.json")
    assert "run" in punoise(*report, expect=3).err


@pytest.mark.parametrize("change", ["other", "more", "fewer"])
def test_a_provenance_knows_the_shards_of_its_run(change, frames, punoise, tmp_path):
    for frame, name in zip(frames, "lu", strict=True):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    pair = ["--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "u.parquet", *FAST]
    out = tmp_path / "out"
    punoise("run", *pair, "--shards", "--out-dir", out)
    report = ["report", "--scores", out / "scores", "--prior", out / "prior.json"]
    report += ["--provenance", out / "provenance.json", "--out", tmp_path / "r.html"]
    punoise(*report)
    shard = out / "scores" / "unlabeled-u.parquet"
    if change == "fewer":
        shard.rename(tmp_path / "elsewhere")
    elif change == "more":
        shutil.copy(shard, out / "scores" / "unlabeled-v.parquet")
    else:
        pd.read_parquet(shard).head(300).to_parquet(shard)
    assert "unlabeled-" in punoise(*report, expect=3).err


def test_leftovers_go_unless_somebody_may_write_them(punoise, scores, tmp_path):
    done = subprocess.Popen(["true"])
    done.wait()
    here, away = writing._host(), "0" * 8
    kept = {f"{here}-{os.getpid()}", f"{away}-1"}  # of live processes, as far as one can tell
    gone = {f"{here}-{done.pid}", f"{away}-2"}
    files = {writer: tmp_path / f".p.json.{writer}-aaaaaaaa.tmp" for writer in kept | gone}
    folders = {writer: tmp_path / f".punoise.{writer}-aaaaaaaa.tmp" for writer in kept | gone}
    mine = [tmp_path / ".p.json.notes.tmp", tmp_path / f".q.json.{here}-{done.pid}-aaaaaaaa.tmp"]
    for path in (*files.values(), *mine):
        path.write_text("half")
    for path in folders.values():
        path.mkdir()
        (path / "scores.parquet").touch()
    two_days_ago = time.time() - 2 * 86_400
    for path in (files[f"{away}-2"], folders[f"{away}-2"]):
        os.utime(path, (two_days_ago, two_days_ago))
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    punoise("simulate", "--out-dir", tmp_path, "--n-labeled", 30, "--n-unlabeled", 30)
    for by_writer in (files, folders):
        assert {writer for writer, path in by_writer.items() if path.exists()} == kept
    assert all(path.exists() for path in mine)


@pytest.mark.parametrize("command", ["estimate-prior", "run"])
def test_the_mode_of_an_output_is_kept(command, punoise, scores, tables, tmp_path):
    out = tmp_path / "prior.json"
    out.touch(mode=0o600)
    if command == "run":
        punoise("run", *tables, *FAST, "--out-dir", tmp_path)
    else:
        punoise("estimate-prior", "--scores", scores, "--out", out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_threads_that_write_files_leave_the_umask_alone(tmp_path, monkeypatch):
    file, umask = tmp_path / "file", os.umask
    file.touch()

    def slowly(mask: int) -> int:
        before = umask(mask)
        time.sleep(0.001)
        return before

    before = umask(0o027)
    monkeypatch.setattr(os, "umask", slowly)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: writing.keep_mode(str(file), tmp_path / "new"), range(40)))
    assert umask(before) == 0o027
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


# ---- Names


def test_names_that_are_not_utf8(tables, tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(folder)
    for name in (b"labeled.csv", b"unlabeled.csv"):
        os.link(os.fsencode(tmp_path) + b"/" + name, folder + b"/" + name)
    pair = (b"--labeled", folder + b"/labeled.csv", b"--unlabeled", b"unlabeled.csv")
    done = call("run", *pair, *FAST, b"--out-dir", b"o\xff", cwd=folder)
    assert done.returncode == 0, done.stderr
    out = folder + b"/o\xff"
    report = (b"--scores", out + b"/scores.parquet", b"--prior", out + b"/prior.json")
    assert call("report", *report, b"--out", folder + b"/r.html").returncode == 0
    assert call("summarize", out + b"/prior.json").returncode == 0


def test_outputs_that_cannot_be_are_wrong_usage(punoise, scores, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    for name in ("loop", "x" * 300, "loop/p.json", "none/p.json"):
        punoise("estimate-prior", "--scores", scores, "--out", tmp_path / name, expect=2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_an_output_in_a_directory_that_cannot_be_searched(scores, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o600)
    from pu_noise_cli.tables.writing import check_target

    pid = os.fork()
    if pid == 0:
        try:
            for folder in (tmp_path.parents[1], tmp_path.parents[0], tmp_path):
                os.chmod(folder, 0o755)
            os.chmod(tmp_path / "closed", 0o644)
            os.setresuid(65534, 65534, 65534)
            check_target(str(tmp_path / "closed" / "p.json"))
        except UsageError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_dangling_link_is_a_missing_file(punoise, scores, tmp_path):
    (tmp_path / "link.tsv").symlink_to("nowhere.tsv")
    punoise("estimate-prior", "--scores", tmp_path / "link.tsv", expect=2)


def test_a_pipe_among_shards_is_refused(punoise, scores, tmp_path):
    (tmp_path / "shards").mkdir()
    os.mkfifo(tmp_path / "shards" / "1.tsv")
    result = punoise("estimate-prior", "--scores", tmp_path / "shards", expect=2)
    assert "regular file" in result.err
    for name in ("/dev/zero", "/dev/null"):
        punoise("estimate-prior", "--scores", name, expect=2)
        punoise("posterior", "--scores", scores, "--prior", name, "--out", "-", expect=2)


def test_nothing_in_a_name_reaches_the_terminal(punoise, tmp_path):
    evil = "\x1b]0;owned\x07\x1b[31m"
    result = punoise("estimate-prior", "--scores", f"{evil}.tsv", expect=2)
    assert "\\x1b]0;owned\\x07" in result.err
    rows = pd.DataFrame({evil: np.arange(40.0)})
    for name in ("l", "u"):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    pair = ("--labeled", tmp_path / "l.csv", "--unlabeled", tmp_path / "u.csv")
    assert "\x1b" not in punoise("estimate-prior", *pair).err
    assert len(printable("x" * 10**7)) < 3000


def test_a_full_disk_behind_stderr_changes_nothing(scores, tmp_path):
    with open("/dev/full", "wb") as full:
        for name, code in ((scores, 0), ("none.tsv", 2)):
            words = ["estimate-prior", "--scores", name, "--out", str(tmp_path / "p.json")]
            assert subprocess.run([*COMMAND, *words], stderr=full).returncode == code


# ---- Documents and archives


def test_half_a_character_in_a_prior(punoise, scores, tmp_path):
    punoise("estimate-prior", "--scores", scores, "--out", tmp_path / "p.json")
    document = json.loads((tmp_path / "p.json").read_text()) | {"sample": "\ud800"}
    (tmp_path / "p.json").write_text(json.dumps(document))
    punoise("summarize", tmp_path / "p.json")
    punoise("report", "--scores", scores, "--prior", tmp_path / "p.json", "--out", "-")


def test_infinite_counts_in_a_provenance(results, punoise, tmp_path):
    out = results
    document = json.loads((out / "provenance.json").read_text())
    document["columns"][0]["values"] = float("inf")
    (tmp_path / "p.json").write_text(json.dumps(document))
    report = ["report", "--scores", out / "scores.parquet", "--prior", out / "prior.json"]
    punoise(*report, "--provenance", tmp_path / "p.json", "--out", "-", expect=3)


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.int64()], ids=str)
def test_a_set_of_another_type_is_bad_input(kind, punoise, tmp_path):
    rows = {"id": ["a"] * 50, "set": pa.array([None] * 50, kind), "score": np.arange(50.0)}
    pq.write_table(pa.table(rows), tmp_path / "s.parquet")
    punoise("estimate-prior", "--scores", tmp_path / "s.parquet", expect=3)


def test_a_packed_document_is_bounded(punoise, scores, tmp_path):
    (tmp_path / "p.json").write_bytes(gzip.compress(b" " * (1 << 25)))
    options = ("--prior", tmp_path / "p.json", "--out", tmp_path / "q.tsv")
    result = punoise("posterior", "--scores", scores, *options, expect=3)
    assert "unpacks" in result.err


SKETCH = Sketch.from_samples(np.arange(30.0), np.arange(50.0))


def packed(members: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as stored:
        for name, content in members.items():
            stored.writestr(name, content)
    return file


def sketch_members() -> dict[str, bytes]:
    file = io.BytesIO()
    save_sketch(SKETCH, file)
    with zipfile.ZipFile(file) as stored:
        return {name: stored.read(name) for name in stored.namelist()}


def test_an_archive_is_not_inflated_on_trust(monkeypatch):
    members = sketch_members()
    load_sketch("s", packed(members))
    huge = members["edges.npy"].replace(b"(50,), }", b"(10**12,), }"[:8])
    odd = [
        packed(members, zipfile.ZIP_DEFLATED),
        packed(members | {"more.npy": bytes(1 << 20)}),
        packed(members | {"edges.npy": members["edges.npy"][:-8]}),
        packed(members | {"edges.npy": huge}),
        packed({k: v for k, v in members.items() if k != "labeled.npy"}),
    ]
    read = []
    real = zipfile.ZipFile.read
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *a: read.append(a[1]) or real(*a))
    for file in odd:
        with pytest.raises(InputError):
            load_sketch("s", file)
    assert "more.npy" not in [info.filename for info in read]


def test_sketches_do_not_overflow(tmp_path):
    many = Sketch(SKETCH.edges, SKETCH.counts * 2**46)
    for name in "ab":
        with open(tmp_path / name, "wb") as file:
            save_sketch(many, file)
    read_sketches([str(tmp_path / "a")])
    with pytest.raises(InputError, match="can be counted"):
        read_sketches([str(tmp_path / name) for name in "ab"])


FURTHER = ("logistic", "standard")  # kinds of models


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, tuple[dict, dict]]:
    """The header and the arrays of a model of each kind."""
    from pu_noise_cli.cli.process import cli

    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    for name, gap in (("l", 1.0), ("u", 0.0)):
        rows = pd.DataFrame(rng.normal(gap, 1, (80, 2)), columns=["a", "b"])
        rows.assign(g=np.arange(80) % 20).to_csv(folder / f"{name}.csv", index=False)
    pair = ["--labeled", str(folder / "l.csv"), "--unlabeled", str(folder / "u.csv")]
    found = {}
    for kind in ("networks", *FURTHER):
        words = ["train", "-q", *pair, "--classifier", kind, "--out", str(folder / kind)]
        cli.main([*words, "--drop-columns", "g"], standalone_mode=False)
        found[kind] = parts_of(folder / kind)
    words = ["train", "-q", *pair, "--classifier", "logistic", "--out", str(folder / "groups")]
    more = ["--group-column", "g", "--max-train-rows", "100"]
    cli.main([*words, *more], standalone_mode=False)
    found["groups"] = parts_of(folder / "groups")
    return found


def parts_of(path: Path) -> tuple[dict, dict]:
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return json.loads(bytes(arrays.pop("header"))), arrays


def load(header: dict, arrays: dict) -> None:
    file = io.BytesIO()
    rest = {k: v for k, v in header.items() if k not in ("format", "punoise_version")}
    write_archive(file, FORMAT, rest, arrays)
    load_answer("m", io.BytesIO(file.getvalue()))


@pytest.mark.parametrize(
    "kind", ["networks", "groups", *(pytest.param(k, marks=pytest.mark.ci) for k in FURTHER)]
)
def test_every_array_of_a_model_is_checked(kind, models):
    header, arrays = models[kind]
    load(header, arrays)
    for name, array in arrays.items():
        wrong = [np.zeros((3, 3, 3)), np.append(array.ravel(), 0)]
        if array.dtype.kind == "f":
            wrong += [np.full_like(array, np.nan)]
            wrong += [np.full_like(array, np.inf), np.full_like(array, 1e30)]
        elif array.dtype.kind == "U":
            wrong = [np.array("unheard of"), np.zeros((3, 3, 3))]
        elif name != "rows.seen":
            wrong += [array - 10**6]
        for other in wrong:
            with pytest.raises(InputError):
                load(header, {**arrays, name: other})
        if name != "rows.seen":  # models of rows that resemble each other have none
            with pytest.raises(InputError):
                load(header, {k: v for k, v in arrays.items() if k != name})


HEADERS = [
    {"classifier": "auto"},
    {"classifier": "pickle"},
    {"classifier": ["logistic"]},
    {"lower_is_positive": 1},
    {"encoding": {"columns": [], "na": []}},
    {"encoding": None},
    {"scorer": {"files": [[["x", -1, 5]]]}},
    {"scorer": {"files": 3}},
    {"scorer": {"group_column": 7}},
]


@pytest.mark.parametrize("change", HEADERS, ids=str)
def test_the_header_of_a_model_is_checked(change, models):
    header, arrays = models["logistic"]
    if "scorer" in change:
        change = {"scorer": header["scorer"] | change["scorer"]}
    with pytest.raises(InputError):
        load(header | change, arrays)


def test_columns_of_a_model_are_checked(models):
    header, arrays = models["logistic"]
    first, second = header["encoding"]["columns"]
    for change in ({"name": 3}, {"kind": "x"}, {"missing": 0}, {"levels": ["q"]}, {"name": "b"}):
        encoding = {"columns": [first | change, second], "na": []}
        with pytest.raises(InputError):
            load(header | {"encoding": encoding}, arrays)


# ---- Tables


def test_one_long_line_does_not_fill_the_memory(tmp_path):
    """64 MB of one line, in 200 MB beyond what an empty table takes."""
    with gzip.open(tmp_path / "long.csv.gz", "wb", 1) as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    (tmp_path / "empty.csv").touch()
    used = []
    for name in ("empty.csv", "long.csv.gz"):
        words = [*COMMAND, "estimate-prior", "--scores", str(tmp_path / name)]
        process = subprocess.Popen(words, stderr=subprocess.PIPE)
        err = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        assert process.returncode == 3, err
        used.append(usage.ru_maxrss)
    assert b"no two rows" in err
    assert used[1] - used[0] < 200_000


def test_a_long_level_is_quick_and_short(punoise, frames, tmp_path):
    for frame, name in zip(frames, "lu", strict=True):
        long = np.where(np.arange(len(frame)) % 2 == 0, "x" * 100_000, "y")
        frame.assign(k=long).to_parquet(tmp_path / f"{name}.parquet")
    pair = ("--labeled", tmp_path / "l.parquet", "--unlabeled", tmp_path / "u.parquet")
    punoise("train", *pair, *FAST, "--out", tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 50_000
    score = ["score", "--model", tmp_path / "m", "--table", tmp_path / "u.parquet", "--out"]
    punoise(*score, tmp_path / "s.tsv")
    result = punoise("train", *pair, "--group-column", "k", *FAST, "--out", "x", expect=3)
    assert "column 'k' has over 1000 bytes" in result.err


def test_one_text_for_every_row_is_unfolded_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BATCH_BYTES", 1 << 16)
    text = pa.array(["x" * 1000]).take(pa.array(np.zeros(1000, np.int64)))
    pq.write_table(pa.table({"k": text}), tmp_path / "t.parquet")
    table = tables.open_table(str(tmp_path / "t.parquet"))
    batches = [batch.rows for batch in table.batches(["k"])]
    assert max(batch.num_rows for batch in batches) <= 65
    assert sum(batch.num_rows for batch in batches) == 1000


def test_a_column_that_unpacks_to_much_more_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_CHUNK_BYTES", 1 << 20)
    zeros = pa.table({"score": np.zeros(1 << 20)})
    pq.write_table(zeros, tmp_path / "t.parquet", compression="zstd", use_dictionary=False)
    table = tables.open_table(str(tmp_path / "t.parquet"))
    with pytest.raises(InputError, match="smaller row groups"):
        list(table.batches(["score"]))


def test_text_in_parquet_must_be_utf8(punoise, tmp_path):
    for column in ("id", "set", "score"):
        columns = {
            "id": [b"r"] * 80,
            "set": [b"labeled", b"unlabeled"] * 40,
            "score": [b"%d" % i for i in range(80)],
        }
        columns[column][7] = b"\xff\xfe"
        binary = {name: pa.array(values, pa.binary()) for name, values in columns.items()}
        text = {name: values.view(pa.string()) for name, values in binary.items()}
        pq.write_table(pa.table(text), tmp_path / "s.parquet")
        options = ("--scores", tmp_path / "s.parquet", "--alpha", "0.2", "--out", "-")
        assert "UTF-8" in punoise("posterior", *options, expect=3).err


def test_a_flipped_bit_in_parquet_is_noticed(results, punoise, tmp_path):
    path = tmp_path / "scores.parquet"
    shutil.copy(results / "scores.parquet", path)
    raw, rng = path.read_bytes(), np.random.default_rng(0)
    group = pq.ParquetFile(path).metadata.row_group(0)
    last = group.column(group.num_columns - 1)
    start = last.data_page_offset + 100  # behind the head of the page
    for place in rng.integers(start, start + last.total_compressed_size - 200, 20):
        damaged = bytearray(raw)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        result = punoise("estimate-prior", "--scores", path, expect=3)
        assert "CRC" in result.err or "page" in result.err.lower()


@pytest.mark.parametrize("encoding", ["utf-32", "utf-32-be", "utf-16", "utf-16-be"])
def test_text_in_utf16_and_utf32_is_read(encoding, punoise, tmp_path, scores):
    text = Path(scores).read_text()
    mark = "\ufeff" if encoding.endswith("be") else ""
    (tmp_path / "s.tsv").write_bytes((mark + text).encode(encoding))
    priors = [
        punoise("estimate-prior", "--scores", file).out for file in (scores, tmp_path / "s.tsv")
    ]
    assert priors[0] == priors[1]
    (tmp_path / "s.tsv").write_bytes((mark + text).encode(encoding)[:-1])
    punoise("estimate-prior", "--scores", tmp_path / "s.tsv", expect=3)


def test_very_many_columns_are_refused_early(punoise, tmp_path):
    names = [f"c{i}" for i in range(100_000)]
    for name in ("l", "u"):
        rows = [",".join(names), *[",".join(["1"] * len(names))] * 30]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows))
    pair = ("--labeled", tmp_path / "l.csv", "--unlabeled", tmp_path / "u.csv")
    result = punoise("estimate-prior", *pair, expect=3)
    assert "at most" in result.err


# ---- Numbers


def test_the_largest_scores_there_are(punoise, tmp_path):
    rng = np.random.default_rng(0)
    rows = {
        "id": [str(i) for i in range(200)],
        "set": ["labeled", "unlabeled"] * 100,
        "score": rng.choice([-1e308, -1.0, 1.0, 1e308], 200),
    }
    pq.write_table(pa.table(rows), tmp_path / "s.parquet")
    options = ("--alpha", "0.2", "--out", tmp_path / "p.parquet")
    punoise("posterior", "--scores", tmp_path / "s.parquet", "--bounds", *options)
    found = pq.read_table(tmp_path / "p.parquet").to_pandas()
    assert found.drop(columns="posterior_labeled").notna().all(axis=None)
    assert found["posterior"].between(0, 1).all()


# ---- Names of outputs


@pytest.mark.parametrize("name", ["x.pin", "x.pin.gz"])
def test_a_pin_file_is_never_an_output(name, results, punoise, tables, tmp_path):
    scored = ("--scores", results / "scores.parquet", "--prior", results / "prior.json")
    for command in (
        ("transform", *tables, *FAST),
        ("posterior", *scored),
        ("score", "--model", results / "model.punoise", "--table", tables[3]),
        ("audit", *scored),
    ):
        said = punoise(*command, "--out", tmp_path / name, expect=2).err
        assert "not written" in said


def test_the_last_suffix_of_an_output_counts(results, punoise, tmp_path):
    scored = ("--scores", results / "scores.parquet", "--prior", results / "prior.json")
    for name, start in (
        ("x.parquet.tsv", b"id\t"),
        ("x.tsv.parquet", b"PAR1"),
        ("x.tsv.gz", b"\x1f\x8b"),
    ):
        punoise("posterior", *scored, "--out", tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)


def test_arrow_keeps_the_allocator_of_the_start(scores):
    program = (
        "from pu_noise_cli.cli import process\n"
        "real = process.exit_code\n"
        "def code(command):\n"
        "    code = real(command)\n"
        "    import pyarrow as pa\n"
        "    print(pa.default_memory_pool().backend_name)\n"
        "    return code\n"
        "process.exit_code = code; process.main()\n"
    )
    words = ["estimate-prior", "-q", "--scores", scores, "--out", "/dev/null"]
    for stated in ({}, {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ARROW")} | stated
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.stdout.split() == [*(stated.values() or ["system"])], done.stderr
