"""`flask messages`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.tenants import Tenant, unique

HTML = "<p>Grüße, %%first_name%%</p>\n"
TEXT = "Grüße\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """Options with the bodies of a message."""
    (tmp_path / "body.html").write_text(HTML, "utf-8")
    (tmp_path / "body.txt").write_text(TEXT, "utf-8")
    return ("--html", str(tmp_path / "body.html"), "--text", str(tmp_path / "body.txt"))


def test_messages_are_created_updated_and_deleted(cli: Cli, tenant: Tenant, files: tuple[str, ...]) -> None:
    made = cli.json(
        *("messages", "create", "Welcome", "--subject", "Hi", "--from-name", "Acme", *files),
        *("--from-address", "hello@acme.example", "--reply-to", "help@acme.example"),
        *("--thumbnail-url", "https://acme.example/w.png"),
    )
    message = tenant.api.get(f"/v1/messages/{made['id']}").get_json()
    message.pop("_links")
    assert made == message
    content = tenant.api.get(f"/v1/messages/{made['id']}/content").get_json()
    assert (content["body_html"], content["body_text"]) == (HTML, TEXT)
    full = cli.json("messages", "show", "Welcome")
    assert full == {**made, "body_html": HTML, "body_text": TEXT}
    assert cli.json("messages", "list") == [made]
    assert f"body html:\n{HTML}" in cli.text("messages", "show", "Welcome").replace("          \n", "\n")
    changed = cli.json("messages", "update", "Welcome", "--name", "Hello", "--subject", "", "--reply-to", "")
    assert (changed["name"], changed["subject"], changed["reply_to"]) == ("Hello", None, None)
    assert changed["from_name"] == "Acme"
    assert cli.json("messages", "show", str(made["id"]))["body_html"] == HTML
    assert cli.text("messages", "delete", "Hello") == "deleted message Hello\n"
    assert cli.refused("messages", "show", "Hello") == "the account has no message 'Hello'"


def test_an_sms_has_text_only(cli: Cli, files: tuple[str, ...]) -> None:
    create = ("messages", "create", "Alert", "--type", "sms")
    assert cli.refused(*create, *files[:2]) == "body_html: an sms has no HTML body"
    made = cli.json(*create, "--from-address", "61400000001", *files[2:])
    assert (made["type"], made["from_address"]) == ("sms", "61400000001")


@each(
    ("options", "error"),
    [
        (["--from-address", "x"], "from_address: 'x' is not an email address"),
        (["--reply-to", "x"], "reply_to: 'x' is not an email address"),
        (["--thumbnail-url", "http://["], "thumbnail_url: 'http://[' is not an http or https URL"),
        (["--subject", "x" * 999], "subject: has more than 998 characters"),
        (["--from-name", "x" * 256], "from_name: has more than 255 characters"),
        (["--name", ""], "name: must not be empty"),
        (["--html", "/no/such/file"], "Invalid value for '--html': File '/no/such/file' does not exist."),
    ],
)
def test_invalid_values_are_reported(cli: Cli, options: list[str], error: str) -> None:
    name = unique("Welcome")
    cli.text("messages", "create", name)
    assert cli.refused("messages", "update", name, *options) == error


def test_names_of_messages_are_unique(cli: Cli) -> None:
    cli.text("messages", "create", "Welcome")
    cli.text("messages", "create", "Other")
    error = "name: the account already has a message 'Welcome'"
    assert cli.refused("messages", "create", "Welcome") == error
    assert cli.refused("messages", "update", "Other", "--name", "Welcome") == error


def test_files_must_be_text(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes("Grüße".encode("latin-1"))
    assert cli.refused("messages", "create", "M", "--text", str(file)).startswith(f"--text {file}: cannot be read")
    file.write_bytes(b"a\0b")
    assert cli.refused("messages", "create", "M", "--text", str(file)) == (
        f"--text {file}: contains a character that cannot be stored"
    )
