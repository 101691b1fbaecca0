"""A launch line with as many flags as a line can have, and the commands' exit codes."""

import re
import subprocess
import sys

import pytest

BODY = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "data": [1.5, 2.5]}]}

# Everything that a line may say, ports and repository aside.
LONG_LINE = """
    --id=a=b,c --exit-timeout-secs 45 --log-verbose 0 --log-info True --log-warning=ON --log-error 1
    --log-format=ISO8601 --exit-on-error=False --strict-model-config=false --strict-readiness off
    --model-control-mode EXPLICIT --repository-poll-secs=15 --load-model=m --load-model m
    --model-load-thread-count=8 --model-load-retry-count 2 --model-namespacing=false --enable-peer-access=false
    --allow-http true --http-address=127.0.0.1 --reuse-http-port=true --http-thread-count=2
    --http-max-input-size=1000000 --allow-grpc 1 --grpc-address=ipv6:[::1] --reuse-grpc-port=1
    --grpc-infer-thread-count=4 --grpc-infer-allocation-pool-size=16 --grpc-max-response-pool-size 16
    --grpc-use-ssl=false --grpc-server-cert=/none --grpc-server-key=/none --grpc-root-cert=/none
    --grpc-infer-response-compression-level=none --grpc-keepalive-time=7200000 --grpc-keepalive-timeout=20000
    --grpc-keepalive-permit-without-calls=0 --grpc-http2-max-pings-without-data=2
    --grpc-http2-min-recv-ping-interval-without-data=300000 --grpc-http2-max-ping-strikes=2
    --grpc-max-connection-age=2147483647 --grpc-max-connection-age-grace 2147483647 --allow-sagemaker=false
    --sagemaker-port=8080 --sagemaker-safe-port-range=8000-9000 --sagemaker-thread-count 8 --allow-vertex-ai=False
    --vertex-ai-port 8080 --vertex-ai-thread-count=8 --vertex-ai-default-model=m --allow-metrics=true
    --allow-gpu-metrics=true --allow-cpu-metrics=TRUE --metrics-address=127.0.0.1 --metrics-interval-ms=500
    --metrics-config=counter_latencies=true --trace-config level=OFF --trace-config=rate=100
    --backend-directory=/opt/tritonserver/backends --backend-config=default-max-batch-size=8
    --backend-config=python,shm-default-byte-size=16777216 --backend-config tensorflow,version=2
    --repoagent-directory=/opt/tritonserver/repoagents --cache-directory=/opt/tritonserver/caches --rate-limit=off
    --rate-limit-resource=R1:10 --pinned-memory-pool-byte-size=268435456 --cuda-memory-pool-byte-size 0:67108864
    --cuda-virtual-address-size=0:1073741824 --min-supported-compute-capability=6.0 --buffer-manager-thread-count=8
    --host-policy=gpu_0,numa-node=0 --model-load-gpu-limit 0:0.9 --allow-client-shm=false
    --response-cache-byte-size=0 --trace-file=/tmp/t --trace-level=OFF --trace-rate 1000 --trace-count=-1
    --trace-log-frequency=0
"""


def test_a_line_with_every_flag_starts_and_serves(serve, repository):
    repository.add("m")
    repository.add("unasked")
    server = serve(f"--model-store={repository.path}", *LONG_LINE.split()).started()
    assert server.ask("POST", "/v2/models/m/infer", BODY).json()["outputs"][0]["data"] == [1.5, 2.5]
    assert server.ask("GET", "/v2").json()["name"] == "a=b,c"
    assert server.ask("GET", "/v2/models/unasked/ready").status == 400
    assert re.search(r"Started GRPCInferenceService at \S*::1", server.text)
    assert len([line for line in server.log if "--host-policy=gpu_0,numa-node: memory is not bound" in line]) == 1
    assert len([line for line in server.log if "--trace-rate is deprecated, use --trace-config=rate=N" in line]) == 1
    server.signal()
    assert server.exit_code() == 0


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--model-repository=/m", "--http_port=1"), "unrecognized option '--http_port'; did you mean --http-port?"),
        (("--model-repository=/m", "--allow-http"), "--allow-http requires a value: --allow-http=true|false"),
    ],
)
def test_a_wrong_line_ends_at_once_with_code_1(flags, sentence):
    program = "from charonia.cli.main import tritonserver; tritonserver()"
    ended = subprocess.run(
        [sys.executable, "-c", program, *flags], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert sentence in ended.stderr
    assert "--help' for all flags" in ended.stderr
