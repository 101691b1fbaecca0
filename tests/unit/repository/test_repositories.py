"""Which names and which paths can be looked for."""

from pathlib import Path

import pytest

from charonia.core.errors import InvalidArgumentError, NotFoundError
from charonia.repository.repositories import check_model_name, holder_of, holders_of_models, repository_paths


@pytest.mark.parametrize("name", ["m", "with space", "模型", "dots.in.it", "..x", "a\\b", "-1", "x" * 255])
def test_names_that_a_folder_can_have(name: str) -> None:
    check_model_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "cannot be empty"),
        ("  ", "cannot be empty"),
        ("..", "path traversal"),
        (".", "path traversal"),
        ("a/b", "path traversal"),
        ("../x", "path traversal"),
        ("/x", "path traversal"),
        ("a\nb", "control characters"),
        ("a\0b", "control characters"),
        ("a\x7f", "control characters"),
        ("x" * 256, "longer than 255 bytes"),
    ],
)
def test_names_that_are_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason) as raised:
        check_model_name(name)
    assert "\n" not in str(raised.value)


def test_a_model_is_found_in_the_one_repository_that_has_it(tmp_path: Path) -> None:
    for path in ("one/a", "one/twice", "two/twice", "two/模型 1", "two/.hidden"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "two" / "file").touch()
    (tmp_path / "two" / "circle").symlink_to("circle")
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    places = holders_of_models([one, two])
    assert dict(places) == {"a": (one,), "twice": (one, two), "模型 1": (two,)}
    assert holder_of("模型 1", places) == two
    with pytest.raises(InvalidArgumentError, match=r"two or more repositories: 'twice' is in .*one, .*two"):
        holder_of("twice", places)
    with pytest.raises(
        NotFoundError, match="'nope': model not found in any model repository; there are: a, twice, 模型 1"
    ):
        holder_of("nope", places)


def test_a_repository_that_is_away_has_no_models(tmp_path: Path) -> None:
    assert holders_of_models([str(tmp_path / "nowhere")]) == {}


def test_repositories_are_taken_once() -> None:
    assert repository_paths(["/a/", "/a", "b/../c"]) == ("/a", "c")


@pytest.mark.parametrize("path", ["hdfs://bucket/models", "s3://", "gs:///", "as://account"])
def test_urls_that_are_no_address_of_a_repository(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is no address of a repository"):
        repository_paths(["/a", path])


def test_addresses_in_a_cloud_are_written_in_one_way() -> None:
    given = ["s3://b//models/", "s3://b/models", "s3://host:9000/b", "s3://http://host:9000/b/"]
    assert repository_paths(given) == ("s3://b//models", "s3://host:9000/b")
