"""One call of each operation with the generated Python client. It is type-checked as strictly as the client."""

from __future__ import annotations

from dataclasses import dataclass

from tms_client import AuthenticatedClient
from tms_client.api.automations import (
    automations_get,
    automations_get_run,
    automations_list,
    automations_list_runs,
    automations_pause,
    automations_resume,
    automations_validate,
)
from tms_client.api.contacts import (
    contacts_create,
    contacts_delete,
    contacts_delete_many,
    contacts_get,
    contacts_list,
    contacts_update,
    contacts_update_many,
)
from tms_client.api.groups import groups_get, groups_list
from tms_client.api.inbox import inbox_get, inbox_list
from tms_client.api.lists import lists_get, lists_list
from tms_client.api.messages import messages_get, messages_get_content, messages_list, messages_list_sent_contacts
from tms_client.api.root import root_get
from tms_client.api.sends import sends_cancel, sends_cancel_many, sends_create, sends_get, sends_list
from tms_client.api.suppressions import suppressions_add, suppressions_list, suppressions_remove
from tms_client.api.tags import tags_get
from tms_client.models import (
    AutomationCollection,
    AutomationDefinition,
    AutomationDefinitionKind,
    AutomationWithDefinition,
    Cancellation,
    CancelledMessages,
    CapturedMessageWithContent,
    Contact,
    ContactCollection,
    ContactList,
    ContactListCollection,
    ContactsDeleteManyFilters,
    ContactsListFilters,
    ContactsUpdate,
    ContactsWrite,
    ContactUpdate,
    ContactWrite,
    DryRun,
    Error,
    ForecastOutcome,
    Group,
    GroupCollection,
    Inbox,
    Message,
    MessageCollection,
    MessageContent,
    MessagesListFilters,
    Recipient,
    RecipientCollection,
    RecipientTimeline,
    Resumption,
    ResumptionHeld,
    Root,
    RunCollection,
    RunWithSteps,
    Send,
    SendAnswer,
    SendsListFilters,
    SendType,
    SentContactCollection,
    Suppression,
    SuppressionCollection,
    SuppressionWrite,
    SuppressionWriteState,
    TagCounts,
    ValidatedDefinition,
)

from tests.openapi.python_calls import Calls


@dataclass(frozen=True)
class Estate:
    """What the account has: a list, a message, an automation of the list, and a sender."""

    list_id: int
    list_name: str
    message_id: int
    automation_id: int
    captured_id: int
    from_address: str


class Smoke(Calls):
    """Calls the operations of a standard key."""

    def __init__(self, client: AuthenticatedClient, estate: Estate) -> None:
        super().__init__(client)
        self.estate = estate

    def lists(self) -> None:
        root = self.parsed("root.get", root_get.sync_detailed(client=self.client), Root)
        assert "contact.view" in root.access_token_scope.split(",")
        page = self.parsed("lists.list", lists_list.sync_detailed(client=self.client, limit=5), ContactListCollection)
        answer = lists_get.sync_detailed(self.estate.list_id, client=self.client)
        contact_list = self.parsed("lists.get", answer, ContactList)
        assert [list_.id for list_ in page.field_embedded.lists] == [contact_list.id]

    def contacts(self) -> None:
        list_id, client = self.estate.list_id, self.client
        draft = ContactWrite(email="ann@example.com", is_active=True)
        draft["first_name"] = "Ann"
        answers = [
            contacts_create.sync_detailed(list_id, client=client, body=draft, idempotency_key="ann-once")
            for _ in range(2)
        ]
        contact, again = (self.parsed("contacts.create", answer, Contact, 201) for answer in answers)
        assert contact.id == again.id
        assert answers[1].headers["Idempotent-Replayed"] == "true"
        many = ContactsWrite(contacts=[ContactWrite(email=f"{name}@example.com") for name in ("ben", "cleo")])
        self.empty("contacts.create", contacts_create.sync_detailed(list_id, client=client, body=many))
        filters = ContactsListFilters.from_dict({"first_name": "Ann", "id:in": f"{contact.id}..", "email:ne": "x@y.z"})
        none = contacts_list.sync_detailed(list_id, client=client, email="ann@example.com", filters=filters)
        assert self.parsed("contacts.list", none, ContactCollection).size == 0
        everyone = self.parsed("contacts.list", contacts_list.sync_detailed(list_id, client=client), ContactCollection)
        ids = [element.id for element in everyone.field_embedded.contacts]
        assert len(ids) == 3
        contact_read = self.parsed(
            "contacts.get", contacts_get.sync_detailed(list_id, contact.id, client=client), Contact
        )
        assert contact_read["first_name"] == "Ann"
        change = contacts_update.sync_detailed(
            list_id, contact.id, client=client, body=ContactWrite(double_opt_in=True)
        )
        assert self.parsed("contacts.update", change, Contact).double_opt_in_time is not None
        updates = ContactsUpdate(contacts=[ContactUpdate(id=id_, is_active=False) for id_ in ids])
        self.empty("contacts.update_many", contacts_update_many.sync_detailed(list_id, client=client, body=updates))
        self.empty("contacts.delete", contacts_delete.sync_detailed(list_id, ids[0], client=client))
        rest = ContactsDeleteManyFilters.from_dict({"id:in": ",".join(map(str, ids[1:]))})
        self.empty("contacts.delete_many", contacts_delete_many.sync_detailed(list_id, client=client, filters=rest))

    def sends(self) -> None:
        client, estate = self.client, self.estate
        recipient = Recipient(email="dora@example.com")
        recipient["code"] = "482913"
        body = Send(
            type_=SendType.EMAIL,
            list_id=estate.list_id,
            message_id=estate.message_id,
            group_name="Codes",
            from_address=estate.from_address,
            recipients=[recipient],
            tags=["codes"],
        )
        accepted = self.parsed("sends.create", sends_create.sync_detailed(client=client, body=body), SendAnswer, 202)
        (sent,) = accepted.field_embedded.recipients
        forecast = sends_create.sync_detailed(client=client, body=body, dry_run=True)
        (told,) = self.parsed("sends.create", forecast, DryRun).field_embedded.recipients
        assert told.outcome == ForecastOutcome.SEND
        timeline = self.parsed("sends.get", sends_get.sync_detailed(sent.uuid, client=client), RecipientTimeline)
        assert (timeline.uuid, timeline.email) == (sent.uuid, "dora@example.com")
        assert timeline.creation_time.utcoffset() is not None
        filters = SendsListFilters.from_dict({"state:ne": "bounced"})
        answer = sends_list.sync_detailed(client=client, email="dora@example.com", filters=filters)
        page = self.parsed("sends.list", answer, RecipientCollection)
        assert [recipient.uuid for recipient in page.field_embedded.recipients] == [sent.uuid]
        assert self.parsed("tags.get", tags_get.sync_detailed("codes", client=client), TagCounts).sent == 1
        groups = self.parsed("groups.list", groups_list.sync_detailed(client=client), GroupCollection)
        (group,) = groups.field_embedded.transactional_groups
        assert self.parsed("groups.get", groups_get.sync_detailed(group.id, client=client), Group).name == "Codes"
        cancelled = sends_cancel.sync_detailed(sent.uuid, client=client)
        assert self.parsed("sends.cancel", cancelled, RecipientTimeline).reason == "cancelled"
        again = sends_cancel_many.sync_detailed(client=client, body=Cancellation(uuids=[sent.uuid]))
        assert self.parsed("sends.cancel_many", again, CancelledMessages).size == 0

    def suppressions(self) -> None:
        client, email = self.client, "eve@example.com"
        body = SuppressionWrite(state=SuppressionWriteState.BLOCKED, email=email)
        self.parsed("suppressions.add", suppressions_add.sync_detailed(client=client, body=body), Suppression, 201)
        page = self.parsed("suppressions.list", suppressions_list.sync_detailed(client=client), SuppressionCollection)
        assert [suppression.email for suppression in page.field_embedded.suppressions] == [email]
        self.empty("suppressions.remove", suppressions_remove.sync_detailed(client=client, email=email))

    def messages(self) -> None:
        client, id_ = self.client, self.estate.message_id
        filters = MessagesListFilters.from_dict({"type:ne": "sms"})
        page = self.parsed(
            "messages.list", messages_list.sync_detailed(client=client, filters=filters), MessageCollection
        )
        assert [message.id for message in page.field_embedded.messages] == [id_]
        self.parsed("messages.get", messages_get.sync_detailed(id_, client=client, expand="content"), Message)
        self.parsed("messages.get_content", messages_get_content.sync_detailed(id_, client=client), MessageContent)
        sent = messages_list_sent_contacts.sync_detailed(id_, client=client)
        self.parsed("messages.list_sent_contacts", sent, SentContactCollection)

    def inbox(self) -> None:
        client, id_ = self.client, self.estate.captured_id
        page = self.parsed("inbox.list", inbox_list.sync_detailed(client=client, address="ann@example.com"), Inbox)
        assert [message.id for message in page.field_embedded.messages] == [id_]
        captured = self.parsed("inbox.get", inbox_get.sync_detailed(id_, client=client), CapturedMessageWithContent)
        assert captured.content.endswith("Hello")

    def automations(self) -> None:
        client, id_ = self.client, self.estate.automation_id
        self.parsed("automations.list", automations_list.sync_detailed(client=client), AutomationCollection)
        self.parsed("automations.get", automations_get.sync_detailed(id_, client=client), AutomationWithDefinition)
        runs = self.parsed(
            "automations.list_runs", automations_list_runs.sync_detailed(id_, client=client), RunCollection
        ).field_embedded.runs
        answer = automations_get_run.sync_detailed(id_, runs[0].id, client=client)
        assert self.parsed("automations.get_run", answer, RunWithSteps).passed_steps == []
        self.parsed("automations.pause", automations_pause.sync_detailed(id_, client=client), AutomationWithDefinition)
        how = Resumption(held=ResumptionHeld.SHIFT)
        resumed = automations_resume.sync_detailed(id_, client=client, body=how)
        assert self.parsed("automations.resume", resumed, AutomationWithDefinition).paused_time is None
        definition = AutomationDefinition(
            name="Reminder",
            kind=AutomationDefinitionKind.STANDARD,
            list_=self.estate.list_name,
            trigger="When a Contact is created from the REST API",
            message="Welcome",
        )
        validated = automations_validate.sync_detailed(client=client, body=definition)
        assert self.parsed("automations.validate", validated, ValidatedDefinition).definition["name"] == "Reminder"

    def errors(self) -> None:
        refused = lists_get.sync_detailed(999_999_999, client=self.client)
        assert self.parsed("lists.get", refused, Error, 404).code == "not_found"


def call_every_operation(client: AuthenticatedClient, estate: Estate) -> set[str]:
    """The ids of the operations that were called; fails where a response is not as described."""
    smoke = Smoke(client, estate)
    for part in (
        smoke.lists,
        smoke.contacts,
        smoke.sends,
        smoke.suppressions,
        smoke.messages,
        smoke.inbox,
        smoke.automations,
        smoke.errors,
    ):
        part()
    return smoke.called
