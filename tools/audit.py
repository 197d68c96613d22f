"""Asks the OSV database for known vulnerabilities of what lock files pin: `python -m tools.audit requirements.lock`.

The exit status is 1 if there is one. Where the database cannot be had, a line says so and the status is 0: work without
a network goes on, and CI with one catches what it missed.

`uv audit` does it. It reads the lock of a script in uv's own format, so each of our locks is handed over in that form.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[.*?\])?==([^\s;\\]+)", re.MULTILINE)
SCRIPT = '# /// script\n# requires-python = ">=3.11"\n# dependencies = [{requirements}]\n# ///\n'
LOCK = (
    'version = 1\nrevision = 3\nrequires-python = ">=3.11"\n\n[manifest]\nrequirements = [{requirements}]\n\n{packages}'
)
PACKAGE = (
    '[[package]]\nname = {name}\nversion = {version}\nsource = {{ registry = "https://index.invalid/simple" }}\n\n'
)
"""A package of some index, which is not asked."""
AUDIT = ("-m", "uv", "audit", "--quiet", "--frozen", "--preview-features", "audit-command", "--script")
UNREACHABLE_MESSAGE = "error sending request"
TIMEOUT_SECONDS = 30
IGNORED_VULNERABILITIES: dict[str, str] = {}
"""Vulnerabilities that do not concern the service, each with the reason."""


class UnreachableError(Exception):
    """The database of advisories cannot be had; the text says why."""


def main(locks: Sequence[str]) -> int:
    """The exit status."""
    try:
        return max(audit(Path(lock)) for lock in locks)
    except UnreachableError as error:
        print(f"the dependencies are not audited, since the database of advisories cannot be reached: {error}")
        return 0


def audit(lock: Path, *options: str) -> int:
    """Prints the known vulnerabilities of what a lock file pins. 1 if there is one.

    Raises UnreachableError, and RuntimeError if the audit fails for another reason, since silence would look like
    safety."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "audited.py"
        _write(script, PINNED.findall(lock.read_text("utf-8")))
        ignored = [option for name in IGNORED_VULNERABILITIES for option in ("--ignore", name)]
        command = [sys.executable, *AUDIT, str(script), *ignored, *options]
        environment = {**os.environ, "UV_HTTP_RETRIES": "0"}
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"no answer within {TIMEOUT_SECONDS} seconds") from None
    if run.returncode and UNREACHABLE_MESSAGE in run.stderr:
        raise UnreachableError(run.stderr.strip().splitlines()[-1].strip().removeprefix("cause: "))
    if run.returncode not in (0, 1):
        raise RuntimeError(f"uv audit: {run.stderr.strip()}")
    if run.returncode:
        print(f"{lock.name}:\n{run.stdout.strip()}")
    return run.returncode


def _write(script: Path, packages: Sequence[tuple[str, str]]) -> None:
    """A script, and beside it its lock, which depend on the packages."""
    names = [json.dumps(name) for name, _ in packages]
    script.write_text(SCRIPT.format(requirements=", ".join(names)), "utf-8")
    requirements = ", ".join(f"{{ name = {name} }}" for name in names)
    tables = [PACKAGE.format(name=json.dumps(name), version=json.dumps(version)) for name, version in packages]
    lock = LOCK.format(requirements=requirements, packages="".join(tables))
    script.with_name(script.name + ".lock").write_text(lock, "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
