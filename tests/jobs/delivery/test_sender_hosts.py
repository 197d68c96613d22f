"""Mail of a domain with hosts of its own: every link and address in it leads there
(docs/deliverability.md#hosts-of-a-domain)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import delete

from app.accounts.domain_hosts import set_hosts
from app.accounts.domains import add_domain, find_domain
from app.db.models import AccountHost
from app.sends.delivery.drain import drain
from app.services import Services
from tests.jobs.delivery.conftest import Changed, parsed
from tests.support.client import Client
from tests.support.rows import FROM, Rows
from tests.unit.transports.mailserver import MailServer

HOSTS = {"tracking_host": "click.acme.example", "return_path_host": "back.acme.example"}
HTML = '<p><a href="https://shop.example/a">A</a> <a href="%%unsubscribe_link%%">Leave</a></p>'


def give_hosts(services: Services, account_id: int, *, trusted: bool) -> None:
    """Gives the account a domain with hosts. Any account of another test that holds the hosts loses them first."""
    with services.database.write() as transaction:
        transaction.execute(delete(AccountHost))
        add_domain(transaction, account_id, "acme.example", trusted=trusted, secret_key=services.settings.secret_key)
        set_hosts(transaction, find_domain(transaction, account_id, "acme.example"), HOSTS, by_operator=True)


def hosts_in(content: bytes) -> set[str | None]:
    """The hosts of all links in the HTML and of the List-Unsubscribe header."""
    message = parsed(content)
    (html,) = (part for part in message.walk() if part.get_content_type() == "text/html")
    urls = re.findall(r'(?:href|src)="([^"]+)"', html.get_content())
    assert len(urls) == 3, "two links and the pixel"
    return {urlsplit(url).hostname for url in (*urls, message["List-Unsubscribe"].partition(">")[0].strip("<"))}


def test_links_and_addresses_lead_to_the_hosts_of_the_domain(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    worker = make_worker(public_url="https://send.service.example", bounce_domain="back.service.example")
    give_hosts(worker, rows.account_id, trusted=True)
    options: dict[str, Any] = {"list_id": rows.add_list(), "body_html": HTML, "track_opens": True, "track_clicks": True}
    for sender in (FROM, "hello@other.example"):
        rows.add_send(["ann@example.com"], from_address=sender, **options)
        drain(worker)
    own_mail, other = mail_server.mails
    assert (hosts_in(own_mail.content), own_mail.sender.partition("@")[2]) == (
        {"click.acme.example"},
        "back.acme.example",
    )
    assert "@back.acme.example>" in parsed(own_mail.content)["List-Unsubscribe"]
    assert (hosts_in(other.content), other.sender.partition("@")[2]) == (
        {"send.service.example"},
        "back.service.example",
    )


def test_a_host_whose_records_were_not_found_is_not_used(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    worker = make_worker(public_url="https://send.service.example", bounce_domain="back.service.example")
    give_hosts(worker, rows.account_id, trusted=False)
    rows.add_send(["ann@example.com"], list_id=rows.add_list(), body_text="Hello")
    drain(worker)
    (mail,) = mail_server.mails
    assert mail.sender.endswith("@back.service.example")
    assert "https://send.service.example/u/" in parsed(mail.content)["List-Unsubscribe"]


def test_requests_on_the_tracking_host_are_served(anon: Client) -> None:
    for path, status in (("/o/any.gif", 200), ("/c/any", 404), ("/u/any", 404), ("/healthz", 200)):
        answer = anon.request("GET", path, headers={"Host": "click.acme.example"})
        assert (answer.status_code, "location" in answer.headers) == (status, False)
