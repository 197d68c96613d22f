"""The SSRF guard: URLs and addresses that webhooks may lead to (docs/webhooks.md#ssrf-guard)."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events.guarded_connection import ForbiddenAddress, check_addresses, is_public
from app.events.registration import check_url
from app.settings import Settings, from_environment
from tests.support.cases import each

PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
MAPPED = ipaddress.ip_network("::ffff:0:0/96")
NAT64 = ipaddress.ip_network("64:ff9b::/96")
NOT_PUBLIC = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "2001:db8::1",
    "2001::7f00:1",
    "2002:7f00:1::",
    "2002:808:808::",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]


@pytest.fixture
def strict(tmp_path: Path) -> Settings:
    return from_environment({"DATA_DIR": str(tmp_path)})


@pytest.fixture
def lenient(tmp_path: Path) -> Settings:
    return from_environment({"DATA_DIR": str(tmp_path), "WEBHOOK_ALLOW_PRIVATE": "on"})


@each("address", PUBLIC)
def test_public_addresses_are_accepted(address: str) -> None:
    assert is_public(address)


@each("address", NOT_PUBLIC)
def test_all_other_addresses_are_refused(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_within_ipv6_is_classified_alike(address: ipaddress.IPv4Address) -> None:
    mapped = ipaddress.IPv6Address(f"::ffff:{address}")
    translated = ipaddress.IPv6Address(int(ipaddress.IPv6Address("64:ff9b::")) + int(address))
    assert is_public(str(address)) == is_public(str(mapped)) == is_public(str(translated))


@given(st.ip_addresses())
def test_only_global_unicast_addresses_are_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if is_public(str(address)):
        assert address.is_global or address in NAT64 or address in MAPPED
        assert not address.is_multicast
        assert not address.is_loopback
        assert not address.is_link_local


def test_one_private_address_among_public_ones_is_refused() -> None:
    check_addresses("hooks.example.com", ["1.1.1.1", "2606:4700::1111"])
    with pytest.raises(ForbiddenAddress, match=r"leads to 10\.0\.0\.1 \(hooks\.example\.com\)"):
        check_addresses("hooks.example.com", ["1.1.1.1", "10.0.0.1"])


@pytest.mark.parametrize(
    "url",
    [
        "https://1.1.1.1/in",
        "https://1.1.1.1:8443/in?token=a%20b",
        "https://[2606:4700::1111]/",
    ],
)
def test_urls_that_can_be_registered(url: str, strict: Settings) -> None:
    check_url(url, strict)


def test_a_host_is_looked_up_in_its_ascii_form_and_an_unknown_host_can_be_registered(
    strict: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def unknown(host: str, *_args: object, **_options: object) -> list[object]:
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    check_url("https://hooks.acme.example/in", strict)
    check_url("https://Bücher.example/in", strict)
    assert asked == ["hooks.acme.example", "xn--bcher-kva.example"]


@each(
    "url",
    [
        "https://127.0.0.1/in",
        "https://127.1/in",
        "https://2130706433/in",
        "https://0x7f.0.0.1/in",
        "https://localhost/in",
        "https://[::1]/in",
        "https://[::ffff:169.254.169.254]/in",
        "https://169.254.169.254/latest/meta-data",
        "https://192.168.0.10:8443/in",
    ],
)
def test_urls_into_the_own_network_are_refused(url: str, strict: Settings, lenient: Settings) -> None:
    with pytest.raises(ForbiddenAddress, match="not a public address"):
        check_url(url, strict)
    check_url(url, lenient)


@each(
    ("url", "message"),
    [
        ("http://1.1.1.1/in", "must begin with https://"),
        ("ftp://1.1.1.1/in", "must begin with https://"),
        ("//1.1.1.1/in", "must begin with https://"),
        ("https://", "valid host and port"),
        ("https:///in", "valid host and port"),
        ("https://a..b/in", "valid host and port"),
        ("https://[::1/in", "valid host and port"),
        ("https://1.1.1.1:0/in", "valid host and port"),
        ("https://1.1.1.1:99999/in", "valid host and port"),
        ("https://1.1.1.1:x/in", "valid host and port"),
        ("1.1.1.1/in", "valid host and port"),
        ("", "valid host and port"),
        ("https://user:pass@1.1.1.1/in", "user, a password or a fragment"),
        ("https://1.1.1.1/in#part", "user, a password or a fragment"),
        ("https://1.1.1.1/a b", "without spaces"),
        ("https://1.1.1.1/a\r\nHost: x", "without spaces"),
        ("https://1.1.1.1/" + "a" * 2000, "at most 2000 characters"),
    ],
)
def test_malformed_urls_are_refused_with_one_line(url: str, message: str, strict: Settings, lenient: Settings) -> None:
    with pytest.raises(ForbiddenAddress, match=message) as caught:
        check_url(url, strict)
    assert "\n" not in str(caught.value)
    if not url.startswith("http:"):
        with pytest.raises(ForbiddenAddress):
            check_url(url, lenient)


def test_http_is_accepted_in_development_only(lenient: Settings) -> None:
    check_url("http://127.0.0.1:8001/in", lenient)
