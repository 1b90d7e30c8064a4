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
        "environments: {%s: {tier: staging}}",
        "target_groups: {%s: {a: {}}}",
        "target_groups: {a: {%s: {}}}",
        "templates: {%s: {plugin: p}}",
        "applications: {%s: {plugin: p, environments: {staging: {targets: {a: {}}}}}}",
        "plugins: {external: {%s: {command: [x]}}}",
    ],
)
def test_another_spelling_of_a_name_is_refused(section: str, errors: Errors) -> None:
    """B110, kind 12: no second thing beside the guarded one, in no part of the file."""
    base = "" if section.startswith("environments") else BASE
    for name in SPELLINGS:
        [found] = errors(base + section % name)
        assert "no valid" in found["message"] or "write this" in found["message"]
        assert found["line"] == base.count("\n") + 1


def test_a_reference_in_another_spelling_is_refused(errors: Errors) -> None:
    """B110: nor does a reference reach a name by another spelling."""
    text = BASE + "applications: {shop: {plugin: p, environments: {Staging: {targets: {a: {}}}}}}"
    [found] = errors(text)
    assert "'Staging' is no valid environment" in found["message"]


def test_the_spelling_meant_is_named(errors: Errors) -> None:
    """B110: a compatible form says what to write."""
    [found] = errors("environments: {ｐｒｏｄ: {tier: production}}")  # noqa: RUF001
    assert found["message"] == "write this environment as 'prod'"
