"""Commands in forked children of a warm process: a few milliseconds each instead of a second."""

from __future__ import annotations

import os
import re
import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

LONGEST = 60.0  # seconds that a command may take
MOST_MEMORY = 1 << 30
ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU}


def warm_up() -> None:
    """Import all that commands use, without starting any thread, which no child would have."""

    import pu_noise_cli.cli.run
    import pu_noise_cli.pipeline  # noqa: F401


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int  # negative: by that signal
    err: str
    seconds: float
    memory: int  # bytes, at the most

    @property
    def fault(self) -> str | None:
        """What must never be."""
        if self.code == -signal.SIGKILL and self.seconds >= LONGEST:
            return f"no end after {LONGEST:.0f} s"
        if "Traceback" in self.err or self.code == 1:
            return f"a traceback: {self.err.strip().splitlines()[-1][:200]}"
        if self.code < 0:
            return f"ended by signal {-self.code}"
        if "\x1b" in self.err:
            return "an escape sequence on stderr"
        if self.memory > MOST_MEMORY:
            return f"{self.memory >> 20} MB"
        return None


class Child:
    """A running command, in a directory of its own."""

    def __init__(
        self, args: Sequence[str], folder: Path, prepare: Callable[[], None] | None = None
    ) -> None:
        self.log = folder / "stderr"
        self.start = time.monotonic()
        # until the child answers signals as a command does, they wait
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        self.pid = os.fork()
        if self.pid == 0:
            self._run(args, folder, prepare)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _run(self, args: Sequence[str], folder: Path, prepare: Callable[[], None] | None) -> None:
        """Never returns."""
        code = 1
        try:
            os.setsid()
            os.chdir(folder)
            for number, flags in ((1, os.O_WRONLY), (2, os.O_WRONLY)):
                name = "stdout" if number == 1 else "stderr"
                os.dup2(os.open(name, flags | os.O_CREAT | os.O_TRUNC), number)
            import sys

            sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
            from pu_noise_cli.cli import process

            def command() -> object:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
                return process.cli.main(list(args), prog_name="punoise", standalone_mode=False)

            process.install_signals()
            if prepare is not None:
                prepare()
            code = process.exit_code(command)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, longest: float = LONGEST) -> Ended:
        deadline = self.start + longest
        while True:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                _, status, usage = os.wait4(self.pid, 0)
                break
            time.sleep(0.002)
        code = os.waitstatus_to_exitcode(status)
        err = self.log.read_text(errors="replace") if self.log.exists() else ""
        return Ended(code, err, time.monotonic() - self.start, usage.ru_maxrss << 10)


def punoise(*args: object, folder: Path, prepare: Callable[[], None] | None = None) -> Ended:
    """Run a command to its end."""
    return Child([str(arg) for arg in args], folder, prepare).wait()


def limit_memory(extra: int) -> Callable[[], None]:
    """For a child: at most so many bytes of address space beyond what it has."""

    def prepare() -> None:
        status = Path("/proc/self/status").read_text()
        found = re.search(r"VmSize:\s+(\d+)", status)
        assert found is not None
        size = int(found[1]) * 1024 + extra
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    return prepare
