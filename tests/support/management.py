"""The endpoints of `/v1/management`, and rows for their paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import update

from app.db.models import Webhook
from tests.support.definitions import STANDARD
from tests.support.tenants import Tenant, unique

MANAGEMENT = "/v1/management"
NOUNS = {
    "lists": "list",
    "messages": "message",
    "webhooks": "webhook",
    "domains": "domain",
    "senders": "sender",
    "keys": "key",
    "automations": "automation",
}
"""Collection -> the noun in its paths."""
ITEMS = {collection: f"{MANAGEMENT}/{collection}/<{name}_id>" for collection, name in NOUNS.items()}
"""Collection -> the rule of its items."""
SECRET = "a-secret-of-a-test-with-at-least-32-bytes"
ROUTES: dict[tuple[str, str], int] = {
    **{("GET", f"{MANAGEMENT}/{collection}"): 200 for collection in NOUNS},
    **{("POST", f"{MANAGEMENT}/{collection}"): 201 for collection in NOUNS if collection != "senders"},
    **{(method, rule): 200 for rule in ITEMS.values() for method in ("GET", "PATCH")},
    **{("DELETE", rule): 204 for rule in ITEMS.values()},
    ("POST", f"{ITEMS['messages']}/preview"): 200,
    ("POST", f"{ITEMS['webhooks']}/test"): 200,
    ("POST", f"{ITEMS['webhooks']}/check"): 202,
    ("POST", f"{ITEMS['webhooks']}/secrets"): 201,
    ("DELETE", f"{ITEMS['webhooks']}/secrets/<secret_id>"): 204,
    ("POST", f"{ITEMS['domains']}/check"): 202,
    ("POST", f"{ITEMS['domains']}/rotate"): 200,
    ("POST", f"{ITEMS['keys']}/rotate"): 201,
}
"""Every endpoint, and the status of a request that is good in every way."""
CHANGES: dict[str, dict[str, Any]] = {
    "lists": {"offered_description": "News"},
    "messages": {"subject": "News"},
    "webhooks": {"events": ["contact"]},
    "domains": {"return_path_host": None},
    "senders": {"note": "News"},
    "keys": {"access_level": "report"},
}
"""Collection -> a change of one; an automation is given as a whole."""


def new_body(tenant: Tenant, collection: str) -> dict[str, Any]:
    """A valid body that creates one."""
    name = unique(collection)
    bodies: dict[str, Callable[[], dict[str, Any]]] = {
        "lists": lambda: {"name": name, "fields": [{"name": "Email", "type": "Email"}]},
        "messages": lambda: {"name": name, "type": "email", "subject": "Hi %%first_name%%", "body_text": "Hello"},
        "webhooks": lambda: {"url": f"https://hooks.example.com/{name}"},
        "domains": lambda: {"name": f"{name}.example"},
        "keys": lambda: {"name": name, "access_level": "standard"},
        "automations": lambda: _new_automation(tenant, name),
    }
    return bodies[collection]()


def _new_automation(tenant: Tenant, name: str) -> dict[str, Any]:
    """An automation of a list that all automations of the tenant have, which none can change."""
    tenant.add_list("Managed")
    return {**STANDARD, "name": name, "list": "Managed", "message": tenant.add_message()}


def create(tenant: Tenant, collection: str, **attributes: Any) -> dict[str, Any]:
    """The answer to creating one with these attributes."""
    answer = tenant.client("manager").post(f"{MANAGEMENT}/{collection}", {**new_body(tenant, collection), **attributes})
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.get_json()
    return created


def new_id(tenant: Tenant, collection: str) -> int:
    """The id of a new one."""
    if collection == "senders":
        return tenant.add_sender(unique("S")[-11:].replace("-", "x"), "alphanumeric")
    return int(create(tenant, collection)["id"])


def bar_webhook(tenant: Tenant, webhook_id: int) -> None:
    """Refuses a webhook, as a worker does that has looked up its host."""
    with tenant.services.database.write() as transaction:
        is_webhook = Webhook.account_id == tenant.id, Webhook.id == webhook_id
        transaction.execute(update(Webhook).where(*is_webhook).values(barred="leads to 10.0.0.1"))


def path_of(tenant: Tenant, rule: str) -> str:
    """The rule filled with the id of a new row, if it names one."""
    collection = rule.removeprefix(f"{MANAGEMENT}/").partition("/")[0]
    if "<" not in rule:
        return rule
    row_id = new_id(tenant, collection)
    if rule.endswith("webhooks/<webhook_id>/check"):
        bar_webhook(tenant, row_id)
    if "<secret_id>" in rule:
        answer = tenant.client("manager").post(f"{MANAGEMENT}/webhooks/{row_id}/secrets", {"id": "k2"})
        assert answer.status_code == 201, answer.text
    return rule.replace(f"<{NOUNS[collection]}_id>", str(row_id)).replace("<secret_id>", "k2")


def body_of(tenant: Tenant, method: str, rule: str) -> dict[str, Any]:
    """A valid body of the endpoint."""
    collection, _, rest = rule.removeprefix(f"{MANAGEMENT}/").partition("/")
    if "/" in rest:
        return {}
    if method == "POST" or collection == "automations":
        return new_body(tenant, collection)
    return CHANGES[collection]
