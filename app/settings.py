"""Settings: one frozen object from environment variables, validated at the start.

Each field of `Settings` is a row of the documented table (docs/settings.md is generated from it): the variable, which
is the field's name in capitals, its default, and its meaning. An invalid value stops the start with a one-line error.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import ipaddress
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from app.distribution import default_data_dir
from app.mounts import network_kind
from app.private_folder import UMASK, make_private
from app.redis_urls import SENTINEL_SCHEME, SentinelUrl
from app.roles import RoleRule, parse_roles
from app.secret_keys import LEAST_LENGTH, SecretKeys, all_keys, generated_key, parse_keys

SWITCHES = {"1": True, "on": True, "true": True, "yes": True, "0": False, "off": False, "false": False, "no": False}
RATE = re.compile(r"([0-9]{1,9})/(second|minute|hour)")
EMBEDDED_REDIS = ("path", "wheel", "python")
SECONDS = {"second": 1, "minute": 60, "hour": 3600}
RETENTION = re.compile(r"([1-9][0-9]{0,3})([hdw])")
UNITS_OF_RETENTION = {"h": "hours", "d": "days", "w": "weeks"}
LARGEST_PORT = 65535
LONGEST_SOCKET_PATH = 100
LONGEST_SQLITE_PATH = 500
"""SQLite opens no file with a path of more than 512 bytes, and appends suffixes to it."""


class SettingsError(Exception):
    """An invalid value of a setting; the text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` requests in each window of `seconds`."""

    count: int
    seconds: int


def parse_switch(text: str) -> bool:
    """`1 0 on off true false yes no`, in any case."""
    try:
        return SWITCHES[text.strip().lower()]
    except KeyError:
        raise ValueError("must be one of 1, 0, on, off, true, false, yes, no") from None


def parse_choice(*choices: str) -> Callable[[str], str]:
    """A parser that takes one of these texts."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def parse_rate(text: str) -> Rate | None:
    """`N/second`, `N/minute`, `N/hour`; None for `off`."""
    text = text.strip().lower()
    if text == "off":
        return None
    match = RATE.fullmatch(text)
    if not match or int(match[1]) == 0:
        raise ValueError("must be N/second, N/minute, N/hour or off")
    return Rate(int(match[1]), SECONDS[match[2]])


def parse_retention(text: str) -> timedelta | None:
    """A number of hours, days or weeks, such as `12h`, `7d` or `4w`; None for `off`: kept for ever."""
    text = text.strip().lower()
    if text == "off":
        return None
    match = RETENTION.fullmatch(text)
    if not match:
        raise ValueError("must be a number of hours, days or weeks such as 12h, 7d or 4w, or off")
    return timedelta(**{UNITS_OF_RETENTION[match[2]]: int(match[1])})


def parse_period(text: str) -> timedelta:
    """A number of hours, days or weeks, such as `12h`."""
    period = parse_retention(text)
    if period is None:
        raise ValueError("must be a number of hours, days or weeks such as 12h, 7d or 4w")
    return period


def parse_whole(least: int) -> Callable[[str], int]:
    """A parser of whole numbers of at least `least`."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", text.strip()) or int(text) < least:
            raise ValueError(f"must be a whole number of {least} or more")
        return int(text)

    return parse


def parse_limit(text: str) -> int | None:
    """A whole number of at least 1; None for `off`: no limit."""
    return None if text.strip().lower() == "off" else parse_whole(1)(text)


def parse_seconds(text: str) -> float:
    """A number of seconds, 0 or more."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", text.strip()):
        raise ValueError("must be a number of seconds, such as 10 or 0.5")
    return float(text)


def parse_some_seconds(text: str) -> float:
    """A number of seconds above 0."""
    seconds = parse_seconds(text)
    if not seconds:
        raise ValueError("must be a number of seconds above 0")
    return seconds


def parse_port(text: str) -> int:
    """The number of a TCP port."""
    port = int(text) if re.fullmatch(r"[0-9]{1,5}", text.strip()) else 0
    if not 1 <= port <= LARGEST_PORT:
        raise ValueError(f"must be a whole number from 1 to {LARGEST_PORT}")
    return port


def _split(url: str) -> SplitResult:
    """Splits a URL. The errors of `urlsplit` itself may quote part of a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(
            "has no valid host and port (special characters of user and password are written as %xx)"
        ) from None
    return parts


def parse_database_url(text: str) -> str:
    """Any SQLAlchemy URL for SQLite or PostgreSQL; plain `postgresql://` is taken as psycopg's."""
    for plain in ("postgresql://", "postgres://"):
        if text.startswith(plain):
            text = "postgresql+psycopg://" + text[len(plain) :]
    if not text.startswith(("postgresql+psycopg://", "sqlite:///")):
        raise ValueError("must begin with postgresql+psycopg://, postgresql:// or sqlite:///")
    if text.removeprefix("sqlite:///") in ("", ":memory:"):
        raise ValueError("must name a file, which all processes share, as in sqlite:////var/lib/tms.sqlite3")
    _split(text)
    return text


def parse_read_url(text: str) -> str:
    """A URL of PostgreSQL."""
    if text.startswith("sqlite"):
        raise ValueError("must name a replica of PostgreSQL: a file of SQLite has none")
    return parse_database_url(text)


def parse_redis_url(text: str) -> str:
    """`redis://`, `rediss://`, `unix://`, or the Sentinels of a service: `redis+sentinel://`."""
    if text.startswith(SENTINEL_SCHEME):
        SentinelUrl.parse(text)
        return text
    if not text.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("must begin with redis://, rediss://, unix:// or redis+sentinel://")
    _split(text)
    return text


def parse_public_url(text: str) -> str:
    """An absolute http or https URL, kept without a slash at its end."""
    parts = _split(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https URL")
    return text.rstrip("/")


def parse_name_server(text: str) -> str:
    """`address` or `address:port`, returned as `address:port`; an IPv6 address with a port in brackets."""
    port = "[0-9]{1,5}"
    match = re.fullmatch(rf"\[(?P<six>[^\]]+)\](?::(?P<port6>{port}))?|(?P<four>[^:]+)(?::(?P<port4>{port}))?", text)
    try:
        address = ipaddress.ip_address((match["six"] or match["four"]) if match else text)
    except ValueError:
        raise ValueError("must be an IP address, or address:port") from None
    number = int((match and (match["port6"] or match["port4"])) or 53)
    if not 0 < number < 65536:
        raise ValueError("must have a port from 1 to 65535")
    return f"{_bracketed(str(address))}:{number}"


def parse_domain(text: str) -> str:
    """A domain name in its ASCII form, kept in lower case."""
    if not re.fullmatch(r"(?!.{254})([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]", text.lower()):
        raise ValueError("must be a domain name such as bounces.example.com")
    return text.lower()


def parse_hosts(text: str) -> tuple[str, ...]:
    """Names or IP addresses of hosts, separated by commas, in the form in which requests name them."""
    hosts = tuple(plain_host(host.strip()) for host in text.split(","))
    if not all(hosts):
        raise ValueError("must be host names or IP addresses without scheme and port, separated by commas")
    return hosts


def plain_host(text: str) -> str:
    """The form in which hosts are compared: lower-case ASCII without a dot at the end, addresses without brackets.
    Empty for what is neither a name nor an address."""
    name = text.lower().removesuffix(".")
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name))
    with contextlib.suppress(UnicodeError):
        name = name if name.isascii() else name.encode("idna").decode("ascii")
    return name if re.fullmatch(r"(?!.{254})[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", name) else ""


def parse_listen(text: str) -> tuple[str, int]:
    """`host:port`, an IPv6 address in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise ValueError("must be host:port, such as 127.0.0.1:8024")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_url_secret(text: str) -> str:
    """A secret for use in a URL."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{16,128}", text):
        raise ValueError("must have 16 to 128 letters, digits, _ or -")
    return text


def parse_secret(text: str) -> str:
    """A secret of another service, of visible ASCII characters."""
    if not re.fullmatch(r"[!-~]{16,200}", text):
        raise ValueError("must have 16 to 200 visible ASCII characters")
    return text


def parse_issuer(text: str) -> str:
    """The issuer of an OpenID Connect provider, kept as it is written: tokens name it in the same way."""
    parts = _split(text)
    has_scheme = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not has_scheme or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            "must be the https URL of a provider such as https://id.example.com/realms/staff, without user and query; "
            "http only on a loopback host"
        )
    return text


def parse_visible(text: str) -> str:
    """A text that another service has chosen."""
    if not re.fullmatch(r"[!-~]{1,500}", text):
        raise ValueError("must have 1 to 500 visible ASCII characters, without spaces")
    return text


def parse_name(text: str) -> str:
    """A short text that people read."""
    if not text.isprintable() or len(text) > 60:
        raise ValueError("must be a text of at most 60 characters on one line")
    return text


def parse_scopes(text: str) -> str:
    """Scopes of OpenID Connect, separated by spaces."""
    scopes = text.split()
    if "openid" not in scopes or not all(re.fullmatch(r"[!#-\[\]-~]{1,200}", scope) for scope in scopes):
        raise ValueError("must be scopes separated by spaces, openid among them")
    return " ".join(scopes)


def parse_topics(text: str) -> tuple[str, ...]:
    """ARNs of topics of Amazon SNS, separated by commas."""
    topics = tuple(topic.strip() for topic in text.split(","))
    arn = r"arn:(?:aws|aws-cn|aws-us-gov):sns:[a-z]{2}(?:-[a-z]{2,12}){1,3}-[0-9]{1,2}:[0-9]{12}:[A-Za-z0-9_-]{1,256}"
    if not all(re.fullmatch(arn, topic) for topic in topics):
        raise ValueError("must be ARNs of topics such as arn:aws:sns:eu-west-1:123456789012:mail, separated by commas")
    return topics


def parse_file(text: str) -> str:
    """A file that exists."""
    if not Path(text).is_file():
        raise ValueError("must be a file")
    return text


def parse_traces_url(text: str) -> str:
    """The URL of an OpenTelemetry collector. The libraries are an extra of the package."""
    parts = _split(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be the http or https URL of a collector, such as http://127.0.0.1:4318/v1/traces")
    if not _has("opentelemetry.sdk") or not _has("opentelemetry.exporter.otlp.proto.http"):
        raise ValueError("needs the OpenTelemetry libraries: install the extra `otel` of the package")
    return text


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it
        return False


def parse_ratio(text: str) -> float:
    """A part of all, 0 to 1."""
    if not re.fullmatch(r"0?\.[0-9]{1,9}|[01](\.0+)?", text.strip()):
        raise ValueError("must be a number from 0 to 1, such as 0.1")
    return float(text)


def _setting(
    default: Any,
    meaning: str,
    parse: Callable[[str], Any] = str,
    default_text: str | None = None,
    *,
    secret: bool = False,
    former: tuple[str, str] | None = None,
) -> Any:
    """A field of the table. The documentation shows `default_text` for a computed default. The value of a `secret`
    setting, which may contain a password or a key, appears in no error text and in no `repr`. `former` is the variable
    that it was read from in earlier releases, with the unit of its number."""
    metadata = {"parse": parse, "meaning": meaning, "shown": default_text, "secret": secret, "former": former}
    return field(default=default, repr=not secret, metadata=metadata)


def _secret(meaning: str, parse: Callable[[str], Any] = str, default_text: str | None = None) -> Any:
    """A secret setting that is not set by default."""
    return _setting("", meaning, parse, default_text, secret=True)


def _retention(default: str, meaning: str, former: tuple[str, str] | None = None) -> Any:
    """How long something is kept (docs/retention.md)."""
    return _setting(parse_retention(default), meaning, parse_retention, f"`{default}`", former=former)


def variable_of(setting: Field[Any]) -> str:
    """The environment variable of a setting."""
    return setting.name.upper()


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. Times are in seconds, sizes in bytes."""

    host: str = _setting("127.0.0.1", "address that the API listens on")
    port: int = _setting(8000, "port that the API listens on", parse_port)
    data_dir: Path = _setting(
        default_data_dir(),
        "folder of the SQLite file, the embedded Redis, the journals, the `file://` transports and the secret",
        Path,
        "`var`; [installed](install.md), `/var/lib/tms` for root and `~/.local/share/tms` for others",
    )
    web_workers: int = _setting(2, "API processes", parse_whole(1))
    web_threads: int = _setting(4, "threads in each API process", parse_whole(1))
    send_workers: int = _setting(1, "sender processes that `make run` or `tms run` starts", parse_whole(1))
    send_connections: int = _setting(
        4, "connections to the mail relay or gateway that one worker uses at once", parse_whole(1)
    )
    relay_connections: int | None = _setting(
        None,
        "connections to the mail relay and gateway of these settings that all workers of all hosts use together",
        parse_limit,
        "off",
    )
    web_connections: int = _setting(
        4000,
        "connections that one API process keeps open at once; above that, the address with the most connections loses "
        "the one that has waited longest for its client",
        parse_whole(10),
    )
    web_buffer_bytes: int = _setting(
        256 * 1024 * 1024,
        "bytes of requests and unread responses that one API process holds, at most a quarter of them in memory and "
        "the others in temporary files; above that, connections of the address that holds the most are closed",
        parse_whole(1024 * 1024),
    )
    header_seconds: float = _setting(
        10.0,
        "seconds in which the whole header of a request must arrive, counted from the start of the connection, or on "
        "a kept connection from its first byte",
        parse_some_seconds,
    )
    body_seconds: float = _setting(
        30.0,
        "seconds in which a body must arrive and a response be read, plus the time that `LEAST_RATE` allows; also the "
        "longest time without a byte",
        parse_some_seconds,
    )
    least_rate: int = _setting(32 * 1024, "lowest accepted rate of a client, in bytes per second", parse_whole(1))
    keepalive_seconds: float = _setting(
        65.0,
        "seconds for which a connection is kept after a response; choose more than a proxy in front does",
        parse_some_seconds,
    )
    queue_seconds: float = _setting(
        5.0,
        "seconds for which a request waits for a free thread before it is refused with `service_unavailable`",
        parse_some_seconds,
    )
    seed: str = _setting("", "seed file of the first start of `make run`", default_text="the demo")
    database_url: str = _secret(
        "SQLAlchemy URL of SQLite or PostgreSQL (`postgresql+psycopg://…`; `postgresql://` means the same)",
        parse_database_url,
        "SQLite file in `DATA_DIR`",
    )
    database_read_url: str = _secret(
        "a replica of PostgreSQL from which [reports](databases.md#a-replica-for-reports) are read",
        parse_read_url,
        "off",
    )
    database_pool: int = _setting(10, "PostgreSQL connections that one process keeps at most", parse_whole(1))
    redis_url: str = _secret(
        "Redis or Valkey, or its Sentinels", parse_redis_url, "`make run` starts its own, data in `DATA_DIR`"
    )
    embedded_redis: str = _setting(
        "",
        "which Redis `make run` starts without `REDIS_URL`: `path` (redis-server or valkey-server on the PATH), "
        "`wheel` (the one that comes with the dependencies) or `python` (one in Python, for development)",
        parse_choice(*EMBEDDED_REDIS),
        "the first of these that is available",
    )
    email_transport_url: str = _secret(
        "mail relays, separated by commas: `smtp://user:pass@host:port`, `smtps://…`; or `file:///folder`",
        default_text="`file://` folder `mail` in `DATA_DIR`",
    )
    sms_transport_url: str = _secret(
        "SMS gateway: `smpp://user:pass@host:port`, `smpps://…`, `kannel+http://user:pass@host:port/cgi-bin/sendsms`, "
        "`file:///folder`",
        default_text="`file://` folder `sms` in `DATA_DIR`",
    )
    public_url: str = _secret("base of links to this service", parse_public_url, "`http://HOST:PORT`")
    bounce_domain: str = _setting(
        "",
        "domain of the return path of emails, whose mail is delivered to this service ([inbound mail](inbound.md))",
        parse_domain,
        "the domain of the from address",
    )
    inbound_listen: tuple[str, int] | None = _setting(
        None, "`host:port` on which reports about emails are received by SMTP and LMTP", parse_listen, "off"
    )
    inbound_max_bytes: int = _setting(
        32 * 1024 * 1024, "largest email that is accepted by `INBOUND_LISTEN`", parse_whole(1024)
    )
    submission_listen: tuple[str, int] | None = _setting(
        None,
        "`host:port` on which applications [send by SMTP](smtp-submission.md); a host that is not loopback needs "
        "`SUBMISSION_CERTIFICATE`",
        parse_listen,
        "off",
    )
    submission_tls: str = _setting(
        "starttls",
        "`starttls`, or `tls` for TLS from the first byte, as on port 465",
        parse_choice("starttls", "tls"),
    )
    submission_certificate: str = _setting(
        "",
        "PEM file with the certificate of `SUBMISSION_LISTEN` and its chain, read again when it changes",
        default_text="none: no TLS",
    )
    submission_key: str = _setting(
        "", "PEM file with the key of that certificate", default_text="in the file of the certificate"
    )
    submission_max_bytes: int = _setting(
        20 * 1024 * 1024, "largest email that is accepted by `SUBMISSION_LISTEN`", parse_whole(1024)
    )
    sendgrid_webhook_secret: str = _secret(
        "secret in the URL to which SendGrid posts its events, `PUBLIC_URL/inbound/sendgrid/SECRET`",
        parse_url_secret,
        "off",
    )
    postmark_webhook_secret: str = _secret(
        "secret that Postmark sends with its events, as password or at the end of the URL "
        "([relay hooks](relay-hooks.md#postmark))",
        parse_url_secret,
        "off",
    )
    mailgun_signing_key: str = _secret(
        "key by which Mailgun signs its events ([relay hooks](relay-hooks.md#mailgun))", parse_secret, "off"
    )
    sparkpost_webhook_secret: str = _secret(
        "secret that SparkPost sends with its events, as password or bearer token "
        "([relay hooks](relay-hooks.md#sparkpost))",
        parse_url_secret,
        "off",
    )
    ses_topics: tuple[str, ...] = _setting(
        (),
        "ARNs of the topics of Amazon SNS to which Amazon SES publishes its events, separated by commas "
        "([relay hooks](relay-hooks.md#amazon-ses))",
        parse_topics,
        "off",
    )
    require_https: bool = _setting(
        False,
        "refuse plain http with `ssl_required`",
        parse_switch,
        "off when `PUBLIC_URL` is a loopback http address, else on",
    )
    trusted_proxies: int = _setting(0, "proxies in front whose `X-Forwarded-*` headers are trusted", parse_whole(0))
    secret_key: str = _secret(
        "signs tokens and encrypts stored secrets; the same for all processes, 32 characters or more",
        default_text="generated once into `DATA_DIR`",
    )
    secret_key_fallbacks: SecretKeys = _setting(
        (),
        "keys that `SECRET_KEY` had before, or will have, separated by commas: they verify tokens and decrypt stored "
        "secrets ([rotation](secrets.md#rotating-secret_key))",
        parse_keys,
        "none",
        secret=True,
    )
    webhook_spacing: float = _setting(10.0, "seconds between the starts of two batches of one webhook", parse_seconds)
    webhook_allow_private: bool = _setting(
        False, "webhooks may use http and reach non-global addresses (development)", parse_switch
    )
    webhook_expiry: int = _setting(
        86400, "seconds after its first failed attempt at which an event is dropped", parse_whole(1)
    )
    console: bool = _setting(True, "serve the [console](console.md)", parse_switch)
    console_hosts: tuple[str, ...] = _setting(
        (),
        "hosts under which the console answers, besides that of `PUBLIC_URL` and loopback hosts, separated by commas",
        parse_hosts,
        "none",
    )
    console_session: timedelta = _setting(
        timedelta(hours=12),
        "how long a browser stays signed in to the console: a number of hours, days or weeks, such as `12h` or `7d`",
        parse_period,
        "`12h`",
    )
    oidc_issuer: str = _setting(
        "",
        "issuer of the OpenID Connect provider by which people [sign in](sign-in.md) to the console, such as "
        "`https://id.example.com/realms/staff`; needs `OIDC_CLIENT_ID` and `OIDC_ROLES`",
        parse_issuer,
        "off",
    )
    oidc_client_id: str = _setting("", "id of this service at that provider", parse_visible, "none")
    oidc_client_secret: str = _secret("secret of this service at that provider", parse_visible, "none: a public client")
    oidc_name: str = _setting(
        "", "name of the provider on the button that signs in", parse_name, "host of `OIDC_ISSUER`"
    )
    oidc_scopes: str = _setting(
        "openid profile email",
        "scopes that the provider is asked for, separated by spaces; many give a [refresh token]"
        "(sign-in.md#sessions) only with `offline_access`",
        parse_scopes,
    )
    oidc_role_claim: str = _setting(
        "groups", "claim whose values give [roles](sign-in.md#roles), or a path to it with dots", parse_visible
    )
    oidc_roles: tuple[RoleRule, ...] = _setting(
        (),
        "which value of that claim gives which [role](sign-in.md#roles), separated by commas: "
        "`admins=operator,shop=manager:Shop,audit=reader`",
        parse_roles,
        "none",
    )
    oidc_session: timedelta = _setting(
        timedelta(hours=8),
        "how long people stay signed in by the provider at most: a number of hours, days or weeks",
        parse_period,
        "`8h`",
    )
    oidc_only: bool = _setting(
        False,
        "people sign in by the provider [alone](sign-in.md#without-keys-and-links): no key signs in to the console, "
        "and no link except one of `console login --emergency`",
        parse_switch,
    )
    rate_limit: Rate | None = _setting(
        Rate(6000, 60),
        "requests per key, to the API and to the console: `N/second`, `N/minute`, `N/hour` or `off`; an account may "
        "have its own",
        parse_rate,
        "`6000/minute`",
    )
    spf_include: str = _setting(
        "",
        "name whose SPF record lists the relays; `domains verify` expects it in the SPF records of sending domains",
        default_text="host of `PUBLIC_URL`",
    )
    dns_resolver: str = _setting(
        "",
        "name server of `domains verify` and of the console's checks: an IP address, or `address:port`",
        parse_name_server,
        "those of the system",
    )
    geoip_database: str = _setting(
        "",
        "file in MaxMind's format for the country of an address ([tracking](tracking.md#device-and-country))",
        parse_file,
        "the table of the package geoip2fast",
    )
    retry_delay: float = _setting(
        30.0, "seconds before the first retry of a deferred message; later delays double", parse_seconds
    )
    retry_period: int = _setting(86400, "seconds for which a deferred message is retried", parse_whole(1))
    uncertain_wait: float = _setting(
        900.0, "seconds for which a mail is `uncertain` before it is sent again, at least", parse_seconds
    )
    max_groups: int = _setting(10_000, "transactional groups that an account may have", parse_whole(1))
    max_automations: int = _setting(100, "automations that an account may have", parse_whole(1))
    max_request_bytes: int = _setting(32 * 1024 * 1024, "largest request body", parse_whole(1024))
    max_body_bytes: int = _setting(
        2 * 1024 * 1024, "largest body of a message after personalisation, before tracking is added", parse_whole(1024)
    )
    max_mail_bytes: int = _setting(25 * 1024 * 1024, "largest mail, encoded, before it is signed", parse_whole(1024))
    max_send_bytes: int = _setting(
        256 * 1024 * 1024,
        "subjects and bodies of all recipients of one send together, after personalisation",
        parse_whole(1024),
    )
    max_attachments: int = _setting(20, "attachments per recipient", parse_whole(0))
    max_attachment_bytes: int = _setting(
        10 * 1024 * 1024, "decoded bytes of all attachments of a recipient", parse_whole(0)
    )
    retain_content: timedelta | None = _retention(
        "7d",
        "how long [content](retention.md#content) is kept after the last outcome of its send: values of recipients, "
        "attachments, subjects and bodies; `12h`, `7d`, `4w`, or `off` for ever; an account may have its own",
    )
    retain_recipients: timedelta | None = _retention(
        "400d",
        "how long [recipients](retention.md#recipients) are kept, with their addresses, timelines and visits; an "
        "account may have its own",
    )
    retain_events: timedelta | None = _retention(
        "7d", "how long events are kept for [replay](webhooks.md#replay): at least so long, at most twice as long"
    )
    retain_captured: timedelta | None = _retention(
        "30d", "how long [captured messages](testing.md#inbox) are kept", ("RETENTION_DAYS", "d")
    )
    retain_logs: timedelta | None = _retention(
        "30d",
        "how long webhook deliveries, fired triggers, ended runs, processed reports, reports about domains, positions "
        "of imports, bulk actions and counts by hour are kept",
        ("RETENTION_DAYS", "d"),
    )
    retain_idempotency: timedelta | None = _retention(
        "24h",
        "how long an Idempotency-Key is remembered with its response, and a mail that was [sent by SMTP]"
        "(smtp-submission.md#sent-again)",
        ("IDEMPOTENCY_HOURS", "h"),
    )
    retain_audit: timedelta | None = _retention("400d", "how long entries of the [audit log](audit.md) are kept")
    test_inbox_messages: int = _setting(
        10_000,
        "captured messages of test keys that an account keeps at most; the oldest are deleted within the hour",
        parse_whole(1),
    )
    metrics_local_only: bool = _setting(False, "serve /metrics to the loopback address only", parse_switch)
    traces_url: str = _secret(
        "OpenTelemetry collector that gets [traces](monitoring/traces.md) over OTLP and HTTP", parse_traces_url, "none"
    )
    traces_ratio: float = _setting(
        1.0, "share of the requests that are traced, 0 to 1; what follows from them is traced, too", parse_ratio
    )
    log_format: str = _setting(
        "json",
        "`json`, `console`, or `journal` for systemd's journal: with priorities and without times",
        parse_choice("json", "console", "journal"),
        "`console` on a terminal, else `json`",
    )
    log_file: str = _setting(
        "",
        "file that the log is written to instead of standard error; at 100 MB the file is renamed, with `.1` at its "
        "end, and a new one begins",
        default_text="`service.log` in `DATA_DIR` where the service was started in a terminal, else standard error",
    )

    @property
    def exposed(self) -> bool:
        """Whether other machines can reach the API, according to the settings."""
        hosts = (self.host, urlsplit(self.public_url).hostname or "")
        return bool(self.trusted_proxies) or not all(map(is_loopback, hosts))

    def is_own_host(self, host: str) -> bool:
        """Whether a host, in the form of `plain_host`, is one of this installation and of no account: that of
        PUBLIC_URL, a loopback one, or one of CONSOLE_HOSTS."""
        return (
            is_loopback(host)
            or host in self.console_hosts
            or host == plain_host(urlsplit(self.public_url).hostname or "")
        )

    @property
    def provider_name(self) -> str:
        """What people call the provider of OpenID Connect."""
        return self.oidc_name or urlsplit(self.oidc_issuer).hostname or ""

    @property
    def secret_keys(self) -> SecretKeys:
        """SECRET_KEY, which signs and encrypts, and all that verify and decrypt besides."""
        return all_keys(self.data_dir, self.secret_key, self.secret_key_fallbacks)


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process, whose new files are private to its user from now on. Creates `DATA_DIR` and the
    generated secret. Raises `SettingsError`."""
    if environ is None:
        os.umask(UMASK)
        environ = os.environ
    explicit = _explicit_values(environ)
    plain = Settings(**explicit)
    return _completed(plain, explicit)


def _explicit_values(environ: Mapping[str, str]) -> dict[str, Any]:
    explicit: dict[str, Any] = {}
    for setting in fields(Settings):
        text = _text_of(setting, environ)
        if not text:
            continue
        try:
            explicit[setting.name] = setting.metadata["parse"](text)
        except ValueError as error:
            raise SettingsError(f"{_named(setting, text)}: {error}") from None
    return explicit


def _text_of(setting: Field[Any], environ: Mapping[str, str]) -> str:
    """The value as it is written in the variable, or in the file that the variable with `_FILE` names."""
    variable = variable_of(setting)
    text = environ.get(variable, "").strip() or _former_text(setting, environ)
    file = environ.get(in_file(variable), "").strip() if setting.metadata["secret"] else ""
    if not file:
        return text
    if text:
        raise SettingsError(f"{in_file(variable)}: {variable} is set as well; set one of the two")
    try:
        text = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"{in_file(variable)}={file}: cannot be read: {reason}") from None
    if not text:
        raise SettingsError(f"{in_file(variable)}={file}: is empty")
    return text


def _former_text(setting: Field[Any], environ: Mapping[str, str]) -> str:
    """The value of the variable of earlier releases, which was a number without a unit."""
    variable, unit = setting.metadata["former"] or ("", "")
    text = environ.get(variable, "").strip()
    if text and not re.fullmatch("[0-9]+", text):
        raise SettingsError(f"{variable}={text}: must be a whole number; {variable_of(setting)} replaces this setting")
    return f"{text}{unit}" if text else ""


def in_file(variable: str) -> str:
    """The variable that names a file with the value of a secret setting."""
    return f"{variable}_FILE"


def _named(setting: Field[Any], text: str) -> str:
    """The variable with its value, for an error line; for a secret only its name, because in an invalid URL any part
    could be the password."""
    variable = variable_of(setting)
    return variable if setting.metadata["secret"] else f"{variable}={text}"


def _completed(settings: Settings, explicit: Mapping[str, Any]) -> Settings:
    """Computes the defaults that depend on other settings."""
    data_dir = settings.data_dir.absolute()
    _make_folder(data_dir)
    public_url = settings.public_url or f"http://{_bracketed(settings.host)}:{settings.port}"
    changes: dict[str, Any] = {
        "data_dir": data_dir,
        "database_url": settings.database_url or _own_database_url(data_dir),
        "redis_url": settings.redis_url or own_redis_url(data_dir),
        "email_transport_url": settings.email_transport_url or (data_dir / "mail").as_uri(),
        "sms_transport_url": settings.sms_transport_url or (data_dir / "sms").as_uri(),
        "public_url": public_url,
        "require_https": explicit.get("require_https", not _is_loopback_http(public_url)),
        "secret_key": settings.secret_key or generated_key(data_dir),
        "log_format": explicit.get("log_format", "console" if sys.stderr.isatty() else "json"),
    }
    _check_submission(settings)
    _check_sign_in(settings, public_url)
    if len(changes["secret_key"]) < LEAST_LENGTH:
        raise SettingsError(f"SECRET_KEY: must have {LEAST_LENGTH} characters or more")
    values = {setting.name: getattr(settings, setting.name) for setting in fields(Settings)}
    return Settings(**{**values, **changes})


def _check_submission(settings: Settings) -> None:
    """Keys are never sent over a network in plain text."""
    if settings.submission_listen and not settings.submission_certificate:
        host, port = settings.submission_listen
        if settings.submission_tls == "tls" or not is_loopback(host):
            raise SettingsError(
                f"SUBMISSION_LISTEN={_bracketed(host)}:{port}: needs SUBMISSION_CERTIFICATE; without TLS, "
                "applications log in on loopback addresses only"
            )


def _check_sign_in(settings: Settings, public_url: str) -> None:
    """A provider is asked about people only by a client that it knows, and sends them back over https."""
    if not settings.oidc_issuer:
        if settings.oidc_only:
            raise SettingsError("OIDC_ONLY=on: needs OIDC_ISSUER; nobody could sign in")
        return
    for needed in ("oidc_client_id", "oidc_roles"):
        if not getattr(settings, needed):
            raise SettingsError(f"OIDC_ISSUER={settings.oidc_issuer}: needs {needed.upper()}")
    if urlsplit(public_url).scheme != "https" and not _is_loopback_http(public_url):
        raise SettingsError(f"OIDC_ISSUER={settings.oidc_issuer}: needs a PUBLIC_URL with https")


def _make_folder(folder: Path) -> None:
    """Nothing is created on a file system that several machines share: each would take the processes of the others for
    dead, or wait for locks that nobody holds any more."""
    if kind := network_kind(folder):
        raise SettingsError(
            f"DATA_DIR={folder}: is on a network file system ({kind}), whose locks do not show which processes are "
            "alive; name a folder on a local disk"
        )
    try:
        make_private(folder)
    except OSError as error:
        raise SettingsError(f"DATA_DIR={folder}: cannot be created: {error.strerror}") from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_loopback_http(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")


def _own_database_url(data_dir: Path) -> str:
    file = str(data_dir / "tms.sqlite3")
    if len(os.fsencode(file)) > LONGEST_SQLITE_PATH:
        raise SettingsError(
            f"DATA_DIR={data_dir}: the path is too long for a file of SQLite; set DATA_DIR or DATABASE_URL"
        )
    return f"sqlite:///{quote(file)}"


def own_redis_url(data_dir: Path) -> str:
    """The `REDIS_URL` of the embedded Redis of a data folder."""
    return f"unix://{quote(str(own_redis_socket(data_dir)))}"


def own_redis_socket(data_dir: Path) -> Path:
    """The socket of the embedded Redis of a data folder; under /tmp where the path is too long for a socket."""
    path = data_dir / "redis.sock"
    if len(str(path)) <= LONGEST_SOCKET_PATH:
        return path
    digest = hashlib.sha256(str(data_dir).encode()).hexdigest()[:16]
    return Path("/tmp") / f"tms-{os.getuid()}-{digest}.sock"
