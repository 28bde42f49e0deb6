"""What a profile may say, and what is said of one that may not."""

from typing import Any

import pytest
from pydantic import ValidationError

from service.profiles.profile import Profile

GOOD: dict[str, Any] = {"python": "/opt/sglang/bin/python", "model_path": "/models/tiny", "gpu_count": 1}


def test_argument_names_are_taken_in_any_spelling() -> None:
    profile = Profile.model_validate({**GOOD, "server_args": {"--tp_size": 8, "Mem-Fraction-Static": 0.8}})
    assert profile.server_args == {"tp-size": 8, "mem-fraction-static": 0.8}


def test_values_keep_their_type() -> None:
    arguments = {"disable-radix-cache": True, "tp-size": 2, "x": 1.5, "lora-paths": ["a", "b"], "json-model": {"a": 1}}
    assert Profile.model_validate({**GOOD, "server_args": arguments}).server_args == arguments


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("server_args", {"port": 30000}, "the port belongs to the server"),
        ("server_args", {"model_path": "/x"}, "give it as model_path"),
        ("server_args", {"api-key": "s3cret"}, "api-key is a secret"),
        ("server_args", {"delete-ckpt-after-loading": True}, "deletes the model directory"),
        ("server_args", {"tp size": 1}, "is not an argument name"),
        ("server_args", {"tp;reboot": 1}, "is not an argument name"),
        ("server_args", {"name": "a\x00b"}, "NUL"),
        ("env", {"HF_TOKEN": "hf_x"}, "looks like a secret"),
        ("env", {"1X": "y"}, "is not a variable name"),
        ("env", {"CUDA_VISIBLE_DEVICES": "0"}, "Vigil sets it"),
        ("secret_args", {"tp-size": {"env": "X"}}, "is not a secret argument"),
        ("secret_env", {"HF_TOKEN": {}}, "exactly one"),
        ("secret_env", {"HF_TOKEN": {"env": "A", "file": "/b"}}, "exactly one"),
        ("python", "bin/python", "pattern"),
        ("python", "/opt/x\n/y", "pattern"),
        ("model_path", "--evil", "pattern"),
        ("gpu_count", -1, "greater than or equal to 0"),
        ("gpu_count", 65, "less than or equal to 64"),
        ("stop_grace_s", 0, "greater than or equal to 1"),
        ("limits", {"start_s": 5}, "greater than or equal to 10"),
        ("nonsense", 1, "Extra inputs"),
    ],
)
def test_a_bad_field_is_named_with_its_fault(field: str, value: object, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Profile.model_validate({**GOOD, field: value})
    (error,) = [item for item in caught.value.errors() if item["loc"][0] == field]
    assert said in error["msg"]


def test_a_false_reserved_flag_is_harmless() -> None:
    assert Profile.model_validate({**GOOD, "server_args": {"delete-ckpt-after-loading": False}})
