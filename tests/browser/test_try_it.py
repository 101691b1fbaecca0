"""The live page's forms: one for each kind of model, and what they send reaches the model."""

import hashlib
import re

import pytest
from playwright.sync_api import expect

from charonia.frontend.generate.request import MAX_VALUES
from tests.browser.pages import at, card, put, serving
from tests.models.repository import write_config, write_python_model

INLINE = 'parameters { key: "execution" value { string_value: "inline" } }'
TEXT = 'output { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }'
# Tells of its inputs and of its sequence.
TELLER = """
    import hashlib
    import json
    import numpy as np
    import triton_python_backend_utils as pb_utils

    def told(tensor):
        array = tensor.as_numpy()
        if array.dtype == object:
            what = ",".join(hashlib.sha256(each).hexdigest()[:8] for each in array.ravel())
        else:
            numbers = array.astype(np.float64)
            what = f"sum {numbers.sum():g} min {numbers.min():g} max {numbers.max():g}"
        return f"{tensor.name()} {list(array.shape)} {what}"

    class TritonPythonModel:
        def execute(self, requests):
            return [self.one(request) for request in requests]

        def one(self, request):
            text = "; ".join([*map(told, request.inputs()), repr(request.correlation_id()), str(request.flags())])
            return pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", np.full(self.shape(request), text, object))])

        def shape(self, request):
            rows = request.inputs()[0].as_numpy().shape[:1]
            return [*rows, 1] if json.loads(self.config)["max_batch_size"] else [1]

        def initialize(self, args):
            self.config = args["model_config"]
"""
# A response for each word, and one with the sum of the numbers. "wait" waits until the request is cancelled.
SPEAKER = """
    import time
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            for request in requests:
                sender = request.get_response_sender()
                for tensor in request.inputs():
                    self.speak(sender, tensor.as_numpy())
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

        def speak(self, sender, array):
            if array.dtype != object:
                return self.say(sender, f"{list(array.shape)} sum {array.astype(np.float64).sum():g}")
            for word in array.ravel():
                if word == b"wait":
                    while not sender.is_cancelled():
                        time.sleep(0.01)
                elif word == b"fail":
                    error = pb_utils.TritonError("no such word", pb_utils.TritonError.INVALID_ARG)
                    sender.send(pb_utils.InferenceResponse(error=error))
                else:
                    self.say(sender, f"{list(array.shape)} {word.decode()}")

        def say(self, sender, text):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", np.array([[text]], object))]))
"""
CONTROLS = 'control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_%s } }'


def one(name, datatype, dims, more=""):
    return f'input {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dims} ] {more} }}'


def teller(folder, name, *parts, batches=True):
    write_python_model(folder, name, "\n".join([f"max_batch_size: {4 * batches}", *parts, TEXT, INLINE]), TELLER)


def speaker(folder, name, *inputs):
    decoupled = "model_transaction_policy { decoupled: true }"
    write_python_model(folder, name, "\n".join(["max_batch_size: 4", *inputs, decoupled, TEXT, INLINE]), SPEAKER)


def chain(folder, name, step, datatype, step_input="IN"):
    write_config(
        folder,
        name,
        f"""
        platform: "ensemble"
        max_batch_size: 4
        {one("IN", datatype, 1)} {TEXT}
        ensemble_scheduling {{ step {{
          model_name: "{step}" model_version: -1
          input_map {{ key: "{step_input}" value: "IN" }} output_map {{ key: "TEXT" value: "TEXT" }}
        }} }}
        """,
    ).joinpath("1").mkdir()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    teller(folder, "image", one("IMAGE", "FP32", "3, 224, 224"))
    teller(
        folder,
        "many",
        *(one(each, each, 2000) for each in ("UINT8", "INT8", "BOOL", "FP16", "BF16", "INT64", "STRING")),
    )
    teller(folder, "optional", one("A", "INT32", 2), one("B", "INT32", 2, "optional: true"), batches=False)
    teller(folder, "file", one("FILE", "STRING", 1))
    teller(folder, "raw", one("PIXELS", "UINT8", "-1, -1, 3"), batches=False)
    for name, datatype in (("sequence", "UINT64"), ("named", "STRING")):
        teller(folder, name, one("IN", "INT32", 1), f"sequence_batching {{ {CONTROLS % datatype} }}")
    chain(folder, "chain", "sequence", "INT32")
    speaker(folder, "words", one("WORDS", "STRING", "-1"))
    speaker(folder, "grid", one("NUMBERS", "INT64", "2, 2"))
    speaker(folder, "bytes", one("PIXELS", "UINT8", "-1"))
    speaker(folder, "just", one("LARGE", "FP32", MAX_VALUES - 9))
    speaker(folder, "beyond", one("LARGE", "FP32", MAX_VALUES))
    chain(folder, "spoken", "words", "STRING", "WORDS")
    return folder


@pytest.fixture(scope="module")
def server(repository):
    with serving(repository, allow_try_it=True) as server:
        yield server


@pytest.fixture
def form(page, server):
    """Opens the form of a model."""

    def opened(name):
        page.goto(at(server, "http"))
        card(page, name).get_by_role("button", name="Try it").click()
        return card(page, name).locator(".try")

    return opened


def send(form):
    form.get_by_role("button", name="Send").click()


def says(form, text):
    expect(form.locator("pre")).to_contain_text(text)


def refused(form, text):
    expect(form.locator("pre .wrong")).to_contain_text(text)


def sha(content):
    return hashlib.sha256(content).hexdigest()[:8]


def test_many_elements_are_made_when_they_are_sent(form):
    image = form("image")
    expect(image.get_by_title("elements", exact=True)).to_have_value("zeros")
    expect(image.locator(".tensor")).to_contain_text(["150,528 elements", ""])
    send(image)
    says(image, "IMAGE [1, 3, 224, 224] sum 0 ")
    image.get_by_title("elements", exact=True).select_option("ones")
    put(image.get_by_title("shape"), "2, 3, 224, 224")
    send(image)
    says(image, "IMAGE [2, 3, 224, 224] sum 301056 ")
    image.get_by_title("elements", exact=True).select_option("random")
    send(image)
    says(image, re.compile(r"sum \S+ min 0 max 1[^0-9]"))


@pytest.mark.parametrize("kind", ["zeros", "ones", "random"])
def test_every_datatype_can_be_made(form, kind):
    many = form("many")
    for each in many.get_by_title("elements", exact=True).all():
        each.select_option(kind)
    send(many)
    says(many, "STRING [1, 2000]")


def test_an_optional_input_is_left_out_until_it_is_chosen(form):
    optional = form("optional")
    expect(optional.get_by_title("shape").nth(1)).to_be_hidden()
    send(optional)
    says(optional, '"A [2] sum 0 min 0 max 0; 0')
    optional.get_by_label("B INT32, optional").check()
    send(optional)
    says(optional, "; B [2]")


def test_a_file_as_the_one_element_of_bytes(form):
    content = bytes(range(256)) * 5
    file = form("file")
    file.get_by_title("elements", exact=True).select_option("file")
    send(file)
    refused(file, "no file is chosen")
    file.locator("input[type=file]").set_input_files({"name": "a.jpg", "mimeType": "image/jpeg", "buffer": content})
    send(file)
    says(file, f"FILE [1, 1] {sha(content)}")


def test_a_file_as_elements_of_uint8(form):
    """The last dimension of any size takes what is left; a shape of the right size stays."""
    raw = form("raw")
    raw.get_by_title("elements", exact=True).select_option("file")
    raw.locator("input[type=file]").set_input_files({"name": "a", "mimeType": "image/x", "buffer": b"\xff" * 24})
    expect(raw.get_by_title("shape")).to_have_value("1, 8, 3")
    send(raw)
    says(raw, "PIXELS [1, 8, 3] sum 6120")
    put(raw.get_by_title("shape"), "2, 4, 3")
    send(raw)
    says(raw, "PIXELS [2, 4, 3] sum 6120")


def test_a_sequence(form):
    """Its second request goes on where the first one was, and after its end it begins anew."""
    sequence = form("sequence")
    number = sequence.get_by_title("sequence id").input_value()
    assert 0 < int(number) < 2**31
    for end, flags in ((False, 1), (True, 2), (False, 1)):
        sequence.get_by_label("end").set_checked(end)
        send(sequence)
        says(sequence, f"; {number}; {flags}")
    put(sequence.get_by_title("sequence id"), "18446744073709551615")
    send(sequence)
    refused(sequence, "must specify the START flag")
    sequence.get_by_label("start").check()
    send(sequence)
    says(sequence, "; 18446744073709551615; 1")


def test_a_sequence_whose_id_is_text(form):
    named = form("named")
    put(named.get_by_title("sequence id"), "007")
    send(named)
    says(named, "; '007'; 1")


def test_an_ensemble_with_a_sequence(form):
    ensemble = form("chain")
    put(ensemble.get_by_title("sequence id"), "7")
    send(ensemble)
    says(ensemble, "; 7; 1")


def test_each_response_is_shown_when_it_comes(form):
    words = form("words")
    put(words.get_by_title("shape"), "1, 2")
    words.get_by_title("elements as JSON").fill('["one, [two]", "wait"]')
    send(words)
    says(words, "[1, 2] one, [two]")
    words.get_by_role("button", name="Stop").click()
    refused(words, "stopped")
    words.get_by_title("elements as JSON").fill('"one", "fail"')
    send(words)
    refused(words, "no such word")
    expect(words.locator("pre")).to_contain_text("end of 2 responses")


@pytest.mark.parametrize("data", ["[1, -9223372036854775808, 3, 4]", "[[[1, -9223372036854775808], [3, 4]]]"])
def test_elements_of_a_stream_have_their_shape(form, data):
    grid = form("grid")
    grid.get_by_title("elements as JSON").fill(data)
    send(grid)
    says(grid, "[1, 2, 2] sum -9.22337e+18")
    grid.get_by_title("elements as JSON").fill("[1]")
    send(grid)
    refused(grid, "400: ")


def test_files_for_a_stream(form):
    words = form("words")
    words.get_by_title("elements", exact=True).select_option("file")
    chosen = words.locator("input[type=file]")
    chosen.set_input_files({"name": "a", "mimeType": "text/plain", "buffer": b'two\n"lines"'})
    send(words)
    says(words, r"[1, 1] two\n\"lines\"")
    chosen.set_input_files({"name": "a", "mimeType": "image/x", "buffer": b"\xff\xd8"})
    send(words)
    refused(words, "WORDS: the file is no text")
    pixels = form("bytes")
    pixels.get_by_title("elements", exact=True).select_option("file")
    pixels.locator("input[type=file]").set_input_files({"name": "a", "mimeType": "image/x", "buffer": b"\xff" * 9})
    send(pixels)
    says(pixels, "[1, 9] sum 2295")


def test_an_ensemble_that_streams(form):
    spoken = form("spoken")
    send(spoken)
    says(spoken, "[1, 1] text")
    says(spoken, "end of 1 response")


def test_a_stream_of_more_values_than_its_request_may_have(form):
    just = form("just")
    just.get_by_title("elements", exact=True).select_option("ones")
    send(just)
    says(just, f"[1, {MAX_VALUES - 9}] sum 999991")
    expect(form("beyond")).to_contain_text("can't be asked from a browser: its input LARGE has 1,000,000 elements")


def test_a_form_is_of_the_model_that_is_loaded(page, tmp_path):
    teller(tmp_path, "m", one("OLD", "INT32", 1))
    with serving(tmp_path, allow_try_it=True, model_control_mode="explicit", load_model=["m"]) as server:
        page.goto(at(server, "http"))
        form = card(page, "m").locator(".try")
        form.get_by_role("button", name="Try it").click()
        expect(form.locator(".tensor").first).to_contain_text("OLD")
        teller(tmp_path, "m", one("NEW", "INT32", 1))
        server.load_model("m")
        form.get_by_role("button", name="Try it").click()
        expect(form.locator(".tensor").first).to_contain_text("NEW")
        send(form)
        says(form, "NEW [1, 1]")
        server.unload_model("m")
        expect(form).to_be_hidden()


def test_a_form_that_needs_a_key_has_the_field_for_it(page, repository):
    restricted = ["model-config:secret-key=open"]
    with serving(repository, allow_try_it=True, http_restricted_api=restricted) as server:
        page.goto(at(server, "http"))
        words = card(page, "words").locator(".try")
        words.get_by_role("button", name="Try it").click()
        expect(words.locator(".wrong")).to_contain_text("403: This API is restricted")
        put(words.get_by_title("headers that restricted calls need, one a line"), "secret-key: open")
        words.get_by_role("button", name="Try it").click()
        send(words)
        says(words, "[1, 1] text")
