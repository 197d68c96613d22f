"""Files that name a person: messages in the folders of `file://` transports, and journals of senders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sqlalchemy.orm import Session

from app.privacy.person import Person
from app.routing.transports import transport_urls
from app.sends.outcomes.attempt_result import read_journals
from app.services import Services
from app.settings import Settings
from app.transports.base import TransportUrlError
from app.transports.email import relay_urls
from app.transports.urls import folder_path

FILE_NAMES = ("{}.eml", "{}-bcc.eml", "{}.json")
"""What transports call the files of the message with a uuid."""


def message_folders(services: Services) -> list[Path]:
    """The folders of this machine that messages are written to."""
    with services.database.read() as session:
        return folders_of_transports(session, services.settings)


def folders_of_transports(session: Session, settings: Settings) -> list[Path]:
    """The folders of this machine that messages are written to, read in a session."""
    named = transport_urls(session, settings.secret_keys)
    urls = [*relay_urls(settings.email_transport_url), settings.sms_transport_url, *named]
    return list(dict.fromkeys(_folders(urls)))


def _folders(urls: Iterable[str]) -> Iterator[Path]:
    for url in urls:
        if url.strip().startswith("file:"):
            try:
                yield folder_path(url.strip())
            except TransportUrlError:
                continue


def files_of(folders: Iterable[Path], uuid: str) -> list[Path]:
    """The files of the recipient with that uuid."""
    paths = (folder / name.format(uuid) for folder in folders for name in FILE_NAMES)
    return [path for path in paths if path.is_file()]


def journals_naming(services: Services, person: Person) -> list[str]:
    """The names of this machine's journals that have a result of the person's: they are emptied as soon as the results
    are in the database."""
    journals = read_journals(services.settings)
    return [name for name, lines in journals if person.is_named_in(lines.decode("utf-8", "replace"))]
