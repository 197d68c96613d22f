"""An attacker has tokens of its own and has seen one of a victim: it alters them, uses one for another purpose, signs
them with another key, and sends them again. Nothing of the victim may change, and no link may lead elsewhere."""

from __future__ import annotations

import base64
import json
import re
import smtplib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt

from app.demo.receiver import verify
from app.tracking.links import InlineLink, link_token
from app.tracking.tokens import (
    BOUNCE_PURPOSE,
    CLICK_PURPOSE,
    OPEN_PURPOSE,
    PREFERENCES_PURPOSE,
    SMS_RECEIPT_PURPOSE,
    UNSUBSCRIBE_PURPOSE,
    address_token,
    recipient_token,
)
from tests.attack.families.arrivals import parsed_mail
from tests.attack.families.isolation import rows_of_the_victim
from tests.attack.party import MOBILES, Party, key_id_of, secret_of
from tests.attack.stage import SENDS, Stage
from tests.attack.tally import Case, case
from tests.support.servers import wait_until
from tests.support.webhook_receiver import Hit

LINK = re.compile(r"/([upco])/([A-Za-z0-9_-]+)")
OTHER_KEY = "another-key-of-another-installation-0123456789"
PURPOSES = {"u": UNSUBSCRIBE_PURPOSE, "p": PREFERENCES_PURPOSE, "c": CLICK_PURPOSE, "o": OPEN_PURPOSE}
FORMS = {"u": {"List-Unsubscribe": "One-Click"}, "p": {"all": "email-off"}}
"""Kind of a link by which a recipient changes something -> what its page sends."""


@dataclass(frozen=True)
class MailTokens:
    """What is in the mails of a party: a token of each kind of link, and the return path."""

    links: dict[str, str]
    return_path: str


def attack(on: Stage) -> Iterator[Case]:
    """Requests with tokens that nobody was given; then the victim's rows, and the attacker's own genuine link."""
    victim, attacker = (seen_by(on, party.domain) for party in (on.victim, on.attacker))
    on.await_rest()
    before = rows_of_the_victim(on)
    yield from links(on, victim, attacker)
    yield from choices(on, attacker)
    yield from receipts(on)
    yield from reports(on, victim)
    yield from hooks(on)
    yield from genuine(on, attacker)
    after = rows_of_the_victim(on)
    for name, rows in before.items():
        yield case("rows of the victim afterwards", rows == after[name], f"{name} has changed")
    yield from signatures(on)


def seen_by(on: Stage, domain: str) -> MailTokens:
    """What a recipient of the party has in the mailbox."""
    for mail in on.relay.mails:
        parsed = parsed_mail(mail)
        text = str(parsed["List-Unsubscribe"]) + "".join(
            str(part.get_content()) for part in parsed.walk() if part.get_content_maintype() == "text"
        )
        links_by_kind = dict(LINK.findall(text))
        if parsed["From"].addresses[0].domain == domain and set(links_by_kind) == set(PURPOSES):
            return MailTokens(links_by_kind, re.findall(r"<(.*?)>", mail.sender.decode())[0])
    raise AssertionError(f"no mail of {domain} has all kinds of links")


def altered(token: str, short: bool) -> Iterator[str]:
    """Tokens that are nearly the given one."""
    step = 5 if short else 1
    for at in range(0, len(token), step):
        yield token[:at]
        yield token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    yield from (token[:-1] + character for character in last[::step] if character != token[-1])
    yield from (token + "A", token + "=", token + "AAAA", token.swapcase(), token[::-1], token * 2, "A" * 3000)
    yield from (f"{token}%00", f"{token}%0a", f"{token}.", f" {token}", f"%20{token}", "..", "%2e%2e", "")


def links(on: Stage, victim: MailTokens, attacker: MailTokens) -> Iterator[Case]:
    """Altered links, links for another purpose, and links that another key has signed."""
    for kind, token in victim.links.items():
        tokens = [*altered(token, on.short)]
        tokens += [other for name, other in (*victim.links.items(), *attacker.links.items()) if name != kind]
        tokens += [recipient_token(OTHER_KEY, PURPOSES[kind], number) for number in range(1, 5)]
        tokens += [link_token(OTHER_KEY, InlineLink(1, "html_email", "https://evil.example/")) or ""]
        for other_token in tokens:
            for method in ("GET", "POST") if kind in FORMS else ("GET",):
                path = f"/{kind}/{other_token}" + (".gif" if kind == "o" else "")
                answer = on.ask(method, path, form=FORMS[kind] if method == "POST" else None)
                held = "Location" not in answer.headers and (answer.status_code in (400, 404, 405) or kind == "o")
                held = held and answer.status_code < 500 and on.victim.person not in answer.text
                yield case("links", held, f"{method} /{kind}/{other_token}: {answer.status_code}")


def choices(on: Stage, attacker: MailTokens) -> Iterator[Case]:
    """The attacker's own preferences link, with lists of the victim and with forms that no page sends. Nothing of the
    victim is shown, and its rows are compared at the end."""
    path, number = f"/p/{attacker.links['p']}", on.victim.ids["list_id"]
    ids = (number, -number, 0, 2**63 - 1, 2**63, f"0{number}", f"{number} OR 1=1", "%00", "*")
    values = [f"{kind}-{list_id}" for kind in ("email", "mobile") for list_id in ids]
    forms: list[tuple[Any, tuple[int, ...]]] = [({name: value}, (422,)) for value in values for name in ("on", "was")]
    forms += [({"all": value}, (422,)) for value in ("", "on", "email", "all-off", f"email-{number}", "email-off\0")]
    forms += [({"account": on.victim.name, "list_id": number, "address": on.victim.person}, (200,))]
    forms += [("on=email-1&" * 500, (422,)), (f"on={'x' * 1_000_000}", (400,)), (b"\xff\x00=%ff%00&" * 100, (200,))]
    for form, statuses in forms:
        answer = on.ask("POST", path, form=form, headers={"Content-Type": "application/x-www-form-urlencoded"})
        held = answer.status_code in statuses and on.victim.name not in answer.text
        yield case("choices of others", held, f"{str(form)[:100]}: {answer.status_code}")
    for method in ("PUT", "PATCH", "DELETE", "TRACE"):
        answer = on.ask(method, path, form=FORMS["p"])
        yield case("choices of others", answer.status_code == 405, f"{method}: {answer.status_code}")


def receipts(on: Stage) -> Iterator[Case]:
    """Receipts and replies of the gateway that it did not send."""
    urls = [parse_qs(urlsplit(hit.path).query)["dlr-url"][0] for hit in on.kannel.hits]
    (token, *_) = [urlsplit(url).path.rpartition("/")[2] for url in urls]
    forged = [
        *altered(token, short=True),
        *(recipient_token(OTHER_KEY, SMS_RECEIPT_PURPOSE, number) for number in range(1, 9)),
    ]
    forged += [recipient_token(OTHER_KEY, UNSUBSCRIBE_PURPOSE, 1), *seen_by(on, on.victim.domain).links.values()]
    for other_token in forged:
        answer = on.ask("GET", f"/inbound/kannel/dlr/{other_token}", query={"type": "2", "answer": "NACK/1/failed"})
        yield case("receipts and replies", answer.status_code < 500, f"{other_token}: {answer.status_code}")
    for secret in ("", "x", OTHER_KEY, on.attacker.token, "\x00", "x" * 64):
        reply = {"secret": secret, "from": "61411111111", "to": MOBILES[on.victim.name], "text": "STOP", "id": "1"}
        answer = on.ask("GET", "/inbound/kannel/mo", query=reply)
        yield case("receipts and replies", answer.status_code in (403, 404), f"secret {secret!r}: {answer.status_code}")


def reports(on: Stage, victim: MailTokens) -> Iterator[Case]:
    """Mails to return paths that were never used, about recipients of the victim."""
    local, _, domain = victim.return_path.partition("@")
    name, _, token = local.partition("+")
    # Mail servers may change the case of a local part, so it does not count.
    others = [
        candidate
        for candidate in altered(token, short=True)
        if candidate.isalnum() and candidate.lower() != token.lower()
    ]
    forged = [f"{name}+{other}@{domain}" for other in others]
    forged += [f"unsubscribe+{token}@{domain}", f"{name}@{domain}", f"{name}+@{domain}"]
    forged += [f"{name}+{address_token(OTHER_KEY, BOUNCE_PURPOSE, number)}@{domain}" for number in range(1, 9)]
    host, _, port = on.service.environment["INBOUND_LISTEN"].rpartition(":")
    with smtplib.SMTP(host, int(port), timeout=60) as session:
        for address in forged:
            with suppress(smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused):
                session.sendmail("", [address], REPORT)
            yield case("mails about recipients", session.noop()[0] == 250, address)


REPORT = """\
From: mailer-daemon@evil.example
Subject: failed
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; evil.example

Final-Recipient: rfc822; ann@v1ct1m-people.example
Action: failed
Status: 5.1.1

--b--
""".replace("\n", "\r\n")


def hooks(on: Stage) -> Iterator[Case]:
    """Posts events that no relay has sent."""
    event = {
        "RecordType": "Bounce",
        "Type": "HardBounce",
        "Email": on.victim.person,
        "Metadata": {"tmsuuid": on.victim.ids["uuid"]},
        "MessageID": on.victim.ids["uuid"],
    }
    for path in (
        "postmark",
        "postmark/",
        "postmark/x",
        "postmark/%00",
        f"postmark/{'x' * 5000}",
        "sendgrid/x",
        "sendgrid/",
        "mailgun",
        "sparkpost",
        "ses",
        "nobody",
        "..",
        "kannel/mo",
    ):
        for login in ("", "Basic OnM=", "Basic " + base64.b64encode(b"x:wrong").decode(), "Bearer x", "Basic \xff"):
            headers = {"Authorization": login.encode("latin-1")} if login else {}
            answer = on.ask("POST", f"/inbound/{path}", body=event, headers=headers)  # type: ignore[arg-type]
            yield case("events of relays", answer.status_code in (400, 401, 404, 405), f"{path} {login}: {answer.text}")


def genuine(on: Stage, attacker: MailTokens) -> Iterator[Case]:
    """The attacker's own link leads where its mail led, whatever is added; and its open is recorded."""
    path = f"/c/{attacker.links['c']}"
    for addition in ("", "?url=https://evil.example/", "?u=//evil.example", "?next=https://evil.example", "#evil"):
        answer = on.ask("GET", path + addition)
        target = answer.headers.get("Location", "")
        yield case("redirects", target == f"https://{on.attacker.domain}/", f"{addition}: {target}")
    on.ask("GET", f"/o/{attacker.links['o']}.gif")

    def opened() -> bool:
        recipients = on.ask("GET", SENDS, on.attacker.token, query={"limit": 100}).json()["_embedded"]["recipients"]
        return any(recipient["first_open_time"] for recipient in recipients)

    wait_until(opened, "the genuine open is recorded, and so would be a forged one before it")


def signatures(on: Stage) -> Iterator[Case]:
    """Requests to the victim's webhook that the service has not signed for it, judged as docs/webhooks.md says."""
    mine, theirs = _batch(on, on.attacker), _batch(on, on.victim)
    key_id = key_id_of(on.victim.name)
    secrets, header = {key_id: secret_of(on.victim.name)}, _signature(theirs.headers)
    claims = verify(theirs.body, header, secrets)
    assert claims is not None, "what the service has signed must be accepted"
    unsigned = ".".join(_part(part) for part in ({"alg": "none", "kid": key_id}, claims)) + "."
    forged = {
        "a batch of the attacker": (mine.body, _signature(mine.headers)),
        "its signature over another body": (theirs.body + b" ", header),
        "another batch under the signature": (mine.body, header),
        "no signature": (theirs.body, ""),
        "no algorithm": (theirs.body, unsigned),
        "no algorithm, in capitals": (
            theirs.body,
            unsigned.replace(_part({"alg": "none"})[:10], _part({"alg": "NONE"})[:10]),
        ),
        "signed by the attacker": (
            theirs.body,
            jwt.encode(claims, secret_of(on.attacker.name), headers={"kid": key_id}),
        ),
        "an unknown key id": (theirs.body, jwt.encode(claims, secret_of(on.victim.name), headers={"kid": "k2"})),
        "signed with an empty key": (
            theirs.body,
            jwt.encode(claims, "x" * 32, headers={"kid": key_id}),
        ),
        "cut short": (theirs.body, header[:-1]),
        "expired": (
            theirs.body,
            jwt.encode({**claims, "exp": 1}, secret_of(on.victim.name), headers={"kid": key_id}),
        ),
        "without an end": (
            theirs.body,
            jwt.encode(
                {"body_sha256": claims["body_sha256"]},
                secret_of(on.victim.name),
                headers={"kid": key_id},
            ),
        ),
    }
    for name, (body, signature) in forged.items():
        yield case("signatures of webhooks", verify(body, signature, secrets) is None, name)


def _batch(on: Stage, party: Party) -> Hit:
    """A new request to the webhook of a party: signatures expire."""
    before = len(on.receiver.hits)
    contacts = f"/v1/lists/{party.ids['list_id']}/contacts"
    made = on.ask("POST", contacts, party.token, body={"email": f"signed@{party.domain}"})
    assert made.status_code == 201, made.text

    def hits() -> list[Hit]:
        return [hit for hit in on.receiver.hits[before:] if hit.path == f"/{party.name}"]

    wait_until(hits, "an event is delivered")
    return hits()[-1]


def _signature(headers: Message) -> str:
    return str(headers["Service-Signature"])


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
