"""What other platforms lack is simulated here: the same bytes without it."""

from __future__ import annotations

import io
import os
import signal
import sys

import pytest

from pu_noise_cli import platforms


def run_files(punoise, tables, out) -> dict[str, bytes]:
    punoise("run", *tables, "--classifier", "logistic", "--out-dir", out, "--threads", 2)
    names = ("scores.parquet", "prior.json", "posterior.parquet", "model.punoise")
    return {name: (out / name).read_bytes() for name in names}


def no_descriptors(monkeypatch, tmp_path):
    """As on macOS, where /dev/fd shares its position, and on Windows, which has none."""
    monkeypatch.setattr(platforms, "REOPENS_DESCRIPTORS", False)
    monkeypatch.setattr(platforms.tempfile, "tempdir", str(tmp_path / "temporary"))


def no_locks(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "fcntl", None)


def strict_about_open_files(monkeypatch, tmp_path):
    """As on Windows: a file that is open cannot be renamed, a directory cannot be opened."""
    monkeypatch.setattr(platforms, "REPLACES_OPEN_FILES", False)
    monkeypatch.setattr(platforms, "OPENS_DIRECTORIES", False)
    replace = os.replace

    def refuse_open_files(source, target):
        inode = os.stat(source).st_ino
        for descriptor in os.listdir("/proc/self/fd"):
            try:
                status = os.stat(int(descriptor))
            except OSError:
                continue
            if status.st_ino == inode and not os.path.isdir(source):
                raise PermissionError(13, "The process cannot access the file", str(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse_open_files)


def few_signals(monkeypatch, tmp_path):
    """Windows has these only."""
    for name in platforms.ENDING_SIGNALS:
        if name not in ("SIGINT", "SIGTERM") and hasattr(signal, name):
            monkeypatch.delattr(signal, name)
    monkeypatch.delattr(os, "sched_getaffinity")


@pytest.mark.skipif(sys.platform != "linux", reason="simulates other platforms on Linux")
@pytest.mark.parametrize(
    "lack",
    [no_descriptors, no_locks, strict_about_open_files, few_signals],
    ids=lambda f: f.__name__,
)
def test_the_same_bytes_without(lack, punoise, tables, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    usual = run_files(punoise, tables, tmp_path / "usual")
    lack(monkeypatch, tmp_path)
    assert run_files(punoise, tables, tmp_path / "other") == usual
    assert run_files(punoise, tables, tmp_path / "other") == usual  # replaces its own files
    assert [*(tmp_path / "temporary").iterdir()] == []
    assert [path.name for path in (tmp_path / "other").iterdir() if path.name[0] == "."] == []


def test_a_named_spool_is_removed(monkeypatch, tmp_path):
    no_descriptors(monkeypatch, tmp_path)
    (tmp_path / "temporary").mkdir()
    spool = platforms.Spool()
    spool.file.write(b"rows")
    with open(spool.path, "rb") as file:
        assert file.read() == b"rows"
    del spool
    assert [*(tmp_path / "temporary").iterdir()] == []


def test_signals_and_locks_that_are_missing_are_not_asked_for(monkeypatch, tmp_path):
    few_signals(monkeypatch, tmp_path)
    assert set(platforms.ending_signals()) == {signal.SIGINT, signal.SIGTERM}
    assert platforms.cores() == os.cpu_count()
    no_locks(monkeypatch, tmp_path)
    assert platforms.try_lock(0) is None


def test_a_file_is_closed_before_it_is_renamed_where_it_must_be(monkeypatch, tmp_path):
    monkeypatch.setattr(platforms, "REPLACES_OPEN_FILES", False)
    (tmp_path / "new").write_text("new")
    file = io.BytesIO()
    platforms.replace(file, str(tmp_path / "new"), tmp_path / "old")
    assert file.closed
    assert (tmp_path / "old").read_text() == "new"
