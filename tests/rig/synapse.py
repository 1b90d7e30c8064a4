"""A real Matrix homeserver, Synapse, in an environment of its own beside the project's."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import httpx2
import yaml

from tests.rig.ports import free_port
from tests.rig.process import Process, until

VERSION = "1.163.2"
_HOME = Path(__file__).parents[2] / ".venv-synapse"
_NAME = "rig.local"
_QUICK = {"per_second": 1000, "burst_count": 1000}
_LIMITS = ("message", "registration", "joins_per_room", "invites_per_issuer")


def install() -> Path:
    """The folder of its programs; the first call takes a minute and 250 MB."""
    python = _HOME / "bin" / "python"
    if not (_HOME / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(_HOME)], check=True)
        wanted = f"matrix-synapse=={VERSION}"
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, wanted], check=True)
        (_HOME / ".installed").touch()
    return python.parent


class Synapse:
    """One homeserver on a free port of 127.0.0.1, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._bin = install()
        self.url = f"http://127.0.0.1:{self._port}"
        self._people: list[Person] = []
        self._environ = {"PATH": os.defpath, "HOME": str(folder), "LANG": "C.UTF-8"}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._configure()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for person in self._people:
            person.close()
        self.process.kill()

    def start(self) -> None:
        """Start it (again) and wait until it answers."""
        command = [str(self._bin / "python"), "-m", "synapse.app.homeserver", "-c", self._config]
        self.process = Process(command, log=self._folder / "synapse.log", environ=self._environ)
        until(self._answers, what="the homeserver", limit=60)

    def person(self, name: str) -> "Person":
        """A new user, signed in."""
        made = [str(self._bin / "register_new_matrix_user"), "-c", self._config, "-u", name]
        subprocess.run(
            [*made, "-p", f"password of {name}", "--no-admin", self.url],
            env=self._environ, check=True, capture_output=True,
        )  # fmt: skip
        body = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": name},
            "password": f"password of {name}",
        }
        found = httpx2.post(f"{self.url}/_matrix/client/v3/login", json=body, trust_env=False)
        self._people.append(Person(self.url, found.json()["user_id"], found.json()["access_token"]))
        return self._people[-1]

    @property
    def _config(self) -> str:
        return str(self._folder / "homeserver.yaml")

    def _answers(self) -> bool:
        try:
            answer = httpx2.get(f"{self.url}/_matrix/client/versions", trust_env=False)
        except httpx2.TransportError:
            return False
        return answer.status_code == 200

    def _configure(self) -> None:
        make = [str(self._bin / "python"), "-m", "synapse.app.homeserver", "--server-name", _NAME]
        more = ["-c", self._config, "--generate-config", "--report-stats=no"]
        subprocess.run(
            [*make, *more], cwd=self._folder, env=self._environ, check=True, capture_output=True
        )
        path = Path(self._config)
        config = yaml.safe_load(path.read_text())
        config["listeners"] = [
            {
                "port": self._port,
                "bind_addresses": ["127.0.0.1"],
                "type": "http",
                "resources": [{"names": ["client"]}],
            }
        ]
        config |= {"trusted_key_servers": [], "suppress_key_server_warning": True}
        config |= {"federation_domain_whitelist": []}
        config |= {f"rc_{name}": _QUICK for name in _LIMITS}
        config |= {"rc_login": {"address": _QUICK, "account": _QUICK}}
        path.write_text(yaml.safe_dump(config))


class Person:
    """Somebody at the homeserver."""

    def __init__(self, url: str, name: str, token: str) -> None:
        self.name = name
        self.token = token
        self._client = httpx2.Client(
            base_url=f"{url}/_matrix/client/v3",
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=30,
        )
        self._count = 0
        self._since = ""
        self._invited: list[str] = []

    def close(self) -> None:
        """Go away."""
        self._client.close()

    def do(self, method: str, path: str, body: Any = None) -> Any:
        """One request that must succeed."""
        answer = self._client.request(method, path, json={} if body is None else body)
        if answer.status_code != 200:
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json()

    def send(self, room: str, kind: str, content: Any) -> str:
        """Send an event; its id."""
        self._count += 1
        return str(self.do("PUT", f"/rooms/{room}/send/{kind}/t{self._count}", content)["event_id"])

    def react(self, room: str, event: str, key: str = "👍") -> str:
        """React to a message."""
        relates = {"rel_type": "m.annotation", "event_id": event, "key": key}
        return self.send(room, "m.reaction", {"m.relates_to": relates})

    def reply(self, room: str, event: str, body: str) -> str:
        """Reply to a message."""
        relates = {"m.in_reply_to": {"event_id": event}}
        content = {"msgtype": "m.text", "body": body, "m.relates_to": relates}
        return self.send(room, "m.room.message", content)

    def messages(self, room: str) -> list[dict[str, Any]]:
        """The messages of a room as a client shows them, edits applied, the oldest first."""
        chunk = self.do("GET", f"/rooms/{room}/messages?dir=b&limit=500")["chunk"]
        found = [one for one in chunk if one["type"] == "m.room.message" and one["content"]]
        return [
            {"id": one["event_id"], "by": one["sender"], **_shown(one)}
            for one in reversed(found)
            if one["content"].get("m.relates_to", {}).get("rel_type") != "m.replace"
        ]

    def invitations(self) -> list[str]:
        """Rooms it is invited to."""
        # The homeserver keeps its answer to a first question for minutes: ask for what is new.
        since = f"&since={self._since}" if self._since else ""
        found = self.do("GET", f"/sync?timeout=0{since}")
        self._since = found["next_batch"]
        self._invited += found.get("rooms", {}).get("invite", {})
        return self._invited


def _shown(event: dict[str, Any]) -> dict[str, Any]:
    newer = event.get("unsigned", {}).get("m.relations", {}).get("m.replace")
    content = newer["content"].get("m.new_content", newer["content"]) if newer else None
    return dict(content or event["content"])


def code_in(words: str) -> str:
    """The code a chat gave."""
    found = re.search(r"manent link (\S+)", words)
    if found is None:
        raise AssertionError(f"no code in {words}")
    return found[1]
