"""Sending domains, on one page with the senders of text messages (docs/console-contents.md#domains-and-senders)."""

from __future__ import annotations

from flask import Response, request

from app.accounts.auth import MANAGE
from app.accounts.domain_hosts import HOST_PURPOSES, set_hosts
from app.accounts.domains import add_domain, delete_domain, find_domain
from app.accounts.signing_keys import rotate_keys
from app.console.domains import PATH, shown_domain, shown_domains
from app.console.offers import newest
from app.db.database import ReadSession, Transaction
from app.db.lookup import find_with_id
from app.db.models import Domain, List
from app.errors import ServiceError
from app.http.console.guard import may, signed_in
from app.http.console.notices import Done
from app.http.console.pages import form_texts, link, page_after
from app.http.console.questions import Question
from app.http.console.searches import account_of_request, choose_account, named_account_id, table_file
from app.http.context import services
from app.http.paths import path_id
from app.network_checks.ask import RENEWAL_SECONDS, ask, is_under_way
from app.resources.rows import rows_of_account
from app.senders.resource import RESOURCE as SENDER
from app.senders.uses import uses_of_domain
from blueprints.console.blueprint import blp
from blueprints.console.resource import MAX_ROWS, add_views

DOMAIN_COLUMNS = ("id", "name", "verified", "trusted", "verified_time", "checked_time", "links", "return_path")
RECORD_COLUMNS = ("purpose", "name", "type", "value", "state", "found")


@blp.shows("/domains", "contact.view")
def domains(error: ServiceError | None = None, **_parts: str) -> Response:
    """The sending domains of an account with what is missing, and its senders of text messages."""
    with services().database.read() as session:
        if named_account_id(session) is None:
            return choose_account(session, PATH, "Domains and senders")
        account = account_of_request(session)
        account_domains = shown_domains(session, services().settings, account.id)
        senders = rows_of_account(session, SENDER, account.id, MAX_ROWS)
        lists = newest(session, List, account.id) if signed_in().is_operator else ()
    template_values = {
        "domains": account_domains,
        "senders": senders,
        "lists": lists,
        "of_senders": SENDER,
        "form": request.form,
        "of": PATH,
    }
    return page_after(error, "domains.html", account=account, may_manage=may(MANAGE), **template_values)


@blp.changes("/domains", MANAGE, refused=domains)
def add(transaction: Transaction) -> Done:
    """Adds the domain of the form with keys, and goes to its records. Operators may trust it without them."""
    form, account_id = form_texts("name", "trust"), account_of_request(transaction).id
    trusted, secret_key = bool(form["trust"]) and signed_in().is_operator, services().settings.secret_key
    add_domain(transaction, account_id, form["name"], trusted=trusted, secret_key=secret_key)
    return Done(
        _path(find_domain(transaction, account_id, form["name"])), "The domain was added. Publish the records below."
    )


@blp.shows("/domains.csv", "contact.view")
def domains_file() -> Response:
    """The domains as a file, a row for each."""
    with services().database.read() as session:
        account_domains = shown_domains(session, services().settings, account_of_request(session).id)
    return table_file("domains.csv", DOMAIN_COLUMNS, (domain.row for domain in account_domains))


@blp.shows("/domains/<domain_id>", "contact.view")
def domain(error: ServiceError | None = None, *, domain_id: str) -> Response:
    """The records of a domain, each with what is published and what is missing."""
    with services().database.read() as session:
        row = _find(session, domain_id)
        domain_entry = shown_domain(session, services().settings, row)
        is_checked = is_under_way(session, "domain", row.account_id, row.id)
    hosts = (
        form_texts(*HOST_PURPOSES)
        if HOST_PURPOSES.keys() & request.form.keys()
        else {name: domain_entry.row[name] or "" for name in HOST_PURPOSES}
    )
    live = {"is_checked": is_checked, "renewed": RENEWAL_SECONDS}
    of = link(PATH, [], row.account_id)
    return page_after(
        error, "domain.html", domain_entry=domain_entry, of=of, hosts=hosts, may_manage=may(MANAGE), **live
    )


@blp.shows("/domains/<domain_id>/records.csv", "contact.view")
def records_file(domain_id: str) -> Response:
    """The records of a domain as a file, a row for each."""
    with services().database.read() as session:
        records = shown_domain(session, services().settings, _find(session, domain_id)).row["records"]
    return table_file(
        "records.csv", RECORD_COLUMNS, ({**record, "found": "\n".join(record["found"])} for record in records)
    )


@blp.changes("/domains/<domain_id>/check", MANAGE, refused=domain)
def check(transaction: Transaction, domain_id: str) -> Done:
    """Has a worker look up the records of a domain, which waits for name servers."""
    row = _find(transaction, domain_id)
    ask(transaction, services(), "domain", row.account_id, row.id)
    return Done(_path(row), "The check has begun.")


@blp.changes("/domains/<domain_id>/hosts", MANAGE, refused=domain)
def own_hosts(transaction: Transaction, domain_id: str) -> Done:
    """Sets the hosts of a domain to those of the form, or clears them. They are used once their records are found."""
    row = _find(transaction, domain_id)
    set_hosts(transaction, row, form_texts(*HOST_PURPOSES), by_operator=signed_in().is_operator)
    return Done(_path(row), "The hosts were saved.")


@blp.changes("/domains/<domain_id>/rotate", MANAGE, refused=domain)
def rotate(transaction: Transaction, domain_id: str) -> Done:
    """Makes new keys for a domain beside those that sign. They sign once a check finds their records."""
    row = _find(transaction, domain_id)
    rotate_keys(transaction, row, services().settings.secret_key)
    return Done(_path(row), "New keys were created. They sign mail once a check finds their records.")


def _before_deleting(session: ReadSession, domain_id: str) -> Question:
    row = _find(session, domain_id)
    facts = [
        "New sends from this domain are refused. Waiting mail is retried until its retry period ends.",
        "The DKIM keys are deleted.",
        *uses_of_domain(session, row),
    ]
    return Question(f"Delete {row.name}?", facts, "Delete domain", _path(row))


@blp.changes("/domains/<domain_id>/delete", MANAGE, asks=_before_deleting)
def delete(transaction: Transaction, domain_id: str) -> Done:
    """Deletes a domain with its keys. Sends from it are refused from then on."""
    row = _find(transaction, domain_id)
    delete_domain(transaction, row.account_id, row.name)
    return Done(link(PATH, [], row.account_id), f"{row.name} was deleted. New sends from it are refused.")


def _find(session: ReadSession | Transaction, domain_id: str) -> Domain:
    return find_with_id(session, Domain, signed_in().account_id, path_id(domain_id), "domain")


def _path(row: Domain) -> str:
    return link(f"{PATH}/{row.id}", [], row.account_id)


# The senders of text messages stand on the page of the domains (docs/console-contents.md#domains-and-senders).
add_views(SENDER, PATH, domains)
