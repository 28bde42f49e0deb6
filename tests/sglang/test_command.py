"""The command of a launch: argv, environment and config file, by version."""

import pytest

from service.profiles.profile import Profile, SecretReference
from service.sglang.arguments import argument_tokens
from service.sglang.command import Placement, config_file, engine_command, is_log_quiet, probe_host, version_tuple

PLACEMENT = Placement(port=30007, gpu_uuids=("GPU-a", "GPU-b"))


def profile(**fields: object) -> Profile:
    return Profile.model_validate({"python": "/env/bin/python", "model_path": "/models/m", "gpu_count": 2, **fields})


def test_argv_is_a_list_in_a_stable_order() -> None:
    command = engine_command(
        profile(server_args={"tp-size": 2, "disable-radix-cache": True, "enable-x": False}, env={"A": "1"}),
        PLACEMENT,
        version="0.5.23",
        config_path="CONFIG",
    )
    assert command.argv == (
        *("/env/bin/python", "-m", "sglang.launch_server", "--model-path", "/models/m"),
        *("--enable-metrics", "--tp-size", "2", "--disable-radix-cache", "--port", "30007"),
    )
    assert command.environment == {"A": "1", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}


def test_metrics_can_be_declined() -> None:
    command = engine_command(
        profile(server_args={"enable-metrics": False}), PLACEMENT, version="0.5.23", config_path="CONFIG"
    )
    assert "--enable-metrics" not in command.argv


@pytest.mark.parametrize(
    ("version", "in_config"),
    [("0.5.23", True), ("0.5.10.post1", True), ("0.5.6.post2", True), ("0.5.2", False), (None, True)],
)
def test_a_secret_goes_into_the_config_file_where_the_version_has_one(version: str | None, *, in_config: bool) -> None:
    recipe = profile(secret_args={"api-key": SecretReference(env="KEY")})
    command = engine_command(recipe, PLACEMENT, version=version, config_path="CONFIG")
    assert (command.argv[-2:] == ("--config", "CONFIG")) is in_config
    assert command.secret_config == (("api-key",) if in_config else ())
    assert command.secret_argv == (() if in_config else ("api-key",))


def test_without_gpus_none_are_hidden_or_named() -> None:
    command = engine_command(profile(), Placement(30000, ()), version="0.5.23", config_path="CONFIG")
    assert "CUDA_VISIBLE_DEVICES" not in command.environment


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (True, ("--name",)),
        (False, ()),
        (None, ()),
        (3, ("--name", "3")),
        (0.85, ("--name", "0.85")),
        ("a b; $(reboot)", ("--name", "a b; $(reboot)")),
        (-1, ("--name=-1",)),
        ("--x", ("--name=--x",)),
        ([1, 2], ("--name", "1", "2")),
        ([], ()),
        ({"a": 1}, ("--name", '{"a":1}')),
    ],
)
def test_how_a_value_becomes_tokens(value: object, tokens: tuple[str, ...]) -> None:
    assert tuple(argument_tokens("name", value)) == tokens  # type: ignore[arg-type]


def test_the_config_file_survives_odd_secrets() -> None:
    assert config_file({"api-key": 'a: "b" #c\n'}) == 'api-key: "a: \\"b\\" #c\\n"\n'


def test_versions_compare_by_their_numbers() -> None:
    assert version_tuple("0.5.10.post1") == (0, 5, 10)
    assert version_tuple("0.5.10") > version_tuple("0.5.6.post2")


def test_a_wildcard_address_is_asked_on_loopback() -> None:
    assert probe_host(profile(server_args={"host": "0.0.0.0"})) == "127.0.0.1"
    assert probe_host(profile(server_args={"host": "10.0.0.5"})) == "10.0.0.5"
    assert probe_host(profile()) == "127.0.0.1"


def test_log_levels_that_hide_the_ready_line() -> None:
    assert is_log_quiet(profile(server_args={"log-level": "WARNING"}))
    assert not is_log_quiet(profile())
