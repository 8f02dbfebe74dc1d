"""What the user sees on stderr: messages, and a progress bar on a terminal only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import click

from .errors import Notice


@dataclass(frozen=True)
class Console:
    """Speaks to stderr unless it is to be quiet; errors are not its business."""

    quiet: bool = False
    verbose: bool = False

    def say(self, text: str) -> None:
        if not self.quiet:
            click.echo(text, err=True)

    def detail(self, text: str) -> None:
        if self.verbose:
            self.say(text)

    def warn(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            self.say(f"punoise: warning: {notice.message} [{notice.code}]")

    @contextlib.contextmanager
    def progress(self, label: str) -> Iterator[Callable[[float], None]]:
        """A function that takes the share done; it draws only where there is a terminal."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda share: None
            return
        with click.progressbar(length=1000, label=label, file=sys.stderr) as bar:
            yield lambda share: bar.update(round(share * 1000) - bar.pos)
