"""Where this server may connect to."""

import ipaddress

import pytest

from manent_server.domain import egress

PUBLIC = ["93.184.215.14", "8.8.8.8", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "172.32.0.1"]
INTERNAL = [
    "127.0.0.1",
    "127.8.9.10",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",  # metadata of clouds
    "169.254.170.2",
    "192.0.0.192",  # metadata of another cloud
    "168.63.129.16",  # and of a third
    "0.0.0.0",  # noqa: S104 - an address, not a listener
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "198.18.0.1",
    "192.0.2.1",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",  # metadata by IPv6
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2001::1",
    "2001:db8::1",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_a_host_of_the_internet_may_be_told(text: str) -> None:
    assert egress.may_connect(egress.address(text), allowed=())


@pytest.mark.parametrize("text", INTERNAL)
def test_nothing_internal_may_be_told(text: str) -> None:
    assert not egress.may_connect(egress.address(text), allowed=())


@pytest.mark.parametrize(
    ("text", "network", "may"),
    [
        ("10.1.2.3", "10.1.0.0/16", True),
        ("10.2.2.3", "10.1.0.0/16", False),
        ("::ffff:10.1.2.3", "10.1.0.0/16", True),
        ("169.254.169.254", "10.0.0.0/8", False),
        ("169.254.169.254", "169.254.169.254/32", True),
        ("fd00::1", "fd00::/8", True),
        ("10.1.2.3", "fd00::/8", False),
        ("224.0.0.1", "224.0.0.0/4", False),
        ("0.0.0.0", "0.0.0.0/0", False),  # noqa: S104 - an address, not a listener
    ],
)
def test_a_network_can_be_allowed_by_name(text: str, network: str, *, may: bool) -> None:
    allowed = [ipaddress.ip_network(network)]
    assert egress.may_connect(egress.address(text), allowed=allowed) is may
