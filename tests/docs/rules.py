"""What is done with a block, by its language (docs/development.md#pages)."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass, field, fields
from typing import Any
from unittest import mock
from uuid import uuid4

import dns.zone
import yaml
from sqlalchemy import create_engine, make_url, text

from app.content.render import Template
from app.content.values import recipient_values
from app.db.migrate import upgrade
from app.seed.load import load_seed
from app.settings import Settings, from_environment, variable_of
from app.transports.check import check_urls
from tests.docs.shell import ROOT, Ran, Shell
from tests.docs.shown import differences, documents, same_text, schema_of
from tests.docs.world import World
from tests.support.blocks import Block

SETTING = re.compile(r"([A-Z][A-Z0-9_]*)=(\S*)")
VARIABLES = {variable_of(field) for field in fields(Settings)}
ANSWERED = re.compile(r"\s*(?:The answer is (?:a )?)?`?(\d{3})\b")
INTERPRETERS = {
    "javascript": ("node", "-"),
    "php": ("php",),
    "ruby": ("ruby", "-"),
    "go": ("go", "vet"),
}
"""Languages of clients, whose programs are read from standard input, but for Go from a file."""
PROGRAMS = {"curl", "gunzip", "openssl", *(program for program, *_ in INTERPRETERS.values())}
"""What commands may need that a machine with Python and make can lack."""


class LeftOut(Exception):
    """This machine lacks the program that a block needs."""


@dataclass
class Page:
    """The blocks of a page being run, in order."""

    world: World
    shell: Shell
    postgres: Callable[[], str]
    ran: Ran | None = None
    """What the last block of commands in this section has printed."""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    """The names of its Python."""

    def run(self, block: Block) -> None:
        """Runs or checks a block."""
        if block.begins_section:
            self.ran = None
        if block.title:
            self.write(block)
        rule = RULES.get(block.language)
        assert rule, f"{block.place}: there is no rule for the language {block.language!r}"
        try:
            rule(self, block)
        except LeftOut:
            raise
        except Exception as error:
            raise AssertionError(f"{block.place}: {type(error).__name__}: {error}\n{block.text}") from error

    def write(self, block: Block) -> None:
        """The file that a block shows."""
        assert block.title
        (self.world.folder / block.title).write_text(block.text, "utf-8")


def _commands(page: Page, block: Block) -> None:
    lines = [line for line in _code_lines(block.text) if line]
    if all((match := SETTING.fullmatch(line)) and match[1] in VARIABLES for line in lines):
        _settings(page, dict(line.split("=", 1) for line in lines))
        return
    for program in PROGRAMS.intersection(re.findall(r"^\w+", block.text, re.MULTILINE)):
        _need(program)
    page.ran = ran = page.shell.run(page.world.local(block.text))
    check_success(ran, block)


def check_success(ran: Ran, block: Block) -> None:
    """Everything succeeded, but for a last request that has the status with which the text after the block begins."""
    expected = ANSWERED.match(block.after)
    assert ran.code == 0, ran
    if expected and ran.statuses:
        assert ran.statuses[-1] == int(expected[1]), ran
        assert max((0, *ran.statuses[:-1])) < 400, ran
    else:
        assert max((0, *ran.statuses)) < 400, ran


def _code_lines(commands: str) -> list[str]:
    """The lines without comments."""
    return [line.split(" #")[0].strip() if not line.startswith("#") else "" for line in commands.splitlines()]


def _settings(page: Page, values: dict[str, str]) -> None:
    settings = from_environment({"DATA_DIR": str(page.world.folder / "var"), **values})
    check_urls(settings.email_transport_url, settings.sms_transport_url)


def _session(page: Page, block: Block) -> None:
    """Commands behind `$ `, each followed by its output, or by the error with which it ends."""
    for turn in re.split(r"^\$ ", page.world.local(block.text), flags=re.MULTILINE)[1:]:
        command, _, expected_output = turn.partition("\n")
        page.ran = ran = page.shell.run(command + "\n")
        assert (ran.code != 0) == expected_output.startswith("Error: "), ran
        printed = ran.stderr if ran.code else ran.stdout
        assert not expected_output.strip() or same_text(expected_output, printed), f"{command} printed\n{printed}"


def _text(page: Page, block: Block) -> None:
    """A body of a message, or the output of the commands before it."""
    if "%%" in block.text:
        _body(page, block)
    else:
        assert page.ran, "a text that is neither output nor the body of a message says why it is not run"
        assert same_text(block.text, page.ran.stdout), page.ran


def _body(_page: Page, block: Block) -> None:
    """Nothing of the markup is left in what is sent."""
    for values in ({}, recipient_values({"plan": "gold", "first_name": "Ann"}, html_encoded=False)):
        rendered = Template(block.text).html(values, {"logo.png": "logo", "invoice.pdf": "invoice"})
        assert "%%" not in rendered


def _json(page: Page, block: Block) -> None:
    """The answer to the commands before it, or an object that the description knows."""
    expected = json.loads(block.text)
    if page.ran:
        (*_, real) = documents(page.ran.stdout)
        assert not (differing := list(differences(expected, real))), differing
    elif not block.title:
        description = page.world.app.test_client().get("/docs/openapi.json").get_json()
        assert schema_of(expected, description), "no schema of the description has these properties"


def _yaml(page: Page, block: Block) -> None:
    """A seed file, or the definition of an automation."""
    content = yaml.safe_load(block.text)
    if "accounts" in content:
        file = page.world.folder / "shown.yaml"
        file.write_text(block.text, "utf-8")
        load_seed(page.world.services, file)
    elif "kind" in content:
        answer = page.world.app.test_client().post(
            "/v1/automations/validate", json=content, headers={"Authorization": f"Bearer {page.world.token}"}
        )
        assert answer.status_code == 200, answer.text


def _csv(page: Page, block: Block) -> None:
    """Contacts of the first list, unless commands of the page import them."""
    if block.title:
        return
    file = page.world.folder / "shown.csv"
    file.write_text(block.text, "utf-8")
    ran = page.shell.run(f"tms contacts import {shlex.quote(str(file))} --list 1\n")
    assert ran.code == 0, ran


def _python(page: Page, block: Block) -> None:
    output = io.StringIO()
    place = f"{block.page.name}, from line {block.line}"
    with (
        chdir(page.world.folder),
        mock.patch.object(sys, "path", [str(ROOT / "clients" / "python" / "src"), *sys.path]),
        mock.patch.dict(os.environ, {"BASE": page.world.base, "KEY": page.world.token}),
        contextlib.redirect_stdout(output),
    ):
        exec(compile(page.world.local(block.text), place, "exec"), page.names)
    page.ran = Ran(output.getvalue(), "", 0)


def _foreign(page: Page, block: Block) -> None:
    """A client in another language, where that is installed."""
    program, *options = INTERPRETERS[block.language]
    _need(program)
    environment = {**os.environ, "BASE": page.world.base, "KEY": page.world.token}
    text = page.world.local(block.text)
    if re.search(r"^import ", text, re.MULTILINE) and program == "node":
        options = ["--input-type=module", *options]
    if program == "php" and not text.startswith("<?php"):
        text = f"<?php\n{text}"
    if program == "go":
        (page.world.folder / "shown.go").write_text(text, "utf-8")
        options = [*options, "shown.go"]
    done = subprocess.run(
        [program, *options],
        input=text,
        cwd=page.world.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    page.ran = Ran(done.stdout, done.stderr, done.returncode)
    assert done.returncode == 0, page.ran


def _sql(page: Page, block: Block) -> None:
    """Statements about the role of the service, which are undone, or those that make the role and its database."""
    if "CREATE DATABASE" in block.text:
        _role_and_database(page, block)
        return
    engine = create_engine(page.postgres())
    with engine.connect() as connection:
        connection.execute(text("CREATE ROLE tms"))
        connection.execute(text(block.text))
        connection.rollback()
    engine.dispose()


def _role_and_database(page: Page, block: Block) -> None:
    """The role can then make the tables of the service in the database. Both have names of their own here."""
    name = f"tms_{uuid4().hex}"
    statements = re.sub(r"\btms\b", name, block.text)
    (password,) = re.findall(r"PASSWORD '([^']+)'", statements)
    server = make_url(page.postgres())
    administrator = create_engine(server, isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        try:
            for statement in filter(str.strip, statements.split(";")):
                connection.execute(text(statement))
            database = server.set(username=name, password=password, database=name)
            upgrade(database.render_as_string(hide_password=False))
        finally:
            connection.execute(text(f"DROP DATABASE IF EXISTS {name}"))
            connection.execute(text(f"DROP ROLE IF EXISTS {name}"))
    administrator.dispose()


def _zone(_page: Page, block: Block) -> None:
    dns.zone.from_text(f"$TTL 3600\n{block.text}", origin=".", check_origin=False)


def _toml(_page: Page, block: Block) -> None:
    tomllib.loads(block.text)


def _need(program: str) -> None:
    if not shutil.which(program):
        raise LeftOut(program)


def _query(_page: Page, block: Block) -> None:
    """A query of metrics that exist; the guard of the pages on monitoring also looks at the labels."""
    page_of_metrics = (ROOT / "docs" / "monitoring" / "metrics.md").read_text("utf-8")
    for name in re.findall(r"\btms_\w+", block.text):
        assert f"`{name.removesuffix('_bucket')}`" in page_of_metrics, name


RULES: dict[str, Callable[[Page, Block], None]] = {
    "sh": _commands,
    "console": _session,
    "text": _text,
    "html": _body,
    "json": _json,
    "yaml": _yaml,
    "csv": _csv,
    "python": _python,
    "sql": _sql,
    "zone": _zone,
    "toml": _toml,
    "promql": _query,
    **dict.fromkeys(INTERPRETERS, _foreign),
}
