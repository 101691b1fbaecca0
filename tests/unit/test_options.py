"""Flags and options: what is written twice is compared, and Triton's spellings are read."""

import pytest

from charonia.cli.flags import FLAGS, GROUPS, Effect
from charonia.cli.parse import parse_flags
from charonia.cli.usage import usage
from charonia.core.errors import InvalidArgumentError
from charonia.options import ServerOptions

REPOSITORY = "--model-repository=/models"


def test_every_option_has_a_flag_and_every_working_flag_an_option() -> None:
    assert {flag.option for flag in FLAGS.values() if flag.option} == set(ServerOptions.names())
    assert [flag.name for flag in FLAGS.values() if flag.effect is Effect.WORKS and not flag.option] == []
    assert sum(len(group) for group in GROUPS.values()) == len(FLAGS)


def test_the_help_names_every_flag() -> None:
    text = usage("charonia serve")
    assert all(f"--{name}" in text for name in FLAGS)


def test_defaults() -> None:
    assert parse_flags([REPOSITORY]).options == ServerOptions(model_repository=("/models",))


@pytest.mark.parametrize("spelling", ["true", "True", "TRUE", "on", "1"])
def test_true(spelling: str) -> None:
    assert parse_flags([REPOSITORY, f"--reuse-http-port={spelling}"]).options.reuse_http_port is True


@pytest.mark.parametrize("spelling", ["false", "False", "off", "0"])
def test_false(spelling: str) -> None:
    assert parse_flags([REPOSITORY, "--strict-readiness", spelling]).options.strict_readiness is False


def test_a_space_or_an_equals_sign() -> None:
    options = parse_flags(["--model-repository", "/models", "--http-port=0", "--grpc-port", "0"]).options
    assert (options.model_repository, options.http_port, options.grpc_port) == (("/models",), 0, 0)


def test_repeated_flags_add_up_or_the_last_counts() -> None:
    options = parse_flags(
        [
            "--model-repository=/a",
            "--model-store=/b",
            "--backend-config=python,execution=inline",
            "--backend-config=default-max-batch-size=8",
            "--backend-config=python,execution=isolated",
            "--metrics-config=summary_latencies=true",
            "--id=one",
            "--id=two",
        ]
    ).options
    assert options.model_repository == ("/a", "/b")
    assert options.backend_config == {"python": {"execution": "isolated"}, "": {"default-max-batch-size": "8"}}
    assert options.metrics_config == {"summary_latencies": "true"}
    assert options.id == "two"


@pytest.mark.parametrize(
    "name", ["http_port", "grpc_port", "http_thread_count", "exit_timeout_secs", "metrics_interval_ms"]
)
@pytest.mark.parametrize("value", [None, "80"])
def test_numbers_that_are_none(name: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"--{name.replace('_', '-')} must be a .*number, got {value!r}"):
        ServerOptions.of(model_repository=["/models"], **{name: value})


def test_a_flag_without_a_value() -> None:
    assert parse_flags([REPOSITORY, "--disable-auto-complete-config"]).options.disable_auto_complete_config
    with pytest.raises(InvalidArgumentError, match="takes no value"):
        parse_flags([REPOSITORY, "--disable-auto-complete-config=true"])


def test_a_switch_can_not_be_taken_back() -> None:
    switch, old = "--disable-auto-complete-config", "--strict-model-config"
    assert parse_flags([REPOSITORY, switch, f"{old}=false"]).options.disable_auto_complete_config
    assert parse_flags([REPOSITORY, f"{old}=false", switch]).options.disable_auto_complete_config
    assert not parse_flags([REPOSITORY, f"{old}=true", f"{old}=false"]).options.disable_auto_complete_config


def test_what_is_named_twice_is_one() -> None:
    control = "--model-control-mode=Explicit"
    options = parse_flags([REPOSITORY, "--model-store=/models", control, "--load-model=*", "--load-model=*"]).options
    assert (options.model_repository, options.load_model) == (("/models",), ("*",))


@pytest.mark.parametrize(
    ("flag", "option", "value"),
    [
        ("--exit-timeout-secs=-1", "exit_timeout_secs", 0),
        ("--repository-poll-secs=-5", "repository_poll_secs", 0),
        ("--model-load-thread-count=0", "model_load_thread_count", 1),
        ("--http-thread-count=-3", "http_thread_count", 1),
        ("--http-thread-count=128", "http_thread_count", 128),
    ],
)
def test_numbers_below_the_least_count_as_the_least_where_they_do_in_triton(flag: str, option: str, value: int) -> None:
    name, _, number = flag.partition("=")
    assert getattr(parse_flags([REPOSITORY, flag]).options, option) == value
    assert getattr(parse_flags([REPOSITORY, name, number]).options, option) == value


@pytest.mark.parametrize("address", ["::1", "[::1]", "ipv6:[::1]"])
def test_addresses_of_ipv6(address: str) -> None:
    options = parse_flags([REPOSITORY, f"--http-address={address}", f"--grpc-address={address}"]).options
    assert (options.http_address, options.grpc_address) == ("::1", "::1")


def test_names_and_values_with_commas_and_equals_signs() -> None:
    options = parse_flags(
        [REPOSITORY, "--backend-config=python,a,b=c=d,e", "--metrics-config=summary_quantiles=0.5:0.05,0.9:0.01"]
    ).options
    assert options.backend_config == {"python": {"a,b": "c=d,e"}}
    assert options.metrics_config == {"summary_quantiles": "0.5:0.05,0.9:0.01"}


def test_two_dashes_end_the_flags() -> None:
    assert parse_flags([REPOSITORY, "--"]).options.model_repository == ("/models",)


def test_two_doors_need_two_ports() -> None:
    same = [REPOSITORY, "--http-port=5000", "--metrics-port=5000"]
    with pytest.raises(InvalidArgumentError, match="--http-port and --metrics-port are both 5000"):
        parse_flags(same)
    assert parse_flags([*same, "--allow-metrics=false"])
    assert parse_flags([*same, "--metrics-address=127.0.0.1"])


@pytest.mark.parametrize("door", ["http", "grpc", "metrics"])
def test_the_port_of_a_door_that_is_turned_off_may_be_none(door: str) -> None:
    assert parse_flags([REPOSITORY, f"--{door}-port=-47", f"--allow-{door}=0"])
    with pytest.raises(InvalidArgumentError, match=f"--{door}-port must be from 0 to 65535, got -47"):
        parse_flags([REPOSITORY, f"--{door}-port=-47"])


def test_an_unambiguous_beginning_is_enough() -> None:
    assert parse_flags(["--model-repo=/a"]).options.model_repository == ("/a",)
    with pytest.raises(InvalidArgumentError, match="ambiguous"):
        parse_flags(["--model=/a"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--model-repository must be specified"),
        ([REPOSITORY, "--htp-port=1"], "did you mean --http-port"),
        ([REPOSITORY, "--foo"], "unrecognized option '--foo'"),
        ([REPOSITORY, "--http-port=x"], "--http-port: expected a whole number, got 'x'"),
        ([REPOSITORY, "--http-port=70000"], "from 0 to 65535, got 70000"),
        ([REPOSITORY, "--http-port"], "--http-port requires a value"),
        ([REPOSITORY, "--exit-on-error=maybe"], "expected true or false, got 'maybe'"),
        ([REPOSITORY, "--model-control-mode=foo"], "none, explicit, poll"),
        ([REPOSITORY, "--load-model=x"], "requires --model-control-mode=explicit"),
        ([REPOSITORY, "--model-control-mode=explicit", "--load-model=*", "--load-model=x"], "must stand alone"),
        ([REPOSITORY, "--http-max-input-size=0"], "--http-max-input-size must be from 1 to 9223372036854775807, got 0"),
        ([REPOSITORY, f"--http-max-input-size={2**64}"], "--http-max-input-size must be from 1 to"),
        ([REPOSITORY, "--metrics-interval-ms=nan"], "--metrics-interval-ms must be above 0"),
        ([REPOSITORY, "--metrics-interval-ms=inf"], "--metrics-interval-ms must be above 0"),
        ([REPOSITORY, f"--exit-timeout-secs={10**20}"], "--exit-timeout-secs must be from 0 to"),
        (["--model-repository="], "--model-repository must be specified"),
        ([REPOSITORY, "--backend-config=python"], "expected <name>,<setting>=<value>"),
        ([REPOSITORY, "--backend-config=,a=b"], "expected <name>,<setting>=<value>"),
        ([REPOSITORY, "--host-policy=cpu"], "expected <policy>,<setting>=<value>, got 'cpu'"),
        ([REPOSITORY, "--log-format=xml"], "default, ISO8601, json"),
        ([REPOSITORY, "extra"], "unexpected argument 'extra'"),
        ([REPOSITORY, "--", "extra"], "unexpected argument '--'"),
        (["-model-repository=/m"], "names begin with two dashes; did you mean --model-repository?"),
        ([REPOSITORY, "--HTTP_PORT=1"], "did you mean --http-port?"),
        ([REPOSITORY, "--http-port=8_000"], "--http-port: expected a whole number, got '8_000'"),
        ([REPOSITORY, "--http-port=1.0"], "--http-port: expected a whole number, got '1.0'"),
        ([REPOSITORY, "--log-verbose=on"], "--log-verbose: expected a whole number, got 'on'"),
        ([REPOSITORY, "--model-config-name="], "--model-config-name: expected a name, got nothing"),
    ],
)
def test_what_is_refused_and_how(arguments: list[str], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        parse_flags(arguments)
    assert message in str(refusal.value)


def test_urls_that_are_no_repository_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"hdfs://node/models .* begins with s3://, gs:// or as://"):
        parse_flags(["--model-repository=hdfs://node/models"])


@pytest.mark.parametrize(
    "flag",
    [
        "--rate-limit=OFF",
        "--grpc-use-ssl=false",
        "--allow-client-shm=0",
    ],
)
def test_flags_that_ask_for_nothing(flag: str) -> None:
    assert parse_flags([REPOSITORY, flag]).options.model_repository == ("/models",)


def test_poll_control() -> None:
    options = parse_flags([REPOSITORY, "--model-control-mode=poll", "--repository-poll-secs", "1"]).options
    assert (options.model_control_mode, options.repository_poll_secs) == ("poll", 1)


def test_flags_without_effect_and_deprecated_ones_are_remarked() -> None:
    remarks = parse_flags([REPOSITORY, "--grpc-infer-thread-count=5", "--strict-model-config=false"]).remarks
    assert "--grpc-infer-thread-count" in remarks[0]
    assert "use --disable-auto-complete-config" in remarks[1]


@pytest.mark.parametrize(
    ("flag", "older", "newer"),
    [
        ("--trace-file=/t", "triton,file=/t", "triton,file=/n"),
        ("--trace-level=MAX", "level=MAX", "level=TIMESTAMPS"),
        ("--trace-rate=5", "rate=5", "rate=6"),
        ("--trace-count=7", "count=7", "count=8"),
        ("--trace-log-frequency=9", "triton,log-frequency=9", "triton,log-frequency=10"),
    ],
)
def test_older_flags_of_traces_are_settings(flag: str, older: str, newer: str) -> None:
    assert parse_flags([REPOSITORY, flag]).options.trace_config == (older,)
    both = parse_flags([REPOSITORY, f"--trace-config={newer}", flag]).options
    assert both.trace_config == (older, newer)  # of one setting the last counts


def test_log_verbose_takes_levels_and_words() -> None:
    assert [
        parse_flags([REPOSITORY, f"--log-verbose={word}"]).options.log_verbose for word in ("2", "true", "False")
    ] == [
        2,
        1,
        0,
    ]


def test_an_unknown_setting_by_keyword() -> None:
    with pytest.raises(InvalidArgumentError, match="'http_prot'"):
        ServerOptions.of(http_prot=1)
