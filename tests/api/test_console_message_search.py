"""What the search of messages in the console understands, and what its table says of each message
(docs/console-messages.md#messages)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlalchemy import delete, select, update

from app.clock import now, timestamp
from app.console import message_search
from app.db.models import Message, QueueEntry, Recipient, SendPause
from app.sends.pauses.pause import Subject, pause
from tests.support.browser import Browser, signed_in, words
from tests.support.cases import each
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email

PATH = "/console/messages"


def send(sends: SendsApi, address: str, **changes: object) -> str:
    """Sends to an address; returns the uuid."""
    (uuid,) = sends.send(sends.email(recipients=[{"email": address}], **changes)).uuids
    return uuid


def put_aside(tenant: Tenant, uuid: str, **values: object) -> None:
    """Changes the queue entry of a message, as a sender or a restore does."""
    with tenant.services.database.write() as transaction:
        recipient_id = transaction.scalars(select(Recipient.id).where(Recipient.uuid == uuid)).one()
        transaction.execute(update(QueueEntry).where(QueueEntry.recipient_id == recipient_id).values(**values))


def names_listed(browser: Browser, addresses: dict[str, str], query: str) -> set[str]:
    """The names of those addresses that the page of a query lists."""
    answer = browser.get(f"{PATH}?{query}")
    assert answer.status_code == 200, answer.text
    return {name for name, address in addresses.items() if f">{address}<" in answer.text}


@pytest.fixture
def addresses(tenant: Tenant, sends: SendsApi) -> dict[str, str]:
    """Names of messages that differ in their address, subject, group or stored message, and the addresses."""
    made = {name: new_email(name) for name in ("address", "subject", "group", "stored", "other")}
    message_id = tenant.add_message(name="Password reset")
    send(sends, made["address"])
    send(sends, made["subject"], subject="Your invoice of May")
    send(sends, made["group"], group_name="Welcome pack")
    send(
        sends,
        made["stored"],
        message_id=message_id,
        **dict.fromkeys(("subject", "body_text", "from_name", "from_address")),
    )
    send(sends, made["other"], subject="100% off_all")
    return made


@each(
    ("text", "names"),
    [
        ("ADDRESS-", {"address"}),
        ("invoice of", {"subject"}),
        ("elcome P", {"group"}),
        ("Password res", {"stored"}),
        ("100%25 off_", {"other"}),
        ("0%25off", set()),
        ("off-all", set()),
        ("nowhere", set()),
    ],
)
def test_a_part_of_an_address_a_subject_or_a_name_finds_the_newest_messages(
    tenant: Tenant, addresses: dict[str, str], text: str, names: set[str]
) -> None:
    assert names_listed(signed_in(tenant), addresses, f"text={text}") == names


def test_the_page_says_what_it_has_understood(tenant: Tenant, addresses: dict[str, str]) -> None:
    browser = signed_in(tenant)
    for text, sentence in (
        ("Welcome pack", "Messages of the group “Welcome pack”."),
        ("Password reset", "Messages of the stored message “Password reset”."),
        (
            "Welcome",
            "Messages with “Welcome” in their address or subject, or in the name of their group or stored message, "
            "among the newest 10 000.",
        ),
    ):
        assert sentence in words(browser.get(f"{PATH}?text={text}"))
    assert "Messages with" not in words(browser.get(f"{PATH}?email={addresses['group']}"))


@each("query", ["text:in=a,b", "text=a&text=b"])
def test_one_text_is_looked_for_at_a_time(tenant: Tenant, query: str) -> None:
    answer = signed_in(tenant).get(f"{PATH}?{query}")
    assert (answer.status_code, "text: this page looks for one text at a time." in words(answer)) == (400, True)


@each("text", ["%00", "a%00b", "%ff", "%ed%a0%80", "%5C", "%25", "x" * 60_000])
def test_a_text_that_nothing_has_finds_nothing_whatever_it_is(tenant: Tenant, sends: SendsApi, text: str) -> None:
    send(sends, new_email())
    browser = signed_in(tenant)
    assert browser.get(f"{PATH}?text={text}").status_code in (200, 400)
    assert browser.get(f"{PATH}.csv?text={text}").status_code in (200, 400)
    assert browser.get(f"{PATH}?find={text}").status_code in (303, 400)


def test_a_page_of_one_group_names_it_and_leads_to_all(tenant: Tenant, other_tenant: Tenant, sends: SendsApi) -> None:
    group = sends.send(sends.email(group_name="Invoices")).group
    page = signed_in(tenant).get(f"{PATH}?group_id={group.id}")
    assert "Only messages of the group “Invoices”. Show all" in words(page)
    assert f'<input type="hidden" name="group_id" value="{group.id}">' in page.text
    assert f"Only messages of the group {group.id}." in words(
        signed_in(other_tenant).get(f"{PATH}?group_id={group.id}")
    )


def test_a_whole_name_finds_all_messages_and_a_part_the_newest_alone(
    tenant: Tenant, sends: SendsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_search, "MAX_SEARCHED", 1)
    addresses = {name: new_email(name) for name in ("older", "newer")}
    message_id = tenant.add_message(name="Reminder")
    stored = dict.fromkeys(("subject", "body_text", "from_name", "from_address"))
    for address in addresses.values():
        send(sends, address, group_name="Reminders", message_id=message_id, **stored)
    browser = signed_in(tenant)
    assert names_listed(browser, addresses, "text=Reminders") == {"older", "newer"}
    assert names_listed(browser, addresses, "text=Reminder") == {"older", "newer"}
    assert names_listed(browser, addresses, "text=eminder") == {"newer"}


def test_who_sees_no_contacts_finds_names_alone(tenant: Tenant, addresses: dict[str, str]) -> None:
    browser = signed_in(tenant, "report")
    for text, number in (("ADDRESS-", 0), ("invoice of", 0), ("elcome P", 1), ("Password res", 1)):
        page = browser.get(f"{PATH}?text={text}").text
        assert page.count('<th scope="row"') == number, text
    page = browser.get(PATH).text
    assert "Your invoice of May" not in page
    assert "Welcome pack" in page


def test_a_text_of_another_account_finds_nothing(
    tenant: Tenant, other_tenant: Tenant, addresses: dict[str, str]
) -> None:
    for text in ("elcome P", "Welcome pack", "Password reset"):
        assert names_listed(signed_in(other_tenant), addresses, f"text={text}") == set()


def test_a_message_names_its_group_and_its_stored_message_and_leads_there(tenant: Tenant, sends: SendsApi) -> None:
    message_id = tenant.add_message(name="Password reset")
    stored = dict.fromkeys(("subject", "body_text", "from_name", "from_address"))
    uuid = send(sends, new_email(), group_name="Resets", message_id=message_id, **stored)
    browser = signed_in(tenant)
    for path in (PATH, f"{PATH}/{uuid}"):
        page = browser.get(path).text
        assert 'href="/console/groups/' in page
        assert ">Resets</a>" in page
        assert f'<a href="/console/stored-messages/{message_id}">Password reset</a>' in page
    assert f'<a href="/console/lists/{sends.list_id}">' in browser.get(f"{PATH}/{uuid}").text


def test_a_message_of_a_deleted_stored_message_says_so(tenant: Tenant, sends: SendsApi) -> None:
    message_id = tenant.add_message(name="Gone soon")
    stored = dict.fromkeys(("subject", "body_text", "from_name", "from_address"))
    uuid = send(sends, new_email(), message_id=message_id, **stored)
    with tenant.services.database.write() as transaction:
        transaction.delete(transaction.get_one(Message, message_id))
    assert f"Stored message {message_id} (deleted)" in words(signed_in(tenant).get(f"{PATH}/{uuid}"))
    assert "Gone soon" not in signed_in(tenant).get(PATH).text


def test_a_waiting_message_says_why_it_waits_and_each_state_is_a_filter(tenant: Tenant, sends: SendsApi) -> None:
    addresses = {name: new_email(name) for name in ("queued", "deferred", "paused", "held")}
    uuids = {name: send(sends, address) for name, address in addresses.items()}
    later = now() + timedelta(hours=1)
    with tenant.services.database.write() as transaction:
        paused = pause(transaction, Subject(tenant.id, domain="paused.example"))
        pause_id, pause_time = paused.id, paused.creation_time
    put_aside(tenant, uuids["deferred"], due_time=later, ready_time=later, attempts=1)
    put_aside(tenant, uuids["paused"], state="paused", pause_id=pause_id)
    put_aside(tenant, uuids["held"], state="held", held_state="queued")
    browser = signed_in(tenant)
    page = words(browser.get(PATH))
    for words_of_state in (f"deferred until {in_utc(later)}", f"paused since {in_utc(pause_time)}", "held", "queued"):
        assert words_of_state in page
    for name in ("deferred", "paused", "held"):
        assert names_listed(browser, addresses, f"state={name}") == {name}
        assert 'hx-trigger="every 3s"' in browser.get(f"{PATH}?state={name}").text, "it will change"
        assert names_listed(browser, addresses, f"state:ne={name}") == set(addresses) - {name}
    assert names_listed(browser, addresses, "state=queued") == set(addresses)
    assert names_listed(browser, addresses, "state:in=deferred,held") == {"deferred", "held"}
    assert browser.get(f"{PATH}?state=late").status_code == 400
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(SendPause).where(SendPause.id == pause_id))


def in_utc(moment: datetime) -> str:
    return timestamp(moment).replace("T", " ")[:16] + " UTC"


def test_who_sees_no_contacts_sees_the_states_of_the_api(tenant: Tenant, sends: SendsApi) -> None:
    uuid = send(sends, new_email())
    put_aside(tenant, uuid, state="held", held_state="queued")
    browser = signed_in(tenant, "report")
    assert "queued" in words(browser.get(PATH))
    assert "<option>held" not in browser.get(PATH).text
    assert browser.get(f"{PATH}?state=held").status_code == 400


def test_a_reply_is_shortened_to_its_meaning_and_whole_on_the_page_of_the_message(
    tenant: Tenant, sends: SendsApi
) -> None:
    uuid, reply = send(sends, new_email()), "550 5.1.1 nobody of that name lives here"
    with tenant.services.database.write() as transaction:
        recipient = transaction.scalars(select(Recipient).where(Recipient.uuid == uuid)).one()
        transaction.delete(transaction.get_one(QueueEntry, recipient.id))
        recipient.state, recipient.reason = "bounced", reply
    browser = signed_in(tenant)
    assert "bounced mailbox does not exist" in words(browser.get(PATH))
    assert f'title="{reply}"' in browser.get(PATH).text
    assert reply in words(browser.get(f"{PATH}/{uuid}"))
