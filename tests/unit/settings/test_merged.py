"""`check --show`: what holds, and where it stands."""

from pathlib import Path

import pytest

from manent_server.domain.errors import Invalid, NotFound
from manent_server.settings import show
from tests.unit.settings.conftest import Load

TEXT = """\
environments:
  staging: {tier: staging}
  production:
    tier: production
    defaults: {timeout: 20m}
target_groups:
  web: {web-1: {}, web-2: {keep: 3}}
templates:
  web:
    plugin: release
    artifact: {url: "https://h/{application}"}
    options: {root: '${ROOT}', health: {url: "http://{target}"}, on: 'true', of: [a, {b: 1}, {}]}
    environments:
      staging: {targets: {only: {}}}
applications:
  shop:
    template: web
    environments:
      production: {targets: web, waves: [1, rest], options: {health: {tries: 3}}}
"""

PRODUCTION = """\
plugin: release                   # manent.yml:10
artifact:
  url: "https://h/{application}"  # manent.yml:11
  sha256: null                    # default
retry:
  attempts: 3                     # default
  initial: 1s                     # default
  factor: 2                       # default
  cap: 1m                         # default
  total: 15m                      # default
targets:
  web-1:
    root: "${ROOT}"               # manent.yml:12
    health:
      url: "http://{target}"      # manent.yml:12
      tries: 3                    # manent.yml:19
    on: "true"                    # manent.yml:12
    of: [a, {b: 1}, {}]           # manent.yml:12
  web-2:
    root: "${ROOT}"               # manent.yml:12
    health:
      url: "http://{target}"      # manent.yml:12
      tries: 3                    # manent.yml:19
    on: "true"                    # manent.yml:12
    of: [a, {b: 1}, {}]           # manent.yml:12
    keep: 3                       # manent.yml:7
waves: [[web-1], [web-2]]         # manent.yml:19
max_parallel: 4                   # default
soak: 0s                          # default
timeout: 20m                      # manent.yml:5
deadline: 1h                      # default
"""


def test_every_value_is_shown_with_its_file_and_line(load: Load, tmp_path: Path) -> None:
    loaded = load(TEXT, {"ROOT": "hunter2"})
    assert show(loaded, "shop/production").replace(f"{tmp_path}/", "") == PRODUCTION


def test_what_is_shown_is_yaml_that_means_the_same(load: Load) -> None:
    shown = show(load(TEXT, {"ROOT": "/srv"}), "shop/production")
    lines = "".join(f"        {line}\n" for line in shown.splitlines())
    text = (
        "environments: {e: {tier: staging}}\napplications:\n  shop:\n    environments:\n      e:\n"
    )
    again = load(text + lines, {"ROOT": "/srv"})
    first = load(TEXT, {"ROOT": "/srv"}).applications["shop"].environments["production"]
    assert again.applications["shop"].environments["e"] == first


@pytest.mark.parametrize(
    ("placement", "detail", "advice"),
    [
        ("shopp/staging", "there is no application 'shopp'", "did you mean shop?"),
        ("shop/stagin", "shop is in no environment 'stagin'", "did you mean staging?"),
        ("shop/eu", "shop is in no environment 'eu'", "known here: production, staging"),
    ],
)
def test_what_is_not_placed_is_not_found(
    load: Load, placement: str, detail: str, advice: str
) -> None:
    with pytest.raises(NotFound) as caught:
        show(load(TEXT, {"ROOT": "/"}), placement)
    assert (caught.value.detail, caught.value.next) == (detail, advice)


def test_an_address_without_an_environment_is_refused(load: Load) -> None:
    with pytest.raises(Invalid, match="APPLICATION/ENVIRONMENT"):
        show(load(TEXT, {"ROOT": "/"}), "shop")
