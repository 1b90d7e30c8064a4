"""Cursors that say of their columns only what anybody here asks: the name and the type."""

from typing import Any

import psycopg


class PlainCursor(psycopg.Cursor[Any]):
    """A cursor that builds no object for each column of each answer.

    The library's objects look up how a type is shown, which nobody here asks; for the row of a
    deploy that took longer than reading its values.
    """

    @property
    def description(self) -> Any:
        """As PEP 249 has it, with what is not known left out."""
        found = self.pgresult
        if found is None or not found.nfields:
            return super().description
        nothing = (None,) * 5
        return [
            ((found.fname(index) or b"").decode(), found.ftype(index), *nothing)
            for index in range(found.nfields)
        ]
