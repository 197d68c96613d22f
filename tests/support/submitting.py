"""Applications that submit mail by SMTP, and the listener that takes it."""

from __future__ import annotations

import asyncio
import smtplib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.accounts.auth import KeyUses
from app.sends.delivery.drain import drain
from app.services import Services
from app.submission.listener import SubmissionListener
from tests.support.asyncio_servers import in_thread
from tests.support.servers import PATIENCE
from tests.support.tenants import Tenant, unique

Reply = tuple[int, str]


def listening(services: Services, host: str = "127.0.0.1", **overrides: Any) -> AbstractContextManager[int]:
    """The port of a listener that runs in a thread, with these settings."""
    changed = replace(services, settings=replace(services.settings, **overrides))

    async def server() -> asyncio.Server:
        listener = SubmissionListener(changed, KeyUses(changed.database))
        await listener.listen(host, 0)
        return listener.servers[0]

    return in_thread(server())


@dataclass
class Application:
    """A program that has logged in with a key and sends mail from a domain of the account."""

    client: smtplib.SMTP
    sender: str

    def submit(self, mail: EmailMessage | bytes | str, *to: str, sender: str | None = None) -> Reply:
        """The answer to a mail; that to MAIL or RCPT if it is refused there."""
        raw = mail.as_bytes(policy=policy.SMTP) if isinstance(mail, EmailMessage) else mail
        raw = raw.replace("\n", "\r\n").encode() if isinstance(raw, str) else raw
        replies = [self.client.mail(sender or self.sender), *(self.client.rcpt(address) for address in to)]
        refused = next((answer for answer in replies if answer[0] >= 400), None)
        code, text = refused or self.client.data(raw)
        if refused:
            self.client.rset()
        return code, text.decode()

    def uuids(self, mail: EmailMessage | bytes | str, *to: str) -> list[str]:
        """The uuids of an accepted mail."""
        code, text = self.submit(mail, *to)
        assert code == 250, text
        return [line.partition(" ")[2] for line in text.splitlines()]


@contextmanager
def logged_in(port: int, tenant: Tenant, level: str = "standard") -> Iterator[Application]:
    """An application of the account with a key of that level."""
    with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
        client.login("apikey", tenant.tokens[level])
        yield Application(client, f"app@{tenant.domain}")


def mail(tenant: Tenant, list_id: int | None = None, **fields: str) -> EmailMessage:
    """A mail with a text body; further fields by their names, with `_` in place of `-`."""
    message = EmailMessage()
    names = {name.replace("_", "-") for name in fields}
    defaults = {"From": f"Acme <hello@{tenant.domain}>", "Subject": "Hello", "Message-ID": f"<{unique()}@app.example>"}
    for name, value in {**defaults, **{name.replace("_", "-"): value for name, value in fields.items()}}.items():
        message[name] = value
    if list_id is not None and "X-TMS-List" not in names:
        message["X-TMS-List"] = str(list_id)
    message.set_content("Hello, 100%% %%first_name%% of it.\n")
    return message


def delivered(tenant: Tenant, uuid: str) -> EmailMessage:
    """The mail of a recipient, once it has left to the folder of the transport."""
    return message_from_bytes(delivered_bytes(tenant, uuid), policy=policy.default)


def delivered_bytes(tenant: Tenant, uuid: str) -> bytes:
    drain(tenant.services)
    folder = Path(urlsplit(tenant.services.settings.email_transport_url).path)
    return (folder / f"{uuid}.eml").read_bytes()


def columns_of(rows: Sequence[Any], *names: str) -> list[tuple[Any, ...]]:
    """These columns of rows."""
    return [tuple(getattr(row, name) for name in names) for row in rows]
