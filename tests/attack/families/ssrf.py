"""An attacker wants the service to reach a port inside of its network: by the URL of a webhook, a name whose address
changes, a redirect, or a certificate that a hook is asked to fetch. A trap there counts connections."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

from sqlalchemy import select

from app.db.models import Webhook, WebhookAttempt
from app.errors import ServiceError
from app.events.registration import checked_url
from tests.attack.party import REBOUND
from tests.attack.stage import PUBLIC, Stage
from tests.attack.tally import Case, case
from tests.support.servers import wait_until
from tests.support.webhook_receiver import Receiver, Reply

HOSTS = (
    *("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "017700000001", "0177.0.0.1"),
    *("127.0.0.1.", "0.0.0.0", "0", "10.0.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254", "100.64.0.1"),
    *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[64:ff9b::127.0.0.1]"),
    *("[fe80::1]", "[fd00::1]", "[::127.0.0.1]", "[2002:7f00:1::]", "[ff02::1]", "224.0.0.1", "255.255.255.255"),
    *("①②⑦.⓪.⓪.①", "127。0。0。1", "loc\u00adalhost", "LOCALHOST", "198.18.0.1", "192.0.2.1", "240.0.0.1"),
)
URLS = (
    *("http://93.184.216.34/", "ftp://93.184.216.34/", "file:///etc/passwd", "gopher://127.0.0.1:{port}/_x", "//x/"),
    *("https://user:password@93.184.216.34/", "https://93.184.216.34@127.0.0.1:{port}/", "https://93.184.216.34#@x/"),
    *("https://93.184.216.34/\r\nHost: 127.0.0.1", "https://93.184.216.34\r\n.example/", "https://93.184.216.34/\x00"),
    *("https://93.184.216.34\\@127.0.0.1/", "https://127.0.0.1:{port}\\@93.184.216.34/", "javascript:alert(1)"),
    *("https:127.0.0.1", "https:///127.0.0.1/", "https://[::1", "https://93.184.216.34:99999/", "data:text/html,x"),
)
TOPIC = "arn:aws:sns:eu-west-1:123456789012:mails"
AMAZON = "sns.eu-west-1.amazonaws.com"
FETCHED = (
    *("http://127.0.0.1:{port}/", "https://127.0.0.1:{port}/SimpleNotificationService-0a.pem", "file:///etc/passwd"),
    *(f"https://{AMAZON}@127.0.0.1:{{port}}/SimpleNotificationService-0a.pem", f"https://{AMAZON}.127.0.0.1/x.pem"),
    *(f"https://127.0.0.1:{{port}}/{AMAZON}/SimpleNotificationService-0a.pem", f"http://{AMAZON}/x.pem"),
    *(f"https://{AMAZON}:{{port}}/SimpleNotificationService-0a.pem", f"https://{AMAZON}\\@127.0.0.1:{{port}}/x.pem"),
)


def attack(on: Stage) -> Iterator[Case]:
    """On the strict installation all URLs; on the other one, where private addresses are allowed, redirects."""
    if on.strict:
        yield from registered(on)
        yield from rebound(on)
        yield from fetched(on)
    else:
        yield from redirected(on)
    yield case("the trap afterwards", not on.trap.connections, f"{on.trap.connections} connections reached it")


def registered(on: Stage) -> Iterator[Case]:
    """All URLs by the check of every registration, with the settings of the installation, and a few by the command. A
    host that has no address may be registered: nothing can be reached by it."""
    urls = [f"https://{host}:{on.trap.port}/" for host in HOSTS]
    urls += [url.replace("{port}", str(on.trap.port)) for url in URLS]
    assert not is_refused(on, f"https://{PUBLIC}/"), "a public address must be accepted"
    for url in urls:
        yield case("URLs at registration", is_refused(on, url) or not has_address(url), url)
    for url in urls[: 1 if on.short else 5]:
        done = on.run("webhooks", "create", url, "--account", on.attacker.name)
        yield case("URLs at registration", "not a public address" in done.stderr, f"{url}: {done.stdout}")


def is_refused(on: Stage, url: str) -> bool:
    """Whether the URL cannot be registered."""
    try:
        checked_url(on.services.settings, url)
    except ServiceError:
        return True
    return False


def has_address(url: str) -> bool:
    """Whether the host of the URL leads anywhere."""
    with suppress(OSError, ValueError):
        return bool(socket.getaddrinfo(urlsplit(url).hostname, None))
    return False


def rebound(on: Stage) -> Iterator[Case]:
    """Names that were public when their webhooks were registered lead inside when events are delivered."""
    on.names.write_text(json.dumps(REBOUND))
    contacts = f"/v1/lists/{on.attacker.ids['list_id']}/contacts"
    on.ask("POST", contacts, on.attacker.token, body={"email": "rebound@example.org"})
    with on.services.database.read() as session:
        urls = {row.id: row.url for row in session.execute(select(Webhook.id, Webhook.url))}
    told: dict[int, set[str]] = {}

    def tried() -> bool:
        with on.services.database.read() as session:
            for row in session.execute(select(WebhookAttempt.webhook_id, WebhookAttempt.detail)):
                told.setdefault(row.webhook_id, set()).add(str(row.detail))
        return all(any("leads to" in line for line in told.get(number, ())) for number in urls)

    with suppress(AssertionError):  # those that the guard has not refused are told below
        wait_until(tried, "each name has been tried")
    for number, url in urls.items():
        refused = any("which is not a public address" in line for line in told.get(number, ()))
        yield case("names that change", refused, f"{url}: {told.get(number)}")


def fetched(on: Stage) -> Iterator[Case]:
    """URLs in messages to the hook of Amazon SES, which names its certificate and a URL to confirm."""
    for url in FETCHED:
        for kind in ("Notification", "SubscriptionConfirmation"):
            target = url.replace("{port}", str(on.trap.port))
            message = {
                "Type": kind,
                "TopicArn": TOPIC,
                "MessageId": "1",
                "Message": "{}",
                "Token": "x",
                "Timestamp": "2026-01-31T10:00:00.000Z",
                "SignatureVersion": "2",
                "Signature": "AAAA",
                "SigningCertURL": target,
                "SubscribeURL": target,
            }
            answer = on.ask("POST", "/inbound/ses", body=message)
            yield case("URLs in requests of relays", answer.status_code == 404, f"{target}: {answer.status_code}")


def redirected(on: Stage) -> Iterator[Case]:
    """Answers of a receiver that redirect into the network."""
    for status in (301, 302, 303, 307, 308):
        reply = Reply(status, {"Location": f"http://127.0.0.1:{on.trap.port}/"})
        if on.short and status != 307:
            continue
        with Receiver(reply) as receiver:
            made = on.run("webhooks", "create", receiver.url, "--account", on.attacker.name)
            assert made.returncode == 0, made.stderr
            on.run("webhooks", "test", receiver.url, "--account", on.attacker.name)
            on.run("webhooks", "delete", receiver.url, "--account", on.attacker.name)
            held = bool(receiver.hits) and not on.trap.connections
            yield case("redirects", held, f"{status}: {len(receiver.hits)} requests, {on.trap.connections} to the trap")
