"""A tenant claims the names of another one, numbers, domains and hosts in every spelling, by each form of the console
that takes one; and links and the console are asked for under hosts of others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from urllib.parse import urlsplit

from sqlalchemy import select

from app.console.domains import PATH
from app.db.models import Account, AccountHost, Domain, SmsSender
from app.http.console.navigation import HOME
from tests.attack.console import OWN, Browser, Console
from tests.attack.families.forwarded import POISON
from tests.attack.families.isolation import NOBODY, NOTHING, rows_of_the_victim
from tests.attack.families.tokens import MailTokens, seen_by
from tests.attack.party import MOBILES, Party
from tests.attack.stage import Stage
from tests.attack.tally import Case, case

HOSTS = {"tracking_host": "click", "return_path_host": "back"}
"""Attribute of a domain -> the first label of its host."""
TABLES_OF_SIGNING_IN = frozenset({"console_sessions", "console_links", "audit_entries"})


def attack(on: Stage) -> Iterator[Case]:
    """All of it; the victim's rows are the same afterwards. Both parties have hosts meanwhile."""
    for party in (on.victim, on.attacker):
        set_hosts(on, party, HOSTS)
    try:
        before = rows_of_the_victim(on)
        console = Console(on)
        manager = console.linked(on.attacker.name)
        yield from numbers(on, manager)
        yield from domains(on, manager)
        yield from hosts(on, manager)
        yield from links(on, *(seen_by(on, party.domain) for party in (on.attacker, on.victim)))
        yield from consoles(console)
        after = rows_of_the_victim(on)
        for name in sorted(set(before) - TABLES_OF_SIGNING_IN):
            yield case("rows of the victim afterwards", before[name] == after[name], f"{name} has changed")
    finally:
        for party in (on.victim, on.attacker):
            set_hosts(on, party, {})


def set_hosts(on: Stage, party: Party, labels: dict[str, str]) -> None:
    """Gives the domain of a party these hosts, and no others, as the operator does."""
    options = {"--tracking-host": "tracking_host", "--return-path-host": "return_path_host"}
    given = [
        word
        for option, name in options.items()
        for word in (option, f"{labels[name]}.{party.domain}" if name in labels else "")
    ]
    on.told("domains", "update", party.domain, "--account", party.name, *given)


def spellings(name: str) -> Iterator[str]:
    """A name as it is, and texts that a program may take for it."""
    yield from (name, name.upper(), f" {name} ", f"{name}.", f"{name}..", f".{name}", f"{name}\u200b", f"{name}\x00")
    yield from (
        "".join(chr(ord(character) + 0xFEE0) if character.isalnum() else character for character in name),
        name.replace(".", "\u3002"),
    )
    yield from (f"{name}:443", f"https://{name}", f"{name}/", f"x@{name}", f"+{name}", f"{name}\n", f"xn--{name}")


# ---------------------------------------------------------------------------------------------- claims


def numbers(on: Stage, manager: Browser) -> Iterator[Case]:
    """The victim's number, one that nobody has yet, and a name, as a sender of each kind."""
    for name in (*spellings(MOBILES[on.victim.name]), "61400000999", "V1CT1M"):
        for kind in ("virtual_number", "number", "alphanumeric"):
            form = {"address": name, "kind": kind, "list": "", "rate": "", "shared": "1"}
            for path in ("/console/senders", f"/console/senders?account={on.attacker.ids['account_id']}"):
                answer = manager.post(path, **form)
                has = senders(on)
                held = answer.status >= 400 and has == {MOBILES[on.attacker.name]}
                yield case("claims of numbers", held, f"{name!r} as {kind}: {answer.status}, {has}")


def senders(on: Stage) -> set[str]:
    """What the attacker may send text messages from."""
    with on.services.database.read() as session:
        criteria = SmsSender.account_id == on.attacker.ids["account_id"]
        return set(session.scalars(select(SmsSender.address).where(criteria)))


def domains(on: Stage, manager: Browser) -> Iterator[Case]:
    """The victim's domain, and one below it, with the hosts of the victim: they are added, prove nothing, and hold no
    host. Mail from them is refused."""
    for name in (*spellings(on.victim.domain), f"shop.{on.victim.domain}"):
        added = manager.post(PATH, name=name, trust="1")
        path = urlsplit(added.target).path
        if added.status == 303:
            manager.post(
                f"{path}/hosts", **{attribute: f"{label}.{on.victim.domain}" for attribute, label in HOSTS.items()}
            )
            manager.post(f"{path}/rotate")
        yield case("claims of domains", has_only_own(on), f"{name!r}: {added.status}")
        body = on.attacker.send(from_address=f"hello@{on.victim.domain}")
        sent = on.ask("POST", "/v1/transactional-sends", on.attacker.token, body=body)
        yield case("claims of domains", sent.status_code == 422, f"mail from {name!r}: {sent.text}")
        if added.status == 303:
            deleted = manager.post(f"{path}/delete", confirmed="1")
            yield case("claims of domains", deleted.status == 303, f"{name!r} is left: {deleted.status}")


def hosts(on: Stage, manager: Browser) -> Iterator[Case]:
    """Hosts of the victim, hosts below its domain that it has not named, and hosts of the service, for the attacker's
    own domain, which is verified."""
    path = f"{PATH}/{on.attacker.ids['domain_id']}"
    names = [f"{label}.{on.victim.domain}" for label in (*HOSTS.values(), "new")]
    names += [on.victim.domain, f"{on.attacker.domain}.{on.victim.domain}", f"x{on.attacker.domain}", "tms.example.org"]
    for name, attribute in product((spelling for candidate in names for spelling in spellings(candidate)), HOSTS):
        form = {attribute_name: f"{label}.{on.attacker.domain}" for attribute_name, label in HOSTS.items()} | {
            attribute: name
        }
        answer = manager.post(f"{path}/hosts", **form)
        yield case("claims of hosts", answer.status >= 400 and has_only_own(on), f"{name!r}: {answer.status}")


def has_only_own(on: Stage) -> bool:
    """Whether the attacker has its own domain and hosts below it alone, and the victim all of its own."""
    with on.services.database.read() as session:
        held = session.execute(
            select(Account.name, AccountHost.host)
            .join(Account, Account.id == AccountHost.account_id)
            .where(AccountHost.released_time.is_(None))
        )
        criteria = Domain.account_id == on.attacker.ids["account_id"], Domain.verified_time.is_not(None)
        verified = set(session.scalars(select(Domain.name).where(*criteria)))
        owners = {host: name for name, host in held}
    expected = {f"{label}.{party.domain}": party.name for party in (on.victim, on.attacker) for label in HOSTS.values()}
    return owners == expected and verified == {on.attacker.domain}


# ---------------------------------------------------------------------------------------------- hosts of requests


def links(on: Stage, attacker: MailTokens, victim: MailTokens) -> Iterator[Case]:
    """Links of each party under hosts of both, and of nobody. The attacker's lead where its mail led, under its own
    hosts; both may be used to unsubscribe wherever they arrive."""
    for other, seen in ((on.victim, attacker), (on.attacker, victim)):
        for host in (f"{label}.{other.domain}" for label in HOSTS.values()):
            for named in (host, host.upper(), f"{host}.", f"{host}:8000", f"{host}.:80"):
                for path in (f"/c/{seen.links['c']}", f"/o/{seen.links['o']}.gif"):
                    answer = on.ask("GET", path, headers={"Host": named})
                    held = answer.status_code == 404 and "Location" not in answer.headers
                    yield case("links under hosts of others", held, f"{path} under {named}: {answer.status_code}")
            for kind in ("u", "p"):
                answer = on.ask("GET", f"/{kind}/{seen.links[kind]}", headers={"Host": host})
                yield case("links that work", answer.status_code == 200, f"/{kind} under {host}")
    for host in (f"click.{on.attacker.domain}", f"127.0.0.1:{on.service.port}", "localhost", POISON):
        answer = on.ask("GET", f"/c/{attacker.links['c']}", headers={"Host": host})
        target = answer.headers.get("Location", "")
        yield case("links that work", target == f"https://{on.attacker.domain}/", f"under {host}: {target!r}")


def consoles(console: Console) -> Iterator[Case]:
    """Every page of the console under hosts of accounts and of strangers, whoever is signed in: there is none."""
    on, operator = console.on, console.linked(None)
    own_host = urlsplit(console.origin).netloc
    strange = [
        f"click.{on.victim.domain}",
        f"click.{on.attacker.domain}",
        POISON,
        f"{own_host}.{POISON}",
        f"x{own_host}",
        "[::2]",
    ]
    for page in console.pages:
        values = on.victim.ids if page.method == "GET" else NOBODY
        path = page.path({name: values.get(name, NOTHING) for name in page.parameters})
        for host in strange[: 2 if on.short else None]:
            answer = operator.ask(page.method, path, {**OWN, "Host": host})
            held = answer.status in (400, 404) and not answer.cookies and not answer.target and not answer.is_page
            yield case("console under other hosts", held, f"{page.name} under {host}: {answer.status}")
    token = console.link(None)
    for host in strange:
        console.browser().ask("POST", f"{HOME}/login/{token}", {**OWN, "Host": host}, form={})
    used = console.browser().follow(token)
    yield case("console under other hosts", used.status == 303, "a link was used up")
