"""Idempotency keys: the same POST twice gets the first answer twice (docs/requests.md#idempotency)."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import event, func, select, update
from werkzeug.test import TestResponse

from app.clock import now
from app.db.database import Database, Transaction
from app.db.models import IdempotencyRecord, Recipient
from app.http.context import EXTENSION
from app.http.idempotency import LEASE, idempotency_locks
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import SENDS, Client, check_error, conflict, invalid
from tests.support.prepared import migrated_file
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email, new_tenant, unique


@pytest.fixture
def path(customers: int) -> str:
    """The path where contacts are created."""
    return f"/v1/lists/{customers}/contacts"


def post(client: Client, path: str, body: Any, key: str, **options: Any) -> TestResponse:
    """A POST with an idempotency key."""
    return client.post(path, body, headers={"Idempotency-Key": key}, **options)


def is_replay(answer: TestResponse) -> bool:
    """Whether the answer is marked as a replay."""
    return answer.headers.get("Idempotent-Replayed") == "true"


def count(api: Client, path: str) -> int:
    """The number of contacts."""
    size: int = api.get(path, {"limit": 0}).get_json()["size"]
    return size


def test_the_same_request_with_the_same_key_gets_the_first_answer(api: Client, path: str) -> None:
    key, body = unique("key"), {"email": new_email()}
    first, second, third = (post(api, path, body, key) for _ in range(3))
    assert first.status_code == second.status_code == third.status_code == 201
    assert first.data == second.data == third.data
    assert [is_replay(answer) for answer in (first, second, third)] == [False, True, True]
    assert second.headers["Content-Type"] == first.headers["Content-Type"]
    assert second.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert count(api, path) == 1


def test_an_answer_without_a_body_is_replayed_without_a_body(api: Client, path: str) -> None:
    key, body = unique("key"), {"contacts": [{"email": new_email()}]}
    first, second = post(api, path, body, key), post(api, path, body, key)
    assert (first.status_code, first.data) == (second.status_code, second.data) == (204, b"")
    assert is_replay(second)


def test_a_repeated_send_is_accepted_once(tenant: Tenant, customers: int) -> None:
    body = {
        "type": "email",
        "list_id": customers,
        "group_name": unique("group"),
        "subject": "Hi",
        "body_text": "Hi",
        "recipients": [{"email": new_email()}],
    }
    key = unique("key")
    first, second = post(tenant.api, SENDS, body, key), post(tenant.api, SENDS, body, key)
    assert first.status_code == second.status_code == 202, first.text
    assert first.data == second.data
    with tenant.services.database.read() as session:
        rows = session.scalar(select(func.count()).where(Recipient.account_id == tenant.id))
    assert rows == 1


def test_the_key_with_another_body_is_a_conflict(api: Client, path: str) -> None:
    key = unique("key")
    assert post(api, path, {"first_name": "Ann"}, key).status_code == 201
    conflict(post(api, path, {"first_name": "Bob"}, key))
    assert count(api, path) == 1


def test_the_key_with_another_query_or_path_is_a_conflict(tenant: Tenant, path: str) -> None:
    key = unique("key")
    assert post(tenant.api, path, {}, key).status_code == 201
    conflict(post(tenant.api, path, {}, key, query_string="remove_unsubscribers=any"))
    conflict(post(tenant.api, f"/v1/lists/{tenant.add_list()}/contacts", {}, key))


def test_another_key_is_another_request(api: Client, path: str) -> None:
    for _ in range(2):
        assert not is_replay(post(api, path, {}, unique("key")))
    assert count(api, path) == 2


def test_keys_belong_to_an_account_and_not_to_an_api_key(tenant: Tenant, other_tenant: Tenant, path: str) -> None:
    key = unique("key")
    assert post(tenant.api, path, {}, key).status_code == 201
    assert post(other_tenant.api, f"/v1/lists/{other_tenant.add_list()}/contacts", {}, key).status_code == 201


def test_an_error_leaves_the_key_free(api: Client, path: str) -> None:
    key, email = unique("key"), new_email()
    assert post(api, path, {"email": email}, unique("key")).status_code == 201
    conflict(post(api, path, {"email": email}, key), field="email")
    invalid(post(api, path, {"email": "nope"}, key), "invalid_email_address")
    answer = post(api, path, {"email": new_email()}, key)
    assert answer.status_code == 201
    assert not is_replay(answer)


def claim_key(tenant: Tenant, key: str, holder: str | None, seconds: float = 60) -> None:
    """Claims the key for a request without an answer, with a lease of this many seconds."""
    with tenant.services.database.write() as transaction:
        lease_time = now() + timedelta(seconds=seconds)
        claimed = {"status": None, "body": None, "holder": holder, "lease_time": lease_time}
        transaction.execute(update(IdempotencyRecord).where(IdempotencyRecord.key == key).values(**claimed))


def folder_of(tenant: Tenant) -> Path:
    return tenant.services.settings.data_dir / "requests"


def test_the_key_of_a_request_in_progress_is_a_conflict(tenant: Tenant, path: str) -> None:
    key, body = unique("key"), {"email": new_email()}
    assert post(tenant.api, path, body, key).status_code == 201
    with idempotency_locks(folder_of(tenant)).acquire() as holder:
        claim_key(tenant, key, holder)
        for other in (body, {"email": new_email()}):
            refused = post(tenant.api, path, other, key)
            conflict(refused)
            assert refused.headers["Retry-After"] == "1"
    answer = post(tenant.api, path, {"first_name": "Ann"}, key)
    assert answer.status_code == 201
    assert not is_replay(answer)


def test_the_key_of_an_answered_request_is_a_conflict_without_retry_after(api: Client, path: str) -> None:
    key = unique("key")
    assert post(api, path, {"first_name": "Ann"}, key).status_code == 201
    assert "Retry-After" not in post(api, path, {"first_name": "Bob"}, key).headers


@contextmanager
def request_of_another_process(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The name of a request in progress in a process of its own."""
    program = "import sys, pathlib; from app.http.idempotency import idempotency_locks\n"
    program += "with idempotency_locks(pathlib.Path(sys.argv[1])).acquire() as name: print(name, flush=True); input()"
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


@pytest.mark.parametrize("killed", [True, False])
def test_the_key_of_a_request_of_another_process_is_free_when_that_ends(
    tenant: Tenant, path: str, killed: bool
) -> None:
    """The key is free at once, by the lock of the request. This holds even when the process was killed and did not
    release the key."""
    key, body = unique("key"), {"first_name": "Ann"}
    assert post(tenant.api, path, body, key).status_code == 201
    with request_of_another_process(folder_of(tenant)) as (holder, process):
        claim_key(tenant, key, holder)
        refused = post(tenant.api, path, body, key)
        conflict(refused)
        assert refused.headers["Retry-After"] == "1"
        if killed:
            process.kill()
            process.wait()
        else:
            process.communicate("\n")
        assert not is_replay(post(tenant.api, path, body, key))
    assert is_replay(post(tenant.api, path, body, key))


def test_a_request_of_another_machine_holds_its_key_until_its_lease_expires(tenant: Tenant, path: str) -> None:
    key, body = unique("key"), {"first_name": "Ann"}
    assert post(tenant.api, path, body, key).status_code == 201
    claim_key(tenant, key, "elsewhere-1-abcd:1", seconds=40)
    refused = post(tenant.api, path, body, key)
    conflict(refused)
    assert 1 < int(refused.headers["Retry-After"]) <= 40
    claim_key(tenant, key, "elsewhere-1-abcd:1", seconds=0)
    assert not is_replay(post(tenant.api, path, body, key))


def test_a_lease_lasts_a_minute_at_most() -> None:
    assert timedelta() < LEASE <= timedelta(minutes=1)


def test_a_trailing_slash_is_ignored(api: Client, path: str) -> None:
    key, body = unique("key"), {"first_name": "Ann"}
    assert post(api, path, body, key).status_code == 201
    assert is_replay(post(api, f"{path}/", body, key))


def abandon(tenant: Tenant, key: str) -> None:
    """Ends the lease of the request in progress."""
    with tenant.services.database.write() as transaction:
        ended = update(IdempotencyRecord).where(IdempotencyRecord.key == key).values(lease_time=now())
        transaction.execute(ended)


def test_a_stalled_request_that_lost_its_key_does_nothing(
    tenant: Tenant, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request stalls after it has claimed its key. It resumes after a later request with that key has done the
    work."""
    key, body, later = unique("key"), {"first_name": "Ann"}, list[TestResponse]()
    transact = Database.transact

    def late(database: Database, work: Callable[[Transaction], Any]) -> Any:
        monkeypatch.setattr(Database, "transact", transact)
        abandon(tenant, key)
        later.append(post(tenant.api, path, body, key))
        return database.transact(work)

    monkeypatch.setattr(Database, "transact", late)
    conflict(post(tenant.api, path, body, key))
    assert [answer.status_code for answer in later] == [201]
    assert is_replay(post(tenant.api, path, body, key))
    assert count(tenant.api, path) == 1


def test_a_stalled_request_that_answers_before_its_key_is_claimed_keeps_it(
    tenant: Tenant, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, body = unique("key"), {"first_name": "Ann"}
    first = post(tenant.api, path, body, key)
    with tenant.services.database.write() as transaction:
        record_update = update(IdempotencyRecord).where(IdempotencyRecord.key == key)
        transaction.execute(record_update.values(status=None))
    abandon(tenant, key)
    write = Database.write

    def answered(database: Database) -> Any:
        monkeypatch.setattr(Database, "write", write)
        with database.write() as transaction:
            transaction.execute(record_update.values(status=first.status_code))
        return database.write()

    monkeypatch.setattr(Database, "write", answered)
    assert is_replay(post(tenant.api, path, body, key))
    assert count(tenant.api, path) == 1


@pytest.mark.parametrize(("hours", "replayed"), [(23, True), (25, False)])
def test_an_answer_is_replayed_for_24_hours(tenant: Tenant, path: str, hours: int, replayed: bool) -> None:
    key, body = unique("key"), {"first_name": "Ann"}
    assert post(tenant.api, path, body, key).status_code == 201
    with tenant.services.database.write() as transaction:
        moment = now() - timedelta(hours=hours)
        transaction.execute(update(IdempotencyRecord).where(IdempotencyRecord.key == key).values(creation_time=moment))
    answer = post(tenant.api, path, body, key)
    assert answer.status_code == 201
    assert is_replay(answer) is replayed


@each("key", ["", " ", "a b", "é", "a\tb", "k" * 256, "\x7f"])
def test_a_malformed_key_is_an_invalid_request(api: Client, path: str, key: str) -> None:
    check_error(post(api, path, {}, key), 400, "invalid_request", "invalid_request")
    assert count(api, path) == 0


@each("key", ["k", "!~#", "k" * 255])
def test_a_key_has_1_to_255_visible_characters(api: Client, path: str, key: str) -> None:
    assert post(api, path, {}, key).status_code == 201


def test_other_methods_ignore_the_header(tenant: Tenant, path: str) -> None:
    contact = tenant.new_contact(int(path.split("/")[3]))["id"]
    headers = {"Idempotency-Key": ""}
    for _ in range(2):
        answer = tenant.api.patch(f"{path}/{contact}", {"first_name": "Ann"}, headers=headers)
        assert answer.status_code == 200
        assert not is_replay(answer)
    assert tenant.api.get(path, headers=headers).status_code == 200


def test_of_many_concurrent_requests_one_does_the_work(tenant: Tenant, path: str) -> None:
    key, body = unique("key"), {"first_name": "Ann"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: post(tenant.api, path, body, key), range(8)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    done = [answer for answer in answers if answer.status_code == 201]
    assert len([answer for answer in done if not is_replay(answer)]) == 1
    assert len({answer.data for answer in done}) == 1
    assert count(tenant.api, path) == 1


def digest_of(body: Any) -> str:
    """The hash that anybody can make of a send, and that processes of earlier releases compare with the stored one."""
    return hashlib.sha256(b"POST\n" + SENDS.encode() + b"?\n" + orjson.dumps(body)).hexdigest()


def stored_fingerprint(tenant: Tenant, key: str, change_to: str | None = None) -> str:
    """What the record of the key has, and what it has from now on."""
    with tenant.services.database.write() as transaction:
        row = transaction.scalars(select(IdempotencyRecord).where(IdempotencyRecord.key == key)).one()
        stored, row.fingerprint = row.fingerprint, change_to or row.fingerprint
    return stored


def test_nobody_can_guess_secret_values_from_the_fingerprint_of_their_request(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fingerprint of a request with secret values is keyed by SECRET_KEY, and is recognised after SECRET_KEY was
    rotated. The fingerprints of other requests are the ones that earlier releases know. One that an earlier release has
    stored is recognised."""
    sends = SendsApi(tenant)
    secret = sends.email(secret_values=["code"], recipients=[{"email": new_email(), "code": "482913"}])
    plain, keys = sends.email(), (unique("key"), unique("key"))
    for body, key in zip((secret, plain), keys, strict=True):
        assert not is_replay(post(tenant.api, SENDS, body, key))
    assert stored_fingerprint(tenant, keys[1]) == digest_of(plain)
    old = stored_fingerprint(tenant, keys[0])
    assert digest_of(secret) not in old

    settings = tenant.services.settings
    for changes in (
        {},
        {"secret_key": "n" * 40, "secret_key_fallbacks": (settings.secret_key,)},
        {"secret_key_fallbacks": ("n" * 40,)},
    ):
        services = replace(tenant.services, settings=replace(settings, **changes))
        monkeypatch.setitem(tenant.app.extensions, EXTENSION, services)
        for body, key in zip((secret, plain), keys, strict=True):
            assert is_replay(post(tenant.api, SENDS, body, key)), changes
            other = {**body, "subject": "Another subject"}
            conflict(post(tenant.api, SENDS, other, key))
    stored_fingerprint(tenant, keys[0], change_to=digest_of(secret))
    assert is_replay(post(tenant.api, SENDS, secret, keys[0]))


def test_a_request_waits_for_sqlites_file_only_once(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that gives up does not wait once more to give its key back. The key is free when the request has
    ended."""
    monkeypatch.setattr("app.db.engine.BUSY_TIMEOUT_MS", 100)
    file = migrated_file(tmp_path / "tms.sqlite3")
    with (
        app_with(test_settings(tmp_path, REDIS_URL=redis_url)) as app,
        closing(sqlite3.connect(file.removeprefix("sqlite:///"), isolation_level=None)) as other,
    ):
        tenant = new_tenant(app)
        path, key, body = f"/v1/lists/{tenant.add_list('Customers')}/contacts", unique("key"), {"email": new_email()}
        engine, begun = app.extensions[EXTENSION].database.engine, []

        def lock(connection: object, *_: object) -> None:
            if other.execute("SELECT count(*) FROM idempotency_records").fetchone()[0]:
                begun.append(connection)
                if not other.in_transaction:
                    other.execute("BEGIN IMMEDIATE")

        event.listen(engine, "checkout", lock)
        check_error(post(tenant.api, path, body, key), 503, "service_unavailable")
        event.remove(engine, "checkout", lock)
        assert len(begun) == 1
        other.execute("ROLLBACK")
        assert post(tenant.api, path, body, key).status_code == 201
