"""The text printed once the service runs: its addresses, its key, and how to send a first message."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select

from app.accounts.auth import hash_token
from app.console.sessions import link_url, make_link
from app.db.models import ApiKey, List, ListField, Message
from app.distribution import COMMAND_LINE, INSTALLED
from app.first_setup.first_send import curl
from app.infrastructure.startup_report import email_destination
from app.launcher.demo import Demo, kept_keys
from app.services import Services
from app.transports.urls import display_url

COMMANDS = COMMAND_LINE if INSTALLED else f".venv/bin/{COMMAND_LINE}"
RESET = "Password reset"
"""The message of the demo that must arrive."""


def screen(services: Services, demo: Demo | None) -> str:
    """The text. With the demo it contains the key and `curl` commands that work as printed."""
    settings = services.settings
    rows = [
        ("API", f"{settings.public_url}/v1/"),
        (
            "API key",
            demo.token if demo else f"one from your seed file, or: {COMMANDS} keys create --help",
        ),
        ("Mail goes to", email_destination(settings)),
        ("Texts go to", display_url(settings.sms_transport_url)),
        ("Data", str(settings.data_dir)),
    ]
    if demo:
        within = f"printed here within {settings.webhook_spacing:g} seconds"
        receiver = f"http://127.0.0.1:{demo.receiver_port}/events"
        rows.insert(4, ("Events go to", f"{receiver} (the demo's receiver, {within})"))
    lines = ["", "  The service is running. Ctrl-C stops it.", ""]
    lines += [f"  {name:<14}{value}" for name, value in rows]
    if demo and settings.console and not settings.exposed:
        lines += [
            "",
            "  Look around (this link signs in once, within five minutes):",
            "",
            f"  {_console_link(services)}",
        ]
    elif settings.console:
        lines += ["", f"  Look around, with the link from: {COMMANDS} console login --operator"]
    for title, body in _examples(services, demo) if demo else ():
        lines += ["", f"  {title}:", "", curl(settings.public_url, demo.token if demo else "", body)]
    if settings.require_https and settings.public_url.startswith("http://"):
        lines += ["", "  Requests over plain http are refused (ssl_required): put a proxy with TLS in front and set"]
        lines += ["  PUBLIC_URL and TRUSTED_PROXIES, or set REQUIRE_HTTPS=off to try it out."]
    if demo and settings.exposed:
        lines += [
            "",
            "  Others can reach this service, so the demo's published keys do not work here. This one was made at",
        ]
        lines += [f"  random for this installation; {kept_keys(settings)} keeps it."]
    return "\n".join([*lines, ""])


def _console_link(services: Services) -> str:
    """Signs in an operator, who sees all that there is."""
    with services.database.write() as transaction:
        token = make_link(transaction, None)
    return link_url(services.settings, token)


def _examples(services: Services, demo: Demo) -> Iterator[tuple[str, dict[str, object]]]:
    """Bodies of sends of the demo account to its first list, with what each shows: its first email message, which
    people may opt out of, and a message that must arrive (docs/sending.md). None of what was deleted."""
    account = select(ApiKey.account_id).where(ApiKey.token_hash == hash_token(demo.token)).scalar_subquery()
    emails = select(Message.id).where(Message.account_id == account, Message.type == "email").order_by(Message.id)
    addressable = select(ListField.list_id).where(ListField.type == "Email")
    first_list = select(List.id).where(List.account_id == account, List.system.is_(False), List.id.in_(addressable))
    with services.database.read() as session:
        first = session.scalar(emails.limit(1))
        reset = session.scalar(emails.where(Message.name == RESET).limit(1))
        list_id = session.scalar(first_list.order_by(List.id).limit(1))
    if list_id is None:
        return
    if first is not None:
        person = {"email": "you@example.com", "first_name": "You"}
        yield "Send a message", _body(list_id, first, "First steps", person)
    if reset is not None:
        person = {"email": "you@example.com", "reset_link": "https://acme.example/reset?token=9f2c7be014d85a36"}
        must_arrive = {"include_unsubscribed": True, "priority": "high", "secret_values": ["reset_link"]}
        body = {**_body(list_id, reset, "Password resets", person), **must_arrive}
        yield "Send a message that must arrive, also to people who have unsubscribed", body


def _body(list_id: int, message_id: int, group: str, person: dict[str, str]) -> dict[str, object]:
    named = {"type": "email", "list_id": list_id, "message_id": message_id, "group_name": group}
    return {**named, "recipients": [person]}
