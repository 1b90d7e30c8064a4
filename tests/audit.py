"""Whether a dependency has a known weakness, as far as the database of them can be reached."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SECONDS = 60
_COMMAND = [
    "pip-audit", "--format", "json", "--vulnerability-service", "osv", "--timeout", "5",
    "--skip-editable", "--progress-spinner", "off",
]  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What came of it; `is_bad` when something has to be replaced."""

    is_bad: bool
    words: str


def begin() -> "subprocess.Popen[str] | None":
    """Start to ask; None where the program is not installed."""
    program = Path(sys.executable).parent / _COMMAND[0]
    if not program.exists():
        return None
    return subprocess.Popen(
        [str(program), *_COMMAND[1:]],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def end(asked: "subprocess.Popen[str] | None") -> Verdict:
    """What was found; whoever does not answer in time is not waited for."""
    if asked is None:
        return unknown("pip-audit is not installed; make install brings it")
    try:
        said, complaint = asked.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        asked.kill()
        asked.communicate()
        return unknown(f"no answer within {_SECONDS} s")
    return judge(said, complaint)


def judge(said: str, complaint: str) -> Verdict:
    """The verdict by what the program printed: only a report says anything of weaknesses."""
    try:
        packages: list[Any] = list(json.loads(said)["dependencies"])
    except (ValueError, KeyError, TypeError):
        return unknown(complaint.strip().splitlines()[-1] if complaint.strip() else "no report")
    weak = [
        f"  {one['name']} {one['version']}: {found['id']}"
        + (f", mended in {', '.join(found['fix_versions'])}" if found.get("fix_versions") else "")
        for one in packages
        for found in one.get("vulns", ())
    ]
    if weak:
        return Verdict(is_bad=True, words="\n".join(["FAIL dependencies with weaknesses:", *weak]))
    return Verdict(is_bad=False, words=f"ok   no known weakness in {len(packages)} dependencies")


def unknown(why: str) -> Verdict:
    """Nothing is known, which is no reason to stop and none to be silent."""
    line = "=" * 78
    text = f"{line}\nDEPENDENCIES WERE NOT AUDITED: {why[:300]}\n{line}"
    return Verdict(is_bad=False, words=text)
