"""The page on limits and the flags say the same."""

import re
from pathlib import Path

from charonia.cli.flags import FLAGS, GROUPS
from charonia.options import ServerOptions

PAGE = (Path(__file__).parents[2] / "docs/limits.md").read_text()
NAMED = set(re.findall(r"`--([a-z0-9-]+)`", PAGE))


def test_every_flag_on_the_page_exists_and_every_limit_is_on_the_page() -> None:
    assert set(FLAGS) >= NAMED
    assert {flag.name for flag in GROUPS["Limits"]} <= NAMED


def test_the_defaults_on_the_page() -> None:
    options = ServerOptions()
    shown = {
        "--grpc-max-message-size": options.grpc_max_message_size,
        "--request-max-tensors": options.request_max_tensors,
        "--request-max-parameters": options.request_max_parameters,
        "--max-waiting-requests": options.max_waiting_requests,
        "--http2-max-concurrent-streams": options.http2_max_concurrent_streams,
        "--http2-max-control-frames": options.http2_max_control_frames,
        "--read-timeout-secs": options.read_timeout_secs,
        "--write-timeout-secs": options.write_timeout_secs,
    }
    for flag, default in shown.items():
        rows = [line for line in PAGE.splitlines() if f"`{flag}`" in line]
        assert rows, flag
        assert all(re.search(rf"\\| {default}( bytes| s)? \\|", row) for row in rows), (flag, default, rows)
