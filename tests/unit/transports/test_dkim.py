"""DKIM signatures, verified by another implementation."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import dkim as verifier
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from dkim.canonicalization import Relaxed
from hypothesis import example, given
from hypothesis import strategies as st

from app.transports.email.dkim import (
    ALGORITHMS,
    new_key,
    open_signer,
    record_name,
    record_value,
    relaxed_body,
    relaxed_field,
    sign,
)
from app.transports.email.mime import Attachment, build
from tests.support.cases import each

MOMENT = datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC)
KEYS = {algorithm: new_key(algorithm) for algorithm in ALGORITHMS}
SIGNERS = [open_signer("main.example", key.selector, key.private_key) for key in KEYS.values()]
RECORDS = {
    record_name("main.example", key.selector): record_value(key.algorithm, key.public_key) for key in KEYS.values()
}
BASIC: dict[str, Any] = {
    "from_name": "Zoë",
    "from_address": "shop@main.example",
    "to": "ann@example.com",
    "reply_to": "answers@main.example",
    "subject": "Überweisung 日本 🐝 " * 8,
    "html": '<p>Grüße</p><img src="cid:content_ab12">',
    "text": "Hello  Ann \n\n\nFrom here on.\n\n\n",
    "attachments": [Attachment("logo.png", "image/png", bytes(range(256)), "content_ab12")],
    "message_id": "4711@main.example",
    "date": MOMENT,
}
MAIL = build(**BASIC)


def texts(name: bytes, timeout: int = 5) -> bytes:
    """Looks the DNS records of the domain up, as the other implementation requires."""
    return RECORDS[name.decode().rstrip(".")].encode()


def are_valid(content: bytes, count: int = len(SIGNERS)) -> list[bool]:
    """The other implementation's result for each signature."""
    return [is_valid(content, number) for number in range(count)]


def is_valid(content: bytes, number: int) -> bool:
    """The other implementation's result for one signature. That implementation raises an exception about a body that
    does not match."""
    try:
        return bool(verifier.DKIM(content).verify(idx=number, dnsfunc=texts))
    except verifier.ValidationError:
        return False


def test_both_signatures_are_valid() -> None:
    signed = sign(MAIL, SIGNERS, MOMENT)
    assert signed.endswith(MAIL)
    assert re.findall(rb" a=([a-z0-9-]+);", signed) == [b"rsa-sha256", b"ed25519-sha256"]
    assert are_valid(signed) == [True, True]


def test_the_complete_signature() -> None:
    (signer,) = SIGNERS[1:]
    head = sign(b"From: a@main.example\r\nSubject: x\r\n\r\n", [signer], MOMENT).decode().partition("\r\nFrom: ")[0]
    assert re.sub(r"b=[A-Za-z0-9+/=\r\n ]{80,}$", "b=…", head) == (
        "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n d=main.example;\r\n"
        f" s={signer.selector}; t=1769860805;\r\n"
        " h=From:From:To:Cc:Subject:Subject:Date:Message-ID:Reply-To:\r\n"
        " MIME-Version:Content-Type:Content-Transfer-Encoding;\r\n"
        " bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=;\r\n b=…"
    )


def test_without_keys_no_signature_is_added() -> None:
    assert sign(MAIL, [], MOMENT) == MAIL


def test_keys_have_the_usual_sizes() -> None:
    key = SIGNERS[0].key
    assert isinstance(key, RSAPrivateKey)
    assert key.key_size == 2048
    assert len(KEYS["ed25519"].public_key) == 44


def test_the_repr_of_a_key_contains_no_secret() -> None:
    assert "PRIVATE" not in repr(KEYS["rsa"])
    assert repr(SIGNERS[0]) == f"Signer(domain='main.example', selector='{SIGNERS[0].selector}')"


@each(
    "change",
    [
        (b"Subject: ", b"Subject: Re: "),
        (b"To: ann@", b"To: bob@"),
        (b"Date: Sat, 31", b"Date: Sun, 31"),
        (b"Hello  Ann", b"Hello Bob"),
        (b"\r\nTo: ", b"\r\nFrom: evil@main.example\r\nTo: "),
        (b"\r\nTo: ", b"\r\nCc: evil@main.example\r\nTo: "),
        (b"\r\nTo: ", b"\r\nSubject: evil\r\nTo: "),
    ],
)
def test_a_change_invalidates_both_signatures(change: tuple[bytes, bytes]) -> None:
    signed = sign(MAIL, SIGNERS, MOMENT)
    changed = signed.replace(*change, 1)
    assert changed != signed
    assert are_valid(changed) == [False, False]


def test_text_added_at_the_end_invalidates_both_signatures() -> None:
    assert are_valid(sign(MAIL, SIGNERS, MOMENT) + b"more\r\n") == [False, False]


def test_changes_that_relays_make_invalidate_nothing() -> None:
    signed = sign(MAIL, SIGNERS, MOMENT)
    relayed = b"Received: from a by b; Sat, 31 Jan 2026 12:00:06 +0000\r\n" + signed + b"\r\n\r\n"
    assert are_valid(relayed) == [True, True]


def test_the_header_fields_of_one_click_unsubscribing_are_signed() -> None:
    """RFC 8058, 4: the DKIM signature covers both."""
    fields = b"List-Unsubscribe: <https://x.example/u/1>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
    signed = sign(fields + MAIL, SIGNERS, MOMENT)
    assert are_valid(signed) == [True, True]
    assert are_valid(signed.replace(b"x.example/u/1", b"y.example/u/1")) == [False, False]


@given(body=st.text(st.sampled_from("a .=\r\n\t-Fromä日"), max_size=200), subject=st.text(max_size=80))
def test_every_mail_is_signed_validly(body: str, subject: str) -> None:
    changed = BASIC | {"text": body, "subject": subject, "attachments": []}
    assert are_valid(sign(build(**changed), SIGNERS, MOMENT)) == [True, True]


PIECES = [b"a", b"bc", b".", b" ", b"  ", b"\t", b"\r\n", b"\r", b"\n", b"=20"]


@given(parts=st.lists(st.sampled_from(PIECES), max_size=12))
@example(parts=[])
@example(parts=[b"\r\n"])
@example(parts=[b"a", b"\r\n"])
def test_a_canonical_body_is_what_the_library_makes_of_it(parts: list[bytes]) -> None:
    body = b"".join(parts)
    assert relaxed_body(body) == Relaxed.canonicalize_body(body)


@given(name=st.sampled_from([b"To", b"Message-ID", b"X"]), parts=st.lists(st.sampled_from(PIECES), max_size=8))
@example(name=b"To", parts=[])
@example(name=b"To", parts=[b" "])
@example(name=b"To", parts=[b" ", b"a"])
def test_a_canonical_header_field_is_what_the_library_makes_of_it(name: bytes, parts: list[bytes]) -> None:
    value = b"".join(parts)
    ((library_name, canonical),) = Relaxed.canonicalize_headers([(name, value)])
    assert relaxed_field(name, value) == library_name + b":" + canonical


def test_an_international_local_part_is_signed_validly() -> None:
    assert are_valid(sign(build(**BASIC | {"to": "zoë@example.com"}), SIGNERS, MOMENT)) == [True, True]


def test_a_key_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError):
        open_signer("main.example", "s", "no key")
