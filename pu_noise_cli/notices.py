"""Warnings, which are data: a stable code and a sentence, with a meaning and a remedy to look up.

A kind of warning is declared where it is raised, and only there; the docs are checked against
KINDS, and the report takes its explanations from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Notice(NamedTuple):
    """A warning as it stands in the JSON: a stable kebab-case code and a sentence."""

    code: str
    message: str


@dataclass(frozen=True)
class Kind:
    """What all warnings of one code have in common."""

    code: str
    meaning: str
    remedy: str

    def __call__(self, message: str) -> Notice:
        return Notice(self.code, message)


KINDS: dict[str, Kind] = {}


def declare(code: str, meaning: str, remedy: str) -> Kind:
    """Declare a kind of warning."""
    KINDS[code] = Kind(code, meaning, remedy)
    return KINDS[code]
