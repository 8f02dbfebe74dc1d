"""What the user sees on stderr: messages, and a progress bar on a terminal only."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from .errors import printable
from .notices import Notice

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar


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
