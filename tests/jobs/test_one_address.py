"""An email address is one, however it is spelled, also in rows of releases that told the spellings apart
(docs/contacts.md#one-address, docs/upgrade.md#from-before-the-first-release)."""

from __future__ import annotations

import unicodedata
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import update

from app.addresses import email_key, normalize_address
from app.clock import this_second
from app.contacts.blocked import COMPLAINT, PERMANENT_BOUNCE, TEMPORARY_BOUNCES
from app.db.address_forms import PREFIX
from app.db.models import (
    Account,
    AuditEntry,
    BlockedAddress,
    Contact,
    DigestKey,
    SoftBounces,
    Unsubscriber,
)
from app.inbound.email.receive import receive_email
from app.infrastructure.digests import address_digest, address_digests, new_digest_key
from app.maintenance import stored_addresses
from app.maintenance.stored_addresses import compare_stored_addresses
from app.privacy.forget import forget
from app.sends.delivery.drain import drain
from app.sends.outcomes.bounce_blocking import SOFT_BOUNCES_THAT_BLOCK
from app.tracking.tokens import return_path
from tests.cli.conftest import Cli
from tests.support.client import SENDS, conflict, items
from tests.support.contacts import (
    add_webhook,
    block,
    contact,
    contacts_path,
    entries,
    events,
    find,
    resubscribe,
    unblock,
    unsubscribe,
)
from tests.support.mail_reports import complaint, delivery_failure, qmail_failure
from tests.support.rows import FROM, Rows
from tests.support.sends import SendsApi, rows_of
from tests.support.tenants import Tenant, new_email, unique

LONG_AGO = timedelta(days=100)
SPELLINGS = ("written", "ascii", "decomposed", "capitals")


class Address:
    """A new address, as people write it, with its domain in ASCII, decomposed (NFD), and with other letters that mean
    the same."""

    def __init__(self, name: str = "jürgen") -> None:
        local = unique(name)
        self.written = f"{local}@bücher.example"
        self.ascii = f"{local}@xn--bcher-kva.example"
        self.decomposed = unicodedata.normalize("NFD", self.written)
        self.capitals = f"{local.upper()}@BÜCHER。example"
        self.before = self.written.lower()
        """The written form as an earlier release stores it."""
        assert {email_key(getattr(self, spelling)) for spelling in SPELLINGS} == {self.ascii}


@pytest.fixture
def sends(tenant: Tenant) -> SendsApi:
    """The sends API of the account."""
    return SendsApi(tenant)


@pytest.fixture
def cli(tenant: Tenant) -> Cli:
    """Commands on the account."""
    return Cli(tenant.app, tenant.name)


@pytest.fixture
def bare_cli(tenant: Tenant) -> Cli:
    """Commands that name no account."""
    return Cli(tenant.app)


@pytest.fixture
def address() -> Address:
    return Address()


def add_unsubscriber(tenant: Tenant, address: str, list_id: int | None = None, **values: Any) -> int:
    """Adds an entry as a process of an earlier release does, without the flags of contacts."""
    return tenant.add(
        Unsubscriber,
        **{"list_id": list_id, "kind": "email", "address": address, "creation_time": this_second(), **values},
    )


def add_block(tenant: Tenant, address: str, reason: str = PERMANENT_BOUNCE, **values: Any) -> int:
    return tenant.add(
        BlockedAddress,
        **{"kind": "email", "address": address, "reason": reason, "creation_time": this_second(), **values},
    )


def add_contact(tenant: Tenant, list_id: int, email: str, **values: Any) -> int:
    """Adds a contact as an earlier release stores it."""
    key = email.lower()
    return Rows(tenant.services, tenant.id).add_contact(list_id, email, email_key=key, identifier=key, **values)


def stored(tenant: Tenant, model: Any) -> list[str]:
    return sorted(row.address for row in rows_of(tenant, model))


def fate(tenant: Tenant, sends: SendsApi, email: str, **changes: Any) -> str | None:
    """Why a message to the address is not sent."""
    accepted = sends.send(sends.email(recipients=[{"email": email}], **changes))
    drain(tenant.services)
    reason: str | None = accepted.recipient.reason
    return reason


# ---------------------------------------------------------------------------------------------- suppressions


@pytest.mark.parametrize(("first", "second"), [*pairwise(SPELLINGS), *pairwise(reversed(SPELLINGS))])
def test_what_one_spelling_unsubscribes_or_blocks_holds_for_the_others(
    tenant: Tenant, sends: SendsApi, address: Address, first: str, second: str
) -> None:
    first_spelling, other = getattr(address, first), getattr(address, second)
    unsubscribe(tenant, first_spelling)
    assert fate(tenant, sends, other) == "unsubscribed"
    resubscribe(tenant, other)
    assert entries(tenant) == set()
    block(tenant, first_spelling)
    assert stored(tenant, BlockedAddress) == [address.ascii]
    assert fate(tenant, sends, other) == "blocked"
    assert unblock(tenant, other)
    assert fate(tenant, sends, first_spelling) != "blocked"


def test_contacts_with_other_spellings_show_that_they_are_unsubscribed_and_blocked(
    tenant: Tenant, customers: int, address: Address
) -> None:
    others = tenant.add_list("Others")
    ids = {
        list_id: tenant.new_contact(list_id, email=email)["id"]
        for list_id, email in ((customers, address.written), (others, address.ascii))
    }
    unsubscribe(tenant, address.decomposed)
    block(tenant, address.capitals)
    for list_id, contact_id in ids.items():
        contact_body = contact(tenant, list_id, contact_id)
        assert (contact_body["subscribed"]["email"], contact_body["blocked"]["email"]) == (False, True)
    tenant.api.patch(f"{contacts_path(customers)}/{ids[customers]}", {"subscribed": {"email": True}})
    assert entries(tenant) == {("email", address.ascii, others)}
    assert not contact(tenant, others, ids[others])["subscribed"]["email"]


# ---------------------------------------------------------------------------------------------- contacts


def test_a_contact_is_found_by_any_spelling_and_shows_its_own(
    tenant: Tenant, cli: Cli, customers: int, address: Address
) -> None:
    created = tenant.new_contact(customers, email=address.written)
    for spelling in SPELLINGS:
        contacts = find(tenant, customers, email=getattr(address, spelling))
        assert [(found_contact["id"], found_contact["email"]) for found_contact in contacts] == [
            (created["id"], address.written)
        ]
        assert find(tenant, customers, **{"email:in": f"{getattr(address, spelling)},x@example.com"})
        assert not find(tenant, customers, **{"email:ne": getattr(address, spelling)})
        printed = cli.json("contacts", "show", getattr(address, spelling), "--list", str(customers))
        assert printed["id"] == created["id"]
        refused = conflict(tenant.api.post(contacts_path(customers), {"email": getattr(address, spelling)}))
        assert refused["fields"] == {"email": {"contact_id": created["id"]}}


def test_a_send_finds_the_contact_with_another_spelling(
    tenant: Tenant, sends: SendsApi, customers: int, address: Address
) -> None:
    created = tenant.new_contact(customers, email=address.decomposed)
    named = [{"email": getattr(address, spelling)} for spelling in SPELLINGS]
    accepted = sends.send(sends.email(recipients=named, list_id=customers))
    assert [row.contact_id for row in accepted.recipients] == [created["id"]] * len(SPELLINGS)
    assert [row.email for row in accepted.recipients] == [recipient["email"] for recipient in named]
    assert len(rows_of(tenant, Contact)) == 1


def test_messages_are_found_by_any_spelling(tenant: Tenant, sends: SendsApi, address: Address) -> None:
    accepted = sends.send(sends.email(recipients=[{"email": address.written}, {"email": address.ascii}]))
    for spelling in SPELLINGS:
        recipients = items(tenant.api.get(SENDS, {"email": getattr(address, spelling)}), "recipients")
        assert {recipient["uuid"] for recipient in recipients} == set(accepted.uuids)


# ---------------------------------------------------------------------------------------------- reports and people


@pytest.mark.parametrize("write", [delivery_failure, qmail_failure, complaint])
def test_a_report_names_the_recipient_in_another_spelling(tenant: Tenant, sends: SendsApi, write: Any) -> None:
    address, rows = Address("ann"), Rows(tenant.services, tenant.id)
    (recipient_id,) = rows.add_send([address.written])
    rows.change([recipient_id], state="delivered", attempts=1)
    to = return_path(tenant.services.settings, recipient_id, FROM)
    receive_email(tenant.services, write(to, address.ascii), (to,), patience=0)
    assert stored(tenant, BlockedAddress) == [address.ascii]
    assert fate(tenant, sends, address.decomposed) == "blocked"


def test_a_forgotten_person_is_known_by_any_spelling(
    tenant: Tenant, sends: SendsApi, customers: int, address: Address
) -> None:
    tenant.new_contact(customers, email=address.written)
    sends.send(sends.email(recipients=[{"email": address.decomposed}], list_id=customers))
    unsubscribe(tenant, address.written)
    forgotten = forget(tenant.services, [tenant.id], "email", address.ascii, wait=0)
    assert (forgotten.removed["contacts"], forgotten.removed["recipients"]) == (1, 1)
    assert forgotten.kept == {"unsubscribed": 1}
    assert [address_key.startswith(PREFIX) for address_key in stored(tenant, Unsubscriber)] == [True]
    assert fate(tenant, sends, address.capitals) == "unsubscribed"
    assert not tenant.new_contact(customers, email=address.decomposed)["subscribed"]["email"]
    assert stored(tenant, Unsubscriber) == [address.ascii]


def digest_before(tenant: Tenant, address: str) -> str:
    """The digest of a forgotten address as an earlier release has kept it."""
    secret_key = tenant.services.settings.secret_key
    with tenant.services.database.write() as transaction:
        if transaction.get(DigestKey, 1) is None:
            transaction.add(DigestKey(id=1, key=new_digest_key(secret_key)))
        transaction.execute(update(Account).where(Account.id == tenant.id).values(has_digests=True))
        transaction.flush()
        digest = transaction.digests._read(transaction)
        assert digest is not None
        return PREFIX + digest(normalize_address("email", "")._replace(key=address.lower()))


def test_digests_of_all_forms_keep_a_forgotten_person_from_getting_mail(
    tenant: Tenant, sends: SendsApi, customers: int, address: Address
) -> None:
    """Nobody can make them anew."""
    for form in (address.written, address.ascii, address.decomposed):
        add_unsubscriber(tenant, digest_before(tenant, form))
        add_block(tenant, digest_before(tenant, form))
    assert fate(tenant, sends, address.written) == "blocked"
    created = tenant.new_contact(customers, email=address.decomposed)
    assert (created["subscribed"]["email"], created["blocked"]["email"]) == (False, True)
    assert (stored(tenant, Unsubscriber), stored(tenant, BlockedAddress)) == ([address.ascii], [address.ascii])


def test_the_audit_log_finds_acts_on_any_spelling(tenant: Tenant, cli: Cli, address: Address) -> None:
    cli.text("suppressions", "block", address.capitals)
    keys = tenant.services.settings.secret_keys
    digests = address_digests(keys, normalize_address("email", address.decomposed))
    (entry,) = (row for row in rows_of(tenant, AuditEntry) if row.address_digest in digests)
    assert entry.action == "suppression.added"
    before = address_digest(
        tenant.services.settings.secret_key, normalize_address("email", "")._replace(key=address.before)
    )
    assert before in digests


# ---------------------------------------------------------------------------------------------- rows of releases before


def test_what_is_stored_in_an_old_form_is_found_until_it_is_brought_into_the_new_one(
    tenant: Tenant, sends: SendsApi, customers: int, address: Address
) -> None:
    add_unsubscriber(tenant, address.before)
    contact_id = add_contact(tenant, customers, address.written)
    assert fate(tenant, sends, address.ascii) == "unsubscribed"
    add_block(tenant, unicodedata.normalize("NFD", address.before))
    assert fate(tenant, sends, address.capitals) == "blocked"
    assert [found_contact["id"] for found_contact in find(tenant, customers, email=address.ascii)] == [contact_id]
    conflict(tenant.api.post(contacts_path(customers), {"email": address.ascii}))
    assert unblock(tenant, address.ascii)
    resubscribe(tenant, address.ascii)
    assert (stored(tenant, Unsubscriber), stored(tenant, BlockedAddress)) == ([], [])


def test_suppressions_that_become_equal_merge_to_the_stricter(tenant: Tenant, customers: int, address: Address) -> None:
    then = this_second() - LONG_AGO
    add_block(tenant, address.before, TEMPORARY_BOUNCES, creation_time=then)
    add_block(tenant, unicodedata.normalize("NFD", address.before), COMPLAINT)
    add_block(tenant, address.ascii, PERMANENT_BOUNCE, reply="550")
    add_unsubscriber(tenant, address.before, customers, creation_time=then)
    add_unsubscriber(tenant, unicodedata.normalize("NFD", address.before), customers)
    add_unsubscriber(tenant, address.before)
    compare_stored_addresses(tenant.services)
    (blocked,) = rows_of(tenant, BlockedAddress)
    assert (blocked.address, blocked.reason, blocked.reply) == (address.ascii, COMPLAINT, None)
    assert entries(tenant) == {("email", address.ascii, customers), ("email", address.ascii, None)}
    assert then in {row.creation_time for row in rows_of(tenant, Unsubscriber)}
    assert compare_stored_addresses(tenant.services) == 0


def test_soft_bounces_of_all_spellings_count_together(tenant: Tenant, address: Address) -> None:
    common = {"kind": "email", "bounces": SOFT_BOUNCES_THAT_BLOCK - 2}
    tenant.add(SoftBounces, address=address.before, **common)
    tenant.add(SoftBounces, address=unicodedata.normalize("NFD", address.before), **common, reset_by=1)
    compare_stored_addresses(tenant.services)
    (counted,) = rows_of(tenant, SoftBounces)
    assert (counted.address, counted.bounces) == (address.ascii, SOFT_BOUNCES_THAT_BLOCK - 2)
    tenant.add(SoftBounces, address=address.before, **common)
    compare_stored_addresses(tenant.services)
    assert (stored(tenant, SoftBounces), stored(tenant, BlockedAddress)) == ([], [address.ascii])


def test_contacts_follow_what_is_suppressed_in_another_spelling(
    tenant: Tenant, customers: int, address: Address
) -> None:
    add_webhook(tenant)
    contact_id = add_contact(tenant, customers, address.written)
    add_unsubscriber(tenant, address.ascii, customers)
    add_block(tenant, address.ascii)
    compare_stored_addresses(tenant.services)
    contact_body = contact(tenant, customers, contact_id)
    assert (contact_body["email"], contact_body["subscribed"]["email"], contact_body["blocked"]["email"]) == (
        address.written,
        False,
        True,
    )
    assert events(tenant) == [("updated", customers, contact_id)]


def test_contacts_that_become_equal_stay_and_the_older_is_found(
    tenant: Tenant, cli: Cli, sends: SendsApi, customers: int, address: Address
) -> None:
    older = add_contact(tenant, customers, address.written, creation_time=this_second() - LONG_AGO)
    younger = add_contact(tenant, customers, address.ascii)
    youngest = add_contact(tenant, customers, address.decomposed)
    compare_stored_addresses(tenant.services)
    assert {found_contact["id"] for found_contact in find(tenant, customers, email=address.capitals)} == {
        older,
        younger,
        youngest,
    }
    accepted = sends.send(sends.email(recipients=[{"email": address.ascii}], list_id=customers))
    assert accepted.recipient.contact_id == older
    assert cli.json("contacts", "show", address.ascii, "--list", str(customers))["id"] == older
    refused = conflict(tenant.api.post(contacts_path(customers), {"email": address.written}))
    assert refused["fields"] == {"email": {"contact_id": older}}
    pairs = cli.json("contacts", "same-address")
    assert [(pair["older_id"], pair["younger_id"]) for pair in pairs] == [(older, younger), (younger, youngest)]
    assert {pair["address"] for pair in pairs} == {address.ascii}
    assert (pairs[0]["older_email"], pairs[0]["younger_email"]) == (address.written, address.ascii)

    for contact_id in (older, younger, youngest):  # whatever is changed but the address
        changed = tenant.api.patch(f"{contacts_path(customers)}/{contact_id}", {"is_active": False})
        assert changed.status_code == 200, changed.text
    assert tenant.api.delete(f"{contacts_path(customers)}/{younger}").status_code == 204
    compare_stored_addresses(tenant.services)
    (left,) = (row for row in rows_of(tenant, Contact) if row.identifier == address.ascii)
    assert left.id == older
    assert len(cli.json("contacts", "same-address")) == 1
    tenant.api.delete(f"{contacts_path(customers)}/{youngest}")
    assert cli.json("contacts", "same-address") == []


def test_addresses_are_brought_into_the_form_in_slices_while_requests_are_served(
    tenant: Tenant, customers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a transaction of its own, so that others write between them."""
    monkeypatch.setattr(stored_addresses, "SLICE", 2)
    addresses = [Address() for _ in range(9)]
    for address in addresses:
        add_block(tenant, address.before)
        add_contact(tenant, customers, address.written)
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(compare_stored_addresses, tenant.services)
        for address in addresses:
            conflict(tenant.api.post(contacts_path(customers), {"email": address.ascii}))
            tenant.new_contact(customers, email=new_email())
        work.result()
    assert stored(tenant, BlockedAddress) == sorted(address.ascii for address in addresses)
    contacts = [row for row in rows_of(tenant, Contact) if not row.email.isascii()]
    assert {row.email_key for row in contacts} == {address.ascii for address in addresses}
    assert {row.identifier for row in contacts} == {address.ascii for address in addresses}
