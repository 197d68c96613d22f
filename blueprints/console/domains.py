"""Sending domains, on one page with the senders of text messages (docs/console.md#domains-and-senders)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.accounts.domain_hosts import HOSTS, set_hosts
from app.accounts.domains import add_domain, delete_domain, find_domain
from app.accounts.sessions import MANAGE
from app.accounts.signing_keys import rotate_keys
from app.console.domains import (
    PATH,
    domain_with_id,
    shown_domain,
    shown_domains,
)
from app.db.database import ReadSession, Transaction
from app.db.models import Domain
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import account_of_request, choose_account, csv_file, link, named_account_id
from app.http.context import services
from app.http.paths import path_id
from app.network_checks.ask import RENEWED, ask, is_under_way
from app.resources.rows import rows_of_account
from app.senders.resource import RESOURCE as SENDER
from blueprints.console.blueprint import blp
from blueprints.console.resource import MOST, add_views

TITLE = "Domains and senders"
DOMAIN_COLUMNS = ("id", "name", "verified", "trusted", "verified_time", "checked_time", "links", "return_path")
RECORD_COLUMNS = ("purpose", "name", "type", "value", "state", "found")


@blp.route("/domains")
class Domains(MethodView):
    """The sending domains of an account, and its senders of text messages."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """The domains with what is missing, and the senders."""
        return domains_page()

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """Adds the domain of the form with keys, and goes to its records. Operators may trust it without them."""
        form = {name: request.form.get(name, "").strip() for name in ("name", "trust")}
        trusted, secret_key = bool(form["trust"]) and signed_in().is_operator, services().settings.secret_key
        try:
            with services().database.write() as transaction:
                account = account_of_request(transaction)
                add_domain(transaction, account.id, form["name"], trusted=trusted, secret_key=secret_key)
                domain_id, account_id = find_domain(transaction, account.id, form["name"]).id, account.id
        except ServiceError as error:
            return domains_page(error, form)
        return goes_to(link(f"{PATH}/{domain_id}", [], account_id))


@blp.route("/domains.csv")
class DomainsFile(MethodView):
    """The domains as a file."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """A row for each domain."""
        with services().database.read() as session:
            found = shown_domains(session, services().settings, account_of_request(session).id)
        return csv_file("domains.csv", DOMAIN_COLUMNS, ([one.row[name] for name in DOMAIN_COLUMNS] for one in found))


@blp.route("/domains/<domain_id>")
class OneDomain(MethodView):
    """One sending domain."""

    @blp.scope("contact.view")
    def get(self, domain_id: str) -> Response:
        """The records of the domain, each with what is published and what is missing."""
        return _one(domain_id)


@blp.route("/domains/<domain_id>/records.csv")
class RecordsFile(MethodView):
    """The records of a domain as a file."""

    @blp.scope("contact.view")
    def get(self, domain_id: str) -> Response:
        """A row for each record."""
        with services().database.read() as session:
            domain = _find(session, domain_id)
            found = shown_domain(session, services().settings, domain).row["records"]
        rows = ([*(one[name] for name in RECORD_COLUMNS[:-1]), "\n".join(one["found"])] for one in found)
        return csv_file("records.csv", RECORD_COLUMNS, rows)


@blp.route("/domains/<domain_id>/check")
class Check(MethodView):
    """Looking up the records of a domain."""

    @blp.scope(MANAGE)
    def post(self, domain_id: str) -> Response:
        """Has a worker look them up, which waits for name servers."""
        return _changed(
            domain_id,
            lambda transaction, domain: ask(transaction, services(), "domain", domain.account_id, domain.id),
        )


@blp.route("/domains/<domain_id>/hosts")
class Hosts(MethodView):
    """Hosts of its own for a domain."""

    @blp.scope(MANAGE)
    def post(self, domain_id: str) -> Response:
        """Sets those of the form, or clears them. They are used once their records are found."""
        form = {name: request.form.get(name, "").strip() for name in HOSTS}
        by_operator = signed_in().is_operator

        def change(transaction: Transaction, domain: Domain) -> None:
            set_hosts(transaction, domain, form, by_operator=by_operator)

        return _changed(domain_id, change, form)


@blp.route("/domains/<domain_id>/rotate")
class RotateKeys(MethodView):
    """New keys for a domain."""

    @blp.scope(MANAGE)
    def post(self, domain_id: str) -> Response:
        """Makes them beside those that sign. They sign once a check finds their records."""
        secret_key = services().settings.secret_key
        return _changed(domain_id, lambda transaction, domain: rotate_keys(transaction, domain, secret_key))


@blp.route("/domains/<domain_id>/delete")
class DeleteDomain(MethodView):
    """Deleting a domain."""

    @blp.scope(MANAGE)
    def post(self, domain_id: str) -> Response:
        """Deletes the domain with its keys. Sends from it are refused from then on."""
        with services().database.write() as transaction:
            domain = _find(transaction, domain_id)
            account_id = domain.account_id
            delete_domain(transaction, account_id, domain.name)
        return goes_to(link(PATH, [], account_id))


def _find(session: ReadSession | Transaction, domain_id: str) -> Domain:
    return domain_with_id(session, signed_in().account_id, path_id(domain_id))


def domains_page(error: ServiceError | None = None, form: Mapping[str, str] | None = None) -> Response:
    """The page with the domains and the senders, which tells of a refusal. Raises one that is `not_found`."""
    if error is not None and error.code == "not_found":
        raise error
    with services().database.read() as session:
        if named_account_id(session) is None:
            return choose_account(session, PATH, TITLE)
        account = account_of_request(session)
        domains = shown_domains(session, services().settings, account.id)
        senders = rows_of_account(session, SENDER, account.id, MOST)
    return page(
        "domains.html",
        status_of(error),
        account=account,
        domains=domains,
        senders=senders,
        of_senders=SENDER,
        form=form or {},
        **_shared(error),
        of=PATH,
    )


def _one(domain_id: str, error: ServiceError | None = None, form: Mapping[str, str] | None = None) -> Response:
    with services().database.read() as session:
        domain = _find(session, domain_id)
        found = shown_domain(session, services().settings, domain)
        is_checked = is_under_way(session, "domain", domain.account_id, domain.id)
    hosts = form or {name: found.row[name] or "" for name in HOSTS}
    of = link(PATH, [], domain.account_id)
    live = {"is_checked": is_checked, "renewed": RENEWED}
    return page("domain.html", status_of(error), one=found, of=of, hosts=hosts, **live, **_shared(error))


def _changed(
    domain_id: str, change: Callable[[Transaction, Domain], Any], form: Mapping[str, str] | None = None
) -> Response:
    """The page of the domain again, which tells of a refusal."""
    try:
        with services().database.write() as transaction:
            domain = _find(transaction, domain_id)
            change(transaction, domain)
    except ServiceError as error:
        if error.code == "not_found":
            raise
        return _one(domain_id, error, form)
    return goes_to(link(f"{PATH}/{domain.id}", [], domain.account_id))


def _shared(error: ServiceError | None) -> dict[str, Any]:
    return {
        "may_manage": MANAGE in signed_in().scopes,
        "refused": texts_of(error),
        "link": link,
    }


# The senders of text messages stand on the page of the domains (docs/console.md#domains-and-senders).
add_views(SENDER, PATH, domains_page)
