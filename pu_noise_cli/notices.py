"""Warnings, which are data: a stable code and a message, with a meaning and a remedy to look up.

notices.toml has the meaning and the remedy of every code; the report, the terminal and the
reference page take them from there.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import option


@dataclass(frozen=True)
class Notice:
    """A warning as documents hold it: a stable kebab-case code and a sentence."""

    code: str
    message: str


@dataclass(frozen=True)
class Kind:
    """What all warnings of one code have in common."""

    meaning: str
    remedy: str


class _Spelling(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return option(name)


def kinds() -> dict[str, Kind]:
    """The meaning and the remedy of every code, with options as the caller spells them."""
    import tomllib  # slow to import, and most help does without
    from importlib import resources

    text = resources.files(__package__).joinpath("notices.toml").read_text(encoding="utf-8")
    return {
        code: Kind(**{key: value.format_map(_Spelling()) for key, value in entry.items()})
        for code, entry in tomllib.loads(text).items()
    }
