"""The process: its commands, signals and exit codes."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

import click

from .. import __version__
from ..errors import ClosedPipe, PunoiseError, from_os_error, interrupts, printable

COMMANDS = {  # in the order of use, with the modules that hold them
    "run": "run",
    "transform": "score",
    "estimate-prior": "prior",
    "posterior": "posterior",
    "performance": "posterior",
    "audit": "audit",
    "report": "report",
    "summarize": "report",
    "score": "score",
    "train": "score",
    "sketch": "prior",
    "merge-sketches": "prior",
    "simulate": "simulate",
    "schema": "simulate",
}
SIGNALS = ("SIGTERM", "SIGHUP", "SIGINT")  # that end the process; not every platform has them all
BLAS_VARIABLES = (
    *("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    *("BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
)


class Commands(click.Group):
    """Commands in the order of use, each imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"{__package__}.{COMMANDS[name]}")
        command: click.Command = getattr(module, name.replace("-", "_"))
        return command


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="%(version)s")
def cli() -> None:
    """Class priors and posteriors from noisy positives and unlabeled rows.

    Given a table of labeled positives, some of them wrong, and a table of unlabeled rows, punoise
    estimates the fraction of positives among the unlabeled (alpha) and among the labeled rows
    (beta), and for each row the probability that it is positive.

    \b
    punoise run --labeled labeled.csv --unlabeled unlabeled.csv --out-dir results
    """


def main() -> NoReturn:
    """Run the command line."""
    install_signals()
    limit_blas()
    # Arrow's own allocators hold on to freed memory, and jemalloc's background thread complains
    # forever where there is no memory for another thread
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    code = exit_code(lambda: cli.main(prog_name="punoise", standalone_mode=False))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError, ValueError):
            stream.flush()
    # not sys.exit: an Arrow thread that still holds a Python callback while the interpreter shuts
    # down aborts the process
    os._exit(code)


def limit_blas() -> None:
    """Hold BLAS at one thread, before numpy is loaded.

    How BLAS divides a sum among threads shows in its last digits; our own threads share the work.
    """
    os.environ.update(dict.fromkeys(BLAS_VARIABLES, "1"))


def exit_code(command: Callable[[], object]) -> int:
    """The exit code of a command; its errors are printed to stderr."""
    try:
        code = command()
    except ClosedPipe as error:
        return error.exit_code
    except PunoiseError as error:
        return _fail(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        _print(error.format_message())
        return error.exit_code
    except click.ClickException as error:
        message = error.format_message()
        if "unexpected extra argument" in message:
            message += " Quote a pattern: 'shards/*.parquet'."
        return _fail(message, error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return 128 + signal.SIGINT
    except Exception as error:
        file = getattr(error, "filename", None)
        fault = from_os_error("the machine" if file is None else os.fsdecode(str(file)), error)
        if fault is None:
            raise
        return _fail(str(fault), fault.exit_code)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    _print(f"punoise: error: {printable(' '.join(message.split()))}")
    return code


def _print(text: str) -> None:
    with contextlib.suppress(OSError):  # the disk may be full
        click.echo(text, err=True)


# ---- Signals


def install_signals() -> None:
    """Answer signals that end the process; those ignored at start stay ignored, as nohup wants."""
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: _end(number))


def _end(number: int) -> None:
    """Remove temporary files and end, after what must not be interrupted.

    No exception is raised: a library that catches everything, or a destructor, would lose it.
    """
    if interrupts.depth:
        interrupts.pending = lambda: _end(number)
        return
    for clean_up in reversed(interrupts.cleanups.values()):
        with contextlib.suppress(OSError):
            clean_up()
    os._exit(128 + number)
