"""The units of systemd, installed, started and upgraded by the commands of the documentation, on a machine with a
stand-in for systemd (machine.py, systemd.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.db.phases import newest_revision
from tests.deploy.engine import Image
from tests.deploy.machine import Machine
from tests.deploy.network import Network
from tests.deploy.surroundings import ask, surroundings
from tests.support.documented import documented

INSTALL, START = documented("docs/install.md#systemd")
(UPGRADE,) = documented("docs/upgrade.md#the-commands")
(NIGHTLY,) = documented("docs/backup.md#every-night")
EDITED = """\
PUBLIC_URL=http://127.0.0.1:8000
REDIS_URL=redis://127.0.0.1:6379/0
EMAIL_TRANSPORT_URL=smtp://127.0.0.1:2525
DNS_RESOLVER=127.0.0.1:5353
"""
ENABLED = ("automations", "inbound", "scheduler", "sends@1", "sends@2", "submission", "web", "webhooks")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    made = Network()
    with surroundings(made, tmp_path_factory.mktemp("relay") / "mails", {}):
        yield made
    made.close()


@pytest.fixture(scope="module")
def machine(image: Image, network: Network, checkout: Path) -> Iterator[Machine]:
    """A machine on which the commands of the documentation have started everything. They print the key of the first
    account."""
    made = Machine(image, network, checkout)
    try:
        made.type(INSTALL)
        made.type(f"cat >> /etc/tms/environment <<'END'\n{EDITED}END")
        assert "API key:" in made.type(START)
        yield made
    finally:
        made.end()


def test_the_commands_start_every_unit_and_the_api_answers(machine: Machine, network: Network) -> None:
    assert sorted(machine.processes()) == [f"tms-{name}.service" for name in ENABLED]
    assert ask(network, "/readyz?strict", {})[0] == 200
    assert machine.type("stat -c %a:%U /etc/tms/environment") == "600:root\n"
    assert machine.type("stat -c %a:%u /var/lib/tms") == "700:61184\n"


def test_the_command_of_the_units_has_their_settings_and_their_data(machine: Machine) -> None:
    assert "example.com" in machine.type("tms accounts list")
    assert newest_revision() in machine.type("tms db current")


def test_an_upgrade_replaces_the_code_of_every_unit_in_place(machine: Machine, network: Network) -> None:
    before = machine.processes()
    said = machine.type(UPGRADE)
    assert said.count("runs the installed code") == len(before)
    assert machine.processes() == before
    machine.type("systemctl start tms-migrate")
    machine.type("systemctl reload 'tms-*.service'")
    assert machine.processes() == before
    assert ask(network, "/readyz", {})[0] == 200


def test_a_backup_of_the_timer_can_be_read_by_the_command_of_the_units(machine: Machine) -> None:
    machine.type(NIGHTLY)
    assert machine.type("ls /etc/systemd/system/timers.target.wants/tms*").endswith("/tms-backup.timer\n")
    machine.type("systemctl start tms-backup")
    (name,) = machine.type("ls /var/lib/tms-backups").split()
    assert machine.type(f"stat -c %a:%u /var/lib/tms-backups /var/lib/tms-backups/{name}") == "700:61184\n600:61184\n"
    machine.type("tms backup /var/lib/tms-backups/another.zip")
