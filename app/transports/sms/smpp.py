"""Text messages over SMPP 3.4 (docs/sms.md): `submit_sm`, and the results of its responses.

A text of several parts is sent as several `submit_sm`, numbered in a user data header. Their common reference is
derived from the message's uuid, so that a retry after some parts were accepted concatenates with those parts. A receipt
is requested for the last part only: it stands for the whole text.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

from smpplib import consts

from app.transports.base import DeliveryResult, OutboundSms, SharedConnection, Untaken
from app.transports.sms import segments
from app.transports.sms.incoming import IncomingHandler
from app.transports.sms.segments import MAX_PARTS, split
from app.transports.sms.smpp_bind import Bind, NoAnswer, NoBind
from app.transports.sms.smpp_url import SmppSettings, parse_smpp_url

THROTTLED = (consts.SMPP_ESME_RTHROTTLED, consts.SMPP_ESME_RMSGQFUL)
TRY_LATER = (
    *THROTTLED,
    consts.SMPP_ESME_RINVBNDSTS,
    consts.SMPP_ESME_RSYSERR,
    consts.SMPP_ESME_RBINDFAIL,
    consts.SMPP_ESME_RSUBMITFAIL,
    consts.SMPP_ESME_RX_T_APPN,
)
"""Temporary errors. Every other error is a refusal of this message."""
SLOW_DOWN = 1.0
"""Seconds without sending after the gateway has throttled."""


class SmppTransport(SharedConnection):
    """The gateway; all threads share one bind, which only `end` closes."""

    def __init__(self, settings: SmppSettings) -> None:
        self.binds = settings.binds
        self._bind = Bind(settings)
        self._lock = threading.Lock()
        self._resume = 0.0

    def bind_while(self, is_allowed: Callable[[], bool]) -> None:
        """Keeps the bind only while this process may have one. Called before the bind is used."""
        self._bind.is_allowed = is_allowed

    def listen(self, handler: IncomingHandler) -> None:
        """Binds now, and calls `handler` for receipts and replies, in a separate thread."""
        self._bind.listen(handler)

    def send(self, message: OutboundSms) -> DeliveryResult:
        """Sends one text, part by part; the first part that is not accepted determines the result."""
        parts = split(message.text)
        if len(parts) > MAX_PARTS:
            return DeliveryResult.refused(f"the text has {len(parts)} parts; {MAX_PARTS} is the most")
        response: Any = None
        for number, fields in enumerate(_submissions(message, parts)):
            self._wait()
            try:
                response = self._bind.submit(**fields)
            except NoBind as error:
                untaken = None if number else Untaken.TRANSPORT
                return DeliveryResult.deferred("no connection to the gateway", note=str(error), untaken=untaken)
            except NoAnswer as error:
                return DeliveryResult.deferred("no answer; the message may have been taken", note=str(error))
            if response.status != consts.SMPP_ESME_ROK:
                return self._refusal(response.status)._replace(untaken=None if number else Untaken.MESSAGE)
        gateway_id = _text(response.message_id)
        return DeliveryResult.accepted(f"accepted as {gateway_id}", gateway_id=gateway_id, segments=len(parts))

    def _wait(self) -> None:
        time.sleep(max(0.0, self._resume - time.monotonic()))

    def _refusal(self, status: int) -> DeliveryResult:
        reply = f"{status:#010x} {consts.DESCRIPTIONS.get(status, 'unknown status')}"
        if status in THROTTLED:
            with self._lock:
                self._resume = time.monotonic() + SLOW_DOWN
        return DeliveryResult.deferred(reply) if status in TRY_LATER else DeliveryResult.refused(reply)

    def end(self) -> None:
        """Unbinds."""
        self._bind.close()


def smpp_transport(url: str) -> SmppTransport:
    """The transport of an `smpp://` or `smpps://` URL; raises `TransportUrlError`."""
    return SmppTransport(parse_smpp_url(url))


def _submissions(message: OutboundSms, parts: list[str]) -> list[dict[str, Any]]:
    """The fields of each `submit_sm`."""
    coding = segments.coding_of(message.text)
    is_alphanumeric = not message.sender.isdigit()
    common = {
        "source_addr_ton": consts.SMPP_TON_ALNUM if is_alphanumeric else consts.SMPP_TON_INTL,
        "source_addr_npi": consts.SMPP_NPI_UNK if is_alphanumeric else consts.SMPP_NPI_ISDN,
        "source_addr": message.sender,
        "dest_addr_ton": consts.SMPP_TON_INTL,
        "dest_addr_npi": consts.SMPP_NPI_ISDN,
        "destination_addr": message.to,
        "data_coding": coding,
    }
    total, reference = len(parts), zlib.crc32(message.uuid.encode()) & 0xFF
    submissions = []
    for number, part in enumerate(parts, 1):
        header = bytes((5, 0, 3, reference, total, number)) if total > 1 else b""
        part_fields = {
            "esm_class": consts.SMPP_GSMFEAT_UDHI if header else consts.SMPP_MSGMODE_DEFAULT,
            "registered_delivery": int(number == total),
            "short_message": header + segments.encode(part, coding),
        }
        submissions.append({**common, **part_fields})
    return submissions


def _text(value: bytes | str | None) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value or ""
