"""Where a model's process starts: `python …/child <work socket> <events socket> <inputs> <outputs>` (descriptors).

The folder itself must not be importable, or its files would hide the model's own modules of the same names; it becomes
one package under a name that nobody else uses.
"""

import importlib.util
import os
import signal
import socket
import sys

PACKAGE = "_charonia_child"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is the server's; it ends its children itself
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    _serve(*[int(text) for text in sys.argv[1:5]])


def _serve(work_fd: int, events_fd: int, inputs_fd: int, outputs_fd: int) -> None:
    wire = importlib.import_module(PACKAGE + ".wire")
    arena = importlib.import_module(PACKAGE + ".arena")
    serve = importlib.import_module(PACKAGE + ".serve")
    for fd in (work_fd, events_fd, inputs_fd, outputs_fd):
        os.set_inheritable(fd, False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # lines must not wait in a buffer
    sys.dont_write_bytecode = True  # the model repository is not ours to write into
    sys.argv = [""]
    work = wire.Channel(socket.socket(fileno=work_fd))
    runtime = serve.ChildRuntime(wire.Channel(socket.socket(fileno=events_fd)))
    serve.watch_parent(work)
    serve.Server(work, runtime, arena.Region(inputs_fd), arena.Arena(outputs_fd)).run()


if __name__ == "__main__":
    main()
