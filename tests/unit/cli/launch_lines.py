"""Launch lines of Triton as they stand in public deployments and guides: what comes after the command's name.

Variables have a value that fits; nothing else was changed.
"""

STARTS: dict[str, str] = {
    # Where it is used: the words after the command.
    "quick start": "--model-repository=/models",
    "quick start, by name": "--model-repository=/models --model-control-mode explicit --load-model densenet_onnx",
    "chart for GCP": "--model-store=/mnt/models",
    "charts for AWS and OCI, on a volume": "--model-store=/models --model-control-mode=poll --repository-poll-secs=5",
    "chart of the GKE marketplace": (
        "--model-store=/models --strict-model-config=False --log-verbose=0 --allow-gpu-metrics=True"
    ),
    "KServe": "--model-store=/mnt/models --grpc-port=9000 --http-port=8080 --allow-grpc=true --allow-http=true",
    "KServe, large models": "--model-store=/mnt/models/ --grpc-port=9000 --http-port=8080",
    "ModelMesh": (
        "--model-repository=/models/_triton_models --model-control-mode=explicit --strict-model-config=false "
        "--strict-readiness=false --allow-http=true --allow-sagemaker=false"
    ),
    "Vertex AI behind a front end": (
        "--model-repository=/model_repository --allow-grpc=true --grpc-address=127.0.0.1 --grpc-port=8500 "
        "--allow-http=true --http-address=127.0.0.1 --http-port=8600 --allow-vertex-ai=false --strict-readiness=true"
    ),
    "TensorRT-LLM": (
        "--model-repository=/all_models/inflight_batcher_llm --disable-auto-complete-config "
        "--backend-config=python,shm-region-prefix-name=prefix0_"
    ),
    "TensorRT-LLM, every model by name": (
        "--model-repository=/repos/Meta-Llama-3-8B-Instruct --model-control-mode=explicit --load-model=preprocessing "
        "--load-model=postprocessing --load-model=tensorrt_llm --load-model=tensorrt_llm_bls --load-model=ensemble "
        "--log-verbose=2 --log-info=1 --log-warning=1 --log-error=1"
    ),
    "a Slurm job on four GPUs": (
        "--model-repository=triton_repos/llama2_offline_nvl4/ --pinned-memory-pool-byte-size=0 "
        "--enable-peer-access=false --cuda-memory-pool-byte-size=0:0 --cuda-memory-pool-byte-size=1:0 "
        "--cuda-memory-pool-byte-size=2:0 --cuda-memory-pool-byte-size=3:0 --grpc-port=8001 --http-port=8000 "
        "--metrics-port=8002 --disable-auto-complete-config --backend-config=python,shm-region-prefix-name=prefix0_"
    ),
    "PaddleNLP": (
        "--exit-timeout-secs 100 --cuda-memory-pool-byte-size 0:0 --cuda-memory-pool-byte-size 1:0 "
        "--cuda-memory-pool-byte-size 2:0 --cuda-memory-pool-byte-size 3:0 --pinned-memory-pool-byte-size 0 "
        "--model-repository llm_model/ --allow-http false --grpc-port=8811 --metrics-port=8812 "
        "--log-file log/server.log --log-info true"
    ),
    "speech recognition on ONNX": (
        "--model-repository=model_repo --pinned-memory-pool-byte-size=512000000 "
        "--cuda-memory-pool-byte-size=0:1024000000 --http-port 10086"
    ),
    "Whisper": (
        "--model-repository model_repo --grpc-port 8001 --http-port 10086 --metrics-port 10087 --log-verbose=1 "
        "--model-control-mode=explicit --load-model=infer_bls --load-model=whisper "
        "--cuda-memory-pool-byte-size=0:300000000 --disable-auto-complete-config "
        "--backend-config=python,shm-region-prefix-name=prefix0_"
    ),
    "Whisper in a notebook cloud": "--model-repository /repo --log-verbose 0 --log-info True",
    "a profiling script": (
        "--model-repository /home/user/repository/repo_bert/ --backend-directory /home/user/opt/tritonserver/backends/ "
        "--exit-timeout-secs 60 --log-info True --log-warning True --log-error True --metrics-interval-ms 10 "
        "--http-thread-count 50 --buffer-manager-thread-count 8 --allow-http True --model-control-mode explicit "
        "--load-model bert_e0p0 --load-model bert_e1p0 --load-model bert_ensemble --grpc-infer-allocation-pool-size 200"
    ),
    "DeepStream": (
        "--model-repository=/samples/triton --strict-model-config=false --grpc-infer-allocation-pool-size=16 "
        "--log-verbose=1 --exit-on-error=false"
    ),
    "TAO": (
        "--model-repository=/opt/tritonserver/models --strict-model-config=false --grpc-infer-allocation-pool-size=16 "
        "--model-control-mode=explicit"
    ),
    "YOLO": (
        "--model-repository=/models --strict-model-config=false --grpc-infer-allocation-pool-size=16 --log-verbose 1"
    ),
    "Isaac ROS": (
        "--backend-config=tensorrt,version=lean --model-repository=/workspaces/weights "
        "--cuda-memory-pool-byte-size=0:3221225472 --pinned-memory-pool-byte-size=536870912"
    ),
    "Morpheus": (
        "--model-repository=/repo/Morpheus/models/triton-model-repo --exit-on-error=false --strict-readiness=false "
        "--disable-auto-complete-config --log-info=true"
    ),
    "Morpheus, models by name": (
        "--model-repository=/models/triton-model-repo --exit-on-error=false --model-control-mode=explicit "
        "--load-model sid-minibert-onnx --load-model sid-minibert-trt"
    ),
    "TensorFlow": (
        "--model-repository=/models/newmix3/tensorflow --backend-config=tensorflow,version=2 "
        "--min-supported-compute-capability=7.5 --allow-grpc=true --backend-config=default-max-batch-size=0"
    ),
    "embeddings by name": (
        "--model-repository=/models --model-control-mode=explicit --exit-on-error=false "
        "--backend-config=default-max-batch-size=256 --metrics-config summary_latencies=true --load-model bge"
    ),
    "YOLO on Docker Compose": (
        "--model-store=/models --backend-config=default-max-batch-size=128 --backend-config=tensorflow,version=2 "
        "--backend-config=python,shm-default-byte-size=16777216 --grpc-keepalive-time=7200000 "
        "--grpc-keepalive-timeout=20000 --grpc-keepalive-permit-without-calls=1 --grpc-http2-max-pings-without-data=2"
    ),
    "every port and pool": (
        "--model-repository=/models --http-port=8000 --grpc-port=8001 --metrics-port=8002 --allow-metrics=true "
        "--allow-gpu-metrics=true --log-verbose=0 --log-info=true --log-warning=true --log-error=true "
        "--exit-on-error=false --model-control-mode=none --grpc-infer-allocation-pool-size=16 "
        "--grpc-max-response-pool-size=16 --cuda-memory-pool-byte-size=0:2147483648 "
        "--pinned-memory-pool-byte-size=268435456 --metrics-interval-ms=2000"
    ),
    "a cache and pools": (
        "--model-repository=/models/repo --pinned-memory-pool-byte-size=268435456 "
        "--cuda-memory-pool-byte-size=0:268435456 --response-cache-byte-size=268435456"
    ),
    "a cache": (
        "--model-repository=/models --http-port=8000 --grpc-port=8001 --metrics-port=8002 "
        "--cache-config=local,size=134217728 --exit-on-error=false"
    ),
    "a hospital, without cache": (
        "--model-repository=/models --model-control-mode=explicit --strict-readiness=true --exit-on-error=true "
        "--response-cache-byte-size=0 --allow-metrics=true --metrics-port=8002 --log-format=default --log-verbose=0"
    ),
    "logs of a cluster": (
        "--model-repository=/models --strict-readiness=true --allow-gpu-metrics=true --metrics-interval-ms=500 "
        "--log-format=ISO8601 --log-file=/evidence/triton.log"
    ),
    "both words for the same": (
        "--model-repository=/models --strict-model-config=false --disable-auto-complete-config "
        "--allow-gpu-metrics=false --strict-readiness=true --log-verbose=0"
    ),
    "capital letters": (
        "--model-repository=/models --model-control-mode=EXPLICIT --load-model ensemble-model --log-warning=1 "
        "--log-error=1 --metrics-config histogram_latencies=true --metrics-config summary_latencies=true "
        "--allow-metrics=true --allow-gpu-metrics=true --allow-cpu-metrics=true"
    ),
    "polling in capitals": "--model-repository=/app/models --model-control-mode=POLL --log-verbose=1",
    "polling, without the other ports": (
        "--model-repository=/models/repo --model-control-mode=poll --repository-poll-secs=5 --allow-grpc=false "
        "--allow-metrics=false"
    ),
    "an interval without polling": (
        "--http-port 8000 --grpc-port 8001 --metrics-port 8002 --model-repository=/models --exit-on-error=false "
        "--model-control-mode=explicit --repository-poll-secs 10 --allow-metrics=true --allow-gpu-metrics=true"
    ),
    "one address for everything": (
        "--model-repository=/repo --http-address=127.0.0.1 --grpc-address=127.0.0.1 --metrics-address=127.0.0.1 "
        "--http-port=18400 --grpc-port=18401 --metrics-port=18402 --pinned-memory-pool-byte-size=268435456 "
        "--cuda-memory-pool-byte-size=0:2147483648 --log-verbose=0 --disable-auto-complete-config"
    ),
    "TLS switched off": "--model-repository=/models --grpc-use-ssl=false",
    "traces": (
        "--trace-config triton,file=/apps/trace.json --trace-config triton,log-frequency=50 --trace-config rate=100 "
        "--trace-config level=TIMESTAMPS --trace-config count=100 --model-repository=/apps/models "
        "--disable-auto-complete-config --log-verbose=0"
    ),
    "traces prepared, not switched on": (
        "--model-repository=/model_repo --trace-config mode=opentelemetry "
        "--trace-config opentelemetry,url=http://10.10.12.30:4318/v1/traces"
    ),
    "S3 on Kubernetes": (
        "--model-repository=s3://ml-models/triton-repo/ --model-control-mode=poll --repository-poll-secs=60"
    ),
    "an S3 server of one's own": "--model-repository=s3://https://minio.example:9000/models/a --model-namespacing=true",
    "Google Cloud Storage": "--model-store=gs://bucket/path/to/model/repository",
    "Azure Storage": "--model-repository=as://account.blob.core.windows.net/container/models",
    "IPv6": "--model-repository=/models --http-address ipv6:[::1]",
    "cores by GPU": ("--model-repository=/models --host-policy=gpu_0,numa-node=0 --host-policy=gpu_0,cpu-cores=0-15"),
    "rate limiting": (
        "--model-repository=/models --rate-limit=execution_count --rate-limit-resource=gpu_memory:0:3800"
    ),
    "the Java client's tests": (
        "--model-repository=/models --model-control-mode=explicit --load-model=identity_fp32 --log-verbose=1"
    ),
    "all at the start, then by request": "--model-repository=/models --model-control-mode=explicit --load-model=*",
    "SageMaker": (
        "--allow-sagemaker=true --allow-http=false --model-control-mode=explicit --model-repository=/opt/ml/model "
        "--model-namespacing=true --sagemaker-port=8080 --allow-grpc=false --allow-metrics=false --log-verbose=true "
        "--backend-config=python,shm-default-byte-size=16777216 --backend-config=python,shm-growth-byte-size=1048576"
    ),
    "Vertex AI with a folder of its own": (
        "--model-repository=/models --model-control-mode=poll --repository-poll-secs=60 --allow-http=true "
        "--allow-vertex-ai=True"
    ),
    "shared memory": (
        "--model-repository=/models --allow-client-shm=true --http-port=8000 --grpc-port=8001 --metrics-port=8002"
    ),
    "TLS both ways": (
        "--model-repository=/models --model-control-mode=explicit --load-model=identity_fp32 --grpc-use-ssl=1 "
        "--grpc-use-ssl-mutual=1 --grpc-server-cert=/certs/server.pem --grpc-server-key=/certs/server.key "
        "--grpc-root-cert=/certs/ca.pem --log-verbose=1"
    ),
    "a guarded repository": (
        "--model-repository=/models --exit-on-error=true --http-restricted-api=model-repository:access-key=admin "
        "--model-control-mode=explicit --load-model=resnet50_res512_all"
    ),
}

# Triton refuses these as well; what the sentence has to say beyond that.
REFUSED: dict[str, tuple[str, str]] = {
    "a pool by a wrong name": (
        "--model-repository=/models --cuda-memory-pool-size=67108864 --min-supported-compute-capability=7.0",
        "did you mean --cuda-memory-pool-byte-size?",
    ),
    "one dash": ("-model-control-mode=poll --repository-poll-secs=60", "did you mean --model-control-mode?"),
    "a value forgotten": (
        "--model-repository models --allow-metrics --allow-gpu-metrics",
        "--allow-metrics: expected true or false, got '--allow-gpu-metrics'",
    ),
    "another server's flag": ("--model-repository=/models --multi-model --log-verbose=1", "'--multi-model'"),
    "models by name without control by request": (
        "--model-store=/models --load-model=yolo_preprocess_dali",
        "requires --model-control-mode=explicit",
    ),
    "a flag of long ago": (
        "--model-store=/models --allow-poll-model-repository=true",
        "unrecognized option '--allow-poll-model-repository'",
    ),
}
