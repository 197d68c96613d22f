"""Mail through a real relay: STARTTLS and authentication, accepted, deferred and refused mail, and bounces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from tests.interop.mailboxes import Mailboxes, mailboxes
from tests.interop.operator import Operator
from tests.interop.postfix import PASSWORD, REALM, USER, Postfix, Routes
from tests.support.certificates import Authority
from tests.support.launched import LaunchedService
from tests.support.servers import free_port, short_folder, wait_until

ACCEPTED, REFUSED, DEFERRED, BOUNCING = "accepted.test", "refused.test", "deferred.test", "bouncing.test"
BOUNCES = "bounces.test"


@dataclass(frozen=True)
class Stage(Operator):
    """The operator of the service, the relay that it speaks with, and the mail server behind the relay."""

    relay: Postfix
    inboxes: Mailboxes

    def mail(self, address: str) -> str:
        """Sends one email in a group named after the address; the recipient's uuid."""
        return self.send(
            {
                "type": "email",
                "list_id": 1,
                "group_name": address,
                "subject": "Grüße",
                "from_address": "hello@acme.example",
                "body_html": "<p>Zoë, your <b>invoice</b></p>",
                "recipients": [{"email": address}],
            }
        )


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        folder.chmod(0o755)
        inboxes = stack.enter_context(mailboxes())
        refusing = stack.enter_context(mailboxes("550 5.1.1 no such user behind the relay"))
        authority = Authority(folder)
        authority.server("localhost")
        inbound = free_port()
        routes = Routes(
            transports={
                ACCEPTED: f"smtp:[127.0.0.1]:{inboxes.port}",
                BOUNCING: f"smtp:[127.0.0.1]:{refusing.port}",
                BOUNCES: f"smtp:[127.0.0.1]:{inbound}",
            },
            answers={REFUSED: "550 5.1.1 no such user here", DEFERRED: "451 4.3.0 not now"},
        )
        (folder / "postfix").mkdir()
        (folder / "service").mkdir()
        relay = Postfix(folder / "postfix", folder / "localhost.pem", routes)
        user = f"{quote(f'{USER}@{REALM}')}:{quote(PASSWORD)}"
        service = LaunchedService(
            folder / "service",
            EMAIL_TRANSPORT_URL=f"smtp://{user}@localhost:{relay.port}?tls=require",
            SSL_CERT_FILE=str(authority.write(folder / "ca.pem")),
            BOUNCE_DOMAIN=BOUNCES,
            INBOUND_LISTEN=f"127.0.0.1:{inbound}",
            RETRY_DELAY="1",
        )
        service.start()
        stack.callback(service.clear)
        made = Stage(service, relay, inboxes)
        relay.start(_txt_records(made))
        stack.callback(relay.stop)
        yield made


def _txt_records(stage: Stage) -> dict[str, str]:
    """The records that the operator is asked to publish for the domain."""
    domain = stage.flask("domains", "show", "acme.example")
    return {record["name"]: record["value"] for record in domain["records"] if record["type"] == "TXT"}


def test_an_accepted_mail_arrives_whole(stage: Stage) -> None:
    uuid = stage.mail(f"ann@{ACCEPTED}")
    assert stage.wait_for_state(uuid, "delivered")
    wait_until(lambda: stage.inboxes.of(f"ann@{ACCEPTED}"), "the mail has arrived")
    (mail,) = stage.inboxes.of(f"ann@{ACCEPTED}")
    html, text = mail.get_body(("html",)), mail.get_body(("plain",))
    assert html is not None
    assert text is not None
    assert "<p>Zoë, your <b>invoice</b></p>" in html.get_content()
    assert "Zoë, your invoice" in text.get_content()
    assert str(mail["Subject"]) == "Grüße"
    assert "with ESMTPSA" in stage_received(mail), "not encrypted and authenticated"


def stage_received(mail: Any) -> str:
    """The Received header that Postfix wrote for the hop from the service."""
    return " ".join(str(mail.get_all("Received")[-1]).split())


def test_opendkim_verifies_both_signatures(stage: Stage) -> None:
    stage.mail(f"dkim@{ACCEPTED}")
    wait_until(lambda: stage.inboxes.of(f"dkim@{ACCEPTED}"), "the mail has arrived")
    (mail,) = stage.inboxes.of(f"dkim@{ACCEPTED}")
    assert len(mail.get_all("DKIM-Signature", [])) == 2
    results = " ".join(str(mail["Authentication-Results"]).split())
    assert results.count("dkim=pass") == 2, results


def test_a_refused_recipient_bounces_and_is_blocked(stage: Stage) -> None:
    address = f"bob@{REFUSED}"
    message = stage.wait_for_state(stage.mail(address), "bounced")
    assert "550 5.1.1" in str(message)
    assert (stage.group(address)["bounced"], stage.group(address)["delivered"]) == (1, 0)


def test_a_deferred_recipient_stays_in_the_queue(stage: Stage) -> None:
    address = f"cat@{DEFERRED}"
    uuid = stage.mail(address)
    wait_until(lambda: "451 4.3.0" in str(stage.show(uuid)), "it was deferred", 60)
    assert stage.show(uuid)["state"] in ("queued", "sending")
    assert (stage.group(address)["bounced"], stage.group(address)["delivered"]) == (0, 0)


def test_a_report_that_comes_back_bounces_what_was_delivered(stage: Stage) -> None:
    """The relay took the mail and could not deliver it: its report reaches the listener by the signed return path."""
    address = f"dan@{BOUNCING}"
    message = stage.wait_for_state(stage.mail(address), "bounced")
    assert "no such user behind the relay" in str(message)
    assert (stage.group(address)["bounced"], stage.group(address)["delivered"]) == (1, 0)
