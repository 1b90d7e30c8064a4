"""`check --against`: a manent.yml beside the deploys that are live somewhere."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from manent_cli.client import Client
from manent_cli.errors import Failure
from manent_cli.profile import resolve
from manent_server.domain.errors import ConfigurationError, Unavailable
from manent_server.plugins.host import Host
from manent_server.settings import Settings
from manent_server.store.engine import connect
from manent_server.store.transaction import Store
from manent_server.usecases import needs
from manent_server.usecases.needs import Live

_PAGE = 500


def demand_good(settings: Settings, host: Host, url: str, environ: Mapping[str, str]) -> None:
    """Name the live deploys that need what the settings or the plugins lack.

    A target that is gone is only said: its deploys end as they were accepted.

    Raises:
        ConfigurationError: Some deploy could not be seen through.
        Unavailable: The server or database cannot be asked.
    """
    live = _of_server(url, environ) if url.startswith(("http://", "https://")) else None
    if live is None:
        live = _of_database(settings, url)
    found = needs.missing(live, settings, plugins=host.names())
    for need in found:
        if not need.is_binding:
            sys.stderr.write(f"{need.words}, which goes; it ends as it was accepted\n")
    binding = [need for need in found if need.is_binding]
    if binding:
        raise ConfigurationError(
            f"{settings.path} lacks what live deploys need",
            code="deploys_live",
            next="wait for them or cancel them first",
            errors=[{"path": need.name, "message": need.words} for need in binding],
        )


def _of_database(settings: Settings, url: str) -> list[Live]:
    folder = settings.path.absolute().parent
    engines = connect(url, pool=1, stale_after=settings.recovery.stale_after, folder=folder)
    return needs.read(Store(engines))


def _of_server(url: str, environ: Mapping[str, str]) -> list[Live]:
    try:
        chosen = resolve(environ, url=url)
        client = Client(chosen.url, chosen.token, environ=environ)
        return [needs.of_json(deploy) for deploy in _pages(client)]
    except Failure as failure:
        words = failure.what + (f": {failure.why}" if failure.why else "")
        raise Unavailable(words, next=failure.next) from failure


def _pages(client: Client) -> Iterator[dict[str, Any]]:
    query: dict[str, Any] = {"state": ["DELAYED", "ENQUEUED", "PENDING"], "limit": _PAGE}
    while True:
        page = client.get("/deploys", query)
        yield from page["items"]
        if not page.get("next"):
            return
        query["before"] = page["next"]
