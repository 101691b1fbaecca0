from charonia.core.text import shown


def test_usual_text_is_shown_whole():
    assert shown("") == ""
    assert shown("größe 😀") == "größe 😀"
    assert shown("x" * 200) == "x" * 200


def test_very_long_text_is_cut():
    assert shown("x" * 201) == "x" * 200 + "…"
