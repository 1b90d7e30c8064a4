"""Sizes no linter counts: functions, files, arguments.

A place that has a good reason says so on its `def` line: `# shape: length - REASON`,
`# shape: arguments - REASON` (a `noqa: PLR0913 - REASON` says the latter too); a file in its
first line: `# shape: file - REASON`.
"""

import re
from itertools import pairwise
from statistics import median

import pytest

from tests.shape import source

FUNCTION_LIMIT, FUNCTION_USUAL, FUNCTION_MEDIAN = 60, 30, 9
FILE_LIMIT, FILE_MEDIAN = 400, 150
ARGUMENT_LIMIT = 5


@pytest.fixture(scope="module")
def functions() -> list[source.Function]:
    return [function for file in source.files() for function in file.functions()]


def test_no_function_is_longer_than_a_screen():
    everywhere = (each for file in source.files(*source.EVERYTHING) for each in file.functions())
    assert not [
        f"{function.where}: {function.length} lines"
        for function in everywhere
        if function.length > FUNCTION_LIMIT and not function.may("length")
    ]


def test_most_functions_are_short(functions):
    lengths = [function.length for function in functions]
    long = [function.where for function in functions if function.length > FUNCTION_USUAL]
    assert median(lengths) <= FUNCTION_MEDIAN
    assert len(long) <= len(functions) / 20, long


def test_a_function_takes_few_arguments(functions):
    assert not [
        f"{function.where}: {function.arguments} arguments"
        for function in functions
        if function.arguments > ARGUMENT_LIMIT
        and not (function.may("arguments") or function.may("PLR0913"))
    ]


def test_no_file_is_too_long():
    assert not [
        f"{file.name}: {len(file.lines)} lines"
        for file in source.files(*source.EVERYTHING)
        if len(file.lines) > FILE_LIMIT and not file.text.startswith("# shape: file - ")
    ]


def test_files_are_mostly_small():
    assert median(len(file.lines) for file in source.files()) <= FILE_MEDIAN


def test_every_silenced_check_says_why():
    """In its line, or in a comment just above it."""
    silenced = re.compile(r"#\s*(?:noqa|type: ignore)\b(?P<why>.* - \S)?")
    assert not [
        f"{file.name}:{number}: {line.strip()}"
        for file in source.files()
        for number, (above, line) in enumerate(pairwise(["", *file.lines]), start=1)
        if (found := silenced.search(line)) and not found["why"]
        if not above.strip().startswith("# ")
    ]
