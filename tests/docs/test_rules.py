"""What a page may not say: blocks that do not work, each refused with its place."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.docs.rules import LeftOut, Page
from tests.docs.shell import shell
from tests.docs.world import world
from tests.support.blocks import blocks

CURL = 'curl -H "Authorization: Bearer $KEY" "$BASE/v1/'
WRONG = {
    "a request that is refused": f'```sh\n{CURL}gone"\n```',
    "another status than the text says": f'```sh\n{CURL}lists"\n```\n\n404: nothing.',
    "a request that is refused before the last one": f'```sh\n{CURL}gone"\n{CURL}lists"\n```\n\n200: the lists.',
    "a command that fails": "```sh\ncat gone\ntrue\n```",
    "a command that does not exist": "```sh\ntms lists paint\n```",
    "a command of no application": "```sh\nflask lists list\n```",
    "a process with a wrong option": "```sh\ntms scheduler --fast\n```",
    "a command that tms does not have": "```sh\ntms paint\n```",
    "a target that does not exist": "```sh\nmake nothing-at-all\n```",
    "an option that a program lacks": '```sh\nmake chaos ARGS="--gently"\n```',
    "a setting with a wrong value": "```sh\nPUBLIC_URL=ftp://api.example.com\n```",
    "other output": "```console\n$ echo one; echo two\none\nthree\n```",
    "a session that does not end as it says": "```console\n$ tms lists show gone\ngone\n```",
    "an error that does not happen": "```console\n$ echo Error: no\nError: no\n```",
    "output of nothing": "```text\none\n```",
    "a property that the answer lacks": f'```sh\n{CURL}lists/1"\n```\n\n```json\n{{"id": 1, "colour": "red"}}\n```',
    "a value of another type": f'```sh\n{CURL}lists/1"\n```\n\n```json\n{{"id": "1"}}\n```',
    "an object in place of an array": f'```sh\n{CURL}"\n```\n\n```json\n{{"_links": {{"self": [1]}}}}\n```',
    "an object of no schema": '```json\n{"colour": "red"}\n```',
    "JSON that is none": "```json\n{'id': 1}\n```",
    "a seed file with a fault": "```yaml\naccounts:\n  - {name: Acme, colour: red}\n```",
    "an automation with a fault": "```yaml\nname: Hi\nkind: standard\nlist: Customers\n```",
    "contacts with a fault": "```csv\nemail,Colour\nann@example.com,red\n```",
    "a body whose markup stays": "```text\n%%plan:EXACTLY\n```",
    "Python that raises": "```python\nprint(undefined)\n```",
    "records that are none": "```zone\nexample.com.  IN  WORD  1\n```",
    "TOML that is none": "```toml\na = [\n```",
    "a language without a rule": "```cobol\nSTOP RUN.\n```",
}


def refused(reading: Page, page: Path) -> str:
    """The error of the first block that does not work; empty if all do."""
    try:
        for block in blocks(page):
            reading.run(block)
    except AssertionError as error:
        return str(error)
    return ""


def test_a_block_that_does_not_work_is_refused_with_its_place(data: Path, redis_url: str, tmp_path: Path) -> None:
    page, accepted = tmp_path / "page.md", []
    with world(data, redis_url) as made_world, shell(made_world) as own_shell:
        for what, text in WRONG.items():
            page.write_text(f"# Page\n\n{text}\n", "utf-8")
            reading = Page(made_world, own_shell, str)
            if not (refusal := refused(reading, page)):
                accepted.append(what)
            else:
                assert refusal.startswith("page.md:"), what
    assert accepted == []


def test_a_target_does_not_get_the_arguments_of_the_test_run(
    data: Path, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make test ARGS=...` hands them to every program that it starts."""
    monkeypatch.setenv("ARGS", "--gently")
    page = tmp_path / "page.md"
    page.write_text("```sh\nmake chaos\n```\n", "utf-8")
    with world(data, redis_url) as made_world, shell(made_world) as own_shell:
        assert refused(Page(made_world, own_shell, str), page) == ""


PRINTING = {
    "javascript": "import { env } from 'node:process'; console.log(env.KEY)",
    "php": 'echo getenv("KEY"), "\\n";',
    "ruby": 'puts ENV["KEY"]',
    "python": "import os\nprint(os.environ['KEY'])",
}


def test_clients_in_other_languages_run_where_they_are_installed(data: Path, redis_url: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    with world(data, redis_url) as made_world, shell(made_world) as own_shell:
        for language, program in PRINTING.items():
            reading = Page(made_world, own_shell, str)
            page.write_text(f"```{language}\n{program}\n```\n\n```text\n{made_world.token}\n```\n", "utf-8")
            with suppress(LeftOut):
                assert refused(reading, page) == ""
                page.write_text(f"```{language}\n{program} (\n```\n", "utf-8")
                assert refused(reading, page).startswith("page.md:1")


def test_a_block_knows_its_file_its_place_and_why_it_is_not_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# Page\n\n1. A step:\n\n   ```yaml title="a.yaml"\n   a:\n     b: 1\n   ```\n   then\n\n'
        "<!-- not run: a diagram -->\n~~~~text\n```\n-->\n~~~~\nEnd\n",
        "utf-8",
    )
    first, second = blocks(page)
    assert (first.language, first.title, first.text) == ("yaml", "a.yaml", "a:\n  b: 1\n")
    assert (first.place, first.begins_section, first.not_run) == ("page.md:5", True, None)
    assert (second.language, second.text, second.not_run) == ("text", "```\n-->\n", "a diagram")
    assert (second.begins_section, second.after) == (False, "End")
