"""The messages that `file://` transports have written into folders of this machine (docs/console.md#inbox).

A file has no account: it is found by the uuid of a message that somebody may see.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.console.content import TextMessage
from app.db.models import Recipient, Send
from app.errors import ServiceError
from app.sends.secret_values import may_have_secrets
from app.transports.email.read_mail import Mail, read_mail

PATH = "/console/inbox/folders"
MOST_BYTES = 64 * 1024 * 1024
"""Of a file that is read: more than the largest mail has."""
SUFFIXES = {"email": ".eml", "sms": ".json"}


def find_file(folders: Iterable[Path], message_type: str, uuid: str) -> Path | None:
    """The file of the message; None if there is none."""
    name = f"{uuid}{SUFFIXES[message_type]}"
    return next((path for folder in folders if (path := folder / name).is_file()), None)


def read_file(folders: Iterable[Path], message_type: str, uuid: str) -> Mail | TextMessage:
    """The message as it was written. Raises `not_found`."""
    path = find_file(folders, message_type, uuid)
    content = None if path is None else _content(path)
    found = None if content is None else _message(content, message_type)
    if found is None:
        raise ServiceError("not_found", detail="No folder of this machine has a file of this message.")
    return found


def check_secrets(session: Session, recipient: Recipient) -> None:
    """For who is no operator. Raises `permission_denied` for a message with secret values, which its file has, and for
    one whose content is purged, so that nobody knows any more whether it had some."""
    purged = session.scalar(select(Send.content_purged_time).where(Send.id == recipient.send_id))
    if may_have_secrets(recipient.values, purged):
        raise ServiceError("permission_denied", detail="The file may have secret values: operators alone see it.")


def _content(path: Path) -> bytes | None:
    """None for a file that was deleted meanwhile, or is none of a transport."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MOST_BYTES else None


def _message(content: bytes, message_type: str) -> Mail | TextMessage | None:
    if message_type == "email":
        return read_mail(content)
    try:
        fields = json.loads(content)
        return TextMessage(str(fields["from"]), str(fields["to"]), str(fields["text"]))
    except (ValueError, KeyError, TypeError):
        return None
