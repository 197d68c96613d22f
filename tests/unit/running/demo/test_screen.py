"""The start screen: what a newcomer needs, without secrets."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from app.launcher import demo as demos
from app.launcher.demo import Demo
from app.launcher.screen import screen
from app.services import Services
from app.settings import Settings


def test_with_the_demo_it_shows_its_key_and_a_command_to_copy(services: Services, demo: Demo) -> None:
    text = screen(services, demo)
    assert f"API key       {demo.token}\n" in text
    line = shlex.split(text[text.index("curl") :].replace("\\\n", ""))
    assert line[:4] == [
        "curl",
        "http://127.0.0.1:8000/v1/transactional-sends",
        "-H",
        f"Authorization: Bearer {demo.token}",
    ]
    assert json.loads(line[-1])["type"] == "email"


def test_without_the_demo_no_key_is_shown(services: Services, demo: Demo) -> None:
    text = screen(services, None)
    assert demo.token not in text
    assert "curl" not in text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("smtp://me:secret@mail.example:587", "smtp://mail.example:587"),
        (
            "smtp://me:secret@one.example:25, smtps://me:secret@[::1]:465?timeout=5,smtp://two.example",
            "smtp://one.example:25, else to smtps://[::1]:465, else to smtp://two.example",
        ),
    ],
)
def test_a_password_of_the_relay_is_not_shown(
    services: Services, settings: Settings, demo: Demo, url: str, shown: str
) -> None:
    relay = replace(services, settings=replace(settings, email_transport_url=url))
    text = screen(relay, demo)
    assert f"Mail goes to  {shown}\n" in text
    assert "secret" not in text


def test_the_port_of_the_receiver_is_kept_in_the_data_folder(settings: Settings) -> None:
    port = demos.read(settings).receiver_port
    assert demos.read(replace(settings, port=settings.port + 10)).receiver_port == port


def test_it_warns_when_the_printed_command_would_be_refused(services: Services, demo: Demo) -> None:
    """An address that other machines can reach requires https, unless the operator allows http
    (docs/operations.md#behind-a-proxy)."""
    everywhere = replace(services, settings=replace(services.settings, host="0.0.0.0", require_https=True))
    assert "REQUIRE_HTTPS=off" in screen(everywhere, demo)
    assert "REQUIRE_HTTPS" not in screen(services, demo)
    proxied = replace(everywhere, settings=replace(everywhere.settings, public_url="https://api.example.com"))
    assert "REQUIRE_HTTPS" not in screen(proxied, demo)
