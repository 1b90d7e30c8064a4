"""Reading a file: everything is bounded, nothing but findings comes out."""

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from manent_server.domain.errors import ConfigurationError
from manent_server.settings import document
from manent_server.settings import example as example_file
from manent_server.settings.findings import Findings
from manent_server.settings.node import Scalar, Table
from tests.unit.settings.conftest import BASE, Errors, Load


def parse(data: bytes) -> tuple[Table | None, list[str]]:
    findings = Findings()
    table = document.parse(data, file="m.yml", findings=findings)
    return table, [f"{error['line']}: {error['message']}" for error in findings.as_list()]


@given(st.binary(max_size=200))
@example(b'a: "\\UFFFFFFFF"')
@example(b"%YAML 1." + b"9" * 5000 + b"\n--- a")
@example(b"a: \xff")
@example(b"\xef\xbb\xbfa: b")
@example(b"*a")
@example(b"!<tag:> a")
def test_any_bytes_are_read_or_found_wrong(data: bytes) -> None:
    table, errors = parse(data)
    assert table is not None or errors


@given(st.text(alphabet="ab:-[]{}&*!|>'\"%#?,@` \n\t~<0.$", max_size=80))
def test_any_punctuation_is_read_or_found_wrong(text: str) -> None:
    table, errors = parse(text.encode())
    assert table is not None or errors


EXAMPLE = example_file.render()


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_raises_nothing_but_findings(load: Load, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(EXAMPLE) - 1))
    put = data.draw(st.text(alphabet="ab:-[]{}&*!|>'\"%#?, \n~<0.$", max_size=5))
    cut = data.draw(st.integers(0, 40))
    with suppress(ConfigurationError):
        assert load(EXAMPLE[:at] + put + EXAMPLE[at + cut :]).applications


def test_a_chain_of_aliases_cannot_get_deep() -> None:
    chain = "x0: &a0 [1]\n" + "".join(f"x{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 60))
    assert parse(chain.encode())[1] == ["32: is nested deeper than 32"]


def test_an_alias_stands_for_what_its_anchor_holds() -> None:
    table, errors = parse(b"a: &x {k: [v]}\nb: *x")
    assert errors == []
    assert table is not None
    inner = table.table("b")
    assert inner is not None
    assert inner.path == ("b",)
    assert inner.place.line == 1


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"a: 1\nb: 2\na: 3", "3: is written twice; first in line 1"),
        (b"a:\n  b: 1\n  b: 1", "3: is written twice; first in line 2"),
        (b"a: 1\n<<: {b: 2}", "2: YAML 1.2 has no merge key <<; use a template"),
        (b"a: 1\n---\nb: 2", "2: holds a second document; one file is one document"),
        (b"- a", "1: must be a map of settings"),
        (b"text", "1: must be a map of settings"),
        (b"a: 1\nb: !!python/object:os.system x", "2: has a tag"),
        (b"a: !!int 3", "1: has a tag"),
        (b"a: !mine {}", "1: has a tag"),
        (b"%YAML 1.1\n---\na: no", "1: asks for another YAML than 1.2"),
        (b"a: 1\nb: [", "2: not YAML: "),
        (b"a: 1\n\tb: 2", "2: not YAML: "),
        (b"a: 1\nb: \xff", "2: is not UTF-8 text"),
        (b"a: 1\nb: \x07", "2: holds a character that YAML does not allow"),
        (b'a: 1\nb: "\\0"', "2: holds a NUL or half a character"),
        (b'a: 1\nb: "\\ud800"', "2: holds a NUL or half a character"),
        (b'a: "\\UFFFFFFFF"', "1: not YAML: an escape or a directive cannot be read"),
        (b"? [a]\n: b", "1: a key must be text"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(data: bytes, error: str) -> None:
    """Kind 11: a file that is not what was meant stops."""
    assert [found for found in parse(data)[1] if found.startswith(error)]


@pytest.mark.parametrize("data", [b"", b"\n", b"# nothing\n", b"---\n", b"null", b"\xef\xbb\xbf"])
def test_an_empty_file_is_all_defaults(data: bytes, load: Load) -> None:
    assert load(data).server.listen == "127.0.0.1:8420"


def test_a_directive_for_1_2_is_fine() -> None:
    table, errors = parse(b"%YAML 1.2\n---\na: no")
    assert errors == []
    assert table is not None
    node = table.get("a")
    assert isinstance(node, Scalar)
    assert (node.kind, node.text) == ("text", "no")


def test_syntax_errors_never_repeat_the_file(errors: Errors) -> None:
    """B108: a broken line may hold a password."""
    [found] = errors(BASE + 'database: {url: "postgresql://u:hunter2@db/x}')
    assert "hunter2" not in str(found)
