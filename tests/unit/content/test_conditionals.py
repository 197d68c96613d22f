"""Conditionals: branches, nesting, malformed markers and the limit (docs/personalisation.md#conditionals)."""

from app.content.render import MAX_CONDITIONS, Template
from app.content.values import recipient_values
from tests.support.cases import each

VALUES = recipient_values(
    {
        "plan": "gold",
        "city": "Brisbane",
        "blank": "",
        "exactly": "odd",
        "url": "https://a.example/x",
        "v": "%%plan:END%%",
    },
    html_encoded=False,
)
ATTACHMENTS = {"bill.pdf": "content_1", "logo.png": "content_2"}

RULES = {
    "the branch that holds is output": ("<%%plan:EXACTLY:gold%%A%%plan:END%%>", "<A>"),
    "a branch that does not hold is left out": ("<%%plan:EXACTLY:tin%%A%%plan:END%%>", "<>"),
    "else is output when nothing holds": ("%%plan:EXACTLY:tin%%A%%plan:ELSE%%B%%plan:END%%", "B"),
    "else is left out when something holds": ("%%plan:EXACTLY:gold%%A%%plan:ELSE%%B%%plan:END%%", "A"),
    "elseif is tried in turn": (
        "%%plan:EXACTLY:tin%%A%%plan:ELSEIF:EXACTLY:oak%%B%%plan:ELSEIF:EXACTLY:gold%%C%%plan:ELSE%%D%%plan:END%%",
        "C",
    ),
    "the first branch that holds wins": ("%%plan:HAS%%A%%plan:ELSEIF:EXACTLY:gold%%B%%plan:END%%", "A"),
    "elseif may be the last": ("<%%plan:EXACTLY:tin%%A%%plan:ELSEIF:EXACTLY:oak%%B%%plan:END%%>", "<>"),
    "elseif may name another key": ("%%plan:HASNOT%%A%%plan:ELSEIF:city:CONTAINS:bane%%B%%plan:END%%", "B"),
    "or with the same key": ("%%plan:EXACTLY:tin:OR:EXACTLY:gold%%A%%plan:END%%", "A"),
    "or with another key": ("%%plan:EXACTLY:tin:OR:city:CONTAINS:bane%%A%%plan:END%%", "A"),
    "or takes the opening key again": ("%%plan:HASNOT:OR:city:HASNOT:OR:EXACTLY:gold%%A%%plan:END%%", "A"),
    "or after elseif takes the opening key": (
        "%%plan:HASNOT%%A%%plan:ELSEIF:city:HASNOT:OR:EXACTLY:gold%%B%%plan:END%%",
        "B",
    ),
    "or, none holds": ("<%%plan:HASNOT:OR:EXACTLY:tin%%A%%plan:END%%>", "<>"),
    "an operator's name wins over a key": ("<%%plan:HASNOT:OR:EXACTLY:HAS%%A%%plan:END%%>", "<>"),
    "a key in lower case is never an operator": ("%%plan:HASNOT:OR:exactly:HAS%%A%%plan:END%%", "A"),
    "a key may be called like an operator": ("%%EXACTLY:HAS%%A%%EXACTLY:END%%", "A"),
    "the key of a conditional matches in any case": ("%%Plan:HAS%%A%%PLAN:ELSE%%B%%plan:END%%", "A"),
    "a value to compare with may hold colons": ("%%url:CONTAINS:https://a%%A%%url:END%%", "A"),
    "a value to compare with may be empty": ("%%blank:EXACTLY:%%A%%blank:END%%", "A"),
    "a branch may be empty": ("<%%plan:HAS%%%%plan:ELSE%%%%plan:END%%>", "<>"),
    "a branch holds wildcards": ("%%plan:HAS%%on %%plan%%%%plan:END%%", "on gold"),
    "a value does not close a conditional": ("%%plan:HAS%%%%v%%!%%plan:END%%", "%%plan:END%%!"),
    "conditionals stand side by side": ("%%plan:HAS%%A%%plan:END%%%%plan:HAS%%B%%plan:END%%", "AB"),
    "conditionals nest": ("%%plan:HAS%%a%%city:HAS%%b%%city:END%%c%%plan:END%%", "abc"),
    "conditionals nest with the same key": (
        "%%plan:HAS%%a%%plan:EXACTLY:tin%%b%%plan:ELSE%%c%%plan:END%%d%%plan:ELSE%%e%%plan:END%%",
        "acd",
    ),
    "conditionals nest in else": (
        "%%plan:HASNOT%%a%%plan:ELSE%%%%city:HASNOT%%b%%city:ELSE%%c%%city:END%%d%%plan:END%%",
        "cd",
    ),
    "an outer branch left out takes the inner along": (
        "<%%plan:HASNOT%%a%%city:HAS%%b%%city:END%%c%%plan:END%%>",
        "<>",
    ),
    "attachments are a list of names": ("%%attachment:INCLUDESALL:logo.png,bill.pdf%%A%%attachment:END%%", "A"),
    "an operator's name wins over a file's": ("%%attachment:HAS%%A%%attachment:END%%", "A"),
    "attachments in another key's condition": ("%%plan:HASNOT:OR:attachment:CONTAINS:bill%%A%%plan:END%%", "A"),
}

STAY_AS_WRITTEN = {
    "never closed": "a %%plan:HAS%% b",
    "never closed, with branches": "a %%plan:HASNOT%% b %%plan:ELSEIF:HAS%% c %%plan:ELSE%% d",
    "closed by another key": "a %%plan:HAS%% b %%city:END%%",
    "closed without opening": "a %%plan:END%%%%plan:END%%",
    "a branch without opening": "%%plan:ELSE%%a%%plan:ELSEIF:HAS%%b",
    "an unknown operator": "a %%plan:FROBS:gold%% b",
    "an unknown operator with branches": "%%plan:FROBS:x%%a%%plan:ELSEIF:HAS%%b%%plan:ELSE%%c%%plan:END%%",
    "an operator in lower case": "%%plan:exactly:gold%%a%%plan:END%%",
    "an operator without its value": "%%plan:EXACTLY%%a%%plan:END%%",
    "an operator with a value it does not take": "%%plan:HAS:gold%%a%%plan:END%%",
    "an unknown operator after or": "%%plan:HAS:OR:FROBS:x%%a%%plan:END%%",
    "nothing after or": "%%plan:HAS:OR:%%a%%plan:END%%",
    "another key in the opening": "%%plan:CITY:HAS%%a%%plan:END%%",
    "an operator with a file": "%%attachment:HAS:logo.png%%a%%attachment:END%%",
    "an unknown operator on attachments": "%%attachment:FROBS:x%%a%%attachment:END%%",
}

# Only the malformed marker stays, not the conditional around it or inside it.
PARTLY = {
    "an inner one never closed": ("%%plan:HAS%%a%%city:HAS%%b%%plan:END%%", "a%%city:HAS%%b"),
    "an outer one never closed": ("%%plan:HAS%%a%%city:HAS%%b%%city:END%%", "%%plan:HAS%%ab"),
    "an outer one with the same key never closed": ("%%plan:HAS%%a%%plan:HAS%%b%%plan:END%%", "%%plan:HAS%%ab"),
    "overlapping": ("%%plan:HAS%%a%%city:HAS%%b%%plan:END%%c%%city:END%%", "a%%city:HAS%%bc%%city:END%%"),
    "two elses": (
        "%%plan:HASNOT%%a%%plan:ELSE%%b%%plan:ELSE%%c%%plan:ELSEIF:HAS%%d%%plan:END%%",
        "b%%plan:ELSE%%c%%plan:ELSEIF:HAS%%d",
    ),
    "an else of the outer one inside the inner one": (
        "%%plan:HAS%%a%%city:HAS%%b%%plan:ELSE%%c%%city:END%%d%%plan:END%%",
        "ab%%plan:ELSE%%cd",
    ),
    "an elseif that is wrong": (
        "%%plan:HASNOT%%a%%plan:ELSEIF:FROBS:x%%b%%plan:ELSE%%c%%plan:END%%",
        "c",
    ),
    "a wrong else": ("%%plan:HAS%%a%%plan:ELSE:x%%b%%plan:END%%", "a%%plan:ELSE:x%%b"),
    "a wrong end": ("%%plan:HAS%%a%%plan:END:%%b%%plan:END%%", "a%%plan:END:%%b"),
    "an unknown operator inside": (
        "%%plan:HAS%%a%%plan:FROBS:x%%b%%plan:END%%c%%plan:END%%",
        "a%%plan:FROBS:x%%b%%plan:END%%c",
    ),
    "a known operator inside an unknown one": (
        "%%plan:FROBS:x%%%%city:HAS%%a%%city:END%%%%plan%%%%plan:END%%",
        "%%plan:FROBS:x%%agold%%plan:END%%",
    ),
}


@each("rule", RULES)
def test_conditionals(rule: str) -> None:
    source, expected = RULES[rule]
    assert Template(source).text(VALUES, ATTACHMENTS) == expected


@each("case", STAY_AS_WRITTEN)
def test_malformed_conditionals_stay_as_written(case: str) -> None:
    assert Template(STAY_AS_WRITTEN[case]).text(VALUES, ATTACHMENTS) == STAY_AS_WRITTEN[case]


@each("case", PARTLY)
def test_only_the_malformed_part_stays_as_written(case: str) -> None:
    source, expected = PARTLY[case]
    assert Template(source).text(VALUES, ATTACHMENTS) == expected


def _output(*pieces: str) -> str:
    return Template("".join(pieces)).text(VALUES, ATTACHMENTS)


def _true(content: str) -> str:
    return f"%%plan:EXACTLY:gold%%{content}%%plan:END%%"


def test_seventy_five_conditions_are_evaluated_and_further_ones_are_left_out() -> None:
    assert MAX_CONDITIONS == 75
    assert _output(*(_true(f"({n})") for n in range(90)), "end") == "".join(f"({n})" for n in range(75)) + "end"


def test_every_condition_of_an_or_counts_towards_the_limit() -> None:
    twice = "%%plan:EXACTLY:tin:OR:EXACTLY:gold%%x%%plan:END%%"
    assert _output(twice * 40) == "x" * 37


def test_conditions_after_a_true_one_of_an_or_count_too() -> None:
    twice = "%%plan:EXACTLY:gold:OR:EXACTLY:tin%%x%%plan:END%%"
    assert _output(twice * 40) == "x" * 38  # the 75th condition is the first part of the 38th, and it is true


def test_an_elseif_counts_when_it_is_reached() -> None:
    reached = "%%plan:EXACTLY:tin%%a%%plan:ELSEIF:EXACTLY:gold%%b%%plan:END%%"
    assert _output(reached * 40) == "b" * 37
    passed = "%%plan:EXACTLY:gold%%a%%plan:ELSEIF:EXACTLY:tin%%b%%plan:END%%"
    assert _output(passed * 80) == "a" * 75


def test_conditions_in_an_omitted_branch_are_not_evaluated() -> None:
    assert _output("%%plan:HASNOT%%", _true("x") * 200, "%%plan:END%%", _true("y")) == "y"


def test_an_else_is_omitted_when_the_condition_before_it_was_not_evaluated() -> None:
    further = "%%plan:EXACTLY:tin%%a%%plan:ELSE%%b%%plan:END%%"
    assert _output(_true("x") * 75, further, "end") == "x" * 75 + "end"
    half = "%%plan:EXACTLY:tin:OR:EXACTLY:gold%%a%%plan:ELSE%%b%%plan:END%%"
    assert _output(_true("x") * 74, half, "end") == "x" * 74 + "end"


def test_an_else_is_output_when_the_last_evaluated_condition_was_false() -> None:
    last = "%%plan:EXACTLY:tin%%a%%plan:ELSE%%b%%plan:END%%"
    assert _output(_true("x") * 74, last, _true("y")) == "x" * 74 + "b"


def test_each_body_has_its_own_limit() -> None:
    template = Template(_true("x") * 75)
    assert [template.text(VALUES, {}) for _ in range(2)] == ["x" * 75] * 2
