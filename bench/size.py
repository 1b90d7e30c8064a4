"""How much is measured."""

from dataclasses import dataclass

from bench.configuration import LINES


@dataclass(frozen=True)
class Size:
    """Counts of one run of the bench."""

    pairs: int = 7
    deploys: int = 8
    burst: int = 60
    hooks: int = 30
    lines: int = LINES
    line_pairs: int = 3
    starts: int = 25
    idle: float = 20.0
    restarts: int = 3
    kills: int = 20
    takeovers: int = 7
    pending: int = 500
    waiting: int = 10_000
    records: int = 100_000
    listed: int = 1_000_000
    pruned: int = 200_000
    log_rows: int = 50
    seed: int = 1


QUICK = Size(
    pairs=3, deploys=3, burst=12, hooks=10, lines=20_000, line_pairs=2, starts=5, idle=3.0,
    restarts=1, kills=2, takeovers=3, waiting=500, records=10_000,
    listed=20_000, pruned=6_000, log_rows=5,
)  # fmt: skip
