"""Maps SMTP replies to outcomes and RFC 3463 status codes. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from app.transports.base import DeliveryResult

MAX_TEXT_LENGTH = 1000

# "Authenticate first", "mechanism too weak", "credentials wrong", "encryption required": the relay rejects our
# configuration, which has nothing to do with the recipient, so the address must not be blocked.
OUR_OWN_FAULT = frozenset({530, 534, 535, 538})

_STATUS = re.compile(r"([245])\.(\d{1,3})\.(\d{1,3})(?=\s|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class Reply(NamedTuple):
    """One reply: its code, and its text on one line. `to_mail` is whether it answers MAIL."""

    code: int
    text: str
    to_mail: bool = False

    @classmethod
    def from_wire(cls, code: int, raw: bytes) -> Reply:
        """The reply from the code and the lines of text, joined by line feeds, as smtplib returns them."""
        return cls(code, _text(raw))

    def __str__(self) -> str:
        return f"{self.code} {self.text}".strip()

    def result(self) -> DeliveryResult:
        """2xx is accepted and 5xx refused, unless our own configuration is at fault; the rest is deferred."""
        if 200 <= self.code <= 299:
            return DeliveryResult.accepted(str(self), self._status(2))
        if 500 <= self.code <= 599 and self.code not in OUR_OWN_FAULT:
            return DeliveryResult.refused(str(self), self._status(5), about_sender=self.to_mail)
        return self.deferral()

    def deferral(self) -> DeliveryResult:
        """A deferral with this text, whatever the code: for replies before the recipient was named."""
        return DeliveryResult.deferred(str(self), self._status(4))

    @property
    def concerns_sender(self) -> bool:
        """Whether a refusal of MAIL is about the sender rather than about the server, its disk or our credentials: the
        subjects 1 and 7 of RFC 3463 are addresses and policy."""
        status = _STATUS.match(self.text)
        return self.code not in OUR_OWN_FAULT and (status[2] in ("1", "7") if status else self.code in (450, 451))

    def _status(self, severity: int) -> str:
        """The status in the text, else `X.0.0`; its class is that of the outcome, as RFC 2034 requires of servers."""
        found = _STATUS.match(self.text)
        return f"{severity}.{found[2]}.{found[3]}" if found else f"{severity}.0.0"


@lru_cache(maxsize=256)
def one_line_reply(line: bytes) -> Reply:
    """A reply of one line. Cached, because a server sends the same one to nearly all MAIL, RCPT and DATA commands.

    Raises `ValueError` for what is no reply.
    """
    return Reply.from_wire(reply_code(line), line[4:])


def reply_code(line: bytes) -> int:
    """The code of a line; raises `ValueError` for what is no reply."""
    code = int(line[:3])
    if not 200 <= code <= 599:
        raise ValueError(f"unintelligible reply: {line[:100]!r}")
    return code


@lru_cache(maxsize=256)
def _text(raw: bytes) -> str:
    """The text on one line. Cached, because a server sends the same reply to most MAIL and RCPT commands."""
    lines = [_CONTROL.sub(" ", line).strip() for line in raw.decode("utf-8", "replace").split("\n")]
    return _joined(lines)[:MAX_TEXT_LENGTH]


def _joined(lines: list[str]) -> str:
    """The lines as one text; a status repeated on each line is kept once."""
    found = _STATUS.match(lines[0])
    if not found:
        return " ".join(lines)
    return " ".join([lines[0], *(line.removeprefix(found[0]).strip() for line in lines[1:])])
