"""Every way punoise stops early, each with its exit code."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar

MAX_LINE = 2000  # characters; names and values may be of any length
# what moves the cursor, reverses the text, or is no character
UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text on one line, which no name or value in it can make do anything to a terminal."""
    if len(text) > MAX_LINE:
        text = f"{text[:MAX_LINE]}..."
    return UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], text)


# ---- How options are spelled

_IRREGULAR = {"table_format": "--format", "set_name": "--set"}
_in_python: ContextVar[bool] = ContextVar("in_python", default=False)


def option(name: str) -> str:
    """How the caller spells an option: --drop-columns in a shell, drop_columns= in Python."""
    if _in_python.get():
        return f"{name}="
    return _IRREGULAR.get(name) or "--" + name.replace("_", "-")


@contextlib.contextmanager
def python_spelling() -> Iterator[None]:
    """Within it, messages name options as Python's keyword arguments."""
    token = _in_python.set(True)
    try:
        yield
    finally:
        _in_python.reset(token)


class PunoiseError(Exception):
    """An error the user can act on; the message names the place and the remedy."""

    exit_code = 1


class UsageError(PunoiseError):
    """The command line asks for something that cannot be: a missing file, clashing options."""

    exit_code = 2


class InputError(PunoiseError):
    """A file's content cannot be used."""

    exit_code = 3


class EstimationError(PunoiseError):
    """The input is well formed but no estimate can be had from it."""

    exit_code = 4


class StrictError(PunoiseError):
    """A warning under --strict; the outputs are written."""

    exit_code = 4


class MachineError(PunoiseError):
    """The machine has failed: no memory or disk left, or a device that cannot be read."""

    exit_code = 5


class ClosedPipe(PunoiseError):
    """The reader of our standard output has gone, as in `| head`; nothing is said of it."""

    exit_code = 141  # as a process that SIGPIPE ends


# what a user can set right about a name; all else that the system says is the machine's fault
OF_USAGE = {
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR),
    *(errno.ELOOP, errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTEMPTY, errno.EBUSY, errno.ETXTBSY),
}
OF_INPUT = {errno.EINVAL, errno.EFBIG, errno.EOVERFLOW, errno.ESPIPE}  # a place that cannot be
NO_MEMORY = (
    *("not enough memory", "out of memory", "Cannot allocate memory", "can't start new thread"),
    *("Failed to launch worker thread", "Resource temporarily unavailable"),
    "failed to map segment",  # of a library that is loaded
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether there was no memory, or no room for another thread; some libraries only say so."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in NO_MEMORY)


def of_system(what: str, error: BaseException) -> PunoiseError | None:
    """What the system says, as an error of ours; None where it is the file that is wrong."""
    if is_out_of_memory(error):
        return MachineError(f"{what}: out of memory")
    number = error.errno if isinstance(error, OSError) else None
    if number is None or number in OF_INPUT:
        return None
    reason = getattr(error, "strerror", None) or str(error)
    detail = reason.split("Detail: ")[-1].split("\n")[0]  # Arrow's, after the whole path
    return (UsageError if number in OF_USAGE else MachineError)(f"{what}: {detail}")


# ---- Interruptions


class Terminated(BaseException):
    """A signal asked the process to end; raised so that temporary files are removed."""


class _Critical:
    """Parts of the code that must not be interrupted, one inside another."""

    depth = 0
    deferred: Callable[[], None] | None = None  # what a signal that came meanwhile asks for


critical = _Critical()


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let what is inside finish before a signal is answered."""
    critical.depth += 1
    try:
        yield
    finally:
        critical.depth -= 1
        if not critical.depth and critical.deferred is not None:
            answer, critical.deferred = critical.deferred, None
            answer()
