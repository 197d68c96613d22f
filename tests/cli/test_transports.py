"""`flask transports`, and transports and routes of a seed file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.db.models import Transport
from app.routing.transports import transport_named
from app.seed.errors import SeedError
from app.seed.load import load_seed
from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.routing import Routing, routing_of
from tests.support.sends import SendsApi
from tests.support.servers import free_port
from tests.support.tenants import Tenant, unique
from tests.unit.transports.mailserver import MailServer

URL = "smtps://user:s3cret@relay.example:465?timeout=5"


@pytest.fixture
def routing(tenant: Tenant) -> Iterator[Routing]:
    with routing_of(tenant.services, tenant.id) as made:
        yield made


def stored(tenant: Tenant, name: str) -> Transport:
    with tenant.services.database.read() as session:
        transport = transport_named(session, name)
    assert transport
    return transport


@pytest.mark.usefixtures("routing")
def test_a_transport_is_created_changed_and_deleted_and_its_password_never_shown(bare: Cli, tenant: Tenant) -> None:
    name = unique("relay")
    options = ("--connections", "8", "--rate", "14", "--allow-account", tenant.name)
    made = bare.text("transports", "create", name, "--type", "email", "--url", "-", *options, "--json", input=URL)
    transport = bare.json("transports", "show", name)
    assert {key: transport[key] for key in ("type", "url", "enabled", "connections", "messages_per_second")} == {
        **{"type": "email", "url": "smtps://relay.example:465", "enabled": True},
        **{"connections": 8, "messages_per_second": 14.0},
    }
    assert (transport["any_account"], transport["accounts"]) == (False, [tenant.name])
    listed = bare.text("transports", "list")
    assert "s3cret" not in f"{made}{listed}{stored(tenant, name).url}"
    changes = ("--disabled", "--rate", "0", "--forbid-account", tenant.name, "--url", "file:///tmp/mails")
    changed = bare.json("transports", "update", name, *changes)
    assert [changed[key] for key in ("enabled", "messages_per_second", "connections", "url", "accounts")] == [
        *(False, None, 8, "/tmp/mails", [])
    ]
    assert bare.json("transports", "delete", name) == {"name": name, "deleted": True}
    assert bare.refused("transports", "show", name) == f"there is no transport '{name}'"
    assert bare.acts(f"object_name={name}") == [
        ("transport.created", "transports create"),
        ("transport.updated", "transports update"),
        ("transport.deleted", "transports delete"),
    ]


@pytest.mark.usefixtures("routing")
@each(
    ("arguments", "error"),
    [
        (("A.b", "--type", "email", "--url", URL), "'A.b' is not 1 to 63 lower-case letters"),
        (("default", "--type", "email", "--url", URL), "'default' is the name of the transport in the settings"),
        (("ok", "--type", "sms", "--url", URL), "unknown transport smtps://"),
        (("ok", "--type", "email", "--url", "smtp://user:s3cret@host/path"), "nothing but options follows the host"),
        (("ok", "--type", "email", "--url", URL, "--rate", "0.001"), "must be 0.01 to 10000"),
        (("ok", "--type", "email", "--url", URL, "--connections", "9999"), "must be a whole number from 1 to 1000"),
    ],
)
def test_a_transport_that_cannot_be_used_is_refused(bare: Cli, arguments: tuple[str, ...], error: str) -> None:
    refused = bare.refused("transports", "create", *arguments)
    assert error in refused
    assert "s3cret" not in refused


def test_routes_are_ordered_changed_and_deleted(bare: Cli, tenant: Tenant, routing: Routing) -> None:
    mail, sms = routing.transport(URL), routing.transport("file:///tmp/texts", "sms")
    first, second = unique("first"), unique("second")
    options = ("--account", tenant.name, "--sender-domain", "ACME.example", "--priority", "high")
    run = ("transports", "routes")
    bare.text(*run, "create", first, mail, "default", *options)
    bare.text(*run, "create", second, mail, "--account", tenant.name, "--position", "1")
    rows = [row for row in bare.json(*run, "list") if row["account"] == tenant.name]
    assert [(row["name"], row["position"]) for row in rows] == [(second, 1), (first, 2)]
    assert (rows[1]["sender_domain"], rows[1]["priority"]) == ("acme.example", "high")
    assert rows[1]["transports"] == [mail, "default"]
    changed = bare.json(*run, "update", first, "--priority", "", "--position", "1")
    assert (changed["position"], changed["priority"], changed["sender_domain"]) == (1, None, "acme.example")
    used = bare.refused("transports", "delete", mail)
    assert used == f"transport: the route '{first}' uses it; change the route first"
    assert "does not send messages of type email" in bare.refused(*run, "update", first, sms)
    assert "only emails have" in bare.refused(*run, "create", "r", sms, "--sender-domain", "acme.example")
    assert "is required: email or sms" in bare.refused(*run, "create", "r", "default")
    assert bare.json(*run, "delete", first) == {"name": first, "deleted": True}
    assert [row["position"] for row in bare.json(*run, "list") if row["name"] == second] == [1]
    assert bare.acts(f"object_name={first}") == [
        ("route.created", "transports routes create"),
        ("route.updated", "transports routes create"),
        ("route.updated", "transports routes update"),
        ("route.deleted", "transports routes delete"),
    ]


def test_a_test_message_tells_how_the_dialogue_ended(bare: Cli, routing: Routing) -> None:
    with MailServer() as server:
        name, gone = routing.transport(server.url()), routing.transport(f"smtp://127.0.0.1:{free_port()}")
        addresses = ("--to", "ann@example.com", "--from", "hello@acme.example", "--json")
        accepted = bare.run("transports", "test", name, *addresses)
        server.reply("ann@example.com", "550 5.1.1 nobody")
        refused = bare.run("transports", "test", name, *addresses)
        away = bare.run("transports", "test", gone, *addresses)
        assert [mail.recipients for mail in server.mails] == [["ann@example.com"]]
    results = [yaml.safe_load(result.stdout) for result in (accepted, refused, away)]
    assert [result.exit_code for result in (accepted, refused, away)] == [0, 1, 1]
    assert bare.acts(f"object_name={name}", "action=transport.tested") == [("transport.tested", "transports test")] * 2
    assert [result["outcome"] for result in results] == ["accepted", "refused", "deferred"]
    assert results[1]["reply"] == "550 5.1.1 nobody"
    assert results[2]["in_words"].startswith("not reached: nothing was sent")
    assert "is not an email address" in bare.refused("transports", "test", name, "--to", "ann", "--from", "a@b.example")


def test_a_send_may_name_only_a_transport_that_the_operator_allows_its_account(
    tenant: Tenant, routing: Routing
) -> None:
    sends = SendsApi(tenant)
    allowed, forbidden = routing.transport(URL, allowed=True), routing.transport(URL)
    public = routing.transport("file:///tmp/texts", "sms", any_account=True, enabled=False)
    assert sends.send(sends.email(transport=allowed)).send.transport == allowed
    assert sends.send(sends.sms(transport=public)).send.transport == public
    for body in (
        sends.email(transport=forbidden),
        sends.email(transport=public),
        sends.email(transport=unique("unknown")),
        sends.email(transport="default"),
    ):
        response = sends.post(body)
        answer = response.get_json()
        assert (response.status_code, answer["code"], answer["field"]) == (422, "invalid_id", "transport")
        assert body["transport"] in answer["developer_message"]


def test_a_seed_file_defines_transports_and_routes(tenant: Tenant, routing: Routing, tmp_path: Path) -> None:
    """A second load changes nothing; what the file does not name stays."""
    first, second = unique("first"), unique("second")
    data: dict[str, Any] = {
        "transports": [{"name": first, "type": "email", "url": URL, "connections": 3, "accounts": [tenant.name]}],
        "routes": [{"name": second, "transports": [first, "default"], "account": tenant.name, "priority": "high"}],
    }
    file = tmp_path / "seed.yaml"
    file.write_text(yaml.safe_dump(data), "utf-8")
    report = load_seed(tenant.services, file)
    assert report.as_lines() == ["installation: 1 transport created, 1 route created"]
    assert load_seed(tenant.services, file).changes == 0
    routing.change(first, connections=5)
    assert load_seed(tenant.services, file).as_lines() == ["installation: 1 transport changed"]
    assert stored(tenant, first).connections == 3
    data["routes"][0]["transports"] = [unique("unknown")]
    file.write_text(yaml.safe_dump(data), "utf-8")
    with pytest.raises(SeedError, match=r"^routes\[0\]\.transport: there is no transport"):
        load_seed(tenant.services, file)
