"""Routes and their scopes (docs/requests.md#keys-and-scopes), and what is refused at start
(docs/plugins.md)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from flask import Flask

import blueprints
from app import create_app
from app.accounts.auth import SCOPES, STANDARD
from app.http.api import PUBLIC, UndeclaredRoute, scopes_of
from app.http.plugins import PluginError, discover
from app.settings import Settings
from tests.support.apps import app_with_plugins
from tests.support.client import Client, check_error
from tests.support.management import ROUTES as MANAGEMENT_ROUTES
from tests.support.plugins import install
from tests.support.tenants import Tenant

CONTACTS = "/v1/lists/<>/contacts"
ENDPOINTS = {
    ("GET", "/v1"): ("report.view", "manage"),
    ("GET", "/v1/lists"): ("list.view",),
    ("GET", "/v1/lists/<>"): ("list.view",),
    ("GET", CONTACTS): ("contact.view",),
    ("GET", f"{CONTACTS}/<>"): ("contact.view",),
    ("POST", CONTACTS): ("contact.create",),
    ("PATCH", CONTACTS): ("contact.update",),
    ("PATCH", f"{CONTACTS}/<>"): ("contact.update",),
    ("DELETE", CONTACTS): ("contact.delete",),
    ("DELETE", f"{CONTACTS}/<>"): ("contact.delete",),
    ("GET", "/v1/messages"): ("message.view",),
    ("GET", "/v1/messages/<>"): ("message.view",),
    ("GET", "/v1/messages/<>/content"): ("message.view",),
    ("GET", "/v1/messages/<>/sent-contacts"): ("message.view",),
    ("POST", "/v1/transactional-sends"): ("send.email", "send.sms"),
    ("POST", "/v1/transactional-sends/cancel"): ("send.email", "send.sms"),
    ("POST", "/v1/transactional-sends/<>/cancel"): ("send.email", "send.sms"),
    ("GET", "/v1/transactional-sends"): ("report.view",),
    ("GET", "/v1/transactional-sends/<>"): ("report.view",),
    ("GET", "/v1/transactional-groups"): ("report.view",),
    ("GET", "/v1/transactional-groups/<>"): ("report.view",),
    ("GET", "/v1/tags/<>"): ("report.view",),
    ("GET", "/v1/suppressions"): ("contact.view",),
    ("POST", "/v1/suppressions"): ("contact.update",),
    ("DELETE", "/v1/suppressions"): ("contact.update",),
    ("GET", "/v1/inbox"): ("contact.view",),
    ("GET", "/v1/inbox/<>"): ("contact.view",),
    ("GET", "/v1/automations"): ("report.view",),
    ("GET", "/v1/automations/<>"): ("report.view",),
    ("GET", "/v1/automations/<>/runs"): ("report.view",),
    ("GET", "/v1/automations/<>/runs/<>"): ("report.view",),
    ("POST", "/v1/automations/<>/pause"): ("contact.update",),
    ("POST", "/v1/automations/<>/resume"): ("contact.update",),
    ("POST", "/v1/automations/validate"): ("contact.update",),
    **{(method, re.sub("<[^>]*>", "<>", rule)): ("manage",) for method, rule in MANAGEMENT_ROUTES},
}
"""Every endpoint with its scopes (docs/requests.md#keys-and-scopes)."""
CONSOLE = {
    ("GET", "/console"): ("report.view",),
    ("GET", "/console/day.csv"): ("report.view",),
    ("GET", "/console/search"): ("report.view",),
    ("GET", "/console/accounts"): ("operator",),
    ("POST", "/console/accounts"): ("operator",),
    ("GET", "/console/accounts.csv"): ("operator",),
    ("GET", "/console/accounts/<>"): ("operator",),
    ("POST", "/console/accounts/<>"): ("operator",),
    ("POST", "/console/accounts/<>/refresh"): ("operator",),
    ("GET", "/console/audit"): ("operator",),
    ("GET", "/console/audit.csv"): ("operator",),
    ("GET", "/console/audit/<>"): ("operator",),
    ("GET", "/console/automations"): ("report.view",),
    ("GET", "/console/automations.csv"): ("report.view",),
    ("GET", "/console/automations/<>"): ("report.view",),
    ("POST", "/console/automations/<>/pause"): ("contact.update",),
    ("POST", "/console/automations/<>/resume"): ("contact.update",),
    ("GET", "/console/automations/<>/runs.csv"): ("report.view",),
    ("GET", "/console/automations/<>/runs/<>"): ("report.view",),
    ("POST", "/console/automations/<>/runs/<>/cancel"): ("manage",),
    ("GET", "/console/holds"): ("operator",),
    ("POST", "/console/holds"): ("operator",),
    ("GET", "/console/holds.csv"): ("operator",),
    ("GET", "/console/holds/preview"): ("operator",),
    ("GET", "/console/bulk-actions"): ("contact.view",),
    ("POST", "/console/bulk-actions"): ("send.email", "send.sms"),
    ("GET", "/console/bulk-actions.csv"): ("contact.view",),
    ("GET", "/console/bulk-actions/preview"): ("send.email", "send.sms"),
    ("GET", "/console/bulk-actions/<>"): ("contact.view",),
    ("POST", "/console/bulk-actions/<>/cancel"): ("send.email", "send.sms", "contact.update"),
    ("GET", "/console/domains"): ("contact.view",),
    ("POST", "/console/domains"): ("manage",),
    ("GET", "/console/domains.csv"): ("contact.view",),
    ("GET", "/console/domains/<>"): ("contact.view",),
    ("GET", "/console/domains/<>/records.csv"): ("contact.view",),
    **{("POST", f"/console/domains/<>/{action}"): ("manage",) for action in ("check", "delete", "hosts", "rotate")},
    ("GET", "/console/inbox"): ("contact.view",),
    ("GET", "/console/inbox.csv"): ("contact.view",),
    **{
        ("GET", f"/console/inbox/{path}{part}"): ("contact.view",)
        for path in ("<>", "folders/<>")
        for part in ("", "/attachment", "/html", "/image", "/source")
    },
    ("GET", "/console/inbox/folders"): ("contact.view",),
    ("GET", "/console/inbox/folders.csv"): ("contact.view",),
    ("GET", "/console/keys"): ("manage",),
    ("POST", "/console/keys"): ("manage",),
    ("GET", "/console/keys.csv"): ("manage",),
    ("POST", "/console/keys/networks"): ("manage",),
    ("POST", "/console/keys/<>/list"): ("manage",),
    ("POST", "/console/keys/<>/restore"): ("manage",),
    ("POST", "/console/keys/<>/revoke"): ("manage",),
    ("POST", "/console/keys/<>/rotate"): ("manage",),
    ("GET", "/console/groups"): ("report.view",),
    ("GET", "/console/groups.csv"): ("report.view",),
    ("GET", "/console/groups/<>"): ("report.view",),
    ("GET", "/console/groups/<>/day.csv"): ("report.view",),
    ("GET", "/console/lists"): ("list.view",),
    ("POST", "/console/lists"): ("manage",),
    ("GET", "/console/lists.csv"): ("list.view",),
    ("GET", "/console/lists/<>"): ("contact.view",),
    ("POST", "/console/lists/<>"): ("manage",),
    ("POST", "/console/lists/<>/contacts"): ("contact.create",),
    ("GET", "/console/lists/<>/contacts.csv"): ("contact.view",),
    ("GET", "/console/cancellations"): ("send.email", "send.sms"),
    ("POST", "/console/cancellations"): ("send.email", "send.sms"),
    ("GET", "/console/lists/<>/contacts/<>"): ("contact.view",),
    ("POST", "/console/lists/<>/contacts/<>"): ("contact.update",),
    ("POST", "/console/lists/<>/contacts/<>/delete"): ("contact.delete",),
    ("POST", "/console/lists/<>/contacts/<>/subscription"): ("contact.update",),
    ("POST", "/console/lists/<>/delete"): ("manage",),
    ("POST", "/console/lists/<>/fields"): ("manage",),
    ("POST", "/console/lists/<>/import"): ("contact.create",),
    ("POST", "/console/lists/<>/import/preview"): ("contact.create",),
    ("GET", "/console/messages"): ("report.view",),
    ("GET", "/console/messages.csv"): ("report.view",),
    ("GET", "/console/messages/all.csv"): ("report.view",),
    ("GET", "/console/messages/<>"): ("report.view",),
    ("GET", "/console/messages/<>/content"): ("contact.view",),
    ("GET", "/console/messages/<>/content/attachment"): ("contact.view",),
    ("GET", "/console/messages/<>/content/image"): ("contact.view",),
    ("GET", "/console/messages/<>/content/html"): ("contact.view",),
    ("GET", "/console/messages/<>/content/source"): ("contact.view",),
    ("POST", "/console/messages/<>/cancel"): ("send.email", "send.sms"),
    ("POST", "/console/messages/<>/resubscribe"): ("contact.update",),
    ("POST", "/console/messages/<>/retry"): ("send.email", "send.sms"),
    ("POST", "/console/messages/<>/unblock"): ("contact.update",),
    ("GET", "/console/people"): ("manage",),
    **{("POST", f"/console/people/{action}"): ("manage",) for action in ("export", "forget", "held")},
    ("GET", "/console/queues"): ("contact.view",),
    ("POST", "/console/queues/pauses"): ("manage",),
    ("POST", "/console/queues/pauses/<>/end"): ("manage",),
    ("POST", "/console/queues/transports/<>"): ("operator",),
    ("GET", "/console/roles"): ("report.view",),
    ("POST", "/console/roles"): ("report.view",),
    ("POST", "/console/senders"): ("operator",),
    ("GET", "/console/senders.csv"): ("contact.view",),
    ("POST", "/console/senders/<>/delete"): ("manage",),
    ("POST", "/console/sign-out"): ("report.view", "operator"),
    ("GET", "/console/stored-messages"): ("message.view",),
    ("POST", "/console/stored-messages"): ("manage",),
    ("GET", "/console/stored-messages.csv"): ("message.view",),
    ("GET", "/console/stored-messages/<>"): ("message.view",),
    ("POST", "/console/stored-messages/<>"): ("manage",),
    ("POST", "/console/stored-messages/<>/delete"): ("manage",),
    ("GET", "/console/stored-messages/<>/versions"): ("contact.view",),
    ("GET", "/console/stored-messages/<>/versions/<>"): ("contact.view",),
    ("POST", "/console/stored-messages/<>/versions/<>/restore"): ("manage",),
    **{
        ("POST", f"/console/stored-messages/<>/{action}"): ("send.email", "send.sms")
        for action in ("html", "preview", "test")
    },
    ("GET", "/console/suppressions"): ("contact.view",),
    ("POST", "/console/suppressions"): ("contact.update",),
    ("GET", "/console/suppressions.csv"): ("contact.view",),
    ("POST", "/console/suppressions/import"): ("contact.update",),
    ("POST", "/console/suppressions/preview"): ("contact.update",),
    ("GET", "/console/suppressions/unblock"): ("contact.update",),
    ("POST", "/console/suppressions/unblock"): ("contact.update",),
    ("GET", "/console/suppressions/<>/<>"): ("contact.view",),
    ("POST", "/console/suppressions/<>/<>/remove"): ("contact.update",),
    ("GET", "/console/webhooks"): ("report.view",),
    ("POST", "/console/webhooks"): ("manage",),
    ("GET", "/console/webhooks.csv"): ("report.view",),
    ("GET", "/console/webhooks/<>"): ("contact.view",),
    ("GET", "/console/webhooks/<>/deliveries.csv"): ("contact.view",),
    ("GET", "/console/webhooks/<>/deliveries/<>"): ("contact.view",),
    ("POST", "/console/webhooks/<>/deliveries/<>/redeliver"): ("manage",),
    **{
        ("POST", f"/console/webhooks/<>/{action}"): ("manage",)
        for action in ("check", "choice", "delete", "remove-secret", "replay", "rotate", "test")
    },
}
"""Every page of the console for which one signs in, with its scopes (docs/console.md#signing-in)."""


def routes(app: Flask) -> dict[tuple[str, str], tuple[str, ...]]:
    """(method, path with empty parameters) -> scopes, for every route of the application."""
    return {
        (method, re.sub("<[^>]*>", "<>", rule.rule)): scopes_of(app, rule.endpoint, method)
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}
    }


def test_the_api_has_these_endpoints_with_these_scopes(app: Flask) -> None:
    assert {route: scopes for route, scopes in routes(app).items() if route[1].startswith("/v1")} == ENDPOINTS


def test_exactly_the_paths_outside_the_api_need_no_key(app: Flask) -> None:
    public = {route for route, scopes in routes(app).items() if PUBLIC in scopes}
    assert public == {route for route in routes(app) if not route[1].startswith("/v1")} - CONSOLE.keys()


def test_the_console_has_these_pages_with_these_scopes(app: Flask) -> None:
    console_routes = {route: scopes for route, scopes in routes(app).items() if route[1].startswith("/console")}
    assert {route: scopes for route, scopes in console_routes.items() if PUBLIC not in scopes} == CONSOLE


def test_no_rule_ends_with_a_slash_without_which_the_router_would_not_know_its_other_methods(app: Flask) -> None:
    assert [rule.rule for rule in app.url_map.iter_rules() if rule.rule.endswith("/")] == ["/"]


def test_each_level_includes_the_lower_ones() -> None:
    assert SCOPES["report"] == ("report.view",)
    assert set(SCOPES["report"]) < set(SCOPES["limited"]) < set(SCOPES["standard"])
    assert len(SCOPES["standard"]) == len(set(STANDARD)) == 9


# ---------------------------------------------------------------------------------------------- plugins

HEAD = """
from flask.views import MethodView

from app.http.api import PUBLIC, Blueprint
from app.http.responses import json_response

blp = Blueprint("extra", __name__, url_prefix="/v1/extra", description="Extra")


@blp.route("")
class Extra(MethodView):
"""
VIEW = """
    def get(self):
        return json_response({"extra": True})
"""
GOOD = HEAD + '    @blp.scope("message.view")' + VIEW
ONE_OF_TWO = HEAD + '    @blp.scope("send.email", "message.view")' + VIEW
UNDECLARED = HEAD + VIEW
UNKNOWN_SCOPE = HEAD + '    @blp.scope("extra.view")' + VIEW
NEITHER = "blp = 5\n"


def test_every_module_of_the_folder_is_a_plugin(app: Flask) -> None:
    folder = Path(blueprints.__file__).parent
    files = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    modules = sorted([*files, *(path.parent.name for path in folder.glob("*/__init__.py"))])
    assert [blueprint.import_name for blueprint in discover()] == [f"blueprints.{module}" for module in modules]
    assert set(app.blueprints) == {blueprint.name for blueprint in discover()}


@pytest.mark.parametrize("source", ["", NEITHER])
def test_a_module_of_the_folder_without_a_blueprint_is_refused_at_start(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    (tmp_path / "nothing.py").write_text(source)
    monkeypatch.setattr(blueprints, "__path__", [*blueprints.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "blueprints.nothing", raising=False)
    with pytest.raises(PluginError, match=r"blueprints\.nothing offers no `blp`"):
        create_app(settings)


@pytest.mark.parametrize("reference", ["tms_extra", "tms_extra:blp"])
def test_an_installed_package_joins_through_its_entry_point(
    settings: Settings, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    install(tmp_path, monkeypatch, {"extra": reference}, tms_extra=GOOD)
    with app_with_plugins(settings) as app:
        assert routes(app).keys() - ENDPOINTS.keys() >= {("GET", "/v1/extra")}
        assert Client(app, tenant.tokens["limited"]).get("/v1/extra").get_json() == {"extra": True}
        check_error(Client(app, tenant.tokens["report"]).get("/v1/extra"), 403, "permission_denied")
        check_error(Client(app).get("/v1/extra"), 401, "api_key_missing")


def test_one_of_several_scopes_is_sufficient(
    settings: Settings, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"extra": "tms_extra"}, tms_extra=ONE_OF_TWO)
    with app_with_plugins(settings) as app:
        statuses = {level: Client(app, tenant.tokens[level]).get("/v1/extra").status_code for level in SCOPES}
    assert statuses == {"report": 403, "limited": 200, "standard": 200, "manager": 403}


def test_installed_packages_come_after_the_built_in_ones_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = GOOD.replace('"extra"', '"second"')
    install(tmp_path, monkeypatch, {"zz": "tms_extra", "aa": "tms_second"}, tms_extra=GOOD, tms_second=second)
    assert [blueprint.name for blueprint in discover()][-2:] == ["second", "extra"]


def test_an_entry_point_without_a_blueprint_is_refused_at_start(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, {"extra": "tms_neither"}, tms_neither=NEITHER)
    with pytest.raises(PluginError, match="tms_neither offers no `blp`"):
        create_app(settings)


@pytest.mark.parametrize(
    ("source", "reason"), [(UNDECLARED, "declares no scope"), (UNKNOWN_SCOPE, "declares unknown scopes: extra.view")]
)
def test_a_route_without_a_scope_is_refused_at_start(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, reason: str
) -> None:
    install(tmp_path, monkeypatch, {"extra": "tms_silent"}, tms_silent=source)
    with pytest.raises(UndeclaredRoute, match=reason):
        create_app(settings)
