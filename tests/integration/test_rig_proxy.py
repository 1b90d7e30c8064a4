"""The proxy of the tests does to a connection what it says."""

import socket
from collections.abc import Iterator

import pytest

from tests.rig.process import until
from tests.rig.proxy import Proxy


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def proxy(server: socket.socket) -> Iterator[Proxy]:
    proxy = Proxy(server.getsockname()[1])
    yield proxy
    proxy.close()


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def is_ended(end: socket.socket) -> bool:
    try:
        return end.recv(10) == b""
    except ConnectionError:
        return True


def test_it_holds_back_and_delivers_later(server: socket.socket, proxy: Proxy) -> None:
    with connect(proxy) as client, server.accept()[0] as served:
        client.sendall(b"one")
        assert served.recv(10) == b"one"
        proxy.stall()
        client.sendall(b"two")
        served.settimeout(0.2)
        with pytest.raises(TimeoutError):
            served.recv(10)
        proxy.restore()
        served.settimeout(5)
        assert served.recv(10) == b"two"
        served.sendall(b"back")
        assert client.recv(10) == b"back"


def test_it_cuts_off_and_takes_nobody_until_it_is_restored(
    server: socket.socket, proxy: Proxy
) -> None:
    with connect(proxy) as client, server.accept()[0] as served:
        proxy.cut()
        assert is_ended(client)
        assert is_ended(served)
    with connect(proxy) as refused:
        assert is_ended(refused)
    until(lambda: proxy.connections() == 0, what="the end of both")
    proxy.restore()
    with connect(proxy) as again, server.accept()[0] as served:
        served.sendall(b"hello")
        assert again.recv(10) == b"hello"


def test_what_hangs_stays_open_and_new_connections_pass(
    server: socket.socket, proxy: Proxy
) -> None:
    with connect(proxy) as client, server.accept()[0] as served:
        client.sendall(b"one")
        assert served.recv(10) == b"one"
        proxy.hang()
        client.sendall(b"two")
        served.settimeout(0.2)
        with pytest.raises(TimeoutError):
            served.recv(10)
        with connect(proxy) as another, server.accept()[0] as answering:
            another.sendall(b"three")
            assert answering.recv(10) == b"three"


def test_an_address_goes_through_it(proxy: Proxy) -> None:
    through = proxy.url("postgresql://me:pw@example/db")
    assert through == f"postgresql://me:pw@127.0.0.1:{proxy.port}/db"
