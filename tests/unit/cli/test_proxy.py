"""The usual proxy variables."""

from urllib.parse import urlsplit

import pytest

from manent_cli.proxy import proxy_for


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://manent.example", {}, None),
        ("https://manent.example", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://manent.example", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("https://manent.example", {"http_proxy": "http://p:3128"}, None),
        ("http://manent.example", {"http_proxy": "http://p:3128"}, "http://p:3128"),
        ("http://manent.example", {"HTTP_PROXY": "http://p:3128"}, None),
        ("http://manent.example", {"ALL_PROXY": "http://p:3128"}, "http://p:3128"),
        ("http://127.0.0.1:8420", {"http_proxy": "http://p:3128"}, None),
        ("http://localhost:8420", {"http_proxy": "http://p:3128"}, None),
    ],
)
def test_a_proxy_is_found_by_scheme(url, environ, proxy):
    assert proxy_for(urlsplit(url), environ) == proxy


@pytest.mark.parametrize(
    ("listed", "is_exempt"),
    [
        ("manent.example", True),
        (".example", True),
        ("example", True),
        ("x, example ,y", True),
        ("*", True),
        ("manent.example:8443", True),
        ("manent.example:1", False),
        ("ample", False),
        ("", False),
        (",", False),
    ],
)
def test_no_proxy_exempts_hosts_and_domains(listed, is_exempt):
    environ = {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": listed}
    found = proxy_for(urlsplit("https://manent.example:8443"), environ)
    assert (found is None) == is_exempt
