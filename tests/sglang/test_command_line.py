"""The command line of a running engine, read back."""

from service.sglang.command_line import read_command


def test_what_vigil_would_launch_is_read_back() -> None:
    command = (
        "/env/bin/python -m sglang.launch_server --model-path /models/m --tp-size 8 --disable-radix-cache "
        "--mem-fraction-static=0.85 --cuda-graph-bs 1 2 4 --port 30000 --api-key *** --host 0.0.0.0"
    )
    read = read_command(command.split())
    assert read.server_args == {
        "tp-size": "8",
        "disable-radix-cache": True,
        "mem-fraction-static": "0.85",
        "cuda-graph-bs": ["1", "2", "4"],
        "host": "0.0.0.0",
    }
    assert read.secrets == ("api-key",)


def test_sglang_serve_takes_its_model_without_a_flag() -> None:
    read = read_command(["/env/bin/sglang", "serve", "/models/m", "--tp", "2"])
    assert read.server_args == {"tp": "2"}


def test_what_is_no_engine_has_no_arguments() -> None:
    assert read_command(["/bin/sleep", "--help"]).server_args == {}
