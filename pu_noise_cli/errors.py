"""Every way punoise stops early, each with its exit code."""

from __future__ import annotations

import contextlib
import errno
import re
import shlex
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import ClassVar

MAX_LINE = 2000  # characters
# moves the cursor, reverses the text, or is not a character
UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text on one line, safe for a terminal whatever names or values it quotes."""
    if len(text) > MAX_LINE:
        text = f"{text[:MAX_LINE]}..."
    return UNPRINTABLE.sub(lambda match: repr(match[0])[1:-1], text)


# ---- How options are spelled

_IRREGULAR = {"table_format": "--format", "set_name": "--set", "sketch_out": "--sketch"}
_in_python: ContextVar[bool] = ContextVar("in_python", default=False)


def option(name: str, *value: object) -> str:
    """How the caller spells an option: --drop-columns in a shell, drop_columns= in Python.

    With a value it is `--seed 1` or `seed=1`.
    """
    if _in_python.get():
        return f"{name}=" + "".join(map(repr, value))
    spelled = _IRREGULAR.get(name) or "--" + name.replace("_", "-")
    return " ".join([spelled, *(shlex.quote(str(one)) for one in value)])


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


class UsageError(PunoiseError, ValueError):
    """The command line is invalid: a missing file, or conflicting options."""

    exit_code = 2


class InputError(PunoiseError, ValueError):
    """A file's content cannot be used."""

    exit_code = 3


class EstimationError(PunoiseError, ValueError):
    """The input is well formed but gives no estimate."""

    exit_code = 4


class StrictError(PunoiseError):
    """A warning under --strict; the outputs are written."""

    exit_code = 4


class MachineError(PunoiseError):
    """The machine failed: out of memory or disk, or an unreadable device."""

    exit_code = 5


class ClosedPipe(PunoiseError):
    """The reader of standard output has gone, as in `| head`; nothing is printed."""

    exit_code = 141  # as for a process ended by SIGPIPE


# what the user can correct about a file name; anything else is the machine's fault
USER_ERRNOS = {
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR),
    *(errno.ELOOP, errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTEMPTY, errno.EBUSY, errno.ETXTBSY),
}
INPUT_ERRNOS = {errno.EINVAL, errno.EFBIG, errno.EOVERFLOW, errno.ESPIPE}  # impossible file offsets
NO_MEMORY = (
    *("not enough memory", "out of memory", "Cannot allocate memory", "can't start new thread"),
    *("Failed to launch worker thread", "Resource temporarily unavailable"),
    "failed to map segment",  # while a library is loaded
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory, or room for a thread, ran out; some libraries only say so in words."""
    return isinstance(error, MemoryError) or any(text in str(error) for text in NO_MEMORY)


def from_os_error(what: str, error: BaseException) -> PunoiseError | None:
    """The operating system's error as one of ours; None if the content of the file is at fault."""
    if is_out_of_memory(error):
        return MachineError(f"{what}: out of memory")
    number = error.errno if isinstance(error, OSError) else None
    if number is None or number in INPUT_ERRNOS:
        return None
    reason = getattr(error, "strerror", None) or str(error)
    detail = reason.split("Detail: ")[-1].split("\n")[0]  # Arrow's, after the whole path
    return (UsageError if number in USER_ERRNOS else MachineError)(f"{what}: {detail}")


# ---- Interruptions


class _Interrupts:
    """What a signal handler must know."""

    depth = 0  # nested parts of the code that must not be interrupted
    pending: Callable[[], None] | None = None  # what a signal that came meanwhile asks for
    cleanups: ClassVar[dict[str, Callable[[], None]]] = {}  # what undoes unfinished work, by path

    def clean_up(self) -> None:
        """Undo what is unfinished, the latest first."""
        for undo in reversed(list(self.cleanups.values())):
            with contextlib.suppress(OSError):
                undo()
        self.cleanups.clear()


interrupts = _Interrupts()


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let what is inside finish before a signal is answered."""
    interrupts.depth += 1
    try:
        yield
    finally:
        interrupts.depth -= 1
        if not interrupts.depth and interrupts.pending is not None:
            answer, interrupts.pending = interrupts.pending, None
            answer()
