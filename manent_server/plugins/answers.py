"""What the hooks may answer: the types at this door, for built-in and external plugins alike."""

from typing import Any

from manent_server.plugins import protocol


def outputs(hook: str, value: Any) -> dict[str, Any] | None:
    """The checked outputs of a `result`.

    Raises:
        protocol.Nonsense: Not what this hook answers, too large, or not JSON.
    """
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise protocol.Nonsense(f"outputs of {hook} must be an object, not {_kind(value)}")
    if (size := protocol.size(value)) > protocol.OUTPUT_LIMIT:
        raise protocol.Nonsense(f"outputs of {hook} have {size} bytes, 65536 are allowed")
    if hook == "observe":
        return _observation(value)
    if hook == "plan":
        return _changes(value)
    return value or None


def _observation(value: dict[str, Any]) -> dict[str, Any]:
    version, in_place = value.get("version"), value.get("in_place")
    if version is not None and not isinstance(version, str):
        raise protocol.Nonsense(f"version of observe must be text or null, not {_kind(version)}")
    if in_place is not None and not isinstance(in_place, bool):
        raise protocol.Nonsense(f"in_place of observe must be a truth value, not {_kind(in_place)}")
    return {"version": version, "in_place": in_place}


def _changes(value: dict[str, Any]) -> dict[str, Any]:
    changes = value.get("changes", [])
    if not isinstance(changes, list) or not all(isinstance(change, str) for change in changes):
        raise protocol.Nonsense("changes of plan must be a list of texts")
    return {"changes": changes}


def _kind(value: Any) -> str:
    names = {bool: "a truth value", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "null")
