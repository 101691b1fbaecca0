"""The in-process API: numpy in, numpy out, no ports."""

import asyncio
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import charonia
from charonia.core import errors
from charonia.core.errors import InvalidArgumentError, NotFoundError, UnavailableError


def add_model(repository: Path, name: str, datatype: str = "TYPE_FP32", more: str = "") -> Path:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(
        f"""
        backend: "identity"
        max_batch_size: 4
        input {{ name: "INPUT0" data_type: {datatype} dims: [ -1 ] }}
        output {{ name: "OUTPUT0" data_type: {datatype} dims: [ -1 ] }}
        {more}
        """
    )
    return repository


@pytest.fixture
def server(tmp_path):
    add_model(tmp_path, "floats")
    add_model(tmp_path, "texts", "TYPE_STRING")
    for datatype in ("UINT8", "BOOL"):
        add_model(tmp_path, datatype, f"TYPE_{datatype}")
    with charonia.Server(model_repository=tmp_path, log_warning=False, log_error=False) as made:
        yield made


def test_numpy_in_and_out(server):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs = server.model("floats").infer(INPUT0=array)
    assert list(outputs) == ["OUTPUT0"]
    np.testing.assert_array_equal(outputs["OUTPUT0"], array)
    outputs["OUTPUT0"][0, 0] = 7  # yours to change
    assert array[0, 0] == 0


def test_lists_take_the_models_datatype(server):
    assert server.model("floats").infer({"INPUT0": [[1, 2]]})["OUTPUT0"].dtype == np.float32


def test_arrays_keep_theirs_and_a_wrong_one_is_told(server):
    with pytest.raises(InvalidArgumentError, match=r"INPUT0.*FP64.*FP32"):
        server.model("floats").infer(INPUT0=np.zeros((1, 2)))


def test_values_that_are_no_numbers(server):
    with pytest.raises(InvalidArgumentError, match="'INPUT0' can't be made FP32"):
        server.model("floats").infer(INPUT0=[["x"]])


@pytest.mark.parametrize(
    ("datatype", "numbers"), [("UINT8", [[1, 2.5]]), ("UINT8", [[-1]]), ("UINT8", [[256]]), ("BOOL", [[2]])]
)
def test_numbers_never_change_silently(server, datatype, numbers):
    with pytest.raises(InvalidArgumentError, match=f"'INPUT0' can't be made {datatype}"):
        server.model(datatype).infer(INPUT0=numbers)


@pytest.mark.parametrize(("datatype", "numbers"), [("UINT8", [[1, 2.0, True]]), ("BOOL", [[0, 1, True]])])
def test_numbers_that_fit(server, datatype, numbers):
    assert server.model(datatype).infer(INPUT0=numbers)["OUTPUT0"].tolist() == numbers


@pytest.mark.parametrize("texts", [[["a", "bc"]], [[b"a", b"bc"]], np.array([["a", "bc"]])])
def test_texts(server, texts):
    assert server.model("texts").infer(INPUT0=texts)["OUTPUT0"].tolist() == [[b"a", b"bc"]]


def test_async(server):
    async def both():
        model = server.model("floats")
        return await asyncio.gather(*(model.infer_async(INPUT0=[[value]]) for value in (1, 2)))

    assert [outputs["OUTPUT0"].tolist() for outputs in asyncio.run(both())] == [[[1.0]], [[2.0]]]


def test_inputs_by_keyword_everywhere(server):
    model = server.model("floats")
    row = [[1.0, 2.0]]
    assert model.submit(INPUT0=row, request_id="r").result(20).outputs["OUTPUT0"].numpy().tolist() == row
    assert [answer["OUTPUT0"].tolist() for answer in model.stream(INPUT0=row, priority=0)] == [row]
    assert asyncio.run(model.infer_async(INPUT0=row, outputs=["OUTPUT0"]))["OUTPUT0"].tolist() == row


@pytest.mark.parametrize("name", ["inputs", "outputs_"])
def test_an_input_may_have_any_name(server, name):
    with pytest.raises(InvalidArgumentError, match=f"unexpected inference input '{name}'"):
        server.model("floats").infer(**{name: [[1.0]]})


def test_what_a_model_tells(server):
    model = server.model("floats", version=1)
    model.infer(INPUT0=[[1.0], [2.0]])
    assert model.ready
    assert model.version == 1
    assert model.metadata.inputs[0].shape == (-1, -1)
    assert model.config.max_batch_size == 4
    assert (model.statistics().inference_count, model.statistics().execution_count) == (2, 1)
    assert [each.name for each in server.models()] == ["BOOL", "UINT8", "floats", "texts"]


def test_unknown_models_and_versions(server):
    with pytest.raises(NotFoundError, match="'nope'"):
        server.model("nope")
    with pytest.raises(NotFoundError, match="version 2"):
        server.model("floats", version=2)


def test_no_ports_unless_named(server, tmp_path):
    assert server.ports == {"http": None, "grpc": None, "metrics": None}
    assert server.ready


def test_two_servers_in_one_process_do_not_meet(server, tmp_path):
    other = add_model(tmp_path / "other", "own")
    with charonia.Server(other) as second:
        assert [each.name for each in second.models()] == ["own"]
        with pytest.raises(NotFoundError):
            server.model("own")
        assert second.model("own").infer(INPUT0=[[3.0]])["OUTPUT0"].tolist() == [[3.0]]
    assert server.model("floats").infer(INPUT0=[[3.0]])["OUTPUT0"].tolist() == [[3.0]]


def test_after_the_end_nothing_is_served(tmp_path):
    with charonia.Server(add_model(tmp_path, "floats")) as server:
        model = server.model("floats")
    assert not server.ready
    assert not model.ready
    with pytest.raises((NotFoundError, UnavailableError)):
        model.infer(INPUT0=[[1.0]])


def test_a_bad_model_fails_the_start(tmp_path):
    add_model(tmp_path, "bad", more="no_such_field: 1")
    with pytest.raises(UnavailableError, match=r"'bad'.*no_such_field"), charonia.Server(tmp_path, log_error=False):
        pass


def test_unless_asked_to_go_on(tmp_path):
    add_model(add_model(tmp_path, "bad", more="no_such_field: 1"), "good")
    with charonia.Server(tmp_path, exit_on_error=False, log_error=False) as server:
        assert not server.ready
        assert [each.name for each in server.models()] == ["good"]


def test_options_are_checked(tmp_path):
    with pytest.raises(InvalidArgumentError, match="'http_prot'"):
        charonia.Server(tmp_path, http_prot=1)
    with pytest.raises(InvalidArgumentError, match="--no-gpu"):
        charonia.Server(tmp_path, no_gpu="maybe")
    with pytest.raises(InvalidArgumentError, match="--http-port must be a whole number, got '0'"):
        charonia.Server(tmp_path, http_port="0")


@pytest.mark.parametrize(
    "cache",
    ["local,size=1048576", ["local,size=1048576"], {"local": {"size": 1048576}}, {"local": {"size": "1048576"}}],
)
def test_settings_in_every_form(tmp_path, cache):
    repository = add_model(tmp_path, "cached", more="response_cache { enable: true }")
    with charonia.Server(repository, cache_config=cache, backend_config="python,execution=inline") as server:
        model = server.model("cached")
        for _ in range(2):
            model.infer(INPUT0=[[1.0]])
        assert (model.statistics().inference_count, model.statistics().execution_count) == (1, 1)


def test_a_missing_repository(tmp_path):
    with pytest.raises(InvalidArgumentError, match="nowhere"), charonia.Server(tmp_path / "nowhere"):
        pass


def test_importing_the_package_is_cheap():
    code = (
        "import sys, charonia; print([name for name in ('numpy', 'google.protobuf', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_a_user_needs_is_in_the_package():
    known = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert {"Server", "Model", "Answer", "Sequence", *known} == set(charonia.__all__) - {"__version__"}
    assert set(charonia.__all__) <= set(dir(charonia))
    assert all(getattr(charonia, name) is getattr(errors, name) for name in known)
    with pytest.raises(AttributeError, match="'charonia' has no attribute 'Sever'"):
        charonia.Sever  # noqa: B018
    namespace = {}
    exec("from charonia import *", namespace)
    assert namespace["NotFoundError"] is NotFoundError


def test_a_server_starts_once_and_goes_on_when_it_is_started_again(server):
    with pytest.raises(UnavailableError, match="starts once"):
        server.start()
    assert server.ready
    server.stop()
    with pytest.raises(UnavailableError, match="starts once"):
        server.start()
