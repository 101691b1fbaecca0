"""A model's process: how it dies, comes back, and ends with its server."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

from charonia.backends.base import InstanceSpec, MortalInstance
from charonia.backends.python.restart import Deaths, RestartPolicy
from charonia.core.errors import BackendError, CharoniaError, UnavailableError
from charonia.testing.batch import make_batch

X = {"X": np.zeros(1, np.float32)}
SPEC = InstanceSpec("m_0", "KIND_CPU", "cpu", 1)

# Tells its process id; dies as the request id says.
MORTAL = """
import signal
class TritonPythonModel:
    def execute(self, requests):
        how = requests[0].request_id()
        if how == "exit":
            os._exit(7)
        if how == "zero":
            os._exit(0)
        if how == "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        if how == "hang":
            pb_utils.Logger.log_info("hanging in process %d" % os.getpid())
            signal.pause()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([os.getpid()], np.int64))]) for _ in requests]
"""
PID = {"outputs": "Y:TYPE_INT64:1"}


def pid_of(served):
    return int(served.call(**X)["Y"][0])


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Health:
    """Waits for words of `health_changed`."""

    def __init__(self, instance):
        self._instance = instance
        self._changed = threading.Condition()
        instance.health_changed = self._wake

    def _wake(self):
        with self._changed:
            self._changed.notify_all()

    def wait(self, condition):
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self._instance), 20)


def test_the_instance_is_one_that_can_die(workshop):
    served = workshop.serve(MORTAL, **PID)
    assert isinstance(served.instance, MortalInstance)
    assert served.instance.healthy
    assert served.instance.failure is None


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("exit", "exited with code 7"),
        ("zero", "exited with code 0"),
        ("segv", "was killed by signal 11 (SIGSEGV)"),
    ],
)
def test_a_dead_process_fails_its_requests_and_is_replaced(workshop, how, text):
    served = workshop.serve(MORTAL, **PID)
    first = pid_of(served)
    batch = served.run(X, X, id=how)
    for index in (0, 1):
        assert isinstance(batch.error(index), BackendError)
        assert text in str(batch.error(index))
        assert "model 'm' version 1 instance 'm_0'" in str(batch.error(index))
    assert pid_of(served) != first
    assert served.instance.healthy
    workshop.log.wait_for("it is started again")


def test_killed_from_outside_in_the_middle_of_a_batch(workshop):
    served = workshop.serve(MORTAL, **PID)
    batch = make_batch(X, id="hang")
    thread = threading.Thread(target=batch.run, args=(served.instance,))
    thread.start()
    pid = int(workshop.log.wait_for("hanging in process").split()[-1])
    os.kill(pid, signal.SIGKILL)
    thread.join(20)
    assert "was killed by signal 9 (SIGKILL)" in str(batch.error())


def test_killed_while_idle_it_comes_back_by_itself(workshop):
    served = workshop.serve(MORTAL, **PID)
    health = Health(served.instance)
    pid = pid_of(served)
    os.kill(pid, signal.SIGKILL)
    health.wait(lambda instance: instance.healthy and instance._life.child.popen.pid != pid)
    assert pid_of(served) != pid


def test_it_is_replaced_whatever_becomes_of_telling_so(workshop):
    served = workshop.serve(MORTAL, **PID)
    first = pid_of(served)

    def told():
        raise RuntimeError("a bug elsewhere")

    served.instance.health_changed = told
    served.run(X, id="exit")
    assert pid_of(served) != first  # waits until it is back
    assert "a bug elsewhere" in workshop.log.wait_for("health couldn't be told")


def test_it_dies_too_often(workshop):
    served = workshop.serve(MORTAL, **PID, settings={"max-deaths": "2", "death-window-seconds": "600"})
    health = Health(served.instance)
    served.run(X, id="exit")
    pid_of(served)
    served.run(X, id="exit")
    health.wait(lambda instance: instance.failure is not None)
    assert not served.instance.healthy
    assert "died 2 times within 600 s" in served.instance.failure
    assert "exited with code 7" in served.instance.failure
    error = served.run(X).error()
    assert isinstance(error, UnavailableError)
    assert str(error) == served.instance.failure


def test_a_restart_that_fails_counts_as_a_death(workshop, tmp_path):
    flag = tmp_path / "broken"
    code = f"""
    class TritonPythonModel:
        def initialize(self, args):
            if os.path.exists({str(flag)!r}):
                raise RuntimeError("broken for good")
        def execute(self, requests):
            os._exit(1)
    """
    served = workshop.serve(code, settings={"max-deaths": "3"})
    health = Health(served.instance)
    flag.touch()
    served.run(X)
    health.wait(lambda instance: instance.failure is not None)
    assert "broken for good" in served.instance.failure


def test_delays_between_deaths_double_and_old_deaths_are_forgotten():
    now = [0.0]
    deaths = Deaths(RestartPolicy(limit=5, window_s=60, first_delay_s=0.1, max_delay_s=0.25), lambda: now[0])
    assert [deaths.record() for _ in range(5)] == [0.0, 0.1, 0.2, 0.25, None]
    now[0] = 61
    assert deaths.record() == 0.0


@pytest.mark.parametrize("stage", ["initialize", "import"])
def test_a_process_that_ends_while_it_starts(workshop, stage):
    body = "os._exit(4)"
    code = f"""
    {body if stage == "import" else ""}
    class TritonPythonModel:
        def initialize(self, args):
            {body}
        def execute(self, requests): ...
    """
    with pytest.raises(BackendError, match="its process exited with code 4 while it was starting"):
        workshop.serve(code)


def test_a_hanging_initialize_is_ended_when_the_model_is_given_up(workshop):
    code = """
    import signal
    class TritonPythonModel:
        def initialize(self, args):
            pb_utils.Logger.log_info("initializing in process %d" % os.getpid())
            signal.pause()
        def execute(self, requests): ...
    """
    served = workshop.serve(code, instances=0)
    errors = []

    def create():
        try:
            served.model.create_instance(SPEC)
        except CharoniaError as error:
            errors.append(str(error))

    thread = threading.Thread(target=create)
    thread.start()
    pid = int(workshop.log.wait_for("initializing in process").split()[-1])
    served.model.close()
    thread.join(20)
    assert not thread.is_alive()
    assert not alive(pid)
    assert "initialize had not returned when the server gave the model up" in errors[0]


def test_a_hanging_finalize_is_killed_after_the_exit_timeout(workshop):
    code = """
    import signal
    class TritonPythonModel:
        def execute(self, requests):
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([os.getpid()], np.int64))])]
        def finalize(self):
            signal.pause()
    """
    served = workshop.serve(code, **PID, exit_timeout_s=0.2)
    pid = pid_of(served)
    served.unload()
    assert not alive(pid)
    workshop.log.wait_for("finalize has not returned within 0.2 s")


def test_a_stuck_execute_can_be_ended_from_another_thread(workshop):
    served = workshop.serve(MORTAL, **PID)
    batch = make_batch(X, id="hang")
    thread = threading.Thread(target=batch.run, args=(served.instance,))
    thread.start()
    workshop.log.wait_for("hanging in process")
    served.model.close()
    thread.join(20)
    assert not thread.is_alive()
    assert "SIGKILL" in str(batch.error())


def test_processes_that_the_model_started_end_with_it(workshop):
    code = """
    import subprocess
    class TritonPythonModel:
        def execute(self, requests):
            helper = subprocess.Popen(["sleep", "1000"])
            pb_utils.Logger.log_info("helper %d" % helper.pid)
            os._exit(1)
    """
    served = workshop.serve(code)
    served.run(X)
    pid = int(workshop.log.wait_for("helper").split()[-1])
    _wait_gone(pid)


def test_nothing_is_left_after_an_unload(workshop, shared_memory_files):
    before = shared_memory_files()
    fds = len(os.listdir("/proc/self/fd"))
    served = workshop.serve(MORTAL, **PID)
    pid = pid_of(served)
    served.run(X, id="exit")
    second = pid_of(served)
    served.unload()
    assert not alive(pid)
    assert not alive(second)
    workshop.backend.close()
    assert len(os.listdir("/proc/self/fd")) <= fds
    assert shared_memory_files() == before


def test_sigint_in_the_terminal_is_the_servers_affair(workshop):
    served = workshop.serve(MORTAL, **PID)
    pid = pid_of(served)
    assert os.getpgid(pid) != os.getpgid(0)
    os.kill(pid, signal.SIGINT)
    assert pid_of(served) == pid


def test_a_process_ends_when_its_server_is_killed(workshop):
    workshop.write(MORTAL)
    program = textwrap.dedent(f"""
        import sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from conftest import Workshop, Served
        import numpy as np
        workshop = Workshop(Path({str(workshop.folder)!r}))
        served = Served(workshop.backend, workshop.context(outputs="Y:TYPE_INT64:1"), 1)
        print(int(served.call(X=np.zeros(1, np.float32))["Y"][0]), flush=True)
        time.sleep(1000)
    """)
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        pid = int(server.stdout.readline())
        assert alive(pid)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    _wait_gone(pid)


def test_shared_memory_is_given_back_by_every_kind_of_batch(workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            how = requests[0].request_id()
            x = requests[0].inputs()[0].as_numpy()
            if how == "raise":
                raise ValueError(how)
            if how == "wrong":
                return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x.astype(np.float64))])]
            if how == "new":
                x = x * 2
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)])]
    """
    served = workshop.serve(code)
    row = {"X": np.zeros(500_000, np.float32)}
    link = served.instance._life.link
    for how in ("raise", "wrong", "new", "echo") * 3:
        served.run(row, id=how)
    served.run(X)  # carries what was still to be reported
    assert link._inputs.arena.blocks == 0
    assert link._inputs.arena.region.size <= 8 * 2**20
    assert served.instance._life.child.outputs.size <= 8 * 2**20


def test_lent_outputs_outlive_the_process(workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            x = requests[0].inputs()[0].as_numpy()
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 2), pb_utils.Tensor("Z", x)])]
    """
    served = workshop.serve(code, outputs="Y:TYPE_FP32:-1 Z:TYPE_FP32:-1")
    array = np.arange(500_000, dtype=np.float32)
    batch = make_batch({"X": array}, keep_lent=True).run(served.instance)
    served.run({"X": array + 1})
    served.unload()
    np.testing.assert_array_equal(batch.outputs()["Y"], array * 2)
    np.testing.assert_array_equal(batch.outputs()["Z"], array)
    assert all(tensor.buffer.owned for tensor in batch.answers[0].outputs)


def test_an_echoed_input_that_the_model_keeps_is_not_called_owned(workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            self.kept = requests[0].inputs()[0].as_numpy()
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", self.kept)])]
    """
    served = workshop.serve(code)
    batch = make_batch({"X": np.zeros(500_000, np.float32)}, keep_lent=True).run(served.instance)
    assert not batch.answers[0].outputs[0].buffer.owned


def _wait_gone(pid):
    """Wait for the end of a process that is nobody's child here."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    import select

    try:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        assert poller.poll(20_000), f"process {pid} is still there"
    finally:
        os.close(fd)
