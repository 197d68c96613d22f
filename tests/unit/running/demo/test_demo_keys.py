"""The demo's published keys work on this machine only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app import create_app
from app.accounts.auth import PUBLISHED_PREFIX, hash_token
from app.accounts.find import all_accounts
from app.accounts.keys import list_keys, revoke_key
from app.db.models import ApiKey
from app.http.context import EXTENSION
from app.launcher import screen as demos
from app.launcher.screen import Demo, screen
from app.launcher.service import migrate_database
from app.seed.read import read_file
from app.services import Services
from app.settings import Settings, SettingsError, from_environment
from tests.support.client import Client

BEYOND = [
    {"HOST": "0.0.0.0"},
    {"HOST": "::"},
    {"HOST": "192.0.2.7"},
    {"HOST": "messages.example.com"},
    {"PUBLIC_URL": "https://messages.example.com"},
    {"PUBLIC_URL": "http://192.0.2.7:8000"},
    {"TRUSTED_PROXIES": "1"},
]
WITHIN = [{}, {"HOST": "::1"}, {"HOST": "localhost"}, {"HOST": "127.0.0.2", "PUBLIC_URL": "https://localhost:8443"}]


def published_tokens() -> list[str]:
    return [key["token"] for key in read_file(demos.SEED, {})["accounts"][0]["keys"]]


def keys(services: Services) -> list[ApiKey]:
    with services.database.read() as session:
        return [key for account in all_accounts(session) for key in list_keys(session, account.id)]


def status_with(settings: Settings, token: str) -> int:
    """The status of a process with these settings for a request with the key."""
    app = create_app(settings)
    try:
        return int(Client(app, token).get("/v1/transactional-groups").status_code)
    finally:
        app.extensions[EXTENSION].database.close()


@pytest.mark.parametrize("environ", BEYOND, ids=str)
def test_settings_beyond_loopback_expose_the_service(tmp_path: Path, environ: dict[str, str]) -> None:
    assert from_environment({"DATA_DIR": str(tmp_path), **environ}).exposed


@pytest.mark.parametrize("environ", WITHIN, ids=str)
def test_settings_within_loopback_do_not(tmp_path: Path, environ: dict[str, str]) -> None:
    assert not from_environment({"DATA_DIR": str(tmp_path), **environ}).exposed


def test_every_key_of_the_demo_is_recognised_by_its_prefix() -> None:
    assert len(published_tokens()) == 3
    assert all(token.startswith(PUBLISHED_PREFIX) for token in published_tokens())


def test_all_published_keys_are_replaced_by_random_ones_of_the_same_name_and_level(
    services: Services, demo: Demo
) -> None:
    before = [(key.name, key.access_level) for key in keys(services)]
    assert demos.replace_published_keys(services, demo) == 3
    after = keys(services)
    assert [(key.name, key.access_level) for key in after] == before
    assert not {key.token_hash for key in after} & set(demo.published)
    assert demos.replace_published_keys(services, demo) == 0


def test_the_key_of_the_installation_is_kept(services: Services, settings: Settings, demo: Demo) -> None:
    demos.replace_published_keys(services, demo)
    kept_key, again = demos.loaded(services, demo), demos.loaded(services, demos.read(settings))
    assert kept_key is not None
    assert again is not None
    assert kept_key.token == again.token != demo.token
    assert demos.kept_keys(settings).stat().st_mode & 0o777 == 0o600
    assert status_with(replace(settings, host="0.0.0.0"), kept_key.token) == 200


def test_the_screen_shows_the_working_key_and_the_reason(services: Services, demo: Demo) -> None:
    demos.replace_published_keys(services, demo)
    kept_key = demos.loaded(services, demo)
    assert kept_key is not None
    text = screen(replace(services, settings=replace(services.settings, host="0.0.0.0")), kept_key)
    assert f"API key       {kept_key.token}\n" in text
    assert "the demo's published keys do not work here" in text
    assert demo.token not in text
    assert "published" not in screen(services, kept_key)


def test_a_revoked_key_is_not_restored(services: Services, demo: Demo) -> None:
    with services.database.write() as transaction:
        for key in transaction.query(ApiKey).where(ApiKey.token_hash == hash_token(demo.token)):
            revoke_key(transaction, key)
    assert demos.replace_published_keys(services, demo) == 2
    assert demos.loaded(services, demo) is None


def test_without_all_its_keys_there_is_no_demo(services: Services, settings: Settings) -> None:
    migrate_database(settings)
    demo = demos.read(settings)
    assert demos.loaded(services, demo) is None
    assert demos.replace_published_keys(services, demo) == 0
    assert not demos.kept_keys(settings).exists()


@pytest.mark.parametrize(("host", "status"), [("0.0.0.0", 401), ("127.0.0.1", 200)])
def test_no_process_accepts_a_published_key_beyond_loopback(
    services: Services, settings: Settings, demo: Demo, host: str, status: int
) -> None:
    """However the key came into the database, and however the process was started."""
    assert status_with(replace(settings, host=host), published_tokens()[2]) == status


def test_a_broken_file_of_keys_is_reported_in_one_line(services: Services, settings: Settings, demo: Demo) -> None:
    demos.kept_keys(settings).write_text("{")
    with pytest.raises(SettingsError, match=r"demo_keys\.json: cannot be read"):
        demos.loaded(services, demo)


def test_the_text_of_the_demo_contains_no_key(demo: Demo) -> None:
    assert demo.token not in repr(demo)
    assert demo.receiver_secret not in repr(demo)
