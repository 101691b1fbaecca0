"""Where credentials come from, and that they are never shown."""

import json

import pytest

from charonia.core.cloud_address import parse_cloud_address
from charonia.core.errors import InvalidArgumentError
from charonia.repository.remote.credentials import FILE_VARIABLE, credentials_for

FILE = {
    "s3": {
        "": {"key_id": "A", "secret_key": "all-others", "region": "eu", "session_token": "", "profile": ""},
        "s3://bucket-002": {"key_id": "B", "secret_key": "bucket-two"},
        "s3://bucket-002/deep": {"profile": "deep"},
        "s3://host:9000/bucket/": {"profile": "as written"},
    },
    "gs": {"": "/keys/one.json", "gs://two": "/keys/two.json"},
    "as": {"as://Account/Container": {"account_str": "x", "auth_type": "managed_identity", "client_id": "c"}},
}


def found(text, environment):
    return credentials_for(parse_cloud_address(text), environment)


@pytest.fixture
def environment(tmp_path):
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(FILE))
    return {FILE_VARIABLE: str(path), "AWS_ACCESS_KEY_ID": "not used"}


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("s3://bucket/a", "secret_key", "all-others"),
        ("s3://bucket-002/a", "secret_key", "bucket-two"),
        ("s3://bucket-002/deep/a", "profile", "deep"),
        ("s3://host:9000/bucket", "profile", "as written"),
        ("gs://two-more/a", "path", "/keys/two.json"),
        ("gs://one", "path", "/keys/one.json"),
        ("as://Account/Container/a", "auth_type", "managed_identity"),
    ],
)
def test_the_longest_beginning_of_the_address_counts(environment, text, name, value):
    assert found(text, environment).get(name) == value


def test_what_the_file_leaves_empty_is_not_given(environment):
    assert "session_token" not in found("s3://bucket", environment).values


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        ("{", "it is no JSON, line 1"),
        ("[]", "it must be an object"),
        ('{"s3": []}', "'s3' must be an object"),
        ('{"s3": {"": "SECRET"}}', "must be an object of texts: secret_key, key_id"),
        ('{"s3": {"": {"key_id": 5}}}', "must be an object of texts"),
        ('{"s3": {"s3://other": {}}}', "has no credentials for s3://bucket"),
        ("{}", "has no credentials for s3://bucket"),
    ],
)
def test_files_that_can_not_be_used(tmp_path, content, reason):
    path = tmp_path / "c.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidArgumentError, match=reason) as raised:
        found("s3://bucket", {FILE_VARIABLE: str(path)})
    assert str(path) in str(raised.value)
    assert "SECRET" not in str(raised.value)


def test_the_environment():
    variables = {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_REGION": "eu-1",
        "GOOGLE_APPLICATION_CREDENTIALS": "/g.json",
        "AZURE_STORAGE_ACCOUNT": "account",
        "AZURE_STORAGE_KEY": "key",
    }
    s3 = found("s3://b", variables)
    assert (s3.get("key_id"), s3.get("secret_key"), s3.get("session_token")) == ("id", "secret", "token")
    assert s3.get("region") == "eu-1"
    assert s3.source == "AWS_SECRET_ACCESS_KEY, AWS_ACCESS_KEY_ID, AWS_REGION, AWS_SESSION_TOKEN"
    assert found("s3://b", variables | {"AWS_DEFAULT_REGION": "us-2"}).get("region") == "us-2"
    assert found("gs://b", variables).get("path") == "/g.json"
    assert found("as://a/c", variables).get("account_key") == "key"
    assert found("as://a/c", {}).source == "none: anonymous"


@pytest.mark.parametrize(
    ("address", "variable", "name"),
    [
        ("s3://b", "AWS_PROFILE", "profile"),
        ("as://a/c", "AZURE_STORAGE_ACCOUNT", "account_str"),
        ("as://a/c", "AZURE_STORAGE_AUTH_TYPE", "auth_type"),
        ("as://a/c", "AZURE_STORAGE_CLIENT_ID", "client_id"),
    ],
)
def test_each_variable(address, variable, name):
    assert found(address, {variable: "worth"}).values == {name: "worth"}


def test_secrets_are_taken_out_of_texts_and_are_in_no_repr():
    made = found("s3://b", {"AWS_SECRET_ACCESS_KEY": "wJalrXUtn", "AWS_SESSION_TOKEN": "FwoGZX"})
    assert made.redacted("signed wJalrXUtn with FwoGZX") == "signed *** with ***"
    assert "wJalrXUtn" not in repr(made)
