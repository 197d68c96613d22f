"""The start screen: what a newcomer needs, without secrets."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from email import message_from_bytes, policy

import pytest
from sqlalchemy import select

from app import create_app
from app.db.models import Webhook
from app.launcher import screen as demos
from app.launcher.screen import Demo, screen
from app.routing.transports import create_transport
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.services import Services
from app.settings import Settings, parse_port
from tests.support.client import SENDS, Client


def printed_commands(text: str) -> list[list[str]]:
    """The words of each `curl` command on the screen."""
    return [
        shlex.split(f"curl {command}".split("\n\n")[0].replace("\\\n", "")) for command in text.split("  curl ")[1:]
    ]


def test_with_the_demo_it_shows_its_key_and_commands_to_copy(services: Services, demo: Demo) -> None:
    text = screen(services, demo)
    assert f"API key       {demo.token}\n" in text
    commands = printed_commands(text)
    assert len(commands) == 2
    for line in commands:
        assert line[:4] == [
            "curl",
            "http://127.0.0.1:8000/v1/transactional-sends",
            "-H",
            f"Authorization: Bearer {demo.token}",
        ]
    first, must_arrive = (json.loads(line[-1]) for line in commands)
    assert "include_unsubscribed" not in first
    assert (must_arrive["include_unsubscribed"], must_arrive["priority"]) == (True, "high")


def test_its_message_that_must_arrive_has_no_opt_out_and_keeps_its_link(services: Services, demo: Demo) -> None:
    """docs/sending.md#a-message-that-must-arrive, as the demo shows it."""
    client = Client(create_app(services.settings), demo.token)
    for line in printed_commands(screen(services, demo)):
        assert client.post(SENDS, json.loads(line[-1])).status_code == 202
    drain(services)
    close_sender_worker(services)
    mails = [
        message_from_bytes(file.read_bytes(), policy=policy.default)
        for file in (services.settings.data_dir / "mail").glob("*.eml")
    ]
    by_subject = {str(mail["Subject"]): mail for mail in mails}
    reset = by_subject.pop("Reset your password")
    (other,) = by_subject.values()
    assert (reset["List-Unsubscribe"], other["List-Unsubscribe-Post"]) == (None, "List-Unsubscribe=One-Click")
    assert "https://acme.example/reset?token=9f2c7be014d85a36" in reset.get_content()


def test_its_receiver_is_shown_by_the_url_that_names_its_webhook(services: Services, demo: Demo) -> None:
    with services.database.read() as session:
        url = session.scalars(select(Webhook.url)).one()
    assert f"Events go to  {url} (" in screen(services, demo)


def test_without_the_demo_no_key_is_shown(services: Services, demo: Demo) -> None:
    text = screen(services, None)
    assert demo.token not in text
    assert "curl" not in text


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://me:hunter2@mail.example:587", "smtp://mail.example:587"),
        (
            "smtp://me:hunter2@one.example:25, smtps://me:hunter2@[::1]:465?timeout=5,smtp://two.example",
            "smtp://one.example:25, else to smtps://[::1]:465, else to smtp://two.example",
        ),
    ],
)
def test_a_password_of_the_relay_is_not_shown(
    services: Services, settings: Settings, demo: Demo, url: str, expected: str
) -> None:
    relay = replace(services, settings=replace(settings, email_transport_url=url))
    text = screen(relay, demo)
    assert f"Mail goes to  {expected}\n" in text
    assert "hunter2" not in text


def test_the_relay_that_init_has_stored_is_shown(services: Services, demo: Demo) -> None:
    relay = {"name": "relay", "type": "email", "url": "smtp://me:hunter2@mail.example:587"}
    with services.database.write() as transaction:
        create_transport(transaction, services.settings.secret_keys, relay)
    assert "Mail goes to  smtp://mail.example:587\n" in screen(services, demo)


def test_the_port_of_the_receiver_is_kept_in_the_data_folder(settings: Settings) -> None:
    port = demos.read(settings).receiver_port
    assert demos.read(replace(settings, port=settings.port + 10)).receiver_port == port


@pytest.mark.parametrize("content", [b"", b"\xff", b"soon\n", b"70000\n"])
def test_a_port_that_cannot_be_read_is_chosen_anew(settings: Settings, content: bytes) -> None:
    """A loss of power may have emptied the file."""
    file = settings.data_dir / "receiver_port"
    file.write_bytes(content)
    port = demos.read(settings).receiver_port
    assert parse_port(file.read_text()) == port
    assert [path.name for path in settings.data_dir.iterdir() if path.name.startswith(".receiver_port")] == []


def test_it_warns_when_the_printed_command_would_be_refused(services: Services, demo: Demo) -> None:
    """An address that other machines can reach requires https, unless the operator allows http
    (docs/proxy.md#behind-a-proxy)."""
    everywhere = replace(services, settings=replace(services.settings, host="0.0.0.0", require_https=True))
    assert "REQUIRE_HTTPS=off" in screen(everywhere, demo)
    assert "REQUIRE_HTTPS" not in screen(services, demo)
    proxied = replace(everywhere, settings=replace(everywhere.settings, public_url="https://api.example.com"))
    assert "REQUIRE_HTTPS" not in screen(proxied, demo)
