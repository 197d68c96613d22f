"""Classification of visitors: the device of a person, or a machine."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from app.tracking.countries import country_name, country_of
from app.tracking.devices import MAX_AGENT_LENGTH, client_of
from tests.support.cases import each

IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148"
WINDOWS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"
)


@each(
    ("agent", "type_", "name"),
    [
        (IPHONE, "mobile", "iPhone"),
        (WINDOWS, "desktop", "Windows"),
        ("Mozilla/5.0 (iPad; CPU OS 16_0 like Mac OS X) AppleWebKit/605.1.15", "tablet", "iPad"),
        (
            "Mozilla/5.0 (Linux; Android 13; SM-S901B) AppleWebKit/537.36 Chrome/112.0 Mobile Safari/537.36",
            "mobile",
            "Samsung SM-S901B",
        ),
        (
            "Mozilla/5.0 (Linux; Android 12; SM-X906C) AppleWebKit/537.36 Chrome/80 Safari/537.36",
            "tablet",
            "Samsung SM-X906C",
        ),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.0 Safari", "desktop", "Mac"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0", "desktop", "Linux"),
        ("Thunderbird/115.0", "other", "Thunderbird"),
        ("python-requests/2.32", "other", "Python Requests"),
        ("Something new", "other", None),
        ("", None, None),
    ],
)
def test_devices_of_people(agent: str, type_: str | None, name: str | None) -> None:
    client = client_of("GET", {"User-Agent": agent})
    assert (client.machine, client.device_type, client.device_name) == (False, type_, name)


@pytest.mark.parametrize(
    "agent",
    [
        "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)",
        "YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html",
    ],
)
def test_providers_that_fetch_for_a_reading_person(agent: str) -> None:
    """The user agent of such a provider does not describe the person's device."""
    client = client_of("GET", {"User-Agent": agent})
    assert (client.machine, client.proxied, client.device_type, client.device_name) == (False, True, None, None)


@each(
    "agent",
    [
        "Mozilla/5.0",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; BingPreview/1.0b)",
        "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
        "facebookexternalhit/1.1",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/120.0.0.0 Safari/537.36",
        "BarracudaCentral",
        "Mozilla/5.0 (compatible; Proofpoint URL Defense)",
    ],
)
def test_machines_are_recognised(agent: str) -> None:
    assert client_of("GET", {"User-Agent": agent}).machine


@pytest.mark.parametrize(
    "headers", [{"Purpose": "prefetch"}, {"Sec-Purpose": "prefetch;prerender"}, {"X-Moz": "prefetch"}]
)
def test_a_prefetched_page_is_no_visit_of_a_person(headers: dict[str, str]) -> None:
    assert client_of("GET", {"User-Agent": WINDOWS, **headers}).machine
    assert client_of("HEAD", {"User-Agent": WINDOWS}).machine


def test_user_agents_are_truncated() -> None:
    """Line breaks and repeated white space are removed."""
    agent = client_of("GET", {"User-Agent": "a\tb \0 " + "c" * 1000}).agent
    assert agent.startswith("a b ccc")
    assert len(agent) <= MAX_AGENT_LENGTH


@each(
    ("address", "country"),
    [
        ("8.8.8.8", "US"),
        ("1.1.1.1", "AU"),
        ("2001:4860:4860::8888", "US"),
        ("127.0.0.1", None),
        ("10.1.2.3", None),
        ("203.0.113.5", None),
        ("::1", None),
    ],
)
def test_countries_are_looked_up(address: str, country: str | None) -> None:
    """In the table that comes with the service; addresses that are not public have no country."""
    assert country_of("", ip_address(address)) == country


def test_countries_have_names() -> None:
    """The code stands for a country that the table of names lacks."""
    assert [country_name(code) for code in ("AU", "AX", "XK", "?")] == ["Australia", "Åland Islands", "XK", "?"]


def test_a_local_socket_has_no_country() -> None:
    assert country_of("", None) is None


def test_another_table_can_be_configured(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One that cannot be read is logged, and no country is known."""
    broken = tmp_path / "countries.mmdb"
    broken.write_bytes(b"no database")
    assert country_of(str(broken), ip_address("8.8.8.8")) is None
    assert "cannot look up the country" in caplog.text
