"""Query parameters of POST, PATCH and DELETE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from app.query.writes import parse_delete_ids, parse_remove_unsubscribers, parse_write
from tests.support.cases import each

from .sample import RESOURCE, Pair, errors


def parse(pairs: Sequence[Pair]) -> dict[str, Any]:
    """As a `POST` of contacts reads its query."""
    return parse_write(pairs, RESOURCE, remove_unsubscribers=parse_remove_unsubscribers)


def test_allowed_parameters_are_returned_by_name() -> None:
    """POST of contacts accepts remove_unsubscribers."""
    assert parse([]) == {}
    assert parse([("remove_unsubscribers", "any")]) == {"remove_unsubscribers": "any"}


@each(
    ("key", "code"),
    [
        *(
            (name, "parameter_not_available")
            for name in ("limit", "offset", "fields", "expand", "_tz", "order_by", "q")
        ),
        ("id", "parameter_not_available"),
        ("name:in", "parameter_not_available"),
        ("id:foo", "parameter_not_available"),
        ("subscribed.email", "parameter_not_available"),
        ("nonsense", "parameter_not_supported"),
        ("nonsense:in", "parameter_not_supported"),
        ("remove_unsubscribers:in", "invalid_operator"),
    ],
)
def test_a_parameter_of_another_method_is_refused(key: str, code: str) -> None:
    [(code_of_error, _)] = errors(parse, [(key, "1")])
    assert code_of_error == code


def test_remove_unsubscribers_is_refused_elsewhere() -> None:
    """Only POST of contacts accepts it."""
    pairs = [("remove_unsubscribers", "any")]
    assert errors(parse_write, pairs, RESOURCE) == [("parameter_not_available", "remove_unsubscribers")]


def test_a_repeated_parameter_of_a_write_is_refused() -> None:
    pairs = [("remove_unsubscribers", "any"), ("remove_unsubscribers", "none")]
    assert errors(parse, pairs) == [("invalid_query_syntax", "remove_unsubscribers")]


def test_all_errors_of_a_write_are_listed() -> None:
    """The body is about the first error and lists all."""
    pairs = [("limit", "1"), ("what", "1"), ("remove_unsubscribers", "some")]
    assert errors(parse, pairs) == [
        ("parameter_not_available", "limit"),
        ("parameter_not_supported", "what"),
        ("invalid_query_syntax", "remove_unsubscribers"),
    ]


@pytest.mark.parametrize("value", ["none", "list", "any"])
def test_remove_unsubscribers_is_true_or_false(value: str) -> None:
    assert parse_remove_unsubscribers(value) == value


@each("value", ["", "all", "Any", "any ", "\udcff"])
def test_other_values_of_remove_unsubscribers_are_refused(value: str) -> None:
    """The code is `invalid_query_syntax`."""
    assert errors(parse_remove_unsubscribers, value) == [("invalid_query_syntax", "remove_unsubscribers")]


@each(
    ("pairs", "ids"),
    [
        ([], None),
        ([("id", "5")], [5]),
        ([("id:in", "5")], [5]),
        ([("id:in", "3,1,2")], [3, 1, 2]),
        ([("id:in", "3,1,3")], [3, 1]),
        ([("id:in", "1,2,3"), ("id:in", "3,4,2")], [2, 3]),
        ([("id:in", "1,2,3"), ("id", "3")], [3]),
        ([("id", "1"), ("id", "2")], []),
        ([("id:in", f"1,{'9' * 30}")], [1]),
        ([("id", "9" * 5000)], []),
    ],
)
def test_the_ids_to_delete(pairs: list[Pair], ids: list[int] | None) -> None:
    """Several parameters are combined by AND, and ids that cannot exist are ignored."""
    assert parse_delete_ids(pairs, RESOURCE) == ids


@each(
    ("pair", "code"),
    [
        (("id", "abc"), "invalid_query_syntax"),
        (("id", ""), "invalid_query_syntax"),
        (("id", "1,2"), "invalid_query_syntax"),
        (("id", "1..2"), "invalid_query_syntax"),
        (("id:in", ""), "invalid_filter_list"),
        (("id:in", "1,"), "invalid_filter_list"),
        (("id:in", "1,abc"), "invalid_filter_list"),
        (("id:in", "1..5"), "invalid_filter_list"),
        (("id:in", "5.."), "invalid_filter_list"),
        (("id:ne", "1"), "invalid_operator"),
        (("id:", "1"), "invalid_operator"),
        (("id:foo", "1"), "invalid_operator"),
        (("name", "x"), "parameter_not_available"),
        (("limit", "1"), "parameter_not_available"),
        (("remove_unsubscribers", "any"), "parameter_not_available"),
        (("nonsense", "1"), "parameter_not_supported"),
    ],
)
def test_other_filters_of_a_delete_are_refused(pair: Pair, code: str) -> None:
    """Only `id` and `id:in` with single values are accepted."""
    [(code_of_error, _)] = errors(parse_delete_ids, [pair], RESOURCE)
    assert code_of_error == code


def test_1000_contacts_can_be_deleted_at_once() -> None:
    """More than 1000 ids are `invalid_filter_list`."""
    numbers = ",".join(str(number) for number in range(1000))
    assert parse_delete_ids([("id:in", numbers)], RESOURCE) == list(range(1000))
    assert errors(parse_delete_ids, [("id:in", numbers + ",5")], RESOURCE) == [("invalid_filter_list", "id")]
