"""The definition of senders of text messages, for all doors (docs/sending.md#senders)."""

from __future__ import annotations

from sqlalchemy.orm import outerjoin

from app.accounts.sessions import MANAGE, OPERATOR
from app.db.models import List, SmsSender
from app.ids import shown_id
from app.resources.definition import Attribute, Choice, Flag, Number, Reference, ResourceDefinition, Text
from app.senders.senders import KINDS, create_sender, update_sender

RESOURCE = ResourceDefinition(
    noun="sender",
    plural="senders",
    meaning="Senders that the account may send text messages from.",
    model=SmsSender,
    source=outerjoin(SmsSender, List, List.id == SmsSender.list_id),
    key="address",
    attributes=(
        Attribute(key="id", column=SmsSender.id),
        Attribute(
            key="address",
            column=SmsSender.address,
            heading="Sender",
            kind=Text(),
            meaning="Number in international format, or a name of up to 11 letters and digits",
            is_required=True,
            is_fixed=True,
        ),
        Attribute(
            key="kind",
            column=SmsSender.kind,
            heading="Kind",
            kind=Choice(KINDS),
            meaning="Kind",
            is_required=True,
        ),
        Attribute(key="list_id", column=SmsSender.list_id, format_value=shown_id),
        Attribute(
            key="list",
            column=List.name,
            heading="Only for the list",
            empty_meaning="any",
            kind=Reference(List, "list", "list_id"),
            meaning="The only list that it may be used for, by its name or id",
        ),
        Attribute(
            key="messages_per_second",
            column=SmsSender.messages_per_second,
            heading="Messages per second",
            empty_meaning="no limit",
            kind=Number(),
            option="rate",
            meaning="Messages per second that the gateway accepts from it",
        ),
        Attribute(
            key="note",
            column=SmsSender.note,
            heading="Note",
            empty_meaning="none",
            kind=Text(),
            meaning="What it is for, or where it is registered",
        ),
        Attribute(key="creation_time", column=SmsSender.creation_time, heading="Approved"),
        Attribute(
            key="shared",
            kind=Flag(),
            meaning="Also if another account has the number: replies go to who wrote last",
            is_fixed=True,
        ),
    ),
    sentences={
        "list": "Show the senders of an account, or of all.",
        "show": "Show a sender.",
        "create": "Approve a sender: a number in international format, or up to 11 letters and digits.",
        "update": "Change kind, list, rate or note of a sender.",
        "delete": "Withdraw the approval of a sender; what waits is sent once it is approved again.",
    },
    scopes={"list": "contact.view", "create": OPERATOR, "delete": MANAGE},
    buttons={"create": "Approve", "delete": "Withdraw"},
    empty="No sender yet. Text messages are sent only from numbers and names that an operator has approved.",
    create=create_sender,
    update=update_sender,
    seed_key="sms_senders",
)
