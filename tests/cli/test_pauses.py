"""Pausing an account, a list or a domain on the command line, and what it tells of it
(docs/troubleshoot.md#pausing)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from app.clock import timestamp
from app.db.models import AuditEntry, SendPause
from app.distribution import COMMAND_LINE
from app.sends.pauses import pause as pausing
from app.sends.pauses import read
from tests.cli.conftest import Cli
from tests.support.client import SENDS
from tests.support.rows import Rows, resume_all
from tests.support.tenants import Tenant, unique

each = pytest.mark.parametrize


@pytest.fixture
def rows(tenant: Tenant) -> Iterator[Rows]:
    """Rows of the account; nothing is paused before and after the test."""
    resume_all(tenant.services)
    yield Rows(tenant.services, tenant.id)
    resume_all(tenant.services)


def paused(rows: Rows, *addresses: str, **options: object) -> list[int]:
    """Messages that the newest pause has put aside."""
    with rows.services.database.read() as session:
        pause_id = session.scalars(select(SendPause.id).order_by(SendPause.id.desc()).limit(1)).one()
    ids = rows.add_send(addresses, **options)  # type: ignore[arg-type]
    rows.change(ids, state="paused", pause_id=pause_id)
    return ids


def test_what_is_paused_is_shown_until_it_goes_on(tenant: Tenant, rows: Rows, cli: Cli) -> None:
    list_id = rows.add_list(name := unique("list"))
    whole = cli.json("sends", "pause", "--reason", "wrong prices")
    assert {name: whole[name] for name in ("account", "kind", "of", "reason")} == {
        "account": tenant.name, "kind": "account", "of": None, "reason": "wrong prices",
    }  # fmt: skip
    paused(rows, "ann@example.com", "bob@example.com")
    cli.json("sends", "pause", "--list", str(list_id))
    cli.json("sends", "pause", "--domain", "Bücher.example.")
    pauses = cli.json("sends", "pauses")
    keys = ("kind", "of", "reason", "waiting", "more", "resumed")
    assert [[row[key] for key in keys] for row in pauses] == [
        ["domain", "xn--bcher-kva.example", None, 0, False, None],
        ["list", name, None, 0, False, None],
        ["account", None, "wrong prices", 2, False, None],
    ]
    assert cli.json("sends", "resume", "--list", name)["of"] == name
    resumed = cli.json("sends", "resume")["resumed"]
    active, list_pause, account_pause = cli.json("sends", "pauses")
    assert (active["resumed"], list_pause["resumed"] is not None, account_pause["resumed"]) == (None, True, resumed)
    assert cli.refused("sends", "resume").endswith("the account is not paused")


def test_a_domain_is_paused_for_all_accounts(bare: Cli, rows: Rows) -> None:
    made = bare.json("sends", "pause", "--everywhere", "--domain", "people.example")
    assert (made["account"], made["of"]) == (None, "people.example")
    with rows.services.database.read() as session:
        assert session.scalars(select(SendPause.account_id)).all() == [None]
    assert bare.json("sends", "resume", "--everywhere", "--domain", "@people.example")["resumed"]


@each(
    ("words", "said"),
    [
        (["--list", "nothing"], "the account has no list 'nothing'"),
        (["--domain", "people"], "'people' is not a domain name such as mail.example.com"),
        (["--domain", "a.example", "--list", "x"], "give either a list or a domain"),
        (["--reason", "x" * 201], "has more than 200 characters"),
        (["--reason", "a\nb"], "contains a control character"),
        (["--everywhere", "--domain", "a.example"], "it applies to all accounts"),
    ],
)
def test_what_cannot_be_paused_is_refused(cli: Cli, rows: Rows, words: list[str], said: str) -> None:
    assert cli.refused("sends", "pause", *words).endswith(said)
    assert cli.json("sends", "pauses") == []


def test_of_all_accounts_only_a_domain_can_be_paused(bare: Cli) -> None:
    assert bare.refused("sends", "pause", "--everywhere").endswith("only a domain can be paused: give a domain")


def test_what_is_paused_cannot_be_paused_again(cli: Cli, bare: Cli, rows: Rows) -> None:
    since = cli.json("sends", "pause", "--domain", "a.example")["since"]
    assert f"mail to a.example has been paused since {since} by" in cli.refused(
        "sends", "pause", "--domain", "A.example"
    )
    bare.json("sends", "pause", "--everywhere", "--domain", "a.example")
    words = "mail of all accounts to a.example has been paused since"
    assert words in bare.refused("sends", "pause", "--everywhere", "--domain", "a.example")


def test_an_account_has_so_many_pauses_at_most(cli: Cli, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "MAX_PAUSES", 2)
    for number in range(2):
        cli.json("sends", "pause", "--domain", f"{number}.example")
    assert cli.refused("sends", "pause").endswith("there can be at most 2 pauses; end another pause first")
    cli.json("sends", "resume", "--domain", "0.example")
    cli.json("sends", "pause")


def test_more_messages_than_are_counted_are_shown_as_the_least(
    cli: Cli, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_COUNTED_MESSAGES", 2)
    cli.json("sends", "pause")
    paused(rows, "a@example.com", "b@example.com", "c@example.com")
    (row,) = cli.json("sends", "pauses")
    assert (row["waiting"], row["more"]) == (2, True)


def test_clients_see_what_is_paused_as_queued_and_operators_as_paused(tenant: Tenant, rows: Rows, cli: Cli) -> None:
    cli.json("sends", "pause")
    (recipient_id,) = paused(rows, "ann@example.com")
    uuid = rows.recipient(recipient_id).uuid
    assert tenant.api.get(f"{SENDS}/{uuid}").get_json()["state"] == "queued"
    for condition, uuids in {"state=queued": [uuid], "state:ne=queued": [], "state:in=queued,failed": [uuid]}.items():
        page = tenant.api.get(f"{SENDS}?{condition}").get_json()["_embedded"]["recipients"]
        assert [item["uuid"] for item in page] == uuids, condition
    assert tenant.api.get(f"{SENDS}?state=paused").status_code == 400
    assert [row["uuid"] for row in cli.json("sends", "list", "--state", "paused")] == [uuid]
    assert cli.json("sends", "list", "--state", "queued") == []


def test_explaining_names_the_pause_and_the_command_that_goes_on(rows: Rows, cli: Cli, bare: Cli) -> None:
    list_id = rows.add_list("Customers")
    cli.json("sends", "pause", "--list", "Customers", "--reason", "wrong prices")
    (recipient_id,) = paused(rows, "ann@people.example", list_id=list_id)
    bare.json("sends", "pause", "--everywhere", "--domain", "people.example", "--reason", "they asked us to")
    explained = bare.json("sends", "explain", rows.recipient(recipient_id).uuid)
    assert explained["state"] == "paused"
    texts = [finding["text"] for finding in explained["findings"]]
    assert texts[0].startswith("It is paused. It was due at")
    assert texts[1].startswith("The list Customers has been paused since")
    assert "(wrong prices)" in texts[1]
    assert texts[2].startswith("Mail of all accounts to people.example has been paused since")
    assert "they asked" not in texts[2]
    commands = [finding["commands"] for finding in explained["findings"]]
    assert commands[1][0].endswith(f"sends resume --account {cli.account} --list Customers")
    assert commands[2][0].endswith("sends resume --everywhere --domain people.example")
    told = cli.text("sends", "explain", "bob@people.example")
    assert "A new message would be affected by this:" in told
    assert "Mail of all accounts to people.example has been paused" in told
    assert "Customers" not in told, "an address is in no list"


def test_status_counts_and_names_what_is_paused(rows: Rows, cli: Cli, bare: Cli) -> None:
    before = bare.json("status")["paused"]
    cli.json("sends", "pause", "--reason", "wrong prices")
    with rows.services.database.read() as session:
        since = session.scalars(select(SendPause.creation_time).where(SendPause.account_id == rows.account_id)).one()
    day = timestamp(since)[:10]
    paused(rows, "ann@example.com")
    result = bare.run("status")
    assert f"- paused: the account {cli.account}, since {day}" in result.stdout
    assert f"(wrong prices); to resume, run `{COMMAND_LINE} sends resume --account {cli.account}`" in result.stdout
    assert bare.json("status")["paused"] == before + 1
    cli.json("sends", "resume")
    assert "paused: the account" not in bare.run("status").stdout


def test_who_paused_what_and_who_went_on_is_in_the_audit_log(rows: Rows, cli: Cli) -> None:
    cli.json("sends", "pause", "--domain", "a.example", "--reason", "ask ann@example.com")
    cli.json("sends", "resume", "--domain", "a.example")
    assert cli.acts("object=pause") == [("pause.created", "sends pause"), ("pause.ended", "sends resume")]
    with rows.services.database.read() as session:
        criteria = AuditEntry.account_id == rows.account_id, AuditEntry.object == "pause"
        entries = session.scalars(select(AuditEntry).where(*criteria)).all()
    assert "ann@" not in str([entry.changes for entry in entries])


def test_what_is_paused_is_not_what_a_restore_holds(rows: Rows, cli: Cli, bare: Cli) -> None:
    cli.json("sends", "pause")
    (recipient_id,) = paused(rows, "ann@example.com")
    done = bare.json("holds", "release", "messages", "--account", cli.account or "", "--yes")
    assert (done, cli.json("holds", "list")) == ({"released": 0, "arrived": 0}, [])
    assert rows.states([recipient_id]) == ["paused"]
