"""Creating and changing lists and their fields (docs/contacts.md#lists)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from sqlalchemy import case, func, null, select, update
from sqlalchemy.orm import Session

from app.clock import this_second
from app.db.json_fields import without_member
from app.db.locks import IDENTIFIERS, advisory_lock
from app.db.lookup import find_by_name
from app.db.models import Contact, List, ListField
from app.db.models.base import apply_changes
from app.errors import ServiceError
from app.lists.fields import ADDRESS_KEYS, FIELD_TYPES, field_key
from app.names import CONTROL, check_name

EMAIL, MOBILE = "Email", "Mobile Phone"
CHOICE_TYPES = ("Dropdown", "Radio Buttons", "Checkbox")
LONGEST_STOP_WORD = 50
LONGEST_OPTION = 1000
MAX_OPTION_TEXT = 250_000
"""Characters of all options of a list together: every request about its contacts reads them."""
LONGEST_OFFERED = {"offered_name": 100, "offered_description": 500}
"""Text of the preferences page -> its longest length in characters."""
MAX_FIELDS = 500
"""Fields of a list: every contact that is read has all of them."""
MAX_OFFERED_LISTS = 50
"""Lists that an account offers: more do not fit a page on which a person chooses."""


def create_list(session: Session, account_id: int, attributes: Mapping[str, Any]) -> List:
    """Creates a list without fields. `attributes` are `name` (required), `system`, `allow_duplicates`, `stop_words`,
    `offered`, `offered_name`, `offered_description`.

    Raises `ServiceError`: `conflict` if the name is taken, otherwise like `update_list`.
    """
    if attributes.get("name") is None:
        raise ServiceError("required", field="name")
    _check_free(session, account_id, attributes["name"])
    _check(attributes)
    if attributes.get("offered"):
        _check_may_be_offered(session, account_id)
    moment = this_second()
    contact_list = List(account_id=account_id, creation_time=moment, last_modified_time=moment, **attributes)
    session.add(contact_list)
    session.flush()
    return contact_list


def update_list(session: Session, row: List, attributes: Mapping[str, Any]) -> bool:
    """Changes the attributes; returns whether any differed.

    Raises `ServiceError`: `conflict` if the name is taken, if duplicates are forbidden while there are some, or if the
    account offers as many lists as it may; `not_empty`, `too_long` or `invalid_string` for a name, a stop word or the
    description.
    """
    if attributes.get("name", row.name) != row.name:
        _check_free(session, row.account_id, attributes["name"])
    _check(attributes)
    if attributes.get("offered") and not row.offered:
        _check_may_be_offered(session, row.account_id)
    changes_rules = attributes.get("allow_duplicates", row.allow_duplicates) != row.allow_duplicates
    if changes_rules:
        _lock_identifiers(session, row)
    if not apply_changes(row, attributes):
        return False
    session.flush()
    if changes_rules:
        _refresh_identifiers(session, row)
    return True


def fields_of(session: Session, row: List) -> list[ListField]:
    """The fields of the list in their order."""
    statement = select(ListField).where(ListField.list_id == row.id).order_by(ListField.position, ListField.id)
    return list(session.scalars(statement))


def add_field(session: Session, row: List, name: str, type_: str, options: Sequence[str] = ()) -> ListField:
    """Adds a field at the end of the list.

    Raises `ServiceError`: `conflict` for a second field with the same key or of an address type, and for a list that
    has as many fields as it may; `invalid_string` for an unknown type, a name without letters and digits, or wrong
    options (docs/contacts.md#list-fields); `too_long` for options that are too much for a list.
    """
    present = fields_of(session, row)
    field = _new_field(row, present, name, type_, options)
    _check_option_text([*present, field], _option_text(present))
    session.add(field)
    _write_changes(session, row, [field])
    return field


def apply_fields(session: Session, row: List, entries: Sequence[Mapping[str, Any]]) -> bool:
    """Adds the fields that the list does not have by their `name`, and gives the others the `type` and the `options` of
    their entry, without `options` those that they have; returns whether anything changed. A type can change only while
    the list has no contacts, whose values might be invalid for the new type. Raises what `add_field` raises, and
    `conflict` for a type that cannot change, with the position of the entry in `fields`."""
    if not entries:
        return False
    present, new, changed = fields_of(session, row), list[ListField](), False
    option_text = _option_text(present)
    by_name, has_contacts = {field.name: field for field in present}, cache(partial(_has_contacts, session, row))
    for index, entry in enumerate(entries):
        name, type_, field = entry["name"], entry["type"], by_name.get(entry["name"])
        try:
            if field is None:
                by_name[name] = _new_field(row, present, name, type_, entry.get("options", []))
                new.append(by_name[name])
                present.append(by_name[name])
            else:
                options = entry.get("options", field.options)
                changed |= _change_field(present, field, type_, options, has_contacts)
        except ServiceError as error:
            raise error.within("fields", index) from None
    _check_option_text(present, option_text)
    if new or changed:
        session.bulk_save_objects(new)
        _write_changes(session, row, new)
    return bool(new) or changed


def _new_field(row: List, present: Sequence[ListField], name: str, type_: str, options: Sequence[str]) -> ListField:
    """A field behind those that are present, which is not stored."""
    key = _key(name, type_)
    check_options(type_, options)
    if len(present) >= MAX_FIELDS:
        detail = f"the list already has {MAX_FIELDS} fields, which is the maximum"
        raise ServiceError("conflict", field="name", detail=detail)
    _check_room(present, name, key, type_)
    return ListField(
        account_id=row.account_id,
        list_id=row.id,
        position=max((field.position for field in present), default=-1) + 1,
        name=name,
        key=key,
        type=type_,
        options=list(options),
    )


def _change_field(
    present: Sequence[ListField], field: ListField, type_: str, options: Sequence[str], has_contacts: Callable[[], bool]
) -> bool:
    """Changes type and options, which are not written yet; returns whether any differed."""
    key = _key(field.name, type_)
    if (type_, options) != (field.type, field.options):
        check_options(type_, options)
    if type_ != field.type:
        if has_contacts():
            detail = f"is {field.type} and cannot change while the list has contacts"
            raise ServiceError("conflict", field="type", detail=detail)
        _check_room([other for other in present if other is not field], field.name, key, type_)
    return apply_changes(field, {"type": type_, "key": key, "options": list(options)})


def _write_changes(session: Session, row: List, new: Sequence[ListField]) -> None:
    """Writes what has changed, and the identifiers that contacts have by new fields."""
    changes_rules = any(field.type in ADDRESS_KEYS for field in new)
    if changes_rules:
        _lock_identifiers(session, row)
    row.last_modified_time = this_second()
    session.flush()
    if changes_rules:
        _refresh_identifiers(session, row)


def check_options(type_: str, options: Sequence[str]) -> None:
    """Raises `ServiceError` unless the options can be those of a field of this type."""
    if options and type_ not in CHOICE_TYPES:
        raise ServiceError("unexpected_field", field="options", detail=f"a field of the type {type_} has no options")
    earlier = set[str]()
    for index, option in enumerate(options):
        field = f"options.{index}"
        if not option.strip() or len(option) > LONGEST_OPTION:
            raise ServiceError("invalid_string", field=field, detail=f"must have 1 to {LONGEST_OPTION} characters")
        if CONTROL.search(option):
            raise ServiceError("invalid_string", field=field, detail="contains a control character")
        if option in earlier:
            raise ServiceError("conflict", field=field, detail=f"{option!r} is named twice")
        earlier.add(option)
        if type_ == "Checkbox" and "," in option:
            detail = "an option of a Checkbox cannot contain a comma, because commas separate selected options"
            raise ServiceError("invalid_string", field=field, detail=detail)


def _option_text(fields: Sequence[ListField]) -> int:
    """How many characters their options have."""
    return sum(len(option) for field in fields for option in field.options)


def _check_option_text(fields: Sequence[ListField], before: int) -> None:
    """Raises `too_long` for options with too much text. Those of a list that had more, from before the limit, may not
    get more."""
    if _option_text(fields) > max(before, MAX_OPTION_TEXT):
        detail = f"all options together have more than {MAX_OPTION_TEXT:,} characters"
        raise ServiceError("too_long", field="fields", detail=detail)


def _check_free(session: Session, account_id: int, name: str) -> None:
    advisory_lock(session, "names of lists", account_id)
    if find_by_name(session, List, account_id, name) is not None:
        raise ServiceError("conflict", field="name", detail=f"the account already has a list {name!r}")


def _check(attributes: Mapping[str, Any]) -> None:
    if "name" in attributes:
        check_name(attributes["name"])
    for index, word in enumerate(attributes.get("stop_words", ())):
        if not word.strip() or not word.isprintable() or len(word) > LONGEST_STOP_WORD:
            detail = f"a stop word has 1 to {LONGEST_STOP_WORD} printable characters"
            raise ServiceError("invalid_string", field=f"stop_words.{index}", detail=detail)
    for field, longest in LONGEST_OFFERED.items():
        if attributes.get(field) is not None:
            check_name(attributes[field], field, longest)


def _check_may_be_offered(session: Session, account_id: int) -> None:
    offered = select(func.count()).select_from(List).where(List.account_id == account_id, List.offered)
    if session.execute(offered).scalar_one() >= MAX_OFFERED_LISTS:
        detail = f"the account already offers {MAX_OFFERED_LISTS} lists, which is the maximum"
        raise ServiceError("conflict", field="offered", detail=detail)


def _key(name: str, type_: str) -> str:
    check_name(name)
    if type_ not in FIELD_TYPES:
        raise ServiceError("invalid_string", field="type", detail=f"{type_!r} is not one of {', '.join(FIELD_TYPES)}")
    key = field_key(name) or ADDRESS_KEYS.get(type_)
    if not key:
        raise ServiceError("invalid_string", field="name", detail=f"{name!r} has no letter or digit to make a key of")
    return key


def _check_room(present: Sequence[ListField], name: str, key: str, type_: str) -> None:
    for other in present:
        if type_ in ADDRESS_KEYS and other.type == type_:
            detail = f"a list can have only one field of the type {type_}, and {other.name!r} has this type"
            raise ServiceError("conflict", field="type", detail=detail)
        if other.key == key:
            detail = f"{name!r} has the key {key}, which is also the key of the field {other.name!r}"
            raise ServiceError("conflict", field="name", detail=detail)


def _has_contacts(session: Session, row: List) -> bool:
    """Whether the list has contacts. If it has none, none gets an address before the end of this transaction; one
    without an address may be created meanwhile, with values of the type before."""
    _lock_identifiers(session, row)
    return session.scalar(select(Contact.id).where(Contact.list_id == row.id).limit(1)) is not None


def _lock_identifiers(session: Session, row: List) -> None:
    """Waits for those that give contacts of the list addresses or change it, and lets none of them do so before the end
    of this transaction: they go by the rules that they find after it."""
    locked = select(List).where(List.account_id == row.account_id, List.id == row.id).with_for_update(key_share=True)
    session.execute(locked, execution_options={"populate_existing": True})
    advisory_lock(session, IDENTIFIERS, row.id)


def _unique_address(session: Session, row: List) -> Any:
    """The column with the address that no two contacts of the list share; None if there is none."""
    if row.allow_duplicates:
        return None
    types = {field.type for field in fields_of(session, row)}
    return Contact.email_key if EMAIL in types else Contact.mobile if MOBILE in types else None


def _refresh_identifiers(session: Session, row: List) -> None:
    """Sets the identifier of every contact by the current rules of the list (docs/contacts.md#identifiers)."""
    address = _unique_address(session, row)
    if address is not None:
        _check_no_duplicates(session, row, address)
    session.execute(update(Contact).where(Contact.list_id == row.id).values(identifier=address))


def follow_rules(session: Session, row: List) -> None:
    """Sets the identifiers of a list whose rules were changed without a look at its contacts: of several with one
    address the oldest gets it."""
    _lock_identifiers(session, row)
    address = identifier = _unique_address(session, row)
    if address is not None:
        oldest = select(func.min(Contact.id)).where(Contact.list_id == row.id).group_by(address)
        identifier = case((Contact.id.in_(oldest), address), else_=null())
    changed = update(Contact).where(Contact.list_id == row.id).values(identifier=identifier)
    session.execute(changed, execution_options={"synchronize_session": False})


def clear_values(session: Session, row: List, key: str) -> None:
    """Removes the values of a field from the list's contacts."""
    has_value = Contact.list_id == row.id, Contact.values[key].as_string().is_not(None)
    cleared = {"values": without_member(Contact.values, key), "last_modified_time": this_second()}
    statement = update(Contact).where(*has_value).values(cleared)
    session.execute(statement, execution_options={"synchronize_session": False})


def _check_no_duplicates(session: Session, row: List, address: Any) -> None:
    statement = (
        select(address)
        .where(Contact.list_id == row.id, address.is_not(None))
        .group_by(address)
        .having(func.count() > 1)
        .limit(1)
    )
    duplicate = session.execute(statement).scalar()
    if duplicate is not None:
        raise ServiceError("conflict", field="allow_duplicates", detail=f"the list has {duplicate} more than once")
