"""Rotating SECRET_KEY: what was made before stays valid, and nothing is lost
(docs/secrets.md#rotating-secret_key)."""

from __future__ import annotations

import email
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from email import policy
from threading import Event

import pytest
from sqlalchemy import insert, select, update

from app.clock import now
from app.db.models import QueueEntry, RunningProcess, Transport, Webhook, WebhookSecret
from app.demo.receiver import verify
from app.events.dispatch import dispatch_due
from app.inbound.kannel import reply_secret
from app.infrastructure.heartbeat import Heartbeat
from app.maintenance import stored_secrets
from app.secret_keys import decrypt, generated_keys, short_fingerprint, write_generated_keys
from app.sends.delivery.drain import drain
from app.settings import Settings
from app.tracking.tokens import recipient_of_address
from tests.restore.conftest import Installation, Installer, running
from tests.restore.test_restored import later
from tests.support.client import SENDS, Client
from tests.support.databases import BACKENDS
from tests.support.servers import PATIENCE
from tests.support.tenants import Tenant, new_tenant
from tests.support.webhook_receiver import Receiver
from tests.unit.transports.mailserver import MailServer, ReceivedMail

SIGNING = "the secret of the webhook that was registered before"
URL = "https://hooks.example.com/in"
RELAY = "smtp://user:password@relay.example.com"
NONE = {"dkim_keys": 0, "send_queue": 0, "transports": 0, "webhook_secrets": 0}
ALL = {"dkim_keys": 2, "send_queue": 1, "transports": 1, "webhook_secrets": 1}
RESET = "https://acme.example/reset?token=4711"


def filled(installation: Installation, url: str = URL) -> Tenant:
    """An account with a secret of each kind."""
    tenant = new_tenant(installation.app)
    account_option = "--account", tenant.name
    installation.json("domains", "add", tenant.domain, "--trust", *account_option)
    installation.json("webhooks", "create", url, "--secret-id", "k1", "--secret", SIGNING, *account_option)
    installation.json("transports", "create", "backup", "--type", "email", "--url", RELAY, "--disabled")
    body = {
        **{
            "type": "email",
            "list_id": tenant.add_list(),
            "group_name": "Resets",
            "subject": "x",
            "body_text": "%%link%%",
        },
        **{"from_address": f"hello@{tenant.domain}", "secret_values": ["link"]},
        "recipients": [{"email": "zoe@example.com", "link": RESET}],
    }
    answer = Client(installation.app, tenant.tokens["standard"]).post(SENDS, body)
    assert answer.status_code == 202, answer.text
    due_in(installation, timedelta(days=1))
    return tenant


def due_in(installation: Installation, delay: timedelta) -> None:
    """When the message with a secret value is due."""
    moment = now() + delay
    with installation.services.database.write() as transaction:
        transaction.execute(update(QueueEntry).values(due_time=moment, ready_time=moment))


def keys_of(installation: Installation) -> dict[str, dict[str, int]]:
    """Fingerprint -> how many stored secrets of each table are under the key."""
    return {row["key"]: {table: row[table] for table in ALL} for row in installation.json("secrets", "status")}


def mailed(installation: Installation, tenant: Tenant, mail_server: MailServer, address: str) -> ReceivedMail:
    """The mail of a send to one address, as it has left."""
    body = "<p><a href='https://shop.example.com/offer'>offer</a></p>"
    send = {
        **{"type": "email", "list_id": tenant.add_list(), "group_name": "Offers", "subject": "x", "body_html": body},
        **{"from_address": f"hello@{tenant.domain}", "recipients": [{"email": address}]},
    }
    answer = Client(installation.app, tenant.tokens["standard"]).post(SENDS, send)
    assert answer.status_code == 202, answer.text
    drain(installation.services)
    return next(mail for mail in mail_server.mails if mail.recipients == [address])


def links(mail: ReceivedMail) -> dict[str, str]:
    """The paths of its links of this service, by their first segment."""
    message = email.message_from_bytes(mail.content, policy=policy.default)
    html = message.get_body(("html",))
    assert html is not None
    text = html.get_content() + message["List-Unsubscribe"]
    link_paths = re.findall(r"http://127\.0\.0\.1:8000(/[a-z]/[^\">]+)", text)
    return {path.split("/")[1]: path for path in link_paths}


def answers(installation: Installation, paths: dict[str, str]) -> dict[str, int]:
    """The status of a GET of each, and of the one-click opt-out."""
    anon = Client(installation.app)
    statuses = {name: anon.get(path).status_code for name, path in paths.items()}
    return {**statuses, "post": anon.request("POST", paths["u"]).status_code}


def forgotten(installation: Installation, tenant: Tenant, address: str) -> None:
    """A person who has opted out is forgotten: the suppression is kept under a digest."""
    account_option = "--account", tenant.name
    installation.json("suppressions", "unsubscribe", address, *account_option)
    kept = installation.json("contacts", "forget", address, "--yes", "--no-compact", *account_option)["kept"]
    assert kept == {"unsubscribed": 1}


def check_not_brought_back(installation: Installation, tenant: Tenant, address: str) -> None:
    """Checks that an import does not bring the forgotten address back."""
    arguments = "contacts", "import", "-", "--list", str(tenant.add_list()), "--account", tenant.name
    result = installation.app.test_cli_runner().invoke(args=list(arguments), input=f"email\n{address}\n")
    assert "0 created, 0 updated, 0 unchanged, 1 left out, because they were forgotten" in result.output


def check_signed(installation: Installation, receiver: Receiver) -> None:
    """The events that wait are delivered, with a signature of the secret of the webhook."""
    before = len(receiver.hits)
    with installation.services.database.write() as transaction:
        transaction.execute(update(Webhook).values(due_time=now()))
    dispatch_due(installation.services)
    hits = receiver.hits[before:]
    assert hits
    for hit in hits:
        assert verify(hit.body, hit.headers["Service-Signature"], {"k1": SIGNING}) is not None


def stored_secret(installation: Installation) -> str:
    with installation.services.database.read() as session:
        return session.scalars(select(WebhookSecret.secret)).one()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of events."""
    with Receiver(204) as made:
        yield made


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_generated_key_is_rotated_and_everything_made_before_stays_valid(
    installed: Installer, mail_server: MailServer, receiver: Receiver, backend: str
) -> None:
    """Signatures of events and the suppressions of forgotten people included."""
    before = installed(backend, migrated=True, BOUNCE_DOMAIN="bounces.example.com", PUBLIC_URL="http://127.0.0.1:8000")
    tenant = filled(before, receiver.url)
    forgotten(before, tenant, "gone@example.com")
    old = before.settings.secret_key
    assert keys_of(before) == {short_fingerprint(old): ALL}
    sent = mailed(before, tenant, mail_server, "ann@example.com")
    kannel = f"/inbound/kannel/mo?secret={reply_secret(old)}&from=61411111111&to=61422222222&text=hi"
    assert Client(before.app).get(kannel).status_code == 404

    rotated = before.json("secrets", "rotate")
    new = generated_keys(before.settings.data_dir)[0]
    assert (rotated["key"], rotated["new"], rotated["encrypted"]) == (short_fingerprint(new), True, 6)
    assert keys_of(before) == {short_fingerprint(new): ALL, short_fingerprint(old): NONE}
    # The processes that run go on, and sign with the old key; one that starts signs with the new one.
    assert decrypt(before.settings.secret_keys, stored_secret(before)) == SIGNING
    later_sent = mailed(before, tenant, mail_server, "bob@example.com")
    check_signed(before, receiver)
    check_not_brought_back(before, tenant, "gone@example.com")
    with running(restarted(before)) as after:
        assert after.settings.secret_keys == (new, old)
        assert decrypt((new,), stored_secret(after)) == SIGNING
        newest = mailed(after, tenant, mail_server, "cyd@example.com")
        check_signed(after, receiver)
        for mail in (sent, later_sent, newest):
            assert b"DKIM-Signature" in mail.content
            assert answers(after, links(mail)) == {"u": 200, "c": 302, "o": 200, "post": 200}
            assert recipient_of_address(after.settings.secret_keys, mail.sender) is not None
        assert recipient_of_address((new,), newest.sender) is not None
        assert answers(before, links(newest))["c"] == 302
        assert Client(after.app).get(kannel).status_code == 404
        check_retired(after, old, new, links(sent))
        due_in(after, timedelta(0))
        drain(after.services)
        assert mail_server.mails[-1].content.endswith(f"{RESET}\r\n".encode()), "the value that waited is still there"
        assert Client(after.app).get(kannel).status_code == 403
        mailed(after, tenant, mail_server, "dan@example.com")
        check_signed(after, receiver)
        check_not_brought_back(after, tenant, "gone@example.com")


def restarted(before: Installation) -> Settings:
    """The settings of a process that starts later."""
    made = later(before, before.settings)
    return replace(
        made,
        public_url=before.settings.public_url,
        bounce_domain=before.settings.bounce_domain,
        webhook_allow_private=True,
    )


def check_retired(after: Installation, old: str, new: str, paths: dict[str, str]) -> None:
    """Checks that whatever was made under the old key is invalid only once that key is retired. Stored secrets are
    there as before."""
    assert "is the current key" in after.refused("secrets", "retire", short_fingerprint(new), "--yes")
    assert "there is no key 'x'" in after.refused("secrets", "retire", "x", "--yes")
    refused = after.run("secrets", "retire", short_fingerprint(old))
    assert refused.exit_code == 1
    assert "links, opt-out links and bounce addresses of mails that were sent" in refused.stderr
    assert after.json("secrets", "retire", short_fingerprint(old), "--yes") == {
        "key": short_fingerprint(old),
        "retired": True,
    }
    audited = after.json("audit", "list", "object=secret_key")
    assert {(entry["action"], entry["object_id"]) for entry in audited} == {
        ("secret_key.rotated", short_fingerprint(new)),
        ("secret_key.retired", short_fingerprint(old)),
    }
    assert after.settings.secret_keys == (new,)
    assert answers(after, paths) == {"u": 404, "c": 404, "o": 200, "post": 404}
    assert decrypt(after.settings.secret_keys, stored_secret(after)) == SIGNING


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_secrets, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(stored_secrets, "PAUSE_SECONDS", 0.0)


def add_process(installation: Installation, key_ids: str | None) -> None:
    row = {"name": "a-1", "roles": "sends", "host": "a", "version": "1", "start_time": now(), "seen_time": now()}
    with installation.services.database.write() as transaction:
        transaction.execute(insert(RunningProcess).values(row | {"secret_keys": key_ids}))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_secret_is_encrypted_under_a_key_that_a_running_process_does_not_know(
    installed: Installer, backend: str
) -> None:
    """Generated or set: processes of another release, host or setting refuse the rotation, and nothing is changed."""
    generated = installed(backend, migrated=True)
    filled(generated)
    key = generated.settings.secret_key
    add_process(generated, None)
    refused = generated.refused("secrets", "rotate")
    assert "the process a-1 (sends on a) does not know the key" in refused
    assert "add it to SECRET_KEY_FALLBACKS there, and restart it" in refused
    assert generated_keys(generated.settings.data_dir) == (key,)
    assert keys_of(generated) == {short_fingerprint(key): ALL}
    gone = update(RunningProcess).values(seen_time=now() - timedelta(minutes=3))
    with generated.services.database.write() as transaction:
        transaction.execute(gone)
    assert generated.json("secrets", "rotate")["new"] is True


def test_keys_are_rotated_and_retired_one_at_a_time(installed: Installer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second rotation would write back the keys that it has read before, without the new one of the first, under
    which everything is encrypted by then."""
    monkeypatch.setattr(stored_secrets, "WAIT_SECONDS", PATIENCE)
    monkeypatch.setattr(stored_secrets, "PAUSE_SECONDS", 0.01)
    installation = installed("sqlite", migrated=True)
    filled(installation)
    old, waiting = installation.settings.secret_key, Event()
    add_process(installation, short_fingerprint(old))
    progress = stored_secrets.Progress(lambda _line: waiting.set(), lambda _count: None)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(stored_secrets.rotate, installation.services, progress)
        assert waiting.wait(PATIENCE)
        _, new = generated_keys(installation.settings.data_dir)
        refused = "the keys are being rotated or retired by another command; wait until it ends\n"
        assert installation.refused("secrets", "rotate").endswith(refused)
        assert installation.refused("secrets", "retire", short_fingerprint(new), "--yes").endswith(refused)
        with installation.services.database.write() as transaction:
            transaction.query(RunningProcess).delete()
        assert first.result(PATIENCE).is_new
    assert generated_keys(installation.settings.data_dir) == (new, old)
    assert keys_of(installation) == {short_fingerprint(new): ALL, short_fingerprint(old): NONE}


@pytest.mark.usefixtures("impatient")
def test_a_key_that_is_set_is_rotated_in_two_steps(installed: Installer, new_settings: Callable[..., Settings]) -> None:
    old, new = "the key of before with 32 characters or more", "the key from now on with 32 characters or more"
    first = installed("sqlite", migrated=True, SECRET_KEY=old)
    filled(first)
    assert "SECRET_KEY has no fallbacks: add the new key to SECRET_KEY_FALLBACKS" in first.refused("secrets", "rotate")
    url = {"DATABASE_URL": first.settings.database_url}
    knowing = new_settings("sqlite", **url, SECRET_KEY=old, SECRET_KEY_FALLBACKS=new)
    changed = new_settings("sqlite", **url, SECRET_KEY=new, SECRET_KEY_FALLBACKS=old)
    with running(changed) as second:
        add_process(second, short_fingerprint(old))
        assert "does not know the key" in second.refused("secrets", "rotate")
        beating = Heartbeat(second.services.database, ["sends"], time.monotonic, settings=knowing)
        beating.write()
        with second.services.database.write() as transaction:
            transaction.query(RunningProcess).filter_by(name="a-1").delete()
        assert second.json("secrets", "rotate")["encrypted"] == 5
        assert second.json("secrets", "rotate")["encrypted"] == 0
        assert [entry["action"] for entry in second.json("audit", "list", "object=secret_key")] == [
            "secret_key.rotated"
        ]
        assert keys_of(second) == {short_fingerprint(new): ALL, short_fingerprint(old): NONE}
        assert decrypt(knowing.secret_keys, stored_secret(second)) == SIGNING
        still = f"still signs with {short_fingerprint(old)}: restart it first"
        assert still in second.refused("secrets", "retire", short_fingerprint(old), "--yes")
        beating.delete()
        result = second.json("secrets", "retire", short_fingerprint(old), "--yes")
        assert result == {"key": short_fingerprint(old), "retired": False}


def test_an_interrupted_rotation_is_finished_and_unreadable_secrets_stay(
    installed: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = installed("sqlite", migrated=True)
    filled(first)
    old = first.settings.secret_key
    write_generated_keys(first.settings.data_dir, (new := "n" * 40, old))
    with first.services.database.write() as transaction:
        transaction.execute(update(Transport).values(url="no token of ours"))
    monkeypatch.setattr(stored_secrets, "SLICE", 1)
    with running(later(first, first.settings)) as after:
        assert "secrets rotate` first" in after.refused("secrets", "retire", short_fingerprint(old), "--yes")
        rotated = after.json("secrets", "rotate")
        assert (rotated["key"], rotated["new"], rotated["encrypted"]) == (short_fingerprint(new), False, 4)
        assert keys_of(after) == {
            short_fingerprint(new): {**ALL, "transports": 0},
            short_fingerprint(old): NONE,
            "unknown": {**NONE, "transports": 1},
        }
        result = after.run("secrets", "rotate")
        assert "left unchanged, because they are encrypted under an unknown key: 1 stored secret\n" in result.stderr
        with after.services.database.read() as session:
            assert session.scalars(select(Transport.url)).one() == "no token of ours"


def test_a_secret_that_changes_meanwhile_is_not_overwritten(installed: Installer) -> None:
    first = installed("sqlite", migrated=True)
    filled(first)
    (column,) = [each for each in stored_secrets.encrypted_columns() if each.table.name == "webhook_secrets"]
    read = {"row": 1, "was": stored_secret(first), "new": "stale"}
    with first.services.database.write() as transaction:
        transaction.execute(update(WebhookSecret).values(secret="another since"))
    assert stored_secrets._write(first.services.database, column, [read]) == 0
    assert stored_secret(first) == "another since"


def test_a_backup_from_before_a_rotation_is_restored_after_it(
    installed: Installer, new_settings: Callable[..., Settings], file: str
) -> None:
    """Into an installation with the old key as a fallback; and one of after it brings all its keys along."""
    source = installed("sqlite", migrated=True)
    filled(source)
    old = source.settings.secret_key
    source.json("backup", file, "--without-secret-key")
    refusing = installed("sqlite", SECRET_KEY="n" * 40)
    assert "SECRET_KEY differs from the key of the backup" in refusing.refused("restore", file)
    target = installed("sqlite", SECRET_KEY="n" * 40, SECRET_KEY_FALLBACKS=old)
    assert target.json("restore", file)["secret_key"] is False
    assert keys_of(target) == {short_fingerprint("n" * 40): NONE, short_fingerprint(old): ALL}
    assert target.json("secrets", "rotate")["encrypted"] == 5

    source.json("secrets", "rotate")
    keys = generated_keys(source.settings.data_dir)
    with running(restarted(source)) as after:
        after.json("backup", second := f"{file}.second.zip")
    settings = new_settings("sqlite")
    with running(settings) as other:
        assert other.json("restore", second)["secret_key"] is True
    assert generated_keys(settings.data_dir) == keys == (keys[0], old)
