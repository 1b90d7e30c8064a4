"""Which steps may be what kills their workers.

A death is an attempt whose worker died under it without a recorded stop. Everything that ran on
that worker dies with it, so two deaths only make a suspect: its next attempts are trials, one at
a time on a worker, and only a death in a trial ends the deploy.
"""

SUSPECT_AFTER = 2


def is_suspect(deaths: int) -> bool:
    """Whether a step with so many deaths under it is tried alone."""
    return deaths >= SUSPECT_AFTER


def is_poisoned(deaths: int, *, limit: int) -> bool:
    """Whether it has killed enough workers, the last of them in a trial.

    Args:
        deaths: How many died under the step.
        limit: `recovery.max_recoveries`; a limit that no trial can have reached counts as the
            first that one can.
    """
    return deaths >= max(limit, SUSPECT_AFTER + 1)
