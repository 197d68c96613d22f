"""Query parameters of the methods that write, including the ids of a bulk delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from app.query.fields import Resource
from app.query.parameters import (
    Parameter,
    check_bare,
    check_once,
    parameter_error,
    parse_each,
    printable,
    unexpected_parameter,
)
from app.query.values import fits_64_bits, read_integer, split_list

MAX_DELETED_IDS = 1000

RemoveUnsubscribers = Literal["none", "list", "any"]
REMOVE_UNSUBSCRIBERS: tuple[RemoveUnsubscribers, ...] = get_args(RemoveUnsubscribers)


def parse_write(
    pairs: Sequence[tuple[str, str]], resource: Resource, **readers: Callable[[str], Any]
) -> dict[str, Any]:
    """The parameters of a `POST`, `PATCH` or `DELETE` by name. `readers` are the functions that return the values of
    those that the endpoint accepts.

    Raises `ServiceError` with the errors of all parameters: what the readers raise, `parameter_not_available` for a
    parameter that another method accepts, `parameter_not_supported` for an unknown one
    (docs/querying.md#other-methods).
    """
    values: dict[str, Any] = {}
    seen: set[str] = set()

    def parse(parameter: Parameter) -> None:
        if parameter.name not in readers:
            raise unexpected_parameter(parameter, resource)
        check_bare(parameter)
        check_once(parameter, seen)
        values[parameter.name] = readers[parameter.name](parameter.value)

    parse_each(pairs, parse)
    return values


def parse_remove_unsubscribers(value: str) -> RemoveUnsubscribers:
    """The value of `remove_unsubscribers` (docs/contacts.md#remove_unsubscribers). Raises `invalid_query_syntax`."""
    for choice in REMOVE_UNSUBSCRIBERS:
        if value == choice:
            return choice
    detail = f"remove_unsubscribers: {printable(value)!r} is not one of none, list, any."
    raise parameter_error("invalid_query_syntax", "remove_unsubscribers", detail)


def parse_dry_run(value: str) -> bool:
    """The value of `dry_run` (docs/dry-run.md). Raises `invalid_query_syntax`."""
    if value not in ("true", "false"):
        detail = f"dry_run: {printable(value)!r} is not one of true, false."
        raise parameter_error("invalid_query_syntax", "dry_run", detail)
    return value == "true"


def parse_delete_ids(pairs: Sequence[tuple[str, str]], resource: Resource) -> list[int] | None:
    """The ids in the `id` and `id:in` parameters of a bulk `DELETE`; None without such a parameter.

    Several parameters are combined by AND, like filters. Ids beyond 64 bits are dropped: ids that are not in the list
    are ignored anyway (docs/querying.md#other-methods).
    """
    lists: list[list[int]] = []

    def parse(parameter: Parameter) -> None:
        if parameter.name != "id":
            raise unexpected_parameter(parameter, resource)
        lists.append(_ids(parameter))

    parse_each(pairs, parse)
    if not lists:
        return None
    common = set.intersection(*map(set, lists))
    return [id_ for id_ in dict.fromkeys(lists[0]) if id_ in common]


def _ids(parameter: Parameter) -> list[int]:
    if parameter.operator is None:
        return _numbers([parameter.value], "invalid_query_syntax")
    if parameter.operator == "in":
        return _numbers(split_list(parameter.value), "invalid_filter_list")
    raise parameter_error("invalid_operator", "id", f"{printable(parameter.key)}: a delete takes id= and id:in= only.")


def _numbers(elements: list[str], code: str) -> list[int]:
    if len(elements) > MAX_DELETED_IDS:
        detail = f"id:in has {len(elements)} elements; at most {MAX_DELETED_IDS} contacts are deleted at once."
        raise parameter_error(code, "id", detail)
    numbers = []
    for element in elements:
        try:
            numbers.append(read_integer(element))
        except ValueError:
            detail = f"id: {printable(element)!r} is not an integer; a delete takes single ids, no ranges."
            raise parameter_error(code, "id", detail) from None
    return [number for number in numbers if fits_64_bits(number)]
