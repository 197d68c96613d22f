"""GET of collections and instances: paging, fields, expand, zone, and what is refused."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from app.query.conditions import Query
from app.query.grammar import MAX_OFFSET, MAX_VALUES, parse_collection, parse_instance
from app.query.parameters import MAX_PARAMETERS

from .sample import RESOURCE, Pair, alternatives, errors, parse, refused, told


def test_no_parameters_is_the_default_page() -> None:
    """Common query conventions: limit 100, nothing skipped, everything shown."""
    assert parse() == Query(100, 0, None, frozenset(), None, (), ())


@pytest.mark.parametrize(("text", "limit"), [("0", 0), ("1", 1), ("1000", 1000), ("007", 7)])
def test_limit(text: str, limit: int) -> None:
    """1 to 1000, and 0 to count."""
    query = parse(("limit", text))
    assert (query.limit, query.counts_only) == (limit, limit == 0)


@pytest.mark.parametrize("text", ["1001", "-1", "", "abc", "1.5", " 1", "1\n", "+1", "١", "9" * 5000])
def test_invalid_limit(text: str) -> None:
    """Above 1000, negative or not an integer."""
    assert errors(parse, ("limit", text)) == [("invalid_limit", "limit")]


@pytest.mark.parametrize(("text", "offset"), [("0", 0), ("25", 25), ("9" * 5000, MAX_OFFSET)])
def test_offset(text: str, offset: int) -> None:
    """0 or more, however large."""
    assert parse(("offset", text)).offset == offset


@pytest.mark.parametrize("text", ["-1", "", "abc", "1.5", "1e3"])
def test_invalid_offset(text: str) -> None:
    """Anything but an integer of 0 or more."""
    assert errors(parse, ("offset", text)) == [("invalid_offset", "offset")]


def test_fields_in_the_order_asked_without_repeats() -> None:
    """Common query conventions: fields names the properties to return."""
    assert parse(("fields", "name,id,name")).fields == ("name", "id")


def test_expand() -> None:
    """Common query conventions: expand names the resources to embed."""
    assert parse(("expand", "owner,parts")).expand == {"owner", "parts"}


@pytest.mark.parametrize("name", ["fields", "expand"])
@pytest.mark.parametrize("text", ["nonsense", "", "id,,name", "id,", "ID", "id, name"])
def test_unknown_name_in_fields_or_expand(name: str, text: str) -> None:
    """invalid_query_syntax, and field names the parameter."""
    assert errors(parse, (name, text)) == [("invalid_query_syntax", name)]


def test_zone() -> None:
    """_tz is an IANA zone name."""
    assert parse(("_tz", "Australia/Brisbane")).zone == ZoneInfo("Australia/Brisbane")
    assert parse(("_tz", "UTC")).zone == ZoneInfo("UTC")


ZONES = ["", "Mars/Base", "+10:00", "AEST", "australia/brisbane", "../etc/passwd", "/etc/passwd", "localtime", "a\0b"]


@pytest.mark.parametrize("text", [*ZONES, "\udcff", "x" * 10_000])
def test_invalid_time_zone(text: str) -> None:
    """Anything but an IANA name."""
    assert errors(parse, ("_tz", text)) == [("invalid_time_zone", "_tz")]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("limit", "5", "invalid_limit"),
        ("offset", "5", "invalid_offset"),
        ("fields", "id", "invalid_query_syntax"),
        ("expand", "parts", "invalid_query_syntax"),
        ("_tz", "UTC", "invalid_query_syntax"),
    ],
)
def test_repeated_parameter(name: str, value: str, code: str) -> None:
    """Limit and offset have their own error, the others invalid_query_syntax."""
    assert errors(parse, (name, value), (name, value)) == [(code, name)]


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("q", "text_search_not_supported"),
        ("order_by", "invalid_order_by"),
        ("nonsense", "parameter_not_supported"),
        ("nonsense:in", "parameter_not_supported"),
        ("Name", "parameter_not_supported"),
        ("name ", "parameter_not_supported"),
        ("", "parameter_not_supported"),
        (":in", "parameter_not_supported"),
        ("\udcff\0", "parameter_not_supported"),
        ("remove_unsubscribers", "parameter_not_available"),
        ("id:foo", "invalid_operator"),
        ("id:", "invalid_operator"),
        ("id:IN", "invalid_operator"),
        ("id:eq", "invalid_operator"),
        ("id:in:in", "invalid_operator"),
        ("name:like", "invalid_operator"),
        ("limit:in", "invalid_operator"),
        ("fields:", "invalid_operator"),
    ],
)
def test_refused_parameter(key: str, code: str) -> None:
    """Each kind of wrong parameter has its code."""
    assert refused((key, "1")) == code


def test_all_errors_are_reported_in_the_order_of_the_parameters() -> None:
    """The body reports the first error and lists them all."""
    pairs = [("id", "x"), ("name", "fine"), ("_tz", "Mars"), ("limit", "x"), ("id:in", "1,"), ("what", "1")]
    assert errors(parse, *pairs) == [
        ("invalid_query_syntax", "id"),
        ("invalid_time_zone", "_tz"),
        ("invalid_limit", "limit"),
        ("invalid_filter_list", "id"),
        ("parameter_not_supported", "what"),
    ]


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (("id", "abc"), ["id", "'abc'", "an integer"]),
        (("type", "fax"), ["type", "'fax'", "email, sms"]),
        (("id:in", "1,abc"), ["id:in", "element 2", "'abc'", "an integer"]),
        (("id:foo", "1"), ["id:foo", "id:ne=", "id:in="]),
        (("fields", "what"), ["fields", "'what'", "id, name, creation_time"]),
        (("limit", "5000"), ["limit", "'5000'", "0 to 1000"]),
        (("creation_time", "noon"), ["creation_time", "'noon'", "YYYY-MM-DDTHH:MM:SSZ"]),
        (("what", "1"), ["what", "things", "creation_time, email, id"]),
    ],
)
def test_developer_message_names_parameter_problem_and_remedy(pair: Pair, words: list[str]) -> None:
    """The field, the value's problem and what would be accepted."""
    message = told(pair)
    assert [word for word in words if word not in message] == []


def test_developer_message_can_always_be_sent() -> None:
    """A client's text comes back short and printable, or it could not be written as JSON or would flood the log."""
    message = told(("id", "\ud800\x00\n" + "9x" * 5000))
    assert message.isprintable()
    assert len(message) < 200
    assert errors(parse, ("\ud800" * 1000, "1")) == [("parameter_not_supported", "\ufffd" * 59 + "…")]


def test_different_filters_and_repeated_ones_all_apply() -> None:
    """AND."""
    query = parse(("id:in", "1..10"), ("id:in", "5..15"), ("name", "x"))
    assert [(one.filter.name, one.op) for one in query.conditions] == [("id", "in"), ("id", "in"), ("name", "eq")]


def test_query_keeps_the_parameters_for_its_links() -> None:
    """Next and prev lead to the same result."""
    assert parse(("limit", "5"), ("name:in", "a,b")).pairs == (("limit", "5"), ("name:in", "a,b"))


def test_1000_elements_are_accepted_and_one_more_is_not() -> None:
    """More than 1000 elements is invalid_filter_list."""
    numbers = ",".join(str(number) for number in range(1000))
    assert len(alternatives(("id:in", numbers))) == 1000
    assert refused(("id:in", numbers + ",1000")) == "invalid_filter_list"


def test_values_of_all_filters_together_are_limited() -> None:
    """More than the databases take in one statement is refused rather than failing there."""
    most = [("id:in", ",".join(["1"] * 1000))] * (MAX_VALUES // 1000)
    assert len(parse(*most).conditions) == len(most)
    assert refused(*most, ("name", "x\0")) == "invalid_filter_list"


def test_a_query_has_a_limited_number_of_parameters() -> None:
    """Each is a condition, and 5,000 of them held the database up for seconds."""
    most = [("name:ne", "a")] * MAX_PARAMETERS
    assert len(parse(*most).conditions) == MAX_PARAMETERS
    assert refused(*most, ("name", "a")) == "invalid_query_syntax"


def test_instance_takes_fields_expand_and_zone() -> None:
    """_tz works on instances."""
    query = parse_instance([("fields", "id"), ("expand", "parts"), ("_tz", "UTC")], RESOURCE)
    assert query.fields == ("id",)
    assert query.expand == {"parts"}
    assert query.zone == ZoneInfo("UTC")


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("limit", "parameter_not_available"),
        ("offset", "parameter_not_available"),
        ("id", "parameter_not_available"),
        ("name:in", "parameter_not_available"),
        ("subscribed.email", "parameter_not_available"),
        ("remove_unsubscribers", "parameter_not_available"),
        ("nonsense", "parameter_not_supported"),
        ("q", "text_search_not_supported"),
        ("order_by", "invalid_order_by"),
        ("fields:in", "invalid_operator"),
    ],
)
def test_instance_refuses_what_only_a_collection_takes(key: str, code: str) -> None:
    """Filter errors: parameter_not_available for what is known elsewhere."""
    [(found, _)] = errors(parse_instance, [(key, "1")], RESOURCE)
    assert found == code


def test_limit_is_no_filter_of_an_instance_but_fields_are_checked_alike() -> None:
    """An unknown name is invalid_query_syntax on instances too."""
    pairs = [("fields", "what")]
    assert errors(parse_instance, pairs, RESOURCE) == errors(parse_collection, pairs, RESOURCE)
