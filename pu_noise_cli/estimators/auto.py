"""The default method."""

from __future__ import annotations

from ..sketch import Sketch
from .base import Estimate, Settings, register
from .bound import bound


@register("auto")
def auto(sketch: Sketch, settings: Settings) -> Estimate:
    """The most accurate method there is here: at present the two-sided bound."""
    return bound(sketch, settings)
