import pytest

from tests.certificates import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session", params=["plain", "tls"])
def transport(request: pytest.FixtureRequest, authority: Authority) -> Authority | None:
    """For `Served`: what holds of a connection holds of one under TLS."""
    return authority if request.param == "tls" else None
