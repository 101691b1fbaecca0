"""Settings that say what needs a secret."""

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.core.restrictions import CATEGORIES, GRPC_PREFIX, Key, read_restrictions

FLAG = "http-restricted-api"


def test_groups_have_keys_of_their_own() -> None:
    given = ["inference,health:infer-key=open", "model-repository:admin-key=a=b:c,d"]
    assert read_restrictions(given, FLAG) == {
        "inference": Key("infer-key", "open"),
        "health": Key("infer-key", "open"),
        "model-repository": Key("admin-key", "a=b:c,d"),
    }
    assert read_restrictions([], FLAG) == {}


def test_a_prefix_for_the_header() -> None:
    keys = read_restrictions([f"{','.join(CATEGORIES)}:k=v"], "grpc-restricted-protocol", GRPC_PREFIX)
    assert set(keys) == set(CATEGORIES)
    assert {key.header for key in keys.values()} == {"triton-grpc-protocol-k"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["inference"], "expected <categories>:<key>=<value>"),
        (["inference:k"], "expected <categories>:<key>=<value>"),
        (["inference=k:v"], "expected <categories>:<key>=<value>"),
        (["inference:=hidden"], "expected <categories>:<key>=<value>"),
        ([":k=hidden"], "expected <categories>:<key>=<value>"),
        (["inference:k="], "expected <categories>:<key>=<value>"),
        (["infer:k=hidden"], "unknown restricted api 'infer'; known are health, metadata, inference"),
        (["inference,:k=hidden"], "unknown restricted api ''"),
        (["inference,inference:k=hidden"], "restricted api 'inference' can not be specified in multiple config groups"),
        (["trace:k=hidden", "trace:k=hidden"], "restricted api 'trace' can not be specified in multiple config groups"),
        (["trace:a key=hidden"], "'a key' can't be the name of a header"),
        (["trace:k= hidden"], "without spaces at its ends"),
        (["trace:k=hidden\n"], "printable ASCII"),
        (["trace:k=hiddén"], "printable ASCII"),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_told(given: list[str], words: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        read_restrictions(given, FLAG)
    assert words in str(refused.value)
    assert f"--{FLAG}" in str(refused.value)
    assert "hidd" not in str(refused.value)


def test_binary_metadata_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="binary metadata"):
        read_restrictions(["trace:k-bin=v"], "grpc-restricted-protocol", GRPC_PREFIX)


def test_a_key_shows_no_secret() -> None:
    assert "hidden" not in repr(Key("k", "hidden"))
