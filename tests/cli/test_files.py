"""Files that people write: their lines are known, and what YAML would let pass in silence is told."""

from pathlib import Path

import pytest

from service.cli.files import FileWrong, read_file
from service.cli.fleet.schema import fleet_of

GOOD = """\
# a comment
profiles:
  chat: &base
    python: /opt/sglang/bin/python
    model_path: /models/chat
    gpu_count: 2
    env: {DATE: 2026-11-29}
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    return str(path)


def wrong(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(FileWrong) as caught:
        fleet_of(read_file(written(tmp_path, text)))
    return [message.removeprefix(f"{tmp_path}/") for message in caught.value.messages]


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    as_yaml = read_file(written(tmp_path, GOOD))
    as_json = read_file(written(tmp_path, '{"profiles": {"chat": {"gpu_count": 2}}}'))
    assert as_yaml.value["profiles"]["chat"]["gpu_count"] == as_json.value["profiles"]["chat"]["gpu_count"] == 2


def test_a_date_is_text(tmp_path: Path) -> None:
    assert read_file(written(tmp_path, GOOD)).value["profiles"]["chat"]["env"] == {"DATE": "2026-11-29"}


def test_lines_are_those_of_the_keys(tmp_path: Path) -> None:
    parsed = read_file(written(tmp_path, GOOD))
    assert parsed.lines["profiles", "chat", "gpu_count"] == 6
    assert parsed.message(("profiles", "chat", "limits", "start_s"), "no").endswith("fleet.yaml:3: profiles.chat: no")
    assert parsed.message((), "no").endswith("fleet.yaml:2: no")


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("", ["fleet.yaml:1: it is empty"]),
        ("servers: [", ["fleet.yaml:1: expected the node content, but found '<stream end>'"]),
        ("a: 1\nb: 2\na: 3\n", ["fleet.yaml:3: a: it stands on line 1 already"]),
        (
            "a: {b: 1}\nc: !!python/object:os.system {}\n",
            ["fleet.yaml:2: could not determine a constructor"],
        ),
        ("a: .nan\n", ["fleet.yaml: it holds what JSON has no word for"]),
        ("a: &x [*x]\n", ["fleet.yaml: it "]),
        ("servers:\n  chat:\n    node: y\n", ["fleet.yaml:2: servers.chat.profile: Field required"]),
        (
            "nodes:\n  a:\n    address: a\n    user: b\n    credential:\n      kind: key_file\n",
            ["fleet.yaml:5: nodes.a.credential.path: Field required"],
        ),
        ("- a\n", ["fleet.yaml:1: Input should be a valid dictionary"]),
        ("nods: {}\n", ["fleet.yaml:1: nods: Extra inputs are not permitted"]),
        (
            "servers:\n  Chat:\n    profile: x\n    node: y\n",
            ["fleet.yaml:2: servers.Chat: String should match"],
        ),
        (
            "servers:\n  chat:\n    profile: x\n    node: y\n    port: 0\n    state: happy\n    gpus: [0]\n",
            [
                "fleet.yaml:5: servers.chat.port: Input should be greater than or equal to 1",
                "fleet.yaml:6: servers.chat.state: Input should be 'ready' or 'stopped'",
            ],
        ),
        (
            "servers:\n  chat:\n    profile: x\n    node: y\n    gpus: [0]\n    gpu_count: 1\n",
            ["fleet.yaml:2: servers.chat: give gpus or gpu_count, not both"],
        ),
        (
            "nodes:\n  a:\n    address: a\n    user: b\n    credential:\n      kind: key_file\n      path: relative\n",
            ["fleet.yaml:7: nodes.a.credential.path: String should match pattern"],
        ),
        (
            "profiles:\n  chat:\n    python: /p\n    model_path: /m\n    gpu_count: 1\n    env:\n      HF_TOKEN: x\n",
            ["fleet.yaml:6: profiles.chat.env: HF_TOKEN looks like a secret"],
        ),
    ],
)
def test_what_is_wrong_is_told_with_line_and_field(tmp_path: Path, text: str, messages: list[str]) -> None:
    told = wrong(tmp_path, text)
    assert len(told) == len(messages)
    for line, beginning in zip(told, messages, strict=True):
        assert line.startswith(beginning)


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    levels = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 9)]
    assert "more than" in wrong(tmp_path, "\n".join(["a0: &a0 [x]", *levels]))[0]


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(FileWrong, match="No such file"):
        read_file(str(tmp_path / "none.yaml"))
    (tmp_path / "image").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileWrong, match="not UTF-8"):
        read_file(str(tmp_path / "image"))


def test_the_example_is_right() -> None:
    example = Path(__file__).parents[2] / "deploy" / "fleet.example.yaml"
    file = fleet_of(read_file(str(example)))
    assert file.nodes
    assert file.profiles
    assert file.servers
    assert file.benchmarks
    assert {server.profile for server in file.servers.values()} <= set(file.profiles)
    assert {server.node for server in file.servers.values()} <= set(file.nodes)
