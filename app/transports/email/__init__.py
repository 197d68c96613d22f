"""Mail: `email_transport` makes the transport that a URL describes, `mime.build` the message it carries."""

from app.transports.base import OutboundEmail, Transport
from app.transports.email.file import file_transport
from app.transports.email.smtp import smtp_transport
from app.transports.registry import transport_for

__all__ = ["email_transport"]


def email_transport(url: str) -> Transport[OutboundEmail]:
    """The transport for `EMAIL_TRANSPORT_URL` (contract: Settings); raises `TransportUrlError`."""
    return transport_for(url, {"file": file_transport, "smtp": smtp_transport, "smtps": smtp_transport})
