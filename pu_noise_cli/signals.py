"""Signals that end the process: answered once, quietly, and never in the middle of a rename."""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ENDING = ("SIGTERM", "SIGHUP", "SIGINT")  # not all of them are on every platform


class Terminated(BaseException):
    """The process was asked to end; raised so that temporary files are removed on the way out."""


@dataclass
class _State:
    held: int = 0  # parts of the code that must not be interrupted, one in another
    waiting: int | None = None  # the signal that came meanwhile
    ending: bool = False  # the process is about to end anyway


_state = _State()


def install() -> None:
    """Answer the signals from now on; those that were ignored at start stay so, as nohup wants."""
    for name in ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _answer)
    sys.unraisablehook = _raise_again


def _answer(number: int, _: object) -> None:
    if _state.ending:
        return
    if _state.held:
        _state.waiting = number
        return
    _state.ending = True
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(number)


def _raise_again(lost: Any) -> None:
    """An exception that came up where none can be raised, as in a destructor, is not lost."""
    if issubclass(lost.exc_type, Terminated | KeyboardInterrupt):
        _state.ending = False
        number = lost.exc_value.args[0] if lost.exc_type is Terminated else signal.SIGINT
        _thread.interrupt_main(number)
    else:
        sys.__unraisablehook__(lost)


def end() -> None:
    """The process is about to end: nothing more need be said of signals."""
    _state.ending = True


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let what is inside finish before a signal is answered."""
    _state.held += 1
    try:
        yield
    finally:
        _state.held -= 1
        if not _state.held and _state.waiting is not None:
            number, _state.waiting = _state.waiting, None
            _answer(number, None)
