"""Signals that end the process: answered once, quietly, and never in the middle of a rename.

What the user sees on stderr: messages, and a progress bar on a terminal only.

The process: what start-up hides, signals, and every exit code.

The command line: all commands, in the order in which one uses them.
"""

from __future__ import annotations

import _thread
import contextlib
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from .. import __version__
from ..errors import ClosedPipe, PunoiseError, Terminated, critical, of_system, printable
from ..notices import Notice

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar


ENDING = ("SIGTERM", "SIGHUP", "SIGINT")  # not all of them are on every platform
GRACE = 10.0  # seconds for the exception to get through; schedulers give a process some thirty


@dataclass
class _State:
    raised: bool = False  # an exception is on its way up
    lost: bool = False  # it came up where none can be raised, as in a destructor
    over: bool = False  # the process is about to end anyway


_state = _State()


def install() -> None:
    """Answer the signals from now on; those that were ignored at start stay so, as nohup wants."""
    for name in ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _answer)
    sys.unraisablehook = _unraisable


def _answer(number: int, frame: FrameType | None) -> None:
    if _state.over or _state.raised:
        return
    if critical.depth:
        critical.deferred = lambda: _answer(number, None)
        return
    _state.raised = True
    _state.lost = _is_inside(frame, _unraisable)  # where it would be lost for good
    with contextlib.suppress(RuntimeError):  # there may be no room for another thread
        _thread.start_new_thread(_see_to_it, (number,))
    if _state.lost:
        return
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(number)


def _see_to_it(number: int) -> None:
    """Send a signal again whose exception was lost, also to code that catches all there are."""
    deadline = time.monotonic() + GRACE
    while not _state.over:
        time.sleep(0.002)
        if _state.lost or time.monotonic() > deadline:
            _state.raised = False
            # for the main thread to wake from what it may wait for
            signal.pthread_kill(threading.main_thread().ident or 0, number)
            return


def _is_inside(frame: FrameType | None, function: Any) -> bool:
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


def _unraisable(lost: Any) -> None:
    if issubclass(lost.exc_type, Terminated | KeyboardInterrupt):
        _state.lost = True
    else:
        sys.__unraisablehook__(lost)


def end() -> None:
    """The process is about to end: nothing more need be said of signals."""
    _state.over = True


@dataclass(frozen=True)
class Console:
    """Speaks to stderr unless it is to be quiet; errors are not its business."""

    quiet: bool = False
    verbose: bool = False

    def say(self, text: str) -> None:
        if not self.quiet:
            with contextlib.suppress(OSError):  # the results matter more than a full disk here
                click.echo(printable(text), err=True)

    def detail(self, text: str) -> None:
        if self.verbose:
            self.say(text)

    def warn(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            self.say(f"punoise: warning: {notice.message} [{notice.code}]")

    @property
    def on_terminal(self) -> bool:
        """Whether somebody is there to look at more than plain lines."""
        return not self.quiet and sys.stderr is not None and sys.stderr.isatty()

    @property
    def has_blocks(self) -> bool:
        """Whether stderr can show characters beyond ASCII."""
        return "utf" in (getattr(sys.stderr, "encoding", None) or "").lower()

    @contextlib.contextmanager
    def rows(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """A function that takes numbers of rows done; on a terminal it shows their rate."""
        if not self.on_terminal:
            yield lambda rows: None
            return
        start, seen = time.monotonic(), 0
        bar: ProgressBar[int]
        with click.progressbar(
            None if total is not None else (row for row in range(0)),  # of no known length
            length=total,
            label=label,
            file=sys.stderr,
            item_show_func=lambda _: f"{seen / max(time.monotonic() - start, 1e-3):,.0f} rows/s",
        ) as bar:

            def done(rows: int) -> None:
                nonlocal seen
                seen += rows
                bar.update(rows)

            yield done

    def took(self, label: str, seconds: float) -> None:
        """Tell, where more is to be told, how long a stage took."""
        self.detail(f"punoise: {label} took {seconds:.2f} s")

    @contextlib.contextmanager
    def stage(self, label: str) -> Iterator[Callable[[float], None]]:
        """A function that takes the share done; it draws only where there is a terminal."""
        if not self.on_terminal:
            yield lambda share: None
            return
        with click.progressbar(length=1000, label=label, file=sys.stderr) as bar:
            yield lambda share: bar.update(round(share * 1000) - bar.pos)


VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def hold_at_start() -> None:
    """For a process that has not loaded numpy yet; our own threads do the work in parallel."""
    os.environ.update(dict.fromkeys(VARIABLES, "1"))


class WithoutPandas:
    """Hides pandas from pyarrow, which would import it for 0.3 s and nothing that is used here."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def main() -> NoReturn:
    """Run the command line."""
    install()
    code = exit_code(_command)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError, ValueError):
            stream.flush()
    # not sys.exit: a thread of Arrow's that still holds a Python callback while the interpreter
    # shuts down aborts the process
    os._exit(code)


def _command() -> object:
    hold_at_start()
    # Arrow's own allocators hold on to what was freed, and jemalloc has a thread that, where there
    # is no memory for another, says so for ever
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

    sys.meta_path.insert(0, WithoutPandas)
    return cli.main(prog_name="punoise", standalone_mode=False)


def exit_code(command: Callable[[], object]) -> int:
    """The exit code of a command, whose errors are told on stderr."""
    try:
        try:
            code = command()
        finally:
            end()
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


COMMANDS = {
    "run": "run",
    "transform": "prior",
    "estimate-prior": "prior",
    "posterior": "posterior",
    "performance": "posterior",
    "audit": "audit",
    "report": "report",
    "summarize": "report",
    "score": "prior",
    "train": "prior",
    "sketch": "prior",
    "merge-sketches": "prior",
    "simulate": "report",
    "schema": "report",
}  # in the order in which one uses them, with the modules that hold them


class Commands(click.Group):
    """Commands in the order of use, each of which is imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"pu_noise_cli.cli.{COMMANDS[name]}")
        command: click.Command = getattr(module, name.replace("-", "_"))
        return command


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="%(version)s")
def cli() -> None:
    """Class priors and posteriors from noisy positives and unlabeled rows.

    Given a table of labeled positives, some of them wrong, and a table of unlabeled rows, punoise
    estimates the share of positives among the unlabeled (alpha) and among the labeled rows (beta),
    and for each row the probability that it is positive.

    \b
    punoise run --labeled labeled.csv --unlabeled unlabeled.csv --out-dir results
    """
