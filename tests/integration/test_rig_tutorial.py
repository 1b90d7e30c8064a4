"""The reader of pages: it runs what stands there and notices what is not true."""

import pytest

from tests.rig.tutorial import Command, Reader, commands, missing

PAGE = """
# Title

```console
$ mkdir shop && cd shop
$ echo "in $(basename "$PWD")"; echo second
in shop
second
```

```sh
exit 3
```

```console
$ cat <<'END'
> one
>   two
> END
one
...
```
"""


def test_commands_stand_in_console_blocks_only():
    assert commands(PAGE) == [
        Command("mkdir shop && cd shop", ()),
        Command('echo "in $(basename "$PWD")"; echo second', ("in shop", "second")),
        Command("cat <<'END'\none\n  two\nEND", ("one", "...")),
    ]


def test_a_page_that_is_true_can_be_followed(tmp_path):
    with Reader(tmp_path) as reader:
        reader.follow(PAGE)


def test_a_promise_that_is_not_kept_is_noticed(tmp_path):
    with Reader(tmp_path) as reader, pytest.raises(AssertionError, match="no line 'three'"):
        reader.follow("```console\n$ echo two\nthree\n```\n")


def test_a_command_that_fails_is_noticed(tmp_path):
    with Reader(tmp_path) as reader, pytest.raises(AssertionError, match="exit 4"):
        reader.follow("```console\n$ (exit 4)\n```\n")


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        (("a", "c"), "a\nb\nc"),
        (("a ... c",), "a 12 b c"),
        (("a b",), "  a    b  "),
        ((), "anything"),
    ],
)
def test_output_may_say_more_than_was_promised(expected, output):
    assert missing(expected, output) is None


@pytest.mark.parametrize(
    ("expected", "output"), [(("a",), "ab"), (("b", "a"), "a\nb"), (("a", "a"), "a")]
)
def test_output_must_keep_whole_lines_and_their_order(expected, output):
    assert missing(expected, output) is not None
