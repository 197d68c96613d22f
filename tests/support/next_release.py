"""The release after this one, as tests make it: this code with a migration that expands the schema, and one that
contracts it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.db import migrate, phases
from tests.support.launched import ROOT

EXPANDED, CONTRACTED = (f"{int(phases.newest_revision()) + more:04}" for more in (1, 2))
TABLE = "of_the_next_release"
"""The table that they make and drop. It refers to automations, so making it needs a lock on them."""
MIGRATION = """\
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = {revision!r}, {before!r}, None, None

phase = "{phase}"
{needs}

def make():
    of_automations = sa.ForeignKey("automations.id", name="fk_{table}_automation_id")
    op.create_table("{table}", sa.Column("automation_id", sa.BigInteger, of_automations, primary_key=True))


def drop():
    op.drop_table("{table}")


upgrade, downgrade = {functions}
"""
LEFT_OUT = (".*", "build", "dist", "node_modules", "var", "*.pyc.*", "*-pytest-*.pyc")
"""What a copy of this code does not have: besides environments and results, modules that are being compiled."""


def write_next_migrations(versions: Path) -> None:
    """Writes the two migrations into the folder of a copy of this code."""
    expand = {"revision": EXPANDED, "before": phases.newest_revision(), "phase": "expand", "needs": ""}
    contract = {"revision": CONTRACTED, "before": EXPANDED, "phase": "contract", "needs": f'needs = "{EXPANDED}"\n'}
    for names, functions in ((expand, "make, drop"), (contract, "drop, make")):
        source = MIGRATION.format(table=TABLE, functions=functions, **names)
        (versions / f"v{names['revision']}_of_the_next_release.py").write_text(source, "utf-8")


def copy_code(folder: Path) -> Path:
    """A copy of this code in the folder `code` there, with this environment. It has the compiled modules as well, so
    that no process that it starts has to compile them."""
    code = folder / "code"
    shutil.copytree(ROOT, code, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (code / ".venv").symlink_to((ROOT / ".venv").resolve())
    return code


def install_next_release(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Gives this process the migrations of that release, until `forget_release` after the patch was undone."""
    shutil.copytree(migrate.FOLDER, copy := folder / "migrations")
    write_next_migrations(copy / "versions")
    patch.setattr(migrate, "FOLDER", copy)
    patch.setattr(phases, "VERSIONS", copy / "versions")
    forget_release()


def forget_release() -> None:
    """Has the migrations be read again."""
    for read in (phases.migrations, phases.newest_revision, phases.oldest_revision):
        read.cache_clear()
