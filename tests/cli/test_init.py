"""`flask init`: from an empty server to the first mail (docs/first-mail.md)."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import dkim
import pytest
from flask import Flask
from sqlalchemy import make_url

from app.db.migrate import newest
from app.http.context import EXTENSION
from app.launcher.service import migrate_database
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from tests.cli.conftest import Cli
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.client import SENDS, Client
from tests.support.nameserver import NameServer
from tests.support.servers import free_port, short_folder
from tests.unit.transports.mailserver import MailServer

DOMAIN, OWNER = "shop.example", "owner@shop.example"
NEW = ("init", "--domain", DOMAIN, "--owner", OWNER)


@pytest.fixture
def names() -> Iterator[NameServer]:
    with NameServer() as running:
        yield running


@pytest.fixture(scope="module")
def migrated(redis_url: str) -> Iterator[Path]:
    """A database without an account, of which each test gets a copy."""
    with short_folder() as folder:
        settings = test_settings(folder, REDIS_URL=redis_url)
        migrate_database(settings)
        yield Path(make_url(settings.database_url).database or "")


@pytest.fixture
def empty(names: NameServer, redis_url: str, migrated: Path) -> Iterator[Flask]:
    """A service without an account."""
    with short_folder() as folder:
        settings = test_settings(folder, REDIS_URL=redis_url)
        shutil.copy(migrated, make_url(settings.database_url).database or "")
        with app_with(settings, dns_resolver=names.address, spf_include="spf.service.example") as app:
            yield app
            close_sender_worker(app.extensions[EXTENSION])


@pytest.fixture
def cli(empty: Flask) -> Cli:
    return Cli(empty)


def publish(names: NameServer, facts: dict[str, Any]) -> None:
    for record in facts["domain"]["records"]:
        names.texts[record["name"]] = [record["value"]]


def words_of(command: str) -> dict[str, Any]:
    """The token and the body of a curl command."""
    words = shlex.split(command.replace("\\\n", " "))
    header = next(word for word in words if word.startswith("Authorization: Bearer "))
    return {"token": header.rpartition(" ")[2], "body": json.loads(words[words.index("-d") + 1])}


def test_an_empty_server_sends_its_first_mail_over_a_relay(cli: Cli, names: NameServer) -> None:
    with MailServer(users={"user": "s3cret"}) as relay:
        url = f"smtp://user:s3cret@127.0.0.1:{relay.port}?tls=none"
        first = cli.run(*NEW, "--relay", "-", "--json", input=url + "\n")
        assert first.exit_code == 0, first.output
        assert "s3cret" not in first.stdout
        facts = json.loads(first.stdout)
        assert facts["created"] == ["account", "domain", "list", "key", "relay"]
        assert (facts["domain"]["verified"], facts["mail_goes_to"]) == (False, f"smtp://127.0.0.1:{relay.port}")
        mail = words_of(facts["first_mail"])
        assert mail["token"] == facts["key"]["token"]
        client = Client(cli.app, mail["token"])
        assert client.post(SENDS, mail["body"]).status_code == 422, "the domain is not verified"
        publish(names, facts)
        again = cli.json("init", "--domain", DOMAIN)
        assert (again["domain"]["verified"], again["created"], again["key"]["token"]) == (True, [], None)
        assert client.post(SENDS, mail["body"]).status_code == 202
        drain(cli.app.extensions[EXTENSION])
        close_sender_worker(cli.app.extensions[EXTENSION])
    (sent,) = relay.mails
    assert (sent.recipients, sent.user) == ([OWNER], "user")
    assert message_from_bytes(sent.content)["From"] == f"hello@{DOMAIN}"
    published = lambda name, **_: names.texts[name.decode().rstrip(".")][0].encode()  # noqa: E731
    assert dkim.verify(sent.content, dnsfunc=published)


def test_the_tables_of_an_empty_database_are_created(cli: Cli) -> None:
    cli.text("db", "downgrade", "base", "--yes")
    cli.text(*NEW)
    assert cli.json("db", "current") == {"current": newest(), "newest": newest()}


def test_a_second_run_changes_nothing_but_what_it_names(cli: Cli) -> None:
    cli.text(*NEW, "--from", "news@shop.example", "--from-name", "Shop")
    before = cli.json("accounts", "show", DOMAIN)
    cli.text("accounts", "update", DOMAIN, "--time-zone", "Australia/Brisbane", "--owner-unconfirmed")
    assert cli.json("init", "--domain", DOMAIN)["created"] == []
    assert cli.json("accounts", "show", DOMAIN) | {"last_modified_time": None} == {
        **before,
        **{"time_zone": "Australia/Brisbane", "owner_confirmed": False, "last_modified_time": None},
    }
    cli.text("init", "--domain", DOMAIN, "--owner", "new@shop.example")
    assert cli.json("accounts", "show", DOMAIN)["owner_email"] == "new@shop.example"
    assert [len(cli.json(noun, "list")) for noun in ("accounts", "keys", "lists", "domains")] == [1, 1, 1, 1]


def test_a_relay_that_takes_no_mail_is_not_stored(cli: Cli) -> None:
    url = f"smtp://127.0.0.1:{free_port()}"
    error = cli.refused(*NEW, "--relay", url)
    assert error.startswith(f"{url} takes no mail: ")
    assert (cli.json("accounts", "list"), cli.json("transports", "list")) == ([], [])
    assert cli.json(*NEW, "--relay", url, "--unchecked")["mail_goes_to"] == url


def test_a_relay_that_refuses_the_password_is_not_stored(cli: Cli) -> None:
    with MailServer(users={"user": "right"}) as relay:
        error = cli.refused(*NEW, "--relay", f"smtp://user:wr0ng@127.0.0.1:{relay.port}?tls=none")
    assert "535" in error
    assert "wr0ng" not in error


def test_another_relay_takes_the_place_of_the_first(cli: Cli) -> None:
    for host in ("one.example", "two.example"):
        cli.text(*NEW, "--relay", f"smtp://{host}", "--sms-gateway", f"smpp://u:p@{host}", "--unchecked")
    assert {(transport["name"], transport["url"]) for transport in cli.json("transports", "list")} == {
        ("relay", "smtp://two.example"),
        ("gateway", "smpp://two.example"),
    }
    routes = [(route["name"], route["type"], route["transports"]) for route in cli.json("transports", "routes", "list")]
    assert routes == [("mail", "email", ["relay"]), ("texts", "sms", ["gateway"])]


def test_the_records_are_printed_until_they_are_published(cli: Cli, names: NameServer) -> None:
    output = cli.text(*NEW)
    assert f'{DOMAIN}. IN TXT "v=spf1 include:spf.service.example ~all"  ; missing' in output
    assert f"{DOMAIN} (not verified yet)" in output
    assert "Then run the same command again" in output
    publish(names, cli.json("init", "--domain", DOMAIN))
    output = cli.text("init", "--domain", DOMAIN)
    assert f"{DOMAIN} (verified)" in output
    assert "IN TXT" not in output
    assert "backend (its token was shown when it was created" in output


def test_a_trusted_domain_is_not_looked_up(cli: Cli) -> None:
    facts = cli.json(*NEW, "--trust")
    assert (facts["domain"]["verified"], facts["domain"]["trusted"]) == (True, True)
    assert {record["state"] for record in facts["domain"]["records"]} == {None}


@each(
    ("options", "error"),
    [
        ((), "--domain is required, because there is no terminal to ask for it"),
        (("--domain", DOMAIN), "--owner is required, because there is no terminal to ask for it"),
        (("--domain", "shop"), "--domain: 'shop' is not a domain name such as mail.example.com"),
        (("--domain", DOMAIN, "--owner", "nobody"), "'nobody' is not an email address"),
        (
            ("--domain", DOMAIN, "--owner", OWNER, "--relay", "ftp://x"),
            "relay: unknown transport ftp://; known: file://, smtp://, smtps:// and schemes of installed packages",
        ),
        (
            ("--domain", DOMAIN, "--owner", OWNER, "--relay", "-", "--sms-gateway", "-"),
            "only one of --relay and --sms-gateway can be read from standard input",
        ),
    ],
)
def test_a_wrong_answer_is_one_line_and_changes_nothing(cli: Cli, options: tuple[str, ...], error: str) -> None:
    assert cli.refused("init", *options).endswith(error)
    assert cli.json("accounts", "list") == []


def test_a_terminal_is_asked_for_what_is_missing(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers = f"{DOMAIN}\n{OWNER}\n{tmp_path.as_uri()}\n\n"
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    result = cli.run("init", input=answers)
    assert result.exit_code == 0, result.output
    asked = re.findall(r"^(?:Sending domain|Email address|URL of the \w+ \w+).*?:", result.stderr, re.MULTILINE)
    assert len(asked) == 4, result.stderr
    assert cli.json("transports", "list")[0]["name"] == "relay"
    again = cli.run("init", input=f"{DOMAIN}\n\n")
    assert (again.exit_code, "URL of the mail relay" in again.stderr) == (0, False), "it leads out already"
