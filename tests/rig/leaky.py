"""A careless external plugin: wherever one can say a secret, it says it in every form.

It speaks the plugin protocol; what it is to do stands in the version: `fails` ends with an
error whose message holds its settings, anything else with outputs that do.
"""

import base64
import html
import json
import os
import sys
import time
import urllib.parse
from typing import Any

DESCRIPTION = {"type": "description", "hooks": ["deploy"]}


def forms(secret: str) -> list[str]:
    """The ways programs print a text."""
    raw = secret.encode()
    found = [secret, f"https://user:{secret}@host/", urllib.parse.quote(secret)]
    found += [base64.b64encode(b"abc"[:offset] + raw + b"tail").decode() for offset in range(3)]
    found += [base64.urlsafe_b64encode(b"abc"[:offset] + raw).decode() for offset in range(3)]
    found += [urllib.parse.quote_plus(secret), urllib.parse.quote(secret, safe="")]
    found += [json.dumps({"password": secret}), json.dumps(json.dumps(secret))]
    found += [html.escape(secret), html.escape(secret, quote=False), repr(secret), raw.hex()]
    return found


def say(output: Any, message: dict[str, Any]) -> None:
    """One message to the guard."""
    output.write(json.dumps(message).encode() + b"\n")
    output.flush()


def leak(output: Any, context: dict[str, Any]) -> None:
    """Say the secrets through every opening of the protocol."""
    said = [form for secret in context["options"]["secrets"] for form in forms(secret)]
    for form in said:
        print(f"out {form} end", flush=True)  # noqa: T201 - the log is the point
        print(f"err {form} end", file=sys.stderr, flush=True)  # noqa: T201 - as above
        say(output, {"type": "log", "text": f"log {form} end", "level": "warning"})
        # In two writes, with a pause between them: a secret across a border.
        half = len(form) // 2
        os.write(1, f"cut {form[:half]}".encode())
        time.sleep(0.005)
        os.write(1, f"{form[half:]} end\n".encode())
    say(output, {"type": "heartbeat", "checkpoint": {"at": said}, "progress": {"at": said}})
    if context["version"] == "fails":
        message = f"cannot connect with {context['options']}: {' '.join(said)}"
        say(output, {"type": "error", "code": "refused", "message": message, "retryable": False})
        return
    say(output, {"type": "result", "outputs": {"said": said, "token": said[0]}})


def main() -> None:
    """Answer the one call this process was started for."""
    variables = os.environ  # noqa: TID251 - how the protocol names its descriptors
    inside, outside = variables["MANENT_PROTOCOL_IN"], variables["MANENT_PROTOCOL_OUT"]
    with os.fdopen(int(inside), "rb") as calls, os.fdopen(int(outside), "wb") as output:
        for line in calls:
            message = json.loads(line)
            if message["type"] == "describe":
                say(output, DESCRIPTION)
                return
            if message["type"] == "call":
                leak(output, message["context"])
                return


if __name__ == "__main__":
    main()
