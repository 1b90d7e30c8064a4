"""A plugin that does nothing but mark when it ran, so that only what is around it is measured."""

import os
import time

from bench_mark import mark

from manent_server.sdk import Context, Options, hookimpl

if os.environ.get("BENCH_UNAUDITED"):  # noqa: TID251 - the bench's own
    # A plugin loads no database: every process of every hook would carry it.
    from bench_unaudited import take_it_away

    take_it_away()

_LINE = b"%7d a line of output as long as most of them are, sixty bytes\n"


class NoopOptions(Options):
    """What the bench asks for; nothing by default."""

    marks: str
    sleep: float = 0.0
    lines: int = 0
    keep: bool = True


@hookimpl
def options() -> type[NoopOptions]:
    """The options' model."""
    return NoopOptions


@hookimpl
def deploy(context: Context) -> None:
    """Sleep or speak if asked to."""
    _mark(context, "deploy", "begin")
    if context.options.sleep:
        time.sleep(context.options.sleep)
    if context.options.lines:
        _speak(context.options.lines, keep=context.options.keep)
    _mark(context, "deploy", "end")


@hookimpl
def verify(context: Context) -> None:
    """Nothing."""
    _mark(context, "verify", "begin")
    _mark(context, "verify", "end")


def _speak(lines: int, *, keep: bool) -> None:
    """One write a line, as a program does whose output is not held back."""
    out = 1 if keep else os.open(os.devnull, os.O_WRONLY)
    for number in range(lines):
        os.write(out, _LINE % number)


def _mark(context: Context, hook: str, event: str) -> None:
    mark(
        context.options.marks,
        run=f"{context.deploy}/{context.epoch}",
        place=f"{context.environment}/{context.application}",
        step=f"{hook}:{context.target}",
        attempt=context.attempt,
        event=event,
    )
