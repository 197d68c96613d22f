"""SMS transports: `sms_transport` creates the transport of a URL."""

from collections.abc import Callable

from app.transports.base import OutboundSms, Transport
from app.transports.registry import transport_for
from app.transports.sms.file import file_transport
from app.transports.sms.kannel import kannel_transport
from app.transports.sms.smpp import smpp_transport

__all__ = ["sms_transport"]


def sms_transport(url: str) -> Transport[OutboundSms]:
    """The transport for `SMS_TRANSPORT_URL` (docs/sms.md#gateways); raises `TransportUrlError`."""
    built_in: dict[str, Callable[[str], Transport[OutboundSms]]] = {
        "file": file_transport,
        "smpp": smpp_transport,
        "smpps": smpp_transport,
        "kannel+http": kannel_transport,
        "kannel+https": kannel_transport,
    }
    return transport_for(url, built_in)
