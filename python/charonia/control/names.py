"""Model names as clients write them, where they would become the name of a folder."""

from unicodedata import category

from charonia.core.errors import InvalidArgumentError
from charonia.core.text import shown

# What Linux and macOS allow a folder's name.
_MAX_BYTES = 255


def check_model_name(name: str) -> None:
    """Refuse a name that no model folder can have.

    Raises:
        InvalidArgumentError: empty, a path instead of a name, too long, or with characters that are no text.
    """
    if not name:
        raise InvalidArgumentError("Model name cannot be empty: give the name of the model's folder in the repository")
    if reason := _fault(name):
        raise InvalidArgumentError(f"'{shown(name)}' can't be the name of a model: {reason}")


def _fault(name: str) -> str:
    if "/" in name or "\\" in name or name in (".", ".."):
        return "a model is named by its folder in the repository, not by a path"
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        return f"it is longer than {_MAX_BYTES} bytes, which no folder's name is"
    if any(category(char) in ("Cc", "Cs") for char in name):
        return "it has control characters, or bytes that are no UTF-8"
    return ""
