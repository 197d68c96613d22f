"""The verification functions of docs/webhooks.md#signature in other languages than Python, run where their interpreter
exists."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from app.clock import this_second
from app.events.signing import signature_header

PAGE = Path(__file__).parents[3] / "docs" / "webhooks.md"
SECRET, OTHER = "c2VjcmV0-as_text-" + "1" * 32, "2" * 32
BODY = '{"events": [{"event": "créé"}]}'.encode()


@dataclass(frozen=True)
class Language:
    """How a snippet is run: with a program that reads the cases from a file and prints the `jti` of each, or `-`."""

    name: str
    command: tuple[str, ...]
    file: str
    before: str
    after: str


LANGUAGES = (
    Language(
        "javascript",
        ("node", "verify.js"),
        "verify.js",
        "",
        'for (const one of JSON.parse(require("node:fs").readFileSync("cases.json"))) '
        'console.log(verify(Buffer.from(one.body, "base64"), one.header, one.secrets)?.jti ?? "-");',
    ),
    Language(
        "php",
        ("php", "verify.php"),
        "verify.php",
        "<?php\n",
        'foreach (json_decode(file_get_contents("cases.json"), true) as $one) '
        'echo verify(base64_decode($one["body"]), $one["header"], $one["secrets"])["jti"] ?? "-", "\\n";',
    ),
    Language(
        "ruby",
        ("ruby", "verify.rb"),
        "verify.rb",
        "",
        'JSON.parse(File.read("cases.json")).each { |one| '
        'found = verify(Base64.decode64(one["body"]), one["header"], one["secrets"]); '
        'puts(found ? found["jti"] : "-") }',
    ),
    Language(
        "go",
        ("go", "run", "verify.go", "main.go"),
        "verify.go",
        "",
        "",
    ),
)
GO_MAIN = """package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	raw, _ := os.ReadFile("cases.json")
	var cases []struct {
		Body, Header string
		Secrets      map[string]string
	}
	json.Unmarshal(raw, &cases)
	for _, one := range cases {
		body, _ := base64.StdEncoding.DecodeString(one.Body)
		if claims := Verify(body, one.Header, one.Secrets); claims != nil {
			fmt.Println(claims.Batch)
		} else {
			fmt.Println("-")
		}
	}
}
"""


def signed(*secrets: tuple[str, str], moment: datetime | None = None) -> str:
    moment = moment or this_second()
    issuer = "http://127.0.0.1:8000"
    return signature_header(secrets, issuer=issuer, webhook_id=5, batch_id="b-1", body=BODY, now=moment)


def cases() -> list[tuple[bytes, str, dict[str, str], str]]:
    """Body, header, known secrets and what is expected."""
    good, secrets = signed(("k1", SECRET)), {"k1": SECRET}
    head, payload, signature = good.split(".")
    unsigned = "eyJhbGciOiJub25lIiwia2lkIjoiazEifQ." + payload + "."
    late = signed(("k1", SECRET), moment=this_second() - timedelta(minutes=6))
    return [
        (BODY, good, secrets, "b-1"),
        (BODY, signed(("k1", SECRET), ("k2", OTHER)), {"k2": OTHER}, "b-1"),
        (BODY, signed(("k1", OTHER), ("k2", SECRET)), {"k1": SECRET, "k2": SECRET}, "b-1"),
        (BODY + b" ", good, secrets, "-"),
        (BODY, good, {"k1": OTHER}, "-"),
        (BODY, good, {"k2": SECRET}, "-"),
        (BODY, good, {}, "-"),
        (BODY, late, secrets, "-"),
        *(
            (BODY, header, secrets, "-")
            for header in ("", ",", "a.b.c", "null", "é", "....", unsigned, f"{head}.{payload}.")
        ),
        (BODY, f"{head}.{payload}.{signature[:-2]}", secrets, "-"),
        (BODY, f"nonsense,{good}", secrets, "b-1"),
    ]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_a_snippet_accepts_what_the_service_signs_and_nothing_else(language: Language, tmp_path: Path) -> None:
    snippets = re.findall(rf"```{language.name}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(snippets) == 1
    if shutil.which(language.command[0]) is None:
        pytest.skip(f"no {language.command[0]} on this machine: its snippet was not run")
    (tmp_path / language.file).write_text(f"{language.before}{snippets[0]}\n{language.after}\n", "utf-8")
    if language.name == "go":
        (tmp_path / "main.go").write_text(GO_MAIN, "utf-8")
    given = [{"body": b64(body), "header": header, "secrets": secrets} for body, header, secrets, _ in cases()]
    (tmp_path / "cases.json").write_text(json.dumps(given), "utf-8")
    ran = subprocess.run(language.command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == [expected for *_, expected in cases()]


def b64(body: bytes) -> str:
    return base64.b64encode(body).decode()
