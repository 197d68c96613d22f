"""One call of each operation of `/v1/management` with the generated Python client, type-checked as strictly as it."""

from __future__ import annotations

from tms_client import AuthenticatedClient
from tms_client.api.management import (
    management_automations_create,
    management_automations_delete,
    management_automations_get,
    management_automations_list,
    management_automations_update,
    management_domains_check,
    management_domains_create,
    management_domains_delete,
    management_domains_get,
    management_domains_list,
    management_domains_rotate,
    management_domains_update,
    management_keys_create,
    management_keys_delete,
    management_keys_get,
    management_keys_list,
    management_keys_rotate,
    management_keys_update,
    management_lists_create,
    management_lists_delete,
    management_lists_get,
    management_lists_list,
    management_lists_update,
    management_messages_create,
    management_messages_delete,
    management_messages_get,
    management_messages_list,
    management_messages_preview,
    management_messages_update,
    management_senders_delete,
    management_senders_get,
    management_senders_list,
    management_senders_update,
    management_webhooks_add_secret,
    management_webhooks_check,
    management_webhooks_create,
    management_webhooks_delete,
    management_webhooks_get,
    management_webhooks_list,
    management_webhooks_remove_secret,
    management_webhooks_test,
    management_webhooks_update,
)
from tms_client.models import (
    AutomationCollection,
    AutomationDefinition,
    AutomationDefinitionKind,
    AutomationWithDefinition,
    DomainCreate,
    DomainRotation,
    DomainUpdate,
    Error,
    GeneratedSecret,
    KeyCreate,
    KeyCreateAccessLevel,
    KeyRotation,
    KeyUpdate,
    KeyUpdateAccessLevel,
    KeyWithToken,
    ListCreate,
    ListFieldWrite,
    ListFieldWriteType,
    ListUpdate,
    ManagedDomain,
    ManagedDomainCollection,
    ManagedKey,
    ManagedKeyCollection,
    ManagedList,
    ManagedListCollection,
    ManagedMessageCollection,
    ManagedMessageWithContent,
    ManagedSender,
    ManagedSenderCollection,
    ManagedWebhook,
    ManagedWebhookCollection,
    ManagementListsDeleteConfirm,
    MessageCreate,
    MessageCreateType,
    MessagePreview,
    MessageUpdate,
    NewSecret,
    PreviewedMessage,
    RotatedKey,
    SenderUpdate,
    WebhookCreate,
    WebhookUpdate,
    WebhookWithSecret,
)

from tests.openapi.python_calls import Calls

TRIGGER = "When a Contact is created from the REST API"


class ManagementCalls(Calls):
    """Calls the operations of a key of the level manager."""

    def __init__(self, client: AuthenticatedClient, sender_id: int) -> None:
        super().__init__(client)
        self.sender_id = sender_id

    def lists_messages_and_automations(self) -> None:
        """A list and a message, and an automation of both."""
        client = self.client
        field = ListFieldWrite(name="Email", type_=ListFieldWriteType.EMAIL)
        answer = management_lists_create.sync_detailed(client=client, body=ListCreate(name="Members", fields=[field]))
        list_id = self.parsed("management.lists.create", answer, ManagedList, 201).id
        page = management_lists_list.sync_detailed(client=client, name="Members")
        (item,) = self.parsed("management.lists.list", page, ManagedListCollection).field_embedded.lists
        assert [part.name for part in item.fields] == ["Email"]
        self.parsed("management.lists.get", management_lists_get.sync_detailed(list_id, client=client), ManagedList)
        change = management_lists_update.sync_detailed(list_id, client=client, body=ListUpdate(offered=True))
        assert self.parsed("management.lists.update", change, ManagedList).offered
        self.messages()
        self.automations()
        confirm = ManagementListsDeleteConfirm.CONTACTS
        self.empty(
            "management.lists.delete", management_lists_delete.sync_detailed(list_id, client=client, confirm=confirm)
        )

    def messages(self) -> None:
        """A message that stays, for the automation, and another one."""
        client = self.client
        for name in ("Receipt", "Draft"):
            body = MessageCreate(name=name, type_=MessageCreateType.EMAIL, subject="Hi", body_text="%%amount%%")
            answer = management_messages_create.sync_detailed(client=client, body=body)
            id_ = self.parsed("management.messages.create", answer, ManagedMessageWithContent, 201).id
        pages = management_messages_list.sync_detailed(client=client, limit=1)
        assert self.parsed("management.messages.list", pages, ManagedMessageCollection).size == 1
        item = management_messages_get.sync_detailed(id_, client=client)
        assert self.parsed("management.messages.get", item, ManagedMessageWithContent).body_text == "%%amount%%"
        change = management_messages_update.sync_detailed(id_, client=client, body=MessageUpdate(subject=None))
        assert self.parsed("management.messages.update", change, ManagedMessageWithContent).subject is None
        recipients = [{"email": "ann@example.com", "amount": "12.50"}]
        preview = MessagePreview.from_dict({"recipients": recipients})
        preview_answer = management_messages_preview.sync_detailed(id_, client=client, body=preview)
        assert self.parsed("management.messages.preview", preview_answer, PreviewedMessage).body_text == "12.50"
        self.empty("management.messages.delete", management_messages_delete.sync_detailed(id_, client=client))

    def automations(self) -> None:
        """An automation."""
        client = self.client
        kind = AutomationDefinitionKind.STANDARD
        body = AutomationDefinition(name="Hello", kind=kind, list_="Members", trigger=TRIGGER, message="Receipt")
        answer = management_automations_create.sync_detailed(client=client, body=body)
        id_ = self.parsed("management.automations.create", answer, AutomationWithDefinition, 201).id
        page = management_automations_list.sync_detailed(client=client)
        assert self.parsed("management.automations.list", page, AutomationCollection).size >= 1
        item = management_automations_get.sync_detailed(id_, client=client)
        self.parsed("management.automations.get", item, AutomationWithDefinition)
        body.after = "2 hours"
        change = management_automations_update.sync_detailed(id_, client=client, body=body)
        assert self.parsed("management.automations.update", change, AutomationWithDefinition).version == 2
        self.empty("management.automations.delete", management_automations_delete.sync_detailed(id_, client=client))

    def webhooks(self) -> None:
        """A webhook with its secrets. Its check is refused, because it was accepted."""
        client, url = self.client, "https://127.0.0.1/events"
        answer = management_webhooks_create.sync_detailed(client=client, body=WebhookCreate(url=url))
        made = self.parsed("management.webhooks.create", answer, WebhookWithSecret, 201)
        assert isinstance(made.generated_secret, GeneratedSecret)
        id_ = made.id
        page = management_webhooks_list.sync_detailed(client=client, url_query=url)
        assert self.parsed("management.webhooks.list", page, ManagedWebhookCollection).size == 1
        item = management_webhooks_get.sync_detailed(id_, client=client)
        assert self.parsed("management.webhooks.get", item, ManagedWebhook).events is None
        change = management_webhooks_update.sync_detailed(id_, client=client, body=WebhookUpdate(events=["contact"]))
        self.parsed("management.webhooks.update", change, ManagedWebhook)
        secret = management_webhooks_add_secret.sync_detailed(id_, client=client, body=NewSecret(id="k2"))
        self.parsed("management.webhooks.add_secret", secret, WebhookWithSecret, 201)
        removed = management_webhooks_remove_secret.sync_detailed(id_, "k1", client=client)
        self.empty("management.webhooks.remove_secret", removed)
        tested = management_webhooks_test.sync_detailed(id_, client=client)
        assert self.parsed("management.webhooks.test", tested, ManagedWebhook).waiting_events == 1
        checked = management_webhooks_check.sync_detailed(id_, client=client)
        assert self.parsed("management.webhooks.check", checked, Error, 409).code == "conflict"
        self.empty("management.webhooks.delete", management_webhooks_delete.sync_detailed(id_, client=client))

    def domains(self) -> None:
        """A sending domain with its records."""
        client, name = self.client, "news.acme.example"
        answer = management_domains_create.sync_detailed(client=client, body=DomainCreate(name=name))
        id_ = self.parsed("management.domains.create", answer, ManagedDomain, 201).id
        page = management_domains_list.sync_detailed(client=client, name=name)
        (item,) = self.parsed("management.domains.list", page, ManagedDomainCollection).field_embedded.domains
        assert item.records[0].name == name
        item_answer = management_domains_get.sync_detailed(id_, client=client)
        assert self.parsed("management.domains.get", item_answer, ManagedDomain).verified is False
        host = DomainUpdate(tracking_host=f"go.{name}")
        change = management_domains_update.sync_detailed(id_, client=client, body=host)
        assert self.parsed("management.domains.update", change, ManagedDomain).tracking_host == f"go.{name}"
        rotated = management_domains_rotate.sync_detailed(id_, client=client, body=DomainRotation(selector="autumn"))
        assert len(self.parsed("management.domains.rotate", rotated, ManagedDomain).keys) == 4
        checked = management_domains_check.sync_detailed(id_, client=client)
        assert self.parsed("management.domains.check", checked, ManagedDomain, 202).is_checked
        self.empty("management.domains.delete", management_domains_delete.sync_detailed(id_, client=client))

    def senders(self) -> None:
        """A sender that an operator has approved."""
        client, id_ = self.client, self.sender_id
        page = management_senders_list.sync_detailed(client=client)
        assert self.parsed("management.senders.list", page, ManagedSenderCollection).size == 1
        item = management_senders_get.sync_detailed(id_, client=client)
        assert self.parsed("management.senders.get", item, ManagedSender).note is None
        change = management_senders_update.sync_detailed(id_, client=client, body=SenderUpdate(note="Parcels"))
        assert self.parsed("management.senders.update", change, ManagedSender).note == "Parcels"
        self.empty("management.senders.delete", management_senders_delete.sync_detailed(id_, client=client))

    def keys(self) -> None:
        """A key, and the one that has its name afterwards."""
        client = self.client
        body = KeyCreate(name="shop", access_level=KeyCreateAccessLevel.STANDARD)
        made = self.parsed(
            "management.keys.create",
            management_keys_create.sync_detailed(client=client, body=body),
            KeyWithToken,
            201,
        )
        page = management_keys_list.sync_detailed(client=client, name="shop")
        (item,) = self.parsed("management.keys.list", page, ManagedKeyCollection).field_embedded.keys
        assert made.token.startswith(item.begins_with)
        self.parsed("management.keys.get", management_keys_get.sync_detailed(made.id, client=client), ManagedKey)
        level = KeyUpdate(access_level=KeyUpdateAccessLevel.LIMITED)
        change = management_keys_update.sync_detailed(made.id, client=client, body=level)
        assert self.parsed("management.keys.update", change, ManagedKey).access_level == "limited"
        rotated = management_keys_rotate.sync_detailed(made.id, client=client, body=KeyRotation(overlap_hours=1))
        assert self.parsed("management.keys.rotate", rotated, RotatedKey, 201).former_key.id == made.id
        self.empty("management.keys.delete", management_keys_delete.sync_detailed(made.id, client=client))


def call_every_operation(client: AuthenticatedClient, sender_id: int) -> set[str]:
    """The ids of the operations that were called; fails where a response is not as described."""
    calls = ManagementCalls(client, sender_id)
    for part in (
        calls.lists_messages_and_automations,
        calls.webhooks,
        calls.domains,
        calls.senders,
        calls.keys,
    ):
        part()
    return calls.called
