"""What clients see when the process of a Python model dies again and again."""

MODEL = """
import os


class TritonPythonModel:
    def execute(self, requests):
        os._exit(3)
"""
CONFIG = """
backend: "python"
max_batch_size: 4
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
"""
BODY = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [4.0]}]}


def test_a_model_whose_process_keeps_dying_becomes_unavailable(serve, repository):
    folder = repository.path / "dying"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(MODEL)
    (folder / "config.pbtxt").write_text(CONFIG)
    repository.add("well")
    server = serve(repository.flag).started()
    assert server.ask("GET", "/v2/health/ready").status == 200
    answers = 0
    while server.ask("POST", "/v2/models/dying/infer", BODY).status == 500:
        answers += 1
    assert answers >= 5
    server.wait_for("'dying' version 1 is UNAVAILABLE from now on")
    assert server.ask("GET", "/v2/models/dying/ready").status == 400
    assert server.ask("GET", "/v2/health/ready").status == 400
    assert server.ask("GET", "/v2/health/live").status == 200
    dying, well = server.ask("POST", "/v2/repository/index").json()
    assert dying["state"] == "UNAVAILABLE"
    assert "died 5 times" in dying["reason"]
    assert well["state"] == "READY"
    assert server.ask("POST", "/v2/models/dying/infer", BODY).status == 404
    assert server.ask("POST", "/v2/models/well/infer", BODY).status == 200
    server.signal()
    assert server.exit_code() == 0
