"""`vigil bench …`: benchmarks of servers."""

from typing import Annotated

import typer

from service.cli.completion import servers
from service.cli.options import DEFAULT_URL, JsonOption, ServerArgument, UrlOption

app = typer.Typer(no_args_is_help=True, help="Benchmarks: run them on a server's node, by the engine's own client.")
RUN_WAIT_S = 86_400


@app.command("run")
def run_benchmark(
    server: ServerArgument,
    benchmark: Annotated[str, typer.Argument(help="The name of a benchmark, or of one that is shipped: smoke.")],
    *,
    repeats: Annotated[int | None, typer.Option(min=1, max=50, help="Repeats of each point; five by default.")] = None,
    against: Annotated[
        str | None, typer.Option(help="A second server, measured in turns with the first.", autocompletion=servers)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, with a live line.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout", min=0, help="With --wait: seconds at most.")] = RUN_WAIT_S,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Measure a server that is ready; `vigil operations cancel` ends it. With --wait code 1: it did not succeed."""
    from service.cli import bench_run

    given = {"server": server, "benchmark": benchmark, "repeats": repeats, "against": against}
    wish = {name: value for name, value in given.items() if value is not None}
    raise typer.Exit(bench_run.begin(url, wish, wait_s=timeout_s if wait else None, as_json=as_json))
