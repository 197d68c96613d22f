"""The accounts of the suite: who they are, and one of everything that a path can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from app.clock import now
from app.db.models import (
    Account,
    ApiKey,
    AuditEntry,
    BlockedAddress,
    BulkAction,
    Domain,
    SendPause,
    SmsSender,
    Webhook,
    WebhookAttempt,
)
from app.routing.table import DEFAULT_TRANSPORT
from app.suppressions.states import BLOCKED
from tests.support.management import MANAGEMENT
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from tests.attack.stage import Stage

NAMES = ("v1ct1m", "att4ck3r")
LEVELS = ("report", "limited", "standard")
MANAGER = "manager"
"""The level whose keys set an account up, and cannot sign in."""
FLOODING, WALLED = "flooding", "walled"
"""Further accounts: with a small rate limit, and with a list of allowed networks."""
ALLOWED = "192.0.2.7"
RATE = 60
MOBILES = {"v1ct1m": "61400000001", "att4ck3r": "61400000002"}
LIST, MESSAGE, AUTOMATION = "{} people", "{} welcome", "{} series"
REBOUND = {
    f"hook{number}.attack.example": addresses
    for number, addresses in enumerate(
        [
            ["127.0.0.1"],
            ["0.0.0.0"],
            ["127.255.255.254"],
            ["10.0.0.1"],
            ["172.16.0.1"],
            ["192.168.1.1"],
            ["169.254.169.254"],
            ["100.64.0.1"],
            ["::1"],
            ["::"],
            ["::ffff:127.0.0.1"],
            ["64:ff9b::7f00:1"],
            ["fe80::1"],
            ["fd00::1"],
            ["93.184.216.34", "127.0.0.1"],
        ]
    )
}
"""Names whose addresses are public when their webhooks are registered, and what they are at the delivery."""
OWN_LINKS = "%%unsubscribe_link%% %%preferences_link%%"
FIELDS = [
    {"name": "Email", "type": "Email"},
    {"name": "Mobile", "type": "Mobile Phone"},
    {"name": "First Name", "type": "First Name"},
    {"name": "Note", "type": "Text Field"},
]


def token_of(name: str, level: str) -> str:
    """The key of an account."""
    return f"tms_key-{level}-of-{name}-".ljust(50, "0")


def secret_of(name: str) -> str:
    """The secret of its webhook."""
    return f"secret-of-the-webhook-of-{name}-0123456789"


def key_id_of(name: str) -> str:
    """The id of that secret."""
    return f"k-{name}"


def seed_of(receiver: int, kannel: int, trap: int, password: str) -> dict[str, Any]:
    """The seed file with all of them. Without a receiver there are webhooks of the attacker with names whose addresses
    the attacker will change."""
    if receiver:
        hooks = {name: [f"http://127.0.0.1:{receiver}/{name}"] for name in NAMES}
    else:
        hooks = {NAMES[1]: [f"https://{name}:{trap}/" for name in REBOUND]}
    gateway = f"kannel+http://kannel-user:{password}@127.0.0.1:{kannel}/cgi-bin/sendsms"
    return {
        "accounts": [
            *(_account(name, hooks.get(name, [])) for name in NAMES),
            {**_small(FLOODING), "rate_limit": f"{RATE}/minute"},
            {**_small(WALLED), "allowed_networks": [ALLOWED]},
        ],
        "transports": [{"name": "kannel", "type": "sms", "url": gateway, "any_account": True}],
    }


def _small(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "owner_email": f"owner@{name}.example",
        "owner_confirmed": True,
        "keys": [
            *({"name": level, "access_level": level, "token": token_of(name, level)} for level in (*LEVELS, MANAGER)),
            {"name": "test", "access_level": "standard", "token": token_of(name, "test"), "test": True},
        ],
        "domains": [f"{name}.example"],
    }


def _account(name: str, hooks: list[str]) -> dict[str, Any]:
    return {
        **_small(name),
        "lists": [{"name": LIST.format(name), "fields": FIELDS, "offered": True}],
        "sms_senders": [{"address": MOBILES[name], "kind": "virtual_number", "list": LIST.format(name)}],
        "messages": [
            {
                "name": MESSAGE.format(name),
                "type": "email",
                "subject": f"Subject of {name}",
                "from_name": name,
                "from_address": f"hello@{name}.example",
                "body_text": f"Text of {name}, see https://{name}.example/ and {OWN_LINKS}",
                "body_html": f'<p>HTML of {name}, <a href="https://{name}.example/">here</a> {OWN_LINKS}</p>',
            }
        ],
        "automations": [
            {
                "name": AUTOMATION.format(name),
                "kind": "standard",
                "list": LIST.format(name),
                "trigger": "When a Contact is created from the REST API",
                "message": MESSAGE.format(name),
            }
        ],
        "blocked": [{"email": f"blocked@{name}-people.example", "reason": f"asked {name} for it"}],
        "webhooks": [{"url": hook, "secrets": [{"id": key_id_of(name), "secret": secret_of(name)}]} for hook in hooks],
    }


class Party:
    """A client with an account. `ids` has a value for each parameter of a path."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.domain = f"{name}.example"
        self.tokens = {level: token_of(name, level) for level in (*LEVELS, MANAGER, "test")}
        self.token = self.tokens["standard"]
        self.ids: dict[str, Any] = {}

    def token_for(self, path: str) -> str:
        """The token of the key that may most at the path."""
        return self.tokens[MANAGER] if path.startswith(MANAGEMENT) else self.token

    @property
    def person(self) -> str:
        """The address of its contact."""
        return f"ann@{self.name}-people.example"

    def send(self, **changes: Any) -> dict[str, Any]:
        """The body of a mail to its contact."""
        return {
            "type": "email",
            "list_id": self.ids["list_id"],
            "group_name": f"{self.name} group",
            "subject": f"Subject of {self.name}",
            "from_name": self.name,
            "from_address": f"hello@{self.domain}",
            "body_text": f"Text of {self.name}, see https://{self.domain}/",
            "recipients": [{"email": self.person}],
            **changes,
        }

    def text(self, **changes: Any) -> dict[str, Any]:
        """The body of a text message."""
        return {
            "type": "sms",
            "list_id": self.ids["list_id"],
            "group_name": f"{self.name} texts",
            "from_address": MOBILES[self.name],
            "unsubscribe_type": "word",
            "body_text": f"Text of {self.name}. Reply STOP",
            "recipients": [{"mobile": "61411111111"}],
            **changes,
        }

    def furnish(self, on: Stage) -> None:
        """Makes one of everything that only using the service makes: a contact and its run, sends, a captured mail."""
        self.ids["list_id"] = self._first(on, "/v1/lists")["id"]
        self.ids["message_id"] = self._first(on, "/v1/messages")["id"]
        self.ids["automation_id"] = self._first(on, "/v1/automations")["id"]
        contacts = f"/v1/lists/{self.ids['list_id']}/contacts"
        contact = {"email": self.person, "mobile": "61411111111", "first_name": f"Ann {self.name}", "note": self.name}
        made = on.ask("POST", contacts, self.token, body=contact)
        assert made.status_code == 201, made.text
        self.ids["contact_id"] = made.json()["id"]
        self.ids["tag"] = f"{self.name}-tag"
        self.ids["secret_id"] = key_id_of(self.name)
        labels = {"tags": [self.ids["tag"]], "metadata": {"order": self.name}}
        first = self.send(message_id=self.ids["message_id"], **labels)
        for body in (first, self.text(), self.text(transport="kannel")):
            sent = on.ask("POST", "/v1/transactional-sends", self.token, body=body)
            assert sent.status_code == 202, sent.text
            self.ids.setdefault("uuid", sent.json()["_embedded"]["recipients"][0]["uuid"])
        self.ids["group_id"] = self._first(on, "/v1/transactional-groups")["id"]
        runs = f"/v1/automations/{self.ids['automation_id']}/runs"
        wait_until(lambda: self._items(on, runs), "there is a run")
        self.ids["run_id"] = self._first(on, runs)["id"]
        test = on.ask("POST", "/v1/transactional-sends", self.tokens["test"], body=self.send(group_name=self.name))
        assert test.status_code == 202, test.text
        wait_until(lambda: self._items(on, "/v1/inbox", "test"), "a mail is captured")
        self.ids["captured_id"] = self._first(on, "/v1/inbox", "test")["id"]
        if not on.strict:
            self._furnish_console(on)

    def _furnish_console(self, on: Stage) -> None:
        """What only the console has pages for; the first delivery to its webhook is awaited."""
        self._add_bulk_action(on)
        self._add_pause(on)
        models = {
            **{"action_id": BulkAction, "pause_id": SendPause},
            **{"webhook_id": Webhook, "delivery_id": WebhookAttempt, "key_id": ApiKey},
            **{"suppression_id": BlockedAddress, "entry_id": AuditEntry, "domain_id": Domain, "sender_id": SmsSender},
        }
        for name, model in models.items():
            wait_until(lambda model=model: self._first_id(on, model) is not None, f"{self.name} has a {name}")
            self.ids[name] = self._first_id(on, model)
        with on.services.database.read() as session:
            account_id = select(Account.id).where(Account.name == self.name)
            self.ids |= {
                "state": BLOCKED,
                "account_id": session.scalar(account_id),
                "transport_name": DEFAULT_TRANSPORT,
            }
            self.ids["version_number"] = 1

    def _add_bulk_action(self, on: Stage) -> None:
        """One that was undone: as it is left, it changes nothing."""
        texts = {"action": "retry", "query": "state=failed", "asked_by": self.name, "state": "cancelled"}
        times = dict.fromkeys(("creation_time", "due_time", "end_time", "newest_time"), now())
        with on.services.database.write() as transaction:
            account_id = transaction.scalar(select(Account.id).where(Account.name == self.name))
            counts = {"messages": 1, "newest_id": 1, "done": 0, "left_out": {}}
            transaction.add(BulkAction(account_id=account_id, **texts, **times, **counts))

    def _add_pause(self, on: Stage) -> None:
        """Pauses a domain to which nothing is sent."""
        with on.services.database.write() as transaction:
            account_id = transaction.scalar(select(Account.id).where(Account.name == self.name))
            texts = {"kind": "domain", "domain": f"nobody.{self.domain}", "paused_by": self.name}
            transaction.add(SendPause(account_id=account_id, creation_time=now(), **texts))

    def _first_id(self, on: Stage, model: type[Any]) -> int | None:
        with on.services.database.read() as session:
            first_id = select(func.min(model.id)).join(Account, Account.id == model.account_id)
            return session.scalar(first_id.where(Account.name == self.name))

    def _items(self, on: Stage, path: str, level: str = "standard") -> list[Any]:
        (items,) = on.ask("GET", path, self.tokens[level]).json()["_embedded"].values()
        return list(items)

    def _first(self, on: Stage, path: str, level: str = "standard") -> dict[str, Any]:
        return dict(self._items(on, path, level)[0])
