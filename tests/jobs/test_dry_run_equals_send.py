"""What a dry run rendered is what the transport gets (docs/dry-run.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes, policy
from pathlib import Path
from string import ascii_letters, digits
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.clock import this_second
from app.contacts.suppress import block, unsubscribe
from app.db.models import Domain
from app.sends.delivery.drain import drain
from app.tracking.feedback_channels import DRY_RUN_PLACEHOLDER
from tests.support.client import SENDS
from tests.support.routing import routing_of
from tests.support.sends import AcceptedSend, SendsApi, file
from tests.support.servers import short_folder
from tests.support.tenants import new_email, new_mobile, new_tenant

# What follows a token must be no character of one.
PIECES = (
    *("%%first_name%%", "%%first_name**friend%%", "%%code%%", "%%nothing%%", "%%nothing**a & b%%", "%%email%%"),
    *("%%code:HAS%%", "%%code:ELSE%%", "%%code:END%%", "%%score:GREATERTHAN:5%%", "%%score:END%%", "%%score:FROBS:1%%"),
    *("%%first name%%", "%%", "<p>", "</p>", "&amp;", "é €", "😀", "\r\n", ".", " STOP ", "words of a text, "),
    *("%%unsubscribe_link%%|", "%%preferences_link%%|", "%%preferences_link:HAS%%", "%%preferences_link:END%%"),
    *("%%attachment:a.txt%%|", "<img src='%%attachment:a.txt%%'>", "%%attachment:b.txt%%"),
    *("<a href='https://acme.example/?q=%%code%%'>link</a>", "%%is_active%% %%creation_time%%"),
)
GSM = {*"@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./:;<=>?¡ÄÖÑÜ§¿äöñüà^{}\\[~]|€", *ascii_letters, *digits}
"""The characters of the alphabet of 3GPP TS 23.038, with its extension."""
IN_TEXTS = ("[{}]", "Grüße", "ж", "long words " * 15)
TEXTS = st.lists(st.sampled_from([*PIECES, *IN_TEXTS]), max_size=12).map("".join)
BODIES = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
# Not with a token, which an encoded word would hide.
SUBJECTS = st.lists(
    st.sampled_from([piece for piece in PIECES if "link" not in piece and "attachment" not in piece])
).map("".join)
VALUES = st.sampled_from(["", "7", "3.50", "<b>Ann & co</b>", "x\r\ny", "Zoë", "%%code%%"])
OWN = st.dictionaries(st.sampled_from(["first_name", "code", "score", "SCORE"]), VALUES, max_size=3)
SHOWN_IN_THE_MAIL = ("From", "To", "Reply-To", "Subject", "List-Unsubscribe", "List-Unsubscribe-Post", "MIME-Version")
TOKENS = re.compile(r"(?<=/[up]/)[\w-]+|(?<=unsubscribe\+)\w+|(?<=content_)\w+", re.ASCII)


def comparable(text: str | None) -> str | None:
    """The text without what differs from message to message: tokens and Content-IDs."""
    return None if text is None else TOKENS.sub("…", text.replace(DRY_RUN_PLACEHOLDER, "…"))


@dataclass
class Sender(SendsApi):
    """An account with a list and contacts, with a domain that has hosts of its own, and with a transport to name."""

    folder: Path = Path()
    """The folder to which the named transport writes."""
    transport: str = ""

    @property
    def hosted(self) -> str:
        """The domain with hosts of its own."""
        return f"hosted.{self.tenant.domain}"


@pytest.fixture(scope="module")
def sender(app: Flask) -> Iterator[Sender]:
    """An account whose contacts differ. Two of them have different values, and one each is unsubscribed, inactive and
    blocked."""
    api = Sender(new_tenant(app))
    domain = api.tenant.domain
    for name in ("first", "second", "gone", "inactive", "blocked"):
        attributes = {"is_active": False} if name == "inactive" else {}
        api.tenant.new_contact(api.list_id, email=f"{name}@{domain}", first_name=name, score=len(name), **attributes)
    hosts: dict[str, Any] = {"tracking_host": f"click.{domain}", "return_path_host": f"back.{domain}"}
    hosts |= {"tracking_host_ready": True, "return_path_host_ready": True}
    moment = this_second()
    api.tenant.add(Domain, name=api.hosted, creation_time=moment, verified_time=moment, trusted=True, **hosts)
    with api.tenant.services.database.write() as transaction:
        unsubscribe(transaction, api.tenant.id, "email", f"gone@{domain}", api.list_id)
        block(transaction, api.tenant.id, "email", f"blocked@{domain}", "hard_bounce")
    with short_folder() as folder, routing_of(api.tenant.services, api.tenant.id) as routing:
        api.folder, api.transport = folder, routing.transport(f"file://{folder}", allowed=True)
        yield api


def both(sender: Sender, body: dict[str, Any]) -> tuple[list[dict[str, Any]], AcceptedSend, Path]:
    """The forecasts of a dry run, and the send that follows, which is delivered, with the folder of its transport."""
    answer = sender.tenant.api.post(f"{SENDS}?dry_run=true", body)
    assert answer.status_code == 200, answer.text
    accepted = sender.send(body)
    drain(sender.tenant.services)
    settings = sender.tenant.services.settings
    url = settings.email_transport_url if body["type"] == "email" else settings.sms_transport_url
    folder = sender.folder if body.get("transport") else Path(urlsplit(url).path)
    return answer.get_json()["_embedded"]["recipients"], accepted, folder


def check_skipped(forecast: dict[str, Any], recipient: Any, path: Path) -> None:
    assert (recipient.state, recipient.reason, forecast["outcome"]) == ("failed", forecast["reason"], "skip")
    assert not path.exists()
    assert (forecast["body_html"], forecast["size"]) == (None, None)


def raw_headers(mail: bytes) -> list[dict[str, str]]:
    lines = mail.partition(b"\r\n\r\n")[0].decode().replace("\r\n ", " ").split("\r\n")
    pairs = [line.partition(": ")[::2] for line in lines]
    return [{"name": name, "value": value} for name, value in pairs]


def check_mail(forecast: dict[str, Any], path: Path, *, is_tracked: bool = False) -> None:
    """The bodies of a forecast are those before tracking is added, and its size is that of the mail with it."""
    mail = path.read_bytes()
    parsed: Any = message_from_bytes(mail, policy=policy.default)
    assert forecast["outcome"] == "send"
    assert abs(len(mail) - forecast["size"]) < LENGTH_OF_TOKENS
    for part, forecast_text in (
        () if is_tracked else (("plain", forecast["body_text"]), ("html", forecast["body_html"]))
    ):
        part_of_mail = parsed.get_body((part,))
        sent = None if part_of_mail is None else part_of_mail.get_content().replace("\r\n", "\n").removesuffix("\n")
        expected = forecast_text and forecast_text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
        assert comparable(sent) == comparable(expected), part
    names = {header["name"] for header in forecast["headers"]}
    assert names <= {*SHOWN_IN_THE_MAIL, "Auto-Submitted"}
    sent_headers = [
        {**header, "value": comparable(header["value"])} for header in raw_headers(mail) if header["name"] in names
    ]
    assert sent_headers == [{**header, "value": comparable(header["value"])} for header in forecast["headers"]]
    assert {"From", "To", "Subject"} <= names
    assert str(parsed["Subject"]).split() == forecast["subject"].split()


LENGTH_OF_TOKENS = 8 * 30
"""By how many bytes mails may differ: ids in up to 30 links."""
OPTIONS = st.fixed_dictionaries(
    {name: st.booleans() for name in ("track_opens", "track_clicks", "include_unsubscribed")},
    optional={name: st.just(True) for name in ("named", "hosted", "attached", "copied", "replied")},
)
PROPERTY = hypothesis_settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@PROPERTY
@given(
    html=BODIES,
    text=BODIES,
    subject=SUBJECTS,
    encoded=st.booleans(),
    own_values=st.lists(OWN, min_size=3, max_size=3),
    options=OPTIONS,
)
def test_what_a_dry_run_rendered_is_the_mail_that_leaves(
    sender: Sender,
    *,
    html: str,
    text: str,
    subject: str,
    encoded: bool,
    own_values: list[dict[str, str]],
    options: dict[str, bool],
) -> None:
    domain = sender.tenant.domain
    skipped = ["inactive", "blocked", *([] if options["include_unsubscribed"] else ["gone"])]
    recipients: list[dict[str, Any]] = [
        {"email": f"first@{domain}", **own_values[0], "attachments": [file("a.txt")]},
        {"email": f"second@{domain}", **own_values[1]},
        {"email": new_email("new"), **own_values[2]},
        *({"email": f"{name}@{domain}"} for name in ("gone", "inactive", "blocked")),
    ]
    body = sender.email(
        subject=f"S {subject}",
        body_html=f"{html}!",
        body_text=f"{text}!",
        recipient_data_html_encoded=encoded,
        recipients=recipients,
        **{name: options[name] for name in ("track_opens", "track_clicks", "include_unsubscribed")},
        transport=sender.transport if "named" in options else None,
        from_address=f"hello@{sender.hosted if 'hosted' in options else domain}",
        attachments=[file("b.txt", content=b"b" * 99)] if "attached" in options else None,
        bcc_address=f"copies@{domain}" if "copied" in options else None,
        reply_to=f"Replies@{domain}" if "replied" in options else None,
    )
    forecasts, accepted, folder = both(sender, body)
    assert [forecast["creates_contact"] for forecast in forecasts] == [False, False, True, False, False, False]
    is_tracked = options["track_opens"] or options["track_clicks"]
    for forecast, recipient in zip(forecasts, accepted.recipients, strict=True):
        path = folder / f"{recipient.uuid}.eml"
        if forecast["email"].partition("@")[0] in skipped:
            check_skipped(forecast, recipient, path)
        # A contact that the send created has a time of its own: the second in which it was created.
        elif "creation_time" not in html + text + subject or not forecast["creates_contact"]:
            check_mail(forecast, path, is_tracked=is_tracked)


@PROPERTY
@given(text=TEXTS, own_values=OWN, opt_out=st.sampled_from(["word", "link", "none"]))
def test_what_a_dry_run_rendered_is_the_text_message_that_leaves(
    sender: Sender, text: str, own_values: dict[str, str], opt_out: str
) -> None:
    body = sender.sms(
        body_text=f"STOP {text}", unsubscribe_type=opt_out, recipients=[{"mobile": new_mobile(), **own_values}]
    )
    (forecast,), accepted, folder = both(sender, body)
    sent = json.loads((folder / f"{accepted.uuids[0]}.json").read_text("utf-8"))
    assert (accepted.recipient.state, accepted.recipient.segments) == ("sent", sent["segments"])
    assert forecast["encoding"] == ("gsm" if set(sent["text"]) <= GSM else "ucs2")
    if "creation_time" not in text:
        assert comparable(sent["text"]) == comparable(forecast["body_text"])
    assert (sent["to"], sent["from"]) == (forecast["mobile"], body["from_address"])
    # The link of the opt-out is a few characters shorter as long as the ids of recipients are small.
    assert forecast["segments"] - sent["segments"] in ({0, 1} if opt_out == "link" or "link" in text else {0})


def test_the_size_is_that_of_the_mail_with_attachments_tracking_and_signature(sender: Sender) -> None:
    links = " ".join(f"https://acme.example/{number}" for number in range(10))
    body = sender.email(
        body_html="".join(f"<a href='{link}'>x</a>" for link in links.split()),
        body_text=links,
        attachments=[file("big.bin", "application/octet-stream", b"x" * 50_000)],
    )
    (forecast,), accepted, folder = both(sender, body)
    sent = len((folder / f"{accepted.uuids[0]}.eml").read_bytes())
    assert forecast["size"] > 65_000
    assert abs(forecast["size"] - sent) < 8 * 23, "ids in 20 tracked links, the pixel and two unsubscribe links"
