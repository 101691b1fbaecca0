"""Lays out the example repository: our configs and Python model, and the ONNX models that PyPI packages bring."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

SOURCE = Path(__file__).parent / "models"


def lay_out(target: Path) -> Path:
    """Make (or make anew) the repository `target`, from the installed packages `magika` and `rapidocr`."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    magika = _package("magika") / "models" / "standard_v3_3"
    ocr = _package("rapidocr") / "models"
    _place(magika / "model.onnx", target / "file_type")
    _place(ocr / "PP-OCRv6_det_small.onnx", target / "text_detection")
    _place(ocr / "PP-OCRv6_rec_small.onnx", target / "text_recognition")
    _place(ocr / "ch_ppocr_mobile_v2.0_cls_mobile.onnx", target / "text_direction")
    (target / "recognizer" / "1" / "characters.txt").write_text("\n".join(_recognition_characters(ocr)))
    for ensemble in ("detector", "ocr_pipeline"):
        (target / ensemble / "1").mkdir()  # git keeps no empty folders
    labels = json.loads((magika / "config.min.json").read_text())["target_labels_space"]
    (target / "file_type" / "labels.txt").write_text("\n".join(labels) + "\n")
    return target


def _recognition_characters(ocr: Path) -> list[str]:
    """What the recogniser's outputs stand for: index 0 is "no character", the last one is the space."""
    import onnxruntime

    path = ocr / "PP-OCRv6_rec_small.onnx"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return ["", *session.get_modelmeta().custom_metadata_map["character"].split("\n"), " "]


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the example models come with the package '{name}': pip install {name}")
    return Path(spec.origin).parent


def _place(model: Path, folder: Path) -> None:
    (folder / "1").mkdir(exist_ok=True)
    shutil.copyfile(model, folder / "1" / "model.onnx")
