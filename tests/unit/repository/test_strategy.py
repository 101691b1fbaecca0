"""A model's batching strategy: found beside the model or by entry point, looked at, loaded, and closed."""

# One case a line reads best as a table.
# ruff: noqa: E501

from dataclasses import replace
from importlib import metadata
from types import SimpleNamespace

import pytest

from charonia.backends.base import ModelContext, ServerFacts
from charonia.config.pbtxt import parse_pbtxt
from charonia.core.errors import BackendError, InvalidArgumentError
from charonia.repository.strategy import inspect_strategy, load_strategy
from charonia.testing.log import kept_log
from charonia.testing.requests import KeptReplies, make_request

GOOD = """
from charonia.batching import Model, Request

class BatchingStrategy:
    def __init__(self, model: Model):
        self.limit = int(model.parameters["most"])
        self.model = model

    def start_batch(self):
        return []

    def may_join(self, batch, request: Request):
        batch.append(request)
        return len(batch) <= self.limit

    def finish_batch(self, batch):
        pass
"""


@pytest.fixture
def context(tmp_path):
    """Makes the context of model `m`; `value` is what batching_strategy says, None for no parameter."""
    model_dir = tmp_path / "m"
    (model_dir / "1").mkdir(parents=True)

    def make(value="batching.py", key="batching_strategy", batching="dynamic_batching { }"):
        text = f'name: "m" max_batch_size: 4 {batching} parameters {{ key: "most" value {{ string_value: "2" }} }}'
        if value is not None:
            text += f'\nparameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
        document = parse_pbtxt(text, "config.pbtxt")
        log, lines = kept_log()
        made = ModelContext(
            "m", 1, document.config, model_dir, model_dir / "1", {}, ServerFacts(log=log), document.places
        )
        made.completions.append(lines)  # where a test finds the log
        return made

    return make


def write(context, code, where="model"):
    folder = context.version_dir if where == "version" else context.model_dir
    (folder / "batching.py").write_text(code)


def errors_of(context):
    return [str(each) for each in inspect_strategy(context) if each.is_error]


@pytest.mark.parametrize("where", ["model", "version"])
def test_a_file_beside_the_model(context, where):
    given = context()
    write(given, GOOD, where)
    assert errors_of(given) == []
    loaded = load_strategy(given)
    batch = loaded.hooks.start_batch()
    assert [loaded.hooks.may_join(batch, make_request(KeptReplies())) for _ in range(3)] == [True, True, False]
    model = loaded.hooks.model
    assert (model.name, model.version, model.folder, model.max_batch_size) == ("m", 1, given.model_dir, 4)
    assert "'batching.py'" in given.completions[0].text
    loaded.close()


def test_the_one_of_the_version_goes_first(context):
    given = context()
    write(given, "broken(", "model")
    write(given, GOOD, "version")
    load_strategy(given).close()


def test_tritons_parameter_takes_a_python_file_relative_to_where_the_server_was_started(context, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    given = context("m/batching.py", "TRITON_BATCH_STRATEGY_PATH")
    write(given, GOOD)
    load_strategy(given).close()


def test_without_a_parameter_a_file_of_that_name_means_nothing(context):
    given = context(None)
    write(given, "broken(")
    assert errors_of(given) == []
    assert load_strategy(given).hooks is None


def test_without_dynamic_batching_it_is_not_loaded(context):
    given = context(batching="")
    write(given, "raise RuntimeError")
    write(given, GOOD.replace("self.model = model", "raise RuntimeError"))
    assert load_strategy(given).hooks is None


def test_a_strategy_has_modules_of_its_own_and_leaves_none_behind(context):
    import sys

    given = context()
    (given.model_dir / "limits.py").write_text("MOST = 1")
    write(given, GOOD.replace("import Model, Request", "import Model, Request\nfrom limits import MOST"))
    before = set(sys.modules)
    loaded = load_strategy(given)
    assert "limits" not in sys.modules
    loaded.close()
    assert set(sys.modules) == before


def test_it_is_told_when_the_model_goes(context):
    given = context()
    write(given, f"{GOOD}\n    def finalize(self):\n        self.model = None\n        raise ValueError\n")
    loaded = load_strategy(given)
    loaded.close()
    assert loaded.hooks.model is None


MISTAKES = [
    ("", "the file has no class named BatchingStrategy; write class BatchingStrategy with start_batch"),
    ("class Mine:\n    def may_join(self, batch, request): ...\n", "no class named BatchingStrategy; name 'Mine' so"),
    (GOOD.replace("def finish_batch", "def finished"), "class BatchingStrategy has no method named finish_batch; add: def finish_batch(self, batch)"),
    (GOOD.replace("def start_batch", "def begin"), "has no method named start_batch"),
    (GOOD.replace("def may_join", "async def may_join"), "may_join is async, and nobody awaits it; write def may_join(self, batch"),
    (GOOD.replace("def may_join(self, batch, request: Request)", "def may_join(self, request)"), "may_join is called as may_join(self, batch, request), and takes other arguments"),
    (GOOD.replace("__init__(self, model: Model)", "__init__(self)"), "__init__ is called as __init__(self, model)"),
    (GOOD.replace("def __init__", "def made"), "class BatchingStrategy has no __init__, and is made with the model"),
    ("def (", "this is no valid Python"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "told"), MISTAKES)
def test_what_is_wrong_with_the_file_is_found_without_executing_it(context, code, told):
    given = context()
    write(given, f"{code}\nraise RuntimeError('executed')")
    (error,) = errors_of(given)
    assert "batching.py" in error
    assert told in error
    with pytest.raises(InvalidArgumentError, match=r"batching\.py"):
        load_strategy(given)


def test_what_can_not_be_seen_in_the_file_is_left_to_the_load(context):
    given = context()
    write(given, "class Base:\n    def __init__(self, model): ...\nclass BatchingStrategy(Base):\n    pass\n")
    assert errors_of(given) == []
    with pytest.raises(InvalidArgumentError, match=r"'batching\.py' lacks start_batch and may_join and finish_batch"):
        load_strategy(given)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise KeyError('at import')\n" + GOOD, "at import"),
        (GOOD.replace('parameters["most"]', 'parameters["least"]'), "KeyError: 'least'"),
        (GOOD.replace("self.model = model", "raise SystemExit(3)"), "SystemExit: 3"),
    ],
)
def test_code_that_fails_fails_the_load(context, code, told):
    given = context()
    write(given, code)
    with pytest.raises(BackendError, match=told) as raised:
        load_strategy(given)
    assert "the batching strategy 'batching.py' of model 'm' failed" in str(raised.value)


def test_a_file_that_is_not_there(context):
    (error,) = errors_of(context())
    assert 'batching_strategy names the file "batching.py", which lies neither in' in error
    assert error.startswith("config.pbtxt:2:")


def test_a_file_outside_of_the_models_folder_is_not_read(context, tmp_path):
    (tmp_path / "batching.py").write_text(GOOD)
    (error,) = errors_of(context("../batching.py"))
    assert "which lies outside of the model's folder" in error


@pytest.mark.parametrize("where", ["model", "version"])
def test_a_library_that_triton_would_load_is_refused(context, where):
    given = context(None)
    folder = given.version_dir if where == "version" else given.model_dir
    (folder / "batchstrategy.so").write_bytes(b"\x7fELF")
    (error,) = errors_of(given)
    assert "batchstrategy.so" in error
    assert "a batching strategy that is a C++ library can't be used here" in error
    assert "batching.py" in error
    without = replace(given, config=parse_pbtxt('name: "m"', "c").config)
    assert errors_of(without) == []


class Installed:
    def __init__(self, model):
        self.model = model

    def start_batch(self): ...
    def may_join(self, batch, request): ...
    def finish_batch(self, batch): ...


def test_a_strategy_by_entry_point(context, monkeypatch):
    point = SimpleNamespace(name="by_bytes", load=lambda: Installed)
    monkeypatch.setattr(metadata, "entry_points", lambda group, name="by_bytes": [point] if name == "by_bytes" else [])
    loaded = load_strategy(context("by_bytes"))
    assert loaded.hooks.model.name == "m"
    loaded.close()
    (error,) = errors_of(context("by_rows"))
    assert (
        "batching_strategy is \"by_rows\", and of the entry points of 'charonia.batching' there are by_bytes" in error
    )


def test_an_entry_point_that_is_not_installed(context):
    (error,) = errors_of(context("by_bytes"))
    assert "there is none; install the package that has it, or name a file that ends in .py" in error
