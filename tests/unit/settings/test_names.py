"""A name has one spelling."""

import pytest

from tests.unit.settings.conftest import BASE, Errors

SPELLINGS = [
    "Prod",
    "PROD",
    "'prod '",
    "' prod'",
    "ｐｒｏｄ",  # noqa: RUF001 - full-width letters are the case
    "'pro\\u0064\\u0301'",
    "próduction",
    "pro/d",
    "-prod",
    ".",
    "..",
    "'a b'",
    "'prod\t'",
    '"prod\\n"',
    '"prod\\u200b"',
    "''",
    "a" + "b" * 63,
    "'$(id)'",
    "a%2Fb",
]


@pytest.mark.parametrize(
    "section",
    [
        ("environments: {", "%s: {tier: staging},", "}"),
        ("target_groups: {", "%s: {a: {}},", "}"),
        ("target_groups: {a: {", "%s: {},", "}}"),
        ("templates: {", "%s: {plugin: p},", "}"),
        (
            "applications: {",
            "%s: {plugin: p, environments: {staging: {targets: {a: {}}}}},",
            "}",
        ),
        ("plugins: {external: {", "%s: {command: [x]},", "}}"),
    ],
)
def test_another_spelling_of_a_name_is_refused(
    section: tuple[str, str, str], errors: Errors
) -> None:
    """B110, kind 12: no second thing beside the guarded one, in no part of the file."""
    opening, entry, closing = section
    base = "" if opening.startswith("environments") else BASE
    found = errors(base + "\n".join([opening, *(entry % name for name in SPELLINGS), closing]))
    first = base.count("\n") + 2
    assert [error["line"] for error in found] == [first + at for at in range(len(SPELLINGS))]
    for error in found:
        assert "no valid" in error["message"] or "write this" in error["message"]


def test_a_reference_in_another_spelling_is_refused(errors: Errors) -> None:
    """B110: nor does a reference reach a name by another spelling."""
    text = BASE + "applications: {shop: {plugin: p, environments: {Staging: {targets: {a: {}}}}}}"
    [found] = errors(text)
    assert "'Staging' is no valid environment" in found["message"]


def test_the_spelling_meant_is_named(errors: Errors) -> None:
    """B110: a compatible form says what to write."""
    [found] = errors("environments: {ｐｒｏｄ: {tier: production}}")  # noqa: RUF001
    assert found["message"] == "write this environment as 'prod'"
