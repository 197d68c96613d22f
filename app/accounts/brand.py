"""The name and the colour of an account on the pages that recipients see (docs/inbound.md#pages-for-recipients)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.errors import ServiceError
from app.names import CONTROL

LONGEST_NAME = 100
COLOUR = re.compile(r"#[0-9a-f]{6}")
BLACK, WHITE = "#000000", "#ffffff"


@dataclass(frozen=True, slots=True)
class Brand:
    """Either is None if the account has none. `colour` is such as `#0a66c2`."""

    name: str | None = None
    colour: str | None = None

    @property
    def text_colour(self) -> str:
        """That of text on the colour: the one of black and white that is easier to read."""
        light = _luminance(self.colour or BLACK)
        return BLACK if (light + 0.05) ** 2 > 0.05 * 1.05 else WHITE


def _luminance(colour: str) -> float:
    """The relative luminance by which WCAG 2 measures contrast, from 0 to 1."""
    shares = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def checked_brand_name(text: str) -> str:
    """The name without surrounding white space. Raises `not_empty`, `too_long` or `invalid_string`."""
    name = text.strip()
    if not name:
        raise ServiceError("not_empty", field="brand_name", detail="must not be empty")
    if len(name) > LONGEST_NAME:
        raise ServiceError("too_long", field="brand_name", detail=f"has more than {LONGEST_NAME} characters")
    if CONTROL.search(name):
        raise ServiceError("invalid_string", field="brand_name", detail="holds a control character")
    return name


def checked_colour(text: str) -> str:
    """The colour in lower case. Raises `invalid_string`."""
    colour = text.strip().lower()
    if not COLOUR.fullmatch(colour):
        detail = f"{text!r} is not a colour such as #0a66c2"
        raise ServiceError("invalid_string", field="brand_colour", detail=detail)
    return colour
