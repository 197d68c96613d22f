"""Whatever parameters a client sends, the result is a query or one of the ten filter errors."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.errors import FILTER, ServiceError
from app.query.conditions import Equals
from app.query.cursors import Position
from app.query.grammar import parse_collection, parse_instance
from app.query.links import PageEnds, envelope
from app.query.writes import parse_delete_ids, parse_remove_unsubscribers, parse_write

from .sample import CURSORS, FILTERS, RESOURCE, Pair, alternatives

NAMES = [filter_.name for filter_ in FILTERS]
CONTROLS = ["limit", "offset", "cursor", "fields", "expand", "_tz", "order_by", "q", "remove_unsubscribers"]
ENDS = PageEnds(0, has_next=True, has_prev=True, next=Position((1,)), prev=Position((1,), backward=True))
anything = st.text(st.characters(exclude_categories=()))
keys = st.one_of(
    anything,
    st.builds("{}{}".format, st.sampled_from(NAMES + CONTROLS), st.sampled_from(["", ":in", ":ne", ":", ":foo"])),
)
integers = st.integers().map(str)
numbers = st.floats().map(str)
moments = st.datetimes().map(lambda moment: moment.isoformat(timespec="seconds"))
offsets = st.sampled_from(["", "Z", "+0000", "+10:00", " 1000", "-2359", "+2400", "+0099", "z"])
timestamps = st.builds(str.__add__, moments, offsets)
dates = st.dates().map(str)
zones = st.sampled_from(["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin", "Mars/Base"])
words = st.sampled_from(["true", "false", "email", "sms", "id", "parts", "", "..", "\\", "%2C", "\0"])
scalars = st.one_of(anything, integers, numbers, timestamps, dates, zones, words)
ranges = st.builds("{}..{}".format, scalars, scalars)
values = st.one_of(scalars, ranges, st.lists(st.one_of(scalars, ranges)).map(",".join))
pairs_of_anything = st.lists(st.tuples(keys, values), max_size=6)


@settings(deadline=None)  # the machine may be busy
@given(pairs_of_anything)
@example([("creation_time", "0001-01-01"), ("_tz", "Pacific/Kiritimati")])
@example([("creation_time", "9999-12-31"), ("_tz", "Pacific/Pago_Pago")])
@example([("id", "9" * 10_000), ("offset", "9" * 10_000), ("limit", "9" * 10_000)])
def test_any_parameters_result_in_a_query_or_filter_errors(pairs: list[Pair]) -> None:
    """No exception of another type is raised."""
    for parse in (
        lambda: envelope("/v1/things", parse_collection(pairs, RESOURCE, CURSORS), ENDS),
        lambda: parse_instance(pairs, RESOURCE),
        lambda: parse_write(pairs, RESOURCE, remove_unsubscribers=parse_remove_unsubscribers),
        lambda: parse_delete_ids(pairs, RESOURCE),
    ):
        try:
            parse()
        except ServiceError as refusal:
            for error in refusal.errors:
                assert error.code in FILTER
                error.developer_message.encode()
                (error.field or "").encode()


texts = st.text(min_size=1).filter(
    lambda text: "\0" not in text and not text.endswith("\\") and "%2c" not in text.lower()
)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(texts, min_size=1, max_size=20))
def test_escaped_commas_are_part_of_the_value(texts: list[str]) -> None:
    r"""A comma in a value of :in is written `\,`."""
    written = ",".join(text.replace(",", "\\,") for text in texts)
    assert alternatives(("name:in", written)) == tuple(Equals(text) for text in texts)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(texts.filter(lambda text: "\\," not in text), min_size=1, max_size=20))
def test_twice_encoded_commas_are_part_of_the_value(texts: list[str]) -> None:
    """A comma in a value may be written `%2C`, which the query string encodes once more."""
    written = ",".join(text.replace(",", "%2C") for text in texts)
    assert alternatives(("name:in", written)) == tuple(Equals(text) for text in texts)
