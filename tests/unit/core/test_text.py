from charonia.core.text import in_one_line, shown


def test_usual_text_is_shown_whole():
    assert shown("") == ""
    assert shown("größe 😀") == "größe 😀"
    assert shown("x" * 200) == "x" * 200


def test_lines_become_one():
    assert in_one_line("it failed\n\nAt:\n  m.py(3): f\n") == "it failed At: m.py(3): f"
    assert in_one_line("it failed") == "it failed"


def test_very_long_text_is_cut():
    assert shown("x" * 201) == "x" * 200 + "…"
