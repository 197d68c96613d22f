"""What the wheel has and needs (docs/install.md). `make installed` installs and runs it."""

from __future__ import annotations

import zipfile
from email.message import Message
from email.parser import Parser

import pytest

from app import distribution
from tests.support.installed import ROOT, build
from tests.support.sources import PACKAGES

LOOSE = {"wsgi.py", "gunicorn.conf.py"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build(tmp_path_factory.mktemp("wheel"), "wheel"))


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_it_has_the_code_with_its_templates_migrations_and_assets_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    ours = {str(path.relative_to(ROOT)) for path in files if path.parent.name != "__pycache__"}
    assert packed == ours | LOOSE
    for kind in ("app/templates/page.html", "app/static/reference.js", "app/demo/seed.yaml"):
        assert kind in packed
    assert {"app/db/migrations/env.py", "app/db/migrations/versions/v0100_baseline.py"} <= packed


def test_it_says_its_version_and_its_command_and_needs_nothing_of_development(wheel: zipfile.ZipFile) -> None:
    fields = metadata(wheel)
    assert (fields["Name"], fields["Version"]) == (distribution.NAME, distribution.VERSION)
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert wheel.read(entry_points).decode() == "[console_scripts]\ntms = app.tms:main\n"
    assert not {"dev", "bench", "site", "interop", "openapi", "package"} & {*fields.get_all("Provides-Extra", [])}
    names = [requirement.split(";")[0] for requirement in fields.get_all("Requires-Dist", [])]
    assert not {"pytest", "hypothesis", "ruff", "mypy", "hatchling"} & {*names}


def test_a_file_of_the_wheel_is_readable_by_every_user(wheel: zipfile.ZipFile) -> None:
    """A file of the checkout may have any mode; the service runs as a user of its own."""
    modes = {member.external_attr >> 16 & 0o777 for member in wheel.infolist()}
    assert modes <= {0o644, 0o664, 0o755}
