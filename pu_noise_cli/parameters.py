"""Commands whose options are the fields of a class, each option said once.

A field knows under which heading the help lists it, whether it names a file that is read or
written, and whether results depend on it.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from .console import Console

HEADINGS = (
    *("Input", "Output", "Columns", "Score", "Estimation", "Posterior", "Audit", "Simulation"),
    *("Large tables", "General"),
)

# ---- The kinds of options


class Option(click.Option):
    """An option, and under which heading the help lists it."""

    def __init__(self, *args: Any, heading: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading


def option(
    names: str,
    heading: str,
    help: str,
    *,
    reads: bool = False,
    writes: bool = False,
    settles: bool = True,
    **settings: Any,
) -> Any:
    """A field that an option sets; `names` are separated by blanks.

    `settles` says whether results depend on it.
    """
    if (reads or writes) and "type" not in settings:
        settings["type"] = FileName()
    if "default" in settings:
        settings["show_default"] = not callable(settings["default"])
    make = functools.partial(click.option, cls=Option, heading=heading, help=help, **settings)
    written = names.split()
    facts = {"reads": reads, "writes": writes, "settles": settles, "option": written[-1]}
    return field(metadata={"make": lambda name: make(*written, name), **facts})


def flag(names: str, heading: str, help: str, *, settles: bool = True) -> Any:
    """A field that is true where the option is given."""
    return option(names, heading, help, settles=settles, is_flag=True)


def reads(name: str, metavar: str, help: str, *, heading: str = "Input", **settings: Any) -> Any:
    """A field that names a file to read, which no output may replace."""
    return option(name, heading, help, reads=True, metavar=metavar, **settings)


def writes(name: str, metavar: str, help: str, **settings: Any) -> Any:
    """A field that names a file to write."""
    return option(name, "Output", help, writes=True, metavar=metavar, **settings)


def argument(*, metavar: str, reads: bool = False, **settings: Any) -> Any:
    """A field that the command's arguments set."""
    if reads:
        settings["type"] = FileName()
    make = functools.partial(click.argument, metavar=metavar, **settings)
    facts = {"reads": reads, "writes": False, "settles": True, "option": metavar}
    return field(metadata={"make": make, **facts})


class FileName(click.ParamType):  # type: ignore[type-arg]
    """A text that names a file, which the shell can complete."""

    name = "text"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        return [CompletionItem(incomplete, type="file")]


class LazyChoice(click.Choice):  # type: ignore[type-arg]
    """A choice among names that are loaded when first needed, as loading them takes numpy."""

    def __init__(self, load: Callable[[], Iterable[str]]) -> None:
        self.load, self.case_sensitive = load, True

    @functools.cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.load())


class NameList(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas; the option may also be repeated."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        try:
            names = next(csv.reader([value], skipinitialspace=True))  # '"a,b",c' are two names
        except csv.Error as error:
            self.fail(f"{value!r} is not a list of names ({error})", param, ctx)
        return tuple(name.strip() for name in names if name.strip())


NameLists = tuple[tuple[str, ...], ...]  # of a NameList option that may be repeated


def joined(lists: NameLists) -> tuple[str, ...]:
    """The names of a repeated NameList option."""
    return tuple(name for names in lists for name in names)


class Finite(click.FloatRange):
    """A number in a range, where neither infinity nor what is no number is one."""

    name = "number"

    def _describe_range(self) -> str:
        return "any" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


NUMBER = Finite()
SHARE = Finite(0, 1)
INNER_SHARE = Finite(0, 1, min_open=True, max_open=True)


# ---- Commands that take them


class Commands(click.Group):
    """Commands in the order in which they are defined: that in which one uses them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class Command(click.Command):
    """A command whose help lists its options under headings, first what it cannot do without."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found: dict[str, list[tuple[str, str]]] = {}
        for parameter in sorted(self.get_params(ctx), key=lambda p: not p.required):
            if (record := parameter.get_help_record(ctx)) is not None:
                found.setdefault(getattr(parameter, "heading", HEADINGS[-1]), []).append(record)
        for heading in HEADINGS:
            if heading in found:
                with formatter.section(heading):
                    formatter.write_dl(found[heading])


def available_cores() -> int:
    """The cores this process may use, which a scheduler may have limited."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class Common:
    """What every command takes."""

    threads: int = option(
        "--threads",
        "General",
        "Default: PUNOISE_THREADS, else the cores this process may use.",
        settles=False,
        type=click.IntRange(1, 4096),
        envvar="PUNOISE_THREADS",
        default=available_cores,
    )
    quiet: bool = flag("-q --quiet", "General", "Errors only.", settles=False)
    verbose: bool = flag(
        "-v --verbose", "General", "Also what is done, and how long it takes.", settles=False
    )

    def start(self) -> Console:
        """Set the threads of the table readers, and make the console."""
        import pyarrow as pa

        pa.set_cpu_count(self.threads)
        with contextlib.suppress(NotImplementedError):  # not in every build; others hold on to more
            pa.set_memory_pool(pa.jemalloc_memory_pool())
        return Console(self.quiet, self.verbose)

    def check_files(self) -> None:
        """Stop where an output is an input or another output, or the inputs are of two runs."""
        from .outputs import check_distinct
        from .staging import check_settled

        check_distinct(self._files("writes"), self._files("reads"))
        for name in self._files("reads"):
            check_settled(name)

    def _files(self, use: str) -> Iterator[str]:
        for which in fields(self):
            value = getattr(self, which.name)
            if which.metadata[use] and value is not None:
                yield from (value,) if isinstance(value, str) else value

    def values(self, settles: bool) -> dict[str, Any]:
        """The options as given that results depend on, or the others."""
        return {
            which.name: value
            for which, value in self._set()
            if which.metadata["settles"] is settles
        }

    def given(self, *names: str) -> list[str]:
        """Those of some options that were given, as they are written."""
        return [which.metadata["option"] for which, _ in self._set() if which.name in names]

    def _set(self) -> Iterator[tuple[Field[Any], Any]]:
        for which in fields(self):
            value = getattr(self, which.name)
            if value is not None and value is not False and value != ():
                yield which, value


Given = TypeVar("Given", bound="Common")


def command(
    options: type[Given], name: str | None = None
) -> Callable[[Callable[[Given, Console], None]], click.Command]:
    """Make a command of a function that takes the options and a console."""

    def enter(function: Callable[[Given, Console], None]) -> click.Command:
        @functools.wraps(function)
        def call(**values: Any) -> None:
            given = options(**values)
            given.check_files()
            function(given, given.start())

        parameters = [field.metadata["make"](field.name) for field in fields(options)]
        for parameter in reversed(parameters):
            parameter(call)
        return click.command(name, cls=Command)(call)

    return enter
