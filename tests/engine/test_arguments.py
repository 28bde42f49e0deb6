"""Arguments judged by the real engine, without a GPU: refusals, suggestions, drifted names, and the time it takes."""

import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.remote.checkpoints import ModelWish
from service.remote.node import NodeSession
from service.remote.ssh import open_connection
from service.sglang.argument_checks import check_arguments
from service.sglang.arguments import ArgumentValue, argument_tokens
from service.sglang.checks import Check, Outcome
from service.sglang.command import version_tuple
from service.sglang.judgement import GpuStandIn, JudgedBy, Judgement, JudgementCache, JudgementKey, judgement_key
from tests.engine.conftest import VERSIONS
from tests.engine.engines import CPU_ARGUMENTS, CPU_ENVIRONMENT, Engine, installed
from tests.sglang.test_argument_checks import MISSPELT
from tests.sshd import Sshd

pytestmark = pytest.mark.engine

H200 = GpuStandIn("NVIDIA H200", 143_771)
B200 = GpuStandIn("NVIDIA B200", 183_359)
MIDDLE, NEW = (0, 5, 16), (0, 5, 23)
WARM_S = 1.0
"""What a judgement may cost at most that is known already; the engine is not asked."""
TORCH_WITH_CUDA = """
import importlib.abc, importlib.util, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "torch.version":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            module.cuda = "13.0"

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""
"""Lets the CPU build of torch say that it was built for CUDA, as the one on a GPU node does."""


class Bench:
    """One engine on this machine, asked over SSH as on a node."""

    def __init__(self, engine: Engine, sshd: Sshd, folder: Path) -> None:
        self.engine = engine
        self._sshd = sshd
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(TORCH_WITH_CUDA)
        self._like_gpu_node = {"PYTHONPATH": str(folder)}

    @property
    def numbers(self) -> tuple[int, ...]:
        return version_tuple(self.engine.version)

    def argv(self, arguments: Mapping[str, ArgumentValue], *, model: str | None = None) -> list[str]:
        words = ["--model-path", model or str(self.engine.model)]
        return [*words, *(token for name, value in arguments.items() for token in argument_tokens(name, value))]

    async def on_cpu(self, arguments: Mapping[str, ArgumentValue], *, model: str | None = None) -> Judgement:
        return await self._judge({**CPU_ARGUMENTS, **arguments}, CPU_ENVIRONMENT, (), model=model)

    async def on_gpus(
        self, arguments: Mapping[str, ArgumentValue], gpu: GpuStandIn = H200, **environment: str
    ) -> Judgement:
        return await self._judge(arguments, {**self._like_gpu_node, **environment}, (gpu, gpu))

    async def key(self, arguments: Mapping[str, ArgumentValue]) -> JudgementKey:
        connection = await open_connection(self._sshd.endpoint())
        try:
            stamps = await NodeSession(connection).judgement_stamps(
                python=str(self.engine.python),
                models=[ModelWish(str(self.engine.model))],
                environment=CPU_ENVIRONMENT,
            )
        finally:
            await connection.close()
        return judgement_key(
            node="nd",
            python=str(self.engine.python),
            argv=self.argv(arguments),
            environment=CPU_ENVIRONMENT,
            gpus=(),
            stamps=stamps,
        )

    async def _judge(
        self,
        arguments: Mapping[str, ArgumentValue],
        environment: Mapping[str, str],
        gpus: tuple[GpuStandIn, ...],
        *,
        model: str | None = None,
    ) -> Judgement:
        connection = await open_connection(self._sshd.endpoint())
        try:
            said = await NodeSession(connection).judge_arguments(
                python=str(self.engine.python),
                argv=[*self.argv(arguments, model=model), "--port", "31119"],
                environment=environment,
                gpus=gpus,
            )
        finally:
            await connection.close()
        _print(self.engine.version, said)
        return said


def _print(version: str, said: Judgement) -> None:
    """Show where the time of a judgement went: what the preflight of a real engine costs."""
    times = said.times
    parts = {"imports": times.imports_s, "parse": times.parse_s, "resolve": times.resolve_s, "in all": times.total_s}
    shown = ", ".join(f"{name} {value:.3f} s" for name, value in parts.items() if value is not None)
    sys.stdout.write(f"\nSGLang {version} judged by {said.how}: {shown}\n")


def arguments_check(said: Judgement, arguments: Mapping[str, ArgumentValue]) -> Check:
    environment, check = check_arguments(said, arguments, engine_version=None)
    assert environment.outcome is Outcome.PASS, environment
    return check


@pytest.fixture(params=VERSIONS, scope="module")
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("arguments")
    with Sshd(folder / "sshd") as sshd:
        yield Bench(installed(request.param), sshd, folder / "site")


async def test_right_arguments_pass_and_the_second_look_needs_no_engine(bench: Bench) -> None:
    shm = set(Path("/dev/shm").iterdir())
    arguments: dict[str, ArgumentValue] = {"tp-size": 1, "mem-fraction-static": 0.5}
    said = await bench.on_cpu(arguments)
    assert (said.how, said.resolution_error, said.unjudged) == (JudgedBy.ENGINE_RESOLVED, None, None)
    assert said.engine_version == bench.engine.version
    check = arguments_check(said, arguments)
    assert check.outcome is Outcome.PASS, check
    assert [entry for entry in set(Path("/dev/shm").iterdir()) - shm if not _is_mapped(entry)] == []

    cache, now = JudgementCache(), datetime.now(UTC)
    cache.keep(await bench.key(arguments), said, now=now)
    began = time.monotonic()
    again = cache.find(await bench.key(arguments), now=now)
    took_s = time.monotonic() - began
    sys.stdout.write(f"SGLang {bench.engine.version} from the cache: {took_s:.3f} s\n")
    assert again == said
    assert took_s < min(WARM_S + said.times.total_s / 4, said.times.total_s)


def _is_mapped(entry: Path) -> bool:
    """Tell whether a living process uses it: then it is another engine's on this machine."""
    try:
        inode = str(entry.stat().st_ino)
    except OSError:
        return True
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text(errors="replace").splitlines()
        except OSError:
            continue
        if any(line.split(maxsplit=5)[4] == inode for line in lines):
            return True
    return False


async def test_misspelt_and_drifted_names_are_told_all_at_once(bench: Bench) -> None:
    arguments: dict[str, ArgumentValue] = {
        **dict.fromkeys(MISSPELT, 1),
        "attention-backend": "flashinfr",
        "cuda-graph-max-bs": 16,
        "cuda-graph-max-bs-decode": 16,
        "pp": 2,
        "tp": 1,
        "ep": 1,
        "disable-cuda-graph": True,
        "enable-dp-attention": True,
        "delete-ckpt": True,
    }
    said = await bench.on_cpu(arguments)
    assert said.how is JudgedBy.ENGINE_PARSED_ONLY
    version, numbers = bench.engine.version, bench.numbers
    for wrong, right in MISSPELT.items():
        check = arguments_check(said, {wrong: 1})
        assert f"SGLang {version} has no --{wrong}" in check.found
        assert f"did you mean --{right}" in (check.remedy or ""), check
    told = arguments_check(said, arguments)
    assert told.outcome is Outcome.FAIL
    assert all(f"--{wrong};" in f"{told.found};" for wrong in MISSPELT)
    assert "did you mean --attention-backend flashinfer?" in (told.remedy or "")
    assert "--delete-ckpt stands for --delete-ckpt-after-loading, which is refused" in told.found

    expected: dict[str, Outcome] = {
        "cuda-graph-max-bs": _by(numbers, Outcome.PASS, Outcome.WARN, Outcome.FAIL),
        "cuda-graph-max-bs-decode": _by(numbers, Outcome.FAIL, Outcome.PASS, Outcome.PASS),
        "pp": Outcome.FAIL,
        "tp": Outcome.WARN,
        "ep": Outcome.PASS,
        "disable-cuda-graph": _by(numbers, Outcome.PASS, Outcome.WARN, Outcome.WARN),
        "enable-dp-attention": _by(numbers, Outcome.PASS, Outcome.PASS, Outcome.WARN),
    }
    alone = Judgement(said.how, version, said.times, options=said.options)
    assert {name: arguments_check(alone, {name: 1}).outcome for name in expected} == expected
    ambiguous = {text.split()[2] for text in said.parse_errors if text.startswith("ambiguous option: ")}
    assert ambiguous == {"--pp", *(["--cuda-graph-max-bs"] if numbers >= NEW else [])}


def _by(numbers: tuple[int, ...], old: Outcome, middle: Outcome, new: Outcome) -> Outcome:
    return new if numbers >= NEW else middle if numbers >= MIDDLE else old


async def test_resolution_on_gpus_that_are_only_told_of(bench: Bench) -> None:
    said = await bench.on_gpus({"tp-size": 2})
    assert (said.how, said.resolution_error, said.unjudged) == (JudgedBy.ENGINE_RESOLVED, None, None)
    assert said.stand_in == "torch.cuda and nvidia-smi answered from facts of 2 x NVIDIA H200"
    nobody = await bench.on_cpu({"device": None})
    assert nobody.how is JudgedBy.ENGINE_RESOLVED, "SGLANG_USE_CPU_ENGINE alone makes it a CPU's"


def speculative(bench: Bench, **numbers: ArgumentValue) -> dict[str, ArgumentValue]:
    draft: dict[str, ArgumentValue] = {
        "speculative-algorithm": "EAGLE3",
        "speculative-draft-model-path": str(bench.engine.model),
    }
    return {**draft, **{name.replace("_", "-"): value for name, value in numbers.items()}}


@pytest.mark.parametrize(
    ("numbers", "found", "remedy"),
    [
        (
            {"speculative_num_draft_tokens": 16},
            "only --speculative-num-draft-tokens is given",
            "add --speculative-num-steps and --speculative-eagle-topk",
        ),
        (
            {"speculative_num_steps": 3},
            "only --speculative-num-steps is given",
            "add --speculative-eagle-topk and --speculative-num-draft-tokens",
        ),
        (
            {
                "speculative_num_steps": 3,
                "speculative_eagle_topk": 4,
                "speculative_num_draft_tokens": 8,
                "page_size": 16,
                "attention_backend": "fa4",
            },
            "page_size > 1",
            "give --page-size 1, topk 1, or one of these backends",
        ),
        (
            {
                "speculative_num_steps": 3,
                "speculative_eagle_topk": 4,
                "speculative_num_draft_tokens": 8,
                "attention_backend": "trtllm_mha",
            },
            "trtllm_mha backend only supports topk = 1",
            "give --speculative-eagle-topk 1",
        ),
        ({"speculative_algorithm": "EAGLE9"}, "EAGLE9", "EAGLE"),
    ],
    ids=["no_steps", "no_topk", "paged_tree", "trtllm_tree", "no_such_algorithm"],
)
async def test_the_five_wrong_speculative_sets_are_refused(
    bench: Bench, numbers: dict[str, ArgumentValue], found: str, remedy: str
) -> None:
    arguments = speculative(bench, **numbers)
    gpu = B200 if "trtllm" in found else H200  # older releases refuse that backend first on any but Blackwell
    check = arguments_check(await bench.on_gpus(arguments, gpu), arguments)
    assert check.outcome is Outcome.FAIL, check
    assert found in check.found, check
    assert remedy in (check.remedy or ""), check


async def test_the_models_configuration_counts_and_the_environment_too(bench: Bench) -> None:
    longer = await bench.on_cpu({"context-length": 4096})
    check = arguments_check(longer, {"context-length": 4096})
    assert check.outcome is Outcome.FAIL
    assert "(4096) is greater than the derived context_length (2048)" in check.found
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1" in (check.remedy or "")
    allowed = await bench.on_gpus({"context-length": 4096}, SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN="1")
    assert (allowed.how, allowed.resolution_error) == (JudgedBy.ENGINE_RESOLVED, None)


async def test_models_that_are_not_here(bench: Bench) -> None:
    absent = arguments_check(await bench.on_cpu({}, model="/models/absent"), {})
    assert (absent.outcome, "Repo id must be in the form" in absent.found) == (Outcome.FAIL, True), absent
    hub = await bench.on_cpu({}, model="acme/not-downloaded")
    assert (hub.how, hub.resolution_error) == (JudgedBy.ENGINE_PARSED_ONLY, None)
    assert "a preflight downloads nothing" in (hub.unjudged or ""), hub
    assert arguments_check(hub, {}).outcome is Outcome.SKIPPED
