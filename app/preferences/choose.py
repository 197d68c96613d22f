"""What a person chooses on the preferences page, and what that does (docs/preferences.md#what-a-choice-does)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from app.addresses import ADDRESS_KINDS, AddressKind
from app.clock import this_second
from app.contacts.events import record_contact_events
from app.contacts.forgotten import restore_addresses
from app.contacts.get_or_create import lock_lists
from app.contacts.join import join_lists
from app.contacts.subscriptions import resubscribe_entries, unsubscribe_entries
from app.db.database import Transaction
from app.errors import ServiceError
from app.lists.define import MAX_OFFERED_LISTS
from app.preferences.offered import Channel, OfferedList, offered_lists, with_channels
from app.tracking.feedback_channels import (
    UnsubscribeRequest,
    lock_for_request,
    record_resubscribed,
    record_unsubscribed,
)

MAX_FIELDS = 2 * len(ADDRESS_KINDS) * MAX_OFFERED_LISTS
"""Fields of a form: each channel of each list, as the page has shown it and as it is chosen."""
CHANNEL = re.compile(r"(email|mobile)-([0-9]{1,19})")
ALL_CHANNELS: dict[str, tuple[AddressKind, bool]] = {
    f"{kind}-{word}": (kind, word == "on") for kind in ADDRESS_KINDS for word in ("off", "on")
}
"""Value of a button -> the kind of the channels that it switches, and whether on."""


ChannelKey = tuple[int, AddressKind]
"""Id of a list, as everybody outside knows it, and kind of address."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a form changes: channels that are switched off and on, or all of one kind."""

    off: frozenset[ChannelKey] = frozenset()
    on: frozenset[ChannelKey] = frozenset()
    all_off: AddressKind | None = None
    all_on: AddressKind | None = None

    @property
    def has_on(self) -> bool:
        """Whether anything is switched on."""
        return bool(self.on or self.all_on)

    def is_off(self, key: ChannelKey) -> bool:
        """Whether the channel is switched off."""
        return key in self.off or key[1] == self.all_off

    def is_on(self, key: ChannelKey) -> bool:
        """Whether the channel is switched on."""
        return key in self.on or key[1] == self.all_on


def read_choices(fields: Iterable[tuple[str, str]]) -> Choices:
    """The choices of a form. `was` names each channel that the page showed as on, `on` each that is chosen; only what
    differs is changed, so that an old page undoes nothing that happened since. `all` is one of the buttons. Raises
    `invalid_string`; fields of other names say nothing."""
    named: dict[str, set[ChannelKey]] = {"was": set(), "on": set()}
    for name, text in fields:
        if name == "all":
            return _all_choices(text)
        if name in named:
            named[name].add(_channel_key(name, text))
    return Choices(frozenset(named["was"] - named["on"]), frozenset(named["on"] - named["was"]))


def _all_choices(text: str) -> Choices:
    if text not in ALL_CHANNELS:
        raise ServiceError("invalid_string", field="all", detail=f"all: {text!r} is no button of the page.")
    kind, is_on = ALL_CHANNELS[text]
    return Choices(all_on=kind) if is_on else Choices(all_off=kind)


def _channel_key(name: str, text: str) -> ChannelKey:
    match = CHANNEL.fullmatch(text)
    if match is None:
        raise ServiceError("invalid_string", field=name, detail=f"{name}: {text!r} is not such as email-1.")
    return int(match[2]), cast("AddressKind", match[1])


ChosenChannel = tuple[OfferedList, Channel]
"""A list and one of its channels."""


def choose(transaction: Transaction, request: UnsubscribeRequest, choices: Choices) -> Sequence[OfferedList]:
    """Does what the person has chosen, in a fixed number of statements; returns the lists with their channels
    afterwards. Raises `invalid_id` for a change of a channel that is not on the page."""
    all_offered = offered_lists(transaction, request.account_id)
    if choices.has_on:
        lock_lists(transaction, request.account_id, [each.contact_list.id for each in all_offered])
        all_offered = offered_lists(transaction, request.account_id)  # as they stay
    lock_for_request(transaction, request)
    offered = with_channels(transaction, request, all_offered)
    _check_offered(choices, offered)
    off, on = list(_switched_off(choices, offered)), list(_switched_on(choices, offered))
    if not (off or on):
        return offered
    _write(transaction, request, off, on)
    return with_channels(transaction, request, all_offered)


def _check_offered(choices: Choices, offered: Sequence[OfferedList]) -> None:
    keys = {(each.id, kind) for each in offered for kind in each.channels}
    for list_id, _ in sorted((choices.off | choices.on) - keys):
        detail = f"The list {list_id} is not offered on this page, or not for such an address. Open the page again."
        raise ServiceError("invalid_id", field="on", detail=detail)


def _switched_off(choices: Choices, offered: Sequence[OfferedList]) -> Iterator[ChosenChannel]:
    for each in offered:
        for kind, channel in each.channels.items():
            if choices.is_off((each.id, kind)) and not channel.is_unsubscribed:
                yield each, channel


def _switched_on(choices: Choices, offered: Sequence[OfferedList]) -> Iterator[ChosenChannel]:
    for each in offered:
        for kind, channel in each.channels.items():
            if choices.is_on((each.id, kind)) and not channel.is_on and not channel.is_stopped:
                yield each, channel


def _write(
    transaction: Transaction, request: UnsubscribeRequest, off: Sequence[ChosenChannel], on: Sequence[ChosenChannel]
) -> None:
    """Writes the entries and flags, new contacts, their events, and the steps and the count of the message."""
    account_id, moment = request.account_id, this_second()
    ended = [(channel.address, each.contact_list.id) for each, channel in off]
    lifted = [(channel.address, each.contact_list.id) for each, channel in on if channel.is_unsubscribed]
    changed = unsubscribe_entries(transaction, account_id, ended, moment, uuid=request.uuid) if ended else []
    if lifted:
        restore_addresses(transaction, account_id, {address for address, _ in lifted})
        changed += resubscribe_entries(transaction, account_id, lifted, moment)
    record_contact_events(transaction, account_id, "updated", changed, moment)
    joined = [each.contact_list for each, channel in on if not channel.has_contact]
    join_lists(transaction, joined, request.kind, request.address)
    if off:
        record_unsubscribed(transaction, request)
    if on:
        record_resubscribed(transaction, request)
