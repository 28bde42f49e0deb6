"""Secrets in result files: masked by the name of their field or argument; nothing else is touched."""

import contextlib
import json
import time

import pytest

from service.benchmarks.importing import RejectionReason, ResultFileRejected, import_file
from service.benchmarks.importing.redaction import redacted
from tests.benchmarks.tool_files import sglang_line

SECRET = "sk-4f9a1c"  # noqa: S105


@pytest.mark.parametrize(
    "document",
    [
        {"api_key": SECRET},
        {"server_info": {"admin_api_key": f'{SECRET}\\"and more"'}},
        {"launch_command": f"python -m sglang.launch_server --api-key {SECRET} --tp 8"},
        {"launch_command": f"--api-key={SECRET}"},
        {"argv": ["--admin-api-key", SECRET, "--tp", "8"]},
        {"hf_token": SECRET},
        {"ssl_keyfile_password": SECRET},
        {"headers": {"Authorization": f"Bearer {SECRET}"}},
        {"headers": f"Authorization: Bearer {SECRET}"},
        {"inner": json.dumps({"api_key": SECRET})},
        {"inner": json.dumps({"inner": json.dumps({"argv": ["--api-key", SECRET]})})},
        {"API-KEY": SECRET},
        {"aws_secret_access_key": SECRET},
    ],
)
def test_a_secret_is_masked_and_the_file_stays_json(document: dict[str, object]) -> None:
    content = json.dumps({"before": 1, **document, "after": "kept"}).encode()
    masked = redacted(content)
    assert SECRET.encode() not in masked
    read = json.loads(masked)
    assert (read["before"], read["after"], read.keys()) == (1, "kept", {"before", *document, "after"})
    assert redacted(masked) == masked


@pytest.mark.parametrize(
    "document",
    [
        {"tokenizer_path": "/models/kimi", "max_new_tokens": 5, "token_ids": [1, 2], "output_token": 3},
        {"api_key": None, "admin_api_key": ""},
        {"text": "the bearer of a token is its cookie's owner"},
        {"argv": ["--tokenizer-path", "/models/kimi", "--max-total-tokens", "100"]},
    ],
)
def test_what_is_no_secret_stays(document: dict[str, object]) -> None:
    content = json.dumps(document).encode()
    assert redacted(content) == content


def test_a_masked_file_of_a_client_is_still_imported() -> None:
    content = sglang_line(server_info={"version": "0.5.23", "api_key": SECRET, "launch_command": f"--api-key {SECRET}"})
    masked = redacted(content)
    assert SECRET.encode() not in masked
    assert import_file(masked).results[0].result.rates == import_file(content).results[0].result.rates


@pytest.mark.parametrize(
    "unit", [b'"', b'"api_key":', b"--", b'"a', b"bearer ", b"\\", b"token", b"--token-", b'["api_key', b"api_key"]
)
def test_hostile_bytes_cost_time_in_proportion_to_their_number(unit: bytes) -> None:
    began_s = time.process_time()
    with contextlib.suppress(ResultFileRejected):
        redacted(unit * (1_000_000 // len(unit)))
    assert time.process_time() - began_s < 3


def test_a_file_of_secrets_is_refused() -> None:
    with pytest.raises(ResultFileRejected) as raised:
        redacted(b'{"token": "x"}' * 20_000)
    assert raised.value.reason is RejectionReason.TOO_MANY_VALUES
