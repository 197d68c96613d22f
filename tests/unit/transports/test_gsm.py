"""Alphabets of text messages, and the parts of a text (3GPP TS 23.038 and 23.040)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.transports.sms import gsm
from app.transports.sms.segments import BASIC, split
from tests.support.cases import each

GSM_TEXTS = st.text(st.sampled_from(BASIC + "\f^{}\\[~]|€"), max_size=400)
ANY_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def test_known_codes() -> None:
    assert gsm.encode("@$\n_Æ Aaz¿à", gsm.GSM) == bytes.fromhex("00 02 0a 11 1c 20 41 61 7a 60 7f")
    assert gsm.encode("[€]", gsm.GSM) == bytes.fromhex("1b3c 1b65 1b3e")
    assert gsm.encode("é🐝", gsm.UCS_2) == bytes.fromhex("00e9 d83d dc1d")
    assert gsm.encode("\ud83d", gsm.UCS_2) == b"\x00?"


@given(GSM_TEXTS)
def test_gsm_text_decodes_to_what_was_encoded(text: str) -> None:
    assert gsm.coding_of(text) == gsm.GSM
    assert gsm.decode(gsm.encode(text, gsm.GSM), gsm.GSM) == text


@given(ANY_TEXTS)
def test_any_text_can_be_reassembled_from_its_parts(text: str) -> None:
    """No part is longer than a short message, and no character is split."""
    coding, parts = gsm.coding_of(text), split(text)
    assert "".join(parts) == text
    most = (160 if len(parts) == 1 else 153) if coding == gsm.GSM else (140 if len(parts) == 1 else 134)
    assert all(len(gsm.encode(part, coding)) <= most for part in parts)
    assert "".join(gsm.decode(gsm.encode(part, coding), coding) for part in parts) == text


@each(
    ("data", "coding", "text"),
    [
        (b"caf\xe9", gsm.LATIN_1, "café"),
        (b"plain", gsm.ASCII, "plain"),
        (b"a\x1b", gsm.GSM, "a "),
        (b"\x80", gsm.GSM, "\ufffd"),
        (b"\x00a\xd8", gsm.UCS_2, "a\ufffd"),
        (b"\x1b\x65", 0xF0, "€"),
    ],
)
def test_any_incoming_bytes_are_decoded(data: bytes, coding: int, text: str) -> None:
    assert gsm.decode(data, coding) == text
