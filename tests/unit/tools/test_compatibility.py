"""What holds the compatibility pages against the program: on the pages as they are, and on pages with one mistake."""

import dataclasses

import pytest

from tools import compatibility
from tools.compatibility import PAGES, TABLES, Row, compare, rows_of, wrong_counts, wrong_differences
from tools.program_names import PROVEN, STATUSES

TEST = "`tests/unit/tools/test_compatibility.py::test_the_pages_as_they_are`"
KNOWN = {"--a": PROVEN, "--b": ("no effect",), "c": STATUSES}
RIGHT = (
    Row("p.md", 1, "--a", "works", "", TEST),
    Row("p.md", 2, "--b", "no effect", "there is none", ""),
    Row("p.md", 3, "c", "not yet", "", ""),
)


def changed(number, **fields):
    return [dataclasses.replace(row, **fields) if row.line == number else row for row in RIGHT]


def test_the_pages_as_they_are(capsys):
    assert compatibility.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize("page", TABLES)
def test_a_row_of_each_page_that_is_taken_out(page):
    known, rows = TABLES[page](), list(rows_of(PAGES / page))
    assert rows
    missing = f"docs/compatibility/{page}: there is no row for `{rows[0].name}`"
    assert list(compare(page, rows[1:], known)) == ([missing] if known else [])


def test_right_rows():
    assert list(compare("p.md", RIGHT, KNOWN)) == []


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (RIGHT[1:], "docs/compatibility/p.md: there is no row for `--a`"),
        (
            (*RIGHT, Row("p.md", 4, "--new", "works", "", TEST)),
            "p.md:4: `--new` is 'works' on the page, and there is no",
        ),
        ((*RIGHT, RIGHT[0]), "p.md:1: `--a` has two rows"),
        (changed(1, status="not yet"), "`--a` is 'not yet' on the page, and in the program it is 'works or differs'"),
        (changed(2, status="works", tests=TEST), "`--b` is 'works' on the page, and in the program it is 'no effect'"),
        (changed(1, status="fine"), "`--a` is 'fine', which is none of works, differs, no effect, not yet"),
        (changed(1, status="differs"), "`--a` is 'differs', and the page does not say how or why"),
        (changed(2, note=""), "`--b` is 'no effect', and the page does not say how or why"),
        (changed(1, tests=""), "`--a` names no test"),
        (changed(1, tests="`tests/none.py::test_x`"), "`--a` is shown by tests/none.py, which does not exist"),
        (changed(1, tests=TEST.replace("as_they", "as_thy")), "::test_the_pages_as_thy_are, and that file has no such"),
        (changed(1, tests="`rust/wire/tests/gateways.rs::nothing`"), "gateways.rs::nothing, and that file has no such"),
    ],
)
def test_one_mistake(rows, sentence):
    (said,) = compare("p.md", rows, KNOWN)
    assert sentence in said


def test_what_the_program_lacks_may_have_a_row():
    lacking = Row("p.md", 4, "--of-triton", "not yet", "", "")
    assert list(compare("p.md", (*RIGHT, lacking), KNOWN)) == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("| [Things](compatibility/p.md) | 1 | 0 | 1 | 1 |", []),
        ("| [Things](compatibility/p.md) | 1 | 1 | 1 | 1 |", ["got [1, 1, 1, 1]"]),
        ("| [Things](compatibility/q.md) | 1 | 0 | 1 | 1 |", ["got none"]),
    ],
)
def test_numbers_of_the_overview(line, wrong):
    said = list(wrong_counts(f"| table | works |\n| --- | --- |\n{line}\n", {"p.md": RIGHT}))
    assert [sentence.partition(" |, ")[2] for sentence in said] == wrong


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        ("", []),
        ("`tests/unit/tools`", []),
        ("`tests/unit/tools/test_check.py`, `test_compatibility.py::test_right_rows`", []),
        ("`tests/unit/tools/test_check.py`, `test_gone.py`", ["tests/unit/tools/test_gone.py, which does not exist"]),
        ("`tests/unit/tools/test_check.py::test_gone`", ["test_check.py::test_gone, and that file has no such test"]),
    ],
)
def test_tests_of_differences(shown, wrong):
    page = f"| | Triton | Charonia | shown by |\n| --- | --- | --- | --- |\n| a | b | c | {shown} |\n"
    said = list(wrong_differences(page))
    assert [sentence.startswith("docs/compatibility.md:3: is shown by ") for sentence in said] == [True] * len(wrong)
    assert all(words in sentence for words, sentence in zip(wrong, said, strict=True))


def test_every_table_of_a_page_is_read(tmp_path):
    page = tmp_path / "p.md"
    page.write_text(
        "# P\n\n| flag | status | how | shown by |\n| --- | --- | --- | --- |\n| `--a` | works | `x` or `y` | t |\n"
        "\ntext\n\n| other | table |\n| --- | --- |\n| a | b |\n"
        "\n| field | status | how | shown by |\n| --- | --- | --- | --- |\n| a feature | not yet | | |\n"
    )
    assert list(rows_of(page)) == [
        Row("p.md", 5, "--a", "works", "`x` or `y`", "t"),
        Row("p.md", 15, "a feature", "not yet", "", ""),
    ]
