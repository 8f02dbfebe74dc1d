"""Signals that end the process: answered once, quietly, and never in the middle of a rename."""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

ENDING = ("SIGTERM", "SIGHUP", "SIGINT")  # not all of them are on every platform


class Terminated(BaseException):
    """The process was asked to end; raised so that temporary files are removed on the way out."""


@dataclass
class _State:
    held: int = 0  # parts of the code that must not be interrupted, one in another
    waiting: int | None = None  # the signal that came meanwhile
    raised: bool = False  # an exception is on its way up
    over: bool = False  # the process is about to end anyway


_state = _State()


def install() -> None:
    """Answer the signals from now on; those that were ignored at start stay so, as nohup wants."""
    for name in ENDING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _answer)
    sys.unraisablehook = _raise_later


def _answer(number: int, frame: FrameType | None) -> None:
    if _state.over or _state.raised:
        return
    if _state.held:
        _state.waiting = number
        return
    if _is_inside(frame, _raise_later):  # where it would be lost for good
        _thread.start_new_thread(_remind, (number,))
        return
    _state.raised = True
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(number)


def _is_inside(frame: FrameType | None, function: Any) -> bool:
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


def _raise_later(lost: Any) -> None:
    """An exception that came up where none can be raised, as in a destructor, is not lost."""
    if issubclass(lost.exc_type, Terminated | KeyboardInterrupt):
        number = lost.exc_value.args[0] if lost.exc_type is Terminated else signal.SIGINT
        _thread.start_new_thread(_remind, (number,))
    else:
        sys.__unraisablehook__(lost)


def _remind(number: int) -> None:
    time.sleep(0.001)
    _state.raised = False
    _thread.interrupt_main(signal.Signals(number))


def end() -> None:
    """The process is about to end: nothing more need be said of signals."""
    _state.over = True


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
