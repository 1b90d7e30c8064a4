"""Configurations in a folder of their own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from manent_server import settings
from manent_server.domain.errors import ConfigurationError

Load = Callable[..., settings.Settings]
Errors = Callable[..., list[dict[str, Any]]]

BASE = """
environments:
  staging: {tier: staging}
  production: {tier: production}
"""


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a text as manent.yml, or files by name."""

    def loader(
        files: str | bytes | Mapping[str, str],
        environ: Mapping[str, str] | None = None,
        **more: Any,
    ) -> settings.Settings:
        for name, text in (files if isinstance(files, Mapping) else {"manent.yml": files}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        return settings.load(tmp_path / "manent.yml", environ=environ or {}, **more)

    return loader


@pytest.fixture
def errors(load: Load, tmp_path: Path) -> Errors:
    """The findings of a configuration that has some; files by their name alone."""

    def finder(*args: Any, **more: Any) -> list[dict[str, Any]]:
        with pytest.raises(ConfigurationError) as caught:
            load(*args, **more)
        assert caught.value.code == "configuration_invalid"
        assert caught.value.next
        found = [dict(error) for error in caught.value.errors]
        for error in found:
            assert set(error) == {"file", "line", "path", "layer", "message"}
            error["file"] = str(Path(error["file"]).relative_to(tmp_path))
        return found

    return finder


@pytest.fixture
def placed(load: Load) -> Callable[..., settings.Placement]:
    """The one application `shop` in staging, from the keys of its layer."""

    def placement(keys: str, **more: Any) -> settings.Placement:
        text = BASE + f"applications:\n  shop:\n    environments:\n      staging: {keys}\n"
        return load(text, **more).applications["shop"].environments["staging"]

    return placement
