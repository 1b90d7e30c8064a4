"""The compose file and the systemd unit: read by the real programs where they are here."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.rig.serve import BIN, run

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "examples" / "systemd" / "manent.service"
PAGE = (ROOT / "docs" / "how-to" / "run-in-containers.md").read_text()


def test_the_unit_is_good(tmp_path: Path) -> None:
    """By systemd itself; the programs it names are not installed here."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze here: install systemd")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/manent/bin/manent-server", "/bin/true"))
    ended = subprocess.run(
        [program, "verify", "--man=no", str(unit)], text=True, capture_output=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_unit_lets_a_drain_end() -> None:
    """B127, B128: manent alone is told, and has longer than its drain takes."""
    said = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line)
    assert said["KillMode"] == "mixed"
    assert said["TimeoutStopSec"] == "6min"
    assert said["Restart"] == "on-failure"
    # What is checked before the start would end in a restart without end: its code does not count.
    assert (said["RestartPreventExitStatus"], "ExecStartPre" in said) == ("2", False)
    assert said["OOMPolicy"] == "continue"
    assert said["NoNewPrivileges"] == "yes"
    assert said["CapabilityBoundingSet"] == ""


def test_the_compose_file_is_good() -> None:
    """By compose itself, which also refuses a database without a password."""
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("no docker-compose here: install docker-compose")
    command = [program, "--file", str(ROOT / "compose.yaml"), "config", "--quiet"]
    for environ, code in (({"DB_PASSWORD": "x"}, 0), ({}, 1)):
        ended = subprocess.run(
            command, env={"PATH": "/usr/bin:/bin", **environ}, cwd="/",
            text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert ended.returncode == code, ended.stderr
        assert code == 0 or "set DB_PASSWORD" in ended.stderr


def test_the_compose_file_says_what_the_chart_says() -> None:
    """Read-only, no capability, six minutes to stop, alive without a database."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    mine = services["manent"]
    assert mine["read_only"] is True
    assert mine["cap_drop"] == ["ALL"]
    assert mine["stop_grace_period"] == "6m"
    assert "/livez" in mine["healthcheck"]["test"][-1]
    assert (ROOT / mine["build"]["dockerfile"]).exists()
    assert {"database", "manent"} == set(services)
    for name, service in services.items():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source.startswith(".") or source in ("database", "work"), name
    passwords = re.findall(r"\$\{(\w+)", (ROOT / "compose.yaml").read_text())
    assert set(passwords) == {"DB_PASSWORD"}


def test_the_pages_manent_yml_is_good(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "manent.yml").write_text(text)
    environ = {"DB_PASSWORD": "from-the-environment", "PATH": "/bin", "HOME": str(tmp_path)}
    ended = run([str(BIN / "manent-server"), "check"], cwd=tmp_path, environ=environ)
    assert ended.returncode == 0, ended.stderr
