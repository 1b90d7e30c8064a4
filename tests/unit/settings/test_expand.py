"""`${NAME}` and nothing else."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.settings import Placement
from manent_server.settings.expand import expand
from tests.unit.settings.conftest import Errors, Load


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("pa$USER#w{x}%@/:", "pa$USER#w{x}%@/:"),
        ("$", "$"),
        ("a$", "a$"),
        ("$X $1 $(id) `id`", "$X $1 $(id) `id`"),
        ("${X}", "value"),
        ("<${X}${X}>", "<valuevalue>"),
        ("$${X}", "${X}"),
        ("$$${X}", "$value"),
        ("$$", "$"),
        ("{application}", "{application}"),
        ("${TRICKY}", "${X}$$"),
    ],
)
def test_only_a_name_in_braces_is_filled_in(text: str, expanded: str) -> None:
    """B118: a bare dollar is itself, `$$` is one, a value is never expanded again."""
    assert expand(text, {"X": "value", "USER": "root", "TRICKY": "${X}$$"}) == expanded


@pytest.mark.parametrize("text", ["${", "${}", "${a-b}", "${X:-1}", "${ X}", "${X", "${1}"])
def test_a_brace_that_holds_no_name_is_refused(text: str) -> None:
    """B118: neither kept nor filled in by half."""
    with pytest.raises(ValueError, match=r"write \$\$\{ for the two characters"):
        expand(text, {"X": "value"})


def test_a_missing_name_stops_the_start(errors: Errors) -> None:
    """B118: `${MISSING}` is an error with its line."""
    [found] = errors("server:\n  url: http://${MISSING}")
    assert (found["line"], found["path"]) == (2, "server.url")
    assert found["message"] == (
        "${MISSING} is not set in the environment; a $ itself is written $$"
    )


def test_every_missing_name_is_found_in_one_run(errors: Errors) -> None:
    """B118: all of them, wherever they stand."""
    text = "executor_id: ${A}\nworker: {warm: '${B}', workdir: '${C}'}\nlogs: {tail: '${D}'}"
    assert [error["message"][:4] for error in errors(text)] == ["${A}", "${B}", "${C}", "${D}"]


def test_options_are_filled_in_too(placed: Callable[..., Placement]) -> None:
    """B118: literal dollars survive in argument lists."""
    found = placed(
        """{plugin: p, targets: {a: {}}, options: {d: [sh, -c, 'echo $HOME $${X} ${X}']}}""",
        environ={"X": "1.10"},
    )
    assert found.targets["a"] == {"d": ["sh", "-c", "echo $HOME ${X} 1.10"]}


def test_a_variable_that_breaks_a_flow_map_is_explained(errors: Errors) -> None:
    [found] = errors("a: b\nserver: {listen: ${X}}", {"X": "1"})
    assert found["line"] == 2
    assert "inside {...} and [...] put ${NAME} in quotes" in found["message"]


def test_a_number_may_come_from_a_variable(load: Load, errors: Errors) -> None:
    assert load("database: {pool: '${N}'}", {"N": "12"}).database.pool == 12
    assert load("dbos: {drain_timeout: '${N}'}", {"N": "12s"}).dbos.drain_timeout.seconds == 12
    for value in ("012", "1_0", "", "1.5", "-3", "٣"):
        assert len(errors("database: {pool: '${N}'}", {"N": value})) == 1


def test_names_and_patterns_may_come_from_variables(load: Load) -> None:
    """B118: what is expanded is what counts, everywhere."""
    text = """
include: ['${DIR}/*.yml']
environments: {e: {tier: '${TIER}'}}
target_groups: {g: {x: {}, y: {}}}
applications: {shop: {template: '${T}', environments: {e: {waves: ['${FIRST}', rest]}}}}
"""
    template = "templates: {t: {plugin: '${P}', targets: '${G}', timeout: 7s}}"
    environ = {"DIR": "d", "TIER": "staging", "T": "t", "P": "p", "G": "g", "FIRST": "y"}
    found = load({"manent.yml": text, "d/t.yml": template}, environ, plugins=["p"])
    placement = found.applications["shop"].environments["e"]
    assert (placement.plugin, placement.timeout.seconds) == ("p", 7)
    assert placement.waves == (("y",), ("x",))


def test_a_value_that_is_no_text_is_refused(errors: Errors) -> None:
    [found] = errors("executor_id: ${N}", {"N": "a\udcff"})
    assert found["message"] == "${N} is not UTF-8 text"


def test_errors_never_show_what_a_variable_holds(errors: Errors) -> None:
    """B108: a secret in the wrong place stays secret."""
    text = """
executor_id: ${S}
server: {listen: '${S}', url: 'http://${S}', log: {level: '${S}'}, trusted_proxies: ['${S}']}
database: {url: 'postgresql://u:x@${S}/d', pool: '${S}'}
dbos: {drain_timeout: '${S}'}
logs: {tail: '${S}'}
worker: {pools: ['${S}']}
"""
    found = errors(text, {"S": "hunter2 /@!"})
    assert len(found) == 10
    assert "hunter2" not in str(found)


@given(st.text(alphabet="$", max_size=9), st.text(alphabet="abX{}%@ ", max_size=20))
def test_doubling_dollars_writes_any_text(dollars: str, rest: str) -> None:
    text = dollars + rest + dollars
    assert expand(text.replace("$", "$$"), {}) == text
