"""`flask init`: what a new installation needs for its first mail (docs/first-mail.md)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import click
from flask.cli import with_appcontext
from sqlalchemy.orm import Session

from app.accounts.domain_hosts import domain_key
from app.cli.base import (
    Command,
    Row,
    WrongValue,
    echo,
    given_options,
    json_option,
    need_installation_key,
    print_json,
    wake_after,
)
from app.cli.domains import domain_row, print_records
from app.db import migrate
from app.db.schema import schema_of
from app.distribution import COMMAND_LINE
from app.first_setup.answers import check_relays
from app.first_setup.first_send import curl, first_mail
from app.first_setup.reach import TRANSPORTS, SetupRequest, SetupResult, destination, present_account, reach
from app.http.context import services
from app.maintenance.domain_check import verify_domain
from app.routing.transports import display_urls, transport_named
from app.services import Services
from app.settings import Settings, is_loopback

# What `flask init` prints: what is there, what is to be published, and how to send the first mail.

EARLIER_TOKEN_PLACEHOLDER = "TOKEN"  # noqa: S105 - stands in the command for a token that cannot be shown again


def report(session: Session, settings: Settings, reached: SetupResult, domain: Row) -> dict[str, Any]:
    """The facts, as `--json` prints them. `token` is null for a key that was there before."""
    account, key = reached.account, reached.key
    body = first_mail(reached.contact_list.id, account.owner_email or f"you@{domain['name']}")
    return {
        "account": {"id": account.id, "name": account.name, "owner_email": account.owner_email},
        "key": {"id": key.id, "name": key.name, "revoked": key.revoked_time is not None, "token": reached.token},
        "list": {"id": reached.contact_list.id, "name": reached.contact_list.name},
        "mail_goes_to": display_urls(destination(session, settings, "email")),
        "texts_go_to": display_urls(destination(session, settings, "sms")),
        "created": list(reached.created),
        "public_url_is_local": is_loopback(urlsplit(settings.public_url).hostname or ""),
        "domain": {name: domain[name] for name in ("name", "verified", "trusted", "records")},
        "first_mail": curl(settings.public_url, reached.token or EARLIER_TOKEN_PLACEHOLDER, body),
    }


def print_report(facts: dict[str, Any]) -> None:
    """Prints the facts for people."""
    domain = facts["domain"]
    rows = {
        "account": f"{facts['account']['name']} (owner {facts['account']['owner_email'] or 'unknown'})",
        "API key": _key(facts["key"]),
        "list": f"{facts['list']['name']} (id {facts['list']['id']})",
        "mail goes to": facts["mail_goes_to"],
        "texts go to": facts["texts_go_to"],
        "domain": f"{domain['name']} ({_state(domain)})",
    }
    for name, value in rows.items():
        echo(f"{name + ':':<14}{value}")
    if not domain["trusted"] and any(record["state"] != "right" for record in domain["records"]):
        echo("\nPublish these records; spf and dkim are required:\n")
        print_records(domain["records"])
        if facts["public_url_is_local"]:
            echo(
                "\nOthers cannot reach the host of PUBLIC_URL. Set PUBLIC_URL before you publish the records: links in"
            )
            echo("mails lead there, and the SPF record names its address unless SPF_INCLUDE is set.")
    if not domain["verified"]:
        echo("\nThen run the same command again to check the records. Until they are found, sends are refused.")
    echo("\nThe first mail, once the service runs:\n" if domain["verified"] else "\nThen the first mail:\n")
    echo(facts["first_mail"])


def _key(key: Row) -> str:
    if key["token"] is not None:
        return f"{key['token']} ({key['name']}; store it now, it is not shown again)"
    if key["revoked"]:
        return f"{key['name']} is revoked: choose another name with --key"
    return f"{key['name']} (its token was shown when it was created; `{COMMAND_LINE} keys create` creates another key)"


def _state(domain: Row) -> str:
    if domain["trusted"]:
        return "trusted"
    return "verified" if domain["verified"] else "not verified yet"


GivenOptions = Mapping[str, str | None]


@click.command("init", cls=Command)
@click.option("--domain", metavar="DOMAIN", help="The sending domain.")
@click.option("--owner", metavar="EMAIL", help="The owner of the account, who gets the first mail.")
@click.option(
    "--relay", metavar="URL|-", help="The mail relay, in the form of EMAIL_TRANSPORT_URL. Use - for standard input."
)
@click.option(
    "--sms-gateway",
    metavar="URL|-",
    help="The SMS gateway, in the form of SMS_TRANSPORT_URL. Use - for standard input.",
)
@click.option("--account", metavar="NAME", help="The account. Default: the name of the domain.")
@click.option("--from", "from_address", metavar="EMAIL", help="The default sender address. Default: hello@DOMAIN.")
@click.option("--from-name", metavar="NAME", help="The name of the default sender.")
@click.option("--list", "list_name", metavar="NAME", default="Customers", show_default=True, help="The first list.")
@click.option("--key", "key_name", metavar="NAME", default="backend", show_default=True, help="The first API key.")
@click.option("--trust", is_flag=True, help="Allow sends from the domain without checking its DNS records.")
@click.option("--unchecked", is_flag=True, help="Store the relay without checking that it accepts mail.")
@json_option
@with_appcontext
def command(*, list_name: str, key_name: str, trust: bool, unchecked: bool, as_json: bool, **given: str | None) -> None:
    """Set up everything that the first mail needs: database, account, key, list, domain and relay.

    On a terminal, the command asks for missing values. It changes existing objects only if an option names them, so
    you can run it again. When the DNS records are published, another run verifies the domain.
    """
    parts = services()
    _create_database(parts)
    need_installation_key(parts)
    asks = sys.stdin.isatty() and not as_json
    domain = _domain(given["domain"] or _ask(asks, "Sending domain", "--domain"))
    setup = SetupRequest(
        account=given["account"] or domain,
        domain=domain,
        list_name=list_name,
        key_name=key_name,
        trusted=trust,
        attributes=_attributes(parts, asks, given["account"] or domain, domain, given),
        transports=_transports(parts, asks, given),
    )
    if "email" in setup.transports and not unchecked:
        check_relays(setup.transports["email"])
    with parts.database.write() as transaction:
        reached = reach(transaction, parts.settings.secret_keys, setup)
        if setup.transports:
            wake_after(transaction)
        row = domain_row(transaction, reached.domain)
    checked_row = row if trust else verify_domain(parts, reached.domain.account_id, domain)
    with parts.database.read() as session:
        facts = report(session, parts.settings, reached, checked_row)
    if as_json:
        print_json(facts)
    else:
        print_report(facts)


def _create_database(parts: Services) -> None:
    """Creates the tables of an empty database. An old one is left for `db upgrade`, which may take long."""
    with parts.database.read() as session:
        state = schema_of(session.connection()).state
    if state == "missing":
        migrate.upgrade(parts.settings.database_url)


def _ask(asks: bool, question: str, option: str) -> str:
    if not asks:
        raise WrongValue(f"{option} is required, because there is no terminal to ask for it")
    return str(click.prompt(question, err=True)).strip()


def _domain(text: str) -> str:
    try:
        return domain_key(text)
    except ValueError as error:
        raise WrongValue(f"--domain: {error}") from None


def _attributes(parts: Services, asks: bool, account: str, domain: str, given: GivenOptions) -> dict[str, Any]:
    """The attributes of the account: all that a new one needs, and of an existing one those that were given."""
    attributes = given_options(
        owner_email=given["owner"],
        default_from_address=given["from_address"],
        default_from_name=given["from_name"],
    )
    with parts.database.read() as session:
        present = present_account(session, account)
    if present is None:
        attributes.setdefault("default_from_address", f"hello@{domain}")
        if "owner_email" not in attributes:
            attributes["owner_email"] = _ask(asks, "Email address of the owner of the account", "--owner")
    return attributes


def _transports(parts: Services, asks: bool, given: GivenOptions) -> dict[str, str]:
    """Type of message -> the URL that leads out of this machine; types whose way was not named are left out."""
    if given["relay"] == given["sms_gateway"] == "-":
        raise WrongValue("only one of --relay and --sms-gateway can be read from standard input")
    settings = parts.settings
    email = _may_ask(parts, asks, "email", settings.email_transport_url)
    sms = _may_ask(parts, asks, "sms", settings.sms_transport_url)
    urls = {
        "email": _url(given["relay"], "URL of the mail relay" if email else None),
        "sms": _url(given["sms_gateway"], "URL of the SMS gateway" if sms else None),
    }
    return {type_: url for type_, url in urls.items() if url}


def _may_ask(parts: Services, asks: bool, type_: str, default: str) -> bool:
    """Whether to ask for a way: nobody has named one before, neither here nor in the settings."""
    if not asks or not default.startswith("file:"):
        return False
    with parts.database.read() as session:
        return transport_named(session, TRANSPORTS[type_][0]) is None


def _url(given: str | None, question: str | None) -> str | None:
    if given == "-":
        return sys.stdin.readline().strip()
    if given is not None or question is None:
        return given
    prompt = f"{question} (press Enter for none: messages go to a folder)"
    return str(click.prompt(prompt, default="", show_default=False, err=True)).strip()
