"""Automations: what happens to contacts when a trigger fires, and how far they are on their way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

from transactional_messaging.filters import Filter, ItemQuery, PageQuery, pairs
from transactional_messaging.pages import Collection, items_of
from transactional_messaging.part import Part
from transactional_messaging.resource import NestedList, OptionalTime, Property, Resource, Time


class Automation(Resource):
    """An automation."""

    id = Property[int]()
    name = Property[str]()
    kind = Property[Literal["standard", "advanced"]]()
    list_id = Property[int]()
    trigger = Property[str]()
    state = Property[str]()
    version = Property[int]()
    paused_time = OptionalTime()
    creation_time = Time()
    last_modified_time = Time()


class AutomationStep(Resource):
    """A step; events and reports carry its id."""

    id = Property[int]()
    name = Property[str]()
    kind = Property[str]()


class AutomationWithDefinition(Automation):
    """An automation with its newest definition and the steps of all versions."""

    definition = Property[dict[str, Any]]()
    steps = NestedList(AutomationStep)


class Run(Resource):
    """One contact on its way. `state` is `waiting`, `held` or `ended`; `step` is the name of the next one."""

    id = Property[int]()
    contact_id = Property[int | None]()
    version = Property[int]()
    state = Property[str]()
    reason = Property[str | None]()
    step = Property[str | None]()
    trigger_time = Time()
    due_time = OptionalTime()
    end_time = OptionalTime()


class PassedStep(Resource):
    """A step that a run has passed; `uuid` is that of the recipient of a step that sent."""

    step_id = Property[int]()
    name = Property[str]()
    kind = Property[str]()
    time = Time()
    result = Property[str]()
    detail = Property[str | None]()
    uuid = Property[str | None]()


class RunWithSteps(Run):
    """A run with the steps that it has passed, the first one first."""

    passed_steps = NestedList(PassedStep)


class AutomationQuery(PageQuery, total=False):
    """Filters and parameters of `automations.list`."""

    id: Filter
    name: Filter
    kind: Filter
    list_id: Filter
    trigger: Filter
    state: Filter
    version: Filter
    paused_time: Filter
    creation_time: Filter
    last_modified_time: Filter


class RunQuery(PageQuery, total=False):
    """Filters and parameters of `automations.list_runs`."""

    id: Filter
    contact_id: Filter
    version: Filter
    state: Filter
    reason: Filter
    step: Filter
    trigger_time: Filter
    due_time: Filter
    end_time: Filter


Filters = Mapping[str, Filter] | None


class Automations(Part):
    """`/v1/automations`"""

    def list(self, *, filters: Filters = None, **query: Unpack[AutomationQuery]) -> Collection[Automation]:
        """The automations of the account."""
        return Collection(self._caller, "/automations", pairs(query, filters), items_of("automations", Automation))

    def get(self, automation_id: int, **query: Unpack[ItemQuery]) -> AutomationWithDefinition:
        """One automation."""
        return AutomationWithDefinition(self._caller.get(f"/automations/{automation_id}", pairs(query)))

    def list_runs(self, automation_id: int, *, filters: Filters = None, **query: Unpack[RunQuery]) -> Collection[Run]:
        """The runs of an automation, the last contact to enter first."""
        path = f"/automations/{automation_id}/runs"
        return Collection(self._caller, path, pairs(query, filters), items_of("runs", Run))

    def get_run(self, automation_id: int, run_id: int, **query: Unpack[ItemQuery]) -> RunWithSteps:
        """One run with the steps that it has passed."""
        return RunWithSteps(self._caller.get(f"/automations/{automation_id}/runs/{run_id}", pairs(query)))

    def pause(self, automation_id: int) -> AutomationWithDefinition:
        """Holds what falls due from now on."""
        return AutomationWithDefinition(self._caller.post(f"/automations/{automation_id}/pause"))

    def resume(
        self, automation_id: int, *, held: Literal["send", "skip", "shift"] = "send"
    ) -> AutomationWithDefinition:
        """Resumes it; `held` says what becomes of the steps that fell due in the pause."""
        return AutomationWithDefinition(self._caller.post(f"/automations/{automation_id}/resume", {"held": held}))

    def validate(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        """The definition in full, as it would be stored. Raises `ValidationFailed` with all errors; stores nothing."""
        found: dict[str, Any] = self._caller.post("/automations/validate", definition)["definition"]
        return found
