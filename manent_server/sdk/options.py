"""The base of a plugin's typed options."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict


class TemplateMark:
    """Marks an option whose texts have `{application}` and its like filled in at prepare."""

    def __repr__(self) -> str:
        return "template"


template: Final = TemplateMark()
"""Annotate a field with it: `restart: Annotated[list[str], template]`."""

Template = Annotated[str, template]
"""A text option in which `{application}`, `{environment}`, `{target}`, `{version}` are filled."""


class Options(BaseModel):
    """What `options` in manent.yml may hold for a plugin; an unknown key is an error at load."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def template_paths(model: type[BaseModel], prefix: str = "") -> frozenset[str]:
    """The dotted paths of the options a model marks with `template`."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        if _is_marked(field.metadata) or _is_marked(_within(field.annotation)):
            found.add(path)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= template_paths(field.annotation, f"{path}.")
    return frozenset(found)


def _is_marked(marks: Any) -> bool:
    return any(isinstance(mark, TemplateMark) for mark in marks)


def _within(annotation: Any) -> list[Any]:
    """The marks inside a type: those of `list[Template]`, `dict[str, Template]`, `X | None`."""
    marks = list(getattr(annotation, "__metadata__", ()))
    for argument in getattr(annotation, "__args__", ()):
        marks.extend(_within(argument))
    return marks
