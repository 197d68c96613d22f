"""Sets up an account from nothing to its first mail: a list, a stored message, a sending domain, a webhook and a key.

pip install ./clients/python
TMS_URL=http://127.0.0.1:8000 TMS_KEY=tms_... python examples/python/provision.py \
    news.acme.example https://acme.example/events ann@acme.example secrets.json

The key is one of the level manager (`tms keys create deployment --level manager`). The last argument is a file in which
the program keeps the key and the secret that the service shows only once. What is there already is not made again, so
the program can be repeated: after the records of the domain have been published, and whenever something here changes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from transactional_messaging import Client
from transactional_messaging.management import Creatables, Managed

domain_name, webhook_url, recipient, secrets_path = sys.argv[1:]
LIST = {
    "name": "Customers",
    "fields": [{"name": "Email", "type": "Email"}, {"name": "First Name", "type": "First Name"}],
}
MESSAGE = {
    "name": "Welcome",
    "type": "email",
    "subject": "Welcome, %%first_name**friend%%",
    "from_name": "Acme",
    "from_address": f"hello@{domain_name}",
    "body_text": "Hello %%first_name**friend%%, your account is ready.",
}
KEY = "shop"
FIRST_MAIL = "first-mail"  # the tag by which this program finds the mail that it has sent
SECONDS_FOR_A_CHECK = 60


def ensure(part: Creatables, key: str, attributes: dict[str, Any]) -> Managed:
    """What has this name or URL, with these attributes: it is created, or changed."""
    present = part.list(filters={key: attributes[key]}).first()
    if present is None:
        return part.create(attributes)
    return part.update(present.id, {name: value for name, value in attributes.items() if name != key})


def is_verified(manager: Client, domain: Managed) -> bool:
    """Whether mail can be sent from the domain, after its records were looked up."""
    checked = manager.management.domains.check(domain.id)
    end = time.monotonic() + SECONDS_FOR_A_CHECK
    while checked["is_checked"] and time.monotonic() < end:
        time.sleep(0.2)
        checked = manager.management.domains.get(domain.id)
    for record in checked["records"]:
        print(f"  {record['name']} {record['type']} {record['value']} ({record['state']})")
    return bool(checked["verified"])


def token_of(manager: Client, secrets: dict[str, str]) -> str:
    """The token of the key that sends. If the file has been lost, the key gets another one."""
    present = manager.management.keys.list(filters={"name": KEY}).first()
    if present is None:
        return str(manager.management.keys.create({"name": KEY, "access_level": "standard"})["token"])
    return secrets.get("token") or str(manager.management.keys.rotate(present.id)["token"])


def webhook_secret_of(manager: Client, secrets: dict[str, str]) -> str:
    """The secret that signs the requests to the webhook."""
    webhook = ensure(manager.management.webhooks, "url", {"url": webhook_url, "events": ["recipient"]})
    if "generated_secret" in webhook:
        return str(webhook["generated_secret"]["secret"])
    present = secrets.get("webhook")
    return present or str(manager.management.webhooks.add_secret(webhook.id)["generated_secret"]["secret"])


def send_once(shop: Client, list_id: int, message_id: int) -> None:
    """Sends the first mail, unless it was sent before."""
    if shop.sends.list(filters={"tag": FIRST_MAIL}).first() is None:
        shop.sends.create(
            type="email",
            list_id=list_id,
            message_id=message_id,
            group_name="Welcome",
            tags=[FIRST_MAIL],
            recipients=[{"email": recipient, "first_name": "Ann"}],
            idempotency_key=FIRST_MAIL,
        )


manager = Client()  # with TMS_KEY and TMS_URL
path = Path(secrets_path)
kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
contacts, message = ensure(manager.management.lists, "name", LIST), ensure(manager.management.messages, "name", MESSAGE)
kept = {"token": token_of(manager, kept), "webhook": webhook_secret_of(manager, kept)}
path.touch(mode=0o600)
path.write_text(json.dumps(kept), "utf-8")

domain = manager.management.domains.list(filters={"name": domain_name}).first()
if domain is None:
    domain = manager.management.domains.create({"name": domain_name})
print(f"records of {domain_name}:")
if not is_verified(manager, domain):
    sys.exit(f"Publish the records of {domain_name}, and run this program again.")
with Client(kept["token"]) as shop:
    send_once(shop, contacts.id, message.id)
print(f"{recipient} has got the first mail")
