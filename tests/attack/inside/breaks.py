"""Builds in which a guard is missing, each in one place, with the attack that must then get through.

`ATTACK_BROKEN` names one (`sitecustomize.py`).
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.breaking import Change


@dataclass(frozen=True, slots=True)
class Break:
    """One build: the module and the patch, the family that must notice, and the attack that gets through."""

    module: str
    change: Change
    family: str
    shows: str


BREAKS: dict[str, Break] = {}


def request() -> Any:
    """The request that is being answered. Not imported at the top: every process of the service imports this module."""
    return importlib.import_module("flask").request


def breaks(name: str, module: str, *, family: str, shows: str) -> Callable[[Change], Change]:
    """Registers the patch of a module under a name."""

    def add(change: Change) -> Change:
        BREAKS[name] = Break(module, change, family, shows)
        return change

    return add


@breaks("groups-of-anybody", "app.groups.read", family="isolation", shows="ids in paths")
def groups_of_anybody(read: Any) -> None:
    """A group is found by its id alone."""
    read_one, group = read.read_one, read.Group
    read.require_group = lambda _session, _account_id, _group_id: None
    read.read_one = lambda session, shape, query, conditions: read_one(
        session, shape, query, {group.id: conditions[group.id]}
    )


@breaks("managed-by-anybody", "app.management.noun", family="isolation", shows="ids in paths")
def managed_by_anybody(module: Any) -> None:
    """What programs set up is found by its id alone."""

    module.ManagedNoun.scope = lambda noun, _account_id: noun.is_managed


@breaks("hosts-of-anybody", "app.accounts.domain_hosts", family="names", shows="claims of hosts")
def hosts_of_anybody(domain_hosts: Any) -> None:
    """A verified domain proves every host."""
    domain_hosts.is_below = lambda _host, domains: bool(domains)


@breaks("links-under-any-host", "app.tracking.links", family="names", shows="links under hosts of others")
def links_under_any_host(link_hosts: Any) -> None:
    """Links work under every host that leads here."""
    link_hosts._is_of_account = lambda _session, _host, _recipient_id: True


@breaks("console-under-any-host", "app.http.console.pages", family="names", shows="console under other hosts")
def console_under_any_host(pages: Any) -> None:
    """The console answers under every host that leads here."""
    pages.is_console = pages.is_console_path


@breaks("lists-of-anybody", "app.preferences.offered", family="tokens", shows="choices of others")
def lists_of_anybody(offered: Any) -> None:
    """Every account offers the lists of all accounts."""
    offered_lists, select = offered.offered_lists, importlib.import_module("sqlalchemy").select
    account_ids = select(offered.List.account_id).distinct()
    offered.offered_lists = lambda session, _account_id: [
        each for account_id in session.scalars(account_ids) for each in offered_lists(session, account_id)
    ]


@breaks("operators-everywhere", "app.accounts.sessions", family="names", shows="claims of numbers")
def operators_everywhere(sessions: Any) -> None:
    """Who is signed in for an account may do what operators do."""
    scopes_of_row = sessions._scopes
    sessions._scopes = lambda row: (*scopes_of_row(row), sessions.OPERATOR)


@breaks("unchecked-addresses", "app.events.guarded_connection", family="ssrf", shows="names that change")
def unchecked_addresses(guarded_connection: Any) -> None:
    """The addresses of a name are checked at registration only."""
    guarded_connection.check_addresses = lambda _host, _addresses: None


@breaks("trusted-strangers", "app.http.context", family="forwarded", shows="allowed networks")
def trusted_strangers(networks: Any) -> None:
    """Anybody may say which address a request comes from."""
    real_address = networks.client_address

    def claimed() -> Any:
        said = request().headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
        return networks.ip_address_in(said) if said.count(".") == 3 else real_address()

    networks.client_address = claimed


@breaks("open-to-pages", "app.http.guards", family="http", shows="foreign pages")
def open_to_pages(guards: Any) -> None:
    """Pages of any origin may read answers."""
    finish = guards._finish

    def finished(response: Any) -> Any:
        response.headers["Access-Control-Allow-Origin"] = "*"
        return finish(response)

    guards._finish = finished


@breaks("lines-in-headers", "app.transports.email.mime", family="injection", shows="mails at the relay")
def lines_in_headers(headers: Any) -> None:
    """Texts are written into header fields as they are."""
    headers.one_line = lambda text: text
    headers._is_plain = lambda _text: True


@breaks("unsigned-links", "app.tracking.tokens", family="tokens", shows="links")
def unsigned_links(tokens: Any) -> None:
    """The signature of a link is not checked."""

    def content(_secret_keys: Any, _purpose: str, token: str) -> Any:
        try:
            return tokens.base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))[: -tokens.SIGNATURE_BYTES] or None
        except ValueError:
            return None

    tokens.verify_token = content


@breaks("no-rate-limit", "app.http.guards", family="floods", shows="rate limit")
def no_rate_limit(guards: Any) -> None:
    """Requests of a key are not counted."""
    guards.count_once = lambda *_: None


@breaks("patient-server", "app.http.server.request", family="slow", shows="connections that are ended")
def patient_server(limits: Any) -> None:
    """A client may take as long as it wants for a header."""
    of = limits.Limits.of
    limits.Limits.of = lambda settings: dataclasses.replace(of(settings), header_seconds=3600.0)


@breaks("mails-in-memory", "app.smtp_server.arriving", family="inbound", shows="memory")
def mails_in_memory(incoming: Any) -> None:
    """A mail is kept as a whole while it arrives, in memory."""
    incoming.MAX_BYTES_IN_MEMORY = 1 << 40
    begin = incoming.IncomingMail.__init__

    def begun(self: Any, store: Any, *, most: int, kept: int) -> None:
        begin(self, store, most=most, kept=most + kept)

    incoming.IncomingMail.__init__ = begun


@breaks("whole-paths-in-logs", "app.http.guards", family="secrets", shows="log")
def whole_paths_in_logs(guards: Any) -> None:
    """The log has paths as they were requested."""
    guards.loggable_path = lambda path: path


@breaks("open-files", "app.private_folder", family="permissions", shows="files of the service")
def open_files(private_folder: Any) -> None:
    """Files are created as the umask of the operator says."""
    private_folder.UMASK = 0
    private_folder.make_private = lambda folder: folder.mkdir(parents=True, exist_ok=True)


@breaks("console-for-other-pages", "app.http.console.guard", family="console", shows="requests of other pages")
def console_for_other_pages(guard: Any) -> None:
    """A page of anybody may change something in the browser of who is signed in."""
    guard.check_origin = lambda: None


@breaks("messages-of-anybody", "app.console.messages", family="console", shows="ids in paths")
def messages_of_anybody(messages: Any) -> None:
    """A page finds a message by its uuid alone."""
    messages.message_of = lambda session, _who, uuid: messages.find_recipient(session, uuid)


@breaks("unescaped-pages", "app.http.console.pages", family="console", shows="headers and scripts of answers")
def unescaped_pages(pages: Any) -> None:
    """Texts are put into pages as they are."""

    def rendered(name: str, **values: Any) -> str:
        engine = importlib.import_module("flask").current_app.jinja_env.overlay(autoescape=False)
        return str(engine.get_template(name).render(**values))

    pages.render_template = rendered


@breaks("links-used-by-looking", "blueprints.console.signing", family="console", shows="links")
def links_used_by_looking(signing: Any) -> None:
    """A link signs in whoever opens it."""
    render_page = signing.page
    signing.page = lambda template, *values, **named: (
        signing.with_link(**request().view_args) if template == "link.html" else render_page(template, *values, **named)
    )


@breaks("planted-sessions", "app.accounts.sessions", family="console", shows="planted cookies")
def planted_sessions(sessions: Any) -> None:
    """A session keeps the token that the browser had before."""
    new = sessions.secrets.token_urlsafe

    class RememberedSecret:
        @staticmethod
        def token_urlsafe(size: int) -> str:
            flask = importlib.import_module("flask")
            had = flask.request.cookies.get("tms_console") if flask.has_request_context() else None
            return str(had or new(size))

    sessions.secrets = RememberedSecret


@breaks("unlimited-guesses", "blueprints.console.signing", family="console", shows="guesses")
def unlimited_guesses(signing: Any) -> None:
    """Attempts to sign in are not counted."""
    signing.count_attempt = lambda: None


@breaks("wanted-anywhere", "blueprints.console.signing", family="console", shows="redirects")
def wanted_anywhere(signing: Any) -> None:
    """After signing in, the browser goes wherever the link said."""
    signing.path_after_sign_in = lambda text: text or signing.HOME


@breaks("addresses-in-reports", "blueprints.console.messages", family="console", shows="what a report does not show")
def addresses_in_reports(messages: Any) -> None:
    """Keys of every level see addresses and replies of other servers."""
    services = messages.services
    messages._viewer = lambda: messages.Viewer(True, messages.Redaction.of(services().settings))


@breaks("uncounted-answers", "app.http.server.outgoing", family="holding", shows="unread answers")
def uncounted_answers(outgoing: Any) -> None:
    """Each client has a copy of its answer in memory, which nobody counts."""
    add = outgoing.Outgoing.add
    outgoing.Outgoing.add = lambda self, data: add(self, bytes(bytearray(data)))
    outgoing.Outgoing.store = lambda _self: None
    outgoing.Outgoing.in_memory = 0


@breaks("endless-empty-lines", "app.http.server.connection", family="holding", shows="empty lines")
def endless_empty_lines(connection: Any) -> None:
    """Empty lines before a request are taken as long as they come."""
    connection.MAX_EMPTY_LINES = 1 << 60


@breaks("all-one-client", "app.http.server.connection", family="holding", shows="bodies that do not end")
def all_one_client(connection: Any) -> None:
    """Nobody looks whose bytes are held."""
    connection.client_key = lambda _client: "anybody"


@breaks("unlimited-pages", "app.http.console.guard", family="floods", shows="rate limit")
def unlimited_pages(guard: Any) -> None:
    """Requests of who is signed in are not counted."""
    guard.count_once = lambda *_: None


@breaks("any-state", "app.sign_in.attempts", family="people", shows="answers of others")
def any_state(attempts: Any) -> None:
    """An answer of the provider counts in every browser that has begun an attempt."""
    attempts._check_sender = lambda *_: None


@breaks("unchecked-claims", "app.sign_in.id_tokens", family="people", shows="forged tokens")
def unchecked_claims(id_tokens: Any) -> None:
    """Of an ID token only the signature counts."""
    id_tokens.CodeIDToken.validate = lambda *_arguments, **_options: None


@breaks("readers-who-write", "app.accounts.sessions", family="people", shows="every page with every role")
def readers_who_write(sessions: Any) -> None:
    """Readers may do what a standard key may."""
    sessions.READER_SCOPES = sessions.STANDARD
