"""What an option is, and which options settings have: those of their fields with an `Option`.

A field that has settings itself is a group, whose options are among those of the settings. Where
several fields have one name, the last one defines the option, and each has its value.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, MISSING, Field, dataclass, fields, is_dataclass, replace
from types import NoneType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_origin

from .errors import UsageError, option

Settings = TypeVar("Settings")
Kind: TypeAlias = Literal["flag", "switch", "choice", "integer", "number", "range", "text", "names"]


# ---- What settings say of their fields


@dataclass(frozen=True)
class Option:
    """What an option is, beyond the name, the type and the default of its field."""

    help: str
    _: KW_ONLY
    heading: str | None = None  # in the help, if not that of its kind
    metavar: str | None = None
    also: str | None = None  # another flag
    envvar: str | None = None
    file: Literal["read", "written"] | None = None  # if the value is the name of a file
    is_argument: bool = False  # it has no flag
    is_repeated: bool = False  # a list is given one by one, not as A,B,...
    range: tuple[int, int] | None = None
    ends_excluded: bool = False
    choices: tuple[str, ...] | str = ()  # a str is a registry of them, which imports numpy
    needs: tuple[str, ...] = ()  # one of these options
    excludes: tuple[str, ...] = ()  # all of these; NAME=VALUE is one value of an option
    hint: str | None = None  # what to do instead
    affects_results: bool = True  # if not, it is part of the execution in provenance.json


class Without:
    """Options of a group that these settings do not have."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def apply(self, group: Mapping[str, Definition]) -> dict[str, Definition]:
        rest = dict(group)
        for name in self.names:
            del rest[name]
        return rest


class Changes:
    """What differs in options of a group: by the name of the option, parts of its `Option`."""

    def __init__(self, **parts: Mapping[str, Any]) -> None:
        self.parts = parts

    def apply(self, group: Mapping[str, Definition]) -> dict[str, Definition]:
        changed = {
            name: replace(group[name], option=replace(group[name].option, **parts))
            for name, parts in self.parts.items()
        }
        return {**group, **changed}


# ---- The options of settings


@dataclass(frozen=True)
class Definition:
    """Everything that a field says of its option."""

    name: str
    kind: Kind
    choices: tuple[str, ...] | str
    default: Any  # or a function that gives it; MISSING if the option is required
    option: Option


@functools.cache
def definitions(settings: type[Any]) -> Mapping[str, Definition]:
    """The options of settings by name."""
    found: dict[str, Definition] = {}
    for field in fields(settings):
        for name, definition in _definitions(field).items():
            found.pop(name, None)  # the last of several decides on the place in the help, too
            found[name] = definition
    return found


def _definitions(field: Field[Any]) -> Mapping[str, Definition]:
    """The options of a field: those of a group, its own, or none."""
    annotation, marks = _unpacked(field)
    if _is_group(annotation):
        group = definitions(annotation)
        for mark in marks:
            group = mark.apply(group)
        return group
    if not marks:
        return {}
    (stated,) = marks
    kind, choices = _kind(annotation, stated)
    default = field.default if field.default_factory is MISSING else field.default_factory
    return {field.name: Definition(field.name, kind, choices, default, stated)}


def _unpacked(field: Field[Any]) -> tuple[Any, tuple[Any, ...]]:
    """The type of a field, and what else is said of it."""
    if get_origin(field.type) is Annotated:
        annotation, *marks = get_args(field.type)
        return annotation, tuple(marks)
    return field.type, ()


def _is_group(annotation: Any) -> bool:
    return is_dataclass(annotation)


def _kind(annotation: Any, stated: Option) -> tuple[Kind, tuple[str, ...] | str]:
    """The kind of an option that has values of a type, and its choices."""
    alternatives = get_args(annotation)
    is_optional = NoneType in alternatives
    kind = alternatives[0] if is_optional else annotation
    if get_origin(kind) is Literal:
        return "choice", get_args(kind)
    if stated.choices:
        return "choice", stated.choices
    if get_origin(kind) is tuple:
        return "range" if get_args(kind) == (float, float) else "names", ()
    if kind is bool:
        return "switch" if is_optional else "flag", ()
    if kind in (int, float):
        return "integer" if kind is int else "number", ()
    return "text", ()


def build(settings: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Settings whose fields, and those of their groups, have the values of the same names."""
    chosen: dict[str, Any] = {}
    for field in fields(settings):  # type: ignore[arg-type]
        annotation, _ = _unpacked(field)
        if _is_group(annotation):
            chosen[field.name] = build(annotation, values)
        elif field.name in values:
            value = values[field.name]
            chosen[field.name] = tuple(value) if isinstance(value, list) else value
    return settings(**chosen)


# ---- Which values options may have together


def passed(options: Mapping[str, Definition], values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that have a value; a flag has one only if it is set."""

    def has_value(name: str, value: Any) -> bool:
        if value is False:
            return options[name].kind != "flag"
        return not (value is None or (isinstance(value, (tuple, list)) and len(value) == 0))

    return {name: value for name, value in values.items() if has_value(name, value)}


def check_together(options: Mapping[str, Definition], passed: Mapping[str, Any]) -> None:
    """Stop where an option lacks another one that it needs, or meets one that it excludes."""

    def is_passed(name: str) -> bool:
        name, _, wanted = name.partition("=")
        return name in passed and (not wanted or str(passed[name]) == wanted)

    for name in passed:
        stated = options[name].option
        for other in filter(is_passed, stated.excludes):
            hint = "" if stated.hint is None else f": {stated.hint}"
            raise UsageError(f"{_spelled(name)} cannot be used with {_spelled(other)}{hint}")
        if stated.needs and not any(map(is_passed, stated.needs)):
            raise UsageError(f"{_spelled(name)} needs {' or '.join(map(_spelled, stated.needs))}")


def _spelled(name: str) -> str:
    name, _, value = name.partition("=")
    return option(name, *([value] if value and value != "True" else []))


# ---- Values that come from Python; those of the command line are texts, which click converts


def check_values(
    options: Mapping[str, Definition],
    passed: Mapping[str, Any],
    registered: Callable[[str], Collection[str]],
) -> None:
    """Stop at a value that an option cannot have.

    Parameters
    ----------
    registered
        The choices of an option by the name of their registry.
    """
    for name, value in passed.items():
        definition = options[name]
        if definition.kind == "choice":
            choices = definition.choices
            known = registered(choices) if isinstance(choices, str) else choices
            if value not in known:
                raise UsageError(f"{option(name, value)}: one of {', '.join(known)} is needed")
        elif definition.kind in ("integer", "number", "range"):
            _check_numbers(definition, value)
        elif definition.option.file is None:
            _check_kind(name, value, definition.kind)


def _check_numbers(definition: Definition, value: Any) -> None:
    name, kind, stated = definition.name, definition.kind, definition.option
    if kind == "range" and (not isinstance(value, (tuple, list)) or len(value) != 2):
        raise UsageError(f"{option(name, value)}: two numbers are needed")
    for number in value if kind == "range" else (value,):
        try:
            finite = math.isfinite(number)
        except TypeError:
            finite = False
        if not finite or isinstance(number, bool) or (kind == "integer" and number != int(number)):
            wanted = "a whole number" if kind == "integer" else "a number"
            raise UsageError(f"{option(name, value)}: {wanted} is needed")
        low, high = stated.range or (-math.inf, math.inf)
        if not low <= number <= high or (stated.ends_excluded and number in (low, high)):
            inside = " (ends excluded)" if stated.ends_excluded else ""
            raise UsageError(f"{option(name, value)}: must be from {low} to {high}{inside}")


def _check_kind(name: str, value: Any, kind: Kind) -> None:
    if kind == "names":
        if isinstance(value, str) or not all(isinstance(item, str) for item in value):
            raise UsageError(f"{option(name, value)}: a list of names is needed")
    elif kind in ("flag", "switch"):
        if not isinstance(value, bool):
            raise UsageError(f"{option(name, value)}: True or False is needed")
    elif not isinstance(value, str):
        raise UsageError(f"{option(name, value)}: a text is needed")
