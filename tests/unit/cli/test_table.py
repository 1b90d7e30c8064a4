"""Tables: one row a line, whatever stands in a cell."""

from manent_cli.table import Column, draw, field, pairs


def test_columns_line_up_under_their_heads():
    columns = (field("name"), field("requested_at"), Column("N", lambda row: len(row["name"])))
    rows = [{"name": "東京", "requested_at": "now"}, {"name": "shop", "requested_at": None}]
    assert (
        draw(columns, rows)
        == "NAME  REQUESTED AT  N\n東京  now           2\nshop  -             4\n"
    )


def test_wide_columns_appear_when_asked():
    columns = (field("a"), field("b", is_wide=True))
    assert draw(columns, [{"a": 1, "b": 2}]) == "A\n1\n"
    assert draw(columns, [{"a": 1, "b": 2}], wide=True) == "A  B\n1  2\n"


def test_a_line_break_in_a_cell_makes_no_row():
    table = draw((field("reason"),), [{"reason": "a\nFAKE  ROW"}])
    assert table.splitlines() == ["REASON", "a\\nFAKE  ROW"]


def test_no_rows_still_show_the_heads():
    assert draw((field("id"), field("state")), []) == "ID  STATE\n"


def test_pairs_leave_out_what_is_not_there():
    fields = [("id", "x"), ("error", None), ("targets", []), ("long name", True), ("n", 0)]
    assert pairs(fields) == "id         x\nlong name  yes\nn          0\n"
    assert pairs([]) == ""
