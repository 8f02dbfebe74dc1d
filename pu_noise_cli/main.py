"""The process: what start-up hides, signals, and every exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

import click

from . import blas
from .errors import ClosedPipe, PunoiseError


class Terminated(BaseException):
    """The process was asked to end; raised so that temporary files are removed on the way out."""


def _terminate(number: int, _: object) -> NoReturn:
    raise Terminated(number)


class WithoutPandas:
    """Hides pandas from pyarrow, which would import it for 0.3 s and nothing that is used here."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def main() -> NoReturn:
    """Run the command line."""
    blas.hold_at_start()
    from .cli import cli

    sys.meta_path.insert(0, WithoutPandas)
    for name in ("SIGTERM", "SIGHUP"):  # the second is not on every platform
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup's stays
            signal.signal(number, _terminate)
    code = exit_code(lambda: cli.main(prog_name="punoise", standalone_mode=False))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):
            stream.flush()
    # not sys.exit: a thread of Arrow's that still holds a Python callback while the interpreter
    # shuts down aborts the process
    os._exit(code)


def exit_code(command: Callable[[], object]) -> int:
    """The exit code of a command, whose errors are told on stderr."""
    try:
        code = command()
    except ClosedPipe as error:
        return error.exit_code
    except PunoiseError as error:
        return _fail(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
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
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    click.echo(f"punoise: error: {' '.join(message.split())}", err=True)
    return code
