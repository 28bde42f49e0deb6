"""What a terminal gets and a pipe does not: colour, the live line, completion."""

import os
import pty
import re
import subprocess
import sys

from service.cli.waiting import bar
from tests.cli.conftest import Operator

COLOUR = re.compile(rb"\x1b\[[0-9;]*3[0-7]m")


def in_terminal(operator: Operator, *arguments: str, columns: int = 80, **extra: str) -> bytes:
    """Run a command in a terminal of so many columns and return what it showed."""
    main, side = pty.openpty()
    environment = {**operator.environment(), "COLUMNS": str(columns), "TERM": "xterm-256color", **extra}
    argv = [sys.executable, "-m", "service", *arguments]
    with subprocess.Popen(argv, stdout=side, stderr=side, stdin=side, env=environment) as process:
        os.close(side)
        shown = b""
        try:
            while part := os.read(main, 65536):
                shown += part
        except OSError:  # how a terminal ends on Linux
            pass
        process.wait(60)
    os.close(main)
    return shown


def test_a_terminal_gets_colour_unless_it_wants_none(operator: Operator) -> None:
    assert COLOUR.search(in_terminal(operator, "nodes"))
    plain = in_terminal(operator, "nodes", NO_COLOR="1")
    assert b"ok" in plain
    assert not COLOUR.search(plain)


def test_a_narrow_terminal_gets_the_columns_that_matter(operator: Operator) -> None:
    wide = in_terminal(operator, "nodes", columns=160, NO_COLOR="1").decode()
    narrow = in_terminal(operator, "nodes", columns=40, NO_COLOR="1").decode()
    assert "engines" in wide
    assert "engines" not in narrow
    assert "contact" in narrow
    visible = re.sub(r"\x1b\[[0-9;]*m", "", narrow)
    assert max(len(line) for line in visible.splitlines()) <= 40


def test_the_shell_completes_commands_and_names(operator: Operator) -> None:
    def completed(line: str) -> list[str]:
        environment = {**operator.environment(), "_VIGIL_COMPLETE": "complete_bash", "COMP_WORDS": line}
        environment["COMP_CWORD"] = str(len(line.split(" ")) - 1)
        code = "from service.cli.app import app; app(prog_name='vigil')"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60, check=False
        )
        return done.stdout.split()

    assert "restart" in completed("vigil re")
    assert completed(f"vigil nodes show {operator.site.name[:2]}") == [operator.site.name]
    assert completed("vigil launch no-such-") == []


def test_the_bar_of_a_start() -> None:
    assert bar(0, 64) == "[" + "." * 20 + "]"
    assert bar(32, 64) == "[" + "#" * 10 + "." * 10 + "]"
    assert bar(70, 64) == "[" + "#" * 20 + "]"
    assert bar(0, 0) == "[" + "." * 20 + "]"
