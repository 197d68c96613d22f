"""Definitions of automations as an author writes them."""

from __future__ import annotations

from typing import Any

import yaml

from app.automations.definition import Definition
from app.automations.parse import read_definition
from app.errors import ServiceError
from app.plain_data import in_document_order
from app.runs.define import create_automation
from tests.support.tenants import Tenant

STANDARD: dict[str, Any] = {
    "name": "Welcome gold customers",
    "kind": "standard",
    "list": "Customers",
    "trigger": "When a Contact is created from the REST API",
    "message": "Welcome",
}
ADVANCED: dict[str, Any] = yaml.safe_load("""
name: Welcome series
kind: advanced
list: Customers
trigger: REST API Contact Created
if: "plan:EXACTLY:gold:OR:plan:EXACTLY:silver"
again: {after: 7 days}
leave_when: "status:EXACTLY:cancelled"
steps:
  - {name: hello, send: Welcome}
  - {name: two days, wait: 2 days}
  - {name: monday morning, wait: {until: "09:00", days: [tuesday, monday]}}
  - {name: birthday, wait: {date: born, offset: -1 week, at: "08:30", past: next year}}
  - name: read it
    branch: {step: hello, did: clicked, link: "https://acme.example/", within: 1 day}
    then:
      - {name: thanks, send: Thanks}
    else:
      - name: is gold
        branch: {if: "plan:EXACTLY:gold"}
        then:
          - {name: mark, set: {status: welcomed, score: 5, born: 2001-02-03, note: null}}
          - {name: end, stop: true}
  - {name: out, unsubscribe: all}
  - {name: tell, call: "https://hooks.acme.example/in"}
""")


def advanced(*steps: dict[str, Any]) -> dict[str, Any]:
    """An advanced automation with these steps."""
    return {**ADVANCED, "steps": list(steps)}


def send(name: str) -> dict[str, Any]:
    return {"name": name, "send": "Welcome"}


def stop(name: str) -> dict[str, Any]:
    return {"name": name, "stop": True}


def branch(name: str, then: list[Any], otherwise: list[Any] | None = None, *, on: Any = None) -> dict[str, Any]:
    """A branch; by default on a condition."""
    asked = on or {"if": "plan:HAS"}
    return {"name": name, "branch": asked, "then": then, **({"else": otherwise} if otherwise else {})}


def parsed(document: Any) -> Definition:
    """The definition, as far as no account is needed. Raises `ServiceError` with all errors."""
    draft = read_definition(document)
    if draft.errors:
        raise ServiceError.of(in_document_order(document, draft.errors))
    return draft.definition


def create(tenant: Tenant, document: dict[str, Any]) -> int:
    """An automation as the command line creates it; its id."""
    with tenant.services.database.write() as transaction:
        return create_automation(transaction, tenant.id, read_definition(document), 100).id
