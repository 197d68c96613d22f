"""Text messages into a folder: one `<uuid>.json` per message (docs/transports.md#folders)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from app.transports.base import DeliveryResult, OutboundSms, SharedConnection
from app.transports.folder import Folder
from app.transports.sms.segments import count_segments
from app.transports.urls import folder_path


@dataclass(frozen=True, slots=True)
class SmsFolder(SharedConnection):
    """The folder: there is nothing to open or close."""

    folder: Folder

    def send(self, message: OutboundSms) -> DeliveryResult:
        """Writes the message; a folder that cannot be written to is a deferral."""
        segments = count_segments(message.text)
        try:
            self.folder.write(f"{message.uuid}.json", _content(message, segments))
        except OSError as error:
            note = f"cannot write to {self.folder.path}: {error.strerror}"
            return DeliveryResult.deferred("the text cannot be stored", note=note)
        return DeliveryResult.accepted("stored", segments=segments, note=f"written to {self.folder.path}")


def file_transport(url: str) -> SmsFolder:
    """The transport of a `file:///folder` URL; raises `TransportUrlError`."""
    return SmsFolder(Folder(folder_path(url)))


def _content(message: OutboundSms, segments: int) -> bytes:
    fields = {
        "uuid": message.uuid,
        "from": message.sender,
        "to": message.to,
        "text": message.text,
        "segments": segments,
    }
    # A lone surrogate cannot be encoded in UTF-8; replacing it by a question mark is better than a message that cannot
    # be sent.
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode("utf-8", "replace")
