"""An identity provider, as a program on somebody's machine meets it: by the device flow."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from manent_cli.errors import Failure
from manent_cli.exit_codes import DENIED
from manent_cli.proxy import proxy_for

_TIMEOUT = 15.0
_MOST = 1024 * 1024
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_SLOWER = 5.0


class NotSignedIn(Failure):
    """The provider let nobody in."""

    code = "not_signed_in"
    exit_code = DENIED


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nobody: what is asked may hold a secret."""

    def redirect_request(self, *_: Any) -> None:
        """None: the redirect is an error."""


class Provider:
    """One provider.

    Args:
        issuer: Its address, under which its discovery document stands.
        client_id: Who asks: manent, as the provider knows it.
        environ: Where the proxy variables are read from.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        issuer: str,
        client_id: str,
        *,
        environ: Mapping[str, str],
        sleep: Callable[[float], None],
    ) -> None:
        self._issuer = issuer
        self._client_id = client_id
        self._environ = environ
        self._sleep = sleep

    def sign_in(self, tell: Callable[[str, str], None]) -> str:
        """The identity token of the person who confirms the code in a browser.

        Args:
            tell: Given the address to open and the code to compare there.

        Raises:
            NotSignedIn: Nobody did, or the provider does not know this way.
        """
        about = request(
            self._issuer.rstrip("/") + "/.well-known/openid-configuration", self._environ
        )
        begin, end = about.get("device_authorization_endpoint"), about.get("token_endpoint")
        if not begin or not end:
            raise NotSignedIn(
                f"{self._issuer} does not let devices sign in",
                next="ask an administrator for a token",
            )
        form = {"client_id": self._client_id, "scope": "openid profile groups"}
        device = request(str(begin), self._environ, form=form)
        if not device.get("device_code"):
            raise _refused(self._issuer, device)
        shown = device.get("verification_uri_complete") or device.get("verification_uri")
        tell(str(shown), str(device.get("user_code")))
        return self._wait(str(end), device)

    def _wait(self, address: str, device: Mapping[str, Any]) -> str:
        pause, left = _number(device, "interval", 5.0), _number(device, "expires_in", 600.0)
        form = {
            "grant_type": _GRANT,
            "client_id": self._client_id,
            "device_code": str(device["device_code"]),
        }
        while left > 0:
            self._sleep(pause)
            left -= pause
            found = request(address, self._environ, form=form)
            if found.get("id_token"):
                return str(found["id_token"])
            if found.get("error") == "slow_down":
                pause += _SLOWER
            elif found.get("error") != "authorization_pending":
                raise _refused(self._issuer, found)
        raise NotSignedIn("nobody confirmed the code in time", next="manent login again")


def request(
    url: str,
    environ: Mapping[str, str],
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Mapping[str, Any]:
    """The JSON object that an address answers with, also in a refusal.

    Raises:
        Failure: It is no safe address, or answers nothing of the kind.
    """
    parts = urlsplit(url)
    is_here = parts.hostname in {"127.0.0.1", "localhost", "::1"}
    if parts.scheme != "https" and not (parts.scheme == "http" and is_here):
        raise Failure(f"{parts.scheme}://{parts.hostname} is no https address")
    proxy = proxy_for(parts, environ)
    opener = urllib.request.build_opener(
        _Stay, urllib.request.ProxyHandler({parts.scheme: proxy} if proxy else {})
    )
    content = urlencode(form).encode() if form is not None else None
    asked = urllib.request.Request(  # noqa: S310 - the scheme was checked
        url, data=content, headers={"Accept": "application/json", **(headers or {})}
    )
    where = f"{parts.scheme}://{parts.netloc}"
    try:
        try:
            with opener.open(asked, timeout=_TIMEOUT) as answer:
                body = answer.read(_MOST)
        except urllib.error.HTTPError as refusal:
            with refusal:
                body = refusal.read(_MOST)
        found = json.loads(body)
    except OSError as error:
        raise Failure(f"cannot reach {where}", why=str(error)) from error
    except ValueError as error:
        raise Failure(f"{where} does not answer like an identity provider") from error
    if not isinstance(found, dict):
        raise Failure(f"{where} does not answer like an identity provider")
    return found


def _refused(issuer: str, answer: Mapping[str, Any]) -> NotSignedIn:
    why = str(answer.get("error_description") or answer.get("error") or "no reason given")
    return NotSignedIn(f"{issuer} let nobody in", why=why, next="manent login again")


def _number(answer: Mapping[str, Any], name: str, default: float) -> float:
    found = answer.get(name)
    return max(1.0, float(found)) if isinstance(found, int | float) else default
