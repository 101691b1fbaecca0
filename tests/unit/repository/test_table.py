"""The tables of the start-up log."""

from charonia.repository.states import IndexEntry, State
from charonia.repository.table import model_table, table


def test_the_model_table_shows_state_and_reason() -> None:
    shown = model_table(
        [IndexEntry("a", 1, State.READY), IndexEntry("b", 2, State.UNAVAILABLE, "first\nsecond"), IndexEntry("c")], 100
    )
    assert shown.split("\n") == [
        "+-------+---------+--------------------+",
        "| Model | Version | Status             |",
        "+-------+---------+--------------------+",
        "| a     | 1       | READY              |",
        "| b     | 2       | UNAVAILABLE: first |",
        "|       |         | second             |",
        "| c     | -       | Not loaded         |",
        "+-------+---------+--------------------+",
    ]


def test_a_table_without_rows_has_its_head() -> None:
    assert table(("A", "B"), []).split("\n") == ["+---+---+", "| A | B |", "+---+---+", "+---+---+"]


def test_wide_cells_wrap_into_the_width() -> None:
    shown = table(("Name", "Text"), [("n", "#" * 90), ("m", "y")], width=40)
    assert all(len(line) == 40 for line in shown.split("\n"))
    assert shown.count("#") == 90


def test_lines_break_between_words() -> None:
    shown = table(("Text",), [("one two three",)], width=12)
    assert [line.strip("| ") for line in shown.split("\n")[3:-1]] == ["one two", "three"]
