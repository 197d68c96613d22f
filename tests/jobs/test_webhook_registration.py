"""Webhook administration over both databases (docs/webhooks.md)."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

import pytest
from sqlalchemy import func, select

from app.cli.status import status_of
from app.db.models import WebhookSecret
from app.errors import ServiceError
from app.events.dispatch import dispatch_due
from app.events.registration import checked_url
from app.events.webhooks import (
    create_webhook,
    delete_webhook,
    deliveries,
    find_webhook,
    list_secrets,
    list_webhooks,
    new_key_id,
    new_secret,
    pending_events,
    remove_secret,
    rotate_secret,
    set_secret,
)
from app.maintenance.figures import read_figures
from app.services import Services
from tests.jobs.conftest import SECRET, AddHook, changed
from tests.support.servers import PATIENCE

URL = "http://127.0.0.1:9/in"
URL_ONE = "http://127.0.0.1:1/in"
OTHER_SECRET = "another secret of the tests, 32 bytes or more"


def refused(code: str, field: str, text: str) -> AbstractContextManager[object]:
    """Expects a `ServiceError` with this code, field and text."""

    def matches(error: ServiceError) -> bool:
        violation = error.errors[0]
        return (violation.code, violation.field) == (code, field) and text in str(violation.detail)

    return pytest.raises(ServiceError, check=matches)


def test_a_webhook_is_found_by_url_and_by_id_only_in_its_account(
    services: Services, account_id: int, other_id: int, add_hook: AddHook
) -> None:
    hook = add_hook(URL)
    with services.database.read() as session:
        assert find_webhook(session, account_id, URL).id == hook.id
        assert find_webhook(session, account_id, str(hook.id)).url == URL
        assert [webhook.id for webhook in list_webhooks(session, account_id)] == [hook.id]
        assert list_webhooks(session, other_id) == []
        for reference in (URL, str(hook.id), "9" * 30, "²"):
            with refused("invalid_id", "webhook", f"the account has no webhook {reference!r}"):
                find_webhook(session, other_id, reference)


def test_two_accounts_may_register_the_same_url_but_one_account_only_once(
    services: Services, account_id: int, other_id: int, add_hook: AddHook
) -> None:
    add_hook(URL)
    add_hook(URL, account_id=other_id)
    with refused("conflict", "url", f"the account already has a webhook at {URL}"):
        add_hook(URL)


def test_a_url_in_the_own_network_is_refused(services: Services, account_id: int) -> None:
    strict = changed(services, webhook_allow_private=False).settings
    for url, text in ((URL, "must begin with https://"), ("https://127.0.0.1/in", "not a public address")):
        with refused("invalid_url", "url", text):
            checked_url(strict, url)
    with services.database.read() as session:
        assert list_webhooks(session, account_id) == []


OTHER_KEY = "invalid_string", "secret", "a key of another kind"


@pytest.mark.parametrize(
    ("signers", "expected"),
    [
        ([], ("not_empty", "secrets", "at least one secret")),
        ([("k1", "short")], ("too_short", "secret", "32 bytes or more")),
        ([("k1", f"ssh-rsa {SECRET}")], OTHER_KEY),
        ([("k1", f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----")], OTHER_KEY),
        ([("k1", f'{{"kty": "oct", "k": "{SECRET}"}}')], OTHER_KEY),
        ([("", SECRET)], ("invalid_string", "id", "1 to 64 visible ASCII characters")),
        ([("k 1", SECRET)], ("invalid_string", "id", "1 to 64 visible ASCII characters")),
        ([("k" * 65, SECRET)], ("invalid_string", "id", "1 to 64 visible ASCII characters")),
    ],
)
def test_secrets_that_cannot_be_used_are_refused(
    services: Services, account_id: int, signers: list[tuple[str, str]], expected: tuple[str, str, str]
) -> None:
    with services.database.write() as transaction, refused(*expected):
        create_webhook(transaction, services.settings, account_id, checked_url(services.settings, URL), signers)


def test_secrets_are_stored_encrypted(services: Services, add_hook: AddHook) -> None:
    hook = add_hook(URL)
    with services.database.read() as session:
        (stored,) = session.scalars(select(WebhookSecret.secret).where(WebhookSecret.webhook_id == hook.id))
    assert stored.startswith("gAAAA")
    assert SECRET not in stored


def test_setting_secrets_writes_only_differences(services: Services, account_id: int, add_hook: AddHook) -> None:
    add_hook(URL)
    other_key = changed(services, secret_key="another key of 32 characters or more").settings
    with services.database.write() as transaction:
        webhook = find_webhook(transaction, account_id, URL)
        assert not set_secret(transaction, services.settings, webhook, "k1", SECRET)
        assert set_secret(transaction, services.settings, webhook, "k1", OTHER_SECRET)
        assert set_secret(transaction, services.settings, webhook, "k2", SECRET)
        assert [secret.key_id for secret in list_secrets(transaction, webhook)] == ["k1", "k2"]
        # Without the old SECRET_KEY the stored secret cannot be decrypted.
        assert set_secret(transaction, other_key, webhook, "k2", SECRET)
        assert not set_secret(transaction, other_key, webhook, "k2", SECRET)


def test_rotation_adds_a_secret_and_the_last_secret_cannot_be_removed(
    services: Services, account_id: int, add_hook: AddHook
) -> None:
    add_hook(URL)
    with services.database.write() as transaction:
        webhook = find_webhook(transaction, account_id, URL)
        key_id, secret = rotate_secret(transaction, services.settings, webhook)
        assert (key_id, len(secret)) == ("k2", 43)
        assert rotate_secret(transaction, services.settings, webhook, "mine", OTHER_SECRET) == ("mine", OTHER_SECRET)
        with refused("conflict", "id", "already has a secret 'k1'"):
            rotate_secret(transaction, services.settings, webhook, "k1")
        with refused("invalid_id", "id", "has no secret 'k9'"):
            remove_secret(transaction, webhook, "k9")
        remove_secret(transaction, webhook, "k1")
        remove_secret(transaction, webhook, "mine")
        with refused("conflict", "id", "the only secret"):
            remove_secret(transaction, webhook, "k2")
        assert [secret.key_id for secret in list_secrets(transaction, webhook)] == ["k2"]


def test_two_operators_cannot_remove_both_secrets(services: Services, account_id: int, add_hook: AddHook) -> None:
    add_hook(URL, ("k1", SECRET), ("k2", OTHER_SECRET))
    refusals: list[str] = []

    def remove_other() -> None:
        try:
            with services.database.write() as transaction:
                remove_secret(transaction, find_webhook(transaction, account_id, URL), "k2")
        except ServiceError as error:
            refusals.append(error.code)

    thread = threading.Thread(target=remove_other)
    with services.database.write() as transaction:
        remove_secret(transaction, find_webhook(transaction, account_id, URL), "k1")
        thread.start()
        thread.join(0.3)
        assert thread.is_alive(), "the second removal did not wait for the first"
    thread.join(PATIENCE)
    assert refusals == ["conflict"]


def test_new_secrets_have_256_bits_and_new_key_ids_are_free() -> None:
    assert len({new_secret() for _ in range(20)}) == 20
    assert [new_key_id(taken) for taken in ([], ["k1"], ["k2"], ["k1", "k2", "x"])] == ["k1", "k2", "k1", "k3"]


def test_deleting_a_webhook_deletes_its_secrets_and_nothing_waits_any_more(
    services: Services, account_id: int, add_hook: AddHook
) -> None:
    """The events of the webhook go with their table (docs/decisions/018-events-in-rotating-tables.md), and no figure
    counts them."""
    hook = add_hook(URL)
    hook.happen(1, 2)
    with services.database.write() as transaction:
        delete_webhook(transaction, find_webhook(transaction, account_id, URL))
    with services.database.read() as session:
        counted = select(func.count()).select_from(WebhookSecret).where(WebhookSecret.webhook_id == hook.id)
        assert session.execute(counted).scalar_one() == 0
        assert status_of(read_figures(session, services.settings))["events_waiting"] == 0


def test_queued_events_and_delivery_attempts_are_listed(
    services: Services, account_id: int, other_id: int, add_hook: AddHook
) -> None:
    hook = add_hook(URL_ONE)
    add_hook(URL, account_id=other_id)
    hook.happen(1, 2)
    dispatch_due(services)
    hook.set(due_time=hook.attempts[0].time)
    dispatch_due(services)
    with services.database.read() as session:
        assert pending_events(session, account_id) == {hook.id: 2}
        assert pending_events(session, other_id) == {}
        tried = deliveries(session, find_webhook(session, account_id, URL_ONE), 1)
        assert [attempt.id for attempt in tried] == [hook.attempts[1].id]
        assert deliveries(session, find_webhook(session, other_id, URL), 5) == []
