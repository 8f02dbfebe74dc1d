"""Every way punoise stops early, each with its exit code."""


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
