"""What Linux, macOS and Windows do differently: locks, unnamed files, open files, signals, cores.

Linux is tested. The other branches are tested by simulation (tests/recipes/test_platforms.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

# Linux opens /dev/fd/N anew; on macOS all openings share one position, and Windows has none
REOPENS_DESCRIPTORS = sys.platform == "linux"
REPLACES_OPEN_FILES = os.name != "nt"
OPENS_DIRECTORIES = os.name != "nt"
LOCK_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

# batch systems send any of these
ENDING_SIGNALS = (
    *("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGBREAK"),
    *("SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGALRM", "SIGVTALRM"),
)


def ending_signals() -> list[int]:
    """Signals of this platform that end the process."""
    numbers = (getattr(signal, name, None) for name in ENDING_SIGNALS)
    return [number for number in numbers if number is not None]


def cores() -> int:
    """The cores this process may use, which a scheduler may have limited."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file: False if another process holds the lock, None if locks are missing."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def open_directory(path: Path) -> int | None:
    """A descriptor of a directory, for a lock; None where directories cannot be opened."""
    return os.open(path, os.O_RDONLY) if OPENS_DIRECTORIES else None


def replace(file: BinaryIO, temporary: str, path: Path) -> None:
    """Give a written file its name, while it is open and locked where that is possible."""
    if not REPLACES_OPEN_FILES:
        file.close()
    os.replace(temporary, path)


class Spool:
    """A temporary file, gone as soon as nothing refers to it; unnamed where that is possible."""

    def __init__(self) -> None:
        self.name: str | None = None
        if REOPENS_DESCRIPTORS:
            self.file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed below
        else:
            descriptor, self.name = tempfile.mkstemp(prefix="punoise-")
            self.file = open(descriptor, "w+b")  # noqa: SIM115 - closed below

    @property
    def path(self) -> str:
        """A name by which it can be opened, so that Arrow's threads need not call Python."""
        self.file.flush()
        return self.name or f"/dev/fd/{self.file.fileno()}"

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()
        if getattr(self, "name", None) is not None:
            with contextlib.suppress(OSError):
                os.unlink(cast(str, self.name))
