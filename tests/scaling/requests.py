"""Readers of requests: paths, headers, queries, bodies, and the values in them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import orjson
from flask import Flask

from app.accounts.auth import bearer_token
from app.addresses import domain_of, is_valid_email, is_valid_mobile, mobile_as_stored
from app.automations.parse import read_definition
from app.automations.parts import conditions, duration
from app.automations.walk import day_in
from app.contacts.values import CLEANERS, InvalidValue
from app.content.attachments import decode_strict, extension_fits, is_valid_name
from app.errors import ServiceError
from app.events.guarded_connection import split_url
from app.http.bodies import MAX_VALUES, _has_more_values, form_fields, json_value
from app.http.responses import query_pairs
from app.http.server.request import ChunkedDecoder, MalformedChunked
from app.lists.fields import FIELD_TYPES, FieldSpec, ListSpec, field_key
from app.preferences.choose import read_choices
from app.query.fields import Filter, FilterType, Resource
from app.query.grammar import parse_collection
from app.query.parameters import printable
from app.sends.accept.draft import Limits
from app.sends.accept.senders import has_stop_word
from app.tracking.devices import client_of
from app.tracking.links import location_header, parse_link_token
from app.tracking.tokens import recipient_from_token
from schemas.base import load
from schemas.contacts import contact_schema, contacts_schema
from schemas.sends import load_send
from tests.scaling.reader import KIB, MIB, Reader

REQUEST_LINE = 256 * KIB
HEADER = 8 * KIB
FORM = 16 * KIB
LONGEST_VALUE = 10_000
RESOURCE = Resource(
    "thing",
    "things",
    {kind.name: Filter(kind.name, kind, ("a", "b") if kind is FilterType.ENUM else ()) for kind in FilterType},
    (),
)
LIMITS = Limits(20, 10 * MIB)
LIST = ListSpec(
    *(1, 1, "Customers", False, False, (), datetime.now(UTC), datetime.now(UTC)),
    tuple(FieldSpec(number, field_key(type_), type_, type_) for number, type_ in enumerate(FIELD_TYPES)),
)
APP = Flask("reader")
JSON = ("[", "]", '{"a":', '"', "\\", ",", "1", "1e9", '"a",', "[],")


def refusing(read: Callable[[str], object]) -> Callable[[str], None]:
    """A reader that may refuse a text."""

    def attempt(text: str) -> None:
        with suppress(ServiceError, InvalidValue, ValueError):
            read(text)

    return attempt


def _queried(text: str) -> None:
    with APP.test_request_context("/", environ_overrides={"QUERY_STRING": text}):
        parse_collection(query_pairs(), RESOURCE)


def _chosen(text: str) -> None:
    with APP.test_request_context("/", method="POST", data=text):
        read_choices(form_fields(8 * FORM, 8 * FORM))


def _taken_apart(text: str) -> None:
    with suppress(MalformedChunked):
        ChunkedDecoder(len).feed(bytearray(text.encode()))


def _sent(text: str) -> object:
    return load_send(orjson.loads(text), "email", LIMITS)


def _value(type_: str) -> Reader:
    spec = FieldSpec(1, "x", "X", type_, ("a", "b"))
    words = ("a", ".", "-", "http://", "[", ":", "@", "%", ",", "1", "é")
    clean = refusing(lambda text: CLEANERS[spec.value_type](spec, text))
    return Reader(f"a value of {type_}", clean, words, LONGEST_VALUE)


def _filter(kind: FilterType) -> Reader:
    words = ("1", "..", ",", "\\,", "%2C", "2026-01-01", "-", "é")
    read = refusing(lambda text: parse_collection([(f"{kind.name}:in", text), (kind.name, text)], RESOURCE))
    return Reader(f"a filter of {kind.name}", read, words, REQUEST_LINE)


IN_REQUESTS = (
    Reader("the key of a request", refusing(bearer_token), ("Bearer ", " ", "a", "\t"), HEADER),
    Reader(
        "a user agent",
        lambda text: client_of("GET", {"User-Agent": text}),
        ("Mozilla/5.0 (", "Android ", "; ", ")", " ", "1.", "Mobile", "bot"),
        HEADER,
    ),
    Reader(
        "a token of a recipient",
        lambda text: recipient_from_token(("k" * 32,), "open", text),
        ("a", "=", "-", "%"),
        REQUEST_LINE,
    ),
    Reader("a token of a link", lambda text: parse_link_token(("k" * 32,), text), ("a", "=", "-", "%"), REQUEST_LINE),
    Reader("where a link leads", location_header, ("http://", "@", ":", "é", "%", " ", "a.", "[", "?"), 4 * KIB),
    Reader("a query", refusing(_queried), ("&", "=", "a", "%", "+", "STRING:ne=a&", ";", "id:in=", ","), REQUEST_LINE),
    *map(_filter, FilterType),
    Reader("the form of a preferences page", refusing(_chosen), ("on=", "email-1", "&", "%", "+", "-", "was="), FORM),
    Reader("a body in chunks", _taken_apart, ("1\r\na\r\n", "1;a\r\n", "a", "\r\n", "\r", " ", "0\r\n"), 256 * KIB),
    Reader("a value as an answer repeats it", printable, ("a", "\0", "é"), REQUEST_LINE),
    Reader(
        "a body of JSON",
        refusing(lambda text: json_value(text.encode())),
        JSON,
        MAX_VALUES,
    ),
    Reader("how many values a body has", lambda text: _has_more_values(text.encode(), len(text) // 4), JSON, MIB),
    Reader(
        "a text in JSON",
        refusing(lambda text: json_value(text.encode())),
        ("a", ",", '\\"', "é", "\\u00e9"),
        MAX_VALUES,
        '{"a":"',
        '"}',
    ),
    Reader(
        "a send with attributes that there are not",
        refusing(_sent),
        largest=256 * KIB,
        head="{",
        tail="}",
        item='"a#":1',
    ),
    Reader(
        "a send with wildcards",
        refusing(_sent),
        largest=256 * KIB,
        item='"a#":"x"',
        head='{"type":"email","list_id":1,"recipients":[{"email":"a@b.example",',
        tail="}]}",
    ),
    Reader(
        "a send with wrong wildcards",
        refusing(_sent),
        largest=256 * KIB,
        item='"-#":[]',
        head='{"type":"email","list_id":1,"recipients":[{"email":"a@b.example",',
        tail="}]}",
    ),
    Reader(
        "a send with wrong recipients",
        refusing(_sent),
        largest=64 * KIB,
        item='{"a#":[]}',
        head='{"type":"email","list_id":1,"recipients":[',
        tail="]}",
    ),
    Reader(
        "a send with wrong attachments",
        refusing(_sent),
        largest=256 * KIB,
        item='{"name":"#"}',
        head='{"type":"email","list_id":1,"recipients":[{"email":"a@b.example"}],"attachments":[',
        tail="]}",
    ),
    Reader(
        "a contact with attributes that there are not",
        refusing(lambda text: load(contact_schema(LIST), orjson.loads(text))),
        largest=256 * KIB,
        head="{",
        tail="}",
        item='"a#":1',
    ),
    Reader(
        "wrong contacts",
        refusing(lambda text: load(contacts_schema(LIST, with_id=False), orjson.loads(text))),
        largest=64 * KIB,
        head='{"contacts":[',
        tail="]}",
        item='{"a#":{}}',
    ),
    Reader(
        "a definition with keys that there are not",
        refusing(lambda text: read_definition(orjson.loads(text))),
        largest=256 * KIB,
        head='{"kind":"standard",',
        tail="}",
        item='"a#":1',
    ),
    Reader(
        "the date that a run waits for",
        lambda text: day_in(text, UTC),
        words=("2026-11-22", "T", "10:00:00", "+0000", "Z", "."),
        largest=LONGEST_VALUE,
    ),
    Reader(
        "a duration in a definition",
        refusing(lambda text: duration(text, "")),
        ("1", " ", "days", "-", "é"),
        LONGEST_VALUE,
    ),
    Reader(
        "conditions in a definition",
        refusing(lambda text: conditions(text, "")),
        ("a", ":", ":OR:", "EXACTLY:", "é", "HAS"),
        2000,
    ),
    Reader(
        "an address", is_valid_email, ("a", ".", "@", "-", "é", '"', "=?", "(", "[", "xn--"), 254, tail="@b.example"
    ),
    Reader("a domain", is_valid_email, ("a", ".", "-", "é", "1", "[", "xn--", "ß"), 240, head="a@"),
    Reader("the domain of an address", domain_of, ("a", ".", "@", "é"), LONGEST_VALUE),
    Reader("a mobile", is_valid_mobile, ("6", "0", "+", "1"), LONGEST_VALUE),
    Reader("a mobile as it is written", mobile_as_stored, ("6", ".", "+", " ", "'"), LONGEST_VALUE),
    *map(_value, FIELD_TYPES),
    Reader("the name of a field", field_key, ("a", "-", "_", "é", " "), LONGEST_VALUE),
    Reader("the name of a file", is_valid_name, ("a", ".", " ", "("), MIB),
    Reader(
        "the type of a file",
        lambda text: extension_fits(text, "a.txt"),
        ("a", "/", ";", "=", '"', " "),
        LONGEST_VALUE,
        "text/plain",
    ),
    Reader("base64", refusing(decode_strict), ("AAAA", "=", "-", "\n"), 4 * MIB),
    Reader(
        "stop words", lambda text: has_stop_word(text, ("OPT OUT", "!!!")), ("a", "STOP", "OPT ", "!", " ", "é"), MIB
    ),
    Reader(
        "the URL of a webhook",
        refusing(lambda text: split_url(text, allow_private=True)),
        ("a", ".", "é", "[", "@", ":"),
        2000,
        "https://",
    ),
)
