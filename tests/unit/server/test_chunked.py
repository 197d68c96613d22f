"""Decoding of a chunked body, however it is split between reads."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.server.request import ChunkedDecoder, MalformedChunked
from tests.support.cases import each


def decoded(pieces: list[bytes]) -> tuple[bytes, bytes, bool]:
    """The content, the bytes after the body, and whether the body has ended."""
    content = bytearray()
    chunks, buffer, ended = ChunkedDecoder(content.extend), bytearray(), False
    for piece in pieces:
        buffer += piece
        if not ended:
            ended = chunks.feed(buffer)
    return bytes(content), bytes(buffer), ended


def encoded(parts: list[bytes], extension: bytes, trailers: list[bytes]) -> bytes:
    """The parts as chunks."""
    chunks = b"".join(b"%X%b\r\n%b\r\n" % (len(part), extension, part) for part in parts if part)
    return chunks + b"0\r\n" + b"".join(trailer + b"\r\n" for trailer in trailers) + b"\r\n"


@given(
    parts=st.lists(st.binary(max_size=50), max_size=8),
    extension=st.sampled_from([b"", b";a", b' ; a="b"']),
    trailers=st.lists(st.sampled_from([b"A: b", b"C:"]), max_size=3),
    cuts=st.lists(st.integers(0, 400), max_size=20),
)
def test_the_content_is_the_same_however_the_body_is_split(
    parts: list[bytes], extension: bytes, trailers: list[bytes], cuts: list[int]
) -> None:
    whole = encoded(parts, extension, trailers) + b"NEXT"
    places = sorted({0, len(whole), *(cut % len(whole) for cut in cuts)})
    pieces = [whole[start:end] for start, end in itertools.pairwise(places)]
    assert decoded(pieces) == (b"".join(parts), b"NEXT", True)


@each("end", range(len(encoded([b"abc"], b"", []))))
def test_a_truncated_body_has_not_ended(end: int) -> None:
    assert not decoded([encoded([b"abc"], b"", [])[:end]])[2]


@each(
    "body",
    [
        b"\r\n",
        b"g\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b" 1\r\n",
        b"1_0\r\n",
        b"1 \x01\r\n",
        b"1\n\r\n",
        b"1;\x00\r\n",
        b"12345678901234567\r\n",
        b"1\r\nab\r\n",
        b"1\r\na\n\r\n",
        b"1" * 2000,
        b"0\r\n no: trailer\r\n\r\n",
        b"0\r\nno trailer\r\n\r\n",
        b"0\r\n" + b"A: b\r\n" * 101 + b"\r\n",
        b"0\r\nA: " + b"x" * 2000,
    ],
)
def test_a_malformed_chunked_body_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedChunked):
        decoded([body])
