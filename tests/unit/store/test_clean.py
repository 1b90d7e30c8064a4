"""Text that no database stores is replaced, wherever it stands."""

from manent_server.store.clean import clean


def test_nul_and_lone_surrogates_are_replaced_everywhere() -> None:
    value = {"a\x00": ["x\x00y", ("\ud800", 1, None, True, 1.5)], "ok": "\U0001f600é"}
    assert clean(value) == {
        "a\ufffd": ["x\ufffdy", ["\ufffd", 1, None, True, 1.5]],
        "ok": "\U0001f600é",
    }


def test_what_is_clean_stays_as_it_is() -> None:
    assert clean("plain\ttext\n") == "plain\ttext\n"
    assert clean(None) is None
