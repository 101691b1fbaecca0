"""The flags that Triton 2.73 and 2.51 have, by what they take; `--help` aside. Compared with the table of flags."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WITHOUT_VALUE = _names("""
    disable-auto-complete-config
""")
BOOLEANS = _names("""
    exit-on-error strict-readiness model-namespacing enable-peer-access allow-http reuse-http-port allow-grpc
    reuse-grpc-port grpc-use-ssl grpc-use-ssl-mutual grpc-keepalive-permit-without-calls log-info log-warning
    log-error allow-sagemaker allow-vertex-ai allow-metrics allow-gpu-metrics allow-cpu-metrics
    allow-client-shm strict-model-config
""")
INTEGERS = _names("""
    exit-timeout-secs repository-poll-secs model-load-thread-count model-load-retry-count http-port
    http-thread-count http-max-input-size grpc-port grpc-infer-thread-count grpc-infer-allocation-pool-size
    grpc-max-response-pool-size grpc-keepalive-time grpc-keepalive-timeout grpc-http2-max-pings-without-data
    grpc-http2-min-recv-ping-interval-without-data grpc-http2-max-ping-strikes grpc-max-connection-age
    grpc-max-connection-age-grace log-verbose sagemaker-port sagemaker-thread-count vertex-ai-port
    vertex-ai-thread-count metrics-port pinned-memory-pool-byte-size buffer-manager-thread-count
    response-cache-byte-size trace-rate trace-count trace-log-frequency
""")
NUMBERS = _names("""
    metrics-interval-ms min-supported-compute-capability
""")
TEXTS = _names("""
    id model-store model-repository model-control-mode load-model model-config-name http-address
    http-header-forward-pattern grpc-address grpc-header-forward-pattern grpc-server-cert grpc-server-key
    grpc-root-cert grpc-infer-response-compression-level log-format log-file vertex-ai-default-model
    metrics-address cache-directory rate-limit backend-directory repoagent-directory trace-file trace-level
""")
SETTINGS = _names("""
    http-restricted-api grpc-restricted-protocol sagemaker-safe-port-range metrics-config trace-config
    cache-config rate-limit-resource cuda-memory-pool-byte-size cuda-virtual-address-size host-policy
    model-load-gpu-limit backend-config
""")
