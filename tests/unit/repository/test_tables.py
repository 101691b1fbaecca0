"""The tables of the start-up log."""

import os

import pytest

from charonia.options import ServerOptions
from charonia.repository.states import IndexEntry, State
from charonia.repository.tables import model_table, option_rows, table


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


def test_the_options_are_tritons_rows_in_its_order() -> None:
    options = ServerOptions(model_repository=["/a", "/b"], model_control_mode="explicit", load_model=["m"])
    rows = option_rows(options, "2.73.0", ["classification", "logging"])
    assert rows == [
        ("server_id", "triton"),
        ("server_version", "2.73.0"),
        ("server_extensions", "classification logging"),
        ("model_repository_path[0]", "/a"),
        ("model_repository_path[1]", "/b"),
        ("model_control_mode", "MODE_EXPLICIT"),
        ("startup_models_0", "m"),
        ("strict_model_config", "0"),
        ("model_config_name", ""),
        ("rate_limit", "OFF"),
        ("pinned_memory_pool_byte_size", "0"),
        ("min_supported_compute_capability", "0.0"),
        ("strict_readiness", "1"),
        ("exit_timeout", "30"),
        ("cache_enabled", "0"),
        ("no_gpu", "error"),
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


def test_each_finding_has_its_own_line() -> None:
    reason = "models/m/config.pbtxt:3:5: it is a; write b; models/m/1/model.py:2:1: it is c; the load said: d"
    shown = model_table([IndexEntry("m", 1, State.UNAVAILABLE, reason)], 200)
    assert [line.split("|")[3].strip() for line in shown.split("\n")[3:-1]] == [
        "UNAVAILABLE: models/m/config.pbtxt:3:5: it is a; write b",
        "models/m/1/model.py:2:1: it is c",
        "the load said: d",
    ]


def test_paths_break_between_their_parts() -> None:
    shown = table(("Path",), [("/repository/of/models/somewhere",)], width=20)
    assert [line.strip("| ") for line in shown.split("\n")[3:-1]] == ["/repository/of/", "models/somewhere"]


def test_without_a_terminal_a_table_fits_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_terminal(descriptor: int) -> os.terminal_size:
        raise OSError

    monkeypatch.setattr(os, "get_terminal_size", no_terminal)
    shown = table(("Name", "Text"), [("n", "word " * 200)])
    assert all(len(line) == 140 for line in shown.split("\n"))
