"""Which backend serves a model: from `backend`, `platform`, `default_model_filename`, the model file, or the name.

The order of the rules, and what each fills in, is Triton's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

ENSEMBLE = "ensemble"


@dataclass(frozen=True, slots=True)
class Rule:
    """A known kind of model.

    Attributes:
        platform: what `platform` is filled with, "" when it stays empty.
        filename: the model file that is looked for, and the default of `default_model_filename`.
        wants_folder: True when `filename` is a folder, False when it is a file, None when it may be either.
        other_platform: another name that is taken for `platform`.
    """

    backend: str
    platform: str
    filename: str
    wants_folder: bool | None = False
    other_platform: str = ""

    @property
    def suffix(self) -> str:
        return self.filename.removeprefix("model")


_OTHER_BACKENDS = {"onnx": "onnxruntime", "ort": "onnxruntime", "trt": "tensorrt", "torch": "pytorch",
                   "tf": "tensorflow", "tensorrt_llm": "tensorrtllm", "tensorrt-llm": "tensorrtllm"}  # fmt: skip
_WITHOUT_PLATFORM = ("dali", "fil", "identity", "tensorrtllm", "vllm")
RULES = (
    Rule("tensorflow", "tensorflow_savedmodel", "model.savedmodel", wants_folder=True),
    Rule("tensorflow", "tensorflow_graphdef", "model.graphdef"),
    Rule("tensorrt", "tensorrt_plan", "model.plan"),
    Rule("onnxruntime", "onnxruntime_onnx", "model.onnx", wants_folder=None),
    Rule("openvino", "", "model.xml", wants_folder=None),
    Rule("pytorch", "pytorch_libtorch", "model.pt", other_platform="libtorch"),
    Rule("pytorch", "torch_aoti", "model.pt2"),
    Rule("python", "", "model.py", wants_folder=None),
)


def platforms() -> list[str]:
    """Every value of `platform` that names a backend."""
    return [rule.platform for rule in RULES if rule.platform] + [ENSEMBLE]


def meant_by_platform(word: str) -> str:
    """What to write for a `platform` that is none: perhaps it is misspelt, or the name of a backend."""
    choice = f"platforms are {', '.join(platforms())}"
    name = word.lower()
    backend = _OTHER_BACKENDS.get(name, name)
    if backend in _WITHOUT_PLATFORM:
        return f'write backend: "{backend}" instead; {choice}'
    served = next((rule for rule in RULES if rule.backend == backend), None)
    if served is not None:
        platform = f' or platform: "{served.platform}"' if served.platform else ""
        return f'write backend: "{served.backend}"{platform}; {choice}'
    near = get_close_matches(name, platforms(), 1, 0.6)
    meant = f'did you mean "{near[0]}"? ' if near else ""
    return f'{meant}{choice[0].upper() if meant else choice[0]}{choice[1:]}; other models have a backend: "…" instead'


def known_filenames() -> list[str]:
    return [rule.filename for rule in RULES]


def rule_for_platform(platform: str) -> Rule | None:
    return next((rule for rule in RULES if platform and platform in (rule.platform, rule.other_platform)), None)


def rules_for_backend(backend: str) -> list[Rule]:
    return [rule for rule in RULES if rule.backend == backend]


def rule_for_filename(filename: str) -> Rule | None:
    """The rule whose default the filename is, else the one whose suffix it has."""
    exact = next((rule for rule in RULES if rule.filename == filename), None)
    return exact or next((rule for rule in RULES if filename.endswith(rule.suffix)), None)


def rule_for_files(files: Sequence[str], folders: Sequence[str], among: Sequence[Rule] = RULES) -> Rule | None:
    """The first rule whose model file lies among `files` or `folders` of a version folder."""
    for rule in among:
        if rule.filename in files and rule.wants_folder is not True:
            return rule
        if rule.filename in folders and rule.wants_folder is not False:
            return rule
    return None
