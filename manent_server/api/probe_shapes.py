"""What probes answer."""

from manent_server.api.shapes import Shape


class Liveness(Shape):
    """The process answers."""

    alive: bool


class Readiness(Shape):
    """Whether this process should get work."""

    ready: bool
    draining: bool
    running: int
    reasons: list[str]
