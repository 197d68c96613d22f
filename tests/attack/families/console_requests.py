"""Requests that pages of other sites make the victim's browser send, requests that lead elsewhere, and large ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

from app.http.console.navigation import HOME
from app.http.console.pages import SIGN_IN
from tests.attack.console import ENDED, OWN, Console, Page
from tests.attack.families.forwarded import HOSTS, POISON
from tests.attack.markup import is_own, read
from tests.attack.tally import Case, case

LARGEST = 1 << 20
"""Bytes of an answer to a large request."""
ELSEWHERE = (
    *(
        "https://evil.example/console",
        "//evil.example/console",
        "///evil.example",
        "\\\\evil.example",
        "/\\evil.example",
    ),
    *("/console\\..\\..\\\\evil.example", "/console/..//evil.example", "/console/../sign-out", "/console/%2e%2e/v1"),
    *(
        "javascript:alert(1)",
        "/console\r\nSet-Cookie: x=1",
        "/console\tx",
        "console.evil.example",
        "/console.evil.example",
    ),
    *("/console@evil.example", "http:/console", " /console", "/console/\u2025/x", "?x", "/v1/lists", "/console#@evil"),
)
LEADING = ("wanted", "next", "url", "redirect", "redirect_uri", "return", "return_to", "continue", "to", "path", "here")
"""Names of parameters that lead somewhere in many programs."""


def values_of(console: Console, page: Page) -> dict[str, str]:
    """A value for each parameter of the path of a page: the victim's ids, and for public pages what nobody has."""
    values = {"token": "A" * 43, "hash_": "0" * 16, "name": "page.js", **console.on.victim.ids}
    return {name: values.get(name, "1") for name in page.parameters}


def foreign(console: Console) -> dict[str, dict[str, str]]:
    """Headers that a browser sends for a page of somebody else; a page cannot choose its `Origin` or `Sec-Fetch-Site`,
    but other headers."""
    own_origin, parts = console.origin, urlsplit(console.origin)
    scheme = "http" if parts.scheme == "https" else "https"
    origins = {
        "another site": "https://evil.example",
        "no origin": "null",
        "an empty origin": "",
        "another port": f"{parts.scheme}://{parts.hostname}:{(parts.port or 443) + 1}",
        "another scheme": f"{scheme}://{parts.netloc}",
        "a host that begins so": f"{own_origin}.evil.example",
        "a host below": f"{parts.scheme}://evil.{parts.netloc}",
        "a user of that name": f"{own_origin}@evil.example",
        "two origins": f"{own_origin} https://evil.example",
        "a list of origins": f"{own_origin}, https://evil.example",
    }
    headers_by_name: dict[str, dict[str, str]] = {
        "nothing": {},
        "the right page before": {"Referer": f"{own_origin}{HOME}"},
    }
    headers_by_name |= {name: {"Origin": origin} for name, origin in origins.items()}
    for site in ("same-site", "cross-site", "none", "", "same-origin, cross-site", "cross-site, same-origin"):
        headers_by_name[f"Sec-Fetch-Site {site!r}"] = {"Sec-Fetch-Site": site}
        headers_by_name[f"Sec-Fetch-Site {site!r} with the origin"] = {"Sec-Fetch-Site": site, "Origin": own_origin}
    # Only a proxy may say which host was asked for, and it replaces what a client says.
    names = [name for name in HOSTS if name != "Host" and not (console.on.strict and name == "X-Forwarded-Host")]
    for name in names:
        headers_by_name[name] = {"Origin": f"https://{POISON}", name: POISON, "X-Forwarded-Proto": "https"}
    headers_by_name["Forwarded"] = {"Origin": f"https://{POISON}", "Forwarded": f"host={POISON};proto=https"}
    headers_by_name["X-HTTP-Method-Override"] = {"Origin": "https://evil.example", "X-HTTP-Method-Override": "GET"}
    return headers_by_name


def other_pages(console: Console) -> Iterator[Case]:
    """Every page that changes something, asked for by a page of somebody else in the browser of the victim."""
    victim = console.signed_in(console.on.victim.token)
    form = {"key": console.on.attacker.token}
    # One guard is before all pages. The short form tries it with everything on a few, and whether it is there on all.
    thorough = console.changing[:: 8 if console.on.short else 1]
    two = dict(itertools.islice(foreign(console).items(), 2))
    for page in console.changing:
        path = page.path(values_of(console, page))
        for name, headers in (foreign(console) if page in thorough else two).items():
            answer = victim.ask(page.method, path, headers, form=form)
            held = answer.status == 403 and not answer.cookies
            yield case("requests of other pages", held, f"{page.name} with {name}: {answer.status}")
        for kind in ("text/plain", "application/json", "multipart/form-data; boundary=x"):
            headers = {"Origin": "https://evil.example", "Content-Type": kind}
            answer = victim.ask(page.method, path, headers, body=b"key=x")
            yield case("requests of other pages", answer.status == 403, f"{page.name} as {kind}: {answer.status}")
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"):
            answer = victim.ask(method, path, {"X-HTTP-Method-Override": page.method}, query={"_method": page.method})
            held = answer.status in (200, 400, 403, 405) and not answer.cookies and not answer.target
            yield case("requests of other pages", held, f"{method} {page.rule}: {answer.status}")
        still = victim.get(HOME)
        yield case("requests of other pages", still.status == 200, f"{page.name} has ended the session")
    yield from addressed(console)


def addressed(console: Console) -> Iterator[Case]:
    """Links with which the attacker chooses the address of a page: its forms lead where they say, as browsers read
    it."""
    climbing = f"\\..\\..\\messages\\{console.on.victim.ids['uuid']}\\retry"
    for text in (climbing, climbing.replace("\\", "/"), "..", ".", "\\\\evil.example\\", "x?y", "x#y", "javascript:x"):
        for path in (f"{HOME}/login/", f"{HOME}/messages/", f"{HOME}/"):
            answer = console.browser().ask("GET", f"{path}{quote(text, safe='')}")
            faults_of_answer = read(answer).faults
            yield case("requests of other pages", not faults_of_answer, f"{path}{text}: {faults_of_answer}")


def redirects(console: Console) -> Iterator[Case]:
    """Places of others in every parameter that could lead somewhere, and in the host of a request."""
    on = console.on
    victim = console.signed_in(on.victim.token)
    for target in ELSEWHERE:
        asked = console.browser().ask("GET", SIGN_IN, query={"wanted": target})
        target_in_form = read(asked).fields.get("wanted", "")
        yield case("redirects", is_own(target_in_form), f"{target!r}: the form has {target_in_form!r}")
        answer = console.browser().sign_in(on.attacker.token, wanted=target)
        yield case("redirects", answer.status == 303 and is_own(answer.target), f"{target!r}: {answer.target!r}")
    targets = ELSEWHERE[: 3 if on.short else None]
    for page, target in itertools.product((page for page in console.pages if page.method == "GET"), targets):
        path = page.path(values_of(console, page))
        answer = victim.ask("GET", path, query=dict.fromkeys(LEADING, target))
        held = not answer.target or is_own(answer.target)
        yield case("redirects", held, f"{page.name} with {target!r}: {answer.target!r}")
    for page, name in itertools.product(console.pages, (*HOSTS, "Referer", "X-Original-URL")):
        browser = victim if page.method == "GET" else console.browser()
        path = page.path(values_of(console, page))
        form = {"key": on.attacker.token} if page.method == "POST" else None
        answer = browser.ask(page.method, path, {**OWN, name: POISON}, form=form)
        text = answer.text + str(answer.headers)
        yield case("redirects", POISON not in text, f"{page.name} with {name}: {text[:300]}")


def sizes(console: Console) -> Iterator[Case]:
    """Requests that are larger than any browser's: each is answered, and with little."""
    victim, large = console.signed_in(console.on.victim.token), "x" * 50_000
    queries = {
        "a long value": f"find={large}",
        "a long name": f"{large}=1",
        "many parameters": "&".join(f"group_id={number}" for number in range(5_000)),
        "many names": "&".join(f"n{number}=1" for number in range(5_000)),
        "many values": "group_id:in=" + ",".join(map(str, range(15_000))),
        "many escapes": "find=" + "%00" * 10_000,
        "surrogates": "find=%ed%a0%80&state=%ff&%fe=1",
        "many ids": "uuid:in=" + ",".join([console.on.victim.ids["uuid"]] * 1_500),
    }
    for page, (name, query) in itertools.product(console.reading, queries.items()):
        answer = victim.ask("GET", f"{page.path({})}?{query}")
        held = 0 < answer.status < 500 and len(answer.text) < LARGEST
        yield case("large requests", held, f"{page.name} with {name}: {answer.status} {len(answer.text)}")
    cookie = f"{console.cookie_name}={victim.cookie}"
    cookies = {
        "a long cookie": f"{console.cookie_name}={large}",
        "a long other one": f"x={'y' * 7_000}; {cookie}",
        "many cookies": "; ".join([f"{console.cookie_name}=x"] * 500),
        "no name": "=; ;;=x; ,",
        "quotes": f'{console.cookie_name}="\\"\\073\\"; x="',
        "bytes": f"{console.cookie_name}=\xff\xfe\x80",
    }
    for name, text in cookies.items():
        answer = console.browser().ask("GET", HOME, {"Cookie": text})
        signed_in = name == "a long other one"
        held = answer.status in ((200,) if signed_in else (400, 401, 431, ENDED)) and len(answer.text) < LARGEST
        yield case("large requests", held, f"{name}: {answer.status} {len(answer.text)}")
    for name, path in {"a long path": f"{HOME}/{'x' * 5_000}", "a deep path": HOME + "/x" * 2_000}.items():
        answer = victim.ask("GET", path)
        yield case("large requests", answer.status in (400, 404, 414), f"{name}: {answer.status}")
    for name, body in {"a long key": b"key=" + b"x" * 2_000_000, "many fields": b"&".join([b"key=x"] * 50_000)}.items():
        headers = {**OWN, "Content-Type": "application/x-www-form-urlencoded"}
        answer = console.browser().ask("POST", SIGN_IN, headers, body=body)
        held = answer.status in (400, 401, 413, ENDED) and len(answer.text) < LARGEST
        yield case("large requests", held, f"{name}: {answer.status} {len(answer.text)}")
    yield case("large requests", victim.get(HOME).status == 200, "the console is gone")
