"""Query parameters of POST, PATCH and DELETE."""

from __future__ import annotations

import pytest

from app.query.grammar import parse_delete_ids, parse_remove_unsubscribers, parse_write

from .sample import RESOURCE, Pair, errors

ALLOWED = {"remove_unsubscribers"}


def test_allowed_parameters_by_name() -> None:
    """Endpoints, Contacts: POST takes remove_unsubscribers."""
    assert parse_write([], ALLOWED, RESOURCE) == {}
    assert parse_write([("remove_unsubscribers", "any")], ALLOWED, RESOURCE) == {"remove_unsubscribers": "any"}


@pytest.mark.parametrize(
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
def test_refused_on_a_write(key: str, code: str) -> None:
    """A known parameter on the wrong method is parameter_not_available."""
    [(found, _)] = errors(parse_write, [(key, "1")], ALLOWED, RESOURCE)
    assert found == code


def test_remove_unsubscribers_where_it_is_not_allowed() -> None:
    """Endpoints, Contacts: only POST takes it."""
    pairs = [("remove_unsubscribers", "any")]
    assert errors(parse_write, pairs, (), RESOURCE) == [("parameter_not_available", "remove_unsubscribers")]


def test_repeated_on_a_write() -> None:
    """A parameter that can hold only once is refused the second time."""
    pairs = [("remove_unsubscribers", "any"), ("remove_unsubscribers", "none")]
    assert errors(parse_write, pairs, ALLOWED, RESOURCE) == [("invalid_query_syntax", "remove_unsubscribers")]


def test_all_errors_of_a_write() -> None:
    """The first error is reported and all are listed."""
    assert errors(parse_write, [("limit", "1"), ("what", "1")], ALLOWED, RESOURCE) == [
        ("parameter_not_available", "limit"),
        ("parameter_not_supported", "what"),
    ]


@pytest.mark.parametrize("value", ["none", "list", "any"])
def test_remove_unsubscribers(value: str) -> None:
    """Contacts, rule 2."""
    assert parse_remove_unsubscribers(value) == value


@pytest.mark.parametrize("value", ["", "all", "Any", "any ", "\udcff"])
def test_invalid_remove_unsubscribers(value: str) -> None:
    """Anything else is invalid_query_syntax."""
    assert errors(parse_remove_unsubscribers, value) == [("invalid_query_syntax", "remove_unsubscribers")]


@pytest.mark.parametrize(
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
def test_ids_to_delete(pairs: list[Pair], ids: list[int] | None) -> None:
    """Endpoints, Contacts: DELETE by id; several parameters are AND, ids that cannot exist are ignored."""
    assert parse_delete_ids(pairs, RESOURCE) == ids


@pytest.mark.parametrize(
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
def test_refused_on_a_delete(pair: Pair, code: str) -> None:
    """Id and id:in with single values only."""
    [(found, _)] = errors(parse_delete_ids, [pair], RESOURCE)
    assert found == code


def test_1000_contacts_are_deleted_at_once_and_no_more() -> None:
    """More than 1000 ids is invalid_filter_list."""
    numbers = ",".join(str(number) for number in range(1000))
    assert parse_delete_ids([("id:in", numbers)], RESOURCE) == list(range(1000))
    assert errors(parse_delete_ids, [("id:in", numbers + ",5")], RESOURCE) == [("invalid_filter_list", "id")]
