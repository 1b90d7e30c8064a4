"""One target plugin with its hooks, checked at this door."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pluggy
from pydantic import BaseModel, ValidationError

from manent_server.plugins import protocol
from manent_server.sdk import hooks as specifications
from manent_server.sdk.context import Context, Observation
from manent_server.sdk.errors import HookFailure, PermanentFailure

EFFECTS: Final = frozenset({"idempotent", "once"})


class Target:
    """A plugin written in Python, alone with the wrappers in a plugin manager of its own.

    Args:
        name: Its name in manent.yml.
        manager: The plugin manager in which it is the only one that acts.
    """

    def __init__(self, name: str, manager: pluggy.PluginManager) -> None:
        self.name = name
        self._manager = manager
        self.hooks = frozenset(hook for hook in specifications.ALL_HOOKS if self._acts(hook))
        self.model = self._model()

    def hook_for(self, hook: str) -> str | None:
        """The hook that is run for `hook`: a plugin without `rollback` gets `deploy`."""
        if hook in self.hooks:
            return hook
        return "deploy" if hook == "rollback" and "deploy" in self.hooks else None

    def typed_options(self, options: Mapping[str, Any]) -> Any:
        """The options as the plugin's model; as they are when it has none.

        Raises:
            PermanentFailure: They are not what the model allows.
        """
        if self.model is None:
            return dict(options)
        try:
            return self.model.model_validate(options)
        except ValidationError as error:
            raise PermanentFailure(_finding(error), code="options_invalid") from None

    def effects(self, options: Any) -> str:
        """`idempotent` or `once`.

        Raises:
            ValueError: The plugin says something else.
        """
        if "effects" not in self.hooks:
            return "idempotent"
        answer = self._manager.hook.effects(options=options)
        if answer is None:
            return "idempotent"
        if answer not in EFFECTS:
            raise ValueError(f"effects of {self.name} must be idempotent or once, not {answer!r}")
        return str(answer)

    def run(self, hook: str, context: Context) -> dict[str, Any] | None:
        """Run a hook; return its outputs as JSON.

        Raises:
            PermanentFailure: It returned what this hook may not return.
        """
        acting = self.hook_for(hook)
        if acting is None:
            raise PermanentFailure(f"{self.name} has no hook {hook}", code="plugin_missing")
        result = getattr(self._manager.hook, acting)(context=context)
        try:
            return _CHECKS[hook](result)
        except (TypeError, ValueError) as error:
            message = f"{hook} of {self.name} returned {error}"
            raise PermanentFailure(message, code="outputs_invalid") from None

    def tell(self, event: Mapping[str, Any]) -> None:
        """Let the plugin hear of an event; whatever it raises comes through."""
        self._manager.hook.deploy_event(event=event)

    def _acts(self, hook: str) -> bool:
        caller = getattr(self._manager.hook, hook)
        return any(not _is_wrapper(implementation) for implementation in caller.get_hookimpls())

    def _model(self) -> type[BaseModel] | None:
        if "options" not in self.hooks:
            return None
        model = self._manager.hook.options()
        if model is None or (isinstance(model, type) and issubclass(model, BaseModel)):
            return model
        raise TypeError(f"options must return a model class, not {model!r}")


def _is_wrapper(implementation: Any) -> bool:
    return bool(implementation.wrapper or implementation.hookwrapper)


def _finding(error: ValidationError) -> str:
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"])
    return f"option {path}: {first['msg']}"


def _outputs(result: Any) -> dict[str, Any] | None:
    if result is None:
        return None
    if not isinstance(result, Mapping):
        raise TypeError(f"{type(result).__name__}, not a mapping of outputs")
    outputs = dict(result)
    if protocol.size(outputs) > protocol.OUTPUT_LIMIT:
        raise ValueError("more than 64 KiB of outputs")
    return outputs


def _health(result: Any) -> dict[str, Any] | None:
    if result is False:
        raise HookFailure("verify says that it is not healthy", code="unhealthy")
    if result is None or result is True:
        return None
    return _outputs(result)


def _observation(result: Any) -> dict[str, Any] | None:
    if result is None:
        return None
    if not isinstance(result, Observation):
        raise TypeError(f"{type(result).__name__}, not an Observation")
    return {"version": result.version, "in_place": result.in_place}


def _changes(result: Any) -> dict[str, Any] | None:
    if result is None:
        return None
    if isinstance(result, str) or not isinstance(result, Sequence):
        raise TypeError(f"{type(result).__name__}, not a list of sentences")
    return {"changes": [str(change) for change in result]}


_CHECKS: Final = {
    "deploy": _outputs,
    "rollback": _outputs,
    "verify": _health,
    "observe": _observation,
    "plan": _changes,
}
