"""`EXECUTION_ENV_PATH`: venv, conda folder, packed environment."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from charonia.backends.python.environment import Environments
from charonia.core.errors import BackendError, InvalidArgumentError

CODE = """
import only_here
class TritonPythonModel:
    def execute(self, requests):
        text = json.dumps([sys.prefix, only_here.WHO, os.environ.get("PYTHONPATH")])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([text], object))])]
"""
PATH = "EXECUTION_ENV_PATH"
TEXT = {"outputs": "Y:TYPE_STRING:1"}


def make_venv(folder: Path) -> Path:
    """A venv that finds this one's numpy, and one module that no other environment has."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "numpy.pth").write_text(str(Path(np.__file__).parent.parent))
    (site / "only_here.py").write_text("WHO = 'venv'\n")
    return folder


def make_conda(folder: Path) -> Path:
    """A folder with an interpreter in bin/ and no pyvenv.cfg, as conda and conda-pack make them."""
    (folder / "bin").mkdir(parents=True)
    site = folder / "site"
    site.mkdir()
    (site / "only_here.py").write_text("WHO = 'conda'\n")
    script = f'#!/bin/sh\nPYTHONPATH="{site}" exec {sys.executable} "$@"\n'
    (folder / "bin" / "python").write_text(script)
    (folder / "bin" / "python").chmod(0o755)
    return folder


@pytest.fixture(params=["with tarfile's filter", "without"])
def either_tarfile(request, monkeypatch):
    """Pythons before 3.11.4 have no filter."""
    if request.param == "without":
        monkeypatch.delattr(tarfile, "tar_filter", raising=False)
    elif not hasattr(tarfile, "tar_filter"):
        pytest.skip("this Python has none")


def pack(folder: Path, archive: Path) -> Path:
    with tarfile.open(archive, "w:gz") as tar:
        for path in folder.iterdir():
            tar.add(path, path.name)
    return archive


def test_a_venv(workshop, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/of/the/server")
    venv = make_venv(tmp_path / "env")
    served = workshop.serve(CODE, parameters={PATH: str(venv)}, **TEXT)
    prefix, who, path = __import__("json").loads(served.call(X=np.zeros(1, np.float32))["Y"][0])
    assert (Path(prefix), who, path) == (venv, "venv", None)


def test_a_folder_of_the_model_by_its_placeholder(workshop):
    make_venv(workshop.folder / "m" / "env")
    served = workshop.serve(CODE, parameters={PATH: "$$TRITON_MODEL_DIRECTORY/env"}, **TEXT)
    assert b"venv" in served.call(X=np.zeros(1, np.float32))["Y"][0]


def test_a_packed_environment_is_unpacked_once_and_removed_at_the_end(either_tarfile, tmp_path):
    archive = pack(make_conda(tmp_path / "conda"), tmp_path / "env.tar.gz")
    environments = Environments()
    first = environments.find("m", str(archive), tmp_path)
    assert environments.find("m", str(archive), tmp_path) == first
    assert first.set["CONDA_PREFIX"] == str(Path(first.interpreter).parents[1])
    assert first.prepend["LD_LIBRARY_PATH"] == (str(Path(first.interpreter).parents[1] / "lib"),)
    os.utime(archive, (1, 1))
    assert environments.find("m", str(archive), tmp_path) != first
    environments.close()
    assert not Path(first.interpreter).exists()


UNPACKS = """
import os, sys
from pathlib import Path
from charonia.backends.python.environment import Environments
environments = Environments(Path(sys.argv[2]))
print(environments.find("m", sys.argv[1], Path(sys.argv[2])).interpreter, flush=True)
sys.stdin.read()
"""


def test_what_a_killed_server_unpacked_goes_with_the_next_one_that_unpacks(tmp_path):
    """Not that of one that lives."""
    archive = pack(make_conda(tmp_path / "conda"), tmp_path / "env.tar.gz")
    above = tmp_path / "above"
    above.mkdir()
    servers, theirs = [], []
    for _ in range(2):
        command = [sys.executable, "-c", UNPACKS, str(archive), str(above)]
        servers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        theirs.append(Path(servers[-1].stdout.readline().strip()))
    servers[0].kill()
    servers[0].wait()
    assert [path.exists() for path in theirs] == [True, True]
    environments = Environments(above)
    environments.find("m", str(archive), tmp_path)
    assert [path.exists() for path in theirs] == [False, True]
    assert len(list(above.iterdir())) == 2
    environments.close()
    servers[1].kill()
    for server in servers:
        server.communicate()
    environments.find("m", str(archive), tmp_path)
    assert not theirs[1].exists()
    environments.close()
    assert not list(above.iterdir())


def test_a_packed_environment_serves(workshop, tmp_path):
    conda = make_conda(tmp_path / "conda")
    # The stand-in for conda's interpreter needs a path of its own folder, which moves when it is unpacked.
    script = f'#!/bin/sh\nPYTHONPATH="$(dirname "$0")/../site" exec {sys.executable} "$@"\n'
    (conda / "bin" / "python").write_text(script)
    archive = pack(conda, tmp_path / "env.tar.gz")
    served = workshop.serve(CODE, parameters={PATH: str(archive)}, **TEXT)
    assert b"conda" in served.call(X=np.zeros(1, np.float32))["Y"][0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("/no/such/place", "does not exist"),
        ("$$TRITON_MODEL_DIRECTORY/../outside", "must stay within model directory"),
        ("$$TRITON_MODEL_DIRECTORY/empty", "has no interpreter"),
        ("$$TRITON_MODEL_DIRECTORY/broken.tar.gz", "can't be unpacked"),
        ("$$TRITON_MODEL_DIRECTORY/evil.tar.gz", "can't be unpacked"),
    ],
)
def test_what_is_wrong_is_named(either_tarfile, tmp_path, value, text):
    model_dir = tmp_path / "m"
    (model_dir / "empty").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (model_dir / "broken.tar.gz").write_bytes(b"not a tar")
    with tarfile.open(model_dir / "evil.tar.gz", "w:gz") as tar:
        tar.add(__file__, "../../evil.py")
    environments = Environments()
    with pytest.raises(InvalidArgumentError, match="model 'm': EXECUTION_ENV_PATH") as caught:
        environments.find("m", value, model_dir)
    environments.close()
    assert text in str(caught.value)
    assert not (tmp_path.parent / "evil.py").exists()


def test_a_link_in_an_archive_leads_nothing_out_of_the_folder(either_tarfile, tmp_path):
    (tmp_path / "outside").mkdir()
    archive = tmp_path / "link.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        link = tarfile.TarInfo("way")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "outside")
        tar.addfile(link)
        tar.add(__file__, "way/evil.py")
    environments = Environments()
    with pytest.raises(InvalidArgumentError, match="can't be unpacked"):
        environments.find("m", str(archive), tmp_path)
    environments.close()
    assert not (tmp_path / "outside" / "evil.py").exists()


def test_an_absolute_path_in_an_archive_stays_in_the_folder(either_tarfile, tmp_path):
    outside = tmp_path / "outside.txt"
    archive = tmp_path / "absolute.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tar.gettarinfo(__file__)
        member.name = str(outside)
        with open(__file__, "rb") as content:
            tar.addfile(member, content)
    environments = Environments()
    with pytest.raises(InvalidArgumentError, match="has no interpreter"):
        environments.find("m", str(archive), tmp_path)
    environments.close()
    assert not outside.exists()


def test_an_environment_without_numpy_says_so(workshop, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    with pytest.raises(BackendError, match=r"bare/bin/python \(Python 3\.\d+\) has no numpy"):
        workshop.serve(CODE, parameters={PATH: str(tmp_path / "bare")})


def test_an_interpreter_that_can_not_run_is_named(workshop, tmp_path):
    folder = make_conda(tmp_path / "env")
    (folder / "bin" / "python").write_text("#!/no/such/interpreter\n")
    with pytest.raises(BackendError, match=r"can't start a process with .*env/bin/python"):
        workshop.serve(CODE, parameters={PATH: str(folder)})


def test_inline_models_can_have_none(workshop):
    with pytest.raises(InvalidArgumentError, match="runs in the server's own interpreter"):
        workshop.serve(CODE, form="inline", parameters={PATH: "/somewhere"})


def test_none_is_the_servers_own():
    assert Environments().find("m", "", Path("/")).interpreter == sys.executable
