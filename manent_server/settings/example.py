"""The text of `manent.yml.example`: every key with its default and one comment."""

from collections.abc import Iterator

from manent_server.settings.schema import TOP
from manent_server.settings.structures import SECTION, Key, Section

_HEAD = """\
# Every key of manent.yml. Values are the defaults, except under environments, target_groups,
# templates and applications: those are an example, and what is required or optional there stands
# in the comments. Leave out what you do not change.
# Durations: 15s, 1m, 1h30m, 2160h. Sizes: 16KiB, 50MiB. ${NAME} is filled in from the environment,
# $$ is one $. docs/reference/manent-yml.md has the rules and types.

"""

_HINTS = {
    "external": "NAME: {command: [./my-plugin, --an-argument]}",
    "secrets": "nothing to set here yet",
    "notify": "an example is at the end",
    "oidc": "where people sign in, by name; see the end",
    "trust": "which CI jobs may what, by name; see the end",
    "roles": "what a group may: GROUP: {role, applications, environments}; see the end",
    "trusted_keys": "public or private ones",
    "sinks": "receivers of the record, by name; see the end",
    "people": "who people are elsewhere, by login; see the end",
    "chat": "examples are at the end",
}

# What a person names. The placement's keys may stand in any layer; later layers win:
# defaults, template, its environments, application, its environments, the target.
_NAMED = """
environments:
  staging:
    tier: staging                 # required: development, staging or production
  production:
    tier: production
    concurrency: null             # deploys at once; null = environment_concurrency
    pool: default                 # pool whose workers deploy here
    rollback: automatic           # automatic or manual
    on_exhausted: fail            # fail or pause: a step that used up its tries asks a person
    collision: queue              # queue, latest, reject or cancel_running
    if_blocked: wait              # wait or refuse: what becomes of a request at a closed gate
    rollback_passes: [approval, freeze, window, promotion, soak]    # gates a rollback may pass
    freeze_running: finish        # finish or wave: what a freeze does to a running deploy
    promotion:                    # default null: any version may come
      from: [staging]             # required: where it has to run first
      match: all                  # all or any of them
      share: 100%                 # of its targets there
      soak: 10m                   # for how long without a break
      max_age: 168h               # how old its last success there may be; null = any
    auto_promote: false           # true: take up what the promotion rule lets through
    approvals:                    # default []: nobody has to agree
      - name: release             # required
        quorum: 2                 # default 1: how many people
        from: [sre]               # default []: all who may approve there
        required: [release-manager]    # default []: of each of these groups one, too
        expires: 24h              # how long it is waited for; null = for ever
        chat: []                  # chats in which it is asked
        unknown_requester: refuse    # or allow: a program asks, nobody knows for whom
    windows: []                   # [{allow or deny: RFC 5545 rule, duration, timezone, reason}]
    defaults:                     # lowest layer of every application here; these are the defaults
      max_parallel: 4             # targets of one wave at once
      soak: 0s                    # wait after each wave but the last; 0s = none
      timeout: 10m                # longest run of one hook
      deadline: 1h                # longest deploy, from its first step
      retry:                      # how failed and timed-out hooks are tried again
        attempts: 3               # tries of one hook in all
        initial: 1s               # wait before the second try
        factor: 2                 # by how much each wait is longer than the one before
        cap: 1m                   # longest wait
        total: 15m                # no further try is begun so long after the first

target_groups:                    # sets of targets; a target's value is its own plugin options
  web-staging: {web-1: {}}
  web-production: {web-1: {}, web-2: {}, web-3: {keep: 3}}

templates:
  web:
    plugin: release               # required, here or in the application
    artifact:                     # default null: the version has no artifact
      url: "https://artifacts.example/{application}/{version}.tar.gz"    # file:/// or http(s)
      sha256: null                # 64 hexadecimal digits; null = not pinned here
    options:                      # what the plugin knows; it checks them
      root: "/srv/{application}"
      health: "http://{target}:9001/{application}/healthz"
    environments:
      staging:
        targets: web-staging      # required: a map, the name of a target group, or a list of both
      production:
        targets: web-production
        waves: [1, 25%, rest]     # default null: one wave

applications:
  shop: {template: web}
  billing:
    template: web                 # default null
    environments:
      production:
        timeout: 20m
        options: {restart: [systemctl, restart, billing]}
  batch:
    plugin: command               # argument lists, no shell
    options:
      deploy: [./deploy, --fast]
      rollback: [./rollback]
      environment: {API_TOKEN: "secret://env/BATCH_TOKEN", MODE: fast}
    environments:
      staging:
        targets: {host: {}}

# audit:
#   sinks:
#     siem:
#       format: rfc5424             # required: ocsf, ecs, cef or rfc5424
#       address: tls://siem.example:6514    # required
#       ca: ca.pem                  # default null: the system's certification authorities
#       certificate: manent.pem     # default null: nothing is shown to the receiver
#       key: manent.key             # of that certificate

# access:
#   oidc:
#     company:
#       issuer: https://id.example              # required, as its tokens have it in `iss`
#       client_id: manent                       # required, of a public client with the device flow
#       groups_claim: groups                    # claim that lists a person's groups
#   trust:
#     shop-on-github:
#       issuer: https://token.actions.githubusercontent.com    # required
#       audience: https://manent.example        # required: what `aud` has to be
#       claims: {repository_id: "583231", ref: refs/heads/main}    # required, each exactly
#       role: deployer              # required
#       applications: [shop]        # default ["*"]
#       environments: [staging, production]     # default ["*"]
#   roles:
#     developers: {role: deployer, environments: [staging]}
#     sre:
#       - {role: operator}
#       - {role: viewer, applications: [payroll], deny: true}    # it wins
#   people:
#     ann: {groups: [sre], principals: ["oidc:https://id.example#1234"], github: "583231"}

# notify:
#   board:
#     plugin: webhook             # required
#     url: https://hooks.example/deploys       # required
#     secret: secret://env/BOARD_SECRET        # required; or [new, old] while it is exchanged
#     events: [deploy.*]          # which events; deploy.ended, lock.*, *
#     applications: []            # of which applications; [] = all
#     environments: []            # of which environments; [] = all
#     allow_networks: []          # internal networks it may be in, e.g. [10.0.0.0/8]
#     timeout: 10s                # for one try in all
#     retry:                      # how it is tried again
#       initial: 5s               # wait before the second try
#       factor: 3                 # by how much each wait is longer than the one before
#       cap: 1h                   # longest wait
#       total: 24h                # after it a notice is dead, until somebody resends it

# chat:
#   team:
#     plugin: slack               # required
#     token: secret://env/SLACK_TOKEN          # required: of the app's bot, xoxb-...
#     signing_secret: secret://env/SLACK_SIGNING_SECRET    # required; or [new, old]
#     channel: C0123456789        # required: ids, never names
#     team: T0123456789           # required
#     app: A0123456789            # required
#     url: https://slack.com/api  # where its methods are
#     timeout: 10s                # for telling it once
#   ops:
#     plugin: mattermost
#     url: https://mattermost.example          # required
#     token: secret://env/MATTERMOST_TOKEN     # required: of a bot account
#     signing_secret: secret://env/MATTERMOST_SECRET       # required: your own random text
#     channel: 4xp9fdt77pncbef59f4k1qe83o      # required
#     team: kzt3i1pb5pbqtdzjz9g3zqf3xr         # required
#     from_networks: []           # from where its requests may come; [] = anywhere
#     allow_networks: []          # internal networks its server may be in, e.g. [10.0.0.0/8]
#   room:
#     plugin: matrix
#     url: https://matrix.example              # required
#     token: secret://env/MATRIX_TOKEN         # required
#     channel: "!abcdef:example"               # required
#   bridge:
#     plugin: generic
#     signing_secret: secret://env/BRIDGE_SECRET           # required: whsec_ and base64
#     url: https://bridge.example/approvals    # where it is told; null = nowhere
"""
_EXAMPLES = ("environments", "target_groups", "templates", "applications")
_COLUMN = 34


def render() -> str:
    """The file."""
    lines = [line for key in TOP.keys if key.name not in _EXAMPLES for line in _lines(key, "")]
    return _HEAD + "\n".join(lines) + "\n" + _NAMED


def _lines(key: Key, indent: str) -> Iterator[str]:
    if isinstance(key.kind, Section) and key.default == SECTION:
        yield _commented(f"{indent}{key.name}:", key.meaning)
        for inner in key.kind.keys:
            yield from _lines(inner, indent + "  ")
    else:
        yield _commented(f"{indent}{key.name}: {key.default}", _HINTS.get(key.name, key.meaning))


def _commented(line: str, comment: str) -> str:
    return f"{line:<{_COLUMN - 2}}  # {comment}"
