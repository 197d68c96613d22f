"""`flask contacts import` of files as people have them (docs/csv.md)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, func, select

from app.db.models import Contact, ContactImport, Event, TriggerFiring
from app.http.context import EXTENSION
from app.services import Services
from tests.cli.conftest import Cli
from tests.support.automations import add_automation
from tests.support.cases import each
from tests.support.foreign_files import FOREIGN_FILES
from tests.support.tenants import PLAIN_FIELDS, Tenant

IN_LIST = ("--list", "Customers")
LISTENING = {
    "name": "Welcome",
    "kind": "advanced",
    "trigger": "REST API Contact Created",
    "steps": [{"name": "pause", "wait": "2 days"}],
}
EVERYTHING = "https://hooks.example.com/in"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "contacts.csv"


def imported(cli: Cli, file: Path, *options: str, **more: Any) -> tuple[str, str]:
    """The two outputs of an import that must succeed."""
    done = cli.run("contacts", "import", str(file), *IN_LIST, *options, **more)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def names(cli: Cli) -> dict[str, str | None]:
    """Email -> first name."""
    return {contact["email"]: contact["first_name"] for contact in cli.json("contacts", "list", *IN_LIST)}


def number(tenant: Tenant, model: type[Contact | ContactImport | Event | TriggerFiring]) -> int:
    """The account's rows."""
    with tenant.services.database.read() as session:
        return session.execute(select(func.count()).where(model.account_id == tenant.id)).scalar_one()


# --------------------------------------------------------------------------------------- format


@pytest.mark.parametrize(
    ("encoding", "delimiter", "word"),
    [
        ("utf-8", ",", ""),
        ("utf-8-sig", ",", ""),
        ("utf-8", ";", "read as utf-8 with semicolons (otherwise: --encoding, --delimiter)\n"),
        ("windows-1252", ";", "read as windows-1252 with semicolons (otherwise: --encoding, --delimiter)\n"),
        ("utf-16", "\t", "read as utf-16 with tabs (otherwise: --encoding, --delimiter)\n"),
    ],
)
def test_encoding_and_delimiter_are_found_and_said(
    cli: Cli, customers: int, file: Path, *, encoding: str, delimiter: str, word: str
) -> None:
    text = '"email";"First Name"\r\n"a@example.com";"René"\r\n;\r\n'
    file.write_bytes(text.replace(";", delimiter).encode(encoding))
    assert imported(cli, file) == ("1 created, 0 updated, 0 unchanged\n", word)
    assert names(cli) == {"a@example.com": "René"}


def test_a_format_that_is_named_is_not_looked_for(cli: Cli, customers: int, file: Path) -> None:
    file.write_bytes("email:first_name\na@example.com:Łukasz\n".encode("iso-8859-2"))
    assert imported(cli, file, "--encoding", "ISO-8859-2", "--delimiter", ":")[1] == ""
    assert names(cli) == {"a@example.com": "Łukasz"}
    refused = cli.refused("contacts", "import", str(file), *IN_LIST, "--delimiter", "x")
    assert refused.endswith("'x' is not comma, semicolon, tab, pipe or another punctuation character")


def test_columns_are_mapped_by_their_names_in_the_file(cli: Cli, customers: int, file: Path) -> None:
    file.write_text('"E-Mail";"Vorname = Rufname";Fax;_note;\na@example.com;Ann;7;x;\n')
    mapped = ("--map", "E-Mail=email", "--map", "Vorname = Rufname=First Name", "--map", "Fax=")
    assert imported(cli, file, *mapped)[0] == "1 created, 0 updated, 0 unchanged\n"
    assert names(cli) == {"a@example.com": "Ann"}


@each(
    ("mapping", "error"),
    [
        (["Mail=email"], "--map: the file has no column 'Mail'; its columns are 'E-Mail', 'Fax'"),
        (["E-Mail=mail"], "--map 'E-Mail=mail': 'mail' is not one of id, email, mobile, first_name,"),
        (["E-Mail"], "--map 'E-Mail': must be COLUMN=KEY, as in 'E-Mail=email'"),
        (["E-Mail=email", "E-Mail=mobile"], "--map 'E-Mail=mobile': the column is mapped twice"),
        (["E-Mail=email", "Fax=email"], "line 1: two columns are email"),
        (["E-Mail=email"], "line 1: column 'Fax' is not among id, email, mobile, first_name,"),
        ([], "line 1: columns 'E-Mail', 'Fax' are not among id, email, mobile, first_name,"),
    ],
)
def test_columns_are_never_guessed(cli: Cli, customers: int, file: Path, mapping: list[str], error: str) -> None:
    file.write_text("E-Mail,Fax\na@example.com,7\n")
    options = [part for column in mapping for part in ("--map", column)]
    assert cli.refused("contacts", "import", str(file), *IN_LIST, *options).startswith(error)
    assert names(cli) == {}


def test_standard_input_is_imported_and_resumed_like_a_file(cli: Cli, customers: int, file: Path) -> None:
    text = "email;first_name\na@example.com;Ann\n"
    command = ("contacts", "import", "-", *IN_LIST)
    assert cli.text(*command, input=text) == "1 created, 0 updated, 0 unchanged\n"
    assert cli.text(*command, "--resume", input=text).startswith("this file was already imported at 20")


def test_a_file_that_is_no_csv_is_refused_in_one_line(cli: Cli, customers: int, file: Path) -> None:
    content, error = FOREIGN_FILES[0]
    file.write_bytes(content)
    for options in ((), ("--encoding", "utf-8"), ("--dry-run",)):
        assert cli.refused("contacts", "import", str(file), *IN_LIST, *options) == error
    assert cli.run("contacts", "import", "-", *IN_LIST, input=content).stderr == f"Error: {error}\n"
    assert names(cli) == {}


def test_empty_cells_clear_fields_if_the_option_says_so(cli: Cli, tenant: Tenant, customers: int, file: Path) -> None:
    tenant.new_contact(customers, email="ann@example.com", first_name="Ann")
    file.write_text("email,first_name\nann@example.com,\n")
    assert imported(cli, file, "--dry-run")[0].startswith("would be: 0 created, 0 updated, 1 unchanged.")
    assert imported(cli, file)[0] == "0 created, 0 updated, 1 unchanged\n"
    assert names(cli) == {"ann@example.com": "Ann"}
    assert imported(cli, file, "--empty-clears", "--dry-run")[0].startswith("would be: 0 created, 1 updated, 0 unch")
    assert imported(cli, file, "--empty-clears")[0] == "0 created, 1 updated, 0 unchanged\n"
    assert names(cli) == {"ann@example.com": None}


def test_the_help_of_an_import_says_what_an_empty_cell_does(cli: Cli) -> None:
    said = " ".join(cli.run("contacts", "import", "--help").stdout.split())
    assert "An empty cell leaves its field unchanged, unless you use --empty-clears." in said
    assert "--empty-clears Empty cells clear their fields. By default, they leave the fields unchanged." in said


# --------------------------------------------------------------------------------------- faulty rows

FAULTY = (
    "First Name;email;plan\n"
    "Ann;ann@example.com;gold\n"
    "=1+1;bob@example;silver\n"
    "Cem;cem@example.com;gold;\n"
    '"Dan" D;dan@example.com;free\n'
    "Ann II;ANN@example.com;free\n"
    "Eve;eve@example.com;free\n"
)


def test_faulty_rows_are_left_out_and_can_be_mended(cli: Cli, customers: int, file: Path, tmp_path: Path) -> None:
    file.write_text(FAULTY)
    rejects = tmp_path / "rejects.csv"
    said, faults = imported(cli, file, "--skip-faulty", "--rejects", str(rejects))
    assert said == "2 created, 0 updated, 0 unchanged, 4 rejected\n"
    assert "1 row: has 4 cells, but the header has 3\n" in faults
    assert names(cli) == {"ann@example.com": "Ann", "eve@example.com": "Eve"}
    lines = rejects.read_text().splitlines()
    assert [re.split(";", line)[0] for line in lines] == ["_line", "3", "4", "5", "6"]
    assert lines[1].endswith(";=1+1;bob@example;silver")
    assert lines[2] == "4;has 4 cells, but the header has 3;Cem;cem@example.com;gold;"
    assert lines[3].endswith(';"""Dan"" D;dan@example.com;free"')
    repaired = "\n".join(
        [
            *(lines[0], lines[1].replace("bob@example;silver", "bob@example.com;gold"), lines[2].removesuffix(";")),
            *("5;;Dan D;dan@example.com;free", lines[4], ""),
        ]
    )
    rejects.write_text(repaired)
    again = tmp_path / "again.csv"
    assert imported(cli, rejects, "--skip-faulty", "--rejects", str(again))[0] == (
        "3 created, 1 updated, 0 unchanged, 0 rejected\n"
    )
    assert again.read_text() == "_line;_reason;First Name;email;plan\n"
    assert names(cli)["dan@example.com"] == "Dan D"
    assert names(cli)["bob@example.com"] == "=1+1"


def test_lines_behind_an_open_quote_are_rejected_one_by_one(
    cli: Cli, customers: int, file: Path, tmp_path: Path
) -> None:
    file.write_bytes('email;first_name\n"a@example.com;René\nb@example.com;Zoë\n'.encode("windows-1252"))
    rejects = tmp_path / "rejects.csv"
    imported(cli, file, "--skip-faulty", "--rejects", str(rejects))
    assert rejects.read_text("windows-1252").splitlines() == [
        "_line;_reason;email;first_name",
        '2;unexpected end of data;"""a@example.com;René"',
        "3;read as part of line 2;b@example.com;Zoë",
    ]


def test_rejected_rows_can_go_to_standard_output(cli: Cli, customers: int, file: Path) -> None:
    file.write_text("email\nbad\n")
    said, others = imported(cli, file, "--skip-faulty", "--rejects", "-")
    assert said.splitlines()[1].endswith(",bad")
    assert others.endswith("0 created, 0 updated, 0 unchanged, 1 rejected\n")


def test_rejected_rows_do_not_replace_the_file_itself(cli: Cli, customers: int, file: Path) -> None:
    file.write_text("email\nbad\n")
    command = ("contacts", "import", str(file), *IN_LIST, "--rejects", str(file))
    assert cli.refused(*command).startswith("--rejects FILE needs --skip-faulty")
    assert cli.refused(*command, "--skip-faulty") == "--rejects must name a file other than the imported file"
    assert file.read_text() == "email\nbad\n"


# --------------------------------------------------------------------------------------- dry run


def test_a_dry_run_says_what_would_happen_and_stores_nothing(
    cli: Cli, tenant: Tenant, customers: int, file: Path
) -> None:
    cli.text("webhooks", "create", EVERYTHING)
    tenant.new_contact(customers, email="ann@example.com", first_name="Ann")
    add_automation(tenant.services, tenant.id, customers, LISTENING)
    events, firings = number(tenant, Event), number(tenant, TriggerFiring)
    before = cli.json("contacts", "list", *IN_LIST)
    file.write_text("email,first_name\nann@example.com,Anna\nbob@example.com,Bob\n")
    said, _ = imported(cli, file, "--dry-run")
    assert said == (
        "would be: 1 created, 1 updated, 0 unchanged. Nothing was stored; the list has automations that contacts may "
        "enter: Welcome\n"
    )
    assert cli.json("contacts", "list", *IN_LIST) == before
    assert (number(tenant, Event), number(tenant, TriggerFiring), number(tenant, ContactImport)) == (events, firings, 0)
    assert imported(cli, file)[0] == "1 created, 1 updated, 0 unchanged\n"


# --------------------------------------------------------------------------------------- slices


@contextmanager
def interrupted_after(services: Services, slices: int) -> Iterator[None]:
    """Ends the command, as Ctrl-C does, when so many slices are committed and the contacts of the next are written."""
    left = slices + 1

    def before_statement(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        nonlocal left
        left -= statement.startswith("UPDATE contact_imports")
        if not left:
            raise KeyboardInterrupt

    event.listen(services.database.engine, "before_cursor_execute", before_statement)
    try:
        yield
    finally:
        event.remove(services.database.engine, "before_cursor_execute", before_statement)


@pytest.mark.parametrize("allow_duplicates", [False, True])
def test_an_interrupted_import_goes_on_behind_the_last_slice(
    cli: Cli, tenant: Tenant, file: Path, allow_duplicates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No contact is created twice and none is missing, also where every email occurs three times; and each is reported
    once."""
    tenant.add_list("Customers", PLAIN_FIELDS, allow_duplicates=allow_duplicates)
    cli.text("webhooks", "create", EVERYTHING)
    people = 150 if allow_duplicates else 450
    rows = [f"p{row % people}@example.com,{row}" for row in range(450)]
    file.write_text("email,first_name\n" + "".join(f"{row}\n" for row in rows))
    with interrupted_after(tenant.services, 1):
        stopped = cli.run("contacts", "import", str(file), *IN_LIST)
    assert stopped.exit_code == 1
    done = number(tenant, Contact)
    assert stopped.stderr == (
        f"Error: interrupted: {done} rows are imported; to continue, run the same command with --resume\n"
    )
    assert done == 100
    assert number(tenant, Event) == done
    with tenant.services.database.read() as session:
        digest = session.scalars(select(ContactImport.digest).where(ContactImport.account_id == tenant.id)).one()
    # Nobody can guess from it who is in the file; it is known under a key of before SECRET_KEY was rotated, too.
    assert hashlib.sha256(file.read_bytes()).hexdigest() not in digest
    settings = tenant.services.settings
    rotated = replace(settings, secret_key="n" * 40, secret_key_fallbacks=(settings.secret_key,))
    monkeypatch.setitem(tenant.app.extensions, EXTENSION, replace(tenant.services, settings=rotated))
    assert imported(cli, file, "--resume") == ("450 created, 0 updated, 0 unchanged\n", "")
    with tenant.services.database.read() as session:
        stored = session.execute(
            select(Contact.email, Contact.values["first_name"].as_string())
            .where(Contact.account_id == tenant.id)
            .order_by(Contact.id)
        )
        assert [f"{email},{name}" for email, name in stored] == rows
    assert number(tenant, Event) == number(tenant, TriggerFiring) == 450
    assert imported(cli, file)[0] == "0 created, 0 updated, 450 unchanged\n"
    assert number(tenant, Event) == 450


def test_forgotten_people_count_as_left_out_however_often_an_import_is_interrupted(
    cli: Cli, tenant: Tenant, customers: int, file: Path
) -> None:
    addresses = [f"p{row}@example.com" for row in range(250)]
    for email in (addresses[0], addresses[99], addresses[249]):
        cli.text("suppressions", "unsubscribe", email)
        cli.text("contacts", "forget", email, "--yes", "--no-compact")
    tenant.new_contact(customers, email=addresses[1])
    file.write_text("\n".join(["email", *addresses]))
    counts = {"created": 246, "updated": 0, "unchanged": 1, "left_out": 3, "rejected": 0}
    command = ("contacts", "import", str(file), *IN_LIST)
    assert cli.json(*command, "--dry-run") == {**counts, "dry_run": True, "automations": []}
    for _ in range(2):
        with interrupted_after(tenant.services, 1):
            assert cli.run(*command, "--resume").exit_code == 1
    assert cli.json(*command, "--resume", "--dry-run") == {**counts, "dry_run": True, "automations": []}
    said = "246 created, 0 updated, 1 unchanged, 3 left out, because they were forgotten\n"
    assert imported(cli, file, "--resume")[0] == said
    done = cli.json(*command, "--resume")
    assert (done["created"], done["updated"], done["left_out"]) == (246, 0, 3)


def test_an_import_is_resumed_only_as_it_was_begun(cli: Cli, tenant: Tenant, customers: int, file: Path) -> None:
    file.write_text("email,first_name\n" + "".join(f"p{row}@example.com,P\n" for row in range(150)))
    with interrupted_after(tenant.services, 1):
        cli.run("contacts", "import", str(file), *IN_LIST)
    command = ("contacts", "import", str(file), *IN_LIST)
    for otherwise in (("--map", "first_name="), ("--empty-clears",)):
        assert cli.refused(*command, "--resume", *otherwise) == (
            "the interrupted import used other options: use the same --map, --delimiter, --encoding and "
            "--empty-clears, or start again without --resume"
        )
    assert imported(cli, file)[1] == "starting with the first row; --resume would continue after the first 100 rows\n"
    assert imported(cli, file, "--resume")[0].startswith("this file was already imported at 20")
    file.write_text("email\nother@example.com\n")
    said, word = imported(cli, file, "--resume")
    assert said == "1 created, 0 updated, 0 unchanged\n"
    assert word == "no interrupted import of this file into this list: starting with the first row\n"


@pytest.mark.postgresql("SQLite has one writer at a time")
def test_a_contact_that_somebody_creates_meanwhile_is_updated(
    cli: Cli, tenant: Tenant, customers: int, file: Path
) -> None:
    engine = tenant.services.database.engine
    meanwhile = [{"email": "ann@example.com", "plan": "gold"}]

    def before_statement(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if meanwhile and statement.startswith("INSERT INTO contacts "):
            tenant.new_contact(customers, **meanwhile.pop())

    file.write_text("email,first_name\nann@example.com,Ann\n")
    event.listen(engine, "before_cursor_execute", before_statement)
    try:
        assert imported(cli, file)[0] == "0 created, 1 updated, 0 unchanged\n"
    finally:
        event.remove(engine, "before_cursor_execute", before_statement)
    assert meanwhile == []
    assert names(cli) == {"ann@example.com": "Ann"}


def test_no_transaction_of_an_import_is_long(cli: Cli, tenant: Tenant, customers: int, file: Path) -> None:
    """Others can write between the slices (docs/csv.md#while-the-service-runs)."""
    file.write_text("email\n" + "".join(f"p{row}@example.com\n" for row in range(1500)))
    seen = [0]

    def on_commit(_connection: object) -> None:
        with tenant.services.database.read() as session:
            rows_done = session.scalars(select(ContactImport.rows_done).where(ContactImport.account_id == tenant.id))
            seen.append(rows_done.first() or 0)

    event.listen(tenant.services.database.engine, "commit", on_commit)
    try:
        imported(cli, file)
    finally:
        event.remove(tenant.services.database.engine, "commit", on_commit)
    slices = [after - before for before, after in zip(seen, [*seen[1:], 1500], strict=True)]
    assert sum(slices) == 1500
    assert max(slices) <= 1000
    assert len([rows for rows in slices if rows]) > 2
