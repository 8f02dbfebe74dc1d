"""Options as data (cli/options.toml): which there are, and which values they may have together."""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import resources
from typing import Any, NamedTuple

from .errors import UsageError, option

Definition = Mapping[str, Any]  # an option's entry in options.toml


@functools.cache
def options_document() -> dict[str, Any]:
    """The content of options.toml."""
    file = resources.files(__package__).joinpath("cli", "options.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def expanded(names: Iterable[str]) -> Iterator[str]:
    """Names of options, groups replaced by their members."""
    groups = options_document()["groups"]
    for name in names:
        yield from groups.get(name.removeprefix("@"), name).split()


def definitions(command: str) -> dict[str, Definition]:
    """The options of a command by name, as options.toml defines them for it."""
    document = options_document()
    own = document.get(command, {})
    names = expanded([*document["commands"][command].split(), "general"])
    merged = {name: {**document["options"].get(name, {}), **own.get(name, {})} for name in names}
    return {name: entry for name, entry in merged.items() if not entry.get("remove")}


class Limits(NamedTuple):
    """The range of a number."""

    low: float | None
    high: float | None
    open: bool = False  # without its ends


def limits(entry: Definition) -> Limits | None:
    """The range of an option's numbers; None if its values are not numbers."""
    kind = entry.get("kind", "text")
    if kind in ("fraction", "range"):
        return Limits(0, 1)
    if kind == "open-fraction":
        return Limits(0, 1, open=True)
    if kind in ("number", "numbers", "integer"):
        return Limits(entry.get("min"), entry.get("max"))
    return None


def passed(definitions: Mapping[str, Definition], values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that have a value; a flag has one only if it is set."""

    def has_value(name: str, value: Any) -> bool:
        if value is False:
            return definitions[name].get("kind") != "flag"
        return not (value is None or (isinstance(value, (tuple, list)) and len(value) == 0))

    return {name: value for name, value in values.items() if has_value(name, value)}


def check_together(
    definitions: Mapping[str, Definition], passed: Mapping[str, Any], ignored: Collection[str] = ()
) -> None:
    """Stop where an option lacks another one that it needs, or meets one that it excludes."""

    def is_passed(name: str) -> bool:
        name, _, wanted = name.partition("=")
        return name in passed and (not wanted or str(passed[name]) == wanted)

    for name in passed:
        entry = definitions[name]
        hint = f": {entry['hint']}" if "hint" in entry else ""
        for other in filter(is_passed, expanded(entry.get("excludes", ()))):
            raise UsageError(f"{_spelled(name)} cannot be used with {_spelled(other)}{hint}")
        needs = [other for other in entry.get("needs", ()) if other not in ignored]
        if needs and not any(map(is_passed, needs)):
            raise UsageError(f"{_spelled(name)} needs {' or '.join(map(_spelled, needs))}")


def _spelled(name: str) -> str:
    name, _, value = name.partition("=")
    return option(name, *([value] if value and value != "True" else []))


# ---- Values that come from Python; those of the command line are texts, which click converts


def check_values(
    definitions: Mapping[str, Definition],
    passed: Mapping[str, Any],
    registered: Callable[[str], Collection[str]],
) -> None:
    """Stop at a value that an option cannot have.

    Parameters
    ----------
    registered
        The choices of an option by the name that options.toml has for them.
    """
    for name, value in passed.items():
        entry = definitions[name]
        if "choices" in entry:
            choices = entry["choices"]
            known = choices if isinstance(choices, list) else list(registered(choices))
            if value not in known:
                raise UsageError(f"{option(name, value)}: one of {', '.join(known)} is needed")
        elif (range_ := limits(entry)) is not None:
            _check_numbers(name, value, entry.get("kind", ""), range_)
        else:
            _check_kind(name, value, entry.get("kind", "text"))


def _check_numbers(name: str, value: Any, kind: str, range_: Limits) -> None:
    numbers = value if kind in ("range", "numbers") else (value,)
    if kind == "range" and (not isinstance(value, (tuple, list)) or len(value) != 2):
        raise UsageError(f"{option(name, value)}: two numbers are needed")
    for number in numbers:
        try:
            finite = math.isfinite(number)
        except TypeError:
            finite = False
        if not finite or isinstance(number, bool) or (kind == "integer" and number != int(number)):
            wanted = "a whole number" if kind == "integer" else "a number"
            raise UsageError(f"{option(name, value)}: {wanted} is needed")
        low, high = range_.low, range_.high
        outside = (low is not None and number < low) or (high is not None and number > high)
        if outside or (range_.open and number in (low, high)):
            inside = " (ends excluded)" if range_.open else ""
            raise UsageError(f"{option(name, value)}: must be from {low} to {high}{inside}")


def _check_kind(name: str, value: Any, kind: str) -> None:
    if kind in ("names", "texts"):
        if isinstance(value, str) or not all(isinstance(item, str) for item in value):
            raise UsageError(f"{option(name, value)}: a list of names is needed")
    elif kind in ("flag", "switch"):
        if not isinstance(value, bool):
            raise UsageError(f"{option(name, value)}: True or False is needed")
    elif kind == "text" and not isinstance(value, str):
        raise UsageError(f"{option(name, value)}: a text is needed")
