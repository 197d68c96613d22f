"""A Kannel of its own (bearerbox and smsbox) with its fake SMSC, in a folder and on loopback ports."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import quote_plus

from tests.support.servers import free_port, wait_until

FAKE_SMSC = "/usr/lib/kannel/test/fakesmsc"
USER, PASSWORD = "service", "secret"
PATIENCE = 30

CONFIGURATION = """
group = core
admin-port = {admin}
admin-password = admin
smsbox-port = {box}
box-allow-ip = 127.0.0.1
log-file = {folder}/bearerbox.log
dlr-storage = internal

group = smsc
smsc = fake
smsc-id = network
port = {smsc}
connect-allow-ip = 127.0.0.1

group = smsc
smsc = fake
smsc-id = people
port = {people}
connect-allow-ip = 127.0.0.1
allowed-smsc-id = people

group = smsbox
bearerbox-host = 127.0.0.1
sendsms-port = {sendsms}
log-file = {folder}/smsbox.log

group = sendsms-user
username = service
password = secret
concatenation = true
max-messages = 10

group = sms-service
keyword = default
catch-all = true
max-messages = 0
get-url = "{replies}"
"""


class Kannel:
    """One gateway. `start` returns when it takes messages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sendsms = free_port()
        # The fake network talks with one program at a time: one port to listen on, one for people who answer.
        self._smsc, self._people = free_port(), free_port()
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """The URL for SMS_TRANSPORT_URL."""
        return f"kannel+http://{USER}:{PASSWORD}@127.0.0.1:{self.sendsms}/cgi-bin/sendsms"

    def start(self, replies: str) -> None:
        """`replies` is the get-url of what people answer."""
        configuration = self.folder / "kannel.conf"
        ports = {
            "admin": free_port(),
            "box": free_port(),
            "smsc": self._smsc,
            "people": self._people,
            "sendsms": self.sendsms,
        }
        configuration.write_text(CONFIGURATION.format(folder=self.folder, replies=replies, **ports).lstrip())
        self._run("bearerbox", str(configuration))
        wait_until(lambda: "MAIN: Start-up done" in self._said("bearerbox"), "bearerbox runs")
        self._run("smsbox", str(configuration))
        wait_until(lambda: "Connected to bearerbox" in self._said("smsbox"), "smsbox runs")
        self._fake_smsc("network", self._smsc, "-m", "0", "0 0 text nothing")
        wait_until(lambda: "Fakesmsc client connected" in self._said("bearerbox"), "the network is there")

    def reply(self, mobile: str, number: str, text: str) -> None:
        """A person answers."""
        self._say(f"{mobile} {number} text {text}")

    def reply_in_parts(self, mobile: str, number: str, parts: list[str]) -> None:
        """A person answers with a long text, as a telephone cuts it; the last part is the first to arrive."""
        for position, part in reversed(list(enumerate(parts, 1))):
            header = "".join(f"%{code:02x}" for code in (5, 0, 3, 77, len(parts), position))
            self._say(f"{mobile} {number} udh {header} {quote_plus(part)}")

    def _say(self, message: str) -> None:
        """Sends a reply by a client that leaves at once, because Kannel hears no other client on that port
        meanwhile."""
        name = f"reply-{len(self._children)}"
        child = self._fake_smsc(name, self._people, "-m", "1", message)
        wait_until(lambda: "sent message 1" in self._said(name), "the message is sent")
        child.terminate()
        child.wait(PATIENCE)

    def network(self) -> str:
        """What the fake network has seen."""
        return self._said("network")

    def stop(self) -> None:
        """All of its processes."""
        for child in reversed(self._children):
            child.terminate()
        for child in self._children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(10)

    def _fake_smsc(self, name: str, port: int, *arguments: str) -> subprocess.Popen[bytes]:
        return self._run(FAKE_SMSC, "-H", "127.0.0.1", "-r", str(port), "-i", "1", *arguments, name=name)

    def _said(self, name: str) -> str:
        path = self.folder / f"{name}.out"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def _run(self, *command: str, name: str = "") -> subprocess.Popen[bytes]:
        with (self.folder / f"{name or command[0]}.out").open("wb") as out:
            self._children.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT))
        return self._children[-1]
