"""The base of a plugin's typed options."""

from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Union, get_args, get_origin

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
    """What `options` in manent.yml may hold for a plugin; an unknown key is an error at load.

    A plugin that cannot act without an artifact says so by `needs_artifact = True` in its model:
    a placement without `artifact` is an error at load then.
    """

    needs_artifact: ClassVar[bool] = False
    model_config = ConfigDict(extra="forbid", frozen=True)


def template_paths(model: type[BaseModel], prefix: str = "") -> frozenset[str]:
    """The dotted paths of the options a model marks with `template`."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        if _is_marked(field.metadata) or _is_marked(_within(field.annotation)):
            found.add(path)
        if (inner := inner_model(field.annotation)) is not None:
            found |= template_paths(inner, f"{path}.")
    return frozenset(found)


def inner_model(annotation: Any) -> type[BaseModel] | None:
    """The model an option holds, also one that may be None; None when it holds something else."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, UnionType):
        return next(filter(None, map(inner_model, get_args(annotation))), None)
    return None


def _is_marked(marks: Any) -> bool:
    return any(isinstance(mark, TemplateMark) for mark in marks)


def _within(annotation: Any) -> list[Any]:
    """The marks inside a type: those of `list[Template]`, `dict[str, Template]`, `X | None`."""
    marks = list(getattr(annotation, "__metadata__", ()))
    for argument in getattr(annotation, "__args__", ()):
        marks.extend(_within(argument))
    return marks
