"""The text printed once the service runs: its addresses, its key, and how to send a first message."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import select

from app.accounts.auth import hash_token, new_token
from app.accounts.keys import replace_token
from app.accounts.sessions import link_url, make_link
from app.db.models import ApiKey, List, ListField, Message
from app.distribution import COMMAND_LINE, INSTALLED
from app.first_setup.first_send import curl
from app.first_setup.reach import destination
from app.routing.transports import display_urls
from app.secret_keys import replace_file
from app.seed.read import read_file
from app.services import Services
from app.settings import Settings, SettingsError, parse_port

# The demo: its key, which the screen shows, and the receiver of its webhook on a loopback port.
#
# The receiver's port is part of the seeded webhook's URL, so it is chosen once per data folder and kept there.
#
# The keys of the seed file are published. If others can reach the service, they are replaced by random ones before the
# API starts, and no process accepts them (app/accounts/auth.py).

SEED = Path(__file__).parent.parent / "demo" / "seed.yaml"


@dataclass(frozen=True, slots=True)
class Demo:
    """The parts of the demo seed that the launcher needs."""

    token: str = field(repr=False)
    receiver_port: int
    receiver_secret: str = field(repr=False)
    published: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The tokens of the seed file: hash -> the key's name."""

    @property
    def substitutions(self) -> dict[str, str]:
        """The values of `${NAME}` in the seed file."""
        return {"RECEIVER_PORT": str(self.receiver_port)}


def read(settings: Settings) -> Demo:
    """The demo of this data folder. Raises `SettingsError` for a wrong `RECEIVER_PORT`."""
    account = read_file(SEED, {})["accounts"][0]
    key = next(key for key in account["keys"] if key["access_level"] == "standard")
    return Demo(
        token=key["token"],
        receiver_port=_receiver_port(settings),
        receiver_secret=account["webhooks"][0]["secrets"][0]["secret"],
        published={hash_token(key["token"]): key["name"] for key in account["keys"]},
    )


def loaded(services: Services, demo: Demo) -> Demo | None:
    """The demo with the key that is valid, the published one or the installation's own; None if the database has
    neither, or they are revoked."""
    kept_token = _read_keys(services.settings).get(demo.published.get(hash_token(demo.token), ""))
    in_force = select(ApiKey.id).where(ApiKey.revoked_time.is_(None), ApiKey.valid_until.is_(None))
    with services.database.read() as session:
        for token in filter(None, (kept_token, demo.token)):
            if session.scalar(in_force.where(ApiKey.token_hash == hash_token(token))) is not None:
                return replace(demo, token=token)
    return None


def replace_published_keys(services: Services, demo: Demo) -> int:
    """Replaces the published tokens of the demo's keys with random ones, which are stored in the data folder. Returns
    the number of replaced keys."""
    published = select(ApiKey).where(ApiKey.token_hash.in_(demo.published), ApiKey.revoked_time.is_(None))
    with services.database.write() as transaction:
        keys = list(transaction.scalars(published))
        if keys:
            tokens = {key.name: new_token() for key in keys}
            _keep_keys(services.settings, tokens)
            for key in keys:
                replace_token(transaction, key, tokens[key.name])
    return len(keys)


def kept_keys(settings: Settings) -> Path:
    """The file with the installation's own demo keys: name -> token."""
    return settings.data_dir / "demo_keys.json"


def _read_keys(settings: Settings) -> dict[str, str]:
    try:
        tokens: dict[str, str] = json.loads(kept_keys(settings).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise SettingsError(f"{kept_keys(settings)}: cannot be read: {error}") from None
    return tokens


def _keep_keys(settings: Settings, tokens: Mapping[str, str]) -> None:
    replace_file(kept_keys(settings), json.dumps({**_read_keys(settings), **tokens}, indent=2))


def _receiver_port(settings: Settings) -> int:
    """The port stored in the data folder; on the first start, or if it cannot be read, `RECEIVER_PORT`, the one after
    the API's, or any free one."""
    file = settings.data_dir / "receiver_port"
    fixed_port = _wanted_port()
    try:
        return parse_port(file.read_text())
    except (FileNotFoundError, ValueError):
        port = fixed_port or _free_port(settings.port + 1)
    replace_file(file, f"{port}\n")
    return port


def _wanted_port() -> int | None:
    text = os.environ.get("RECEIVER_PORT", "").strip()
    try:
        return parse_port(text) if text else None
    except ValueError as error:
        raise SettingsError(f"RECEIVER_PORT={text}: {error}") from None


def _free_port(preferred: int) -> int:
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return int(probe.getsockname()[1])
    return preferred


COMMANDS = COMMAND_LINE if INSTALLED else f".venv/bin/{COMMAND_LINE}"
RESET_MESSAGE = "Password reset"
"""The message of the demo that must arrive."""


def screen(services: Services, demo: Demo | None) -> str:
    """The text. With the demo it contains the key and `curl` commands that work as printed."""
    settings, rows = services.settings, _rows(services, demo)
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
            "  Others can reach this service, so the demo's published keys do not work here. This key was made at",
        ]
        lines += [f"  random for this installation; {kept_keys(settings)} keeps it."]
    return "\n".join([*lines, ""])


def _rows(services: Services, demo: Demo | None) -> list[tuple[str, str]]:
    """Where everything is, each with its name."""
    settings = services.settings
    with services.database.read() as session:
        mail, texts = (display_urls(destination(session, settings, type_)) for type_ in ("email", "sms"))
    rows = [
        ("API", f"{settings.public_url}/v1/"),
        (
            "API key",
            demo.token if demo else f"one from your seed file, or: {COMMANDS} keys create --help",
        ),
        ("Mail goes to", mail),
        ("Texts go to", texts),
        ("Data", str(settings.data_dir)),
    ]
    if settings.log_file:
        rows.append(("Log", settings.log_file))
    if demo:
        within = f"printed here within {settings.webhook_spacing:g} seconds"
        receiver = f"http://127.0.0.1:{demo.receiver_port}/events"
        rows.insert(4, ("Events go to", f"{receiver} (the demo's receiver, {within})"))
    return rows


def _console_link(services: Services) -> str:
    """Signs in an operator, who sees all that there is."""
    with services.database.write() as transaction:
        token = make_link(transaction, None)
    return link_url(services.settings.public_url, token)


def _examples(services: Services, demo: Demo) -> Iterator[tuple[str, dict[str, object]]]:
    """Bodies of sends of the demo account to its first list, with what each shows: its first email message, which
    people may opt out of, and a message that must arrive (docs/sending.md). None of what was deleted."""
    account = select(ApiKey.account_id).where(ApiKey.token_hash == hash_token(demo.token)).scalar_subquery()
    emails = select(Message.id).where(Message.account_id == account, Message.type == "email").order_by(Message.id)
    addressable = select(ListField.list_id).where(ListField.type == "Email")
    first_list = select(List.id).where(List.account_id == account, List.system.is_(False), List.id.in_(addressable))
    with services.database.read() as session:
        first = session.scalar(emails.limit(1))
        reset = session.scalar(emails.where(Message.name == RESET_MESSAGE).limit(1))
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
