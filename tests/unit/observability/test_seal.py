"""Checkpoints: who signed them, and what."""

import subprocess
from pathlib import Path

import pytest

from manent_server.domain.errors import ConfigurationError
from manent_server.observability.seal import Seal, Trusted


def key(folder: Path, name: str = "audit.pem", kind: str = "ed25519") -> Path:
    path = folder / name
    made = ["openssl", "genpkey", "-algorithm", kind, "-out", str(path)]
    subprocess.run(made, check=True, capture_output=True)  # as the page says
    return path


def test_whoever_has_the_public_half_can_check(tmp_path: Path):
    private = key(tmp_path)
    public = tmp_path / "public.pem"
    subprocess.run(
        ["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public)],  # noqa: S607 - whichever is there
        check=True,
        capture_output=True,
    )
    seal = Seal(private)
    signature = seal.sign("text")
    for trusted in (Trusted([public]), Trusted([private])):
        assert trusted.good(seal.name, "text", signature)
        assert not trusted.good(seal.name, "other", signature)
        assert not trusted.good("other", "text", signature)
        assert not trusted.good(seal.name, "text", "zz")
    assert not Trusted([key(tmp_path, "b.pem")]).good(seal.name, "text", signature)
    assert not Trusted([])


def test_what_is_no_such_key_is_named(tmp_path: Path):
    other = key(tmp_path, "x.pem", kind="x25519")
    (tmp_path / "text").write_text("no key")
    for path in (other, tmp_path / "text", tmp_path / "gone"):
        for use in (Seal, lambda given: Trusted([given])):
            with pytest.raises(ConfigurationError, match=str(path)):
                use(path)
