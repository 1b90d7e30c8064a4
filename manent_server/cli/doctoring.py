"""`manent-server doctor`: prints what the checks find."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from manent_server.bootstrap import doctor, house
from manent_server.bootstrap.doctor import Result
from manent_server.domain.checkup import Level
from manent_server.domain.errors import ConfigurationError

_FORMS: Final = ("table", "json")
_WIDTH: Final = max(len(name) for name in ("configuration", "durability"))


def examine(path: Path, environ: Mapping[str, str], *, form: str) -> bool:
    """Make every check and print it; whether none failed.

    Raises:
        ConfigurationError: There is no good manent.yml to check by.
    """
    if form not in _FORMS:
        raise ConfigurationError(f"--output {form} is no form", next="json or table")
    house.demand_environment(environ)
    opened = house.open_house(path, environ)
    wanted = doctor.checks(opened)
    found = []
    for result in doctor.examined(wanted, opened.redactor.redact):
        found.append(result)
        if form == "table":
            sys.stdout.write(_line(result))
            sys.stdout.flush()
    left = [check.name for check in wanted[len(found) :]]
    if form == "json":
        sys.stdout.write(json.dumps(_document(found, left), indent=2) + "\n")
    elif left:
        sys.stdout.write(f"not looked at before that works: {', '.join(left)}\n")
    return all(one.finding.level != Level.FAIL for one in found)


def _line(result: Result) -> str:
    finding = result.finding
    line = f"{finding.level:<4}  {result.name:<{_WIDTH}}  {finding.words}\n"
    return line + (f"{'':<{_WIDTH + 8}}next: {finding.next}\n" if finding.next else "")


def _document(found: list[Result], left: list[str]) -> dict[str, object]:
    checks = [
        {
            "check": one.name,
            "level": str(one.finding.level),
            "found": one.finding.words,
            "next": one.finding.next,
        }
        for one in found
    ]
    good = all(one.finding.level != Level.FAIL for one in found)
    return {"good": good, "checks": checks, "left_out": left}
