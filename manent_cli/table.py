"""Plain tables: columns lined up, nothing drawn, every cell one line."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from manent_cli.text import clean, width

Row = Mapping[str, Any]


class Column(NamedTuple):
    """One column: its head, what stands in it, and whether only `wide` shows it."""

    head: str
    cell: Callable[[Row], Any]
    is_wide: bool = False


def field(name: str, *, head: str | None = None, is_wide: bool = False) -> Column:
    """A column that shows one field of the row."""
    return Column(head or name.replace("_", " ").upper(), lambda row: row.get(name), is_wide)


def draw(columns: Sequence[Column], rows: Iterable[Row], *, wide: bool = False) -> str:
    """The table as text, the heads above also when there is no row."""
    shown = [column for column in columns if wide or not column.is_wide]
    lines = [[column.head for column in shown]]
    lines += [[_text(column.cell(row)) for column in shown] for row in rows]
    widths = [max(width(line[index]) for line in lines) for index in range(len(shown))]
    return "".join(_line(line, widths) for line in lines)


def pairs(fields: Iterable[tuple[str, Any]]) -> str:
    """Names and values below each other; what has no value is left out."""
    given = [(name, _text(value)) for name, value in fields if value not in (None, "", [], {})]
    longest = max((width(name) for name, _ in given), default=0)
    return "".join(f"{name}{' ' * (longest - width(name))}  {value}\n" for name, value in given)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell + " " * (columns - width(cell)) for cell, columns in zip(cells, widths, strict=True)
    ]
    return "  ".join(padded).rstrip() + "\n"


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return clean(", ".join(str(one) for one in value)) or "-"
    return clean(value)
