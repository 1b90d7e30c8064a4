"""Generated pages say what the code says."""

import re

import pytest

from tests.docs import cases, pages


@pytest.mark.parametrize("page", pages.PAGES)
def test_a_generated_page_is_not_stale(page):
    assert pages.stored(page) == pages.render(page), "stale: run `make docs`"


def test_a_docstring_may_name_several_cases():
    assert cases.named_in("B102, B13: no two at once (as B13 says)") == ["B13", "B102"]


def test_a_case_is_an_id_and_not_a_part_of_a_word():
    assert cases.named_in("AB12, B1, B1234 and base64") == []


def test_cases_are_in_order():
    numbers = [int(number) for number in re.findall(r"^\| B(\d+)", cases.render(), re.MULTILINE)]
    assert numbers == sorted(set(numbers))
