"""`vigil bench …`: benchmarks of servers."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli.completion import servers
from service.cli.options import (
    DEFAULT_URL,
    JsonOption,
    LimitOption,
    ProfileArgument,
    ProfileOption,
    ServerArgument,
    ServerOption,
    TimeoutOption,
    UrlOption,
)

app = typer.Typer(no_args_is_help=True, help="Benchmarks: run them on a server's node, import and compare them.")
BenchmarkOption = Annotated[str | None, typer.Option("--benchmark", help="Only of this benchmark.")]
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
    timeout_s: TimeoutOption = RUN_WAIT_S,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Measure a server that is ready; `vigil operations cancel` ends it. With --wait code 1: it did not succeed."""
    from service.cli import bench_run

    given = {"server": server, "benchmark": benchmark, "repeats": repeats, "against": against}
    wish = {name: value for name, value in given.items() if value is not None}
    raise typer.Exit(bench_run.begin(url, wish, wait_s=timeout_s if wait else None, as_json=as_json))


@app.command("runs")
def list_runs(
    *,
    server: ServerOption = None,
    profile: ProfileOption = None,
    benchmark: BenchmarkOption = None,
    state: Annotated[str | None, typer.Option(help="Only in this state, such as succeeded.")] = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List the newest runs, with the throughput at each of their loads."""
    from service.cli import bench_kept

    wanted = {"server": server, "profile": profile, "benchmark": benchmark, "state": state}
    raise typer.Exit(bench_kept.show_runs(url, wanted, limit=limit, as_json=as_json))


@app.command("import")
def import_results(
    file: Annotated[Path, typer.Argument(help="What sglang, vllm, guidellm, aiperf, genai-perf or evalscope wrote.")],
    *,
    profile: Annotated[str | None, typer.Option(help="The profile that was measured.")] = None,
    server: Annotated[str | None, typer.Option(help="Instead: the server that was measured.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="The name of what was run.")] = None,
    model: Annotated[str | None, typer.Option(help="The model, where the file does not tell it.")] = None,
    gpu_model: Annotated[str | None, typer.Option(help="The GPUs, where the file does not tell them.")] = None,
    gpu_count: Annotated[int | None, typer.Option(min=1, help="How many of them the server used.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Keep a result file that was made elsewhere as a run."""
    from service.cli import bench_kept

    about = {"profile": profile, "server": server, "benchmark": benchmark, "model": model}
    hardware = {"gpu_model": gpu_model, "gpu_count": gpu_count}
    raise typer.Exit(bench_kept.import_file(url, file, about=about | hardware, as_json=as_json))


@app.command("baseline")
def pin_baseline(
    profile: ProfileArgument,
    run: Annotated[str, typer.Argument(help="The id of a run of the profile that succeeded.")],
    *,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Make a run what later runs of the profile and benchmark are compared with when they end."""
    from service.cli import bench_kept

    raise typer.Exit(bench_kept.pin(url, profile, run, as_json=as_json))


def compare(
    baseline: Annotated[str, typer.Argument(help="The id of a run, ids with commas, or a profile: its baseline.")],
    candidates: Annotated[list[str], typer.Argument(help="The id of a run; several are one side.", metavar="RUN...")],
    *,
    primary: Annotated[str | None, typer.Option(help="The metric that decides; by default by the load.")] = None,
    threshold: Annotated[float | None, typer.Option(help="A smaller change, as a share, is none; 0.02.")] = None,
    accept: Annotated[
        list[str] | None, typer.Option(help="A field of the key that may differ, such as gpu_model.")
    ] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Compare benchmark runs: ratio, interval and verdict for each metric; exit code 1 when it regressed."""
    from service.cli import comparing

    wanted = {"primary": primary, "threshold": threshold, "accept": accept or None}
    raise typer.Exit(comparing.show(url, baseline, candidates, wanted=wanted, as_json=as_json))
