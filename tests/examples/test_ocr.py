"""Optical character recognition of whole images, as an ensemble and as a Python model that calls others."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from charonia.api import Server
from charonia.core.errors import InvalidArgumentError
from tests.models.gated import PATIENCE_S

pytest.importorskip("rapidocr", reason="the packages of the example models are not installed")
pytest.importorskip("cv2", reason="the packages of the example models are not installed")
pytest.importorskip("magika", reason="the packages of the example models are not installed")

from PIL import Image, ImageDraw, ImageFont

from examples.demo import draw
from examples.layout import lay_out
from examples.read_text import read_text

FORMS = ("ocr_pipeline", "ocr_bls")
# As a guide writes it: the request's own tensor handed on, then one call for each box.
CALLER = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            found = pb_utils.InferenceRequest(
                model_name="detector",
                requested_output_names=["BOXES"],
                inputs=[pb_utils.get_input_tensor_by_name(request, "IMAGE")],
            ).exec()
            if found.has_error():
                raise pb_utils.TritonModelException(found.error().message())
            texts = []
            for box in pb_utils.get_output_tensor_by_name(found, "BOXES").as_numpy():
                read = pb_utils.InferenceRequest(
                    model_name="recognizer",
                    requested_output_names=["TEXT_OUT"],
                    inputs=[pb_utils.Tensor("BOXES", box[np.newaxis])],
                ).exec()
                texts.append(pb_utils.get_output_tensor_by_name(read, "TEXT_OUT").as_numpy()[0].decode())
            text = pb_utils.Tensor("TEXT", np.array([" ".join(texts)], np.object_))
            responses.append(pb_utils.InferenceResponse([text]))
        return responses
"""
CALLER_CONFIG = """backend: "python"
input [ { name: "IMAGE" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] } ]
output [ { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] } ]
"""
AWAITED = {
    "def execute": "async def execute",
    "pb_utils.InferenceRequest": "await pb_utils.InferenceRequest",
    ".exec()": ".async_exec()",
}
WORDS = ["snail", "shell", "trumpet", "triton", "harbour", "lantern", "anchor", "current", "island", "pebble"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repository = lay_out(tmp_path_factory.mktemp("ocr") / "models")
    awaited = CALLER
    for plain, asynchronous in AWAITED.items():
        awaited = awaited.replace(plain, asynchronous)
    for name, code in (("calls", CALLER), ("awaited_calls", awaited)):
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(CALLER_CONFIG)
        (repository / name / "1" / "model.py").write_text(code)
    with Server(repository, http_port=0, grpc_port=0) as running:
        yield running


def page(words):
    """A PNG with one word a line."""
    image = Image.new("RGB", (320, 40 + 60 * len(words)), "white")
    font = ImageFont.load_default(size=32)
    for line, word in enumerate(words):
        ImageDraw.Draw(image).text((40, 30 + 60 * line), word, fill="black", font=font)
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def infer(server, form, file):
    return server.model(form).infer(RAW_IMAGE=np.frombuffer(file, np.uint8))


def texts(answer):
    return [text.decode() for text in answer["TEXT"]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["Hello from Charonia", "tritonis 1234"])
def test_words_and_their_place(server, form, text):
    answer = infer(server, form, draw(text))
    assert texts(answer) == [text]
    left, top, right, bottom = answer["PLACES"][0]
    assert 0 < left < right
    assert 0 < top < bottom


@pytest.mark.parametrize("form", FORMS)
def test_no_text_is_an_empty_answer(server, form):
    answer = infer(server, form, page([]))
    assert answer["TEXT"].shape == (0,)
    assert answer["PLACES"].shape == (0, 4)


@pytest.mark.parametrize("form", FORMS)
def test_more_lines_than_the_recogniser_takes_at_once(server, form):
    words = WORDS * 2
    assert len(words) > server.model("text_recognition").loaded.config.max_batch_size
    assert texts(infer(server, form, page(words))) == words


@pytest.mark.parametrize("form", FORMS)
def test_images_at_the_same_time_are_read_as_alone(server, form):
    pages = [page(WORDS[:count]) for count in (1, 0, 7, 3, 10, 2)]
    alone = [infer(server, form, each) for each in pages]
    with ThreadPoolExecutor(len(pages)) as threads:
        together = list(threads.map(lambda each: infer(server, form, each), pages))
    for mine, other in zip(together, alone, strict=True):
        assert texts(mine) == texts(other)
        np.testing.assert_array_equal(mine["PLACES"], other["PLACES"])
    assert [len(each["TEXT"]) for each in together] == [1, 0, 7, 3, 10, 2]


def test_lines_upside_down_are_turned(server):
    answer = infer(server, "ocr_bls", draw("Hello from Charonia", upside_down=True))
    assert texts(answer) == ["Hello from Charonia"]
    assert answer["TURNED"].tolist() == [True]
    assert infer(server, "ocr_bls", draw("Hello"))["TURNED"].tolist() == [False]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_image_is_told(server, form):
    for file, why in (
        (b"not an image", "its 12 bytes are of no format that Pillow knows"),
        (page(["still"])[:100], ""),
    ):
        with pytest.raises(InvalidArgumentError, match=f"IMAGE_IN is no image that can be read: {why}") as refused:
            infer(server, form, file)
        assert " object at 0x" not in str(refused.value)
    assert texts(infer(server, form, page(["still"]))) == ["still"]


@pytest.mark.parametrize("form", FORMS)
def test_the_client_over_the_network(server, form):
    with httpclient.InferenceServerClient(f"localhost:{server.ports['http']}", network_timeout=PATIENCE_S) as client:
        assert [text for text, _ in read_text(client, form, page(WORDS[:2]))] == WORDS[:2]
    file = np.frombuffer(page(WORDS[:2]), np.uint8)
    with grpcclient.InferenceServerClient(f"localhost:{server.ports['grpc']}") as client:
        image = grpcclient.InferInput("RAW_IMAGE", file.shape, "UINT8")
        image.set_data_from_numpy(file)
        wanted = [grpcclient.InferRequestedOutput("TEXT")]
        answer = client.infer(form, [image], outputs=wanted)
    assert [text.decode() for text in answer.as_numpy("TEXT")] == WORDS[:2]
    assert answer.as_numpy("PLACES") is None


def test_each_model_of_the_pipeline_counts_its_own(server):
    before = recognised(server)
    infer(server, "ocr_pipeline", page(WORDS[:5]))
    assert recognised(server) - before == 5


def recognised(server):
    return server.model("text_recognition").statistics().inference_count


@pytest.mark.parametrize("form", ["calls", "awaited_calls"])
def test_a_loop_of_calls_over_the_boxes(server, form):
    image = server.model("preprocess").infer(IMAGE_IN=np.frombuffer(page(WORDS[:4]), np.uint8))["IMAGE_OUT"]
    assert server.model(form).infer(IMAGE=image)["TEXT"].tolist() == [" ".join(WORDS[:4]).encode()]
    blank = np.full((64, 64, 3), 255, np.uint8)
    assert server.model(form).infer(IMAGE=blank)["TEXT"].tolist() == [b""]
