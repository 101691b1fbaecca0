import pytest

from charonia.core.text import in_one_line, named_setting, shown, whole_number


def test_usual_text_is_shown_whole():
    assert shown("") == ""
    assert shown("größe 😀") == "größe 😀"
    assert shown("x" * 200) == "x" * 200


def test_lines_become_one():
    assert in_one_line("it failed\n\nAt:\n  m.py(3): f\n") == "it failed At: m.py(3): f"
    assert in_one_line("it failed") == "it failed"


def test_very_long_text_is_cut():
    assert shown("x" * 201) == "x" * 200 + "…"


@pytest.mark.parametrize(
    ("text", "value"), [("8", 8), ("-1", -1), ("+2", 2), ("8_000", None), ("", None), ("²", None), ("1e3", None)]
)
def test_whole_numbers(text, value):
    assert whole_number(text) == value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,b=c", ("a", "b", "c")),
        ("b=c", ("", "b", "c")),
        ("b=c,d=e", ("", "b", "c,d=e")),
        ("a,b,c=d", ("a", "b,c", "d")),
        (",b=c", None),
        ("a,=c", None),
        ("a,b=", None),
        ("a,b", None),
        ("", None),
    ],
)
def test_named_settings(text, found):
    assert named_setting(text) == found
