"""What a gateway hands in over SMPP: `deliver_sm` read as a receipt or as a reply (SMPP 3.4, 4.6 and appendix B)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from app.transports.sms import gsm

RECEIPT = 0x04
MESSAGE_TYPE = 0x3C
USER_DATA_HEADER = 0x40

STATES = {2: "DELIVRD", 3: "EXPIRED", 4: "DELETED", 5: "UNDELIV", 8: "REJECTD"}
"""Values of the parameter `message_state` that are an end, as the text of a receipt writes them."""
FAILED = ("EXPIRED", "DELETED", "UNDELIV", "REJECTD")

_ID = re.compile(r"\bid:(\S+)", re.IGNORECASE)
_STATE = re.compile(r"\bstat:(\w+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GatewayReceipt:
    """The end of the message that the gateway calls `gateway_id`; `detail` holds its words."""

    gateway_id: str
    status: Literal["delivered", "failed"]
    detail: str


@dataclass(frozen=True, slots=True)
class GatewayReply:
    """A text that somebody sent to one of our numbers."""

    mobile: str
    number: str
    text: str


Incoming = GatewayReceipt | GatewayReply
Take = Callable[[Incoming], bool]
"""Takes one in; False where that was not possible now, so that the gateway hands it in again."""


@runtime_checkable
class Listening(Protocol):
    """A transport that also hands in what comes back, over a connection that is kept while nothing is sent."""

    def listen(self, take: Take) -> None:
        """Connects now, and gives what comes in to `take`, in a thread of its own."""
        ...

    def end(self) -> None:
        """Gives the connection up."""
        ...


def read_deliver_sm(pdu: Any) -> Incoming | None:
    """What the PDU says; None for a receipt of something on the way, which says nothing new, or without an id."""
    body = getattr(pdu, "message_payload", None) or pdu.short_message or b""
    if pdu.esm_class & MESSAGE_TYPE == RECEIPT:
        return _receipt(pdu, body.decode("latin-1"))
    if pdu.esm_class & USER_DATA_HEADER and body:
        body = body[body[0] + 1 :]
    return GatewayReply(_text(pdu.source_addr), _text(pdu.destination_addr), gsm.decode(body, pdu.data_coding or 0))


def _receipt(pdu: Any, text: str) -> GatewayReceipt | None:
    """The form of the text differs from gateway to gateway; where it lacks something a parameter may have it."""
    found_id, found_state = _ID.search(text), _STATE.search(text)
    gateway_id = found_id[1] if found_id else _text(getattr(pdu, "receipted_message_id", None))
    state = found_state[1].upper() if found_state else STATES.get(getattr(pdu, "message_state", None) or 0, "")
    if not gateway_id:
        return None
    detail = text.strip() or f"stat:{state}"
    if state == "DELIVRD":
        return GatewayReceipt(gateway_id, "delivered", detail)
    return GatewayReceipt(gateway_id, "failed", detail) if state in FAILED else None


def _text(value: str | bytes | None) -> str:
    """A C string as the library gives it."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value or ""
    return text.rstrip("\0")
