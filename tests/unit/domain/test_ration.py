"""What of a flood is let through."""

from datetime import timedelta

from manent_server.domain.ration import Ration


def test_each_source_gets_some_and_all_together_no_more_than_so_much():
    ration = Ration(each=2, all=3, window=timedelta(seconds=10))
    let = [ration.lets("a", source, at=0.0) for source in ("x", "x", "x", "y", "z")]
    assert let == [True, True, False, True, False]
    assert ration.rest() == {"a": 2}
    assert ration.rest() == {}


def test_a_new_window_begins_anew():
    ration = Ration(each=1, all=9, window=timedelta(seconds=10))
    assert [ration.lets("a", "x", at=at) for at in (0.0, 9.9, 10.0, 19.0)] == [
        True,
        False,
        True,
        False,
    ]


def test_a_flood_from_everywhere_is_not_remembered():
    ration = Ration(each=1, all=5, window=timedelta(minutes=1))
    for number in range(10_000):
        ration.lets("a", f"address {number}", at=1.0)
    assert len(ration._let) == 5
    assert ration.rest() == {"a": 9995}
