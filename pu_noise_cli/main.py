"""The process: what start-up hides, signals, and every exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

import click

from . import blas, signals
from .errors import ClosedPipe, PunoiseError, of_system, printable
from .signals import Terminated


class WithoutPandas:
    """Hides pandas from pyarrow, which would import it for 0.3 s and nothing that is used here."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def main() -> NoReturn:
    """Run the command line."""
    signals.install()
    code = exit_code(_command)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError, ValueError):
            stream.flush()
    # not sys.exit: a thread of Arrow's that still holds a Python callback while the interpreter
    # shuts down aborts the process
    os._exit(code)


def _command() -> object:
    blas.hold_at_start()
    # Arrow's own allocators hold on to what was freed, and jemalloc has a thread that, where there
    # is no memory for another, says so for ever
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from .cli import cli

    sys.meta_path.insert(0, WithoutPandas)
    return cli.main(prog_name="punoise", standalone_mode=False)


def exit_code(command: Callable[[], object]) -> int:
    """The exit code of a command, whose errors are told on stderr."""
    try:
        try:
            code = command()
        finally:
            signals.end()
    except ClosedPipe as error:
        return error.exit_code
    except PunoiseError as error:
        return _fail(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        _say(error.format_message())
        return error.exit_code
    except click.ClickException as error:
        message = error.format_message()
        if "unexpected extra argument" in message:
            message += " Quote a pattern: 'shards/*.parquet'."
        return _fail(message, error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return 128 + signal.SIGINT
    except Terminated as error:
        return 128 + int(error.args[0])
    except Exception as error:
        where = getattr(error, "filename", None)
        fault = of_system("the machine" if where is None else os.fsdecode(str(where)), error)
        if fault is None:
            raise
        return _fail(str(fault), fault.exit_code)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    _say(f"punoise: error: {printable(' '.join(message.split()))}")
    return code


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # there may be no room for it
        click.echo(text, err=True)
