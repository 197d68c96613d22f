"""The packages of Debian that the documentation names (docs/install.md#what-a-server-needs)."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.support.documented import documented

PACKAGES, _SETTINGS = documented("docs/install.md#what-a-server-needs")


@pytest.mark.skipif(not shutil.which("apt-get") or os.getuid() != 0, reason="needs root on Debian")
def test_debian_has_the_packages_that_a_server_needs() -> None:
    commands = PACKAGES.replace("install --yes", "install --simulate")
    assert "--simulate" in commands
    done = subprocess.run(["bash", "-ec", commands], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "\nConf " in f"\n{done.stdout}" or "0 newly installed" in done.stdout
