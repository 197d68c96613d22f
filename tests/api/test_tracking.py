"""Effects of the pixel and of tracked links (docs/tracking.md#counting)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update
from werkzeug.test import TestResponse

from app.accounts.domain_hosts import set_hosts
from app.accounts.domains import delete_domain, find_domain
from app.clock import now
from app.db.bulk import draw_ids
from app.db.models import Account, Recipient, RecipientStep, Send, SendLink
from app.settings import Settings
from app.tracking import devices, record
from app.tracking.devices import client_of
from app.tracking.links import InlineLink, StoredLink, link_token
from app.tracking.record import MAX_STEPS_OF_LINK, record_visits
from app.tracking.recorder import VISITS
from app.tracking.tokens import OPEN_PURPOSE, UNSUBSCRIBE_PURPOSE, recipient_token
from app.tracking.visits import visit_of
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import Client
from tests.support.rows import Rows
from tests.support.servers import PATIENCE
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant, new_email

URL = "https://shop.acme.example/offers?a=1&b=%20"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148"
BOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"


class Mail:
    """A mail to one recipient of an account with a webhook, and the visits of its reader."""

    def __init__(self, tenant: Tenant, anon: Client) -> None:
        self.rows, self.secret, self._anon = Rows(tenant.services, tenant.id), tenant.services.settings.secret_key, anon
        self._app = tenant.app
        self.email = new_email()
        self.rows.add_webhook()
        (self.id,) = self.rows.add_send([self.email])

    def written(self) -> Rows:
        """The rows, after all visits are recorded, which happens after the answer."""
        assert self._app.extensions[VISITS].flush(PATIENCE)
        return self.rows

    @property
    def row(self) -> Any:
        return self.written().recipient(self.id)

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of opens and clicks of the group."""
        group = self.written().group_of(self.id)
        return group.opened, group.clicked

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(payload) for payload in self.written().payloads()]

    @property
    def steps(self) -> list[str]:
        return [step for step, _ in self.written().steps(self.id)]

    def open(self, method: str = "GET", **headers: str) -> TestResponse:
        """Requests the pixel, as a program does that shows images."""
        return self._ask(method, f"/o/{recipient_token(self.secret, OPEN_PURPOSE, self.id)}.gif", headers)

    def click(self, url: str = URL, link_type: Any = "html_email", method: str = "GET", **headers: str) -> TestResponse:
        """Follows the link of the token."""
        return self.follow(InlineLink(self.id, link_type, url), method, headers)

    def follow(self, link: StoredLink | InlineLink, method: str = "GET", headers: Any = None) -> TestResponse:
        """Follows any link."""
        return self._ask(method, f"/c/{link_token(self.secret, link)}", headers or {})

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> TestResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._anon.request(method, path, headers=named)

    def much_later(self) -> None:
        """Moves everything until now into the past."""
        self.written()
        with self.rows.services.database.write() as transaction:
            for step in transaction.query(RecipientStep).filter_by(recipient_id=self.id):
                step.time -= record.REPEAT_PERIOD


@pytest.fixture(autouse=True)
def longer_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine two visits of a test may be ten seconds apart."""
    assert timedelta(seconds=10) == record.REPEAT_PERIOD
    monkeypatch.setattr(record, "REPEAT_PERIOD", timedelta(hours=1))


@pytest.fixture
def mail(tenant: Tenant, anon: Client) -> Mail:
    return Mail(tenant, anon)


def test_the_pixel_counts_an_open(mail: Mail) -> None:
    """The pixel is an image that must not be cached."""
    response = mail.open(User_Agent=IPHONE)
    assert (response.status_code, response.mimetype) == (200, "image/gif")
    assert response.data.startswith(b"GIF89a")
    assert "no-store" in response.headers["Cache-Control"]
    assert mail.counts == (1, 0)
    assert mail.row.open_type == "html"
    assert mail.row.first_open_time == mail.row.last_open_time
    assert mail.row.first_click_time is None
    (event,) = mail.events
    assert event == {
        "object": "recipient",
        "event": "opened",
        "id": mail.id,
        "timestamp": event["timestamp"],
        "uuid": mail.row.uuid,
        "group_id": mail.row.group_id,
        "group_name": f"group {mail.row.group_id}",
        "report_id": mail.row.group_id,
        "message_type": "email",
        "email": mail.email,
        "device_type": "mobile",
        "device_name": "iPhone",
    }
    assert mail.rows.steps(mail.id) == [("opened", IPHONE)]


@pytest.mark.parametrize(("link_type", "open_type"), [("html_email", "html"), ("text_email", "text")])
def test_a_link_redirects_to_its_target_and_counts_as_an_open(mail: Mail, link_type: str, open_type: str) -> None:
    response = mail.click(link_type=link_type, User_Agent=IPHONE)
    assert (response.status_code, response.headers["Location"]) == (302, URL)
    assert "no-store" in response.headers["Cache-Control"]
    assert mail.counts == (1, 1)
    assert (mail.row.open_type, mail.row.first_open_time) == (open_type, mail.row.first_click_time)
    opened, clicked = mail.events
    assert (opened["event"], clicked["event"]) == ("opened", "clicked")
    assert "link_url" not in opened
    assert (clicked["link_url"], clicked["link_type"], clicked["device_type"]) == (URL, link_type, "mobile")
    assert mail.rows.steps(mail.id) == [("clicked", f"{URL} · {IPHONE}")]


@each(
    "url",
    [
        "https://a.example/?filter[x]=1&b={}|^#",
        "HTTPS://A..example:99999999/%%x%%",
        "http://[bad/",
        "http://" + "x" * 70 + ".example",
    ],
)
def test_a_link_redirects_exactly_to_the_url_as_written(mail: Mail, url: str) -> None:
    """A visitor is redirected even to a URL that URL parsers do not accept."""
    response = mail.click(url)
    assert (response.status_code, response.headers["Location"]) == (302, url)


def test_a_stored_link_works_for_recipients_of_its_send_only(mail: Mail) -> None:
    link_id = mail.rows.add(SendLink, send_id=mail.row.send_id, link_type="text_email", url=URL)
    assert mail.follow(StoredLink(mail.id, link_id)).headers["Location"] == URL
    assert mail.events[-1]["link_type"] == "text_email"
    (stranger,) = mail.rows.add_send([new_email()])
    assert mail.follow(StoredLink(stranger, link_id)).status_code == 404
    assert mail.follow(StoredLink(mail.id, link_id + 1)).status_code == 404


def test_a_repeated_visit_changes_the_last_time_only(mail: Mail) -> None:
    """A repetition is reported once, for each link separately."""
    for _ in range(3):
        mail.open(User_Agent=IPHONE)
        mail.click(User_Agent=IPHONE)
    mail.click("https://other.acme.example/", User_Agent=IPHONE)
    assert mail.counts == (1, 1)
    assert [event["event"] for event in mail.events] == ["opened", "clicked", "clicked"]
    assert mail.steps == ["opened", "clicked", "clicked"]


def test_later_opens_and_clicks_are_reported_but_not_counted(mail: Mail) -> None:
    """The group counts each recipient once."""
    mail.click(User_Agent=IPHONE)
    early = now().replace(microsecond=0) - record.REPEAT_PERIOD
    mail.written().change([mail.id], first_open_time=early, last_open_time=early, first_click_time=early)
    mail.much_later()
    mail.open(User_Agent=IPHONE)
    mail.click(link_type="text_email", User_Agent=IPHONE)
    assert mail.counts == (1, 1)
    assert [event["event"] for event in mail.events] == ["opened", "clicked", "opened", "clicked"]
    row = mail.row
    assert (row.first_open_time, row.first_click_time, row.open_type) == (early, early, "html")
    assert row.last_open_time is not None
    assert row.last_open_time > early


@pytest.mark.parametrize(
    ("method", "headers"), [("GET", {"User_Agent": BOT}), ("HEAD", {}), ("GET", {"Sec_Purpose": "prefetch"})]
)
def test_visits_of_machines_are_not_counted(mail: Mail, method: str, headers: dict[str, str]) -> None:
    """Visits of machines appear in the timeline only."""
    assert mail.open(method, **headers).status_code == 200
    for _ in range(2):
        assert mail.click(method=method, **headers).headers["Location"] == URL
    assert mail.steps == ["opened by machine", "clicked by machine"]
    assert (mail.counts, mail.events, mail.row.open_type) == ((0, 0), [], "not_opened")
    assert mail.row.last_open_time is None


def test_events_of_machines_are_sent_to_accounts_that_want_them(mail: Mail) -> None:
    """An event of a machine says that it is one, and is not counted."""
    with mail.rows.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == mail.rows.account_id).values(machine_events=True))
    mail.open(User_Agent=BOT)
    mail.click(User_Agent=BOT)
    assert [(event["event"], event["is_machine"]) for event in mail.events] == [("opened", True), ("clicked", True)]
    assert (mail.counts, mail.row.open_type, mail.row.last_open_time) == ((0, 0), "not_opened", None)
    mail.open(User_Agent=IPHONE)
    assert (mail.counts, "is_machine" in mail.events[-1]) == ((1, 0), False)


def test_a_visit_in_haste_counts_and_its_events_say_so(mail: Mail) -> None:
    mail.rows.change([mail.id], sent_time=now() + timedelta(minutes=1))
    mail.click(User_Agent=IPHONE)
    assert mail.counts == (1, 1)
    assert [(event["event"], event.get("is_machine")) for event in mail.events] == [("opened", True), ("clicked", True)]
    mail.rows.change([mail.id], sent_time=now() - timedelta(minutes=1))
    mail.click("https://other.acme.example/", User_Agent=IPHONE)
    assert "is_machine" not in mail.events[-1]


def test_clicks_on_all_links_at_once_are_suspect(mail: Mail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "BURST_PERIOD", timedelta(hours=1))  # a slow machine is no slow reader
    for number in (1, 2, 2, 3):
        mail.click(f"https://{number}.acme.example/", User_Agent=IPHONE)
    assert [event.get("is_machine") for event in mail.events if event["event"] == "clicked"] == [None, None, True]
    assert mail.counts == (1, 1)


def test_the_country_is_that_of_the_client(settings: Settings, tenant: Tenant) -> None:
    """Behind a trusted proxy, of the forwarded address. The step of the timeline has it, too; machines have none."""
    with app_with(settings, trusted_proxies=1) as app:
        mail = Mail(tenant, Client(app))
        mail.open(X_Forwarded_For="1.1.1.1")
        mail.click(X_Forwarded_For="10.0.0.1")
        mail.open(X_Forwarded_For="1.1.1.1", User_Agent=BOT)
        assert app.extensions[VISITS].flush(PATIENCE)
    assert [event.get("country_code") for event in mail.events] == ["AU", None]
    with tenant.services.database.read() as session:
        steps = select(RecipientStep).where(RecipientStep.recipient_id == mail.id).order_by(RecipientStep.id)
        steps_with_country = [(step.step, step.country) for step in session.scalars(steps)]
    assert steps_with_country == [("opened", "AU"), ("clicked", None), ("opened by machine", None)]


@each("token", ["nonsense", "A" * 24, "A" * 4000])
def test_a_forged_token_does_not_redirect(mail: Mail, anon: Client, token: str) -> None:
    """Only links of messages that this service signed redirect."""
    page = anon.get(f"/c/{token}")
    assert (page.status_code, page.mimetype) == (404, "text/html")
    assert "This link does not work" in page.text
    image = anon.get(f"/o/{token}.gif")
    assert (image.status_code, image.mimetype) == (200, "image/gif")
    other = link_token(mail.secret + "x", InlineLink(mail.id, "html_email", URL))
    assert anon.get(f"/c/{other}").status_code == 404
    assert (mail.counts, mail.events, mail.steps) == ((0, 0), [], [])


def test_links_of_a_deleted_recipient(mail: Mail) -> None:
    """A link still redirects where its token contains the target."""
    send_id = mail.row.send_id
    with mail.rows.services.database.write() as transaction:
        transaction.execute(delete(Send).where(Send.id == send_id))
    assert mail.open().status_code == 200
    assert mail.click().headers["Location"] == URL
    assert mail.events == []


def test_the_answer_does_not_wait_for_writers(mail: Mail) -> None:
    """The answer waits neither for a writer of the whole database (SQLite) nor for one of the recipient's row. The
    visit is recorded afterwards."""
    link_id = mail.rows.add(SendLink, send_id=mail.row.send_id, link_type="html_email", url=URL)
    with mail.rows.services.database.write() as transaction:
        transaction.execute(update(Recipient).where(Recipient.id == mail.id).values(open_type="not_opened"))
        assert mail.open(User_Agent=IPHONE).status_code == 200
        assert mail.follow(StoredLink(mail.id, link_id), headers={"User-Agent": IPHONE}).headers["Location"] == URL
        assert mail.click("https://other.acme.example/", User_Agent=IPHONE).status_code == 302
    assert mail.steps == ["opened", "clicked", "clicked"]
    assert mail.counts == (1, 1)


def test_the_first_visits_of_a_link_are_reported_and_further_ones_counted(mail: Mail) -> None:
    """The client may use any new names. Other links, and machines, are counted separately."""
    for number in range(MAX_STEPS_OF_LINK + 5):
        mail.click(User_Agent=f"{IPHONE} {number}")
    mail.click("https://other.acme.example/", User_Agent=IPHONE)
    mail.click(User_Agent=BOT)
    assert mail.steps == ["clicked"] * (MAX_STEPS_OF_LINK + 1) + ["clicked by machine"]
    assert [event["event"] for event in mail.events] == ["opened"] + ["clicked"] * (MAX_STEPS_OF_LINK + 1)
    assert (mail.row.further_visits, mail.counts) == (5, (1, 1))


def test_the_number_of_reported_visits_of_a_message_is_limited(mail: Mail, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message may have thousands of links."""
    monkeypatch.setattr(record, "MAX_STEPS_OF_KIND", 3)
    for number in range(5):
        mail.click(f"https://{number}.acme.example/", User_Agent=IPHONE)
    mail.open(User_Agent=IPHONE)
    assert mail.steps == ["clicked"] * 3 + ["opened"]
    assert mail.row.further_visits == 2


@pytest.mark.both("SQLite writes some counters apart")
@pytest.mark.parametrize("count", [1, 100])
def test_visits_take_a_fixed_number_of_statements(mail: Mail, count: int) -> None:
    ids = mail.rows.add_send([new_email() for _ in range(count)])
    services = mail.rows.services
    visits = [visit_of(services.settings, link, client_of("GET", {"User-Agent": IPHONE}), None, None) for link in ids]
    with StatementCounter(services.database.engine) as counted, services.database.write() as transaction:
        record_visits(transaction, visits)
    # The recipients, their steps; the recipients, the webhooks, the events, the steps; the counters, of which SQLite
    # writes the group's and the hour's apart. SQLite begins first.
    assert counted.count == (7 if services.database.is_postgresql else 9)


# ---------------------------------------------------------------------------------------------- hosts


def give_host(tenant: Tenant, host: str | None) -> None:
    """Gives the sending domain of an account a tracking host, or none."""
    with tenant.services.database.write() as transaction:
        domain = find_domain(transaction, tenant.id, tenant.domain)
        set_hosts(transaction, domain, {"tracking_host": host}, by_operator=False)


def stored_link(mail: Mail) -> StoredLink:
    """A link that is stored with the send."""
    send_id = mail.rows.recipient(mail.id).send_id
    values = {"send_id": send_id, "link_type": "html_email", "url": URL}
    with mail.rows.services.database.write() as transaction:
        (link_id,) = draw_ids(transaction, SendLink, 1)
        transaction.execute(insert(SendLink).values(id=link_id, account_id=mail.rows.account_id, **values))
    return StoredLink(mail.id, link_id)


def test_links_lead_nowhere_under_the_host_of_another_account(mail: Mail, tenant: Tenant, other_tenant: Tenant) -> None:
    """Nobody can redirect from a name that readers know as another's."""
    host, other = f"click.{tenant.domain}", f"click.{other_tenant.domain}"
    give_host(tenant, host)
    give_host(other_tenant, other)
    links = (stored_link(mail), InlineLink(mail.id, "html_email", URL), InlineLink(mail.id, "text_email", URL))
    for named, status in ((other, 404), (f"{other.upper()}.:8000", 404), (host, 302), ("localhost", 302)):
        for link in links:
            answer = mail.follow(link, headers={"Host": named})
            assert (answer.status_code, answer.headers.get("Location")) == (status, URL if status == 302 else None)
    assert mail.open(Host=other).status_code == 404
    assert mail.steps == ["clicked"]
    assert mail.open(Host=host).mimetype == "image/gif"
    assert mail.steps == ["clicked", "opened"]


def test_links_that_were_sent_work_under_every_host_that_the_account_had(
    mail: Mail, tenant: Tenant, other_tenant: Tenant
) -> None:
    former, new = f"former.{tenant.domain}", f"new.{tenant.domain}"
    for host in (former, new, None):
        give_host(tenant, host)
    link = stored_link(mail)
    for host in (former, new, "127.0.0.1", "unknown.example", "backend"):
        assert mail.follow(link, headers={"Host": host}).status_code == 302
    with tenant.services.database.write() as transaction:
        delete_domain(transaction, tenant.id, tenant.domain)
    assert mail.click(Host=former).status_code == 302
    foreign = Mail(other_tenant, Client(tenant.app))
    assert foreign.click(Host=former).status_code == 404


def test_unsubscribing_works_wherever_its_token_arrives(mail: Mail, other_tenant: Tenant, anon: Client) -> None:
    host = f"click.{other_tenant.domain}"
    give_host(other_tenant, host)
    path = f"/u/{recipient_token(mail.secret, UNSUBSCRIBE_PURPOSE, mail.id)}"
    for method in ("GET", "POST"):
        assert anon.request(method, path, headers={"Host": host}).status_code == 200
    assert mail.steps == ["unsubscribed"]


def test_what_a_test_account_sent_leads_somewhere_under_the_host_of_its_account(
    tenant: Tenant, other_tenant: Tenant, anon: Client
) -> None:
    give_host(other_tenant, f"click.{other_tenant.domain}")
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(test_of=other_tenant.id))
    assert Mail(tenant, anon).click(Host=f"click.{other_tenant.domain}").status_code == 302


def test_a_link_of_a_deleted_recipient_leads_nowhere_under_the_host_of_an_account(
    mail: Mail, other_tenant: Tenant
) -> None:
    give_host(other_tenant, f"click.{other_tenant.domain}")
    with mail.rows.services.database.write() as transaction:
        transaction.execute(delete(RecipientStep).where(RecipientStep.recipient_id == mail.id))
        transaction.execute(delete(Recipient).where(Recipient.id == mail.id))
    assert mail.click(Host=f"click.{other_tenant.domain}").status_code == 404
    assert mail.open(Host=f"click.{other_tenant.domain}").status_code == 200
    assert mail.click().status_code == 302


def test_a_click_under_a_host_of_the_installation_takes_no_further_statement(
    mail: Mail, count_statements: Callable[[], StatementCounter]
) -> None:
    link = stored_link(mail)

    def statements(host: str) -> int:
        with count_statements() as counter:
            assert mail.follow(link, headers={"Host": host}).status_code == 302
        mail.written()
        return len(
            [statement for statement in counter.statements if "send_links" in statement or "account_hosts" in statement]
        )

    assert (statements("localhost"), statements("unknown.example")) == (1, 2)
