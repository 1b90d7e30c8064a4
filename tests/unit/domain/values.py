"""Values of the core, hand-made and at random."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from manent_server.domain.order import ArtifactOrder, Limits, Order, Retry

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOOKS = ("deploy", "rollback", "verify", "observe")


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


RETRY = Retry(attempts=3, initial=seconds(1), factor=2.0, cap=seconds(30), total=seconds(600))
LIMITS = Limits(timeout=seconds(60), deadline=seconds(3600), soak=seconds(0), max_parallel=2)


def order(*waves: tuple[str, ...], hooks: tuple[str, ...] = HOOKS, soak: float = 0) -> Order:
    """An order for these waves of targets."""
    return Order(
        plugin="fake",
        plugin_build="1",
        hooks=frozenset(hooks),
        artifact=None,
        targets={target: {"host": target} for wave in waves for target in wave},
        waves=waves,
        limits=Limits(seconds(60), seconds(3600), seconds(soak), 2),
        retry=RETRY,
        automatic_rollback=True,
    )


durations = st.integers(0, 5000).map(seconds)
waves = st.sampled_from(
    [
        (("a",),),
        (("a", "b"),),
        (("b",), ("a",)),
        (("c", "a"), ("b",)),
        (("a",), ("d", "b", "c"), ("e", "f")),
    ]
)
retries = st.builds(
    Retry,
    attempts=st.integers(1, 9),
    initial=durations,
    factor=st.sampled_from([1.0, 1.5, 2.0]),
    cap=durations,
    total=durations,
)
limits = st.builds(
    Limits,
    timeout=durations,
    deadline=durations,
    soak=st.just(timedelta(0)) | durations,
    max_parallel=st.integers(1, 5),
)
options = st.dictionaries(
    st.sampled_from("xyz"), st.none() | st.integers(0, 9) | st.just([{"a": "é"}]), max_size=2
)
artifacts = st.builds(
    ArtifactOrder, url=st.just("file:///{version}"), sha256=st.none() | st.just("a" * 64)
)


@st.composite
def orders(draw: st.DrawFn) -> Order:
    """Any order."""
    placed = draw(waves)
    return Order(
        plugin="fake",
        plugin_build="1",
        hooks=draw(st.frozensets(st.sampled_from(HOOKS[1:]))) | {"deploy"},
        artifact=draw(st.none() | artifacts),
        targets={target: draw(options) for wave in placed for target in wave},
        waves=placed,
        limits=draw(limits),
        retry=draw(retries),
        automatic_rollback=draw(st.booleans()),
        current_configuration=draw(st.booleans()),
        follows_live=draw(st.booleans()),
    )
