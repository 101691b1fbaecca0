"""The wire's settings from those of the server."""

from collections.abc import Iterable

from charonia._wire import WireOptions
from charonia.config.proto.pool import FILE_DESCRIPTOR_SET
from charonia.frontend.header_pattern import check_header_pattern
from charonia.frontend.machine import default_max_connections, default_request_memory
from charonia.frontend.restrictions import SAGEMAKER_PATHS, grpc_classes, http_classes
from charonia.options import GATEWAY_ADDRESS, ServerOptions


def wire_options(
    options: ServerOptions, server_header: str, grpc_answer_delay_s: int = 0, mounts: Iterable[str] = ()
) -> WireOptions:
    """
    Args:
        grpc_answer_delay_s: an aid for tests of clients (`testing_aids.py`).
        mounts: prefixes of apps on the HTTP port.

    Raises:
        InvalidArgumentError: a pattern of header names can't be read.
    """
    check_header_pattern(options.http_header_forward_pattern, "http")
    check_header_pattern(options.grpc_header_forward_pattern, "grpc")
    return WireOptions(
        http_address=options.http_address,
        http_port=options.http_port if options.allow_http else None,
        grpc_address=options.grpc_address,
        grpc_port=options.grpc_port if options.allow_grpc else None,
        metrics_address=options.metrics_listen_address,
        metrics_port=options.metrics_port if options.allow_metrics else None,
        sagemaker_address=GATEWAY_ADDRESS,
        sagemaker_port=options.sagemaker_port if options.allow_sagemaker else None,
        vertex_ai_address=GATEWAY_ADDRESS,
        vertex_ai_port=options.vertex_ai_port if options.allow_vertex_ai else None,
        http_threads=options.http_thread_count,
        sagemaker_threads=options.sagemaker_thread_count,
        vertex_ai_threads=options.vertex_ai_thread_count,
        reuse_http_port=options.reuse_http_port,
        reuse_grpc_port=options.reuse_grpc_port,
        http_max_input_bytes=options.http_max_input_size,
        grpc_max_message_bytes=options.grpc_max_message_size,
        grpc_compression_level=options.grpc_infer_response_compression_level,
        grpc_keepalive_time_ms=options.grpc_keepalive_time,
        grpc_keepalive_timeout_ms=options.grpc_keepalive_timeout,
        grpc_keepalive_permit_without_calls=options.grpc_keepalive_permit_without_calls,
        grpc_min_recv_ping_interval_ms=options.grpc_http2_min_recv_ping_interval_without_data,
        grpc_max_ping_strikes=options.grpc_http2_max_ping_strikes,
        grpc_max_connection_age_ms=options.grpc_max_connection_age,
        grpc_max_connection_age_grace_ms=options.grpc_max_connection_age_grace,
        grpc_answer_delay_ms=grpc_answer_delay_s * 1000,
        max_connections=options.max_connections or default_max_connections(),
        idle_timeout_ms=options.idle_timeout_secs * 1000,
        read_timeout_ms=options.read_timeout_secs * 1000,
        write_timeout_ms=options.write_timeout_secs * 1000,
        max_header_bytes=options.max_header_size,
        inbox_max_calls=options.max_waiting_requests,
        body_budget_bytes=options.request_memory_limit or default_request_memory(),
        request_max_tensors=options.request_max_tensors,
        request_max_parameters=options.request_max_parameters,
        http2_max_streams=options.http2_max_concurrent_streams,
        http2_max_control_frames=options.http2_max_control_frames,
        access_log=options.access_log_format if options.access_log else "",
        http_tls=_tls(options, "http"),
        grpc_tls=_tls(options, "grpc"),
        metrics_tls=_tls(options, "metrics"),
        http_restrictions=http_classes(options.http_keys(), mounts, SAGEMAKER_PATHS if options.allow_sagemaker else ()),
        grpc_restrictions=grpc_classes(options.grpc_keys()),
        http_forward_pattern=options.http_header_forward_pattern,
        grpc_forward_pattern=options.grpc_header_forward_pattern,
        server_header=server_header,
        file_descriptor_set=FILE_DESCRIPTOR_SET,
    )


def _tls(options: ServerOptions, door: str) -> tuple[str, str, str | None] | None:
    files = options.tls_of(door)
    return None if files is None else (files.certificate, files.key, files.client_roots)
