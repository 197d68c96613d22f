"""`make sbom` (docs/install.md)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from app.distribution import NAME, VERSION
from tests.support.installed import ROOT, run

PINNED = re.compile(r"^([\w.-]+)(?:\[.*?\])?==([\w.]+)", re.MULTILINE)


NAME_OF_FILE = f"transactional_messaging_service-{VERSION}.cdx.json"


@pytest.fixture
def text(dist: dict[str, bytes]) -> str:
    return dist[NAME_OF_FILE].decode()


@pytest.fixture
def sbom(text: str) -> dict[str, Any]:
    bill: dict[str, Any] = json.loads(text)
    return bill


def test_it_is_the_same_whenever_it_is_written(text: str) -> None:
    run(["make", "sbom"], ROOT)
    assert (ROOT / "dist" / NAME_OF_FILE).read_text("utf-8") == text


def test_it_is_valid(text: str, sbom: dict[str, Any]) -> None:
    assert sbom["bomFormat"] == "CycloneDX"
    assert JsonStrictValidator(SchemaVersion.from_version(sbom["specVersion"])).validate_str(text) is None


def test_it_names_the_package_and_every_locked_dependency_with_its_hashes(sbom: dict[str, Any]) -> None:
    assert (sbom["metadata"]["component"]["name"], sbom["metadata"]["component"]["version"]) == (NAME, VERSION)
    locked = {*PINNED.findall((ROOT / "requirements.lock").read_text("utf-8"))}
    assert len(locked) > 40
    assert {(component["name"], component["version"]) for component in sbom["components"]} == locked
    for component in sbom["components"]:
        assert component["purl"].startswith("pkg:pypi/"), component["name"]
        assert any(reference.get("hashes") for reference in component["externalReferences"]), component["name"]
