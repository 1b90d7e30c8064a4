"""Column types that mean the same on both databases."""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect

_SQLITE_INSTANT = "%Y-%m-%dT%H:%M:%S.%fZ"


class Instant(sa.types.TypeDecorator[datetime]):
    """A moment in UTC: `timestamptz` on Postgres, sortable ISO text on SQLite."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> sa.types.TypeEngine[Any]:
        """Text on SQLite, so that values sort and compare as written."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sa.String(27))
        return dialect.type_descriptor(sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Refuse a naive value; write UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("an instant needs a time zone")
        utc = value.astimezone(UTC)
        return utc.strftime(_SQLITE_INSTANT) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Read UTC back."""
        if value is None:
            return None
        if isinstance(value, str):
            # Ten times as fast as strptime, which counts where thousands are read.
            return datetime.fromisoformat(value.removesuffix("Z")).replace(tzinfo=UTC)
        read: datetime = value
        return read.astimezone(UTC)


Json = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")
Big = sa.BigInteger().with_variant(sqlite.INTEGER(), "sqlite")
