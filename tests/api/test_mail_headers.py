"""Header fields that a send adds to its mails (docs/mail-headers.md)."""

from __future__ import annotations

from typing import Any

from app.db.models import Send
from tests.support.cases import each
from tests.support.client import SENDS, invalid
from tests.support.sends import SendsApi

ACCEPTED = "accepted: X-…, In-Reply-To, References, Auto-Submitted and Importance."
ID = "<4711@acme.example>"
VALID = {
    "X-Order": "Größe 42",
    "x-trace-2": "a",
    "In-Reply-To": ID,
    "References": f"<1@acme.example> {ID}",
    "Auto-Submitted": "no",
    "Importance": "high",
}


def test_they_are_stored_with_the_send(sends: SendsApi) -> None:
    sends.send(sends.email(headers={**VALID, "X-Blank": None, "X-Spaces": "  a b "}))
    sends.send(sends.email(headers={}))
    with_headers, without = sends.rows(Send)
    assert with_headers.headers == {**VALID, "X-Spaces": "a b"}
    assert without.headers is None


def test_a_dry_run_shows_them_as_they_are_sent(sends: SendsApi) -> None:
    response = sends.tenant.api.post(f"{SENDS}?dry_run=true", sends.email(headers=VALID))
    (forecast,) = response.get_json()["_embedded"]["recipients"]
    headers = {header["name"]: header["value"] for header in forecast["headers"]}
    encoded = "=?utf-8?b?R3LDtsOfZSA0Mg==?="
    assert {name: headers[name] for name in VALID} == {**VALID, "X-Order": encoded}
    assert [header["name"] for header in forecast["headers"]].count("Auto-Submitted") == 1


TOO_LONG = "headers.X-A has 994 characters; at most 993 are accepted."
CONTROL = "must not contain a line break or another control character."
IDS = "must be message ids in angle brackets, such as <id@acme.example>, with a space between two."
ERRORS: dict[str, tuple[Any, str, str, str]] = {
    "no object": (["X-A: b"], "invalid_object", "headers", "headers must be an object of strings."),
    "21 of them": (
        {f"X-{number}": "a" for number in range(21)},
        "too_long",
        "headers",
        "headers has 21 fields; at most 20 are accepted.",
    ),
    **{
        name: ({name: "a"}, "unexpected_field", f"headers.{name}", f"headers.{name} is not accepted; {ACCEPTED}")
        for name in (
            *("Bcc", "To", "Subject", "From", "Sender", "Message-ID", "DKIM-Signature", "List-Unsubscribe"),
            *("Received", "Content-Type", "Return-Path", "Precedence", "X-", "X-A:B", "X A", "X-Ä", "X-A\r\nBcc", ""),
            *("X-SMTPAPI", "X-Mailgun-Variables", "x-pm-message-stream", "X-MSYS-API", "X-SES-Tags", "X-TMS-Group"),
            f"X-{'a' * 49}",
        )
    },
    "a number": ({"X-A": 1}, "invalid_string", "headers.X-A", "headers.X-A must be a string."),
    "blank": ({"X-A": "  "}, "not_empty", "headers.X-A", "headers.X-A must not be blank; leave it out, or give null."),
    "too long": ({"X-A": "a" * 994}, "too_long", "headers.X-A", TOO_LONG),
    "a line break": ({"X-A": "a\r\nBcc: b@c.example"}, "invalid_string", "headers.X-A", CONTROL),
    "a folded line": ({"X-A": "a\n b"}, "invalid_string", "headers.X-A", CONTROL),
    "a last line break": ({"X-A": "a\n"}, "invalid_string", "headers.X-A", CONTROL),
    "a line separator": ({"X-A": "a\u2028b"}, "invalid_string", "headers.X-A", CONTROL),
    "twice": (
        {"X-A": "a", "x-a": "b"},
        "invalid_string",
        "headers.x-a",
        "headers.x-a occurs twice: names of header fields have no case.",
    ),
    "an id without brackets": ({"In-Reply-To": "a@b.example"}, "invalid_string", "headers.In-Reply-To", IDS),
    "an id without a domain": ({"References": "<a>"}, "invalid_string", "headers.References", IDS),
    "ids without a space": ({"References": f"{ID}{ID}"}, "invalid_string", "headers.References", IDS),
    "two spaces": ({"References": f"{ID}  {ID}"}, "invalid_string", "headers.References", IDS),
    "an encoded word as an id": (
        {"References": "<=?utf-8?q?a?=@b.example>"},
        "invalid_string",
        "headers.References",
        IDS,
    ),
    "another importance": (
        {"Importance": "urgent"},
        "invalid_string",
        "headers.Importance",
        "headers.Importance must be one of: high, normal, low.",
    ),
    "another kind of mail": (
        {"Auto-Submitted": "yes"},
        "invalid_string",
        "headers.Auto-Submitted",
        "headers.Auto-Submitted must be one of: no, auto-generated, auto-replied, auto-notified.",
    ),
}


def test_a_field_without_a_text_is_absent(sends: SendsApi) -> None:
    sends.send(sends.email(headers={"X-A": None, "x-a": "b", "Importance": None}))
    assert [send.headers for send in sends.rows(Send)] == [{"x-a": "b"}]


@each("name", ERRORS)
def test_what_is_wrong_is_refused(sends: SendsApi, name: str) -> None:
    headers, code, field, message = ERRORS[name]
    body = invalid(sends.post(sends.email(headers=headers)), code, field=field)
    assert message in body["developer_message"]
    assert sends.rows(Send) == []


def test_a_text_message_has_none(sends: SendsApi) -> None:
    invalid(sends.post(sends.sms(headers={"X-A": "a"})), "unexpected_field", field="headers")
