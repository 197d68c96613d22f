"""Query parameters of GET: paging, fields, expand, time zone, and errors."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from app.query.conditions import Query
from app.query.grammar import MAX_OFFSET, MAX_VALUES, parse_collection, parse_instance
from app.query.parameters import MAX_PARAMETERS
from tests.support.cases import each

from .sample import RESOURCE, Pair, alternatives, errors, first_message, parse, refused


def test_without_parameters_the_defaults_apply() -> None:
    """limit 100, offset 0, all fields."""
    assert parse() == Query(100, 0, None, frozenset(), None, (), ())


@pytest.mark.parametrize(("text", "limit"), [("0", 0), ("1", 1), ("1000", 1000), ("007", 7)])
def test_valid_limits(text: str, limit: int) -> None:
    """1 to 1000, and 0 to count."""
    query = parse(("limit", text))
    assert (query.limit, query.counts_only) == (limit, limit == 0)


@each("text", ["1001", "-1", "", "abc", "1.5", " 1", "1\n", "+1", "١", "9" * 5000])
def test_invalid_limits(text: str) -> None:
    """Above 1000, negative or not an integer."""
    assert errors(parse, ("limit", text)) == [("invalid_limit", "limit")]


@pytest.mark.parametrize(("text", "offset"), [("0", 0), ("25", 25), ("9" * 5000, MAX_OFFSET)])
def test_valid_offsets(text: str, offset: int) -> None:
    """0 or more, however large."""
    assert parse(("offset", text)).offset == offset


@each("text", ["-1", "", "abc", "1.5", "1e3"])
def test_invalid_offsets(text: str) -> None:
    """An offset is an integer from 0."""
    assert errors(parse, ("offset", text)) == [("invalid_offset", "offset")]


def test_fields_keep_the_order_of_the_request_without_repetitions() -> None:
    assert parse(("fields", "name,id,name")).fields == ("name", "id")


def test_expand_lists_the_resources_to_embed() -> None:
    assert parse(("expand", "owner,parts")).expand == {"owner", "parts"}


@each("name", ["fields", "expand"])
@each("text", ["nonsense", "", "id,,name", "id,", "ID", "id, name"])
def test_an_unknown_name_in_fields_or_expand_is_refused(name: str, text: str) -> None:
    """The code is `invalid_query_syntax`, with the parameter as `field`."""
    assert errors(parse, (name, text)) == [("invalid_query_syntax", name)]


def test_a_valid_time_zone() -> None:
    """`_tz` is the name of an IANA time zone."""
    assert parse(("_tz", "Australia/Brisbane")).zone == ZoneInfo("Australia/Brisbane")
    assert parse(("_tz", "UTC")).zone == ZoneInfo("UTC")
    assert parse(("_tz", "Etc/GMT 10")).zone == ZoneInfo("Etc/GMT+10")


ZONES = ["", "Mars/Base", "+10:00", "AEST", "australia/brisbane", "../etc/passwd", "/etc/passwd", "localtime", "a\0b"]


@each("text", [*ZONES, "\udcff", "x" * 10_000])
def test_an_invalid_time_zone_is_refused(text: str) -> None:
    """A time zone is given by its IANA name."""
    assert errors(parse, ("_tz", text)) == [("invalid_time_zone", "_tz")]


@each(
    ("name", "value", "code"),
    [
        ("limit", "5", "invalid_limit"),
        ("offset", "5", "invalid_offset"),
        ("fields", "id", "invalid_query_syntax"),
        ("expand", "parts", "invalid_query_syntax"),
        ("_tz", "UTC", "invalid_query_syntax"),
    ],
)
def test_a_repeated_parameter_is_refused(name: str, value: str, code: str) -> None:
    """`limit` and `offset` have error codes of their own, the others are `invalid_query_syntax`."""
    assert errors(parse, (name, value), (name, value)) == [(code, name)]


@each(
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
def test_each_kind_of_wrong_parameter_has_its_code(key: str, code: str) -> None:
    assert refused((key, "1")) == code


def test_all_errors_are_reported_in_the_order_of_the_parameters() -> None:
    """The body is about the first error and lists all."""
    pairs = [("id", "x"), ("name", "fine"), ("_tz", "Mars"), ("limit", "x"), ("id:in", "1,"), ("what", "1")]
    assert errors(parse, *pairs) == [
        ("invalid_query_syntax", "id"),
        ("invalid_time_zone", "_tz"),
        ("invalid_limit", "limit"),
        ("invalid_filter_list", "id"),
        ("parameter_not_supported", "what"),
    ]


@each(
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
def test_the_developer_message_names_parameter_problem_and_accepted_values(pair: Pair, words: list[str]) -> None:
    message = first_message(pair)
    assert [word for word in words if word not in message] == []


def test_the_developer_message_is_short_and_printable() -> None:
    """A client's text might be impossible to write as JSON, or flood the log."""
    message = first_message(("id", "\ud800\x00\n" + "9x" * 5000))
    assert message.isprintable()
    assert len(message) < 200
    assert errors(parse, ("\ud800" * 1000, "1")) == [("parameter_not_supported", "\ufffd" * 59 + "…")]


def test_all_filters_apply_together() -> None:
    """Filters are combined by AND."""
    query = parse(("id:in", "1..10"), ("id:in", "5..15"), ("name", "x"))
    assert [(condition.filter.name, condition.op) for condition in query.conditions] == [
        ("id", "in"),
        ("id", "in"),
        ("name", "eq"),
    ]


def test_a_query_keeps_the_parameters_for_its_links() -> None:
    """The links to the next and previous pages lead to the same result."""
    assert parse(("limit", "5"), ("name:in", "a,b")).pairs == (("limit", "5"), ("name:in", "a,b"))


def test_a_list_may_have_1000_elements() -> None:
    """More than 1000 elements are `invalid_filter_list`."""
    numbers = ",".join(str(number) for number in range(1000))
    assert len(alternatives(("id:in", numbers))) == 1000
    assert refused(("id:in", numbers + ",1000")) == "invalid_filter_list"


def test_the_values_of_all_filters_together_are_limited() -> None:
    """More than the databases accept in one statement is refused rather than failing there."""
    most = [("id:in", ",".join(["1"] * 1000))] * (MAX_VALUES // 1000)
    assert len(parse(*most).conditions) == len(most)
    assert refused(*most, ("name", "x\0")) == "invalid_filter_list"


def test_the_number_of_parameters_is_limited() -> None:
    """Each is a condition, and 5,000 of them occupied the database for seconds."""
    most = [("name:ne", "a")] * MAX_PARAMETERS
    assert len(parse(*most).conditions) == MAX_PARAMETERS
    assert refused(*most, ("name", "a")) == "invalid_query_syntax"
    # A link adds its own, and has to work.
    assert len(parse(*most, ("offset", "100")).conditions) == MAX_PARAMETERS


def test_an_instance_accepts_fields_expand_and_time_zone() -> None:
    query = parse_instance([("fields", "id"), ("expand", "parts"), ("_tz", "UTC")], RESOURCE)
    assert query.fields == ("id",)
    assert query.expand == {"parts"}
    assert query.zone == ZoneInfo("UTC")


@each(
    ("key", "code"),
    [
        ("limit", "parameter_not_available"),
        ("offset", "parameter_not_available"),
        ("cursor", "parameter_not_available"),
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
def test_an_instance_refuses_parameters_of_collections(key: str, code: str) -> None:
    """A parameter that is known elsewhere is `parameter_not_available`."""
    [(code_of_error, _)] = errors(parse_instance, [(key, "1")], RESOURCE)
    assert code_of_error == code


def test_an_instance_has_no_filters_and_checks_fields() -> None:
    """An unknown name is `invalid_query_syntax` on instances, too."""
    pairs = [("fields", "what")]
    assert errors(parse_instance, pairs, RESOURCE) == errors(parse_collection, pairs, RESOURCE)
