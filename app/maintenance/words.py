"""Durations, numbers and shares in words. Pure."""

from __future__ import annotations


def lasting(seconds: float) -> str:
    """A duration in its two largest units."""
    rest, parts = round(seconds), []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"


def counted(number: float, noun: str, plural: str | None = None) -> str:
    """The number with its noun."""
    return f"{number:.15g} {noun if number == 1 else plural or noun + 's'}"


def messages(number: float, type_: str) -> str:
    """So many messages of a type."""
    return counted(number, f"{type_} message")


def share(part: float, whole: float) -> str:
    """The part of the whole in percent."""
    return f"{100 * part / whole:.3g} %"
