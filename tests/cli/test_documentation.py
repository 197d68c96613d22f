"""docs/seed.md agrees with the command."""

from __future__ import annotations

import uuid
from pathlib import Path

import yaml

from app.seed.load import load_seed
from app.seed.nouns import ACCOUNT
from app.services import Services
from tests.support.blocks import blocks
from tests.support.tenants import unique

DOCS = Path(__file__).parents[2] / "docs"


def test_every_part_of_a_seed_file_is_documented() -> None:
    text = (DOCS / "seed.md").read_text("utf-8")
    parts = [*ACCOUNT.required, *ACCOUNT.optional]
    assert [part for part in parts if f"`{part}`" not in text] == []


def test_the_example_of_a_seed_file_can_be_loaded(services: Services, tmp_path: Path) -> None:
    (example,) = (block for block in blocks(DOCS / "seed.md") if block.language == "yaml")
    data = yaml.safe_load(example.text)
    data["accounts"][0]["name"] = unique("example")
    # A number belongs to one account, and those of other tests may have it.
    for sender in data["accounts"][0]["sms_senders"]:
        if sender["kind"] == "virtual_number":
            sender["address"] = f"614{uuid.uuid4().int % 10**8:08}"
    file = tmp_path / "seed.yaml"
    file.write_text(yaml.safe_dump(data), "utf-8")
    created = load_seed(services, file).accounts[0].created
    assert {noun: created[noun] for noun in ("list", "contact", "message", "webhook")} == {
        **{"list": 1, "contact": 2},
        **{"message": 1, "webhook": 1},
    }
    assert load_seed(services, file).changes == 0
