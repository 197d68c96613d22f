"""No request waits for the network: what does is done by a worker (docs/console-contents.md#checks).

Here, by imports: each module that a request can reach and that can wait for the network is named with the reason why no
request does. `tests/api/conftest.py` watches the requests of all API tests for connections, lookups and datagrams.
"""

from __future__ import annotations

from tests.support.sources import is_module, source, sources

ROOTS = ("blueprints", "app.http", "app.application")
"""The modules in which requests come in, with all that is below."""
WAITS = (
    *("asyncio", "dns.asyncresolver", "dns.query", "dns.resolver", "ftplib", "http.client", "imaplib", "poplib"),
    *("requests", "selectors", "smtplib", "socket", "ssl", "telnetlib", "urllib.request", "urllib3", "xmlrpc"),
)
"""Modules of libraries that wait for the network, with all that is below them. Redis and PostgreSQL have their own
deadlines (docs/databases.md#database-outages)."""
REDIS_AND_POSTGRESQL = "of Redis and PostgreSQL, without which nothing can be answered; with deadlines"
NAMES_ONLY = "the name of this machine, which the system knows"
SERVER = "the server's own connections, on which it never waits without a poller"
SENDING = "a dry run builds the messages of a sender, and opens no session of a transport"
AMAZON = "documents of Amazon are fetched in a thread of their own: requests are answered by 503 until they are there"
ALLOWED = {
    "app.audit.actor": NAMES_ONLY,
    "app.events.guarded_connection": AMAZON,
    "app.http.server.worker": SERVER,
    "app.http.server.connection": SERVER,
    "app.http.server.outgoing": SERVER,
    "app.http.server.connections": SERVER,
    "app.infrastructure.liveness": f"{NAMES_ONLY}; datagrams to the service manager of this machine",
    "app.infrastructure.redis_client": REDIS_AND_POSTGRESQL,
    "app.network.connections": f"connections {REDIS_AND_POSTGRESQL}; otherwise {SENDING}",
    "app.network.lookup": f"hosts {REDIS_AND_POSTGRESQL}; otherwise {AMAZON}",
    "app.transports.email.smtp": SENDING,
    "app.transports.email.smtp_session": SENDING,
    "app.transports.sms.kannel": SENDING,
    "app.transports.sms.smpp_client": SENDING,
}
ASKERS = {
    "look_up": {"app.db.bounded_connection", "app.events.guarded_connection", "app.network.connections"},
    "own_name": {"app.transports.email.smtp_session"},
    "connect": {
        *("app.infrastructure.redis_client", "app.transports.email.smtp_session"),
        *("app.transports.sms.kannel", "app.transports.sms.smpp_client"),
    },
    "connect_to_any": {"app.events.guarded_connection"},
}
"""Function of `app.network` that waits -> the modules in reach that import it: a new one needs a reason, too."""


def is_below(module: str, tops: tuple[str, ...]) -> bool:
    """Whether the module is one of these, or below one."""
    return any(module == top or module.startswith(f"{top}.") for top in tops)


def in_reach() -> set[str]:
    """Our modules that a request can reach."""
    seen: set[str] = set()
    waiting = [source.name for source in sources() if is_below(source.name, ROOTS)]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [imported for imported, _ in source(name).imports() if is_module(imported)]
    return seen


def test_every_module_in_reach_of_a_request_that_can_wait_for_the_network_says_why_no_request_does() -> None:
    importers = {
        name for name in in_reach() if any(is_below(imported, WAITS) for imported, _ in source(name).imports())
    }
    assert importers == ALLOWED.keys()


def test_functions_that_wait_are_imported_in_reach_of_a_request_only_where_that_is_known() -> None:
    importers: dict[str, set[str]] = {name: set() for name in ASKERS}
    for module in in_reach():
        for imported in source(module).imported_names("app.network"):
            if imported in importers:
                importers[imported].add(module)
    assert importers == ASKERS


def test_checks_are_carried_out_out_of_reach() -> None:
    outside = {"app.events.registration", "app.maintenance.domain_check", "app.network.dns", "app.network_checks.run"}
    assert outside & in_reach() == set()
