"""A stranger's first hour, timed: from a clone to the first mail, the first real mail, the first event at a webhook and
the first message of an automation (`make newcomer`, docs/benchmark.md#the-first-hour).

The stranger reads each page from the top to the line that is needed, and types that line as it stands there. Relay,
name server and receiver are real ones on the loopback address.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import venv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dkim

from tests.docs.rules import check_success
from tests.docs.shell import Ran, Shell
from tests.docs.world import Place
from tests.support.blocks import Block, blocks
from tests.support.launched import ROOT, LaunchedService
from tests.support.nameserver import NameServer
from tests.support.servers import free_port, short_folder, wait_until
from tests.unit.transports.mailserver import MailServer

WORDS_A_MINUTE = 200
INSTALL_SECONDS = 900.0
COMMAND_SECONDS = 120.0
ARRIVAL_SECONDS = 120.0
"""How long an installation, a command, and what should then appear may take."""
README, CLIENTS = "README.md", "docs/clients.md"
MAIL, WEBHOOKS, AUTOMATIONS = "docs/first-mail.md", "docs/webhooks.md", "docs/automations.md"
SCREEN = "  The service is running."
DNS_RECORD = re.compile(r"^  (\S+)\. IN TXT (.+?)  ;", re.MULTILINE)
SECRET = re.compile(r"^secret: +(\S+)", re.MULTILINE)
"""What `init` and `webhooks create` print."""


class Reader:
    """Reads pages, and says how long each step has taken."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words: Counter[str] = Counter()
        """The words that were read in this step, by page."""
        self._ends: Counter[str] = Counter()
        """The last line that was read, by page."""
        self._seconds, self._all_words = 0.0, 0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Times a step and prints its line of the table. A failure names the step."""
        began = time.monotonic()
        self.words.clear()
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:
            raise SystemExit(f"\nfailed at {name!r}: {type(error).__name__}: {error}") from None
        seconds, words = time.monotonic() - began, self.words.total()
        self._seconds += seconds
        self._all_words += words
        _print_line(name, seconds, words, ", ".join(f"{page} {count}" for page, count in self.words.items()))

    def print_sum(self) -> None:
        """Prints the last line of the table."""
        minutes = self._seconds / 60 + self._all_words / WORDS_A_MINUTE
        _print_line("together", self._seconds, self._all_words, f"machine and reading: {minutes:.0f} minutes")

    def read(self, page: str, containing: str) -> Block:
        """The next block of the page that contains this, with all that stands before it."""
        path, before = self.folder / page, self._ends[page]
        for block in blocks(path):
            if block.line > before and containing in block.text:
                self._ends[page] = end = block.line + block.text.count("\n") + 1
                self.words[page] += len(" ".join(path.read_text("utf-8").splitlines()[before:end]).split())
                return block
        raise LookupError(f"{page} has no block with {containing!r} below line {before}")


def _print_line(name: str, seconds: float, words: int, read: str) -> None:
    print(f"{name:<24}{seconds:>8.1f} s{words:>7}{words / WORDS_A_MINUTE:>8.1f} min  {read}", flush=True)


@contextmanager
def _begun(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process, of which nothing is left in the end."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run(*command: str | Path, seconds: float = COMMAND_SECONDS, cwd: Path = ROOT, **options: Any) -> str:
    """The output of a command that must succeed."""
    with _begun(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as process:
        output = process.communicate(timeout=seconds)[0].decode()
    assert process.returncode == 0, f"{shlex.join(map(str, command))}: {output}"
    return output


@dataclass(frozen=True)
class Machine:
    """Runs what the shell of a page runs."""

    environ: Mapping[str, str]

    def run(self, command: Sequence[str], **options: Any) -> int:
        """Runs a shell, for a limited time, and returns its exit status."""
        with _begun(command, **options) as process:
            return process.wait(COMMAND_SECONDS)


class Service:
    """The service in a clone, with a data folder of its own, and a shell with the same settings, in which `tms` is
    spelled as in a checkout."""

    def __init__(self, clone: Path, data: Path, relay: MailServer, names: NameServer) -> None:
        (folder := clone.parent / data.name).mkdir()
        settings = {"DATA_DIR": str(data), "DNS_RESOLVER": names.address}
        self.launched = LaunchedService(folder, SEED="", PYTHONPATH="", **settings)
        self.launched.working_folder, self.launched.data = clone, data
        self.place = Place(folder=clone, base=self.launched.base, relay=relay.url())
        self.environ = {name: self.launched.environment[name] for name in (*settings, "PORT", "E2E_MARK")}
        (spelled := folder / "tms").write_text('#!/bin/sh\nexec .venv/bin/flask --app wsgi "$@"\n')
        spelled.chmod(0o755)
        self._shell = Shell(self.place, Machine(self.environ), folder)

    def begin(self, block: Block) -> None:
        """Begins with the first command of the block."""
        self.launched.command = shlex.split(block.text.splitlines()[0], comments=True)
        self.launched.begin()

    def wait_for(self, line: str, seconds: float) -> str:
        """What it has printed, as soon as the line is there."""
        process, output = self.launched.process, self.launched.output
        wait_until(lambda: line in output() or process.poll() is not None, f"it prints {line!r}", seconds)
        assert line in output(), output()
        return output()

    def screen(self) -> str:
        """The screen, without lines of the log, once it says that mail leaves."""
        printed = self.wait_for("eady: ", ARRIVAL_SECONDS)
        assert "  Ready: " in printed, printed
        lines = printed.partition(SCREEN)[2].splitlines()
        return "\n".join(line for line in lines if not line.startswith("{"))

    def type(self, block: Block) -> str:
        """Types a block, all of which must succeed, and returns what it prints. A file is saved."""
        if block.title:
            (self.place.folder / block.title).write_text(block.text, "utf-8")
            return ""
        ran: Ran = self._shell.run(self.place.local(block.text))
        check_success(ran, block)
        return ran.stdout

    def mails_to(self, address: str) -> int:
        """How many mails are in the demo's folder for this address."""
        mails = (path.read_text("utf-8") for path in (self.launched.data / "mail").glob("*.eml"))
        return sum(f"\nTo: {address}\n" in mail.replace("\r\n", "\n") for mail in mails)


def clone(reader: Reader) -> None:
    """The last commit of this checkout, without anything that was installed or built in it."""
    _run("git", "clone", "--quiet", "--no-local", ROOT, reader.folder)


def first_mail(reader: Reader, demo: Service) -> None:
    """A send, the file of its mail, and the report that counts it."""
    demo.type(reader.read(README, "transactional-sends"))
    wait_until(lambda: demo.mails_to("you@example.com") == 1, "the mail is in var/mail", ARRIVAL_SECONDS)
    report = reader.read(README, "transactional-groups")
    wait_until(lambda: _delivered(demo.type(report)) == 1, "the report counts the mail", ARRIVAL_SECONDS)


def _delivered(report: str) -> int:
    (group,) = json.loads(report)["_embedded"]["transactional-groups"]
    return int(group["delivered"])


def first_send_in_python(reader: Reader, demo: Service) -> None:
    """The library in an environment of its own, and the program."""
    block = reader.read(CLIENTS, "from transactional_messaging import Client")
    (install,) = re.findall(r"`pip (install \S+)`", block.before)
    venv.create(folder := demo.launched.folder / "venv", with_pip=True)
    python = folder / "bin" / "python"
    _run(python, "-m", "pip", "--quiet", *install.split(), cwd=reader.folder, seconds=INSTALL_SECONDS)
    environment = {**os.environ, "BASE": demo.launched.base, "KEY": demo.place.token}
    state = _run(python, "-c", block.text, env=environment).strip()
    assert state == "delivered", f"the message is {state!r}"


def first_real_mail(reader: Reader, shop: Service, relay: MailServer, names: NameServer) -> None:
    """On an empty server, through the relay, with published records and a signature that holds."""
    printed = shop.type(reader.read(MAIL, " init "))
    for name, value in DNS_RECORD.findall(printed):
        names.texts[name] = ["".join(re.findall(r'"([^"]*)"', value))]
    assert "(verified)" in (again := shop.type(reader.read(MAIL, " init "))), again
    shop.begin(reader.read(MAIL, "make run"))
    shop.screen()
    shop.place = replace(shop.place, token=re.findall(r"\btms_\S+", printed)[0])
    shop.type(reader.read(MAIL, "transactional-sends"))
    wait_until(lambda: relay.mails, "the relay has the mail", ARRIVAL_SECONDS)
    mail = relay.mails[0]
    assert mail.recipients == ["owner@shop.example"], mail
    keys = {f"{name}.".encode(): text[0].encode() for name, text in names.texts.items()}
    assert dkim.verify(mail.content, dnsfunc=lambda name, timeout=0: keys.get(name)), mail


def first_event(reader: Reader, demo: Service) -> None:
    """A receiver that verifies the signature of a test event."""
    port = str(free_port())

    def here(containing: str) -> Block:
        block = reader.read(WEBHOOKS, containing)
        return replace(block, text=block.text.replace("3000", port))

    (secret,) = SECRET.findall(demo.type(here("webhooks create")))
    command = here("RECEIVER_SECRET").text.replace("=SECRET", f"={secret}")
    log, environment = demo.launched.folder / "terminal", {**os.environ, **demo.environ}
    with (
        log.open("wb") as output,
        _begun(["bash", "-c", command], cwd=reader.folder, env=environment, stdout=output, stderr=output),
    ):
        demo.type(here("webhooks test"))
        wait_until(lambda: "verified  webhook test" in log.read_text(), "the receiver has the event", ARRIVAL_SECONDS)


def first_automation(reader: Reader, demo: Service) -> None:
    """A definition, a contact that it is for, and the message that it sends."""
    demo.type(reader.read(AUTOMATIONS, "kind: standard"))
    demo.type(reader.read(AUTOMATIONS, "automations create"))
    wait_until(lambda: demo.mails_to("silver@example.com") == 1, "the mail is in var/mail", ARRIVAL_SECONDS)
    show = reader.read(AUTOMATIONS, "automations show")
    wait_until(lambda: "delivered 1" in demo.type(show), "the automation counts the mail", ARRIVAL_SECONDS)


def hour(stack: ExitStack) -> None:
    """All steps. What they begin ends with the stack."""
    folder = stack.enter_context(short_folder())
    os.environ["PIP_CACHE_DIR"] = str(folder / "pip")
    reader = Reader(folder / "clone")
    relay, names = stack.enter_context(MailServer()), stack.enter_context(NameServer())
    with reader.step("clone"):
        clone(reader)
    demo = Service(reader.folder, reader.folder / "var", relay, names)
    stack.callback(demo.launched.clear)
    with reader.step("make run, installing"):
        demo.begin(reader.read(README, "make run"))
        demo.wait_for("installed requirements.lock", INSTALL_SECONDS)
    with reader.step("make run, starting"):
        reader.words["the screen"] = len(demo.screen().split())
    with reader.step("first mail"):
        first_mail(reader, demo)
    with reader.step("the same in Python"):
        first_send_in_python(reader, demo)
    shop = Service(reader.folder, reader.folder / "shop", relay, names)
    stack.callback(shop.launched.clear)
    with reader.step("first real mail"):
        first_real_mail(reader, shop, relay, names)
    with reader.step("first webhook"):
        first_event(reader, demo)
    with reader.step("first automation"):
        first_automation(reader, demo)
    with reader.step("Ctrl-C, both services"):
        for service in (demo, shop):
            service.launched.stop(signal.SIGINT)
    reader.print_sum()


def main() -> int:
    """Prints a line for each step, with the time of the machine and what was read."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"{'step':<24}{'machine':>10}{'words':>7}{'reading':>12}  read, at {WORDS_A_MINUTE} words a minute")
    with ExitStack() as stack:
        hour(stack)
    return 0


if __name__ == "__main__":
    sys.exit(main())
