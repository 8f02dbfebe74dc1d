"""Signals that end the process: answered once, quietly, and never in the middle of a rename."""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

ENDING = ("SIGTERM", "SIGHUP", "SIGINT")  # not all of them are on every platform
GRACE = 10.0  # seconds for the exception to get through; schedulers give a process some thirty


class Terminated(BaseException):
    """The process was asked to end; raised so that temporary files are removed on the way out."""


@dataclass
class _State:
    held: int = 0  # parts of the code that must not be interrupted, one in another
    waiting: int | None = None  # the signal that came meanwhile
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
    if _state.held:
        _state.waiting = number
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
