"""A single query parameter, and the errors that all endpoints share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from app.errors import MAX_LISTED_ERRORS, ErrorCollector, ServiceError
from app.query.fields import Resource, filter_named, keyed_name

LINK_PARAMETERS = ("offset", "cursor")
"""Parameters that the links to other pages add to those of the request."""
KNOWN_PARAMETERS = frozenset(
    {
        *("limit", *LINK_PARAMETERS, "fields", "expand", "_tz", "order_by", "q"),
        *("remove_unsubscribers", "dry_run", "confirm"),
    }
)
"""Parameters that exist on some endpoint: on others they are not available instead of unknown."""

MAX_PARAMETERS = 200
"""Per query, apart from those that links add; each filter is a condition for the database."""
REPETITION_CODES = {"limit": "invalid_limit", "offset": "invalid_offset"}
MAX_PRINTED_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Parameter:
    """`name:operator=value`. The operator is None without a colon, and empty if nothing follows it."""

    name: str
    operator: str | None
    value: str

    @classmethod
    def of(cls, key: str, value: str) -> Self:
        """Splits the key at its first colon; names of parameters contain none."""
        name, colon, operator = key.partition(":")
        return cls(name, operator if colon else None, value)

    @property
    def key(self) -> str:
        """The parameter as the client wrote it, without its value."""
        return self.name if self.operator is None else f"{self.name}:{self.operator}"


def printable(text: str) -> str:
    """A client's text as it may appear in a response or a log: shortened, with unprintable characters replaced."""
    cut = text if len(text) <= MAX_PRINTED_LENGTH else text[: MAX_PRINTED_LENGTH - 1] + "…"
    return "".join(character if character.isprintable() else "\ufffd" for character in cut)


def parameter_error(code: str, parameter: str, detail: str) -> ServiceError:
    """The error of one parameter; `detail` describes what is wrong and what is accepted."""
    return ServiceError(code, field=printable(parameter), detail=detail)


def unexpected_parameter(parameter: Parameter, resource: Resource) -> ServiceError:
    """The error of a parameter that the endpoint does not accept (docs/querying.md#errors)."""
    if parameter.name in KNOWN_PARAMETERS or filter_named(resource.filters, parameter.name):
        detail = f"{printable(parameter.name)} is not available for this method on this path."
        return parameter_error("parameter_not_available", parameter.name, detail)
    filters = ", ".join(sorted(resource.filters)) or "none"
    detail = f"{printable(parameter.name)} is not a query parameter of {resource.name}. Its filters: {filters}."
    return parameter_error("parameter_not_supported", parameter.name, detail)


def check_visible(pairs: Iterable[tuple[str, str]], hidden: Collection[str]) -> None:
    """Raises `permission_denied` for a filter by something that the key may not see, before its value is looked at
    (docs/requests.md#confidentiality)."""
    for key, _ in pairs:
        name = Parameter.of(key, "").name
        if name in hidden or keyed_name(name.partition(".")[0]) in hidden:
            detail = f"The filter {name} needs the scope contact.view."
            raise ServiceError("permission_denied", field=name, detail=detail)


def check_bare(parameter: Parameter) -> None:
    """Raises `invalid_operator` for an operator on a parameter that is not a filter."""
    if parameter.operator is not None:
        detail = f"{parameter.name} takes no operator, so {printable(parameter.key)} is not valid."
        raise parameter_error("invalid_operator", parameter.name, detail)


def check_once(parameter: Parameter, seen: set[str]) -> None:
    """Raises for a repeated parameter that may be given only once (docs/querying.md#errors)."""
    if parameter.name in seen:
        code = REPETITION_CODES.get(parameter.name, "invalid_query_syntax")
        raise parameter_error(code, parameter.name, f"{parameter.name} may be given only once.")
    seen.add(parameter.name)


def parse_each(pairs: Sequence[tuple[str, str]], parse: Callable[[Parameter], None]) -> None:
    """Calls `parse` for every parameter, then raises all of their errors at once (docs/requests.md#errors)."""
    counted = [key for key, _ in pairs if key not in LINK_PARAMETERS]
    if len(counted) > MAX_PARAMETERS or len(pairs) > MAX_PARAMETERS + len(LINK_PARAMETERS):
        detail = f"The query has more than {MAX_PARAMETERS} parameters; use lists, as in id:in=1,2, or split it."
        raise parameter_error("invalid_query_syntax", pairs[MAX_PARAMETERS][0], detail)
    collector = ErrorCollector()
    for key, value in pairs:
        try:
            parse(Parameter.of(key, value))
        except ServiceError as error:
            collector.errors.extend(error.errors)
            if len(collector.errors) >= MAX_LISTED_ERRORS:
                break
    collector.raise_any()
