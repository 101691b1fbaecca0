"""Where a model's process starts: `python …/child <work socket> <events socket> <inputs> <outputs> <replies>`.

All of these are descriptors. The folder itself must not be importable, or its files would hide the model's own modules
of the same names; it becomes one package under a name that nobody else uses. This file alone must be readable for
interpreters that are too old, so that they can say so.
"""

import importlib
import importlib.util
import marshal
import os
import signal
import socket
import struct
import sys
import threading

PACKAGE = "_charonia_child"
_FAILED = 7  # wire.FAILED


def main() -> None:
    _leave_signals_to_the_server()
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    descriptors = [int(text) for text in sys.argv[1:6]]
    for fd in descriptors:
        os.set_inheritable(fd, False)
    problem = _problem()
    if problem:
        _refuse(descriptors[0], problem)
        sys.exit(1)
    _make_package(here)
    _serve(*descriptors)


def _leave_signals_to_the_server() -> None:
    """What stops a service, or has it open its logs again, may be sent to all its processes. The server has the
    requests answered before it stops, and then ends this process by its link, or kills it. A function, as SIG_IGN would
    stay with the programs that the model starts."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _pass_over)
        signal.siginterrupt(number, False)  # system calls of libraries go on


def _pass_over(*_: object) -> None:
    pass


def _have_forks_end() -> None:
    """Processes that the model forks end by SIGTERM: so does `multiprocessing` end its workers. One that comes before
    the new process is ready for it waits."""
    masks = threading.local()

    def hold() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def release_in_fork() -> None:
        if signal.getsignal(signal.SIGTERM) is _pass_over:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_in_fork)


def _problem() -> str:
    """Why this interpreter can't serve a model, "" if it can."""
    label = "{} (Python {}.{})".format(sys.executable, *sys.version_info[:2])
    if sys.version_info < (3, 8):  # noqa: UP036
        return label + " is too old for Python models: 3.8 or newer is needed"
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        return label + " has no numpy, which every Python model needs: " + str(error)
    return ""


def _refuse(work_fd: int, problem: str) -> None:
    """Answer the first frame, whatever it is, with a failure."""
    work = socket.socket(fileno=work_fd)
    work.recv(65536)
    meta = marshal.dumps(problem, 2)
    work.sendall(struct.pack("<IIII", _FAILED, 0, len(meta), 0) + meta)


def _make_package(here: str) -> None:
    init = os.path.join(here, "__init__.py")
    spec = importlib.util.spec_from_file_location(PACKAGE, init, submodule_search_locations=[here])
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


def _serve(work_fd: int, events_fd: int, inputs_fd: int, outputs_fd: int, replies_fd: int) -> None:
    wire = importlib.import_module(PACKAGE + ".wire")
    arena = importlib.import_module(PACKAGE + ".arena")
    link = importlib.import_module(PACKAGE + ".link")
    serve = importlib.import_module(PACKAGE + ".serve")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # lines must not wait in a buffer
    _have_forks_end()
    sys.dont_write_bytecode = True  # the model repository is not ours to write into
    sys.argv = [""]
    work = wire.Channel(socket.socket(fileno=work_fd))
    events = wire.Channel(socket.socket(fileno=events_fd))
    inputs, outputs, replies = arena.Region(inputs_fd), arena.Arena(outputs_fd), arena.Region(replies_fd)
    serve.watch_parent(work)
    serve.Server(work, link.ChildRuntime(work, events, outputs, inputs, replies), inputs, outputs).run()


if __name__ == "__main__":
    main()
