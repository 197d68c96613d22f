"""Signing in to the console by OpenID Connect (docs/sign-in.md)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from joserfc import jwt
from sqlalchemy import delete, func, select, update

from app.accounts.keys import issue_key
from app.accounts.sessions import make_link
from app.clock import now
from app.db.models import Account, AuditEntry, ConsolePerson, ConsoleSession, ConsoleSignIn, Recipient, SendPause
from app.http.console.guard import MAX_ATTEMPTS
from app.maintenance.sweeps import clean
from app.recipients.row import add_steps, step_row
from app.recipients.timeline import TimelineStep
from app.sends.pauses.pause import Subject, pause
from app.settings import Settings
from app.sign_in.people import forget_console_person
from tests.api.test_console_content import mail
from tests.api.test_console_inbox import folder_of
from tests.support.browser import HOME, Browser, words
from tests.support.cases import each
from tests.support.forged import CLAIMS, SIGNATURES
from tests.support.provider import CLIENT_ID, parameters_of, provider, rsa_key
from tests.support.rows import Rows
from tests.support.sends import SendsApi
from tests.support.servers import wait_until
from tests.support.staff import BEGIN, WAIT, Staff, path_of, staff
from tests.support.tenants import Tenant, unique

SIGN_IN = "/console/sign-in"
CALLBACK = "/console/sign-in/callback"


@pytest.fixture
def house(settings: Settings, tenant: Tenant, other_tenant: Tenant) -> Iterator[Staff]:
    """A service whose people are an operator, a manager of one account, readers, and somebody without a role."""
    shop, blog = tenant.name, other_tenant.name
    roles = f"admins=operator,shop=manager:{shop},auditors=reader,help=reader:{shop},team-*=manager:*"
    with provider() as made, staff(settings, made, roles) as running:
        made.people = {
            "ann": {"name": "Ann Lee", "email": "ann@example.com", "groups": ["staff", "admins"]},
            "bob": {"preferred_username": "bob", "groups": "shop"},
            "cat": {"email": "cat@example.com", "groups": ["help"]},
            "dan": {"name": "Dan", "groups": ["auditors"]},
            "eve": {"name": "Eve", "groups": ["staff"]},
            "fay": {"name": "Fay", "groups": [f"team-{blog}", "shop", "auditors", "team-", "team-Nobody"]},
        }
        yield running


def acts(house: Staff, person: str) -> list[tuple[str, str, str | None]]:
    """What the audit log says of the sessions of a person."""
    columns = AuditEntry.action, AuditEntry.actor_kind, AuditEntry.actor, AuditEntry.via
    with house.services.database.read() as session:
        query = select(*columns).where(AuditEntry.object == "session", AuditEntry.object_name == person)
        rows = session.execute(query.order_by(AuditEntry.id)).all()
    assert {row.actor for row in rows} <= {person, "service"}
    return [(row.action, row.actor_kind, row.via) for row in rows]


def person_of(house: Staff, subject: str) -> ConsolePerson:
    with house.services.database.read() as session:
        is_person = ConsolePerson.subject == subject, ConsolePerson.issuer == house.provider.issuer
        return session.scalars(select(ConsolePerson).where(*is_person)).one()


def people(house: Staff) -> int:
    with house.services.database.read() as session:
        is_here = ConsolePerson.issuer == house.provider.issuer
        return session.scalar(select(func.count()).select_from(ConsolePerson).where(is_here)) or 0


def open_sessions(house: Staff, subject: str) -> list[ConsoleSession]:
    with house.services.database.read() as session:
        is_open = ConsoleSession.person_id == person_of(house, subject).id
        return list(session.scalars(select(ConsoleSession).where(is_open).order_by(ConsoleSession.id)))


def post(browser: Browser, path: str) -> int:
    return browser.post(path).status_code


# ---------------------------------------------------------------------------------------------- the way


def test_a_person_signs_in_from_the_button_to_the_page(house: Staff, tenant: Tenant) -> None:
    browser = Browser(house.app)
    form = browser.get("/console/messages?state=failed")
    assert "Sign in with Staff" in words(form)
    assert 'name="wanted" value="/console/messages?state=failed"' in form.text
    begun = browser.post(BEGIN, wanted="/console/messages?state=failed")
    assert (begun.status_code, f'content="1; url={WAIT}"' in begun.text) == (200, True)
    assert re.fullmatch(
        r"tms_console_sign_in=[\w-]{43}; Expires=[^;]+; Max-Age=600; HttpOnly; Path=/; SameSite=Lax",
        begun.headers["Set-Cookie"],
    )
    waiting = browser.get(WAIT)
    assert (waiting.status_code, f'<meta http-equiv="refresh" content="1; url={WAIT}">' in waiting.text) == (200, True)
    house.work()
    url = browser.get(WAIT).headers["Location"]
    asked = parameters_of(url)
    assert {name: len(asked[name]) for name in ("state", "nonce", "code_challenge")} == {
        **{"state": 64, "nonce": 64},
        "code_challenge": 43,
    }
    assert {name: value for name, value in asked.items() if name not in ("state", "nonce", "code_challenge")} == {
        **{"response_type": "code", "client_id": CLIENT_ID, "scope": "openid profile email"},
        **{"redirect_uri": f"http://127.0.0.1:8000{CALLBACK}", "code_challenge_method": "S256"},
    }
    came_back = browser.get(path_of(house.provider.authorize(url, "bob")))
    assert (came_back.status_code, came_back.headers["Location"]) == (303, WAIT)
    assert browser.get(WAIT).status_code == 200
    house.work()
    entered = browser.get(WAIT)
    assert (entered.status_code, entered.headers["Location"]) == (303, "/console/messages?state=failed")
    session_cookie, attempt_cookie = entered.headers.getlist("Set-Cookie")
    assert re.fullmatch(
        r"tms_console=[\w-]{43}; Expires=[^;]+; Max-Age=\d+; HttpOnly; Path=/; SameSite=Strict", session_cookie
    )
    assert attempt_cookie.startswith("tms_console_sign_in=; ")
    page = browser.get(HOME)
    assert (page.status_code, tenant.name in words(page), '<span title="Manager">bob</span>' in page.text) == (
        200,
        True,
        True,
    )


def test_the_database_and_the_audit_log_have_the_person_by_number(house: Staff, tenant: Tenant) -> None:
    house.signed_in("bob").post("/console/sign-out")
    person = person_of(house, "bob")
    assert (person.name, person.email, person.grants) == ("bob", None, [["manager", tenant.id]])
    assert acts(house, f"person {person.id}") == [
        ("session.started", "person", "GET /console/sign-in/provider"),
        ("session.ended", "person", "POST /console/sign-out"),
    ]


def test_issuer_and_subject_are_the_identity_and_nothing_else(house: Staff) -> None:
    house.signed_in("ann")
    first = person_of(house, "ann")
    house.provider.people["ann"] |= {"name": "Ann Stone", "email": "stone@example.com"}
    house.provider.people["other"] = {**house.provider.people["ann"]}
    house.signed_in("ann")
    house.signed_in("other")
    again, other = person_of(house, "ann"), person_of(house, "other")
    assert (again.id, again.name, again.email) == (first.id, "Ann Stone", "stone@example.com")
    assert (other.id != first.id, other.name) == (True, "Ann Stone")


def test_roles_come_from_userinfo_where_the_id_token_has_none(house: Staff) -> None:
    house.provider.claims_in_id_token = False
    assert house.signed_in("ann").get("/console/audit").status_code == 200
    assert person_of(house, "ann").name == "Ann Lee"


def test_roles_come_from_a_claim_within_another(settings: Settings) -> None:
    with provider() as made, staff(settings, made, "x=operator", oidc_role_claim="realm_access.roles") as house:
        made.people = {"ann": {"realm_access": {"roles": ["x"]}}, "bob": {"realm_access": ["x"], "roles": "x"}}
        assert house.signed_in("ann").get("/console/audit").status_code == 200
        assert house.enter("bob").status_code == 403


@each("has_secret", [True, False])
def test_the_client_names_itself_in_the_form_where_the_provider_asks_for_it(
    settings: Settings, has_secret: bool
) -> None:
    secret = {} if has_secret else {"oidc_client_secret": ""}
    with provider() as made, staff(settings, made, "admins=operator", **secret) as house:
        made.uses_form, made.client_has_secret = True, has_secret
        made.people = {"ann": {"groups": ["admins"]}}
        house.signed_in("ann")


def test_a_new_key_of_the_provider_is_read_once_and_an_old_one_ends(
    house: Staff, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.signed_in("ann")
    house.provider.key = rsa_key("second")
    assert house.enter("ann").status_code == 403  # the keys were read a moment ago
    monkeypatch.setattr("app.sign_in.provider.SECONDS_BETWEEN_KEYS", 0.0)
    house.signed_in("ann")
    house.provider.sign = lambda claims: jwt.encode({"alg": "RS256", "kid": "first"}, claims, rsa_key("first"))
    assert house.enter("ann").status_code == 403


# ---------------------------------------------------------------------------------------------- what is refused


def refusal(house: Staff, subject: str = "ann") -> str:
    """The reason that a person reads, who then is not signed in."""
    browser, before = Browser(house.app), people(house)
    answer = house.enter(subject, browser)
    assert answer.status_code == 403
    assert [cookie.partition(";")[0] for cookie in answer.headers.getlist("Set-Cookie")] == ["tms_console_sign_in="]
    assert (browser.get(HOME).status_code, people(house)) == (401, before)
    (reason,) = re.findall(r'<p role="alert" class="refused">([^<]*)</p>', answer.text)
    return str(reason)


def test_who_has_no_role_is_told_so_and_not_kept(house: Staff) -> None:
    assert refusal(house, "eve") == "Staff names no role for you in this service."


@each("name", CLAIMS)
def test_an_id_token_that_proves_nothing_signs_nobody_in(house: Staff, name: str) -> None:
    house.provider.change_claims = CLAIMS[name]
    assert refusal(house) == "Staff did not confirm who you are. Sign in again."


@each("name", SIGNATURES)
def test_an_id_token_that_the_provider_has_not_signed_signs_nobody_in(house: Staff, name: str) -> None:
    house.provider.sign = SIGNATURES[name]
    assert refusal(house) == "Staff did not confirm who you are. Sign in again."


@each(
    ("path", "answer"),
    [
        ("/token", (500, {})),
        ("/token", (429, {})),
        ("/token", (200, [])),
        ("/token", (200, {"id_token": "x"})),
        ("/token", (302, {})),
        ("/token", (400, [])),
        ("/token", (400, {"error": "temporarily_unavailable"})),
        ("/token", b"x" * 70_000),
        ("/token", b"\xff"),
    ],
)
def test_a_provider_that_does_not_answer_as_it_should_signs_nobody_in(house: Staff, path: str, answer: Any) -> None:
    house.provider.answers[path] = answer
    assert refusal(house) == "Staff does not answer as it should. Try again in a moment."


@each("answer", [(400, {"error": "invalid_grant"}), (401, {"error": "invalid_client"}), (400, {}), (403, {"error": 7})])
def test_a_code_that_the_provider_refuses_signs_nobody_in(house: Staff, answer: Any) -> None:
    house.provider.answers["/token"] = answer
    assert refusal(house) == "Staff did not confirm who you are. Sign in again."


def test_the_userinfo_of_another_person_signs_nobody_in(house: Staff) -> None:
    house.provider.claims_in_id_token = False
    house.provider.answers["/userinfo"] = (200, {"sub": "bob", "groups": ["admins"]})
    assert refusal(house) == "Staff did not confirm who you are. Sign in again."


@each(
    "description",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"token_endpoint": None},
        {"token_endpoint": "ftp://127.0.0.1/token"},
        {"jwks_uri": "/jwks"},
        {"jwks_uri": "http://127.0.0.1:1/jwks"},
        {"authorization_endpoint": ["x"]},
        {"token_endpoint_auth_methods_supported": 7},
    ],
)
def test_a_description_that_is_not_the_issuers_leads_nowhere(house: Staff, description: dict[str, Any]) -> None:
    changed = {**house.provider.description(), **description}
    house.provider.answers["/.well-known/openid-configuration"] = (200, changed)
    browser = Browser(house.app)
    browser.post(BEGIN)
    house.work()
    answer = browser.get(WAIT)
    assert answer.status_code == 403
    assert "Staff does not answer as it should. Try again in a moment." in words(answer)
    assert browser.get(WAIT).status_code == 403


@each("keys", [{}, {"keys": []}, {"keys": 7}, {"keys": [{"kty": "RSA"}]}, {"keys": ["x"]}, []])
def test_a_provider_without_keys_leads_nowhere(house: Staff, keys: Any) -> None:
    house.provider.answers["/jwks"] = (200, keys)
    browser = Browser(house.app)
    browser.post(BEGIN)
    house.work()
    assert "Staff does not answer as it should" in words(browser.get(WAIT))


# ---------------------------------------------------------------------------------------------- the callback


def denied(browser: Browser, path: str, detail: str) -> None:
    answer = browser.get(path)
    assert (answer.status_code, detail in words(answer)) == (403, True), words(answer)
    assert "Set-Cookie" not in answer.headers


NOT_BEGUN = "This browser has not begun to sign in, or has done so before."
NOT_FOR_IT = "This answer of the provider is not for this browser."
OTHER_PROVIDER = "This answer comes from another provider."


def test_an_answer_is_for_the_browser_that_has_asked_and_for_one_request(house: Staff) -> None:
    browser, victim = Browser(house.app), Browser(house.app)
    url = path_of(house.provider.authorize(house.way(browser), "ann"))
    denied(Browser(house.app), url, NOT_BEGUN)
    house.way(victim)
    denied(victim, url, NOT_FOR_IT)
    for changed, detail in (
        (re.sub("state=[^&]+", "state=x", url), NOT_FOR_IT),
        (re.sub("state=[^&]+", "state=%ED%A0%80", url), NOT_FOR_IT),
        (re.sub("&state=[^&]+", "", url), NOT_FOR_IT),
        (re.sub("&iss=[^&]+", "", url), OTHER_PROVIDER),
        (re.sub("iss=[^&]+", "iss=https://evil.example", url), OTHER_PROVIDER),
    ):
        denied(browser, changed, detail)
    assert browser.get(url).status_code == 303
    denied(browser, url, NOT_BEGUN)
    house.work()
    assert browser.get(WAIT).headers["Location"] == HOME
    denied(browser, url, NOT_BEGUN)
    again = browser.get(WAIT)
    assert (again.status_code, "This attempt to sign in is over. Begin again." in words(again)) == (403, True)


def test_a_code_of_another_attempt_is_refused_by_the_provider(house: Staff) -> None:
    attacker, victim = Browser(house.app), Browser(house.app)
    stolen = parameters_of(house.provider.authorize(house.way(attacker), "ann"))["code"]
    url = house.provider.authorize(house.way(victim), "bob")
    answer = house.come_back(victim, re.sub("code=[^&]+", f"code={stolen}", url))
    assert "Staff did not confirm who you are. Sign in again." in words(answer)


@each(
    ("error", "reason"),
    [
        ("access_denied", "Staff did not sign you in: access_denied."),
        ("login_required", "Staff did not sign you in: login_required."),
        ("<script>alert(1)</script>", "Staff did not sign you in."),
        ("x" * 100, "Staff did not sign you in."),
        ("", "Staff did not sign you in."),
    ],
)
def test_an_error_of_the_provider_is_told_by_its_code_alone(house: Staff, error: str, reason: str) -> None:
    browser = Browser(house.app)
    state = parameters_of(house.way(browser))["state"]
    query = {"state": state, "iss": house.provider.issuer, "error": error, "error_description": "Call 555-1234"}
    assert browser.get(CALLBACK, query_string=query).headers["Location"] == WAIT
    answer = browser.get(WAIT)
    (reason_on_page,) = re.findall(r'class="refused">([^<]*)</p>', answer.text)
    assert (answer.status_code, reason_on_page, "555" in answer.text) == (403, reason, False)


def test_an_attempt_ends_after_ten_minutes(house: Staff) -> None:
    browser = Browser(house.app)
    url = path_of(house.provider.authorize(house.way(browser), "ann"))
    with house.services.database.write() as transaction:
        transaction.execute(update(ConsoleSignIn).values(end_time=now()))
    denied(browser, url, NOT_BEGUN)
    assert browser.get(WAIT).status_code == 403
    clean(house.services)
    with house.services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(ConsoleSignIn)) == 0


@each(
    "wanted_page", ["https://evil.example", "//evil.example/console", "/console/../v1", "/v1/lists", SIGN_IN, CALLBACK]
)
def test_one_comes_back_to_a_page_of_the_console_alone(house: Staff, wanted_page: str) -> None:
    assert house.enter("ann", wanted=wanted_page).headers["Location"] == HOME


@each("headers", [{}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
def test_only_a_page_of_the_console_begins_an_attempt(house: Staff, headers: dict[str, str]) -> None:
    answer = Browser(house.app).open("POST", BEGIN, headers=headers)
    assert (answer.status_code, "Set-Cookie" in answer.headers) == (403, False)


def test_who_begins_under_another_host_is_told_where_to_begin(house: Staff) -> None:
    """The provider leads back to PUBLIC_URL, where the browser has no cookie of the attempt."""
    url = house.provider.authorize(house.way(Browser(house.app)), "ann")
    elsewhere = Browser(house.app, base="http://127.0.0.1:8000")
    denied(elsewhere, path_of(url), f"{NOT_BEGUN} Begin at http://127.0.0.1:8000/console.")


def test_attempts_are_counted_with_keys_and_links(house: Staff) -> None:
    browser = Browser(house.app)
    statuses = [browser.post(BEGIN).status_code for _ in range(2 * MAX_ATTEMPTS + 1)]
    assert statuses[:MAX_ATTEMPTS] == [200] * MAX_ATTEMPTS
    assert 429 in statuses


def test_without_a_provider_its_pages_do_not_exist(tenant: Tenant) -> None:
    browser = Browser(tenant.app)
    assert "Sign in with" not in words(browser.get(SIGN_IN))
    answers = [browser.get(WAIT), browser.get(CALLBACK), browser.post(BEGIN)]
    assert [answer.status_code for answer in answers] == [404, 404, 404]


def test_only_secrets_that_are_encrypted_or_hashed_are_stored(house: Staff) -> None:
    browser = Browser(house.app)
    url = house.provider.authorize(house.way(browser), "ann")
    cookie = browser.client.get_cookie("tms_console_sign_in", "localhost", "/")
    assert cookie is not None
    browser.get(path_of(url))
    with house.services.database.read() as session:
        stored = repr(session.execute(select(ConsoleSignIn.__table__)).all())
    for secret in (cookie.value, *(parameters_of(url)[name] for name in ("code", "state"))):
        assert secret not in stored
    house.work()
    browser.get(WAIT)
    with house.services.database.read() as session:
        stored = repr(session.execute(select(ConsoleSession.__table__)).all())
    assert [token for token in house.provider._tokens if token in stored] == []


# ---------------------------------------------------------------------------------------------- roles


def test_an_operator_sees_and_does_everything(house: Staff, tenant: Tenant) -> None:
    browser = house.signed_in("ann")
    assert [browser.get(path).status_code for path in ("/console/audit", "/console/accounts", HOME)] == [200] * 3
    made = browser.post(f"/console/lists?account={tenant.id}", name=unique("list"))
    assert made.status_code == 303


def test_a_manager_does_in_one_account_what_its_link_may(house: Staff, tenant: Tenant, other_tenant: Tenant) -> None:
    browser = house.signed_in("bob")
    assert browser.post("/console/lists", name=unique("list")).status_code == 303
    assert browser.get("/console/keys").status_code == 200
    for path in ("/console/audit", "/console/accounts", "/console/holds"):
        assert browser.get(path).status_code == 403, path
    assert post(browser, f"/console/accounts/{tenant.id}") == 403
    other_list = other_tenant.add_list("Secret")
    assert browser.get(f"/console/lists/{other_list}?account={other_tenant.id}").status_code == 404
    assert other_tenant.name not in words(browser.get(f"{HOME}?account={other_tenant.id}"))


READS = ("", "/messages", "/groups", "/lists", "/suppressions", "/stored-messages", "/automations", "/webhooks")


def test_a_reader_of_an_account_sees_it_and_may_do_nothing(house: Staff, tenant: Tenant) -> None:
    browser, list_id = house.signed_in("cat"), tenant.add_list("Customers")
    assert [browser.get(f"{HOME}{path}").status_code for path in READS] == [200] * len(READS)
    assert [browser.get(f"{HOME}{path}").status_code for path in ("/keys", "/people", "/audit", "/accounts")] == [
        403
    ] * 4
    rules = {rule.rule for rule in house.app.url_map.iter_rules() if "POST" in (rule.methods or ())}
    may_post = {SIGN_IN, BEGIN, "/console/login/<token>", "/console/sign-out", "/console/roles"}
    for rule in sorted(rule for rule in rules if rule.startswith(HOME) and rule not in may_post):
        path = re.sub("<[^>]+>", str(list_id), rule)
        assert post(browser, path) == 403, path
    assert f"of {tenant.name}" in words(browser.get(f"{HOME}/lists/{list_id}"))


def test_a_reader_of_all_accounts_chooses_one_and_sees_no_page_of_operators(
    house: Staff, tenant: Tenant, other_tenant: Tenant
) -> None:
    browser = house.signed_in("dan")
    for account in (tenant, other_tenant):
        page = browser.get(f"{HOME}/lists?account={account.id}")
        assert (page.status_code, account.name in words(page)) == (200, True)
        assert post(browser, f"{HOME}/lists?account={account.id}") == 403
    assert [browser.get(f"{HOME}{path}").status_code for path in ("/audit", "/accounts", "/holds")] == [403] * 3


def test_what_is_kept_from_all_but_operators_is_kept_from_a_reader_of_all_accounts(
    house: Staff, tenant: Tenant, sends: SendsApi
) -> None:
    """Notes on what happened to a message, and files that may have secret values."""
    uuid, words_of_note = mail(sends, secret_values=["code"]), "a note for the operator"
    (folder_of(tenant, "mail") / f"{uuid}.eml").write_bytes(b"Subject: Code 47110815\r\n\r\n47110815")
    with tenant.services.database.write() as transaction:
        recipient = transaction.scalars(select(Recipient).where(Recipient.uuid == uuid)).one()
        step = step_row(tenant.id, recipient.id, TimelineStep.DEFERRED, "451 later", now(), note=words_of_note)
        add_steps(transaction, [step])
    operator, reader = house.signed_in("ann"), house.signed_in("dan")
    file, message = f"{HOME}/inbox/folders/{uuid}", f"{HOME}/messages/{uuid}"
    assert "47110815" in operator.get(file).text
    assert (reader.get(file).status_code, "47110815" in reader.get(file).text) == (403, False)
    assert "451 later" in reader.get(message).text
    assert [words_of_note in browser.get(message).text for browser in (operator, reader)] == [True, False]


@pytest.fixture
def paused_everywhere(tenant: Tenant) -> Iterator[None]:
    """A domain to which an operator has paused the mail of all accounts."""
    with tenant.services.database.write() as transaction:
        pause_id = pause(transaction, Subject(None, domain="paused.example"), "a blocklist").id
    yield
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(SendPause).where(SendPause.id == pause_id))


@pytest.mark.usefixtures("paused_everywhere")
def test_a_reader_of_all_accounts_sees_how_much_waits_without_notes_commands_and_destinations(
    house: Staff, tenant: Tenant
) -> None:
    rows, queue = Rows(tenant.services, tenant.id), f"{HOME}/queues"
    deferred, held = rows.add_send(["ann@later.example", "bob@later.example"], due_in=60)
    rows.change([deferred], attempts=1, due_time=now() + timedelta(minutes=1))
    rows.change([held], state="held", held_state="queued")
    with tenant.services.database.write() as transaction:
        steps = [step_row(tenant.id, deferred, TimelineStep.DEFERRED, "451 later", now(), note="10.1.2.3: no route")]
        add_steps(transaction, steps)
    operator, reader = house.signed_in("ann"), house.signed_in("dan")
    wait_until(lambda: "holds list" in operator.get(queue).text, "a reading of the figures is complete")
    for path, hidden in (
        (HOME, ("10.1.2.3: no route", ">Destination<")),
        (
            queue,
            ("10.1.2.3: no route", ">Destination<", "holds list", "a blocklist", ">Pause</button>", ">Resume</button>"),
        ),
        (f"{queue}?account={tenant.id}", ("10.1.2.3: no route",)),
    ):
        pages = [browser.get(path).text for browser in (operator, reader)]
        assert [[text in page for text in hidden] for page in pages] == [[True] * len(hidden), [False] * len(hidden)]
    page = words(reader.get(queue))
    assert re.search(r"later\.example 1 .* UTC .* UTC 451 later", page)
    assert re.search(r"mail of all accounts to paused\.example .* UTC the operator of this service 0", page)
    assert "Relays and gateways Transport Type State default email in use" in words(reader.get(HOME))


def test_a_person_with_several_roles_has_one_at_a_time_and_chooses(
    house: Staff, tenant: Tenant, other_tenant: Tenant
) -> None:
    browser = house.signed_in("fay")
    roles = words(browser.get("/console/roles"))
    names = sorted([tenant.name, other_tenant.name])
    assert f"Manager of {names[0]} (current) Switch to manager of {names[1]} Switch to reader of all accounts" in roles
    (before,) = open_sessions(house, "fay")
    cookie = browser.client.get_cookie("tms_console", "localhost", "/")
    other = tenant if before.account_id == other_tenant.id else other_tenant
    same = browser.post("/console/roles", role="manager", account=str(before.account_id))
    assert (same.headers["Location"], open_sessions(house, "fay")[0].id) == (HOME, before.id)
    answer = browser.post("/console/roles", role="manager", account=str(other.id))
    assert (answer.status_code, answer.headers["Location"]) == (303, HOME)
    (after,) = open_sessions(house, "fay")
    assert (after.account_id, after.role, after.end_time) == (other.id, "manager", before.end_time)
    assert (after.refresh_token, after.check_time) == (before.refresh_token, before.check_time)
    assert other.name in words(browser.get(HOME))
    assert cookie is not None
    browser.client.set_cookie("tms_console", cookie.value)
    assert browser.get(HOME).status_code == 401


@each(
    "role",
    [
        {"role": "operator", "account": ""},
        {"role": "manager", "account": ""},
        {"role": "reader", "account": "1"},
        {"role": "manager", "account": "x"},
        {"role": "manager", "account": str(2**70)},
        {"role": "", "account": ""},
        {},
    ],
)
def test_a_role_that_a_person_does_not_have_cannot_be_chosen(house: Staff, role: dict[str, str]) -> None:
    browser = house.signed_in("fay")
    answer = browser.post("/console/roles", **role)
    assert (answer.status_code, "You do not have this role." in words(answer)) == (404, True)
    assert browser.get(HOME).status_code == 200


def test_who_has_signed_in_with_a_key_has_no_roles_to_choose(tenant: Tenant) -> None:
    browser = Browser(tenant.app).sign_in(tenant.tokens["standard"])
    page = browser.get("/console/roles")
    assert (page.status_code, "You can choose a role only if you signed in with a provider." in words(page)) == (
        200,
        True,
    )
    assert post(browser, "/console/roles") == 404


# ---------------------------------------------------------------------------------------------- sessions


def test_a_role_that_is_taken_away_ends_its_sessions(house: Staff) -> None:
    browser, other = house.signed_in("ann"), house.signed_in("ann")
    house.provider.people["ann"]["groups"] = ["auditors"]
    house.check()
    assert [browser.get(HOME).status_code, other.get(HOME).status_code] == [401, 401]
    person = person_of(house, "ann")
    assert acts(house, f"person {person.id}")[2:] == [("session.ended", "service", "OpenID Connect")] * 2
    assert house.signed_in("ann").get("/console/audit").status_code == 403


def test_a_role_that_stays_keeps_its_session_and_its_new_refresh_token(house: Staff, tenant: Tenant) -> None:
    browser = house.signed_in("fay")
    (before,) = open_sessions(house, "fay")
    house.provider.people["fay"] |= {"name": "Fay Stone", "groups": ["shop"] if before.account_id == tenant.id else []}
    if before.account_id != tenant.id:
        house.provider.people["fay"]["groups"] = [f"team-{account_name(house, before.account_id)}"]
    house.check()
    began = now()
    house.check()
    ended = now()
    (after,) = open_sessions(house, "fay")
    assert (after.id, after.refresh_token != before.refresh_token) == (before.id, True)
    assert after.check_time is not None
    assert began <= after.check_time - timedelta(minutes=5) <= ended
    assert "Fay Stone" in words(browser.get(HOME))
    assert (after.end_time, len(person_of(house, "fay").grants)) == (before.end_time, 1)


def account_name(house: Staff, account_id: int | None) -> str:
    with house.services.database.read() as session:
        return str(session.scalars(select(Account.name).where(Account.id == account_id)).one())


def test_a_person_whom_the_provider_has_signed_out_is_signed_out(house: Staff) -> None:
    browser, bob = house.signed_in("ann"), house.signed_in("bob")
    house.provider.end_sessions()
    house.check()
    assert [browser.get(HOME).status_code, bob.get(HOME).status_code] == [401, 401]


def test_tokens_of_another_person_end_the_session(house: Staff) -> None:
    browser = house.signed_in("bob")
    house.provider.change_claims = lambda claims: claims.update(sub="ann", groups=["admins"])
    house.check()
    assert browser.get(HOME).status_code == 401


@each("answer", [(503, {}), (429, {"error": "slow_down"}), (400, {"error": "server_error"}), b"<html>", (200, {})])
def test_while_the_provider_is_away_sessions_go_on_until_their_end(house: Staff, answer: Any) -> None:
    browser = house.signed_in("ann")
    house.provider.answers["/token"] = answer
    began = now()
    house.check()
    ended = now()
    assert browser.get(HOME).status_code == 200
    (session,) = open_sessions(house, "ann")
    assert session.check_time is not None
    assert began <= session.check_time - timedelta(minutes=1) <= ended
    assert session.end_time - session.creation_time == timedelta(hours=8)
    house.provider.answers.clear()
    house.check()
    assert browser.get(HOME).status_code == 200
    browser.post("/console/sign-out")


@each("answer", [(503, {}), b"<html>"])
def test_while_only_a_part_of_the_provider_answers_sessions_go_on_with_their_new_refresh_tokens(
    house: Staff, answer: Any
) -> None:
    house.provider.claims_in_id_token = False
    browser = house.signed_in("ann")
    house.provider.answers["/userinfo"] = answer
    house.check()
    house.check()
    assert browser.get(HOME).status_code == 200
    house.provider.answers.clear()
    house.check()
    assert browser.get(HOME).status_code == 200
    browser.post("/console/sign-out")


@each("goes_on", [True, False])
def test_a_check_is_about_the_role_that_its_person_chooses_meanwhile(house: Staff, goes_on: bool) -> None:
    browser, status = house.signed_in("fay"), 200 if goes_on else 401
    if not goes_on:
        house.provider.end_sessions()
    asked = house.provider.requests.count(("POST", "/token"))
    house.provider.silence.clear()
    check = threading.Thread(target=house.check)
    check.start()
    wait_until(lambda: house.provider.requests.count(("POST", "/token")) > asked, "the provider is asked")
    assert browser.post("/console/roles", role="reader", account="").status_code == 303
    house.provider.silence.set()
    check.join()
    assert browser.get(HOME).status_code == status
    house.check()
    assert browser.get(HOME).status_code == status


def test_a_session_without_a_refresh_token_ends_after_an_hour_and_is_not_asked_about(house: Staff) -> None:
    house.provider.gives_refresh_tokens = False
    browser = house.signed_in("ann")
    (session,) = open_sessions(house, "ann")
    assert (session.end_time - session.creation_time, session.check_time) == (timedelta(hours=1), None)
    asked = len(house.provider.requests)
    house.check()
    assert (len(house.provider.requests), browser.get(HOME).status_code) == (asked, 200)


def test_another_provider_or_none_ends_the_sessions_of_people(house: Staff, settings: Settings) -> None:
    browser = house.signed_in("ann")
    cookie = browser.client.get_cookie("tms_console", "localhost", "/")
    assert cookie is not None
    with provider() as another, staff(settings, another, "admins=operator") as moved:
        elsewhere = Browser(moved.app)
        elsewhere.client.set_cookie("tms_console", cookie.value)
        assert elsewhere.get(HOME).status_code == 401
    assert browser.get(HOME).status_code == 200


def test_a_person_who_is_forgotten_is_signed_out_and_only_a_number(house: Staff) -> None:
    browser = house.signed_in("ann")
    person = person_of(house, "ann")
    seen = house.signed_in("ann")
    entries = f"/console/audit?actor=person%20{person.id}"
    assert f"Ann Lee (person {person.id})" in words(seen.get(entries))
    reader = Browser(house.app)
    with house.services.database.write() as transaction:
        assert forget_console_person(transaction, person.id) == 2
        link = make_link(transaction, None)
    assert [browser.get(HOME).status_code, seen.get(HOME).status_code, people(house)] == [401, 401, 0]
    reader.follow_link(link)
    text = words(reader.get(entries))
    assert (f"person {person.id}" in text, "Ann" in text) == (True, False)
    house.signed_in("ann")
    assert person_of(house, "ann").id > person.id


# ---------------------------------------------------------------------------------------------- without keys and links


def test_keys_and_links_still_sign_in_beside_the_provider(house: Staff, tenant: Tenant) -> None:
    Browser(house.app).sign_in(tenant.tokens["standard"])
    with house.services.database.write() as transaction:
        link = make_link(transaction, transaction.get_one(Account, tenant.id))
    assert Browser(house.app).follow_link(link).headers["Location"] == HOME


def test_with_people_alone_no_key_and_no_link_signs_in_but_one_for_an_emergency(
    settings: Settings, tenant: Tenant
) -> None:
    before = Browser(tenant.app).sign_in(tenant.tokens["standard"])
    cookie = before.client.get_cookie("tms_console", "localhost", "/")
    assert cookie is not None
    with provider() as made, staff(settings, made, "admins=operator", oidc_only=True) as house:
        form = Browser(house.app).get(SIGN_IN)
        assert ("API key" in words(form), "Sign in with Staff" in words(form)) == (False, True)
        with_key = Browser(house.app).post(SIGN_IN, key=tenant.tokens["standard"])
        assert (with_key.status_code, "Sign in with Staff instead." in words(with_key)) == (403, True)
        assert "Set-Cookie" not in with_key.headers
        with house.services.database.write() as transaction:
            link, emergency = make_link(transaction, None), make_link(transaction, None, emergency=True)
            _, _ = issue_key(transaction, tenant.id, unique("key"), "standard")
        with_link = Browser(house.app).follow_link(link)
        assert (with_link.status_code, "Set-Cookie" in with_link.headers) == (403, False)
        old = Browser(house.app)
        old.client.set_cookie("tms_console", cookie.value)
        assert old.get(HOME).status_code == 401
        operator = Browser(house.app)
        assert operator.follow_link(emergency).headers["Location"] == HOME
        assert operator.get("/console/audit").status_code == 200
        made.people = {"ann": {"groups": ["admins"]}}
        assert house.signed_in("ann").get("/console/audit").status_code == 200
    assert before.get(HOME).status_code == 200
