"""Builds are reproducible (docs/install.md)."""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path

from tests.support.installed import ROOT, build, run

PACKED = ("app", "blueprints", "jobs", "schemas")


def test_the_same_code_gives_the_same_bytes_whoever_packs_it(wheel: Path, tmp_path: Path) -> None:
    """The wheel is built from the checkout, from its source distribution, and by pip. The files have other times and
    modes each time."""
    (first := tmp_path / "first").mkdir()
    (second := tmp_path / "second").mkdir()
    source = build(first, "sdist")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / source.name.removesuffix(".tar.gz")
    for path in unpacked.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (10**9, 10**9))
    assert build(second, "sdist", unpacked).read_bytes() == source.read_bytes()
    assert build(second, "wheel", unpacked).read_bytes() == wheel.read_bytes()
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir")
    run([sys.executable, "-m", "pip", "wheel", *options, tmp_path / "third", ROOT], tmp_path)
    assert (tmp_path / "third" / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_source_distribution_has_no_tests_documents_and_benchmarks(tmp_path: Path) -> None:
    with tarfile.open(build(tmp_path, "sdist")) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if name.count("/") > 1}
    assert folders == {*PACKED}


def test_make_package_leaves_wheel_source_lock_and_sbom(dist: dict[str, bytes], wheel: Path) -> None:
    stem = wheel.name.removesuffix("-py3-none-any.whl")
    assert {*dist} == {wheel.name, f"{stem}.tar.gz", f"{stem}.cdx.json", "requirements.lock"}
    assert dist[wheel.name] == wheel.read_bytes()
    assert dist["requirements.lock"] == (ROOT / "requirements.lock").read_bytes()
