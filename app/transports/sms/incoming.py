"""What a gateway delivers over SMPP: `deliver_sm` parsed as a receipt or a reply (SMPP 3.4, 4.6 and appendix B)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from app.transports.sms import segments

RECEIPT = 0x04
INTERMEDIATE_NOTIFICATION = 0x20
"""The type of a receipt that is not final."""
MESSAGE_TYPE = 0x3C
USER_DATA_HEADER = 0x40

CONCATENATION_ELEMENTS = {0x00: 3, 0x08: 4}
"""Elements of a user data header for concatenated texts, and their lengths: the reference has 8 or 16 bits."""
PARAMETERS = ("msg_ref_num", "total_segments", "segment_seqnum")
Concatenation = tuple[int, int, int]
"""For a part: the reference of the text, its number of parts, and the position of this one, from 1."""

FINAL_STATES = {2: "DELIVRD", 3: "EXPIRED", 4: "DELETED", 5: "UNDELIV", 8: "REJECTD"}
"""Final values of the parameter `message_state`, as the text of a receipt spells them."""
FAILED_STATES = ("EXPIRED", "DELETED", "UNDELIV", "REJECTD")

_ID = re.compile(r"\bid:(\S+)", re.IGNORECASE)
_STATE = re.compile(r"\bstat:(\w+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GatewayReceipt:
    """The final receipt of the message with the gateway's id `gateway_id`; `detail` is the text of the receipt."""

    gateway_id: str
    status: Literal["delivered", "failed"]
    detail: str


@dataclass(frozen=True, slots=True)
class GatewayReply:
    """A text message to one of our numbers."""

    mobile: str
    number: str
    text: str


@dataclass(frozen=True, slots=True)
class GatewayPart:
    """Part `position` of `total` of a long text to one of our numbers; all parts share the `reference`.

    `body` is encoded in `coding`.
    """

    mobile: str
    number: str
    body: bytes
    coding: int
    reference: int
    total: int
    position: int


GatewayMessage = GatewayReceipt | GatewayReply | GatewayPart
IncomingHandler = Callable[[GatewayMessage], bool]
"""Processes one item; returns False if that is not possible now, so that the gateway delivers it again. An item for
which it raises an exception is refused permanently."""


@runtime_checkable
class ReceivingTransport(Protocol):
    """A transport that also receives, over a connection that is kept open while nothing is sent."""

    def listen(self, handler: IncomingHandler) -> None:
        """Connects now, and calls `handler` for what is received, in a separate thread."""
        ...

    def end(self) -> None:
        """Closes the connection."""
        ...


class IncompleteMessage(Exception):
    """A PDU that ends before the message in it begins."""


def read_deliver_sm(pdu: Any) -> GatewayMessage | None:
    """The receipt or reply in a PDU; None for what is not final, or a receipt without an id. Raises
    `IncompleteMessage`."""
    if pdu.esm_class is None:
        raise IncompleteMessage
    body = getattr(pdu, "message_payload", None) or pdu.short_message or b""
    if pdu.esm_class & MESSAGE_TYPE == INTERMEDIATE_NOTIFICATION:
        return None
    if pdu.esm_class & MESSAGE_TYPE == RECEIPT:
        return _receipt(pdu, body.decode("latin-1"))
    concatenation = _concatenation_of_parameters(pdu)
    if pdu.esm_class & USER_DATA_HEADER and body:
        header, body = body[1 : body[0] + 1], body[body[0] + 1 :]
        concatenation = _concatenation_of_header(header) or concatenation
    mobile, number, coding = _text(pdu.source_addr), _text(pdu.destination_addr), pdu.data_coding or 0
    if concatenation:
        return GatewayPart(mobile, number, body, coding, *concatenation)
    return GatewayReply(mobile, number, segments.decode(body, coding))


def _concatenation_of_header(header: bytes) -> Concatenation | None:
    """The concatenation in a user data header, whose elements are an identifier, a length and that many bytes (3GPP TS
    23.040, 9.2.3.24)."""
    while len(header) >= 2:
        identifier, length = header[0], header[1]
        data, header = header[2 : 2 + length], header[2 + length :]
        if CONCATENATION_ELEMENTS.get(identifier) == len(data):
            return _valid_concatenation(int.from_bytes(data[:-2], "big"), data[-2], data[-1])
    return None


def _concatenation_of_parameters(pdu: Any) -> Concatenation | None:
    """The concatenation in the optional parameters that some gateways use instead (SMPP 3.4, 5.3.2.22 to 24)."""
    reference, total, position = (getattr(pdu, f"sar_{name}", None) for name in PARAMETERS)
    return None if reference is None or not total or not position else _valid_concatenation(reference, total, position)


def _valid_concatenation(reference: int, total: int, position: int) -> Concatenation | None:
    """The concatenation. None for a text of one part, and for an impossible position: such a message is treated as a
    whole text."""
    return (reference, total, position) if total > 1 and 1 <= position <= total else None


def _receipt(pdu: Any, text: str) -> GatewayReceipt | None:
    """The text of receipts differs between gateways; missing parts may be in a parameter."""
    found_id, found_state = _ID.search(text), _STATE.search(text)
    gateway_id = found_id[1] if found_id else _text(getattr(pdu, "receipted_message_id", None))
    state = found_state[1].upper() if found_state else FINAL_STATES.get(getattr(pdu, "message_state", None) or 0, "")
    if not gateway_id:
        return None
    detail = text.strip() or f"stat:{state}"
    if state == "DELIVRD":
        return GatewayReceipt(gateway_id, "delivered", detail)
    return GatewayReceipt(gateway_id, "failed", detail) if state in FAILED_STATES else None


def _text(value: str | bytes | None) -> str:
    """A C string as the library returns it."""
    text = value.decode("latin-1") if isinstance(value, bytes) else value or ""
    return text.partition("\0")[0]
