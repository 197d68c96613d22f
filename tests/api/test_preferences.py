"""The page behind a preferences link (docs/preferences.md)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from app.accounts.testing import refreshed_test_account
from app.contacts import suppress
from app.contacts.blocked import COMPLAINT
from app.db.models import Account, Contact, List
from app.tracking.feedback_channels import unsubscribe_link
from app.tracking.tokens import OPEN_PURPOSE, PREFERENCES_PURPOSE, recipient_token
from tests.support.automations import runs_of
from tests.support.cases import each
from tests.support.client import Client
from tests.support.contacts import add_webhook, block, contact, entries, events, find, unsubscribe
from tests.support.definitions import STANDARD, create
from tests.support.preferences import PreferencesPage, preferences_path
from tests.support.rows import Rows
from tests.support.tenants import Tenant, new_email, new_mobile, new_tenant

EMAIL_ONLY, MOBILE_ONLY = (("Email", "Email"),), (("Mobile", "Mobile Phone"),)


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of the account."""
    return Rows(tenant.services, tenant.id)


def link_for(tenant: Tenant, address: str, type_: str = "email", **content: Any) -> str:
    """The path of the link of a message to the address, of no list."""
    (recipient_id,) = Rows(tenant.services, tenant.id).add_send([address], type=type_, **content)
    return preferences_path(tenant.services, recipient_id)


def lists_on(anon: Client, path: str) -> dict[str, dict[str, str]]:
    """The lists of the page with the state of each channel."""
    return PreferencesPage.of(anon.get(path)).lists


def posted(anon: Client, path: str, **form: Any) -> dict[str, dict[str, str]]:
    """The same after a form."""
    return PreferencesPage.of(anon.request("POST", path, data=form)).lists


# ---------------------------------------------------------------------------------------------- what is shown


def test_the_page_shows_what_a_person_gets_of_each_list(tenant: Tenant, anon: Client) -> None:
    """Lists in their order, with the channels that the contact or the list has; those that are not offered, system
    lists and lists without such a field are left out."""
    email, mobile = new_email(), new_mobile()
    both = tenant.add_list("Both", offered=True, offered_name="<b>Both</b>")
    off, alone = tenant.add_list("Off", offered=True), tenant.add_list("Alone", EMAIL_ONLY, offered=True)
    tenant.add_list("Hidden")
    tenant.add_list("Texts", MOBILE_ONLY, offered=True)
    tenant.add_list("System", offered=True, system=True)
    tenant.new_contact(both, email=email, mobile=mobile)
    tenant.new_contact(off, email=email, subscribed={"email": False})
    path = link_for(tenant, email)
    assert lists_on(anon, path) == {
        "<b>Both</b>": {f"email-{both}": "on", f"mobile-{both}": "on"},
        "Off": {f"email-{off}": "off"},
        "Alone": {f"email-{alone}": "off"},
    }
    text = anon.get(path).text
    assert "<b>Both" not in text
    assert mobile not in text


def test_a_text_message_has_the_link_too(tenant: Tenant, anon: Client) -> None:
    email, mobile = new_email(), new_mobile()
    both, texts = tenant.add_list("Both", offered=True), tenant.add_list("Texts", MOBILE_ONLY, offered=True)
    tenant.add_list("Mails", EMAIL_ONLY, offered=True)
    tenant.new_contact(both, email=email, mobile=mobile)
    path = link_for(tenant, mobile, "sms")
    assert lists_on(anon, path) == {
        "Both": {f"email-{both}": "on", f"mobile-{both}": "on"},
        "Texts": {f"mobile-{texts}": "off"},
    }
    assert posted(anon, path, all="mobile-on")["Texts"] == {f"mobile-{texts}": "on"}
    (joined,) = find(tenant, texts)
    assert (joined["email"], joined["mobile"]) == (None, mobile)


def test_without_an_offered_list_the_page_says_so(tenant: Tenant, anon: Client) -> None:
    answer = anon.get(link_for(tenant, new_email()))
    assert PreferencesPage.of(answer).lists == {}
    assert "There is nothing to choose at the moment." in answer.text
    assert "<form" not in answer.text


@each(
    ("language", "title"),
    [
        ("en", "What would you like to receive?"),
        ("de", "Was möchten Sie erhalten?"),
        ("fr", "Que souhaitez-vous recevoir ?"),
        ("es", "¿Qué desea recibir?"),
    ],
)
def test_the_page_has_the_language_of_the_browser(tenant: Tenant, anon: Client, language: str, title: str) -> None:
    answer = anon.get(link_for(tenant, new_email()), headers={"Accept-Language": language})
    assert (PreferencesPage.of(answer).title, answer.headers["Content-Language"]) == (title, language)
    assert f'<html lang="{language}">' in answer.text


def test_only_a_post_changes_anything(tenant: Tenant, anon: Client) -> None:
    """Programs that look at links change nothing, whatever they add to them."""
    list_id, email = tenant.add_list(offered=True), new_email()
    tenant.new_contact(list_id, email=email)
    add_webhook(tenant)
    path = link_for(tenant, email)
    for method in ("GET", "HEAD", "OPTIONS"):
        assert anon.request(method, f"{path}?all=email-off&was=email-{list_id}").status_code in (200, 204)
    assert (entries(tenant), events(tenant)) == (set(), [])


# ---------------------------------------------------------------------------------------------- what a choice does


def test_a_repetition_changes_nothing(tenant: Tenant, rows: Rows, anon: Client) -> None:
    list_id, email = tenant.add_list("News", offered=True), new_email()
    contact_id = tenant.new_contact(list_id, email=email)["id"]
    add_webhook(tenant)
    (recipient_id,) = rows.add_send([email], list_id=list_id)
    path = preferences_path(tenant.services, recipient_id)
    for _ in range(2):
        assert posted(anon, path, was=f"email-{list_id}") == {
            "News": {
                f"email-{list_id}": "off",
            }
        }
    for _ in range(2):
        assert posted(anon, path, on=f"email-{list_id}") == {"News": {f"email-{list_id}": "on"}}
    assert events(tenant) == [("updated", list_id, contact_id)] * 2
    assert [step for step, _ in rows.steps(recipient_id)] == ["unsubscribed", "resubscribed"]
    assert rows.group_of(recipient_id).unsubscribed == 1


def test_who_is_unsubscribed_from_everything_chooses_one_list(tenant: Tenant, anon: Client) -> None:
    """As for a contact that is subscribed again: the other lists of the address stay unsubscribed, also those that are
    not offered."""
    email = new_email()
    chosen, other = tenant.add_list("Chosen", offered=True), tenant.add_list("Other", offered=True)
    hidden = tenant.add_list("Hidden")
    for list_id in (chosen, other, hidden):
        tenant.new_contact(list_id, email=email)
    unsubscribe(tenant, email)
    path = link_for(tenant, email)
    assert lists_on(anon, path) == {"Chosen": {f"email-{chosen}": "off"}, "Other": {f"email-{other}": "off"}}
    after = posted(anon, path, on=f"email-{chosen}")
    assert after == {"Chosen": {f"email-{chosen}": "on"}, "Other": {f"email-{other}": "off"}}
    assert entries(tenant) == {("email", email, other), ("email", email, hidden)}


@pytest.mark.parametrize("cause", ["complaint", "bounce", "inactive"])
def test_what_the_person_did_not_choose_is_not_lifted(tenant: Tenant, anon: Client, cause: str) -> None:
    """The page says so; switching off is recorded all the same."""
    list_id, email = tenant.add_list("News", offered=True), new_email()
    contact_id = tenant.new_contact(list_id, email=email, is_active=cause != "inactive")["id"]
    if cause == "complaint":
        with tenant.services.database.write() as transaction:
            suppress.unsubscribe(transaction, tenant.id, "email", email, list_id, block_reason=COMPLAINT)
    elif cause == "bounce":
        block(tenant, email)
    before, path, box = contact(tenant, list_id, contact_id), link_for(tenant, email), f"email-{list_id}"
    answer = anon.get(path)
    assert PreferencesPage.of(answer).lists == {"News": {box: "stopped"}}
    assert "You cannot switch this on here. Please contact the sender." in answer.text
    for form in ({"on": box}, {"all": "email-on"}):
        assert posted(anon, path, **form) == {"News": {box: "stopped"}}
    assert contact(tenant, list_id, contact_id) == before
    posted(anon, path, all="email-off")
    assert ("email", email, list_id) in entries(tenant)


@pytest.mark.parametrize("cause", ["text message", "application", "whole account"])
def test_what_the_other_address_chose_itself_is_not_lifted(tenant: Tenant, anon: Client, cause: str) -> None:
    """Who has the mail need not have the telephone: they switch on again what the page of a mail has switched off, and
    not what a stop word, a link in a text message, or the account has."""
    list_id, email, mobile = tenant.add_list("News", offered=True), new_email(), new_mobile()
    contact_id = tenant.new_contact(list_id, email=email, mobile=mobile)["id"]
    path, box = link_for(tenant, email), f"mobile-{list_id}"
    assert posted(anon, path, was=box)["News"][box] == "off"
    assert posted(anon, link_for(tenant, email), on=box)["News"][box] == "on"
    if cause == "text message":
        assert posted(anon, link_for(tenant, mobile, "sms"), was=box)["News"][box] == "off"
    elif cause == "application":
        tenant.api.patch(f"/v1/lists/{list_id}/contacts/{contact_id}", {"subscribed": {"mobile": False}})
    else:
        posted(anon, path, was=box)
        unsubscribe(tenant, mobile, kind="mobile")
    before = entries(tenant)
    assert lists_on(anon, path)["News"] == {f"email-{list_id}": "on", box: "stopped"}
    for form in ({"on": box}, {"all": "mobile-on"}):
        assert posted(anon, path, **form)["News"][box] == "stopped"
    assert entries(tenant) == before
    assert posted(anon, link_for(tenant, mobile, "sms"), on=box)["News"][box] == "on"
    assert entries(tenant) == set()


def test_a_forgotten_person_who_gets_a_message_again_is_unsubscribed_as_before(tenant: Tenant, anon: Client) -> None:
    """What is kept under a digest counts as before (docs/privacy.md#what-is-kept), and the person may lift it."""
    list_id, email = tenant.add_list("News", offered=True), new_email()
    tenant.new_contact(list_id, email=email, subscribed={"email": False})
    former_path = link_for(tenant, email)
    forget = ("contacts", "forget", email, "--account", tenant.name, "--yes", "--no-compact")
    assert tenant.app.test_cli_runner().invoke(args=[*forget]).exit_code == 0
    check_page(anon.get(former_path), 404, DEAD)
    path = link_for(tenant, email)
    assert lists_on(anon, path) == {"News": {f"email-{list_id}": "off"}}
    assert posted(anon, path, on=f"email-{list_id}") == {"News": {f"email-{list_id}": "on"}}
    assert (entries(tenant), len(find(tenant, list_id))) == (set(), 1)


def test_a_page_that_was_opened_before_undoes_nothing(tenant: Tenant, rows: Rows, anon: Client) -> None:
    list_id, other, email = tenant.add_list("News", offered=True), tenant.add_list("Offers", offered=True), new_email()
    tenant.new_contact(list_id, email=email)
    (recipient_id,) = rows.add_send([email], list_id=list_id)
    path = preferences_path(tenant.services, recipient_id)
    page = PreferencesPage.of(anon.get(path))
    settings = tenant.services.settings
    anon.request("POST", unsubscribe_link(settings, recipient_id).removeprefix(settings.public_url))
    after = posted(anon, path, **page.changed(**{f"email_{other}": True}))
    assert after == {"News": {f"email-{list_id}": "off"}, "Offers": {f"email-{other}": "on"}}
    assert entries(tenant) == {("email", email, list_id)}


def test_the_copies_of_a_test_account_have_the_ids_of_their_originals(tenant: Tenant, anon: Client) -> None:
    """A choice of a test changes nothing in the account itself."""
    list_id, email = tenant.add_list("News", offered=True), new_email()
    tenant.new_contact(list_id, email=email)
    with tenant.services.database.write() as transaction:
        test_id = refreshed_test_account(transaction, transaction.get_one(Account, tenant.id)).id
    (recipient_id,) = Rows(tenant.services, test_id).add_send([email])
    path = preferences_path(tenant.services, recipient_id)
    assert lists_on(anon, path) == {"News": {f"email-{list_id}": "off"}}
    assert posted(anon, path, on=f"email-{list_id}") == {"News": {f"email-{list_id}": "on"}}
    assert posted(anon, path, was=f"email-{list_id}") == {"News": {f"email-{list_id}": "off"}}
    assert (entries(tenant), len(find(tenant, list_id))) == (set(), 1)


def test_a_list_that_allows_duplicates_gets_one_contact(tenant: Tenant, anon: Client) -> None:
    list_id, email = tenant.add_list("News", offered=True, allow_duplicates=True), new_email()
    path = link_for(tenant, email)
    for form in ({"on": f"email-{list_id}"}, {"all": "email-on"}):
        assert posted(anon, path, **form) == {"News": {f"email-{list_id}": "on"}}
    assert len(find(tenant, list_id)) == 1


def test_who_joins_a_list_enters_its_automations(tenant: Tenant, anon: Client) -> None:
    tenant.add_message(name=STANDARD["message"])
    automations = {}
    for name in ("People", "Friends"):
        tenant.add_list(name, offered=True)
        automations[name] = create(tenant, {**STANDARD, "name": name, "list": name})
    posted(anon, link_for(tenant, new_email()), all="email-on")
    runs = {name: runs_of(tenant.services, automation_id) for name, automation_id in automations.items()}
    assert {name: len(list_runs) for name, list_runs in runs.items()} == {"People": 1, "Friends": 1}


@each("form", [{"all": "email-on"}, {"all": "email-off"}, {}])
def test_a_page_takes_a_fixed_number_of_statements(
    tenant: Tenant, anon: Client, count_statements: Callable[[], Any], form: dict[str, str]
) -> None:
    """Whatever the number of lists that are offered, that the person is in, and that they join."""

    def cost(lists: int) -> int:
        account = new_tenant(tenant.app)
        email = new_email()
        add_webhook(account)
        ids = [account.add_list(f"List {number}", offered=True) for number in range(lists)]
        for list_id in ids[::2]:
            account.new_contact(list_id, email=email, mobile=new_mobile(), subscribed={"email": "off" in str(form)})
        account.add_message(name=STANDARD["message"])
        create(account, {**STANDARD, "list": f"List {lists - 1}"})
        path = link_for(account, email)
        with count_statements() as counted:
            assert len(posted(anon, path, **form) if form else lists_on(anon, path)) == lists
        return int(counted.count)

    assert cost(2) == cost(40)


# ---------------------------------------------------------------------------------------------- bad inputs


def check_page(answer: Any, status: int, title: str) -> None:
    """The whole answer: a page for people with the headers of all pages behind a link, which says this and no more."""
    assert (answer.status_code, answer.mimetype) == (status, "text/html"), answer.text
    headers = answer.headers
    assert (headers["Cache-Control"], headers["X-Robots-Tag"]) == ("no-store", "noindex")
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert (headers["Content-Language"], headers["Vary"]) == ("en", "Accept-Language")
    assert re.search("<main>(.*)</main>", answer.text, re.DOTALL)[1].strip() == MAIN[title]  # type: ignore[index]


DEAD, WRONG = "This link does not work", "Please check the details you entered."
UNREADABLE, IMPOSSIBLE = "The request could not be understood.", "This operation is not possible here."
MAIN = {
    DEAD: f"<h1>{DEAD}</h1>\n<p>Please open it exactly as it stands in your message.</p>",
    **{title: f"<h1>{title}</h1>" for title in (WRONG, UNREADABLE, IMPOSSIBLE)},
}


@each("method", ["GET", "POST"])
def test_a_link_that_nobody_was_given_is_dead(tenant: Tenant, rows: Rows, anon: Client, method: str) -> None:
    """It is forged, changed, of another purpose, or of a recipient that was deleted."""
    (recipient_id,) = rows.add_send([new_email()])
    path, key = preferences_path(tenant.services, recipient_id), tenant.services.settings.secret_key
    settings = tenant.services.settings
    unsubscribing = unsubscribe_link(settings, recipient_id).rpartition("/")[2]
    for token in (
        *("nonsense", "copy", "dry-run-00000000000", path[3:-1], f"{path[3:]}A", path[3:].swapcase(), unsubscribing),
        recipient_token(key, OPEN_PURPOSE, recipient_id),
        recipient_token(f"{key}x", PREFERENCES_PURPOSE, recipient_id),
        recipient_token(key, PREFERENCES_PURPOSE, 999_999_999),
    ):
        check_page(anon.request(method, f"/p/{token}"), 404, DEAD)
    check_page(anon.request(method, f"/u/{path[3:]}"), 404, DEAD)


@pytest.fixture
def unchanged(tenant: Tenant, other_tenant: Tenant, anon: Client) -> Any:
    """The path of a link, and ids of a list that is offered, of one that is not, and of one of another account; nothing
    of them may have changed after the test."""
    email = new_email()
    ids = tenant.add_list("News", offered=True), tenant.add_list("Hidden"), other_tenant.add_list(offered=True)
    for account, list_id in ((tenant, ids[0]), (tenant, ids[1]), (other_tenant, ids[2])):
        account.new_contact(list_id, email=email)
    add_webhook(tenant)
    add_webhook(other_tenant)
    path = link_for(tenant, email)
    yield path, ids
    assert lists_on(anon, path) == {"News": {f"email-{ids[0]}": "on"}}
    for account in (tenant, other_tenant):
        assert (entries(account), events(account)) == (set(), [])


def test_a_form_with_anything_else_than_the_page_has_is_refused_as_a_whole(unchanged: Any, anon: Client) -> None:
    path, (offered_id, hidden, foreign) = unchanged
    for name in ("was", "on"):
        for value in (
            *(f"email-{hidden}", f"email-{foreign}", "email-0", f"email-{2**63 - 1}", f"email-{10**19 - 1}"),
            *(
                f"mobile-{offered_id}",
                f"fax-{offered_id}",
                "email-",
                "email",
                "",
                f"email-{offered_id}x",
                f"email--{offered_id}",
                f"email-{10**19}",
            ),
            f"Email-{offered_id}",
        ):
            other = "on" if name == "was" else "was"
            form = {"was": [f"email-{offered_id}"], "on": []}
            form[name] = [*form[name], value]
            assert value not in form[other]
            check_page(anon.request("POST", path, data=form), 422, WRONG)
    for value in ("", "off", "email", "email-On", "fax-off", "mobile-off\n"):
        check_page(anon.request("POST", path, data={"all": value}), 422, WRONG)


def test_a_form_with_too_many_fields_is_refused(unchanged: Any, anon: Client) -> None:
    path, (offered_id, *_) = unchanged
    form = [f"was=email-{offered_id}"] * 201
    check_page(anon.raw("POST", path, "&".join(form).encode(), FORM), 422, WRONG)
    assert (
        anon.raw("POST", path, "&".join([*form[:99], *[f"on=email-{offered_id}"] * 101]).encode(), FORM).status_code
        == 200
    )


FORM = "application/x-www-form-urlencoded"


def test_a_body_that_is_too_large_compressed_or_not_whole_is_refused(unchanged: Any, anon: Client) -> None:
    """A part of a form would say something else than the form."""
    path, (offered_id, *_) = unchanged
    form = f"was=email-{offered_id}&".encode()
    check_page(anon.raw("POST", path, form + b"x" * (16 * 1024), FORM), 400, UNREADABLE)
    unbounded = {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": ""}
    check_page(anon.raw("POST", path, form * 2000, FORM, environ_overrides=unbounded), 400, UNREADABLE)
    check_page(anon.raw("POST", path, form, FORM, headers={"Content-Encoding": "gzip"}), 400, UNREADABLE)
    check_page(anon.raw("POST", path, form, FORM, environ_overrides={"CONTENT_LENGTH": "99"}), 400, UNREADABLE)


def test_what_is_no_form_changes_nothing(unchanged: Any, anon: Client) -> None:
    """One-click requests, JSON, bytes and fields of other names."""
    path, (offered_id, *_) = unchanged
    for body, type_ in (
        (b"List-Unsubscribe=One-Click", FORM),
        (b'{"all": "email-off"}', "application/json"),
        (b"\xff\x00\xfe", "application/octet-stream"),
        (b"", None),
        (f"WAS=email-{offered_id}&choice=off&lists=1".encode(), FORM),
    ):
        assert anon.raw("POST", path, body, type_).status_code == 200


@each("method", ["PUT", "PATCH", "DELETE"])
def test_other_methods_are_not_possible(tenant: Tenant, anon: Client, method: str) -> None:
    answer = anon.request(method, link_for(tenant, new_email()))
    check_page(answer, 405, IMPOSSIBLE)
    assert answer.headers["Allow"] == "GET, HEAD, OPTIONS, POST"


def test_a_list_that_is_no_longer_offered_cannot_be_changed(tenant: Tenant, anon: Client) -> None:
    """A page that was open before still saves what it changes of other lists."""
    first, second, email = tenant.add_list("First", offered=True), tenant.add_list("Second", offered=True), new_email()
    for list_id in (first, second):
        tenant.new_contact(list_id, email=email)
    path = link_for(tenant, email)
    page = PreferencesPage.of(anon.get(path))
    with tenant.services.database.write() as transaction:
        transaction.execute(update(List).where(List.id == first).values(offered=False))
    check_page(anon.request("POST", path, data=page.changed(**{f"email_{first}": False})), 422, WRONG)
    assert entries(tenant) == set()
    assert posted(anon, path, **page.changed(**{f"email_{second}": False})) == {"Second": {f"email-{second}": "off"}}
    assert entries(tenant) == {("email", email, second)}


def test_of_several_contacts_the_oldest_active_one_counts(tenant: Tenant, anon: Client) -> None:
    list_id, email = tenant.add_list("News", offered=True, allow_duplicates=True), new_email()
    first = tenant.new_contact(list_id, email=email, mobile=new_mobile())["id"]
    tenant.new_contact(list_id, email=email)
    path = link_for(tenant, email)
    assert lists_on(anon, path) == {"News": {f"email-{list_id}": "on", f"mobile-{list_id}": "on"}}
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Contact).where(Contact.id == first).values(is_active=False))
    assert lists_on(anon, path) == {"News": {f"email-{list_id}": "on"}}
