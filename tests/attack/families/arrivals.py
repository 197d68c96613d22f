"""What arrived at the relay, the gateways, the browser, the terminal, the spreadsheet and the log after injections.
Each must have got the values as values: no further field, recipient, command, parameter, line or script."""

from __future__ import annotations

import csv
import email
import email.policy
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from urllib.parse import parse_qsl, urlsplit

from sqlalchemy import select

from app.db.models import Recipient, Send
from tests.attack.party import LIST, MOBILES
from tests.attack.peers import Mail
from tests.attack.stage import Stage
from tests.attack.tally import Case, case
from tests.support import smpp

ADDRESS = rb"[^<>\s@]+@[^<>\s@,]+"
COMMAND = re.compile(
    rb"(?i:EHLO) \S+|AUTH PLAIN [A-Za-z0-9+/=]+|MAIL FROM:<%b>( BODY=8BITMIME| SMTPUTF8| SIZE=\d+)*|RCPT TO:<%b>"
    rb"|DATA|(?i:QUIT)|RSET|NOOP" % (ADDRESS, ADDRESS)
)
LONE = re.compile(rb"(?<!\r)\n|\r(?!\n)|\x00")
FIELDS = frozenset(
    {
        *("date", "from", "to", "subject", "message-id", "reply-to", "mime-version", "auto-submitted"),
        *("content-type", "content-transfer-encoding", "list-unsubscribe", "list-unsubscribe-post", "dkim-signature"),
    }
)
PART_HEADERS = frozenset({"content-type", "content-transfer-encoding", "content-disposition", "content-id"})
REPEATED = "dkim-signature"
PARAMETERS = ["charset", "coding", "dlr-mask", "dlr-url", "from", "password", "text", "to", "username"]
SMPP = {smpp.BIND_TRANSCEIVER, smpp.BIND_TRANSMITTER, smpp.SUBMIT_SM, smpp.ENQUIRE_LINK, smpp.UNBIND}
NUMBER = r"6141\d{7}"
"""What the attacker's texts are sent to."""
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
FORMULA = re.compile(r"[=+@\t\r-](?![\d.]*\Z)")
LINK = re.compile(r"https?://127\.0\.0\.1:\d+/[uc]/[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Before:
    """How much had arrived before."""

    commands: int
    mails: int
    submissions: int
    hits: int

    @classmethod
    def of(cls, on: Stage) -> Before:
        """What has arrived by this moment."""
        return cls(len(on.relay.commands), len(on.relay.mails), len(on.gateway.submissions), len(on.kannel.hits))


def judge(on: Stage, before: Before) -> Iterator[Case]:
    """Everything that has arrived since then."""
    mails = on.relay.mails[before.mails :]
    yield from at_the_relay(on, before, mails)
    yield from at_the_gateways(on, before)
    yield from in_a_browser(on, mails)
    yield from on_a_terminal(on)
    yield from in_a_spreadsheet(on)
    yield from in_the_log(on)


def at_the_relay(on: Stage, before: Before, mails: list[Mail]) -> Iterator[Case]:
    """Commands of the session, recipients, fields and parts of mails."""
    for line in on.relay.commands[before.commands :]:
        held = COMMAND.fullmatch(line) is not None and b"evil.example" not in line
        yield case("commands at the relay", held, repr(line))
    promised = recipients_of_mails(on)
    named = Counter(str(parsed_mail(mail)["Message-ID"]).strip("<>").partition("@")[0] for mail in mails)
    for uuid, times in named.items():
        # A blind copy is a mail of its own with the same name.
        held = uuid in promised and times <= 1 + bool(promised[uuid])
        yield case("mails at the relay", held, f"{uuid} came {times} times")
    for mail in mails:
        faults = [*wrong(mail, on.attacker.domain)]
        yield case("mails at the relay", not faults, f"{faults}: {mail.content[:500]!r}")


def wrong(mail: Mail, domain: str) -> Iterator[str]:
    """What is in a mail that its sender cannot have meant."""
    if len(mail.recipients) != 1:
        yield f"recipients {mail.recipients}"
    if LONE.search(mail.content):
        yield "a line end of another kind, or NUL"
    head = mail.content.partition(b"\r\n\r\n")[0].decode()
    names = [line.partition(":")[0].lower() for line in head.split("\r\n") if line[:1] not in (" ", "\t")]
    if unknown := set(names) - FIELDS:
        yield f"fields {unknown}"
    if repeated := {name for name in names if names.count(name) > 1} - {REPEATED}:
        yield f"fields that stand there twice {repeated}"
    try:
        yield from wrong_to_a_reader(mail, domain)
    except ValueError as error:
        yield f"a mail that cannot be read: {error}"


def wrong_to_a_reader(mail: Mail, domain: str) -> Iterator[str]:
    """What a mail program reads in a mail that its sender cannot have meant. Raises `ValueError` for addresses with
    line ends."""
    parsed = parsed_mail(mail)
    sender = parsed["From"].addresses
    if [address.domain for address in sender] != [domain] or len(parsed["To"].addresses) != 1:
        yield f"from {parsed['From']} to {parsed['To']}"
    for part in parsed.walk():
        if part is not parsed and (unknown := {name.lower() for name in part.keys()} - PART_HEADERS):  # noqa: SIM118
            yield f"fields of a part {unknown}"


def parsed_mail(mail: Mail) -> EmailMessage:
    """The mail as a mail program reads it."""
    return email.message_from_bytes(mail.content, policy=email.policy.default)


def recipients_of_mails(on: Stage) -> dict[str, str | None]:
    """The uuids of all recipients, with the address of the blind copy of their send."""
    with on.services.database.read() as session:
        rows = session.execute(select(Recipient.uuid, Send.bcc_address).outerjoin(Send, Send.id == Recipient.send_id))
        return {str(row.uuid): row.bcc_address for row in rows}


def at_the_gateways(on: Stage, before: Before) -> Iterator[Case]:
    """PDUs and parameters."""
    unknown = {hex(command) for command in on.gateway.commands if command & ~smpp.ANSWER not in SMPP}
    yield case("PDUs at the gateway", not unknown, f"commands {unknown}")
    for submission in on.gateway.submissions[before.submissions :]:
        is_meant = re.fullmatch(NUMBER, submission.destination[2]) is not None
        held = is_meant and submission.source[2] == MOBILES[on.attacker.name]
        yield case("PDUs at the gateway", held, f"{submission}")
    for hit in on.kannel.hits[before.hits :]:
        parts = urlsplit(hit.path)
        given = parse_qsl(parts.query, keep_blank_values=True)
        values = dict(given)
        held = (
            parts.path == "/cgi-bin/sendsms"
            and sorted(name for name, _ in given) == PARAMETERS
            and values["from"] == MOBILES[on.attacker.name]
            and re.fullmatch(NUMBER, values["to"]) is not None
            and values["dlr-url"].startswith(f"{on.base}/inbound/kannel/dlr/")
            and not {"x-injected", "bcc"} & {name.lower() for name in hit.headers}
        )
        yield case("URLs at Kannel", held, hit.path)


def in_a_browser(on: Stage, mails: list[Mail]) -> Iterator[Case]:
    """The pages and redirects behind the links of the mails."""
    links: set[str] = set()
    for mail in mails:
        parsed = parsed_mail(mail)
        bodies = [part.get_content() for part in parsed.walk() if part.get_content_type() == "text/html"]
        links.update(LINK.findall(str(parsed["List-Unsubscribe"])), *(LINK.findall(str(body)) for body in bodies))
    for link in sorted(links):
        answer = on.ask("GET", urlsplit(link).path)
        target = answer.headers.get("Location", "https://")
        policy = answer.headers.get("Content-Security-Policy", "")
        held = (
            answer.status_code in (200, 302, 404)
            and "<script" not in answer.text
            and "onerror" not in re.sub(r"&lt;.*?&gt;", "", answer.text)
            and "default-src 'none'" in policy
            and not answer.cookies
            and target.startswith(("https://", "http://"))
            and not target.startswith(("https://evil", "http://evil"))
        )
        yield case("pages and redirects", held, f"{link}: {answer.status_code} {target} {answer.text[:300]}")


def on_a_terminal(on: Stage) -> Iterator[Case]:
    """What the commands of an operator show."""
    name, list_option = on.attacker.name, ("--list", LIST.format(on.attacker.name))
    account = ("--account", name)
    commands = (
        ("contacts", "list", *list_option, *account),
        ("sends", "list", *account),
        ("groups", "list", *account),
        ("suppressions", "list", *account),
        ("audit", "list", *account),
        ("status",),
    )
    for command in commands[: 2 if on.short else None]:
        done = on.run(*command)
        output = done.stdout + done.stderr
        control = CONTROLS.search(output)
        yield case("terminal", done.returncode == 0 and control is None, f"{command}: {control} {done.stderr}")
        injected = any(line.startswith(('{"level"', "X-Injected")) for line in output.splitlines())
        yield case("terminal", not injected, f"{command}: a line of the attacker")


def in_a_spreadsheet(on: Stage) -> Iterator[Case]:
    """The exported contacts: no cell is a formula."""
    file = on.folder / "contacts.csv"
    done = on.run(
        "contacts", "export", str(file), "--list", LIST.format(on.attacker.name), "--account", on.attacker.name
    )
    yield case("cells of exports", done.returncode == 0, done.stderr)
    with file.open(newline="") as lines:
        rows = list(csv.reader(lines))
    for row in rows:
        formulas = [cell for cell in row if FORMULA.match(cell)]
        yield case("cells of exports", not formulas and len(row) == len(rows[0]), f"{formulas} {row}")


def in_the_log(on: Stage) -> Iterator[Case]:
    """Each line of the log is one that the service has written."""
    for line in on.service.output().splitlines():
        message = ""
        if line.startswith("{"):
            try:
                message = json.loads(line).get("message", "")
            except ValueError:
                message = "injected"
        held = message != "injected" and not line.startswith("X-Injected") and CONTROLS.search(line) is None
        yield case("lines of the log", held, line)
