"""Which attribute each column of a file is: by its name, or by `--map` (docs/cli.md#columns)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from app.cli.base import WrongValue
from app.contacts.cells import column_key, columns_of
from app.contacts.import_check import NAMELESS, shortened
from app.lists.fields import ListSpec

MOST_NAMED = 20
"""Columns that an error message lists."""
ABOUT_ROWS = "_"
"""How the names of columns begin that say something about their rows, such as those of a file with rejected rows."""
Mapped = Mapping[str, str | None]
"""Name of a column -> the attribute, None for a column that is left out."""


def parse_mapping(contact_list: ListSpec, given: Iterable[str]) -> dict[str, str | None]:
    """The arguments `COLUMN=KEY`; one without a key leaves the column out. Raises `WrongValue`."""
    mapping: dict[str, str | None] = {}
    for one in given:
        name, equals, target = one.rpartition("=")
        key = column_key(contact_list, target) if target.strip() else None
        name = name.strip()
        if not equals or not name:
            raise WrongValue(f"--map {one!r}: must be COLUMN=KEY, as in 'E-Mail=email'")
        if key is None and target.strip():
            raise WrongValue(f"--map {one!r}: {target!r} is none of {', '.join(columns_of(contact_list))}")
        if name in mapping:
            raise WrongValue(f"--map {one!r}: the column is mapped twice")
        mapping[name] = key
    return mapping


def is_column(contact_list: ListSpec, mapping: Mapped) -> Callable[[str], bool]:
    """Whether a name in the head of a file is one that can be read."""
    return lambda name: name.strip() in mapping or column_key(contact_list, name) is not None


def keys_of(contact_list: ListSpec, head: Sequence[str], line: int, mapping: Mapped) -> list[str | None]:
    """The attribute of each column, None for one that is left out. Raises `WrongValue`."""
    names = [name.strip() for name in head]
    missing = [name for name in mapping if name not in names]
    if missing:
        raise WrongValue(f"--map: the file has no column {_listed(missing)}; its columns are {_listed(names)}")
    unknown: list[str] = []
    keys: list[str | None] = []
    for name in names:
        key = mapping[name] if name in mapping else column_key(contact_list, name)
        if not name:
            key = NAMELESS
        elif key is None and name not in mapping and not name.startswith(ABOUT_ROWS):
            unknown.append(name)
        elif key is not None and key in keys:
            raise WrongValue(f"line {line}: two columns are {key}")
        keys.append(key)
    if unknown:
        noun = "column" if len(unknown) == 1 else "columns"
        raise WrongValue(
            f"line {line}: {noun} {_listed(unknown)} {'is' if len(unknown) == 1 else 'are'} none of "
            f"{', '.join(columns_of(contact_list))}. --map {shortened(f'{unknown[0]}=KEY')} names the attribute of a "
            f"column, --map {shortened(f'{unknown[0]}=')} leaves it out"
        )
    return keys


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(shortened, names[:MOST_NAMED]))
    return f"{shown} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else shown
