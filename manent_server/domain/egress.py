"""Where this server may connect to: the rule about addresses, apart from any network."""

import ipaddress
from collections.abc import Sequence
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# The well-known prefix of NAT64: the last 32 bits are an IPv4 address behind a translator.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOW_32: Final = 0xFFFFFFFF
# Where clouds answer their own machines although the numbers look like the internet's.
_INNER: Final = (
    ipaddress.IPv4Network("192.0.0.0/24"),
    ipaddress.IPv4Network("168.63.129.16/32"),
)
# A translator's own prefix: what lies behind it is inside.
_NAT64_LOCAL: Final = ipaddress.IPv6Network("64:ff9b:1::/48")


def address(text: str) -> Address:
    """An address as a resolver wrote it, taken out of whatever it is wrapped in.

    An IPv4 address inside an IPv6 one (mapped, 6to4, NAT64) counts as itself: that is where the
    packets go.
    """
    found = ipaddress.ip_address(text.partition("%")[0])
    return found if isinstance(found, ipaddress.IPv4Address) else _unwrapped(found)


def _unwrapped(found: ipaddress.IPv6Address) -> Address:
    if found in _NAT64:
        return ipaddress.IPv4Address(int(found) & _LOW_32)
    return found.ipv4_mapped or found.sixtofour or found


def is_nobodys(found: Address) -> bool:
    """Link-local, where clouds keep credentials, or no single host at all."""
    return found.is_link_local or found.is_multicast or found.is_unspecified


def is_public(found: Address) -> bool:
    """Whether it is a host of the internet."""
    if is_nobodys(found) or found.is_reserved or not found.is_global:
        return False
    if isinstance(found, ipaddress.IPv4Address):
        return not any(found in network for network in _INNER)
    return not (found.is_site_local or found in _NAT64_LOCAL)


def may_connect(found: Address, *, allowed: Sequence[Network]) -> bool:
    """Whether a notice may go there: to the internet, or to a network that was allowed by name.

    Args:
        found: A resolved address.
        allowed: Networks the configuration names; nothing makes a multicast address one host.
    """
    if found.is_multicast or found.is_unspecified:
        return False
    return is_public(found) or any(found in network for network in allowed)
