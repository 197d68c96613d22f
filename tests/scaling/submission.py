"""Readers of mails that applications submit, and of their commands."""

from __future__ import annotations

from contextlib import suppress

from app.decoding import CODECS, decode, decode_words
from app.errors import ServiceError
from app.sends.accept.draft import Limits
from app.submission.mail import read_submission
from app.submission.session import _decoded
from app.transports.email.mime import address_list_header
from tests.scaling.reader import KIB, MIB, Reader

LIMITS = Limits(20, 10 * MIB)
MAIL = 512 * KIB
FIELD = 64 * KIB
HEAD = "From: a@b.example\r\nSubject: s\r\n"
MULTIPART = HEAD + 'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n'
RELATED = HEAD + 'Content-Type: multipart/related; boundary="b"\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n'
IMAGE = "\r\n--b\r\nContent-Type: image/png\r\nContent-ID: <a>\r\n\r\nx\r\n--b--\r\n"
PARTS = (
    *("--b\r\n", "\r\n", "x\r\n", "--b--\r\n", "a", " ", "<a@b.example>\r\n"),
    "Content-Type: message/rfc822\r\n\r\n",
    "Content-Type: text/plain\r\n\r\n",
    "Content-Type: text/html; charset=utf-8\r\n\r\n",
    "Content-Transfer-Encoding: base64\r\n\r\n",
    "Content-Type: multipart/mixed; boundary=b\r\n\r\n",
)
ADDRESSES = ("(", ")", "<", ">", '"', ",", ";", ":", "a", "@", "a@b.example", " ", "\\", "=?utf-8?q?a?=", "é")
ENCODED_WORDS = ("=?utf-8?q?a?=", "=?utf-8?q?a", "=?", "?=", "?", "a", " ", "=?utf-8?b?YQ", "=?x?b?a?=")


def _read(text: str) -> None:
    with suppress(ServiceError):
        read_submission(text.encode(), LIMITS)


def _decode_all(text: str) -> None:
    """Decodes the text from each character set that a mail can name."""
    content = text.encode("latin-1", "replace")
    for codec in CODECS:
        with suppress(LookupError, ValueError):
            decode(content, codec, "replace")


def _answer(text: str) -> None:
    with suppress(ValueError):
        _decoded(text)


SUBMISSION = (
    Reader(
        "a submitted mail", _read, ("\r\n", "\n", " ", "a", ":", "X: y\r\n", "\r\n ", "X-TMS-List: 1\r\n"), MAIL, HEAD
    ),
    Reader("parts of a submitted mail", _read, PARTS, MAIL, MULTIPART),
    Reader(
        "the type of a submitted part",
        _read,
        (";", "a=", '"', "=", "a", " ", "a*0=", "/"),
        4000,
        MULTIPART + "Content-Type: text/x",
    ),
    Reader("an author", _read, ADDRESSES, FIELD, "Subject: s\r\nFrom: "),
    Reader("an address to reply to", _read, ADDRESSES, FIELD, HEAD + "Reply-To: "),
    Reader("recipients in a header", _read, ADDRESSES, FIELD, HEAD + "To: "),
    Reader(
        "the subject of a submitted mail",
        _read,
        ("=?utf-8?q?a?=", "=?", "?=", "?", "a", " ", "é", "=?utf-8?b?YQ==?= "),
        FIELD,
        "From: a@b.example\r\nSubject: ",
    ),
    Reader("identifiers", _read, ("<a@b>", " ", "<", ">", "a"), FIELD, HEAD + "References: "),
    Reader("very many fields", _read, (), MAIL, HEAD + "X-First: ", item="a\r\nX-A#: v"),
    Reader("encoded words", decode_words, ENCODED_WORDS, FIELD),
    Reader("a text in any character set", _decode_all, ("a", "-", "\xe9", "\x1b$B", "+", "\\"), 8 * KIB),
    Reader("fields that stay", _read, ("=?utf-8?q?a?=", "a", " ", "é"), FIELD, HEAD + "X-Kept: "),
    Reader("references to images", _read, ("cid:a", "cid:", "&", "&amp;", "%41", '"', " ", "<"), MAIL, RELATED, IMAGE),
    Reader("an answer of a login", _answer, ("YQ==", "=", "a", " "), 8 * KIB),
    Reader("a list of addresses", lambda text: address_list_header("To", text), ADDRESSES, FIELD),
)
