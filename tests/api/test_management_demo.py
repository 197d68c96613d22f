"""What a seed file says of an account can be said by the API (docs/management.md): the demo is set up both ways."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from flask import Flask

from app.accounts.domains import add_domain
from app.launcher.screen import SEED
from app.seed.load import load_seed
from app.senders.senders import create_sender
from tests.support.client import Client, items
from tests.support.management import MANAGEMENT, NOUNS
from tests.support.tenants import Tenant, new_mobile, new_tenant

RECEIVER_PORT, NUMBERS = "8001", new_mobile()[:9]
"""The begin of the numbers of senders, which are not those of the demo: other tests load it into the same database."""
DIFFERING = ("id", "list_ids", "_links", "begins_with", "records", "keys")
"""Properties that differ from account to account, beside ids of others and times. Records have random selectors."""


def demo() -> dict[str, Any]:
    """The account of the demo, as its file has it."""
    text = SEED.read_text("utf-8").replace("${RECEIVER_PORT}", RECEIVER_PORT).replace("614800000", NUMBERS)
    (account,) = yaml.safe_load(text)["accounts"]
    described: dict[str, Any] = account
    return described


def comparable(value: Any) -> Any:
    """What is the same for equal things of two accounts."""
    if isinstance(value, dict):
        return {
            name: comparable(inner)
            for name, inner in value.items()
            if name not in DIFFERING and not name.endswith(("_time", "_id"))
        }
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    return value


def estate(tenant: Tenant) -> dict[str, list[Any]]:
    """All that keys see of an account, of each kind in an order that is the same for both ways."""
    manager, api = tenant.client("manager"), tenant.api
    whole = {
        collection: [
            manager.get(f"{MANAGEMENT}/{collection}/{item['id']}").get_json()
            for item in items(manager.get(f"{MANAGEMENT}/{collection}", {"limit": 1000}), collection)
        ]
        for collection in NOUNS
    }
    whole["suppressions"] = [
        {**item, "list": list_name(whole, item["list_id"])}
        for item in items(api.get("/v1/suppressions", {"limit": 1000}), "suppressions")
    ]
    for contact_list in whole["lists"]:
        path = f"/v1/lists/{contact_list['id']}/contacts"
        whole[f"contacts of {contact_list['name']}"] = items(api.get(path, {"limit": 1000}), "contacts")
    for noun in ("senders", "keys"):
        for item in whole[noun]:
            item["list"] = list_name(whole, item["list_id"])
    whole["domains"] = [item for item in whole["domains"] if item["name"] != tenant.domain]
    whole["keys"] = [item for item in whole["keys"] if item["name"] in {key["name"] for key in demo()["keys"]}]
    return {noun: sorted(map(comparable, entries), key=str) for noun, entries in whole.items()}


def list_name(whole: Mapping[str, list[Any]], list_id: int | None) -> str | None:
    return next((item["name"] for item in whole["lists"] if item["id"] == list_id), None)


def plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A contact of the file as JSON has it."""
    return {name: value.isoformat() if isinstance(value, date) else value for name, value in entry.items()}


def post(client: Client, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a POST, which creates something."""
    answer = client.post(path, body)
    assert answer.status_code in (201, 204), answer.text
    return answer.get_json() if answer.status_code == 201 else {}


def seeded(app: Flask, folder: Path) -> Tenant:
    """The demo in an account of its own, by a file. What is in it once for the whole installation is left out."""
    tenant, account = new_tenant(app), demo()
    keys = [{name: value for name, value in key.items() if name != "token"} for key in account["keys"]]
    path = folder / "demo.yaml"
    content = {**account, "name": tenant.name, "keys": keys, "sms_senders": shared(account)}
    path.write_text(yaml.safe_dump({"accounts": [content]}), "utf-8")
    load_seed(tenant.services, path)
    return tenant


def shared(account: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The senders of the file, whose numbers two accounts of this test have."""
    return [{**sender, "shared": True} for sender in account["sms_senders"]]


def managed(app: Flask) -> Tenant:
    """The demo in an account of its own, by the API. An operator approves the senders, and has the domains count as
    verified."""
    tenant, account = new_tenant(app), demo()
    manager = tenant.client("manager")
    shop = Client(app, post(manager, f"{MANAGEMENT}/keys", {"name": "standard", "access_level": "standard"})["token"])
    for name in account["domains"]:
        post(manager, f"{MANAGEMENT}/domains", {"name": name})
    list_ids = {}
    for entry in account["lists"]:
        attributes = {name: value for name, value in entry.items() if name not in ("contacts", "system")}
        list_ids[entry["name"]] = post(manager, f"{MANAGEMENT}/lists", attributes)["id"]
    approve(tenant, account, list_ids)
    for key in account["keys"]:
        post(manager, f"{MANAGEMENT}/keys", {name: value for name, value in key.items() if name != "token"})
    for entry in account["unsubscribers"]:
        listed = {"list_id": list_ids[entry["list"]]} if "list" in entry else {}
        address = {name: value for name, value in entry.items() if name != "list"}
        post(shop, "/v1/suppressions", {"state": "unsubscribed", **address, **listed})
    for entry in account["blocked"]:
        # The reason of an entry that names none.
        post(shop, "/v1/suppressions", {"state": "blocked", "reason": "seed file", **entry})
    for entry in account["lists"]:
        list_id = list_ids[entry["name"]]
        post(shop, f"/v1/lists/{list_id}/contacts", {"contacts": [plain(contact) for contact in entry["contacts"]]})
        if entry.get("system"):
            assert manager.patch(f"{MANAGEMENT}/lists/{list_id}", {"system": True}).status_code == 200
    for noun in ("messages", "webhooks", "automations"):
        for entry in account[noun]:
            post(manager, f"{MANAGEMENT}/{noun}", entry)
    return tenant


def approve(tenant: Tenant, account: Mapping[str, Any], list_ids: Mapping[str, int]) -> None:
    """What only an operator does."""
    with tenant.services.database.write() as transaction:
        for sender in shared(account):
            attributes = {name: value for name, value in sender.items() if name != "list"}
            listed = {"list_id": list_ids[sender["list"]]} if "list" in sender else {}
            create_sender(transaction, tenant.id, {**attributes, **listed})
        for name in account["domains"]:
            add_domain(transaction, tenant.id, name, trusted=True, secret_key=tenant.services.settings.secret_key)


def test_the_demo_can_be_set_up_by_a_file_and_by_the_api(app: Flask, tmp_path: Path) -> None:
    by_file, by_api = estate(seeded(app, tmp_path)), estate(managed(app))
    assert by_api.keys() == by_file.keys()
    for noun, expected in by_file.items():
        assert by_api[noun] == expected, noun
    assert [len(by_file[noun]) for noun in ("lists", "messages", "webhooks", "domains", "senders", "automations")] == [
        *(3, 4, 1, 2, 3, 1)
    ]
