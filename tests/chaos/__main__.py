"""`python -m tests.chaos --seed 1 --minutes 5`: one long run, or one for each seed."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos.play import Play, Result, perform


def main(arguments: list[str]) -> int:
    """Run every seed for the time; 1 if an invariant did not hold, 3 if a run does not count."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--minutes", type=float, default=1.0, help="of faults, for each seed")
    parser.add_argument("--keep", type=Path, default=None, help="where histories are written")
    parser.add_argument("--only", nargs="*", default=[], help="kinds of faults, in this order")
    parser.add_argument("--mutant", default="", help="a mutation of tests/chaos/mutants.py")
    parser.add_argument("--strain", default="", help="a strain of tests/chaos/strains.py")
    given = parser.parse_args(arguments)
    keep = given.keep or Path(tempfile.mkdtemp(prefix="manent-chaos-"))
    code = 0
    for seed in given.seed:
        folder = keep / f"seed-{seed}"
        folder.mkdir(parents=True)
        seconds = given.minutes * 60
        spoilt = {"mutant": given.mutant, "strain": given.strain}
        play = Play(seed, seconds, longest=2 * seconds, only=tuple(given.only), **spoilt)
        result = perform(play, folder)
        result.history.write(folder / "history.jsonl")
        _report(result, folder)
        code = max(code, 1 if result.violations else 3 if result.missing else 0)
    return code


def _report(result: Result, folder: Path) -> None:
    words = [str(result), *map(str, result.violations)]
    if result.missing:
        words.append(f"does not count, it lacks: {', '.join(result.missing)}")
    sys.stdout.write("\n".join([*words, f"history: {folder / 'history.jsonl'}", ""]))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
