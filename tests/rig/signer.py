"""An identity provider's keys, and tokens that are really signed by them; also wrong ones."""

import base64
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

ISSUER = "https://id.example"
CLIENT = "manent"


@cache
def key(kty: str) -> Any:
    """One private key of each type for the whole run: an RSA key takes long to make."""
    if kty == "RSA":
        return RSAKey.generate_key(2048)
    return ECKey.generate_key("P-256") if kty == "EC" else OKPKey.generate_key("Ed25519")


def public(kty: str, kid: str | None = None, **more: Any) -> dict[str, Any]:
    """The public half of a key as a provider shows it."""
    found = dict(key(kty).as_dict(private=False))
    found.pop("kid", None)
    return found | ({"kid": kid} if kid is not None else {}) | more


def keys() -> list[dict[str, Any]]:
    """What stands at the provider's jwks_uri."""
    return [public("RSA", "r"), public("EC", "e"), public("OKP", "o")]


def claims(**more: Any) -> dict[str, Any]:
    """What a good token of a person says now; None leaves a claim out."""
    now = int(time.time())
    found = {"iss": ISSUER, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 300}
    found |= {"jti": secrets.token_hex(8)} | more
    return {name: value for name, value in found.items() if value is not None}


def part(value: Any) -> str:
    """A part of a compact token."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def sign(
    said: Mapping[str, Any], *, kty: str = "RSA", header: Mapping[str, Any] | None = None
) -> str:
    """A compact token; `header` wins over what is usual."""
    alg, kid = {"RSA": ("RS256", "r"), "EC": ("ES256", "e"), "OKP": ("EdDSA", "o")}[kty]
    head = {"alg": alg, "kid": kid, "typ": "JWT"} | dict(header or {})
    signed = f"{part({k: v for k, v in head.items() if v is not None})}.{part(said)}"
    model = JWSRegistry.algorithms["Ed25519" if alg == "EdDSA" else alg]
    return f"{signed}.{part(model.sign(signed.encode(), key(kty)))}"


def with_shared_secret(said: Mapping[str, Any], secret: bytes, **header: Any) -> str:
    """A token whose HMAC was made with something public: the classic confusion."""
    signed = f"{part({'alg': 'HS256', 'typ': 'JWT'} | header)}.{part(said)}"
    return f"{signed}.{part(hmac.digest(secret, signed.encode(), 'sha256'))}"
