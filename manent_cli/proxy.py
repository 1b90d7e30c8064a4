"""Which HTTP proxy stands between here and a server, by the usual variables."""

from collections.abc import Mapping
from urllib.parse import SplitResult


def proxy_for(url: SplitResult, environ: Mapping[str, str]) -> str | None:
    """The proxy's URL, or None for a direct way.

    Args:
        url: The server.
        environ: `HTTPS_PROXY` or `https_proxy` for https, `http_proxy` for http (upper case is
            not read there: a CGI program's caller can set it), `ALL_PROXY`, `NO_PROXY`.
    """
    host = url.hostname or ""
    if _is_exempt(host, url.port, _first(environ, "no_proxy", "NO_PROXY")):
        return None
    names = ("https_proxy", "HTTPS_PROXY") if url.scheme == "https" else ("http_proxy",)
    proxy = _first(environ, *names, "all_proxy", "ALL_PROXY")
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _first(environ: Mapping[str, str], *names: str) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _is_exempt(host: str, port: int | None, listed: str) -> bool:
    if host in {"localhost", "127.0.0.1", "::1"}:
        return True
    for entry in (part.strip().lower() for part in listed.split(",")):
        if not entry:
            continue
        name = entry.removesuffix(f":{port}").lstrip(".")
        if name in {"*", host} or host.endswith(f".{name}"):
            return True
    return False
