"""What is on record: I12."""

from collections import Counter
from collections.abc import Iterator

from manent_server.domain.audit import GENESIS, link, parse
from tests.chaos.checker import checker
from tests.chaos.history import ENDED, History


@checker("I12")
def the_chain_holds(history: History) -> Iterator[str]:
    """Numbers have no hole, each hash is of the record and the hash before, none is left over."""
    last = GENESIS
    for number, record in enumerate(history.records, 1):
        if record["number"] != number:
            yield f"record {number} of the chain has the number {record['number']}"
            return
        last = link(last, number, record["text"])
        if last != record["hash"]:
            yield f"record {number} is not what was chained"
            return
    if history.settings.get("unchained"):
        yield f"{history.settings['unchained']} records never got a number"


@checker("I12")
def every_deploy_is_on_record_once(history: History) -> Iterator[str]:
    """One record of its acceptance, and one of its end if it has ended."""
    if not history.records:
        return
    found = Counter(
        (record["deploy"], record["action"])
        for record in (parse(one["text"]) for one in history.records)
    )
    for row in history.deploys:
        expected = {"deploy.requested": 1, "deploy.ended": int(row["state"] in ENDED)}
        for action, count in expected.items():
            if found[row["id"], action] != count:
                yield f"{row['id']} has {found[row['id'], action]} records {action}, not {count}"


CHECKERS = (the_chain_holds, every_deploy_is_on_record_once)
