"""All plugins by name: what they are, and whether options are what they allow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from pydantic import BaseModel, SecretStr, ValidationError

from manent_server.domain.errors import ConfigurationError, NotFound
from manent_server.plugins import discovery, schema
from manent_server.plugins.external import NotDescribed, build, describe
from manent_server.plugins.target import Target
from manent_server.sdk.options import inner_model, template_paths

Finding = tuple[str, str]

LISTENING: Final = "deploy_event"
_UNKNOWN: Final = "extra_forbidden"
_MISSING: Final = "missing"


@dataclass(frozen=True)
class Plugin:
    """One usable plugin.

    Attributes:
        name: Its name in manent.yml.
        build: Version of its distribution, or digest of its executable.
        hooks: The hooks it has.
        effects: `idempotent` or `once`, where its options do not say otherwise.
        templates: Paths of the options in which `{application}` and its like are filled in.
        needs_artifact: Whether it can do nothing for a version without an artifact.
        argv: Argument list of an external plugin.
        target: The plugin itself, when it is written in Python.
        schema: JSON schema of an external plugin's options.
    """

    name: str
    build: str
    hooks: frozenset[str]
    effects: str
    templates: frozenset[str] = frozenset()
    needs_artifact: bool = False
    argv: tuple[str, ...] | None = None
    target: Target | None = None
    schema: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def is_external(self) -> bool:
        """Whether it is an executable rather than a Python plugin."""
        return self.argv is not None

    def hook_for(self, hook: str) -> str | None:
        """What to call for `hook`: a plugin without `rollback` gets `deploy`; None: nothing."""
        if hook in self.hooks:
            return hook
        return "deploy" if hook == "rollback" and "deploy" in self.hooks else None

    def effects_of(self, options: Mapping[str, Any]) -> str:
        """`idempotent` or `once`, for a target with these (valid) options."""
        if self.target is None:
            return self.effects
        return self.target.effects(self.target.typed_options(options))

    def check_options(self, options: Mapping[str, Any]) -> list[Finding]:
        """Everything about the options the plugin does not allow, as (path, message)."""
        if self.target is None:
            return list(schema.check(self.schema, dict(options)))
        return _check_model(self.target.model, options)


class Host:
    """The plugins of this process.

    Args:
        plugins: Those that can be used.
        broken: Why the others cannot, by name.
        wrappers: Names of plugins that wrap the hooks of all others.
    """

    def __init__(
        self, plugins: Mapping[str, Plugin], broken: Mapping[str, str], wrappers: Sequence[str] = ()
    ) -> None:
        self._plugins = dict(plugins)
        self.broken = dict(broken)
        self.wrappers = tuple(wrappers)

    def names(self) -> frozenset[str]:
        """Names of the plugins that can be used."""
        return frozenset(self._plugins)

    @property
    def listeners(self) -> list[Target]:
        """Plugins that want to hear of events."""
        return [
            plugin.target
            for plugin in self._plugins.values()
            if plugin.target is not None and LISTENING in plugin.hooks
        ]

    def plugin(self, name: str) -> Plugin:
        """The plugin of this name.

        Raises:
            ConfigurationError: It is broken.
            NotFound: There is none.
        """
        if name in self._plugins:
            return self._plugins[name]
        if name in self.broken:
            raise ConfigurationError(
                f"plugin {name} is broken: {self.broken[name]}",
                code="plugin_broken",
                next="repair or remove it, then start again",
            )
        raise NotFound(
            f"no plugin {name}{schema.hint(name, self._plugins)}",
            code="plugin_unknown",
            next="install the plugin, or name it under plugins.external",
        )

    def check_options(self, name: str, options: Mapping[str, Any]) -> list[Finding]:
        """Everything about the options that plugin `name` does not allow, as (path, message)."""
        return self.plugin(name).check_options(options)


def discover(external: Mapping[str, Sequence[str]]) -> Host:
    """Find all plugins: those announced by entry points, and executables given by name."""
    found = discovery.find()
    plugins = {name: _python(target, found.builds[name]) for name, target in found.targets.items()}
    broken = dict(found.broken)
    for name, argv in external.items():
        if name in plugins or name in broken:
            plugins.pop(name, None)
            broken[name] = "named under plugins.external, and installed under the same name"
            continue
        try:
            plugins[name] = _external(name, argv)
        except NotDescribed as error:
            broken[name] = f"{argv[0]} {error}"
    return Host(plugins, broken, found.wrappers)


def _python(target: Target, build: str) -> Plugin:
    return Plugin(
        name=target.name,
        build=build,
        hooks=target.hooks,
        effects=target.effects(None),
        templates=template_paths(target.model) if target.model else frozenset(),
        needs_artifact=bool(getattr(target.model, "needs_artifact", False)),
        target=target,
    )


def _external(name: str, argv: Sequence[str]) -> Plugin:
    described = describe(argv)
    return Plugin(
        name=name,
        build=build(argv),
        hooks=described.hooks,
        effects=described.effects,
        templates=described.templates,
        needs_artifact=described.needs_artifact,
        argv=tuple(argv),
        schema=described.options,
    )


def _check_model(model: type[BaseModel] | None, options: Mapping[str, Any]) -> list[Finding]:
    if model is None:
        return []
    try:
        model.model_validate(dict(options))
    except ValidationError as error:
        return list(_findings(model, error))
    return [(path, schema.IN_CLEAR) for path in _in_clear(model, options)]


def _in_clear(model: type[BaseModel], options: Mapping[str, Any], above: str = "") -> list[str]:
    """Options the model keeps secret whose text stands here itself: every deploy would store it."""
    found: list[str] = []
    for name, one in model.model_fields.items():
        key = one.alias or name
        given, inner = options.get(key), inner_model(one.annotation)
        if inner is not None and isinstance(given, Mapping):
            found += _in_clear(inner, given, f"{above}{key}.")
        elif _is_secret(one.annotation) and schema.is_in_clear(given):
            found.append(f"{above}{key}")
    return found


def _is_secret(annotation: Any) -> bool:
    is_one = isinstance(annotation, type) and issubclass(annotation, SecretStr)
    return is_one or any(map(_is_secret, get_args(annotation)))


def _findings(model: type[BaseModel], error: ValidationError) -> Iterator[Finding]:
    for one in error.errors(include_url=False, include_input=False):
        place = [str(part) for part in one["loc"]]
        path = ".".join(place)
        if one["type"] == _UNKNOWN:
            yield path, schema.unknown_key(place[-1], _siblings(model, place[:-1]))
        elif one["type"] == _MISSING:
            yield path, "is required"
        else:
            yield path, one["msg"][:1].lower() + one["msg"][1:]


def _siblings(model: type[BaseModel], place: Sequence[str]) -> list[str]:
    """The keys that exist where an unknown one was found."""
    for name in place:
        field = model.model_fields.get(name)
        inner = inner_model(field.annotation) if field is not None else None
        if inner is None:
            return []
        model = inner
    return [info.alias or name for name, info in model.model_fields.items()]
