"""Forgetting a person: everything that the list of places has, in short transactions (docs/privacy.md#forgetting).

Each round looks everything up again, until one finds nothing: what comes in meanwhile is found by the next one. Of
events, which take the longest, later rounds look through the new ones alone. How messages spell the address is read at
the beginning, and again when a round has found nothing. Nothing is stored between rounds, so a run that was interrupted
is completed by repeating it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.orm import Session

from app.addresses import AddressKind
from app.audit.record import Act, record_at_once
from app.db.commit_order import complete_to, last_event_id
from app.db.write_turns import WriteTurns
from app.infrastructure.digests import address_digest
from app.privacy.addressed import blocked, kept_digests, unsubscribed
from app.privacy.files import journals_naming
from app.privacy.person import Person, PersonSearch
from app.privacy.place import Eraser
from app.privacy.places import PLACES
from app.privacy.recipients import being_handed_over, count_received
from app.sends.outcomes.recovery import recover_expired_leases
from app.services import Services

LOOK_INTERVAL = 0.2
"""Seconds between two looks at messages that are being handed over."""
MAX_ROUNDS = 20
"""Maximum of rounds that each find something: after so many, somebody goes on writing to the address."""

Advance = Callable[[int], None]


@dataclass(slots=True)
class ForgetReport:
    """What was removed, and what is left."""

    removed: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    """Suppressions that are kept under digests: unsubscribed from lists or account-wide, and blocked."""
    other_addresses: set[str] = field(default_factory=set)
    """The other addresses of the contacts that were deleted."""
    in_flight: list[str] = field(default_factory=list)
    """The uuids of messages that are still being handed over."""
    journals: list[str] = field(default_factory=list)
    """Journals with results that are not in the database yet."""

    @property
    def is_complete(self) -> bool:
        return not self.in_flight and not self.journals


def forget(
    services: Services,
    account_ids: Sequence[int],
    kind: AddressKind,
    address: str,
    *,
    wait: float,
    everywhere: bool = False,
    advance: Advance = lambda _: None,
) -> ForgetReport:
    """Removes the person from these accounts, which are those of the first and its test account, or of everybody.
    Messages that are being handed over are finished first: they are waited for so many seconds. `advance` is called
    with the number of what was removed."""
    search = PersonSearch(services, account_ids, kind, address)
    record_act_on_person(services, search, "person.forgotten", everywhere=everywhere)
    forgotten, end = ForgetReport(), time.monotonic() + wait
    eraser, done = Eraser(services, WriteTurns(services.database)), dict[int, Person]()
    rounds = 0
    while rounds < MAX_ROUNDS:
        removed: Counter[str] = Counter()
        forgotten.in_flight, forgotten.journals = [], []
        for session, person in search.people():
            forgotten.other_addresses.update(person.other_addresses)
            # Up to it, no more events can appear.
            last = min(complete_to(session, person.account_id), last_event_id(session))
            session.close()  # its next statement takes another connection
            removed += _erase(eraser, _after_events_of(done.get(person.account_id), person))
            done[person.account_id] = replace(person, after_event=last)
            _look_for_rest(services, session, person, forgotten)
        forgotten.removed += removed
        rounds += bool(removed)  # others only wait
        advance(removed.total())
        is_last = not removed and (forgotten.is_complete or not _wait(services, end))
        if is_last and not search.finds_more_spellings():
            break
    for session, person in search.people():
        forgotten.kept.update({state: count for state, count in kept_digests(session, person).items() if count})
    return forgotten


def held(services: Services, account_ids: Sequence[int], kind: AddressKind, address: str) -> Mapping[str, int]:
    """How much each place has of the person, by its name; nothing is changed."""
    counts: Counter[str] = Counter()
    for session, person in PersonSearch(services, account_ids, kind, address).people():
        for place in PLACES:
            counts[place.name] += sum(len(page) for page in place.read(services, session, person))
    return +counts


def record_act_on_person(services: Services, search: PersonSearch, action: str, *, everywhere: bool) -> None:
    """Records what is about to be done, in one entry: that of the first account, or of none for everybody's. The log
    knows the address by its keyed hash. It says how many contacts, messages and suppressions there are: unlike `held`
    it counts only what an index finds."""
    counts = {"contacts": 0, "messages": 0, "suppressions": 0}
    for session, person in search.people():
        counts["contacts"] += len(person.contact_ids)
        counts["messages"] += count_received(session, person)
        counts["suppressions"] += len(unsubscribed(session, person)) + len(blocked(session, person))
    digest = address_digest(services.settings.secret_key, search.address)
    account_id = None if everywhere else search.account_ids[0]
    record_at_once(services.database, Act(action, account_id, address_digest=digest, counts=counts))


def _after_events_of(before: Person | None, person: Person) -> Person:
    """The person, for whom an earlier round has looked through events: unless there is more of the person by now, such
    as a contact that was given the address, only later ones can be left."""
    return replace(person, after_event=before.after_event) if before and before.includes(person) else person


def _erase(eraser: Eraser, person: Person) -> Counter[str]:
    removed: Counter[str] = Counter()
    for place in PLACES:
        removed.update(place.erase(eraser, person))
    return +removed


def _look_for_rest(services: Services, session: Session, person: Person, forgotten: ForgetReport) -> None:
    """What a dead worker of this machine has left is taken over here: perhaps no other runs."""
    forgotten.in_flight += being_handed_over(session, person)
    forgotten.journals += journals_naming(services, person)
    if not forgotten.is_complete:
        recover_expired_leases(services)


def _wait(services: Services, end: float) -> bool:
    """Waits a moment; returns whether there is still time."""
    return not services.stopping.wait(LOOK_INTERVAL) and time.monotonic() < end
