"""Flags of the network side: each reaches the setting of the wire that it is about, and no other."""

from typing import Any

import pytest

from charonia.cli.parse import parse_flags
from charonia.frontend import wire_options

REPOSITORY = "--model-repository=/models"

ARRIVES: dict[str, dict[str, Any]] = {
    "--http-address=127.0.0.1": {"http_address": "127.0.0.1", "metrics_address": "127.0.0.1"},
    "--http-port=9": {"http_port": 9},
    "--allow-http=false": {"http_port": None},
    "--reuse-http-port=true": {"reuse_http_port": True},
    "--http-thread-count=3": {"http_threads": 3},
    "--http-max-input-size=9": {"http_max_input_bytes": 9},
    "--http-header-forward-pattern=x": {"http_forward_pattern": "x"},
    "--grpc-address=127.0.0.1": {"grpc_address": "127.0.0.1"},
    "--grpc-port=9": {"grpc_port": 9},
    "--allow-grpc=false": {"grpc_port": None},
    "--reuse-grpc-port=true": {"reuse_grpc_port": True},
    "--grpc-header-forward-pattern=x": {"grpc_forward_pattern": "x"},
    "--grpc-infer-response-compression-level=high": {"grpc_compression_level": "high"},
    "--grpc-keepalive-time=9": {"grpc_keepalive_time_ms": 9},
    "--grpc-keepalive-timeout=9": {"grpc_keepalive_timeout_ms": 9},
    "--grpc-keepalive-permit-without-calls=true": {"grpc_keepalive_permit_without_calls": True},
    "--grpc-http2-min-recv-ping-interval-without-data=9": {"grpc_min_recv_ping_interval_ms": 9},
    "--grpc-http2-max-ping-strikes=9": {"grpc_max_ping_strikes": 9},
    "--grpc-max-connection-age=9": {"grpc_max_connection_age_ms": 9},
    "--grpc-max-connection-age-grace=9": {"grpc_max_connection_age_grace_ms": 9},
    "--grpc-max-message-size=9": {"grpc_max_message_bytes": 9},
    "--metrics-address=127.0.0.1": {"metrics_address": "127.0.0.1"},
    "--metrics-port=9": {"metrics_port": 9},
    "--allow-metrics=false": {"metrics_port": None},
    "--max-connections=9": {"max_connections": 9},
    "--idle-timeout-secs=9": {"idle_timeout_ms": 9000},
    "--read-timeout-secs=9": {"read_timeout_ms": 9000},
    "--write-timeout-secs=9": {"write_timeout_ms": 9000},
    "--max-header-size=9000": {"max_header_bytes": 9000},
    "--max-waiting-requests=9": {"inbox_max_calls": 9},
    "--request-memory-limit=9000000000": {"body_budget_bytes": 9_000_000_000},
    "--request-max-tensors=9": {"request_max_tensors": 9},
    "--request-max-parameters=9": {"request_max_parameters": 9},
    "--http2-max-concurrent-streams=9": {"http2_max_streams": 9},
    "--http2-max-control-frames=900": {"http2_max_control_frames": 900},
    "--access-log=-": {"access_log": "json"},
    "--access-log=- --access-log-format=common": {"access_log": "common"},
    "--allow-sagemaker=true": {"sagemaker_port": 8080},
    "--allow-sagemaker=true --sagemaker-port=9": {"sagemaker_port": 9},
    "--sagemaker-thread-count=9": {"sagemaker_threads": 9},
    "--allow-vertex-ai=true": {"vertex_ai_port": 8080},
    "--allow-vertex-ai=true --vertex-ai-port=9": {"vertex_ai_port": 9},
    "--vertex-ai-thread-count=9": {"vertex_ai_threads": 9},
    "--http-use-ssl=true --http-server-cert=c --http-server-key=k": {"http_tls": ("c", "k", None)},
    "--http-use-ssl-mutual=true --http-server-cert=c --http-server-key=k --http-root-cert=r": {
        "http_tls": ("c", "k", "r")
    },
    "--grpc-use-ssl=true --grpc-server-cert=c --grpc-server-key=k": {"grpc_tls": ("c", "k", None)},
    "--grpc-use-ssl-mutual=true --grpc-server-cert=c --grpc-server-key=k --grpc-root-cert=r": {
        "grpc_tls": ("c", "k", "r")
    },
}


@pytest.fixture
def settings(monkeypatch):
    """What the wire is given for flags."""
    monkeypatch.setattr(wire_options, "WireOptions", lambda **given: given)

    def of(flags: str) -> dict[str, Any]:
        options = parse_flags([REPOSITORY, *flags.split()]).options
        return wire_options.wire_options(options, "server")

    return of


@pytest.mark.parametrize(("flags", "changed"), ARRIVES.items(), ids=ARRIVES.keys())
def test_each_flag_changes_its_own_setting(settings, flags, changed):
    usual, given = settings(""), settings(flags)
    assert {name: value for name, value in given.items() if value != usual[name]} == changed
