"""The allowed imports (docs/code-layout.md#imports), checked against the imports themselves."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache

import pytest

from tests.support.sources import LIBRARY, PACKAGES, ROOT, Source, is_module, library_sources, source, sources

MAY_IMPORT = {
    "app": {"app"},
    "blueprints": {"app", "blueprints", "schemas"},
    "schemas": {"app", "schemas"},
    "jobs": {"app", "jobs"},
}
"""Package -> the packages of ours that its modules may import."""

FOUNDATION = (
    "addresses",
    "clock",
    "decoding",
    "distribution",
    "error_help",
    "errors",
    "ids",
    "markdown",
    "mounts",
    "names",
    "plain_data",
    "private_folder",
    "redis_urls",
    "roles",
    "secret_keys",
    "settings",
)
"""Modules at the root of `app` that import nothing but each other, and that every room may import."""

ROOMS: dict[str, tuple[str, ...]] = {
    # Techniques, which know nothing of the service's nouns.
    "network": (),
    "db": ("network",),
    "content": (),
    "csv_files": (),
    "transports": ("content", "network"),
    "smtp_server": ("network",),
    "query": ("db",),
    "infrastructure": ("db", "network", "transports"),
    "audit": ("db", "infrastructure", "query"),
    "services": ("audit", "db", "infrastructure"),
    "resources": ("db",),
    # Nouns, from those that others refer to, to those that refer to others.
    "lists": ("db", "query", "resources"),
    "accounts": ("audit", "db", "lists", "network", "query", "resources", "services", "transports"),
    "senders": ("accounts", "db", "resources"),
    "routing": ("accounts", "audit", "db", "infrastructure", "senders", "services", "transports"),
    "messages": ("audit", "content", "db", "query"),
    "groups": ("db", "lists", "query"),
    "inbox": ("db", "query"),
    "automations": ("content", "db"),
    "events": ("audit", "db", "infrastructure", "network", "services"),
    "recipients": ("automations", "db", "events", "groups", "lists", "messages", "query", "routing"),
    "contacts": ("accounts", "audit", "automations", "csv_files", "db", "events", "infrastructure", "lists", "query"),
    "suppressions": ("audit", "contacts", "db", "infrastructure", "query"),
    "imports": ("audit", "contacts", "csv_files", "db", "lists", "suppressions"),
    "tracking": ("accounts", "automations", "contacts", "content", "db", "events", "recipients"),
    "sends": (
        *("accounts", "audit", "automations", "contacts", "content", "db", "events", "inbox", "infrastructure"),
        *("lists", "network", "query", "recipients", "routing", "services", "tracking", "transports"),
    ),
    "preferences": ("contacts", "db", "lists", "sends", "tracking"),
    "bulk_actions": ("audit", "db", "infrastructure", "query", "recipients", "sends", "services", "suppressions"),
    "runs": (
        *("audit", "automations", "contacts", "db", "events", "infrastructure", "lists", "query", "recipients"),
        *("sends", "services", "tracking"),
    ),
    "inbound": (
        *("automations", "contacts", "db", "events", "inbox", "infrastructure", "recipients", "routing", "sends"),
        *("services", "smtp_server", "tracking", "transports"),
    ),
    "submission": (
        *("accounts", "audit", "content", "db", "infrastructure", "network", "recipients", "sends", "services"),
        *("smtp_server", "transports"),
    ),
    "retention": ("db", "recipients", "sends", "services"),
    "maintenance": (
        *("accounts", "audit", "automations", "contacts", "db", "events", "inbound", "infrastructure", "network"),
        *("recipients", "retention", "routing", "runs", "sends", "services", "tracking"),
    ),
    "network_checks": ("audit", "db", "events", "infrastructure", "maintenance", "services"),
    "management": (
        *("accounts", "automations", "contacts", "db", "events", "lists", "maintenance", "messages"),
        *("network_checks", "query", "runs", "senders", "sends", "services"),
    ),
    "sign_in": ("accounts", "audit", "db", "events", "infrastructure", "services"),
    "privacy": (
        *(
            "audit",
            "contacts",
            "db",
            "infrastructure",
            "lists",
            "recipients",
            "retention",
            "routing",
            "sends",
            "services",
        ),
        "transports",
    ),
    "backup": ("audit", "db", "events", "inbound", "infrastructure", "runs", "sends", "services"),
    "console": (
        *("accounts", "audit", "automations", "bulk_actions", "contacts", "content", "csv_files", "db", "events"),
        *("groups", "imports", "infrastructure", "lists", "maintenance", "privacy", "query"),
        *("recipients", "resources", "routing", "runs", "sends", "services", "suppressions", "tracking"),
        "transports",
    ),
    # Entry points, and what starts the service.
    "first_setup": ("accounts", "db", "lists", "routing", "transports"),
    "http": (
        *("accounts", "audit", "console", "csv_files", "db", "first_setup", "infrastructure", "maintenance", "network"),
        *("query", "resources", "services", "tracking"),
    ),
    "seed": (
        *("accounts", "audit", "automations", "contacts", "db", "events", "infrastructure", "lists", "messages"),
        *("resources", "routing", "runs", "senders", "services"),
    ),
    "cli": (
        *(
            "accounts",
            "audit",
            "automations",
            "backup",
            "bulk_actions",
            "contacts",
            "csv_files",
            "db",
            "events",
            "first_setup",
            "groups",
            "http",
            "imports",
            "inbound",
        ),
        *("inbox", "infrastructure", "lists", "maintenance", "messages", "privacy", "query", "recipients"),
        *("resources", "routing", "runs", "seed", "sends", "services", "sign_in", "suppressions"),
    ),
    "launcher": ("accounts", "db", "first_setup", "infrastructure", "routing", "seed", "services", "transports"),
    "demo": (),
    "application": (
        "accounts",
        "cli",
        "contacts",
        "http",
        "inbound",
        "infrastructure",
        "maintenance",
        "services",
        "tracking",
    ),
    "": (),
    "tms": ("", "cli", "infrastructure"),
}
"""The architecture of `app`, from the bottom up: room -> the rooms that it imports, all of which stand above it in this
table, so that there are no cycles. `application` has `create_app`, which wires the others."""

ROOMS_OF_SENDS: dict[str, tuple[str, ...]] = {
    "accept": (),
    "outcomes": (),
    "pauses": (),
    "delivery": ("outcomes", "pauses"),
    "explain": ("outcomes", "pauses"),
    "holds": ("outcomes",),
    "dry_run": ("accept", "delivery"),
}
"""The rooms inside `app.sends`: what follows from a delivery attempt does not import how it was made."""

AT_HOME = {
    "flask": ("app", "app.application", "app.http", "app.cli", "app.tms", "blueprints"),
    "flask_smorest": ("app.http",),
    "werkzeug": ("app", "app.http", "app.cli"),
    "marshmallow": ("app.http", "schemas"),
    "apispec": ("app.http",),
    "rq": ("app.infrastructure.redis_client", "jobs"),
    "gunicorn": ("app.http.server",),
    "opentelemetry": ("app.infrastructure.otel",),
    "authlib": ("app.sign_in",),
    "joserfc": ("app.sign_in",),
    "urllib3": ("app.events", "app.transports.sms.kannel"),
    "requests": ("app.events.guarded_connection",),
}
"""Library -> the rooms that may import it. A room is a module with all below it; `app` alone is its own module."""

WITHOUT_WEB = (
    "app.demo.receiver",
    "app.launcher.service",
    "jobs.inbound",
    "jobs.schedule",
    "jobs.submission",
    "jobs.worker",
)
"""Processes that serve no API: they start sooner and are smaller without the web framework."""

DIALECT_NAMES = {"is_postgresql", "dialect", "dialects"}
"""Names by which code asks for the database that it is on."""

WITHOUT_SQLALCHEMY = ("app.content", "app.transports", "app.events.endpoint", "app.query.grammar", "blueprints")

IMPURE = {"flask", "sqlalchemy", "redis", "rq", "marshmallow", "requests", "urllib3"}
"""What a pure module imports neither itself nor through another."""


def is_in(module: str, room: str) -> bool:
    """Whether the module belongs to the room."""
    return module == room or (room != "app" and module.startswith(room + "."))


def package_of(module: str) -> str:
    """The top of a dotted name."""
    return module.partition(".")[0]


def described(importer: Source, line: int, imported: str) -> str:
    """How a forbidden import is reported."""
    return f"{importer.path.name}:{line} {importer.name} imports {imported}"


def test_packages_import_only_those_below_them() -> None:
    wrong = [
        described(importer, line, imported)
        for importer in sources()
        for imported, line in importer.imports()
        if package_of(imported) in PACKAGES and package_of(imported) not in MAY_IMPORT[package_of(importer.name)]
    ]
    assert wrong == []


def test_a_blueprint_imports_only_modules_of_its_own_package() -> None:
    """A plugin stands alone, however many modules it has."""
    wrong = [
        described(importer, line, imported)
        for importer in sources()
        for imported, line in importer.imports()
        if is_in(importer.name, "blueprints") and is_in(imported, "blueprints")
        if imported.split(".")[1] != importer.name.split(".")[1]
    ]
    assert wrong == []


def room_of(module: str) -> str:
    """The room of `app` that a module belongs to: the second part of its name, nothing for `app` itself."""
    return module.split(".")[1] if "." in module else ""


def test_rooms_import_only_those_above_them_in_the_table() -> None:
    order = list(ROOMS)
    for room, imported in ROOMS.items():
        assert [imported_room for imported_room in imported if order.index(imported_room) >= order.index(room)] == [], (
            room
        )


def test_rooms_import_exactly_what_the_table_says() -> None:
    imports: dict[str, set[str]] = {room: set() for room in (*ROOMS, *FOUNDATION)}
    for module in sources():
        if package_of(module.name) == "app":
            imports[room_of(module.name)] |= {
                room_of(name) for name, _ in module.imports() if package_of(name) == "app"
            }
    table = {room: tuple(sorted(imports[room] - {room, *FOUNDATION})) for room in imports}
    assert table == {**ROOMS, **dict.fromkeys(FOUNDATION, ())}


def test_rooms_of_sends_import_exactly_what_the_table_says() -> None:
    imports: dict[str, set[str]] = {room: set() for room in ROOMS_OF_SENDS}
    for module in sources():
        if module.name.count(".") > 2 and is_in(module.name, "app.sends"):
            imported = {name.split(".")[2] for name, _ in module.imports() if name.startswith("app.sends.")}
            imports[module.name.split(".")[2]] |= imported & ROOMS_OF_SENDS.keys()
    assert {room: tuple(sorted(imports[room] - {room})) for room in imports} == ROOMS_OF_SENDS


@pytest.mark.parametrize("library", AT_HOME)
def test_a_library_is_imported_only_in_its_rooms(library: str) -> None:
    wrong = [
        described(importer, line, imported)
        for importer in sources()
        for imported, line in importer.imports()
        if package_of(imported) == library and not any(is_in(importer.name, room) for room in AT_HOME[library])
    ]
    assert wrong == []


@pytest.mark.parametrize("room", WITHOUT_SQLALCHEMY)
def test_some_rooms_know_no_sql(room: str) -> None:
    wrong = [
        described(importer, line, imported)
        for importer in sources()
        for imported, line in importer.imports()
        if package_of(imported) == "sqlalchemy" and is_in(importer.name, room)
    ]
    assert wrong == []


def test_only_app_db_knows_the_dialect() -> None:
    """Everything else writes statements that fit both, or takes them from `app/db`."""
    wrong = [
        f"{source.path.name}:{getattr(node, 'lineno', '?')}"
        for source in sources()
        if not is_in(source.name, "app.db")
        for node in ast.walk(source.tree)
        if DIALECT_NAMES & words(node)
    ]
    assert wrong == []


def words(node: ast.AST) -> set[str]:
    """The words of a name, an attribute or an import."""
    named = (getattr(node, attribute, None) for attribute in ("id", "attr", "name", "module"))
    return {word for name in named if isinstance(name, str) for word in name.split(".")}


@cache
def reach(module: str) -> frozenset[str]:
    """The libraries that a module of ours imports, itself or through other modules of ours."""
    libraries: set[str] = set()
    seen, waiting = set(), [module]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for imported, _ in source(current).imports():
            if is_module(imported):
                waiting.append(imported)
            else:
                libraries.add(package_of(imported))
    return frozenset(libraries)


def test_schemas_import_only_pure_modules_of_the_domain() -> None:
    wrong = [
        described(importer, line, imported)
        for importer in sources()
        if package_of(importer.name) == "schemas"
        for imported, line in importer.imports()
        if package_of(imported) == "app" and reach(imported) & IMPURE
    ]
    assert wrong == []


def test_processes_that_serve_no_api_do_not_load_the_web_framework() -> None:
    """Checked in an interpreter: importing a module also imports its parent packages."""
    program = (
        f"import {', '.join(WITHOUT_WEB)}, sys; print({{'flask', 'flask_smorest', 'marshmallow'}} & {{*sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_client_library_imports_nothing_of_the_service_and_one_other_library() -> None:
    imported = {package_of(name) for library_source in library_sources() for name, _ in library_source.imports()}
    assert imported - sys.stdlib_module_names == {LIBRARY, "requests"}


def test_no_import_stands_inside_a_function() -> None:
    wrong = [
        f"{source.path.name}:{node.lineno}"
        for source in (*sources(), *library_sources())
        for function in source.functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert wrong == []


def test_every_module_has_a_docstring() -> None:
    assert [source.name for source in (*sources(), *library_sources()) if not ast.get_docstring(source.tree)] == []


DOORS = ("app.cli", "app.console", "blueprints", "jobs", "schemas")
AUDIT_WRITERS = {"app.audit.record", "app.audit.audited"}
"""What writes the audit log."""
READS = {"blueprints.console.audit"}
"""Modules of doors that read the names of all actions."""


def test_acts_are_recorded_below_the_doors() -> None:
    """A use case records what it does in the transaction in which it does it, so no door can forget it."""
    wrong = [
        f"{source.name}:{line} imports {imported}"
        for source in sources()
        if any(is_in(source.name, door) for door in DOORS) and source.name not in READS
        for imported, line in source.imports()
        if any(is_in(imported, writer) for writer in AUDIT_WRITERS)
    ]
    assert wrong == []
