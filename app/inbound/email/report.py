"""The report about an email, whatever form it was written in."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from app.addresses import email_key


class ReportKind(enum.Enum):
    """Kind of a report."""

    FAILED = "failed"
    """A bounce: it did not arrive, and no server retries it."""
    DELAYED = "delayed"
    """It has not arrived yet; the other side keeps retrying."""
    ARRIVED = "arrived"
    """Delivered, relayed or expanded; nothing new for the service."""
    COMPLAINT = "complaint"
    """The reader reported it as spam (ARF)."""
    OPT_OUT = "opt-out"
    """The reader unsubscribed through the mail provider."""


@dataclass(frozen=True, slots=True)
class Report:
    """One recipient's part of a report.

    `status` is an RFC 3463 code, `detail` is the text of the other side. `about` has the addresses that it names, in
    any form; a `guessed` one was extracted from prose, and counts only if it is the recipient's. `original_senders`
    are the envelope senders that the original message is reported to have had.
    """

    kind: ReportKind
    status: str | None = None
    detail: str = ""
    about: frozenset[str] = frozenset()
    guessed: bool = False
    original_senders: tuple[str, ...] = ()

    @property
    def addresses(self) -> frozenset[str]:
        """Those that it names, normalised for comparison."""
        return frozenset(map(email_key, self.about))
