"""The definition of a noun that people set up (docs/code-layout.md#resource-definitions).

One definition says which attributes a noun has, how each is read, shown and given, and which use cases change it. From
it come the commands (`app.cli.resource`), the table, the file and the form of the console
(`blueprints.console.resource`), the entries of a seed file (`app.seed.resource`) and their documentation
(`tools.generated_docs.seed`). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from app.errors import ServiceError
from app.plain_data import Check, Record, each, flag, nullable, number, text

Values = Mapping[str, Any]
"""Key of an attribute -> its value, as a use case takes it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How people give an attribute."""

    control: ClassVar[str] = "text"
    """What a form has for it (`app/templates/console/resource.html`)."""

    def check(self, value: Any, path: str) -> Any:
        """The value that a seed file has there. Raises `ServiceError` for another kind of value."""
        return text(value, path)

    def from_form(self, given: str, _name: str) -> Any:
        """The value of a field of a form, or of an option; None for an empty text."""
        return given or None

    def to_form(self, value: Any) -> str:
        """The value as a field of a form has it."""
        return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """A text, as it is."""


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of some words, each with its meaning. The use case refuses others."""

    control: ClassVar[str] = "choice"
    words: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reference(Kind):
    """A row of another noun, by its name or its id. The use case takes its id, under the key `id_key`."""

    control: ClassVar[str] = "reference"
    model: Any
    noun: str
    id_key: str


@dataclass(frozen=True, slots=True)
class Number(Kind):
    """A number; on the command line and in a form 0 means that there is none."""

    control: ClassVar[str] = "number"

    def check(self, value: Any, path: str) -> Any:
        """The value of a seed file."""
        return number(value, path)

    def from_form(self, given: str, name: str) -> float | None:
        """The number. Raises `invalid_number`."""
        try:
            return float(given or 0) or None
        except ValueError:
            raise ServiceError("invalid_number", field=name, detail=f"{name}: {given!r} is not a number.") from None


@dataclass(frozen=True, slots=True)
class Flag(Kind):
    """Yes or no."""

    control: ClassVar[str] = "flag"

    def check(self, value: Any, path: str) -> Any:
        """The value of a seed file."""
        return flag(value, path)

    def from_form(self, given: str, _name: str) -> bool:
        """Whether the box is ticked."""
        return bool(given)

    def to_form(self, value: Any) -> str:
        """Empty where the box is not ticked."""
        return "1" if value else ""


@dataclass(frozen=True, slots=True)
class Switch(Flag):
    """On or off. A command can say both, while it can only set a flag: by two options, where `off` is the name of the
    second one, or by one that takes the word."""

    off: str = ""


@dataclass(frozen=True, slots=True)
class Lines(Kind):
    """Several texts, each on a line of a form."""

    control: ClassVar[str] = "lines"

    def check(self, value: Any, path: str) -> Any:
        """The value of a seed file."""
        return each(text)(value, path)

    def from_form(self, given: str, _name: str) -> list[str]:
        """The texts of all lines."""
        return [line.strip() for line in given.splitlines() if line.strip()]

    def to_form(self, value: Any) -> str:
        """A line for each."""
        return "\n".join(value)


@dataclass(frozen=True, slots=True)
class Words(Lines):
    """Several texts without spaces, on lines of a form or between spaces."""

    def from_form(self, given: str, _name: str) -> list[str]:
        """The texts."""
        return given.split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """An attribute of a noun: it is read if it has a `column`, and given if it has a `kind`."""

    key: str
    """The name in JSON, in a CSV file and in a seed file."""
    column: Any = None
    """The SQL expression that reads it."""
    format_value: Callable[[Any], Any] = lambda value: value
    """Turns a value of the column into what everybody outside sees."""
    heading: str | None = None
    """The heading of its column in the console, which leaves the attribute out for None."""
    empty_meaning: str | None = None
    """What having no value means, in a word or two; None if there always is one."""
    kind: Kind | None = None
    meaning: str = ""
    """What people read where they give it: a phrase without a full stop."""
    example: str = ""
    """What a value looks like."""
    option: str = ""
    """The name on the command line, where that is not the key."""
    is_required: bool = False
    is_fixed: bool = False
    """Whether it is given only when the row is made."""

    @classmethod
    def of(cls, column: Any, kind: Kind | None = None, meaning: str = "", **others: Any) -> Attribute:
        """The attribute that a column has, by its name."""
        return cls(key=column.key, column=column, kind=kind, meaning=meaning, **others)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDefinition:
    """A noun that people set up in an account.

    `create` takes the transaction, the account's id and the values; `update` takes the row and the values to change,
    and returns whether any differed. Both raise `ServiceError`, which names the attribute.
    """

    noun: str
    plural: str
    meaning: str
    """What they are: a sentence."""
    model: Any
    source: Any
    """The tables that the columns are read from, joined."""
    key: str
    """The attribute by which people name one."""
    attributes: tuple[Attribute, ...]
    sentences: Mapping[str, str]
    """Action -> what it does, for `list`, `show`, `create`, `update` and `delete`."""
    buttons: Mapping[str, str]
    """Action -> the word on its button, for `create` and `delete`."""
    done: Mapping[str, str]
    """Action -> what is said once it was done, for `create` and `delete`."""
    scopes: Mapping[str, str]
    """Action -> what a session of the console needs for it, for `list`, `create` and `delete`."""
    empty: str
    """What a page says where there is none: sentences."""
    loss: str
    """What no longer works once one is deleted: sentences."""
    uses: Callable[[Any, Any], Sequence[str]]
    """What the row is used for, in sentences, from a session and the row: one statement."""
    create: Callable[[Any, int, Values], Any]
    update: Callable[[Any, Values], bool]
    seed_key: str
    """The key of the entries in an account of a seed file."""

    @property
    def read_attributes(self) -> tuple[Attribute, ...]:
        """The attributes that are read, in the order in which they are shown."""
        return tuple(attribute for attribute in self.attributes if attribute.column is not None)

    @property
    def input_attributes(self) -> tuple[Attribute, ...]:
        """The attributes that people give."""
        return given_attributes(self.attributes)

    @property
    def record(self) -> Record:
        """The check of an entry of a seed file."""
        return record_of(self.attributes)


def shown_values(attributes: Iterable[Attribute], row: Any) -> dict[str, Any]:
    """Key -> the value of the row, as everybody outside sees it, of the attributes that are read."""
    return {
        attribute.key: attribute.format_value(getattr(row, attribute.key))
        for attribute in attributes
        if attribute.column is not None
    }


def given_attributes(attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
    """The attributes that people give."""
    return tuple(attribute for attribute in attributes if attribute.kind is not None)


def form_of(attributes: Iterable[Attribute], row: Any) -> dict[str, str]:
    """Key -> the value of the row, as the form of the attributes is filled in."""
    return {
        attribute.key: attribute.kind.to_form(getattr(row, attribute.key))
        for attribute in attributes
        if attribute.kind is not None
    }


def values_of(attributes: Sequence[Attribute], texts: Mapping[str, str]) -> dict[str, Any]:
    """The values of a form or of options, of which `texts` has those that are there. Raises `invalid_number`."""
    values = {
        attribute.key: attribute.kind.from_form(texts[attribute.key], attribute.key)
        for attribute in attributes
        if attribute.kind is not None and attribute.key in texts
    }
    required = {attribute.key for attribute in attributes if attribute.is_required}
    return {key: "" if value is None and key in required else value for key, value in values.items()}


def record_of(attributes: Iterable[Attribute], children: Mapping[str, Check] | None = None) -> Record:
    """The check of an entry of a seed file with these attributes, and with further keys."""
    given = [(attribute, attribute.kind) for attribute in attributes if attribute.kind is not None]
    required = {attribute.key: kind.check for attribute, kind in given if attribute.is_required}
    optional = {attribute.key: _optional(attribute, kind) for attribute, kind in given if not attribute.is_required}
    return Record(required, {**optional, **(children or {})}, null=True)


def _optional(attribute: Attribute, kind: Kind) -> Check:
    """Null is no value; for lines, whose check says so itself, an empty list."""
    is_nullable = attribute.empty_meaning is not None and not isinstance(kind, Lines)
    return nullable(kind.check) if is_nullable else kind.check
