"""Every citation of a page resolves, and nothing is cited that is not in this repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import PAGES, anchors, links, unresolved

ROOT = Path(__file__).parents[2]
FOLDERS = ("app", "bench", "blueprints", "docs", "jobs", "schemas", "tests")
SUFFIXES = {".py", ".md", ".yaml", ".sh", ".html"}
LOOSE_FILES = ("CHANGELOG.md", "Makefile", "README.md", "gunicorn.conf.py", "pyproject.toml", "wsgi.py")

CITED = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")
TEXTS = "decision" + "s|specification|design|contract"
FOREIGN = re.compile(rf"\((?:[^()]*[ ;])?(?:{TEXTS}): [^()]*\)|\b[Dd]ecision" + r"s[:,]? \d", re.IGNORECASE)


LEFT = {
    "app/accounts/domains.py",
    "app/accounts/keys.py",
    "app/accounts/root.py",
    "app/accounts/senders.py",
    "app/addresses.py",
    "app/accounts/auth.py",
    "app/automations/triggers.py",
    "app/cli/__init__.py",
    "app/cli/base.py",
    "app/cli/inbound.py",
    "app/clock.py",
    "app/contacts/blocked.py",
    "app/contacts/delete.py",
    "app/contacts/events.py",
    "app/contacts/identifiers.py",
    "app/contacts/read.py",
    "app/contacts/rules.py",
    "app/contacts/update.py",
    "app/contacts/values.py",
    "app/db/database.py",
    "app/db/models/accounts.py",
    "app/db/models/contacts.py",
    "app/db/models/groups.py",
    "app/db/models/idempotency.py",
    "app/db/models/lists.py",
    "app/db/models/messages.py",
    "app/db/models/sends.py",
    "app/db/models/webhooks.py",
    "app/db/queue.py",
    "app/errors.py",
    "app/events/__init__.py",
    "app/events/batch_contents.py",
    "app/events/batches.py",
    "app/events/outbox.py",
    "app/events/payloads.py",
    "app/events/signing.py",
    "app/events/ssrf_guard.py",
    "app/events/webhooks.py",
    "app/groups/read.py",
    "app/groups/sent_contacts.py",
    "app/http/api.py",
    "app/http/bodies.py",
    "app/http/collections.py",
    "app/http/errors.py",
    "app/http/guards.py",
    "app/http/idempotency.py",
    "app/http/paths.py",
    "app/http/rate.py",
    "app/http/responses.py",
    "app/http/server/connection.py",
    "app/http/server/limits.py",
    "app/http/server/request.py",
    "app/infrastructure/secrets.py",
    "app/lists/define.py",
    "app/lists/fields.py",
    "app/lists/find.py",
    "app/lists/paths.py",
    "app/maintenance/health.py",
    "app/messages/define.py",
    "app/messages/read.py",
    "app/seed/__init__.py",
    "app/seed/load.py",
    "app/settings.py",
    "tests/cli/conftest.py",
    "tests/cli/test_base.py",
    "tests/cli/test_domains.py",
    "tests/cli/test_lists.py",
    "tests/cli/test_seed.py",
    "tests/cli/test_status.py",
    "tests/jobs/test_cleaning.py",
    "tests/jobs/test_contact_wildcards.py",
    "tests/jobs/test_metrics.py",
    "tests/jobs/test_outbox.py",
    "tests/jobs/test_sends_by_contact.py",
    "tests/jobs/test_webhook_registration.py",
    "tests/jobs/test_webhooks.py",
    "tests/unit/contacts/test_addresses.py",
    "tests/unit/contacts/test_values.py",
    "tests/unit/events/test_addresses.py",
    "tests/unit/events/test_payloads.py",
    "tests/unit/events/test_signing.py",
    "tests/unit/lists/test_fields.py",
    "tests/unit/running/test_screen.py",
    "tests/unit/running/test_settings.py",
    "tests/unit/seed/test_load.py",
    "tests/unit/seed/test_rules.py",
    "tests/unit/test_secrets.py",
}
"""The files that still cite texts outside of the repository; the set shrinks to nothing."""


def files() -> Iterator[Path]:
    """The source files and pages of the repository."""
    yield from (ROOT / name for name in LOOSE_FILES)
    for folder in FOLDERS:
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES)


def test_every_cited_page_and_anchor_exists() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {reason}"
        for path in files()
        for cited in CITED.findall(path.read_text("utf-8"))
        if (reason := unresolved(cited, ROOT))
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    wrong = [
        reason
        for target in links(page)
        if (reason := unresolved(page.name + target if target.startswith("#") else target, page.parent))
    ]
    assert wrong == []


def test_nothing_outside_the_repository_is_cited() -> None:
    found = {str(path.relative_to(ROOT)) for path in files() if FOREIGN.search(path.read_text("utf-8"))}
    assert found - LEFT == set()


def test_anchors_are_those_that_github_makes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n## `make run`\n\n## Links, that [lead](x.md) on\n\n## A page\n\n```\n# code\n```\n")
    assert anchors(page) == {"a-page", "make-run", "links-that-lead-on", "a-page-1"}
