"""The definition of senders of text messages, for all doors (docs/sending.md#senders)."""

from __future__ import annotations

from sqlalchemy.orm import outerjoin

from app.accounts.auth import MANAGE
from app.accounts.sessions import OPERATOR
from app.db.models import List, SmsSender
from app.ids import shown_id
from app.resources.definition import Attribute, Choice, Flag, Number, Reference, ResourceDefinition, Text
from app.senders.senders import KINDS, create_sender, update_sender
from app.senders.uses import uses_of_sender

RESOURCE = ResourceDefinition(
    noun="sender",
    plural="senders",
    meaning="Senders: the numbers and names from which an account sends text messages.",
    model=SmsSender,
    source=outerjoin(SmsSender, List, List.id == SmsSender.list_id),
    key="address",
    attributes=(
        Attribute.of(SmsSender.id),
        Attribute.of(
            SmsSender.address,
            heading="Sender",
            kind=Text(),
            meaning="Number in international format, or a name of up to 11 letters and digits",
            is_required=True,
            is_fixed=True,
        ),
        Attribute.of(SmsSender.kind, heading="Kind", kind=Choice(KINDS), meaning="Kind of sender", is_required=True),
        Attribute.of(SmsSender.list_id, format_value=shown_id),
        Attribute(
            key="list",
            column=List.name,
            heading="List",
            empty_meaning="any",
            kind=Reference(List, "list", "list_id"),
            meaning="Only list that can use this sender, by name or id",
        ),
        Attribute.of(
            SmsSender.messages_per_second,
            heading="Messages per second",
            empty_meaning="no limit",
            kind=Number(),
            option="rate",
            meaning="Messages per second that the gateway accepts from this sender",
        ),
        Attribute.of(
            SmsSender.note,
            heading="Note",
            empty_meaning="none",
            kind=Text(),
            meaning="Note, such as the purpose or the registration",
        ),
        Attribute.of(SmsSender.creation_time, heading="Approved"),
        Attribute(
            key="shared",
            kind=Flag(),
            meaning="Approve the number even if another account has it (replies go to the account that wrote last)",
            is_fixed=True,
        ),
    ),
    sentences={
        "list": "Show the senders of one account or of all accounts.",
        "show": "Show a sender.",
        "create": "Approve a sender: a number in international format, or up to 11 letters and digits.",
        "update": "Change the kind, list, rate or note of a sender.",
        "delete": "Withdraw the approval of a sender. Waiting messages are retried until their retry period ends.",
    },
    scopes={"list": "contact.view", "create": OPERATOR, "delete": MANAGE},
    buttons={"create": "Approve", "delete": "Withdraw"},
    done={"create": "The sender was approved.", "delete": "The approval was withdrawn."},
    empty="No sender yet. An operator must approve a number or a name before it can send text messages.",
    loss="New text messages from it are refused. Waiting ones are retried until their retry period ends.",
    uses=uses_of_sender,
    create=create_sender,
    update=update_sender,
    seed_key="sms_senders",
)
