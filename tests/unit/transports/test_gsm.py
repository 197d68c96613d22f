"""Alphabets of text messages, and the parts of a text (3GPP TS 23.038 and 23.040)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.transports.sms import segments
from app.transports.sms.segments import BASIC_TABLE, split
from tests.support.cases import each

GSM_TEXTS = st.text(st.sampled_from(BASIC_TABLE + "\f^{}\\[~]|€"), max_size=400)
ANY_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def test_known_codes() -> None:
    assert segments.encode("@$\n_Æ Aaz¿à", segments.GSM) == bytes.fromhex("00 02 0a 11 1c 20 41 61 7a 60 7f")
    assert segments.encode("[€]", segments.GSM) == bytes.fromhex("1b3c 1b65 1b3e")
    assert segments.encode("é🐝", segments.UCS_2) == bytes.fromhex("00e9 d83d dc1d")
    assert segments.encode("\ud83d", segments.UCS_2) == b"\x00?"


@given(GSM_TEXTS)
def test_gsm_text_decodes_to_what_was_encoded(text: str) -> None:
    assert segments.coding_of(text) == segments.GSM
    assert segments.decode(segments.encode(text, segments.GSM), segments.GSM) == text


@given(ANY_TEXTS)
def test_any_text_can_be_reassembled_from_its_parts(text: str) -> None:
    """No part is longer than a short message, and no character is split."""
    coding, parts = segments.coding_of(text), split(text)
    assert "".join(parts) == text
    most = (160 if len(parts) == 1 else 153) if coding == segments.GSM else (140 if len(parts) == 1 else 134)
    assert all(len(segments.encode(part, coding)) <= most for part in parts)
    assert "".join(segments.decode(segments.encode(part, coding), coding) for part in parts) == text


@each(
    ("data", "coding", "text"),
    [
        (b"caf\xe9", segments.LATIN_1, "café"),
        (b"plain", segments.ASCII, "plain"),
        (b"a\x1b", segments.GSM, "a "),
        (b"\x80", segments.GSM, "\ufffd"),
        (b"\x00a\xd8", segments.UCS_2, "a\ufffd"),
        (b"\x1b\x65", 0xF0, "€"),
    ],
)
def test_any_incoming_bytes_are_decoded(data: bytes, coding: int, text: str) -> None:
    assert segments.decode(data, coding) == text
