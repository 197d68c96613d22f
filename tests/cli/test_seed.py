"""`flask seed FILE` (docs/seed.md)."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli
from tests.support.client import Client
from tests.support.seeds import customers, write_seed
from tests.support.tenants import unique


def test_a_seed_prints_ids_and_new_tokens_once(bare: Cli, tmp_path: Path) -> None:
    name = unique("seeded")
    account = {"name": name, "keys": [{"name": "fresh", "access_level": "report"}], "lists": [customers()]}
    file = str(write_seed(tmp_path / "seed.yaml", account))
    (first,) = bare.json("seed", file)["accounts"]
    assert first["name"] == name
    assert [list_["name"] for list_ in first["lists"]] == ["Customers"]
    (key,) = first["keys"]
    assert Client(bare.app, key.pop("token")).get("/v1/").status_code == 200
    assert bare.json("seed", file)["accounts"][0]["keys"] == [key]
    seeded = bare.json("audit", "list", "--account", name)
    acts = {(entry["action"], entry["object_name"], entry["via"]) for entry in seeded}
    assert acts == {
        ("account.created", name, "seed"),
        ("key.created", "fresh", "seed"),
        ("list.created", "Customers", "seed"),
        ("account.seeded", name, "seed"),
    }


def test_a_seed_prints_its_changes_for_people(bare: Cli, tmp_path: Path) -> None:
    name = unique("seeded")
    file = str(write_seed(tmp_path / "seed.yaml", {"name": name, "lists": [customers()]}))
    printed = bare.text("seed", file)
    assert printed.startswith(f"{name} (id ")
    assert printed.endswith("): 1 account created, 1 list created\n")
    assert bare.text("seed", file).endswith("): nothing to change\n")
    (tmp_path / "empty.yaml").write_text("")
    assert bare.text("seed", str(tmp_path / "empty.yaml")) == "nothing described\n"
    for text, kind in (("[]", "a list"), ("false", "a truth value"), ("0", "a number")):
        (tmp_path / "empty.yaml").write_text(text)
        assert bare.refused("seed", str(tmp_path / "empty.yaml")) == f"must be a mapping, not {kind}"


def test_an_invalid_seed_is_reported_in_one_line_with_its_path(bare: Cli, tmp_path: Path) -> None:
    name = unique("seeded")
    wrong = customers(fields=[{"name": "Email", "type": "Email"}, {"name": "Odd", "type": "No Such Type"}])
    file = str(write_seed(tmp_path / "seed.yaml", {"name": name, "lists": [wrong]}))
    assert bare.refused("seed", file).startswith("accounts[0].lists[0].fields[1].type: 'No Such Type' is not one of")
    assert bare.refused("accounts", "show", name) == f"there is no account '{name}'"


def test_a_file_that_is_not_yaml_is_reported_in_one_line(bare: Cli, tmp_path: Path) -> None:
    (tmp_path / "seed.yaml").write_text("accounts:\n- name: a\n  name: b\n")
    assert bare.refused("seed", str(tmp_path / "seed.yaml")) == "line 3, column 3: 'name' is given twice"
