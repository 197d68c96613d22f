"""Every code block of the pages works as it is written (docs/development.md#pages)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.rules import LeftOut, Page
from tests.docs.shell import shell
from tests.docs.world import world
from tests.support.blocks import FENCE, blocks
from tests.support.cases import each

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
WITH_BLOCKS = [page for page in PAGES if blocks(page)]
NOT_RUN = [
    ("README.md", "`make installed` runs these commands"),
    ("docs/architecture.md", "a diagram"),
    ("docs/architecture.md", "a diagram"),
    ("docs/architecture.md", "a diagram"),
    ("docs/backup.md", "`make deploy-check` runs these commands, with stand-ins for those of systemd"),
    ("docs/benchmark.md", "needs the files of two benchmarks"),
    ("docs/benchmark.md", "takes minutes"),
    ("docs/cost.md", "`tests/scaling/test_cost.py` runs it"),
    ("docs/delivery.md", "a diagram"),
    ("docs/inbound.md", "configures Postfix; `make interop` runs one"),
    ("docs/install.md", "`make deploy-check` asks apt whether it would install these packages"),
    ("docs/install.md", "`make installed` runs these commands"),
    ("docs/install.md", "`make deploy-check` runs these commands, with stand-ins for those of systemd"),
    ("docs/install.md", "`make deploy-check` runs these commands, with stand-ins for those of systemd"),
    ("docs/install.md", "`make deploy-check` runs these commands, with a stand-in for the container engine"),
    ("docs/install.md", "`make deploy-check` runs these commands, with a stand-in for the container engine"),
    ("docs/install.md", "`make deploy-check` runs these commands, with a stand-in for the container engine"),
    ("docs/install.md", "`make deploy-check` runs these commands, with a stand-in for the container engine"),
    ("docs/kubernetes.md", "it needs a cluster"),
    ("docs/kubernetes.md", "it needs a cluster"),
    ("docs/kubernetes.md", "it needs a cluster"),
    ("docs/kubernetes.md", "it needs a cluster"),
    ("docs/openapi.md", "`make openapi` runs the generators"),
    ("docs/openapi.md", "`make openapi` type-checks and calls a generated client"),
    ("docs/openapi.md", "`make openapi` type-checks and calls a generated client"),
    ("docs/sign-in.md", "needs somebody who has signed in"),
    ("docs/sign-in.md", "needs OIDC_ONLY"),
    ("docs/sms.md", "configures Kannel; `make interop` runs one"),
    ("docs/smtp-submission.md", "lines of a protocol"),
    ("docs/smtp-submission.md", "configures Postfix; `make interop` runs one"),
    ("docs/smtp-submission.md", "needs the listener; tests/interop runs these programs"),
    (
        "docs/upgrade.md",
        "`make rolling` and `make installed` run these commands under load, `make deploy-check` under systemd's units",
    ),
    ("docs/webhooks.md", "`make newcomer` runs it"),
]
"""The blocks that no test runs, and why."""
INDENTED = re.compile(r"^\n {4,}\S.*", re.MULTILINE)


def name(page: Path) -> str:
    """The path of the page in the repository."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name)
def test_every_block_of_a_page_works(page: Path, data: Path, redis_url: str, request: pytest.FixtureRequest) -> None:
    """One reader works through a page from the top, on a new installation with the demo."""
    missing = set()
    with world(data, redis_url) as made_world, shell(made_world) as own_shell:
        reading = Page(made_world, own_shell, lambda: request.getfixturevalue("postgres"))
        read_blocks = [block for block in blocks(page) if not block.not_run]
        for block in read_blocks:
            if block.title:
                reading.write(block)
        for block in read_blocks:
            try:
                reading.run(block)
            except LeftOut as program:
                missing.add(str(program))
    if missing:
        pytest.skip(f"some blocks were left out: there is no {', '.join(sorted(missing))}")


def test_the_blocks_that_are_not_run_are_known() -> None:
    assert [(name(page), block.not_run) for page in PAGES for block in blocks(page) if block.not_run] == NOT_RUN


@each("page", PAGES)
def test_code_stands_in_blocks_that_name_their_language(page: Path) -> None:
    """An indented block has no language, so nothing would run it."""
    assert [block.place for block in blocks(page) if not block.language] == []
    lines, inside = [], False
    for line in page.read_text("utf-8").splitlines():
        fence = FENCE.fullmatch(line)
        inside ^= fence is not None
        lines.append("" if inside or fence else line)
    assert INDENTED.findall("\n".join(lines)) == []
