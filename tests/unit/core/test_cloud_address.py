"""Addresses of repositories in clouds, as Triton writes them."""

import pytest

from charonia.core.cloud_address import parse_cloud_address
from charonia.core.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "endpoint", "account", "bucket", "path"),
    [
        ("s3://bucket", "", "", "bucket", ""),
        ("s3://my.bucket-1/a/b", "", "", "my.bucket-1", "a/b"),
        ("s3://bucket//a///b/", "", "", "bucket", "a/b"),
        ("s3://localhost:4572/demo-bucket1.0", "http://localhost:4572", "", "demo-bucket1.0", ""),
        ("s3://127.0.0.1:9000/b/a", "http://127.0.0.1:9000", "", "b", "a"),
        ("s3://http://host:9000/b", "http://host:9000", "", "b", ""),
        ("s3://https://host.example:443/b/a/", "https://host.example:443", "", "b", "a"),
        ("s3://https://host.example/b", "https://host.example", "", "b", ""),
        ("s3://[::1]:9000/b", "http://[::1]:9000", "", "b", ""),
        ("gs://bucket/path/to", "", "", "bucket", "path/to"),
        ("as://account/container/path", "", "account", "container", "path"),
        ("as://account.blob.core.windows.net/container", "", "account", "container", ""),
    ],
)
def test_addresses(text, endpoint, account, bucket, path):
    found = parse_cloud_address(text)
    assert (found.endpoint, found.account, found.bucket, found.path) == (endpoint, account, bucket, path)
    assert parse_cloud_address(found.url) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hdfs://bucket/a", "begins with s3://, gs:// or as://"),
        ("s3://", "it has no bucket"),
        ("s3://host:9000", "it has no bucket"),
        ("s3://https://host:9000/", "it has no bucket"),
        ("as://account", "it has no container"),
        ("s3://bucket/../other", "is no bucket with a path"),
        ("gs://host:80/bucket", "is no bucket with a path"),
    ],
)
def test_what_is_no_address(text, reason):
    with pytest.raises(InvalidArgumentError, match=reason):
        parse_cloud_address(text)


@pytest.mark.parametrize("text", ["as://account/container/a?sv=1&sig=SECRET", "s3://http://me:SECRET@host:1/b"])
def test_what_stands_where_secrets_do_is_refused_and_not_repeated(text):
    with pytest.raises(InvalidArgumentError, match="credentials") as raised:
        parse_cloud_address(text)
    assert "SECRET" not in str(raised.value)
