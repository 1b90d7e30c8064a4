"""Signatures of identity tokens: three algorithms, each bound to its type of key.

A token chooses none of this: not the algorithm beyond these, not where keys come from (`jku`,
`x5u`, `jwk`, `x5c` are ignored), and nothing critical we do not know.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from manent_server.domain.assertion import AssertionRefused, Claims

MOST: Final = 16 * 1024
"""Characters of a token."""
_SHAPE: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_LEAST_BITS: Final = 2048
_LONGEST_KID: Final = 256
# By type and curve; the library calls what RFC 8037 names EdDSA by its new name.
_FITTING: Final = {
    ("RSA", None): "RS256",
    ("EC", "P-256"): "ES256",
    ("OKP", "Ed25519"): "EdDSA",
}
_MODELS: Final = {"RS256": "RS256", "ES256": "ES256", "EdDSA": "Ed25519", "Ed25519": "Ed25519"}
_TYPES: Final = (None, "JWT")

Jwk = Mapping[str, Any]


class KeyUnknown(AssertionRefused):
    """It names a key that is not among those we have; newer ones may have it."""


@dataclass(frozen=True)
class Signed:
    """A token taken apart; nothing of it is believed yet."""

    header: Mapping[str, Any]
    claims: Claims
    signed: bytes
    signature: bytes

    @property
    def issuer(self) -> str:
        """Who it says has made it."""
        found = self.claims.get("iss")
        if not isinstance(found, str):
            raise AssertionRefused("it names no issuer")
        return found


def take_apart(token: str) -> Signed:
    """The parts of a compact token.

    Raises:
        AssertionRefused: It is none, or of a kind that is never accepted.
    """
    shape = _SHAPE.fullmatch(token) if len(token) <= MOST else None
    if shape is None:
        raise AssertionRefused("it is no signed token")
    header, claims = _object(shape[1]), _object(shape[2])
    alg = header.get("alg")
    if not isinstance(alg, str) or alg not in _MODELS:
        raise AssertionRefused("its algorithm is not accepted: RS256, ES256 or EdDSA are")
    if "crit" in header or "b64" in header:
        raise AssertionRefused("it holds something critical that is not known here")
    if header.get("typ") not in _TYPES:
        raise AssertionRefused("it is no identity token (typ)")
    return Signed(header, claims, f"{shape[1]}.{shape[2]}".encode(), _bytes(shape[3]))


def demand_signature(token: Signed, keys: Iterable[Jwk]) -> None:
    """Refuse a token that none of the keys has signed.

    Raises:
        KeyUnknown: It names none of them.
        AssertionRefused: It names several, or the signature is wrong.
    """
    name = _MODELS[token.header["alg"]]
    alg = "EdDSA" if name == "Ed25519" else name
    key = _chosen(token.header.get("kid"), [one for one in keys if fits(one) == alg])
    if not _has_signed(key, name, token):
        raise AssertionRefused("its signature is wrong")


def _has_signed(key: Jwk, name: str, token: Signed) -> bool:
    # Servers without OIDC, and every command, do without these 100 ms.
    from joserfc.errors import JoseError  # noqa: PLC0415 - see above
    from joserfc.jwk import JWKRegistry  # noqa: PLC0415 - as above
    from joserfc.jws import JWSRegistry  # noqa: PLC0415 - as above

    try:
        made = JWKRegistry.import_key({**key})
        return JWSRegistry.algorithms[name].verify(token.signed, token.signature, made)
    except (JoseError, ValueError, TypeError):
        return False


def fits(key: Jwk) -> str | None:
    """The algorithm a public key may verify; None for what is no such key."""
    curve = key.get("crv")
    alg = _FITTING.get((str(key.get("kty")), None if curve is None else str(curve)))
    if alg is None or "d" in key or "k" in key:
        return None
    if key.get("use", "sig") != "sig" or key.get("alg", alg) not in (alg, _MODELS[alg]):
        return None
    operations = key.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    return alg if alg != "RS256" or _is_long(key) else None


def _is_long(key: Jwk) -> bool:
    try:
        return int.from_bytes(_bytes(str(key.get("n")))).bit_length() >= _LEAST_BITS
    except AssertionRefused:
        return False


def _chosen(kid: Any, fitting: Sequence[Jwk]) -> Jwk:
    """The one key that is meant: by its id, or because there is no other."""
    if kid is not None and (not isinstance(kid, str) or len(kid) > _LONGEST_KID):
        raise AssertionRefused("its key id (kid) is none")
    named = [one for one in fitting if kid is None or one.get("kid") == kid]
    if not named:
        raise KeyUnknown("its issuer has no such key")
    if len(named) > 1:
        raise AssertionRefused("its issuer has several keys it could mean")
    return named[0]


def _object(part: str) -> Mapping[str, Any]:
    try:
        found = json.loads(_bytes(part), object_pairs_hook=_once, parse_constant=_nothing)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise AssertionRefused("it is no signed token")
    return found


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _nothing(word: str) -> Any:
    raise ValueError(word)


def _bytes(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise AssertionRefused("it is no signed token") from None
