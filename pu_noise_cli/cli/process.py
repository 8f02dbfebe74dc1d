"""The process: its commands, what it prints, signals and exit codes."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shlex
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from .. import __version__
from ..errors import (
    ClosedPipe,
    PunoiseError,
    StrictError,
    from_os_error,
    interrupts,
    option,
    printable,
)
from ..notices import Notice, kinds
from .help import Commands

if TYPE_CHECKING:
    from ..pipeline import ScoredRows
    from ..posterior.calibration import Calibration
    from ..posterior.groups import Groups
    from ..prior.document import Prior
    from ..score.sketch import Sketch
    from ..score.training import Trained


STYLES: dict[str, dict[str, Any]] = {  # of lines that begin so, on a terminal
    "punoise: warning:": {"fg": "yellow"},
    "alpha ": {"bold": True},
    "beta ": {"bold": True},
    "next ": {"fg": "cyan"},
}
MEANT = {"--positives": "--labeled", "--positive": "--labeled", "--output": "--out-dir"}
# batch systems send any of these; not every platform has all
ENDING_SIGNALS = (
    *("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGBREAK"),
    *("SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGALRM", "SIGVTALRM"),
)
ERASE_LINE = "\r\x1b[K"
BAR_WIDTH = 30
DETAIL_SECONDS, LOG_SECONDS = 10.0, 60.0  # between lines on progress, if there is no terminal
BLAS_VARIABLES = (
    *("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    *("BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["--help"], "max_content_width": 100}
)
@click.help_option("-h", "--help")
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
        interrupts.cleanups.clear()  # directories that it made stay
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
        if isinstance(error, click.NoSuchOption) and error.option_name in MEANT:
            message = f"No such option '{error.option_name}'. Use '{MEANT[error.option_name]}'."
        return _fail(message, error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return 128 + signal.SIGINT
    except Exception as error:
        file = getattr(error, "filename", None)
        fault = from_os_error("the machine" if file is None else os.fsdecode(str(file)), error)
        if fault is None:
            raise
        return _fail(str(fault), fault.exit_code)
    finally:
        interrupts.clean_up()
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    _print(f"punoise: {colored('error', fg='red')}: {printable(' '.join(message.split()))}")
    return code


def colored(text: str, **style: Any) -> str:
    """Text with color, unless the user wants none; click removes it where there is no terminal."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return click.style(text, **style)


def _print(text: str) -> None:
    with contextlib.suppress(OSError):  # the disk may be full
        click.echo(text, err=True)


# ---- What the user reads


@contextlib.contextmanager
def _status_line() -> Iterator[Callable[[str], None]]:
    """A line on the terminal, redrawn at most ten times a second and removed at the end."""
    drawn = -math.inf

    def draw(text: str) -> None:
        nonlocal drawn
        if (now := time.monotonic()) - drawn >= 0.1:
            drawn = now
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"{ERASE_LINE}{text[:width]}", err=True, nl=False)

    try:
        yield draw
    finally:
        if drawn > -math.inf:
            click.echo(ERASE_LINE, err=True, nl=False)


def _lines(say: Callable[[str], None], interval: float) -> Callable[[str], None]:
    """A function that says a text and the time so far, at most once in so many seconds."""
    start = said = time.monotonic()

    def show(text: str) -> None:
        nonlocal said
        if (now := time.monotonic()) - said >= interval:
            said = now
            say(f"{text} ({now - start:.0f} s)")

    return show


def _bar(fraction: float) -> str:
    done = round(BAR_WIDTH * min(fraction, 1.0))
    return f"[{'#' * done}{'-' * (BAR_WIDTH - done)}] {min(fraction, 1.0):4.0%}"


@dataclass(frozen=True)
class Console:
    """Prints messages, results and progress to stderr."""

    quiet: bool = False
    verbose: bool = False
    strict: bool = False
    asked_for: frozenset[str] = frozenset()  # codes of warnings at which strict does not stop

    def say(self, text: str) -> None:
        if self.quiet:
            return
        text = printable(text)
        for prefix, style in STYLES.items():
            if text.startswith(prefix):
                text = colored(prefix, **style) + text.removeprefix(prefix)
        with contextlib.suppress(OSError):  # the results matter more than a full disk here
            click.echo(text, err=True)

    def detail(self, text: str) -> None:
        if self.verbose:
            self.say(text)

    def warn(self, notices: Iterable[Notice]) -> None:
        known = kinds()
        for notice in dict.fromkeys(notices):
            self.say(f"punoise: warning: {notice.message} [{notice.code}]")
            if notice.code in known:
                self.say(f"         {known[notice.code].remedy}")

    def check_strict(self, notices: Iterable[Notice]) -> None:
        """Stop at any warning, if the user asked for that."""
        codes = [notice.code for notice in notices if notice.code not in self.asked_for]
        if self.strict and codes:
            warnings = "1 warning" if len(codes) == 1 else f"{len(codes)} warnings"
            raise StrictError(
                f"stopped by {option('strict')} because of {warnings} ({', '.join(codes)}); the "
                "outputs were written"
            )

    def conclude(self, notices: Iterable[Notice]) -> None:
        """Print the warnings of a command, and stop at any if the user asked for that."""
        notices = tuple(notices)
        self.warn(notices)
        self.check_strict(notices)

    def relay_messages(self) -> None:
        """Say what the package logs, such as the delimiter that a file turned out to have."""
        handler = logging.Handler()
        handler.emit = lambda record: self.say(f"punoise: {record.getMessage()}")  # type: ignore[method-assign]
        logger = logging.getLogger("punoise")
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)

    @property
    def on_terminal(self) -> bool:
        """Whether somebody looks at more than plain lines."""
        if self.quiet or sys.stderr is None or os.environ.get("TERM") == "dumb":
            return False
        return sys.stderr.isatty()

    # ---- Progress

    @contextlib.contextmanager
    def rows(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """A function that takes numbers of rows done."""
        start, seen = time.monotonic(), 0
        with self._progress(label) as show:

            def done(rows: int) -> None:
                nonlocal seen
                seen += rows
                rate = seen / max(time.monotonic() - start, 1e-3)
                fraction = None if total is None else seen / max(total, 1)
                show(fraction, f"{seen:,} rows", f"{rate:,.0f} rows/s")

            yield done

    @contextlib.contextmanager
    def stage(self, label: str) -> Iterator[Callable[[float], None]]:
        """A function that takes the fraction done."""
        with self._progress(label) as show:
            yield lambda fraction: show(fraction, "", "")

    @contextlib.contextmanager
    def _progress(self, label: str) -> Iterator[Callable[[float | None, str, str], None]]:
        """A function that shows the fraction done, if it is known, the rows and their rate.

        A terminal has a bar. A log has a line once a minute at most, or more often if wanted.
        """
        if self.quiet:
            yield lambda fraction, rows, rate: None
        elif self.on_terminal:
            with _status_line() as draw:
                yield lambda fraction, rows, rate: draw(
                    f"{label}  {rows if fraction is None else _bar(fraction)}  {rate}"
                )
        else:
            show = _lines(self.say, DETAIL_SECONDS if self.verbose else LOG_SECONDS)
            yield lambda fraction, rows, rate: show(
                f"punoise: {label}: {rows if fraction is None else f'{fraction:.0%}'}"
            )

    def took(self, label: str, seconds: float) -> None:
        if self.verbose or (seconds >= LOG_SECONDS and not self.on_terminal):
            self.say(f"punoise: {label} took {seconds:.2f} s")

    # ---- Results

    def print_score(self, scored: ScoredRows) -> None:
        assert scored.trained is not None
        self.print_trained(scored.trained)

    def print_trained(self, trained: Trained) -> None:
        """How the score came about."""
        from ..tables.kinds import described

        columns = trained.model.encoding.columns
        if trained.learned:
            kinds = described(Counter(column.kind for column in columns))
            named = f"{len(columns)} columns" if len(columns) > 1 else "1 column"
            self.say(f"punoise: learned a score from {named} ({kinds})")
        else:
            self.say(f"punoise: column {columns[0].name!r} is used as the score")

    def print_prior(self, prior: Prior, sketch: Sketch) -> None:
        """The warnings and the answer; on a terminal also what the scores look like."""
        from ..prior.document import summarize_prior

        self.warn(prior.notices)
        for line in summarize_prior(prior):
            self.say(line)
        if self.on_terminal:
            from ..report.figures import BLOCKS, PLAIN_BLOCKS, histogram_lines

            encoding = getattr(sys.stderr, "encoding", None) or ""
            blocks = BLOCKS if "utf" in encoding.lower() else PLAIN_BLOCKS
            for line in histogram_lines(sketch, blocks):
                self.say(line)

    def print_next(self, prior: Prior, calibration: Calibration, scores: str, file: str) -> None:
        """What would narrow the interval of alpha, with the command to type."""
        from ..audit.design import audit_command, next_steps

        for step in next_steps(prior, calibration, audit_command(scores, file)):
            self.say(f"next   {step}")
        if prior.audit is not None:  # the posteriors so far are of an earlier alpha
            files = f"--scores {shlex.quote(scores)} --prior {shlex.quote(file)}"
            self.say(f"next   new posteriors: punoise posterior {files} --out FILE")

    def print_groups(self, groups: Groups, parts: Sequence[str] | None = None) -> None:
        """How many groups there are, and the range of alpha unless there is more to say."""
        from ..prior.document import percent

        alpha = groups.shares.alpha[1:] if len(groups.names) > 1 else groups.shares.alpha
        if parts is None:
            parts = [f"alpha {percent(alpha.min())} to {percent(alpha.max())}"]
        name = f"groups {len(groups.names) - 1:,} (by {groups.by})"
        self.say(f"{name}: {', '.join(parts)}" if parts else name)


# ---- Signals


def install_signals() -> None:
    """Answer signals that end the process; those ignored at start stay ignored, as nohup wants."""
    for number in (getattr(signal, name, None) for name in ENDING_SIGNALS):
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: _end(number))


def _end(number: int) -> None:
    """Remove temporary files and end, after what must not be interrupted.

    No exception is raised: a library that catches everything, or a destructor, would lose it.
    """
    if interrupts.depth:
        interrupts.pending = lambda: _end(number)
        return
    interrupts.clean_up()
    os._exit(128 + number)
