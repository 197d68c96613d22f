"""What `flask init` prints: what is there, what is to be published, and how to send the first mail."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from sqlalchemy.orm import Session

from app.cli.base import Row, echo
from app.cli.domain_rows import print_records
from app.distribution import COMMAND_LINE
from app.first_setup.first_send import curl, first_mail
from app.first_setup.reach import TRANSPORTS, Reached
from app.infrastructure.startup_report import email_destination
from app.routing.transports import shown_url, transport_named
from app.settings import Settings, is_loopback
from app.transports.urls import display_url

TOKEN_OF_EARLIER = "TOKEN"  # noqa: S105 - stands in the command for a token that cannot be shown again


def report(session: Session, settings: Settings, reached: Reached, domain: Row) -> dict[str, Any]:
    """The facts, as `--json` prints them. `token` is null for a key that was there before."""
    account, key = reached.account, reached.key
    body = first_mail(reached.contact_list.id, account.owner_email or f"you@{domain['name']}")
    return {
        "account": {"id": account.id, "name": account.name, "owner_email": account.owner_email},
        "key": {"id": key.id, "name": key.name, "revoked": key.revoked_time is not None, "token": reached.token},
        "list": {"id": reached.contact_list.id, "name": reached.contact_list.name},
        "mail_goes_to": _destination(session, settings, "email"),
        "texts_go_to": _destination(session, settings, "sms"),
        "created": list(reached.created),
        "public_url_is_local": is_loopback(urlsplit(settings.public_url).hostname or ""),
        "domain": {name: domain[name] for name in ("name", "verified", "trusted", "records")},
        "first_mail": curl(settings.public_url, reached.token or TOKEN_OF_EARLIER, body),
    }


def _destination(session: Session, settings: Settings, type_: str) -> str:
    transport = transport_named(session, TRANSPORTS[type_][0])
    if transport is not None:
        return shown_url(settings.secret_keys, transport)
    return email_destination(settings) if type_ == "email" else display_url(settings.sms_transport_url)


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
    if not domain["trusted"] and any(one["state"] != "right" for one in domain["records"]):
        echo("\nPublish these records; spf and dkim are required:\n")
        print_records(domain["records"])
        if facts["public_url_is_local"]:
            echo("\nPUBLIC_URL has no host that others can reach: set it before you publish them, since links in mails")
            echo("lead there and SPF names its address, unless SPF_INCLUDE does.")
    if not domain["verified"]:
        echo("\nThen run the same command again: it looks them up. Until they are found, sends are refused.")
    echo("\nThe first mail, once the service runs:\n" if domain["verified"] else "\nThen the first mail:\n")
    echo(facts["first_mail"])


def _key(key: Row) -> str:
    if key["token"] is not None:
        return f"{key['token']} ({key['name']}; shown only now, so keep it)"
    if key["revoked"]:
        return f"{key['name']} is revoked: name another one with --key"
    return f"{key['name']} (its token was shown when it was made; `{COMMAND_LINE} keys create` makes another key)"


def _state(domain: Row) -> str:
    if domain["trusted"]:
        return "taken as verified"
    return "verified" if domain["verified"] else "not verified yet"
