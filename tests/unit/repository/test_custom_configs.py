"""`--model-config-name`: which of a model's configurations is served."""

import pytest

from tests.unit.repository.served import CONFIG, Repository, Served


@pytest.mark.parametrize(("name", "batch"), [("", 4), ("large", 64), ("unknown", 4)])
def test_the_named_one_where_a_model_has_it(tmp_path, name, batch):
    repository = Repository(tmp_path / "models")
    repository.add("m", 1)
    repository.add("plain", 1)
    repository.write("m/configs/large.pbtxt", CONFIG % 64)
    served = Served(repository, mode="none", model_config_name=name)
    try:
        assert served.version("m").config.max_batch_size == batch
        assert served.version("plain").config.max_batch_size == 4
    finally:
        served.close()
