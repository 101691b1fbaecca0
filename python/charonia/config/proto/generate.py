"""Write `descriptors.binpb` and the typed stubs from the .proto files beside this file.

Needed after a change to a .proto file only, and only there the packages of the dependency group `generate`:

    python python/charonia/config/proto/generate.py

The stubs `*_pb2.pyi` have no module of that name at run time: `pool.py` builds the classes.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PROTOS = ("model_config.proto", "grpc_service.proto", "health.proto")
STUBS = ("model_config", "grpc_service")
PACKAGE = "charonia.config.proto"


def main() -> None:
    _protoc("--include_imports", f"--descriptor_set_out={FOLDER / 'descriptors.binpb'}", *PROTOS)
    _protoc(f"--mypy_out=relax_strict_optional_primitives:{FOLDER}", *(f"{name}.proto" for name in STUBS))
    for name in STUBS:
        _move_imports(FOLDER / f"{name}_pb2.pyi")


def _protoc(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{FOLDER}", *arguments], check=True)


def _move_imports(stub: Path) -> None:
    """protoc imports its own output as top-level modules; ours lies in a package."""
    text = re.sub(r"^import (\w+_pb2)\b", rf"from {PACKAGE} import \1", stub.read_text(), flags=re.MULTILINE)
    stub.write_text(text)


if __name__ == "__main__":
    main()
