#!/usr/bin/env python3
"""An external target plugin in Python: it adds one line to a file that others read.

    plugins: {external: {announce: {command: [python3, examples/plugins/announce.py]}}}
    applications: {news: {plugin: announce, options: {file: /srv/news.txt}, ...}}

An announcement cannot be taken back and must not be made twice: `effects: once`. After a crash
manent asks `observe` before it runs `deploy` again. It speaks JSON lines on the descriptors named
in MANENT_PROTOCOL_IN and MANENT_PROTOCOL_OUT, and needs nothing but Python.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]

DESCRIPTION: Message = {
    "type": "description",
    "hooks": ["deploy", "observe"],
    "effects": "once",
    "templates": ["text"],
    "options": {
        "type": "object",
        "required": ["file"],
        "additionalProperties": False,
        "properties": {
            "file": {"type": "string", "pattern": "^/"},
            "text": {"type": "string", "minLength": 1},
        },
    },
}


def deploy(context: Message) -> Message:
    """Add the line; the key at its end tells `observe` which step it belongs to."""
    text = context["options"].get("text", f"{context['application']} {context['version']} is out")
    if "\n" in text:
        return failure("the text must be one line", is_final=True)
    with Path(context["options"]["file"]).open("a") as file:
        file.write(f"{text} [{context['version']} {context['idempotency_key']}]\n")
    sys.stdout.write(f"announced: {text}\n")
    return {"type": "result", "outputs": {"announced": text}}


def observe(context: Message) -> Message:
    """The version announced last, and whether this very step has announced."""
    try:
        lines = Path(context["options"]["file"]).read_text().splitlines()
    except FileNotFoundError:
        lines = []
    keys = [line.rpartition("[")[2].rstrip("]").partition(" ") for line in lines]
    in_place = any(key == context["idempotency_key"] for _, _, key in keys)
    version = keys[-1][0] if keys else None
    return {"type": "result", "outputs": {"version": version, "in_place": in_place}}


def failure(message: str, *, is_final: bool) -> Message:
    """The answer of a hook that failed."""
    return {"type": "error", "code": "announce", "message": message, "retryable": not is_final}


def answer(message: Message) -> Message | None:
    """What to say to one message; None to those that need no answer here."""
    if message["type"] == "describe":
        return DESCRIPTION
    if message["type"] != "call":
        return None
    try:
        return {"deploy": deploy, "observe": observe}[message["hook"]](message["context"])
    except OSError as error:
        return failure(f"{error.filename}: {error.strerror}", is_final=False)


def main() -> None:
    """Answer the one call this process was started for."""
    inside, outside = "MANENT_PROTOCOL_IN", "MANENT_PROTOCOL_OUT"
    variables = os.environ  # noqa: TID251 - how the protocol names its descriptors
    with (
        open(int(variables[inside]), "rb") as calls,  # noqa: PTH123 - descriptors, not paths
        open(int(variables[outside]), "wb") as answers,  # noqa: PTH123 - as above
    ):
        for line in calls:
            said = answer(json.loads(line))
            if said is not None:
                answers.write(json.dumps(said).encode() + b"\n")
                return


if __name__ == "__main__":
    main()
