"""Mail into a folder: one `<uuid>.eml` per message; a blind copy has the uuid `<uuid>-bcc`."""

from __future__ import annotations

from dataclasses import dataclass

from app.transports.base import DeliveryResult, OutboundEmail, SharedConnection
from app.transports.folder import Folder
from app.transports.urls import folder_path


@dataclass(frozen=True, slots=True)
class MailFolder(SharedConnection):
    """The folder: there is nothing to open or close."""

    folder: Folder

    def send(self, message: OutboundEmail) -> DeliveryResult:
        """Writes the message; a folder that cannot be written to is a deferral."""
        try:
            self.folder.write(f"{message.uuid}.eml", message.content)
        except OSError as error:
            note = f"cannot write to {self.folder.path}: {error.strerror}"
            return DeliveryResult.deferred("the mail cannot be stored", "4.3.0", note=note)
        return DeliveryResult.accepted("stored", "2.0.0", note=f"written to {self.folder.path}")


def file_transport(url: str) -> MailFolder:
    """The transport of a `file:///folder` URL; raises `TransportUrlError`."""
    return MailFolder(Folder(folder_path(url)))
