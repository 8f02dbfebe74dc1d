"""Every way punoise stops early, each with its exit code; and warnings, which are data."""

from typing import NamedTuple


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


class ClosedPipe(PunoiseError):
    """The reader of our standard output has gone, as in `| head`; nothing is said of it."""

    exit_code = 141  # as a process that SIGPIPE ends


class Notice(NamedTuple):
    """A warning as it stands in the JSON: a stable kebab-case code and a sentence."""

    code: str
    message: str
