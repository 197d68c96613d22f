"""The code of the library's page works, from the top to the bottom."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.clients.conftest import DEMO_TOKEN, Service
from tests.support.launched import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGE = ROOT / "clients" / "python" / "README.md"


def test_its_python_runs_in_the_demo(service: Service, tmp_path: Path) -> None:
    program = "\n".join(BLOCK.findall(PAGE.read_text("utf-8")))
    program = program.replace('"https://tms.example.com"', repr(service.launched.base))
    program = re.sub(r'"tms_[^"]*"', repr(DEMO_TOKEN), program)
    (tmp_path / "invoice.pdf").write_bytes(b"%PDF-1.4")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=service.environment(DEMO_TOKEN),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "delivered" in done.stdout
