"""Effects of loading a seed file on keys, lists, contacts, unsubscribers and events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import select, update

from app.accounts.auth import find_principal
from app.clock import this_second
from app.db.models import Account, ApiKey, Contact, Event, List, ListField, MessageVersion, TriggerFiring, Unsubscriber
from app.errors import ServiceError
from app.seed.errors import SeedError
from app.seed.load import load_seed
from app.services import Services
from tests.support.clocks import stop_seconds
from tests.support.seeds import FIELDS, customers, load, rows, token_of, write_seed
from tests.support.servers import PATIENCE

HOOK = {"url": "https://hooks.acme.example/in", "secrets": [{"id": "k1", "secret": "0123456789abcdef" * 2}]}
STANDARD = {"name": "backend", "access_level": "standard"}
FLAGS = ("email", "subscribed_email", "subscribed_mobile")


def works(services: Services, token: str) -> bool:
    """Whether the service accepts the token."""
    with services.database.read() as session:
        try:
            find_principal(session, token)
        except ServiceError:
            return False
        return True


def events(services: Services, name: str) -> list[tuple[str, int]]:
    """(event, contact id) of the events queued for the account's webhook."""
    payloads = [orjson.loads(payload) for (payload,) in rows(services, Event, name, "payload")]
    return [(payload["event"], payload["id"]) for payload in payloads]


# ---------------------------------------------------------------------------------------------------- keys


def test_a_generated_token_is_a_key(services: Services, file: Path, name: str) -> None:
    report = load(services, file, {"name": name, "keys": [STANDARD]})
    assert works(services, report.as_json()["accounts"][0]["keys"][0]["token"])


def test_another_token_replaces_the_old_one(services: Services, file: Path, name: str) -> None:
    load(services, file, {"name": name, "keys": [{**STANDARD, "token": token_of(name + "1")}]})
    load(services, file, {"name": name, "keys": [{**STANDARD, "token": token_of(name + "2")}]})
    assert [works(services, token_of(name + end)) for end in "12"] == [False, True]
    assert len(rows(services, ApiKey, name, "id")) == 1


def test_a_token_of_another_key_is_refused(services: Services, file: Path, name: str) -> None:
    taken = {**STANDARD, "token": token_of(name)}
    load(services, file, {"name": name, "keys": [taken]})
    message = r"^accounts\[0\]\.keys\[0\]\.token: this token belongs to another key$"
    with pytest.raises(SeedError, match=message):
        load(services, file, {"name": name + " two", "keys": [taken]})
    load(services, file, {"name": name, "keys": [{**STANDARD, "name": "second"}]})
    with pytest.raises(SeedError, match=message):
        load(services, file, {"name": name, "keys": [{**taken, "name": "second"}]})


def test_a_revoked_key_stays_revoked_until_it_gets_another_token(services: Services, file: Path, name: str) -> None:
    account = {"name": name, "keys": [{**STANDARD, "token": token_of(name)}]}
    load(services, file, account)
    with services.database.write() as transaction:
        statement = update(ApiKey).where(ApiKey.account_id == load(services, file, account).accounts[0].id)
        transaction.execute(statement.values(revoked_time=this_second()))
    report = load(services, file, account)
    assert report.changes == 0
    assert report.accounts[0].notes == [
        "  key backend is revoked and stays revoked; give it another token to use it again"
    ]
    assert not works(services, token_of(name))
    load(services, file, {"name": name, "keys": [{**STANDARD, "token": token_of(name + "2")}]})
    assert works(services, token_of(name + "2"))


# ------------------------------------------------------------------------------------------------ all at once


def test_two_loads_at_the_same_moment_create_everything_once(services: Services, file: Path, name: str) -> None:
    contacts = [{"email": f"p{number}@example.com"} for number in range(50)]
    account = {"name": name, "keys": [STANDARD], "lists": [customers(contacts=contacts)]}
    write_seed(file, account)
    start = threading.Barrier(2)

    def load_once() -> str:
        start.wait(PATIENCE)
        try:
            load_seed(services, file)
        except SeedError as error:
            return str(error)
        return "loaded"

    with ThreadPoolExecutor() as pool:
        done = set(pool.map(lambda _: load_once(), range(2)))
    assert "loaded" in done
    assert done <= {"loaded", "another process wrote the same rows at the same time; load the file again"}
    assert load_seed(services, file).changes == 0
    assert len(rows(services, Contact, name, "id")) == 50
    assert len(rows(services, ApiKey, name, "id")) == 1


# ---------------------------------------------------------------------------------------------------- lists


def test_fields_are_added_in_order_and_found_by_name(services: Services, file: Path, name: str) -> None:
    load(services, file, {"name": name, "lists": [customers(fields=FIELDS[:2])]})
    load(services, file, {"name": name, "lists": [customers(fields=[FIELDS[2], FIELDS[0]])]})
    assert rows(services, ListField, name, "key", "position") == [("email", 0), ("mobile", 1), ("first_name", 2)]


def test_a_type_can_change_only_while_the_list_is_empty(services: Services, file: Path, name: str) -> None:
    as_text = [{"name": "Email", "type": "Email"}, {"name": "Spend", "type": "Text Field"}]
    load(services, file, {"name": name, "lists": [customers(fields=as_text)]})
    load(services, file, {"name": name, "lists": [customers(contacts=[{"email": "a@example.com", "spend": 1}])]})
    assert ("spend", "Currency") in rows(services, ListField, name, "key", "type")
    message = r"lists\[0\]\.fields\[1\]\.type: is Currency and cannot change while the list has contacts$"
    with pytest.raises(SeedError, match=message):
        load(services, file, {"name": name, "lists": [customers(fields=as_text)]})


def test_a_list_that_gets_an_email_field_is_identified_by_it(services: Services, file: Path, name: str) -> None:
    texts = {"name": "Customers", "fields": FIELDS[1:2], "contacts": [{"mobile": "61411111111"}]}
    load(services, file, {"name": name, "lists": [texts]})
    assert rows(services, Contact, name, "identifier") == [("61411111111",)]
    load(services, file, {"name": name, "lists": [customers(fields=FIELDS[:1])]})
    assert rows(services, Contact, name, "identifier") == [(None,)]


def test_duplicates_can_be_forbidden_only_where_there_are_none(services: Services, file: Path, name: str) -> None:
    twice = [{"email": "a@example.com", "first_name": "One"}, {"email": "A@example.com", "first_name": "Two"}]
    allowing = customers(allow_duplicates=True, contacts=twice)
    load(services, file, {"name": name, "lists": [allowing]})
    assert rows(services, Contact, name, "identifier") == [(None,), (None,)]
    message = r"lists\[0\]\.allow_duplicates: the list has a@example\.com more than once$"
    with pytest.raises(SeedError, match=message):
        load(services, file, {"name": name, "lists": [customers(allow_duplicates=False)]})
    other = {**allowing, "name": "Others", "contacts": twice[:1]}
    load(services, file, {"name": name, "lists": [other]})
    load(services, file, {"name": name, "lists": [{"name": "Others", "allow_duplicates": False}]})
    assert rows(services, Contact, name, "identifier") == [(None,), (None,), ("a@example.com",)]


# ------------------------------------------------------------------------------------------------- contacts


def test_contacts_with_the_same_identifier_are_matched_by_their_order(
    services: Services, file: Path, name: str
) -> None:
    twice = [{"email": "a@example.com", "first_name": "One"}, {"email": "A@example.com", "first_name": "Two"}]
    account = {"name": name, "lists": [customers(allow_duplicates=True, contacts=twice)]}
    load(services, file, account)
    assert load(services, file, account).changes == 0
    twice[1]["first_name"] = "Second"
    twice.append({"email": "a@example.com", "first_name": "Three"})
    load(services, file, account)
    names = [values["first_name"] for (values,) in rows(services, Contact, name, "values")]
    assert names == ["One", "Second", "Three"]


def test_contacts_of_a_list_without_emails_are_found_by_their_mobile(services: Services, file: Path, name: str) -> None:
    contact = {"mobile": "61411111111", "first_name": "Ann"}
    account = {"name": name, "lists": [{"name": "Texts", "fields": FIELDS[1:3], "contacts": [contact]}]}
    load(services, file, account)
    contact["first_name"] = "Anna"
    assert load(services, file, account).accounts[0].updated["contact"] == 1
    assert rows(services, Contact, name, "mobile", "values") == [("61411111111", {"first_name": "Anna"})]


def test_many_contacts_take_as_many_statements_as_few(
    services: Services,
    file: Path,
    name: str,
    count_statements: Callable[[], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_seconds(monkeypatch)  # a field that is added in another second than its list takes one more to note the time
    counts = []
    for size in (2, 900):
        contacts = [{"email": f"p{number}@example.com", "first_name": "A"} for number in range(size)]
        account = {"name": f"{name} {size}", "lists": [customers(contacts=contacts)]}
        with count_statements() as counted:
            load(services, file, account)
        counts.append(counted.count)
    assert counts[0] == counts[1]


def test_versions_of_many_messages_take_as_many_statements_as_those_of_few(
    services: Services, file: Path, name: str, count_statements: Callable[[], Any]
) -> None:
    for size in (2, 30):
        for subject, few in (("one", 1), ("two", 3)):  # a change also looks for the versions before, and for the oldest
            messages = [{"name": str(number), "type": "email", "subject": subject} for number in range(size)]
            with count_statements() as counted:
                load(services, file, {"name": f"{name} {size}", "messages": messages})
            assert sum("message_versions" in statement for statement in counted.statements) == few
        with count_statements() as counted:
            load(services, file, {"name": f"{name} {size}", "messages": messages})
        assert not [statement for statement in counted.statements if "message_versions" in statement]
        kept = rows(services, MessageVersion, f"{name} {size}", "number", "subject", "changed", "actor_kind")
        assert sorted(kept) == [*[(1, "one", [], "service")] * size, *[(2, "two", ["subject"], "service")] * size]


def test_more_contacts_than_one_batch_are_loaded(services: Services, file: Path, name: str) -> None:
    contacts = [{"email": f"p{number}@example.com"} for number in range(2100)]
    account = {"name": name, "lists": [customers(contacts=contacts)]}
    assert load(services, file, account).accounts[0].created["contact"] == 2100
    assert load(services, file, account).changes == 0
    contacts[2050]["email"] = "P3@example.com"
    message = r"lists\[0\]\.contacts\[2050\]\.email: contact \d+ of this list already has it\.$"
    with pytest.raises(SeedError, match=message):
        load(services, file, account)


def test_double_opt_in_is_never_withdrawn(services: Services, file: Path, name: str) -> None:
    contact = {"email": "a@example.com", "double_opt_in": True}
    account = {"name": name, "lists": [customers(contacts=[contact])]}
    load(services, file, account)
    contact["double_opt_in"] = False
    with pytest.raises(SeedError, match=r"contacts\[0\]\.double_opt_in: double_opt_in cannot be set to false"):
        load(services, file, account)


def test_fields_with_reserved_keys_are_ignored(services: Services, file: Path, name: str) -> None:
    fields = [FIELDS[0], {"name": "Limit", "type": "Number"}]
    contacts = [{"email": "a@example.com", "limit": 5}]
    load(services, file, {"name": name, "lists": [customers(fields=fields, contacts=contacts)]})
    assert rows(services, Contact, name, "values") == [({},)]


# --------------------------------------------------------------------------- unsubscribers, events, triggers


def test_a_contact_with_an_unsubscribed_address_is_created_unsubscribed(
    services: Services, file: Path, name: str
) -> None:
    account = {
        "name": name,
        "unsubscribers": [
            {"email": "account@example.com"},
            {"email": "LIST@example.com", "list": "Customers"},
            {"email": "other@example.com", "list": "Others"},
            {"mobile": "61411111111"},
        ],
        "lists": [
            {"name": "Others", "fields": FIELDS[:1]},
            customers(
                contacts=[
                    {"email": "Account@example.com"},
                    {"email": "list@example.com"},
                    {"email": "other@example.com", "mobile": "61411111111"},
                ]
            ),
        ],
    }
    load(services, file, account)
    assert rows(services, Contact, name, *FLAGS) == [
        ("Account@example.com", False, True),
        ("list@example.com", False, True),
        ("other@example.com", True, False),
    ]
    assert load(services, file, account).changes == 0


def test_existing_contacts_follow_new_unsubscribers(services: Services, file: Path, name: str) -> None:
    lists = [customers(contacts=[{"email": "a@example.com"}, {"email": "b@example.com"}])]
    load(services, file, {"name": name, "lists": lists, "webhooks": [HOOK]})
    load(services, file, {"name": name, "lists": lists, "unsubscribers": [{"email": "A@example.com"}]})
    assert rows(services, Contact, name, *FLAGS) == [("a@example.com", False, True), ("b@example.com", True, True)]
    (first, _) = rows(services, Contact, name, "id")
    assert events(services, name) == [("updated", first[0])]


def test_contradicting_entries_are_refused_only_for_their_list(services: Services, file: Path, name: str) -> None:
    lists = [customers(contacts=[{"email": "a@example.com", "subscribed": {"email": True}}])]
    others = {"name": "Others", "fields": FIELDS[:1]}
    unsubscribers = [{"email": "a@example.com", "list": "Others"}]
    load(services, file, {"name": name, "lists": [*lists, others], "unsubscribers": unsubscribers})
    (list_id, _) = (str(id_) for (id_,) in rows(services, List, name, "id"))
    for named in ("Customers", list_id):
        unsubscribers[0]["list"] = named
        with pytest.raises(SeedError, match=r"lists\[0\]\.contacts\[0\]\.subscribed\.email: is true, but"):
            load(services, file, {"name": name, "lists": [*lists, others], "unsubscribers": unsubscribers})


def test_a_list_that_has_the_id_of_another_as_its_name_is_meant_by_it(
    services: Services, file: Path, name: str
) -> None:
    lists = [customers(contacts=[{"email": "a@example.com", "subscribed": {"email": True}}])]
    load(services, file, {"name": name, "lists": lists})
    ((list_id,),) = rows(services, List, name, "id")
    other = {"name": str(list_id), "fields": FIELDS[:1]}
    account = {
        "name": name,
        "lists": [*lists, other],
        "unsubscribers": [{"email": "a@example.com", "list": str(list_id)}],
    }
    load(services, file, account)
    assert load(services, file, account).changes == 0


def test_an_explicit_subscription_removes_an_unsubscriber_entry(services: Services, file: Path, name: str) -> None:
    gone = [{"email": "a@example.com"}]
    load(services, file, {"name": name, "lists": [customers()], "unsubscribers": gone})
    contact = {"email": "a@example.com", "subscribed": {"email": True}}
    load(services, file, {"name": name, "lists": [customers(contacts=[contact])]})
    assert rows(services, Unsubscriber, name, "address") == []


def test_events_and_triggers_report_contacts_that_changed(services: Services, file: Path, name: str) -> None:
    """Contacts may change by any cause. An update that changes nothing causes no event."""
    contacts = [{"email": "a@example.com", "first_name": "A"}, {"email": "b@example.com"}]
    account = {"name": name, "lists": [customers(contacts=contacts)], "webhooks": [HOOK]}
    load(services, file, account)
    assert events(services, name) == []  # the webhook was created after the contacts
    contacts[0]["first_name"] = "Anna"
    contacts.append({"email": "c@example.com"})
    load(services, file, account)
    first, second, third = (contact_id for (contact_id,) in rows(services, Contact, name, "id"))
    assert events(services, name) == [("created", third), ("updated", first)]
    assert rows(services, TriggerFiring, name, "action", "contact_id") == [
        ("created", first),
        ("created", second),
        ("created", third),
        ("updated", first),
    ]


def test_a_system_list_can_be_seeded(services: Services, file: Path, name: str) -> None:
    contact = {"email": "a@example.com"}
    account = {"name": name, "lists": [customers(system=True, contacts=[contact])]}
    load(services, file, account)
    contact["first_name"] = "A"
    load(services, file, account)
    assert rows(services, Contact, name, "values") == [({"first_name": "A"},)]


def test_the_last_modified_time_changes_only_with_the_contact(services: Services, file: Path, name: str) -> None:
    account = {"name": name, "lists": [customers(contacts=[{"email": "a@example.com"}])]}
    load(services, file, account)
    old = this_second() - timedelta(days=1)
    with services.database.write() as transaction:
        transaction.execute(update(Contact).values(last_modified_time=old).where(owned(name)))
    load(services, file, account)
    assert rows(services, Contact, name, "last_modified_time") == [(old,)]


def owned(name: str) -> Any:
    """The contacts of the account."""
    return Contact.account_id == select(Account.id).where(Account.name == name).scalar_subquery()
