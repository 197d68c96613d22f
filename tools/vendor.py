"""Renews the files that the console takes from other projects: `python -m tools.vendor`, which is `make vendor`.

`app/static/vendor/lock.json` says which packages of the npm registry they are from, and pins them: the version, the
integrity of the archive, the licence, and the hash of each file. Without an argument the newest version within `wanted`
replaces that of the lock; `--locked` fetches the version of the lock again.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "app" / "static" / "vendor"
LOCK = FOLDER / "lock.json"


class WrongArchive(Exception):
    """An archive is not the one that the registry, or the lock, describes."""


def npm(*words: str, cwd: str | None = None) -> Any:
    """The JSON that a command of npm prints."""
    done = subprocess.run(["npm", *words, "--json"], check=True, capture_output=True, text=True, cwd=cwd)
    return json.loads(done.stdout)


def newest(name: str, version_range: str) -> dict[str, str]:
    """Version, integrity and licence of the newest version within the range."""
    answers = npm("view", f"{name}@{version_range}", "version", "dist.integrity", "license")
    last = max(answers, key=_order) if isinstance(answers, list) else answers
    return {"version": last["version"], "integrity": last["dist.integrity"], "licence": last["license"]}


def _order(package: dict[str, str]) -> list[int]:
    return [int(part) for part in package["version"].split(".") if part.isdigit()]


def integrity(content: bytes) -> str:
    """The checksum of the content in the form in which npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def sha256(content: bytes) -> str:
    """The checksum of the content in the form in which the lock has it."""
    return hashlib.sha256(content).hexdigest()


def fetched(package: dict[str, Any], folder: str) -> dict[str, bytes]:
    """The package's files that the lock names, by the names that they get here. Raises `WrongArchive`."""
    (packed,) = npm("pack", f"{package['name']}@{package['version']}", cwd=folder)
    archive = Path(folder) / packed["filename"]
    if integrity(archive.read_bytes()) != package["integrity"]:
        raise WrongArchive(f"{archive.name} is not what the lock says")
    with tarfile.open(archive) as opened:
        members = {name: opened.extractfile(f"package/{file['from']}") for name, file in package["files"].items()}
        return {name: member.read() for name, member in members.items() if member is not None}


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.vendor")
    parser.add_argument("--locked", action="store_true", help="the versions of the lock instead of the newest")
    arguments = parser.parse_args()
    lock = json.loads(LOCK.read_text("utf-8"))
    for package in lock["packages"]:
        if not arguments.locked:
            package.update(newest(package["name"], package["wanted"]))
        with tempfile.TemporaryDirectory() as folder:
            files = fetched(package, folder)
        for name, content in files.items():
            (FOLDER / name).write_bytes(content)
            package["files"][name]["sha256"] = sha256(content)
        print(f"{package['name']} {package['version']}")
    LOCK.write_text(json.dumps(lock, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
