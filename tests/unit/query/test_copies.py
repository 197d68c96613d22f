"""The query of a test key also matches copies, whose ids are negated (app/query/copies.py)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.query.conditions import After, Alternative, Before, Between, Equals, FilterCondition, IsNull, Query
from app.query.copies import with_copies
from app.query.fields import Filter, FilterType

NUMBERS = st.integers(-4, 4)
ALTERNATIVES = st.one_of(
    st.builds(Equals, NUMBERS),
    st.builds(Between, NUMBERS, NUMBERS),
    st.builds(After, NUMBERS),
    st.builds(Before, NUMBERS),
    st.just(IsNull()),
)
BY_ID = Filter("list_id", FilterType.INTEGER)


def matches(alternative: Alternative, id_: int | None) -> bool:
    match alternative:
        case Equals(value):
            return id_ == value
        case Between(int() as low, int() as high):
            return id_ is not None and low <= id_ <= high
        case After(int() as low):
            return id_ is not None and id_ > low
        case Before(int() as high):
            return id_ is not None and id_ < high
    return id_ is None


@given(alternatives=st.lists(ALTERNATIVES, max_size=3).map(tuple))
def test_a_row_matches_by_the_id_that_its_client_sees(alternatives: tuple[Alternative, ...]) -> None:
    query = Query(conditions=(FilterCondition(BY_ID, "eq", alternatives),))
    (condition,) = with_copies(query, ("list_id",)).conditions
    for id_ in (None, *range(1, 6)):
        expected = any(matches(alternative, id_) for alternative in alternatives)
        assert any(matches(alternative, id_) for alternative in condition.alternatives) is expected
        if id_ is not None:
            assert any(matches(alternative, -id_) for alternative in condition.alternatives) is expected
    assert with_copies(query, ("message_id",)) == query
