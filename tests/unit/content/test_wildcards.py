"""Wildcards, fallbacks and inline references (docs/personalisation.md)."""

from app.content.render import Template
from app.content.values import MergedValues, recipient_values
from tests.support.cases import each

VALUES = {
    **MergedValues({}, {"email": "ann@example.com", "contact_id": 12, "city": "Leeds", "tier": "basic"}),
    **recipient_values(
        {"nick": "Zoë", "blank": "", "COUNT": 3, "tier": "prime", "loop": "%%nick%%", "half": "%%", "x_1": "under"},
        html_encoded=False,
    ),
}
ATTACHMENTS = {"logo.png": "content_a1", "My File (2).pdf": "content_b2"}

RULES = {
    "a wildcard is replaced by its value": ("Dear %%nick%%!", "Dear Zoë!"),
    "a key may hold digits and underscores": ("%%x_1%%", "under"),
    "a key matches in any case": ("%%Nick%% %%NICK%%", "Zoë Zoë"),
    "the name of a value matches in any case": ("%%count%%", "3"),
    "a contact field is a value": ("%%city%%, %%email%%, %%contact_id%%", "Leeds, ann@example.com, 12"),
    "a recipient's value overrides the contact's": ("%%tier%%", "prime"),
    "an unknown key yields nothing": ("<%%other%%>", "<>"),
    "an empty value yields nothing": ("<%%blank%%>", "<>"),
    "an unknown key yields the fallback": ("%%other**you there%%", "you there"),
    "an empty value yields the fallback": ("%%blank**you%%", "you"),
    "a value keeps the fallback out": ("%%nick**you%%", "Zoë"),
    "an empty fallback yields nothing": ("<%%other**%%>", "<>"),
    "a fallback may hold punctuation": ("%%other**a: b * c, 5%.%%", "a: b * c, 5%."),
    "a fallback may hold stars": ("%%other**a**b%%", "a**b"),
    "a fallback may run over a line": ("%%other**dear\ncustomer%%", "dear\ncustomer"),
    "a value is not scanned for markers": ("%%loop%%", "%%nick%%"),
    "a value does not join with text to a marker": ("%%half%%nick%%half%%", "%%nick%%"),
    "markers may touch": ("%%nick%%%%count%%", "Zoë3"),
    "single percent signs are text": ("5% of 6%", "5% of 6%"),
    "signs that open nothing are text": ("5%% of 6%%", "5%% of 6%%"),
    "signs that open nothing do not take the next marker along": ("5%% for %%nick%%", "5%% for Zoë"),
    "of three signs the last two open": ("5%%%nick%%", "5%Zoë"),
    "of three signs the first two close": ("%%count%%% off", "3% off"),
    "only signs": ("%%%%%%%", "%%%%%%%"),
    "a marker that is never closed is text": ("a %%nick", "a %%nick"),
    "an empty marker is text": ("a %%%% b", "a %%%% b"),
    "a key with a space is text": ("%%first name%% %%nick%%", "%%first name%% Zoë"),
    "a key with a hyphen is text": ("%%first-name**x%%", "%%first-name**x%%"),
    "a key with a letter beyond ASCII is text": ("%%größe%%", "%%größe%%"),
    "a key with a digit beyond ASCII is text": ("%%x٣%%", "%%x٣%%"),
    "a key without a name is text": ("%%**x%% %%:END%%", "%%**x%% %%:END%%"),
    "an attachment gives its name": ("%%attachment:logo.png%%", "logo.png"),
    "an attachment's name may hold spaces": ("%%attachment:My File (2).pdf%%", "My File (2).pdf"),
    "the word attachment matches in any case": ("%%ATTACHMENT:logo.png%%", "logo.png"),
    "an attachment's name matches exactly": ("<%%attachment:Logo.png%%>", "<>"),
    "an attachment that is not there yields nothing": ("<%%attachment:none.png%%>", "<>"),
    "a name that no attachment can have yields nothing": ("<%%attachment:../é.png%%>", "<>"),
    "an attachment without a name is text": ("%%attachment:%%", "%%attachment:%%"),
    "an attachment's name ends before a line break": ("%%attachment: see\n%%nick%%", "%%attachment: see\nZoë"),
    "the word attachment alone is a wildcard": ("%%attachment**none%%", "none"),
}


@each("rule", RULES)
def test_wildcards(rule: str) -> None:
    source, expected = RULES[rule]
    assert Template(source).text(VALUES, ATTACHMENTS) == expected


def test_each_rule_applies_within_a_longer_body() -> None:
    """No marker affects those around it."""
    source = "\n\n".join(source for source, _ in RULES.values() if source.count("%%") % 2 == 0)
    expected = "\n\n".join(expected for source, expected in RULES.values() if source.count("%%") % 2 == 0)
    assert Template(source).text(VALUES, ATTACHMENTS) == expected


def test_an_attachment_may_be_referred_to_twice() -> None:
    source = "%%attachment:logo.png%% %%attachment:logo.png%% %%attachment:none.png%%"
    assert Template(source).html({}, ATTACHMENTS) == "cid:content_a1 cid:content_a1 "


def test_an_attachment_is_inline_in_html_alone() -> None:
    template = Template("%%attachment:logo.png%%, %%attachment:My File (2).pdf%%")
    assert template.html({}, ATTACHMENTS) == "cid:content_a1, cid:content_b2"
    for rendered in (template.text({}, ATTACHMENTS), template.header({}, ATTACHMENTS)):
        assert rendered == "logo.png, My File (2).pdf"


def test_a_reference_in_an_omitted_branch_does_not_count() -> None:
    source = "%%nick:EXACTLY:Bob%%%%attachment:logo.png%%%%nick:END%%%%attachment:My File (2).pdf%%"
    assert Template(source).html(VALUES, ATTACHMENTS) == "cid:content_b2"
