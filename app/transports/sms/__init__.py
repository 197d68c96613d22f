"""Text messages: `sms_transport` makes the transport that a URL describes."""

from app.transports.base import OutboundSms, Transport
from app.transports.registry import transport_for
from app.transports.sms.file import file_transport

__all__ = ["sms_transport"]


def sms_transport(url: str) -> Transport[OutboundSms]:
    """The transport for `SMS_TRANSPORT_URL` (contract: Settings); raises `TransportUrlError`."""
    return transport_for(url, {"file": file_transport})
