"""Tags and metadata reach events, exports and pages, and metadata goes with the content and with the person
(docs/tags.md)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import delete, select

from app.clock import now
from app.db.models import QueueEntry, RecipientLabel
from app.inbound.email.receive import receive_email
from app.privacy.export import export_person
from app.privacy.forget import forget
from app.recipients.labels import metadata_label, tag_label
from app.retention.periods import Period, Stage
from app.retention.slices import purge
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.sends.outcomes.requeue import requeue
from app.services import Services
from app.tracking.feedback_channels import unsubscribe_link
from app.tracking.links import InlineLink, link_token
from app.tracking.recorder import VISITS
from app.tracking.tokens import return_path
from tests.cli.conftest import Cli
from tests.jobs.conftest import changed
from tests.support.browser import signed_in
from tests.support.client import SENDS, Client, items, not_found
from tests.support.mail_reports import delivery_failure
from tests.support.rows import Rows
from tests.support.sends import AcceptedSend, SendsApi
from tests.support.servers import PATIENCE
from tests.support.tenants import Tenant, new_email
from tests.unit.transports.mailserver import MailServer

ORDER = {"order": "47110815", "customer": "c-1"}
DAY = timedelta(days=1)


@dataclass
class Shop:
    """An account whose messages have labels, and the worker that sends them."""

    sends: SendsApi
    worker: Services

    @property
    def tenant(self) -> Tenant:
        return self.sends.tenant

    def receipt(self, *emails: str, **changes: Any) -> AcceptedSend:
        """A receipt that was delivered."""
        people = [{"email": email} for email in emails]
        accepted = self.sends.send(
            self.sends.email(**{"tags": ["receipt", "shop"], "metadata": ORDER, "recipients": people, **changes})
        )
        drain(self.worker)
        return accepted

    def seen(self, uuid: str) -> tuple[Any, Any]:
        """Tags and metadata of a message."""
        body = self.tenant.api.get(f"{SENDS}/{uuid}").get_json()
        return body["tags"], body["metadata"]

    def matches(self, query: str) -> list[str]:
        """The uuids of the messages that a query finds, the newest first."""
        return [item["uuid"] for item in items(self.tenant.api.get(f"{SENDS}?{query}"), "recipients")]

    def labels(self) -> list[tuple[int, str]]:
        """The rows of labels of the account."""
        statement = select(RecipientLabel.recipient_id, RecipientLabel.label).filter_by(account_id=self.tenant.id)
        with self.worker.database.read() as session:
            rows = session.execute(statement.order_by(RecipientLabel.recipient_id, RecipientLabel.label)).all()
        return [(row[0], row[1]) for row in rows]


@pytest.fixture
def shop(tenant: Tenant) -> Iterator[Shop]:
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(QueueEntry))
    with MailServer() as server:
        worker = changed(tenant.services, email_transport_url=server.url())
        yield Shop(SendsApi(tenant), worker)
        close_sender_worker(worker)


def test_events_have_the_tags_and_the_metadata(shop: Shop) -> None:
    rows = Rows(shop.worker, shop.tenant.id)
    rows.add_webhook()
    shop.receipt(new_email())
    shop.receipt(new_email(), tags=None, metadata=None)
    events = [orjson.loads(payload) for payload in rows.payloads()]
    first, second = (event for event in events if event["object"] == "recipient")
    assert (first["event"], first["tags"], first["metadata"]) == ("sent", ["receipt", "shop"], ORDER)
    assert {"tags", "metadata"}.isdisjoint(second)


def test_they_are_exported_and_shown_to_operators(shop: Shop) -> None:
    cli, email = Cli(shop.tenant.app), new_email()
    accepted = shop.receipt(email, email)
    shop.receipt(new_email(), tags=None, metadata=None)
    text = cli.run("sends", "export", "-", "tag=receipt", "--account", shop.tenant.name).stdout
    exported = list(csv.DictReader(io.StringIO(text)))
    assert [row["uuid"] for row in exported] == accepted.uuids
    assert {row["tags"] for row in exported} == {'["receipt","shop"]'}
    assert [orjson.loads(row["metadata"]) for row in exported] == [ORDER, ORDER]
    listed = cli.json("sends", "list", "metadata.order=47110815", "--account", shop.tenant.name)
    assert [row["uuid"] for row in listed] == accepted.uuids[::-1]
    (uuid, _) = accepted.uuids
    row = cli.json("sends", "show", uuid)
    assert (row["tags"], row["metadata"]) == (["receipt", "shop"], ORDER)
    assert "47110815" in cli.text("sends", "show", uuid)


def test_bulk_actions_select_by_tags_but_not_by_metadata(shop: Shop) -> None:
    shop.receipt(new_email())
    cli = Cli(shop.tenant.app)
    retry = ("sends", "retry", "--dry-run", "--account", shop.tenant.name)
    assert cli.json(*retry, "tag=receipt", "state=failed")["messages"] == 0
    assert cli.refused(*retry, "metadata.order=47110815") == (
        "metadata.order: a bulk action cannot select by metadata, which may name somebody; select by a tag."
    )


def test_the_console_shows_the_metadata_to_those_who_see_contacts(shop: Shop) -> None:
    (uuid,) = shop.receipt(new_email()).uuids
    for level, sees in (("standard", True), ("report", False)):
        browser = signed_in(shop.tenant, level)
        page = browser.get(f"/console/messages/{uuid}").text
        assert "receipt" in page
        assert ("47110815" in page) is sees
        file = browser.get("/console/messages/all.csv?tag=receipt").text
        assert "receipt" in file
        assert ("47110815" in file) is sees


def test_metadata_is_purged_with_the_content_and_tags_stay(shop: Shop) -> None:
    accepted = shop.receipt(new_email())
    (recipient,) = accepted.recipients
    purge(shop.worker, Stage.CONTENT, [Period(shop.tenant.id, DAY)], now() + 2 * DAY)
    assert shop.seen(recipient.uuid) == (["receipt", "shop"], None)
    assert shop.labels() == [(recipient.id, tag_label("receipt")), (recipient.id, tag_label("shop"))]
    assert (shop.matches("tag=shop"), shop.matches("metadata.order=47110815")) == ([recipient.uuid], [])


def test_labels_are_purged_with_their_recipients(shop: Shop) -> None:
    shop.receipt(new_email(), new_email())
    purge(shop.worker, Stage.RECIPIENTS, [Period(shop.tenant.id, DAY)], now() + 2 * DAY)
    assert (shop.labels(), shop.matches("tag=receipt")) == ([], [])


def test_metadata_of_a_person_is_handed_out_and_forgotten(shop: Shop) -> None:
    ann, bob = new_email(), new_email()
    to_ann, to_bob = shop.receipt(ann, bob, headers={"X-Order": "47110815"}).recipients
    pages = export_person(shop.worker, [shop.tenant.id], "email", ann)
    assert pages is not None
    handed_out = [row for _, place, rows in pages if place == "recipients" for row in rows]
    assert [(row["tags"], row["custom_metadata"], row["headers"]) for row in handed_out] == [
        (["receipt", "shop"], ORDER, {"X-Order": "47110815"})
    ]
    forget(shop.worker, [shop.tenant.id], "email", ann, wait=0)
    assert shop.seen(to_ann.uuid) == (["receipt", "shop"], None)
    assert shop.seen(to_bob.uuid) == (["receipt", "shop"], ORDER)
    assert shop.matches("metadata.customer=c-1") == [to_bob.uuid]
    assert shop.matches("tag=receipt") == [to_bob.uuid, to_ann.uuid]
    tags = [tag_label("receipt"), tag_label("shop")]
    metadata = sorted(metadata_label(*entry) for entry in ORDER.items())
    assert shop.labels() == [*((to_ann.id, tag) for tag in tags), *((to_bob.id, label) for label in (*metadata, *tags))]


def test_a_tag_counts_what_the_groups_of_its_messages_count(shop: Shop, anon: Client) -> None:
    cli = Cli(shop.tenant.app, shop.tenant.name)
    opening, bouncing, leaving = shop.receipt(new_email(), new_email(), new_email(), group_name="Receipts").recipients
    shop.receipt(new_email(), group_name="Receipts", tags=["receipt"])
    shop.receipt(new_email(), group_name="Others", tags=["reminder"])
    settings = shop.worker.settings
    target = link_token(settings.secret_key, InlineLink(opening.id, "html_email", "https://a.example/"))
    assert anon.get(f"/c/{target}").status_code == 302
    assert shop.tenant.app.extensions[VISITS].flush(PATIENCE)
    to = return_path(settings, bouncing.id, f"hello@{shop.tenant.domain}")
    receive_email(shop.worker, delivery_failure(to, bouncing.email), [to], patience=0)
    link = unsubscribe_link(settings, leaving.id).removeprefix(settings.public_url)
    assert anon.request("POST", link).status_code == 200
    (group,) = items(shop.tenant.api.get("/v1/transactional-groups?name=Receipts"), "transactional-groups")
    counts = shop.tenant.api.get("/v1/tags/receipt").get_json()
    days = counts.pop("days")
    assert counts.pop("_links") == {"self": {"href": "/v1/tags/receipt"}}
    expected = {"sent": 4, "delivered": 3, "bounced": 1, "clicked": 1, "opened": 1, "unsubscribed": 1}
    assert counts == {"tag": "receipt", "failed_contacts": 0, **expected}
    assert {name: group[name] for name in expected} == expected
    assert len(days) == 30
    assert days[0]["day"] >= days[1]["day"]
    assert sum(day["sent"] for day in days[:2]) == 4
    shop_counts = shop.tenant.api.get("/v1/tags/shop?fields=tag,sent,bounced").get_json()
    assert {name: shop_counts[name] for name in shop_counts if name != "_links"} == {
        "tag": "shop",
        "sent": 3,
        "bounced": 1,
    }
    stats = cli.json("groups", "stats", "--tag", "receipt", "--last", "2")
    assert sum(row["delivered"] for row in stats) == 3
    assert cli.refused("groups", "stats", "Receipts", "--tag", "receipt") == "--tag: give a group or a tag, not both"


def test_a_retried_message_counts_as_bounced_no_more(shop: Shop) -> None:
    (recipient,) = shop.receipt(new_email(), tags=["a/b"]).recipients
    to = return_path(shop.worker.settings, recipient.id, f"hello@{shop.tenant.domain}")
    receive_email(shop.worker, delivery_failure(to, recipient.email, status="5.7.1"), [to], patience=0)
    path = "/v1/tags/a%2Fb"
    counts = shop.tenant.api.get(path).get_json()
    assert (counts["tag"], counts["bounced"], counts["delivered"]) == ("a/b", 1, 0)
    assert counts["_links"] == {"self": {"href": path}}
    with shop.worker.database.write() as transaction:
        requeue(transaction, recipient.uuid)
    assert shop.tenant.api.get(path).get_json()["bounced"] == 0


def test_a_tag_of_nobody_is_not_found(shop: Shop, other_tenant: Tenant) -> None:
    shop.receipt(new_email())
    for tag in ("Receipt", "receipt%00", "receipt%20", "nothing"):
        body = not_found(shop.tenant.api.get(f"/v1/tags/{tag}"))
        assert "Nothing was counted of this tag" in body["developer_message"]
    not_found(other_tenant.api.get("/v1/tags/receipt"))
