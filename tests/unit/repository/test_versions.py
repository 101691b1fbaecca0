"""The version policy."""

import pytest

from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError
from charonia.repository.versions import choose_versions


def config(policy: str = "", count: int = 0, numbers: tuple[int, ...] = ()) -> ModelConfig:
    made = ModelConfig(name="m")
    if policy == "latest":
        made.version_policy.latest.num_versions = count
    elif policy == "empty":
        made.version_policy.SetInParent()
    elif policy == "all":
        made.version_policy.all.SetInParent()
    elif policy == "specific":
        made.version_policy.specific.versions.extend(numbers)
    return made


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (config(), (10,)),
        (config("latest", 1), (10,)),
        (config("latest", 2), (9, 10)),
        (config("latest", 5), (1, 9, 10)),
        (config("all"), (1, 9, 10)),
        (config("empty"), (1, 9, 10)),
        (config("specific", numbers=(9, 1)), (1, 9)),
    ],
)
def test_policies(made: ModelConfig, expected: tuple[int, ...]) -> None:
    assert choose_versions(made, (9, 1, 10)).versions == expected


def test_specific_versions_without_a_folder_are_told() -> None:
    choice = choose_versions(config("specific", numbers=(1, 5)), (1, 2))
    assert (choice.versions, choice.missing) == ((1,), (5,))


def test_nothing_to_serve_names_the_model_and_what_is_there() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'m'.*no version folder"):
        choose_versions(config(), ())
    with pytest.raises(InvalidArgumentError, match=r"'m'.*latest 0; write num_versions: 1"):
        choose_versions(config("latest", 0), (1, 2))
    with pytest.raises(
        InvalidArgumentError, match=r"asks for version 7, .*only 1, 2; change versions, or add the folder"
    ):
        choose_versions(config("specific", numbers=(7,)), (1, 2))
