"""Which settings of `--backend-config` the backends that come with the server read; a test compares it with them."""

from collections.abc import Mapping

SETTINGS: Mapping[str, frozenset[str]] = {
    "identity": frozenset(),
    "onnxruntime": frozenset({"default-max-batch-size", "intra_op_thread_count", "inter_op_thread_count"}),
    "python": frozenset({"execution", "max-deaths", "death-window-seconds"}),
}
_EVERY = frozenset[str]().union(*SETTINGS.values())


def idle_settings(given: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A sentence for each setting that nobody reads; other backends know their own."""
    return [
        f"--backend-config={f'{backend},{key}' if backend else key} is accepted and has no effect here "
        f"(read are: {', '.join(sorted(read)) or 'none'})"
        for backend, settings in given.items()
        if (read := _EVERY if backend == "" else SETTINGS.get(backend)) is not None
        for key in settings
        if key not in read
    ]
