"""Text messages over SMPP 3.4 (documented in docs/sms.md): what is sent, and what an answer means.

A text of several parts goes as several `submit_sm`, numbered in a user data header. The reference that joins them
comes from the message's uuid, so that a text that is tried again after a part of it was taken joins with that part. A
receipt is asked for with the last part: it stands for the whole.
"""

from __future__ import annotations

import threading
import time
import zlib
from typing import Any

from smpplib import consts

from app.transports.base import DeliveryResult, OutboundSms
from app.transports.sms import gsm
from app.transports.sms.incoming import IncomingHandler
from app.transports.sms.segments import split
from app.transports.sms.smpp_bind import Bind, NoAnswer, NoBind
from app.transports.sms.smpp_url import SmppSettings, parse_smpp_url

MOST_PARTS = 255
THROTTLED = (consts.SMPP_ESME_RTHROTTLED, consts.SMPP_ESME_RMSGQFUL)
TRY_LATER = (
    *THROTTLED,
    consts.SMPP_ESME_RINVBNDSTS,
    consts.SMPP_ESME_RSYSERR,
    consts.SMPP_ESME_RBINDFAIL,
    consts.SMPP_ESME_RSUBMITFAIL,
    consts.SMPP_ESME_RX_T_APPN,
)
"""Trouble that passes. Every other error is the gateway's no to this message."""
SLOW_DOWN = 1.0
"""Seconds for which nothing more is sent after the gateway said that it is too much."""


class SmppTransport:
    """The gateway; all connections share one bind."""

    def __init__(self, settings: SmppSettings) -> None:
        self._bind = Bind(settings)
        self._lock = threading.Lock()
        self._resume = 0.0

    def connect(self) -> SmppTransport:
        """The bind is shared."""
        return self

    def listen(self, take: IncomingHandler) -> None:
        """Binds now, and gives receipts and replies to `take`, in a thread of its own."""
        self._bind.listen(take)

    def send(self, message: OutboundSms) -> DeliveryResult:
        """Hand one text over, part by part; the first part that is not taken decides."""
        parts = split(message.text)
        if len(parts) > MOST_PARTS:
            return DeliveryResult.refused(f"the text has {len(parts)} parts; {MOST_PARTS} is the most")
        answer: Any = None
        for fields in _submissions(message, parts):
            self._wait()
            try:
                answer = self._bind.submit(**fields)
            except NoBind as error:
                return DeliveryResult.deferred("no connection to the gateway", note=str(error))
            except NoAnswer as error:
                return DeliveryResult.deferred("no answer; the message may have been taken", note=str(error))
            if answer.status != consts.SMPP_ESME_ROK:
                return self._refusal(answer.status)
        gateway_id = _text(answer.message_id)
        return DeliveryResult.accepted(f"accepted as {gateway_id}", gateway_id=gateway_id, segments=len(parts))

    def _wait(self) -> None:
        time.sleep(max(0.0, self._resume - time.monotonic()))

    def _refusal(self, status: int) -> DeliveryResult:
        reply = f"{status:#010x} {consts.DESCRIPTIONS.get(status, 'unknown status')}"
        if status in THROTTLED:
            with self._lock:
                self._resume = time.monotonic() + SLOW_DOWN
        return DeliveryResult.deferred(reply) if status in TRY_LATER else DeliveryResult.refused(reply)

    def close(self) -> None:
        """One thread's connection is nothing of its own."""

    def end(self) -> None:
        """Unbinds."""
        self._bind.close()


def smpp_transport(url: str) -> SmppTransport:
    """The gateway that an `smpp://` or `smpps://` URL names; raises `TransportUrlError`."""
    return SmppTransport(parse_smpp_url(url))


def _submissions(message: OutboundSms, parts: list[str]) -> list[dict[str, Any]]:
    """The fields of each `submit_sm`."""
    coding = gsm.coding_of(message.text)
    named = not message.sender.isdigit()
    common = {
        "source_addr_ton": consts.SMPP_TON_ALNUM if named else consts.SMPP_TON_INTL,
        "source_addr_npi": consts.SMPP_NPI_UNK if named else consts.SMPP_NPI_ISDN,
        "source_addr": message.sender,
        "dest_addr_ton": consts.SMPP_TON_INTL,
        "dest_addr_npi": consts.SMPP_NPI_ISDN,
        "destination_addr": message.to,
        "data_coding": coding,
    }
    total, reference = len(parts), zlib.crc32(message.uuid.encode()) & 0xFF
    made = []
    for number, part in enumerate(parts, 1):
        header = bytes((5, 0, 3, reference, total, number)) if total > 1 else b""
        own = {
            "esm_class": consts.SMPP_GSMFEAT_UDHI if header else consts.SMPP_MSGMODE_DEFAULT,
            "registered_delivery": int(number == total),
            "short_message": header + gsm.encode(part, coding),
        }
        made.append({**common, **own})
    return made


def _text(value: bytes | str | None) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value or ""
