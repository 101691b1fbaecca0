"""W5: dynamic batching and two instances. That requests join is asserted; how fast that is, `benchmarks/` says."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.http as httpclient

from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config

CLIENTS = 16
CONFIG = """
    max_batch_size: 32
    dynamic_batching {
      preferred_batch_size: [ 8, 16 ]
      max_queue_delay_microseconds: 100
    }
    instance_group [ { count: 2 } ]
"""


def test_batch_statistics_show_that_requests_join(repository, embedded, monkeypatch):
    # Nothing is executed until every client's request is there, so that the test does not depend on the machine.
    monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", str(CLIENTS))
    onnx_models.save(onnx_models.mlp(), repository, "mlp")
    write_config(repository, "mlp", CONFIG)
    server = embedded()
    address = f"localhost:{server.ports['http']}"

    def ask(row):
        with httpclient.InferenceServerClient(address) as client:
            tensor = httpclient.InferInput("input", [1, 256], "FP32")
            tensor.set_data_from_numpy(row)
            return client.infer("mlp", [tensor]).as_numpy("output")

    rows = [onnx_models.sample("FP32", (1, 256), seed) for seed in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        together = list(clients.map(ask, rows, timeout=PATIENCE_S))
    with httpclient.InferenceServerClient(address) as client:
        (stats,) = client.get_inference_statistics("mlp")["model_stats"]
    assert stats["inference_count"] == CLIENTS
    assert stats["execution_count"] < CLIENTS
    sizes = {batch["batch_size"]: batch["compute_infer"]["count"] for batch in stats["batch_stats"]}
    assert sizes == {CLIENTS: 1}
    alone = np.concatenate([server.model("mlp").infer(input=row)["output"] for row in rows])
    np.testing.assert_allclose(np.concatenate(together), alone, rtol=1e-4, atol=1e-5)
