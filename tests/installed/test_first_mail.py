"""From an empty environment to the first real mail, as docs/first-mail.md has it: the package, `tms
init`, the DNS records, `tms run`, and the command that `tms init` has printed. Relay and name server are local."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.e2e.sink import mail_sink
from tests.support.installed import InstalledPackage
from tests.support.nameserver import NameServer
from tests.support.servers import PATIENCE, free_port, wait_until

DOMAIN, OWNER = "shop.example", "owner@shop.example"


@pytest.fixture
def names() -> Iterator[NameServer]:
    with NameServer() as running:
        yield running


def paste(command: str) -> requests.Response:
    """The answer to a curl command."""
    _curl, url, *options = shlex.split(command.replace("\\\n", ""))
    given = list(zip(options[::2], options[1::2], strict=True))
    headers = dict(value.split(": ", 1) for option, value in given if option == "-H")
    return requests.post(url, data=dict(given)["-d"].encode(), headers=headers, timeout=PATIENCE)


def test_a_fresh_machine_sends_its_first_mail(
    installed: InstalledPackage, elsewhere: Path, names: NameServer, capsys: pytest.CaptureFixture[str]
) -> None:
    began, relay = time.monotonic(), free_port()
    settings = {"DATA_DIR": str(elsewhere / "data"), "PORT": str(free_port()), "DNS_RESOLVER": names.address}
    settings |= {"SPF_INCLUDE": "spf.service.example"}

    def init(*options: str) -> dict[str, Any]:
        output: dict[str, Any] = json.loads(
            installed.tms(elsewhere, "init", "--domain", DOMAIN, *options, "--json", **settings)
        )
        return output

    with mail_sink(relay) as sink:
        first = init("--owner", OWNER, "--relay", f"smtp://127.0.0.1:{relay}")
        assert not first["domain"]["verified"]
        for record in first["domain"]["records"]:
            names.texts[record["name"]] = [record["value"]]
        assert init()["domain"]["verified"]
        service = installed.service(elsewhere, "run", SEED="", **settings)
        try:
            service.start()
            response = paste(first["first_mail"])
            assert response.status_code == 202, response.text
            wait_until(lambda: sink.accepted[OWNER] == 1, "the first mail is with the relay")
            service.stop()
        finally:
            service.clear()
    with capsys.disabled():
        took = time.monotonic() - began
        print(f"\nthe environment took {installed.seconds:.0f} s, from there to the first mail {took:.0f} s")
