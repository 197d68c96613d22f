"""Header fields as bytes, from any text: short ASCII lines that never contain a second field.

Built by hand instead of by the standard library, whose folding in Python 3.11 allows an injected line break
(CVE-2024-6923) or loses a comma (CVE-2025-1795), and takes time quadratic in the text's length.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote

import idna

# Mail addresses in SMTP commands and headers.

_UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f<>\u2028\u2029\ud800-\udfff]")


def ascii_domain(address: str) -> str:
    """`address` with an international domain in its ASCII form (`bücher.example` is `xn--bcher-kva.example`).

    Every server understands that form, whereas any server on the way without SMTPUTF8 would refuse the other one. A
    domain without an ASCII form is left unchanged.
    """
    if address.isascii():
        return address
    local, at, domain = address.rpartition("@")
    if domain.isascii():
        return address
    try:
        return f"{local}{at}{idna.encode(domain, uts46=True).decode('ascii')}"
    except idna.IDNAError:
        return address


def is_safe(address: str) -> bool:
    """Whether the address is safe in an SMTP command: no line break, space, control character or bracket."""
    return _UNSAFE.search(address) is None


LINE = 76
MAX_LINE_LENGTH = 998
FILE_NAME_PIECE = 60
ONE_CLICK = b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"

_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_PLAIN = re.compile(r"[\x20-\x7e]*")
# An escape such as %C3 is never cut in two.
_PIECE = re.compile(rf"(?:%[0-9A-F]{{2}}|[^%]){{1,{FILE_NAME_PIECE}}}")
_WORDS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")


def one_line(text: str) -> str:
    """`text` with each run of line breaks and control characters replaced by a space, and stripped."""
    if text.isascii() and text.isprintable():  # nearly all are, and hold nothing to replace
        return text.strip()
    return _NO_TEXT.sub(" ", text).encode("utf-8", "replace").decode().strip()


def text_header(name: str, text: str) -> bytes:
    """A field of free text, such as Subject."""
    return _field(name, _unstructured(name, one_line(text)))


def address_header(name: str, address: str, display_name: str = "") -> bytes:
    """A field with one mailbox.

    An international domain is written in ASCII. A local part that is not ASCII has no such form and stays UTF-8
    (RFC 6532): only a server with SMTPUTF8 accepts that message.
    """
    address = ascii_domain(one_line(address))
    if not display_name:
        return _field(name, address)
    phrase = _phrase(name, one_line(display_name))
    if not phrase:
        return _field(name, address)
    last_line = f"{name}: {phrase}".rpartition("\r\n")[2]
    gap = " " if len(last_line) + len(address) + 3 <= LINE else "\r\n "
    return _field(name, f"{phrase}{gap}<{address}>")


def identifier_header(name: str, identifier: str) -> bytes:
    """A field such as Message-ID, from an identifier with or without its angle brackets."""
    return _field(name, f"<{ascii_domain(one_line(identifier).strip('<>'))}>")


def unsubscribe_headers(link: str, address: str | None) -> bytes:
    """List-Unsubscribe, and List-Unsubscribe-Post for one-click unsubscribing by POST (RFC 8058)."""
    targets = [f"<{one_line(link)}>"] + ([f"<mailto:{one_line(address)}>"] if address else [])
    return _field("List-Unsubscribe", ",\r\n ".join(targets)) + ONE_CLICK


def disposition_header(disposition: str, file_name: str) -> bytes:
    """Content-Disposition with a file name, encoded by RFC 2231 unless it is short ASCII."""
    parameters = "".join(f";\r\n {parameter}" for parameter in _file_name(one_line(file_name)))
    return _field("Content-Disposition", f"{disposition}{parameters}")


def _field(name: str, value: str) -> bytes:
    return f"{name}: {value}\r\n".encode()


def _unstructured(name: str, text: str) -> str:
    if _is_plain(text):
        if len(name) + len(text) + 2 <= LINE:
            return text
        # A run of spaces could become a line of spaces only, which some servers take for the end of the header.
        if "  " not in text and max(map(len, text.split(" "))) + len(name) + 2 <= MAX_LINE_LENGTH:
            return _folded(name, text)
    return _encoded_words(name, text)


def _folded(name: str, text: str) -> str:
    """The words in folded lines of the maximum length."""
    lines, line, room = list[str](), "", LINE - len(name) - 2
    for word in text.split(" "):
        if line and len(line) + len(word) >= room:
            lines.append(line)
            line, room = word, LINE - 1
        else:
            line = f"{line} {word}" if line else word
    return "\r\n ".join([*lines, line])


def _phrase(name: str, text: str) -> str:
    """A display name (RFC 5322, 3.2.5)."""
    if not _is_plain(text) or len(name) + len(text) + 4 > LINE:
        return _encoded_words(name, text)
    if not text or _WORDS.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _is_plain(text: str) -> bool:
    """Whether the text needs no encoding; `=?` would begin an encoded word (RFC 2047)."""
    return _PLAIN.fullmatch(text) is not None and "=?" not in text


def _encoded_words(name: str, text: str) -> str:
    """The text as encoded words (RFC 2047), one on each line, in the shorter of the two encodings."""
    quoted = [_q_encoded(character) for character in text]
    if sum(map(len, quoted)) <= -(-len(text.encode()) // 3) * 4:
        encoding, pieces = "q", _chunked(quoted, LINE - len(name) - len(": =?utf-8?q??="))
    else:
        encoding, pieces = "b", _chunked(text, (LINE - len(name) - len(": =?utf-8?b??=")) // 4 * 3)
        pieces = [base64.b64encode(piece.encode()).decode("ascii") for piece in pieces]
    return "\r\n ".join(f"=?utf-8?{encoding}?{piece}?=" for piece in pieces)


@lru_cache(maxsize=4096)
def _q_encoded(character: str) -> str:
    """A character in the Q encoding, safe in unstructured fields as well as in phrases."""
    if character.isascii() and character.isalnum():
        return character
    return "_" if character == " " else "".join(f"={byte:02X}" for byte in character.encode())


def _chunked(units: Iterable[str], room: int) -> list[str]:
    """The units joined to pieces of at most `room` bytes; no unit is split."""
    pieces, piece, left = list[str](), list[str](), room
    for unit in units:
        size = len(unit) if unit.isascii() else len(unit.encode())
        if size > left and piece:
            pieces.append("".join(piece))
            piece, left = [], room
        piece.append(unit)
        left -= size
    return [*pieces, "".join(piece)]


def _file_name(name: str) -> Iterator[str]:
    if _PLAIN.fullmatch(name) and len(name) <= FILE_NAME_PIECE and not set(name) & set('"\\%'):
        yield f'filename="{name}"'
        return
    pieces = _PIECE.findall("utf-8''" + quote(name, safe=""))
    if len(pieces) == 1:
        yield f"filename*={pieces[0]}"
        return
    for number, piece in enumerate(pieces):
        yield f"filename*{number}*={piece}"
