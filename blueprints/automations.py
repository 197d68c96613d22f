"""`/v1/automations`: automations and their runs. `/v1/management/automations` creates and changes them."""

from __future__ import annotations

from flask import Response, request
from flask.views import MethodView

from app.automations.parse import read_definition
from app.automations.written import written_definition
from app.db.database import Transaction
from app.http.api import Blueprint
from app.http.bodies import json_object
from app.http.context import principal, services
from app.http.idempotency import Work, idempotent
from app.http.openapi_parameters import collection_parameters, instance_parameters
from app.http.paths import path_id
from app.http.responses import collection_query, collection_response, json_response, query_pairs
from app.infrastructure.redis_client import AUTOMATIONS as QUEUE
from app.query.conditions import Query
from app.query.grammar import parse_instance
from app.query.parameters import check_visible
from app.query.writes import parse_write
from app.runs.define import check_definition
from app.runs.pause import pause, resume
from app.runs.read import (
    AUTOMATION_SHAPE,
    AUTOMATIONS_SHAPE,
    CONTACT_FILTERS,
    RUN_SHAPE,
    RUNS_SHAPE,
    get_automation,
    get_run,
    page_automations,
    page_runs,
    require_automation,
    require_run,
)
from schemas.automations import (
    DEFINITION_BODY,
    AutomationCollectionSchema,
    AutomationWithDefinitionSchema,
    ResumptionSchema,
    RunCollectionSchema,
    RunWithStepsSchema,
    ValidatedDefinitionSchema,
    located_errors,
)
from schemas.base import CodeSchema, load
from schemas.examples import DEFINITIONS, RESUMPTION

PATH = "/v1/automations"

blp = Blueprint("automations", __name__, url_prefix=PATH, description="Automations, and how far contacts are in them")


@blp.route("")
class Automations(MethodView):
    """The account's automations."""

    @blp.scope("report.view")
    @blp.describe(
        "automations.list", returns=AutomationCollectionSchema, query=collection_parameters(AUTOMATIONS_SHAPE.resource)
    )
    def get(self) -> Response:
        """A page of automations, newest first."""
        query = collection_query(AUTOMATIONS_SHAPE.resource)
        with services().database.read() as session:
            page = page_automations(session, principal().account_id, query)
        return collection_response(AUTOMATIONS_SHAPE.resource, query, page)


@blp.route("/<instance:automation_id>")
class Automation(MethodView):
    """One automation."""

    @blp.scope("report.view")
    @blp.describe(
        "automations.get", returns=AutomationWithDefinitionSchema, query=instance_parameters(AUTOMATION_SHAPE.resource)
    )
    def get(self, automation_id: str) -> Response:
        """The automation with its definition."""
        with services().database.read() as session:
            require_automation(session, principal().account_id, path_id(automation_id))
            query = parse_instance(query_pairs(), AUTOMATION_SHAPE.resource)
            automation = get_automation(session, principal().account_id, path_id(automation_id), query)
        return json_response(automation)


@blp.route("/<automation_id>/runs")
class Runs(MethodView):
    """Contacts on their way through an automation."""

    @blp.scope("report.view")
    @blp.describe(
        "automations.list_runs", returns=RunCollectionSchema, query=collection_parameters(RUNS_SHAPE.resource)
    )
    def get(self, automation_id: str) -> Response:
        """A page of runs, the last to enter first."""
        with services().database.read() as session:
            require_automation(session, principal().account_id, path_id(automation_id))
            check_visible(query_pairs(), () if _sees_contacts() else CONTACT_FILTERS)
            query = collection_query(RUNS_SHAPE.resource)
            page = page_runs(
                session, principal().account_id, path_id(automation_id), query, sees_contacts=_sees_contacts()
            )
        return collection_response(RUNS_SHAPE.resource, query, page)


@blp.route("/<automation_id>/runs/<run_id>")
class Run(MethodView):
    """One contact on its way through an automation."""

    @blp.scope("report.view")
    @blp.describe("automations.get_run", returns=RunWithStepsSchema, query=instance_parameters(RUN_SHAPE.resource))
    def get(self, automation_id: str, run_id: str) -> Response:
        """The run with the steps that it has passed."""
        with services().database.read() as session:
            require_automation(session, principal().account_id, path_id(automation_id))
            require_run(session, principal().account_id, path_id(automation_id), path_id(run_id))
            query = parse_instance(query_pairs(), RUN_SHAPE.resource)
            automation_ids = principal().account_id, path_id(automation_id)
            run = get_run(session, *automation_ids, path_id(run_id), query, sees_contacts=_sees_contacts())
        return json_response(run)


def _sees_contacts() -> bool:
    return "contact.view" in principal().scopes


@blp.route("/<automation_id>/pause")
class Pause(MethodView):
    """Pausing an automation."""

    @blp.scope("contact.update")
    @blp.describe("automations.pause", returns=AutomationWithDefinitionSchema, errors=(409, 422), is_idempotent=True)
    def post(self, automation_id: str) -> Response:
        """Pauses the automation: steps that fall due are held. A paused automation stays paused."""
        row_id = path_id(automation_id)

        def prepare() -> Work:
            require_in_account(row_id)
            parse_write(query_pairs(), AUTOMATION_SHAPE.resource)
            if request.get_data(cache=True):
                load(CodeSchema(), json_object())

            def work(transaction: Transaction) -> Response:
                pause(transaction, principal().account_id, row_id)
                return _automation_response(transaction, row_id)

            return work

        return idempotent(prepare)


@blp.route("/<automation_id>/resume")
class Resume(MethodView):
    """Resuming an automation."""

    @blp.scope("contact.update")
    @blp.describe(
        "automations.resume",
        returns=AutomationWithDefinitionSchema,
        body=ResumptionSchema,
        examples=RESUMPTION,
        errors=(409, 422),
        is_idempotent=True,
    )
    def post(self, automation_id: str) -> Response:
        """Resumes the automation; `held` says what to do with held steps. An active automation stays active."""
        row_id = path_id(automation_id)

        def prepare() -> Work:
            require_in_account(row_id)
            parse_write(query_pairs(), AUTOMATION_SHAPE.resource)
            how = load(ResumptionSchema(), json_object()).get("held", "send")

            def work(transaction: Transaction) -> Response:
                transaction.after_commit(lambda: services().wake_ups.wake(QUEUE))
                resume(transaction, principal().account_id, row_id, how)
                return _automation_response(transaction, row_id)

            return work

        return idempotent(prepare)


def require_in_account(automation_id: int) -> None:
    """Raises `not_found` before the query and the body are judged."""
    with services().database.read() as session:
        require_automation(session, principal().account_id, automation_id)


def _automation_response(transaction: Transaction, automation_id: int) -> Response:
    transaction.flush()
    return json_response(get_automation(transaction, principal().account_id, automation_id, Query()))


@blp.route("/validate")
class Validation(MethodView):
    """Checking a definition."""

    @blp.scope("contact.update")
    @blp.describe(
        "automations.validate",
        returns=ValidatedDefinitionSchema,
        body=DEFINITION_BODY,
        examples=DEFINITIONS,
        errors=(409, 422),
    )
    def post(self) -> Response:
        """Checks a definition, and returns it in full, as it would be stored. Nothing is stored."""
        parse_write(query_pairs(), AUTOMATION_SHAPE.resource)
        with located_errors():
            draft, limit = read_definition(json_object()), services().settings.max_automations
            with services().database.read() as session:
                definition = check_definition(session, principal().account_id, draft, limit)
        links = {"self": {"href": f"{PATH}/validate"}}
        return json_response({"definition": written_definition(definition), "_links": links})
