"""The options of every command, as its settings define them."""

from dataclasses import MISSING, is_dataclass
from typing import Any

import pytest
from conftest import COMMANDS as CLICK

from pu_noise_cli import settings
from pu_noise_cli.options import definitions

OF_COMMANDS = [
    kind for kind in vars(settings).values() if is_dataclass(kind) and hasattr(kind, "process")
]


@pytest.mark.parametrize("kind", OF_COMMANDS)
def test_options_refer_to_options(kind):
    options = definitions(kind)
    known = {name for other in OF_COMMANDS for name in definitions(other)}
    assert {*getattr(kind, "SHORT", ())} <= {*options}
    for definition in options.values():
        assert {*definition.option.needs} <= {*options}
        assert {name.split("=")[0] for name in definition.option.excludes} <= known


def test_every_settings_class_is_that_of_a_command():
    """By its options, in the same order."""

    def options_of(command: Any) -> tuple[str, ...]:
        return tuple(entry.name for entry in command.params if entry.name not in ("h", "help"))

    of_commands = {options_of(command) for name, command in CLICK.items() if name != "help"}
    assert of_commands == {tuple(definitions(kind)) for kind in OF_COMMANDS}


@pytest.mark.parametrize("kind", OF_COMMANDS)
def test_defaults_are_values_that_the_option_may_have(kind):
    for definition in definitions(kind).values():
        low, high = definition.option.range or (0, 0)
        if definition.kind in ("integer", "number") and definition.default not in (None, MISSING):
            value = definition.default() if callable(definition.default) else definition.default
            assert low <= value <= high, definition.name
        if definition.choices and definition.default not in (None, MISSING):
            assert definition.default in definition.choices
