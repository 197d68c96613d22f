"""Stored messages with their content, as programs set them up (docs/management.md#messages)."""

from __future__ import annotations

from app.addresses import MESSAGE_TYPES
from app.db.database import Transaction
from app.db.models import Message
from app.management.noun import CreatedRow, Item, ManagedNoun, Manager, Values, item_path, shape_of, with_properties
from app.messages.define import create_message, update_message
from app.messages.read import PROPERTIES
from app.query.fields import FilterType
from app.query.reader import Property
from app.sends.accept.accept import LoadDraft
from app.sends.dry_run.dry_run import preview, recipient_forecast

CONTENT_ATTRIBUTES = ("subject", "from_name", "from_address", "reply_to", "body_html", "body_text")
"""What a preview shows of a message."""
BODIES = {"body_html": Property(Message.body_html), "body_text": Property(Message.body_text)}
FILTERS = {
    "id": FilterType.INTEGER,
    "name": FilterType.STRING,
    "type": FilterType.ENUM,
    "creation_time": FilterType.TIMESTAMP,
    "last_modified_time": FilterType.TIMESTAMP,
}


def create(transaction: Transaction, manager: Manager, values: Values) -> CreatedRow:
    """Creates a message with its content. Raises what `create_message` raises."""
    return CreatedRow(create_message(transaction, manager.account_id, values), {})


def update(transaction: Transaction, _manager: Manager, row: Message, values: Values) -> None:
    """Changes a message, by a new version. Raises what `update_message` raises."""
    update_message(transaction, row, values)


def delete(transaction: Transaction, _manager: Manager, row: Message) -> None:
    """Deletes a message. Reports of its sends are kept."""
    transaction.delete(row)


def preview_message(manager: Manager, message: Message, values: Values, load: LoadDraft, request_id: str) -> Item:
    """The message as a recipient would get it, with the content of `values` in place of what is stored: what would
    become of it, why a send of it would be refused, and markers that stay as written. `list_id` and `recipients`, of
    which there is at most one, are as in a send. `load` validates the body of a send, and raises its errors."""
    stored = {name: getattr(message, name) for name in CONTENT_ATTRIBUTES}
    previewed = preview(
        manager.services,
        message.account_id,
        message.type,
        {**stored, **{name: values[name] for name in CONTENT_ATTRIBUTES if name in values}},
        list_id=values.get("list_id"),
        recipient=next(iter(values.get("recipients", ())), {}),
        load=load,
        request_id=request_id,
    )
    return {
        **recipient_forecast(previewed.forecast, None),
        "skip": previewed.skip and previewed.skip.value,
        "refusals": [{"code": refusal.code, "detail": refusal.developer_message} for refusal in previewed.refusals],
        "invalid_markup": previewed.markup,
        "_links": {"self": {"href": f"{item_path('messages', message.id)}/preview"}},
    }


SHAPE = shape_of(Message, "message", "messages", PROPERTIES, FILTERS, options={"type": MESSAGE_TYPES})
MESSAGES = ManagedNoun(
    model=Message,
    shape=SHAPE,
    whole=with_properties(SHAPE, {**PROPERTIES, **BODIES}),
    create=create,
    most=10_000,
    update=update,
    delete=delete,
)
