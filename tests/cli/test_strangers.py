"""Texts of clients and other servers on the operator's screen and in exported files."""

from __future__ import annotations

import ast
import csv
import json
from pathlib import Path

from app.csv_files.reader import cell, from_cell
from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.rows import Rows
from tests.support.sources import sources
from tests.support.tenants import Tenant

EVIL = "\x1b]0;owned\x07\x9b2J\u202e"
CONTROLS = {"\x1b", "\x07", "\x9b", "\u202e"}
IN_LIST = ("--list", "Customers")
FORMULAS = ["=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''-x", "\uff1d1", "-", "a;=1"]
PLAIN = ["Ann", "'t Hooft", "-5", "-1.5E-2", "a=b", "1-2", "'", "5"]


def test_the_name_of_a_contact_cannot_move_the_cursor(cli: Cli, tenant: Tenant, customers: int) -> None:
    """The name cannot look like another line, either. JSON shows it exactly."""
    tenant.new_contact(customers, email="ann@example.com", first_name=f"A{EVIL}\nid: 7")
    command = ("contacts", "show", "ann@example.com", *IN_LIST)
    printed = cli.text(*command)
    assert not CONTROLS & set(printed)
    assert "A\\x1b]0;owned\\x07\\x9b2J\\u202e\\nid: 7" in printed
    assert cli.json(*command)["first_name"] == f"A{EVIL}\nid: 7"


def test_a_reply_of_another_server_cannot_move_the_cursor(cli: Cli, bare: Cli, tenant: Tenant) -> None:
    rows = Rows(tenant.services, tenant.id)
    (ann,) = rows.add_send(["ann@example.com"])
    rows.change([ann], state="failed", reason=f"no {EVIL}")
    for printed in (cli.text("sends", "list"), bare.text("sends", "show", rows.recipient(ann).uuid)):
        assert not CONTROLS & set(printed)
        assert "no \\x1b]0;owned" in printed


def test_an_error_that_repeats_a_value_cannot_move_the_cursor(cli: Cli, customers: int, tmp_path: Path) -> None:
    file = tmp_path / "contacts.csv"
    file.write_text(f"email,plan{EVIL}\nann@example.com,gold\n")
    assert not CONTROLS & set(cli.refused("contacts", "import", str(file), *IN_LIST))
    assert not CONTROLS & set(cli.refused("contacts", "show", EVIL, *IN_LIST))


def test_commands_print_by_one_function() -> None:
    """The one function escapes control characters, which a terminal would obey. JSON escapes them by itself."""
    calls = {
        (source.name, ast.unparse(node.func))
        for source in sources()
        if source.name.startswith("app.cli")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"click.echo", "click.secho", "print"}
    }
    assert calls == {("app.cli.base", "click.echo")}


@each("text", FORMULAS[:-1])
def test_a_formula_is_exported_as_text(text: str) -> None:
    assert cell(text) == f"'{text}"
    assert from_cell(cell(text)) == text


@each("text", PLAIN)
def test_other_texts_and_numbers_are_not_changed(text: str) -> None:
    assert cell(text) == from_cell(text) == text


def test_an_export_is_imported_unchanged(cli: Cli, tenant: Tenant, customers: int, tmp_path: Path) -> None:
    for number, text in enumerate([*FORMULAS, *PLAIN]):
        tenant.new_contact(customers, email=f"p{number}@example.com", first_name=text, score=-number)
    before = cli.json("contacts", "list", *IN_LIST)
    file = tmp_path / "contacts.csv"
    cli.text("contacts", "export", str(file), *IN_LIST)
    with file.open(newline="") as source:
        rows = list(csv.DictReader(source))
    assert [row["first_name"] for row in rows] == [*(f"'{text}" for text in FORMULAS[:-1]), FORMULAS[-1], *PLAIN]
    assert rows[3]["score"] == "-3"
    assert '"a;=1"' in file.read_text(), "a cell of its own where lists are separated by semicolons"
    printed = cli.text("contacts", "import", str(file), *IN_LIST)
    assert printed == f"0 created, 0 updated, {len(rows)} unchanged\n"
    assert json.dumps(cli.json("contacts", "list", *IN_LIST)) == json.dumps(before)
