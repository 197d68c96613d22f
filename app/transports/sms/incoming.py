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

CONCATENATED = {0x00: 3, 0x08: 4}
"""Elements of a user data header that number the parts of a text, and their lengths: the reference has 8 or 16 bits."""
PARAMETERS = ("msg_ref_num", "total_segments", "segment_seqnum")
Place = tuple[int, int, int]
"""Of a part: the reference of the whole, how many parts that has, and which one this is, from 1."""

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


@dataclass(frozen=True, slots=True)
class GatewayPart:
    """Part `position` of `total` of a long text to one of our numbers; all parts have the `reference`.

    `body` is in the alphabet of `coding`.
    """

    mobile: str
    number: str
    body: bytes
    coding: int
    reference: int
    total: int
    position: int


Incoming = GatewayReceipt | GatewayReply | GatewayPart
IncomingHandler = Callable[[Incoming], bool]
"""Takes one in; False where that was not possible now, so that the gateway hands it in again."""


@runtime_checkable
class ReceivingTransport(Protocol):
    """A transport that also hands in what comes back, over a connection that is kept while nothing is sent."""

    def listen(self, take: IncomingHandler) -> None:
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
    place = _place_of_parameters(pdu)
    if pdu.esm_class & USER_DATA_HEADER and body:
        header, body = body[1 : body[0] + 1], body[body[0] + 1 :]
        place = _place_of_header(header) or place
    mobile, number, coding = _text(pdu.source_addr), _text(pdu.destination_addr), pdu.data_coding or 0
    if place:
        return GatewayPart(mobile, number, body, coding, *place)
    return GatewayReply(mobile, number, gsm.decode(body, coding))


def _place_of_header(header: bytes) -> Place | None:
    """From a user data header: elements of an identifier, a length and as many bytes (3GPP TS 23.040, 9.2.3.24)."""
    while len(header) >= 2:
        identifier, length = header[0], header[1]
        data, header = header[2 : 2 + length], header[2 + length :]
        if CONCATENATED.get(identifier) == len(data):
            return _sound(int.from_bytes(data[:-2], "big"), data[-2], data[-1])
    return None


def _place_of_parameters(pdu: Any) -> Place | None:
    """From the optional parameters that some gateways use instead (SMPP 3.4, 5.3.2.22 to 24)."""
    reference, total, position = (getattr(pdu, f"sar_{name}", None) for name in PARAMETERS)
    return None if reference is None or not total or not position else _sound(reference, total, position)


def _sound(reference: int, total: int, position: int) -> Place | None:
    """A text of one part, or a part that the text cannot have, has no place: what it says is told as it is."""
    return (reference, total, position) if total > 1 and 1 <= position <= total else None


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
