"""Which repository and model a folder of SageMaker's is."""

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.frontend.sagemaker_folders import Place, place_of
from tests.models.repository import write_config

ENSEMBLE = 'platform: "ensemble"'


@pytest.fixture
def models(tmp_path):
    """The folder of one archive, `<root>/0a1b/model`."""
    made = tmp_path / "0a1b" / "model"
    made.mkdir(parents=True)
    return made


def place(path):
    root = next(each for each in (path, *path.parents) if each.name == "0a1b").parent
    return place_of(str(path), str(root))


def test_the_archive_is_the_model(models):
    write_config(models.parent, "model", "max_batch_size: 4")
    assert place(models) == Place(str(models.parent), "model")


def test_the_archive_is_the_model_without_a_configuration(models):
    for version in ("1", "2"):
        (models / version).mkdir()
    assert place(models) == Place(str(models.parent), "model")


def test_the_archive_has_one_model(models):
    (models / "m" / "1").mkdir(parents=True)
    (models / ".hidden").mkdir()
    assert place(models) == Place(str(models), "m")


def test_a_folder_in_the_archive(models):
    write_config(models, "m", "max_batch_size: 4")
    assert place(models / "m") == Place(str(models), "m")


@pytest.mark.parametrize("config", [ENSEMBLE, "ensemble_scheduling { }"])
def test_of_several_models_the_ensemble_is_meant(models, config):
    write_config(models, "a", f'# {ENSEMBLE}\nplatform: "onnxruntime_onnx"')
    write_config(models, "b", "this is {{ no configuration")
    write_config(models, "c", config)
    assert place(models) == Place(str(models), "c")


def test_several_models_without_one_ensemble(models):
    with pytest.raises(InvalidArgumentError, match="got no folder"):
        place(models)
    for name in ("a", "b"):
        write_config(models, name, "max_batch_size: 4")
    with pytest.raises(InvalidArgumentError, match="got a, b"):
        place(models)
    for name in ("a", "b"):
        write_config(models, name, ENSEMBLE)
    with pytest.raises(InvalidArgumentError, match="got a, b"):
        place(models)


def test_folders_elsewhere(models):
    root = str(models.parent.parent)
    for url in ("", "/", "/etc", root, f"{root}/0a1b", f"{root}/0a1b/other", f"{root}/0a1b/model/a/b", f"{root}/model"):
        with pytest.raises(InvalidArgumentError, match="expected a path of the form"):
            place_of(url, root)
    with pytest.raises(InvalidArgumentError, match="expected a path of the form"):
        place_of(f"{models}/../../../..", root)
    with pytest.raises(InvalidArgumentError, match="No such file or directory"):
        place_of(f"{root}/absent/model", root)
