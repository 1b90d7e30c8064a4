import fcntl
import gzip
import hashlib
import os
import threading
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from manent_server.sources.artifacts import (
    ArtifactLimits,
    ArtifactRefused,
    Artifacts,
    ArtifactUnavailable,
)
from manent_server.sources.download import Download
from manent_server.sources.locations import Location, shown_url
from tests.integration.sources.conftest import Site, body, status


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "cache")


def partials(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache" / "partial").iterdir())


def test_a_file_is_copied_into_the_cache_under_its_digest(
    artifacts: Artifacts, tmp_path: Path
) -> None:
    source = tmp_path / "hello world+v1.tar.gz"
    source.write_bytes(b"hello")
    fetched = artifacts.fetch(f"file://{tmp_path}/hello%20world+v1.tar.gz")
    assert (fetched.sha256, fetched.size) == (sha(b"hello"), 5)
    source.write_bytes(b"changed afterwards")
    assert fetched.path.read_bytes() == b"hello"
    assert partials(tmp_path) == []


def test_an_http_artifact_is_fetched_once_when_its_digest_is_known(
    artifacts: Artifacts, site: Site
) -> None:
    site.answers["/a.tar.gz"] = body(b"x" * 500_000)
    digest = artifacts.digest(f"{site.url}/a.tar.gz")
    again = artifacts.fetch(f"{site.url}/a.tar.gz", sha256=f"sha256:{digest.upper()}")
    assert again.size == 500_000
    assert len(site.asked) == 1


def test_without_a_digest_the_server_is_asked_each_time(artifacts: Artifacts, site: Site) -> None:
    site.answers["/a"] = body(b"one")
    assert artifacts.digest(f"{site.url}/a") == sha(b"one")
    site.answers["/a"] = body(b"two")
    assert artifacts.digest(f"{site.url}/a") == sha(b"two")


def test_another_digest_than_the_pinned_one_is_refused_with_both(
    artifacts: Artifacts, site: Site, tmp_path: Path
) -> None:
    site.answers["/a"] = body(b"tampered")
    with pytest.raises(ArtifactRefused) as refused:
        artifacts.fetch(f"{site.url}/a", sha256=sha(b"original"))
    assert sha(b"tampered") in refused.value.detail
    assert sha(b"original") in refused.value.detail
    assert partials(tmp_path) == []
    assert list((tmp_path / "cache" / "sha256").iterdir()) == []


@pytest.mark.parametrize("pinned", ["", "abc", "g" * 64, "sha512:" + "a" * 64])
def test_a_malformed_digest_is_refused_before_anything_is_fetched(
    artifacts: Artifacts, site: Site, pinned: str
) -> None:
    site.answers["/a"] = body(b"x")
    if not pinned:
        assert artifacts.fetch(f"{site.url}/a", sha256=None).size == 1
        return
    with pytest.raises(ArtifactRefused, match="no SHA-256 digest"):
        artifacts.fetch(f"{site.url}/a", sha256=pinned)
    assert site.asked == []


def test_a_damaged_cache_entry_is_fetched_again(site: Site, tmp_path: Path) -> None:
    site.answers["/a"] = body(b"whole")
    first = Artifacts(tmp_path / "cache").fetch(f"{site.url}/a")
    first.path.chmod(0o644)
    first.path.write_bytes(b"half")
    again = Artifacts(tmp_path / "cache").fetch(f"{site.url}/a", sha256=first.sha256)
    assert again.path.read_bytes() == b"whole"


def test_a_cache_entry_damaged_under_a_running_worker_is_noticed(
    artifacts: Artifacts, site: Site
) -> None:
    site.answers["/a"] = body(b"whole")
    first = artifacts.fetch(f"{site.url}/a")
    first.path.chmod(0o644)
    first.path.write_bytes(b"other")
    assert artifacts.fetch(f"{site.url}/a", sha256=first.sha256).path.read_bytes() == b"whole"


def test_twenty_threads_fetching_one_pinned_artifact_ask_the_server_once(
    artifacts: Artifacts, site: Site
) -> None:
    content = os.urandom(2_000_000)

    def slowly(request: BaseHTTPRequestHandler) -> None:
        time.sleep(0.3)
        body(content)(request)

    site.answers["/a"] = slowly
    found: list[bytes] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(
                artifacts.fetch(f"{site.url}/a", sha256=sha(content)).path.read_bytes()
            )
        )
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [content] * 20
    assert len(site.asked) == 1


def test_what_a_killed_process_left_half_is_removed_but_not_what_a_living_one_writes(
    artifacts: Artifacts, site: Site, tmp_path: Path
) -> None:
    partial = tmp_path / "cache" / "partial"
    partial.mkdir(parents=True)
    (partial / "dead").write_bytes(b"half")
    with (partial / "alive").open("wb") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        site.answers["/a"] = body(b"x")
        artifacts.fetch(f"{site.url}/a")
        assert [path.name for path in partial.iterdir()] == ["alive"]


@pytest.mark.timeout(60)
def test_who_is_frozen_while_it_fetches_keeps_nobody_else_from_it(
    site: Site, tmp_path: Path
) -> None:
    """I5: a frozen process keeps its lock, and a worker on the same host goes on without it."""
    artifacts = Artifacts(tmp_path / "cache", ArtifactLimits(read=timedelta(seconds=1)))
    site.answers["/a"] = body(b"x")
    partial = tmp_path / "cache" / "partial"
    partial.mkdir(parents=True)
    url = f"{site.url}/a"
    with (partial / hashlib.sha256(f"{url} None".encode()).hexdigest()).open("wb") as frozen:
        fcntl.flock(frozen, fcntl.LOCK_EX)
        assert artifacts.fetch(url).path.read_bytes() == b"x"
        assert len(partials(tmp_path)) == 1


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("oci://registry.example/shop:v1", "registries (oci:) are not supported yet"),
        ("ftp://host/a", "only file:, http: and https:"),
        ("dist/a.tar.gz", "only file:, http: and https:"),
        ("file://dist/a.tar.gz", "needs an absolute path"),
        ("file:dist/a.tar.gz", "needs an absolute path"),
        ("http:///a", "names no host"),
        ("http://h\N{LATIN SMALL LETTER U WITH DIAERESIS}st/a", "not ASCII"),
        ("http://host:port/a", "cannot be read"),
        ("http://[::1/a", "cannot be read"),
        ("file:///tmp/a%00b", "NUL"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused_in_a_sentence(
    artifacts: Artifacts, url: str, sentence: str
) -> None:
    with pytest.raises(ArtifactRefused) as refused:
        artifacts.fetch(url)
    assert sentence in refused.value.detail


def test_a_missing_file_is_refused_by_name(artifacts: Artifacts, tmp_path: Path) -> None:
    with pytest.raises(ArtifactRefused, match=r"nothing\.tar\.gz: No such file"):
        artifacts.fetch(f"file://{tmp_path}/nothing.tar.gz")


def test_a_named_pipe_a_folder_and_a_device_are_no_artifacts(
    artifacts: Artifacts, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(ArtifactRefused, match="not a regular file"):
            artifacts.fetch(f"file://{path}")


def test_the_size_cap_holds_for_files_promised_and_unpromised_bodies(
    site: Site, tmp_path: Path
) -> None:
    artifacts = Artifacts(tmp_path / "cache", ArtifactLimits(size=1000))
    (tmp_path / "big").write_bytes(b"x" * 1001)
    with pytest.raises(ArtifactRefused, match="larger than 1000 bytes"):
        artifacts.fetch(f"file://{tmp_path}/big")

    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Connection", "close")
        request.end_headers()
        while True:
            request.wfile.write(b"x" * 65536)

    site.answers["/promised"] = body(b"x" * 1001)
    site.answers["/endless"] = endless
    for path in ("/promised", "/endless"):
        with pytest.raises(ArtifactRefused, match="larger than 1000 bytes"):
            artifacts.fetch(site.url + path)
    assert partials(tmp_path) == []


def test_a_body_cut_off_is_a_passing_failure(artifacts: Artifacts, site: Site) -> None:
    def cut(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "100")
        request.end_headers()
        request.wfile.write(b"x" * 50)
        request.close_connection = True

    site.answers["/a"] = cut
    with pytest.raises(ArtifactUnavailable):
        artifacts.fetch(f"{site.url}/a")


def test_a_server_that_drips_is_given_up_at_the_total_time(site: Site, tmp_path: Path) -> None:
    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        for _ in range(1000):
            request.wfile.write(b"x")
            time.sleep(0.05)

    site.answers["/a"] = drip
    limits = ArtifactLimits(total=timedelta(seconds=0.5))
    began = time.monotonic()
    with pytest.raises(ArtifactUnavailable, match="not complete"):
        Artifacts(tmp_path / "cache", limits).fetch(f"{site.url}/a")
    assert time.monotonic() - began < 5


def test_a_silent_server_is_given_up_at_the_read_time(site: Site, tmp_path: Path) -> None:
    site.answers["/a"] = lambda _: time.sleep(2)
    limits = ArtifactLimits(read=timedelta(seconds=0.2))
    with pytest.raises(ArtifactUnavailable, match="no answer in time"):
        Artifacts(tmp_path / "cache", limits).fetch(f"{site.url}/a")


def test_a_missing_version_is_refused_and_a_server_fault_may_be_tried_again(
    artifacts: Artifacts, site: Site
) -> None:
    with pytest.raises(ArtifactRefused, match="answered 404"):
        artifacts.fetch(f"{site.url}/nothing")
    for code in (500, 503, 429):
        site.answers["/a"] = status(code)
        with pytest.raises(ArtifactUnavailable, match=f"answered {code}"):
            artifacts.fetch(f"{site.url}/a")


def test_nobody_listening_is_a_passing_failure_naming_the_address(artifacts: Artifacts) -> None:
    with pytest.raises(ArtifactUnavailable, match=r"http://127\.0\.0\.1:1/a"):
        artifacts.fetch("http://127.0.0.1:1/a")


def test_a_name_that_does_not_resolve_is_a_passing_failure(artifacts: Artifacts) -> None:
    with pytest.raises(ArtifactUnavailable, match="cannot be resolved"):
        artifacts.fetch("http://nowhere.invalid/a")


def test_redirects_are_followed_up_to_three_times(artifacts: Artifacts, site: Site) -> None:
    for n in range(4):
        site.answers[f"/{n}"] = status(302, Location=f"/{n + 1}")
    site.answers["/4"] = body(b"there")
    assert artifacts.fetch(f"{site.url}/1").size == 5
    with pytest.raises(ArtifactRefused, match="more than 3 redirects"):
        artifacts.fetch(f"{site.url}/0")


@pytest.mark.parametrize(
    "target",
    ["file:///etc/passwd", "https://127.0.0.1/a", "ftp://host/a", "gopher://x", "", "http://[::1"],
)
def test_a_redirect_to_another_scheme_is_refused(
    artifacts: Artifacts, site: Site, target: str
) -> None:
    site.answers["/a"] = status(302, Location=target)
    with pytest.raises(ArtifactRefused, match="redirected to another scheme"):
        artifacts.fetch(f"{site.url}/a")


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]"])
def test_a_redirect_to_the_address_where_clouds_keep_credentials_is_refused(
    artifacts: Artifacts, site: Site, host: str
) -> None:
    site.answers["/a"] = status(302, Location=f"http://{host}/latest/meta-data/")
    with pytest.raises(ArtifactRefused, match="redirected to an internal address"):
        artifacts.fetch(f"{site.url}/a")


def test_a_redirect_from_a_public_address_to_a_private_one_is_refused(site: Site) -> None:
    download = Download(Location.parse("http://93.184.215.14/a"), ArtifactLimits())
    download._addresses(download._first)
    for host in ("127.0.0.1", "10.0.0.1", "192.168.1.1", "[::1]", "100.64.0.1", "0"):
        with pytest.raises(ArtifactRefused, match="internal address"):
            download._addresses(Location.parse(f"http://{host}:{site.port}/a"))


def test_credentials_reach_the_server_and_are_shown_nowhere(
    artifacts: Artifacts, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """B108: a secret in a URL does not leak on the failure path."""
    caplog.set_level("DEBUG")
    site.answers["/a"] = status(403)
    url = f"http://ci:s3cr3t%2Bpass@127.0.0.1:{site.port}/a?token=t0psecret#frag"
    with pytest.raises(ArtifactRefused) as refused:
        artifacts.fetch(url)
    told = f"{refused.value.detail} {refused.value.next} {caplog.text}"
    assert "s3cr3t" not in told
    assert "t0psecret" not in told
    path, headers = site.asked[0]
    assert path == "/a?token=t0psecret"
    assert headers["Authorization"] == "Basic Y2k6czNjcjN0K3Bhc3M="
    assert headers["Host"] == f"127.0.0.1:{site.port}"


def test_credentials_stay_with_their_own_host_across_a_redirect(
    artifacts: Artifacts, site: Site
) -> None:
    site.answers["/a"] = status(302, Location="/b")
    site.answers["/b"] = status(302, Location=f"http://localhost:{site.port}/c")
    site.answers["/c"] = body(b"x")
    artifacts.fetch(f"http://ci:secret@127.0.0.1:{site.port}/a")
    assert ["Authorization" in headers for _, headers in site.asked] == [True, True, False]


def test_the_digest_is_of_the_bytes_as_sent_even_when_called_encoded(
    artifacts: Artifacts, site: Site
) -> None:
    content = gzip.compress(b"tar" * 1000)
    site.answers["/a.tar.gz"] = body(content, Content_Encoding="gzip")
    assert artifacts.digest(f"{site.url}/a.tar.gz") == sha(content)


def test_a_version_with_a_plus_is_asked_for_byte_for_byte(artifacts: Artifacts, site: Site) -> None:
    site.answers["/v1.0.0+build.5.tar.gz"] = body(b"x")
    artifacts.fetch(f"{site.url}/v1.0.0+build.5.tar.gz")
    assert site.asked[0][0] == "/v1.0.0+build.5.tar.gz"


def test_a_full_or_forbidden_disk_is_a_passing_failure(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    (tmp_path / "a").write_bytes(b"x")
    with pytest.raises(ArtifactUnavailable, match="artifact file:"):
        Artifacts(tmp_path / "cache").fetch(f"file://{tmp_path}/a")


def test_the_shown_url_keeps_host_port_and_path_only() -> None:
    assert shown_url("https://u:p@h:8/x/y?z=1#f") == "https://h:8/x/y?..."
