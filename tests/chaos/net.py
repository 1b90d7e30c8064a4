"""A network namespace with one cable to the machine, where making one is allowed."""

import os
import shutil
import subprocess


class Net:
    """One namespace, at the other end of a pair of virtual interfaces."""

    def __init__(self, number: int) -> None:
        self.name = f"manent-chaos-{number}"
        third, fourth = number // 60 % 250, number % 60 * 4
        self.host, self.guest = (f"10.213.{third}.{fourth + end}" for end in (1, 2))
        self._here, self._there = f"mch{number}", f"mcg{number}"
        self._make()

    @property
    def prefix(self) -> list[str]:
        """What a command begins with that is to run inside."""
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        """Pull the cable: nothing gets through and nobody is told."""
        _ip("link", "set", self._here, "down")

    def join(self) -> None:
        """Put the cable back."""
        _ip("link", "set", self._here, "up")

    def close(self) -> None:
        """The interfaces go with the namespace."""
        _ip("netns", "del", self.name)

    def _make(self) -> None:
        _ip("netns", "add", self.name)
        inside = ("-n", self.name)
        _ip("link", "add", self._here, "type", "veth", "peer", "name", self._there)
        _ip("link", "set", self._there, "netns", self.name)
        _ip("addr", "add", f"{self.host}/30", "dev", self._here)
        _ip(*inside, "addr", "add", f"{self.guest}/30", "dev", self._there)
        for side, link in (((), self._here), (inside, self._there), (inside, "lo")):
            _ip(*side, "link", "set", link, "up")


def make() -> Net | None:
    """A namespace, or None where this process may not make one."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return None
    try:
        return Net(os.getpid() % 15_000)
    except subprocess.CalledProcessError:
        return None


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)  # noqa: S607 - found by PATH
