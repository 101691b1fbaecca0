"""Which model is meant, where several repositories may hold one of the same name."""


class ModelId(str):
    """A model's name together with its namespace, which is the repository that it is in, or "" without namespaces.

    As text it is what logs show, and what everything about a model is kept under: `<namespace>::<name>`, and without a
    namespace the name alone. So all that knows no namespaces goes on with names.
    """

    __slots__ = ("name", "namespace")

    name: str
    namespace: str

    def __new__(cls, name: str, namespace: str = "") -> "ModelId":
        made = super().__new__(cls, f"{namespace}::{name}" if namespace else name)
        made.name, made.namespace = name, namespace
        return made


def model_id(text: str) -> ModelId:
    """`text` itself if it is one, else the model of that name without a namespace."""
    return text if isinstance(text, ModelId) else ModelId(text)
