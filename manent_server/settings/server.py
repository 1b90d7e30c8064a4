"""`server` of manent.yml: listeners, what they let in, and the server's own log."""

from collections.abc import Mapping
from typing import Any, Final

from manent_server.settings import checks, values
from manent_server.settings.kinds import Choice, File, Or, Size, Text, Whole
from manent_server.settings.structures import SECTION, Key, ListOf, Section

_ADDRESS: Final = Text("HOST:PORT", checks.address)
_LARGEST_HEAD: Final = 64 * 1024
"""More than that the HTTP library does not read."""


def _tls(certificate: Any, key: Any) -> values.Tls | None:
    return values.Tls(certificate=certificate, key=key) if certificate and key else None


def _check_tls(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    missing = [name for name, file in found.items() if file is None]
    if len(missing) == 1:
        return [(missing[0], f"the key {missing[0]} is missing: certificate and key go together")]
    return []


def _check_server(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    if found["header_limit"] > _LARGEST_HEAD:
        return [("header_limit", "must be at most 64KiB: longer heads are cut off unread")]
    return []


_RATES = Section(
    (
        Key("per_caller", Whole(0), "500", "requests a second of one principal; 0 = no limit"),
        Key("public", Whole(0), "20", "a second of one address, where no sign-in is needed"),
        Key("failed_sign_ins", Whole(0), "60", "of one address, a minute"),
    ),
    values.Rates,
)

_LOG = Section(
    (
        Key(
            "level",
            Choice(("debug", "info", "warning", "error")),
            "info",
            "least level that is logged",
        ),
        Key(
            "format",
            Choice(("auto", "text", "json")),
            "auto",
            "auto: text on a terminal, JSON elsewhere",
        ),
    ),
    values.Log,
)

_TLS = Section(
    (
        Key("certificate", Or(File()), "null", "PEM file with the chain"),
        Key("key", Or(File()), "null", "PEM file with the private key"),
    ),
    _tls,
    _check_tls,
)

SERVER = Section(
    (
        Key("listen", _ADDRESS, "127.0.0.1:8420", "API, pages, /livez and /readyz"),
        Key(
            "metrics_listen",
            Or(_ADDRESS, "off"),
            "127.0.0.1:8421",
            "/metrics, /livez and /readyz: all that --no-api opens",
        ),
        Key(
            "url",
            Text("http(s) URL", checks.public_url),
            "http://127.0.0.1:8420",
            "public address, used in links",
        ),
        Key(
            "trusted_proxies",
            ListOf(Text("IP address or network", checks.network)),
            "[]",
            "whose X-Forwarded-For and X-Forwarded-Proto are believed",
        ),
        Key("tls", _TLS, SECTION, "certificate of the API's listener; {} = plain HTTP"),
        Key("body_limit", Size(), "1MiB", "largest body of a request"),
        Key("header_limit", Size(), "16KiB", "largest address with headers; at most 64KiB"),
        Key("rates", _RATES, SECTION, "how often somebody may ask; beyond it 429"),
        Key("log", _LOG, SECTION, "the server's own log, on stderr"),
    ),
    values.Server,
    _check_server,
)
