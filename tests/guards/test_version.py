"""All that carries the version of a release carries the same one (docs/stability.md#versions)."""

from __future__ import annotations

import re
import tomllib

import orjson
import transactional_messaging
from transactional_messaging.transport import USER_AGENT

from app.distribution import VERSION
from tests.support.deployment import stages
from tests.support.description import RELEASED, describe
from tests.support.sources import ROOT

SECTION = re.compile(r"^## (\d+\.\d+\.\d+)(?: \(.+\))?$", re.MULTILINE)
"""The title of a section of the changelog: `## 1.1.0 (unreleased)`, or with a date."""


def test_packages_read_their_version_from_the_code() -> None:
    for project, path in (
        ("pyproject.toml", "app/distribution.py"),
        ("clients/python/pyproject.toml", "src/transactional_messaging/version.py"),
    ):
        project_file = tomllib.loads((ROOT / project).read_text("utf-8"))
        assert "version" in project_file["project"]["dynamic"], project
        assert project_file["tool"]["hatch"]["version"] == {"path": path}, project


def test_there_is_one_version_number() -> None:
    labels = dict(
        word.split("=", 1) for instruction in stages()[-1] if instruction.name == "LABEL" for word in instruction.words
    )
    versions = {
        "the description of the API": describe()["info"]["version"],
        "the image": labels["org.opencontainers.image.version"],
        "the client library": transactional_messaging.__version__,
        "what the library calls itself": USER_AGENT.partition(" ")[0].partition("/")[2],
    }
    assert versions == dict.fromkeys(versions, VERSION)


def test_it_is_that_of_the_newest_section_of_the_changelog() -> None:
    """The description of the last release is that of this version once it is stored, and of the one before until then
    (`make release-description`)."""
    newest, *earlier = SECTION.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert newest == VERSION
    released = orjson.loads(RELEASED.read_bytes())["info"]["version"]
    assert released in (VERSION, *earlier[:1])
