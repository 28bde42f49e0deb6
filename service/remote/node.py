"""Everything Vigil asks of a node, as typed calls: each runs one verb of `on_node/` over the node's SSH connection."""

from collections.abc import Mapping, Sequence
from functools import partial

from service.clock import to_text
from service.errors import RemoteCommandFailed
from service.nodes.inventory import Inventory, parse_inventory
from service.preflights.conditions import LaunchConditions
from service.remote import answers, bench_clients, conditions, judgements
from service.remote.bench_clients import ClientLook, ClientOutcome, FileDigest
from service.remote.bundle import PYTHON_ARGV, argument_probe, payload, supervisor_script
from service.remote.checkpoints import ModelWish, RenamedDraft, model_files, renamed_draft
from service.remote.messages import (
    CONFIG_PATH,
    Adopted,
    FoundEngine,
    FoundLaunch,
    HangEvidence,
    LaunchOrder,
    Leftovers,
    LogSlice,
    Refusal,
    Signalled,
    SignalStep,
    Started,
)
from service.remote.ssh import SshConnection
from service.sglang.judgement import GpuStandIn, Judgement, JudgementStamps
from service.sglang.model_files import ModelFiles

ANSWER_MARK = b"VIGIL1 "
LOG_LIMIT_BYTES = 2**20
ON_NODE_PATIENCE_S = 5
"""A verb ends itself on the node so long after its deadline here, for the case that nobody listens any more."""
COMMAND_NOT_FOUND = 127

DEADLINES_S: Mapping[str, float] = {
    "inventory": 90,
    "stage_and_start": 30,
    "list_launches": 20,
    "remove_launch": 30,
    "signal": 20,
    "verify": 60,
    "read_log": 30,
    "engine_version": 45,
    "hang_evidence": 60,
    "cached_share": 20,
    "find_engines": 60,
    "adopt": 30,
    "read_model_files": 60,
    "rename_draft": 900,
    "launch_conditions": 15,
    "judge_arguments": 80,
    "judgement_stamps": 30,
    "look_at_client": 20,
    "read_client_result": 120,
    "hash_file": 300,
}
"""Inventory and verify ask nvidia-smi, whose first call on an idle node of eight GPUs may take 45 s."""


class NodeSession:
    """The verbs of one node.

    Every method raises what `SshConnection.run` raises, and RemoteCommandFailed when the node refuses (the context then
    has `refusal`, a Refusal) or its answer cannot be understood.
    """

    def __init__(self, connection: SshConnection) -> None:
        self._connection = connection

    async def inventory(self, *, paths: Sequence[str] = ()) -> Inventory:
        """Return what the node has and who holds its GPUs; `paths` name file systems to measure beside the home."""
        return answers.read(parse_inventory, await self._ask("inventory", {"paths": list(paths)}))

    async def stage_and_start(self, order: LaunchOrder) -> Started:
        """Write the launch's directory and start it, or return what is there when it was started before.

        Safe to send again after a lost answer: the directory's lock lets only one start happen, ever.
        """
        request = {
            "launch": order.launch_id,
            "server": order.server,
            "port": order.port,
            "created_at": to_text(order.created_at),
            "argv": list(order.argv),
            "environment": dict(order.environment),
            "config": order.config_text,
            "config_token": CONFIG_PATH,
            "secrets": list(order.secrets),
            "supervisor": supervisor_script(),
            "beside": None if order.beside is None else _beside(order.beside),
        }
        return answers.read(answers.started, await self._ask("stage_and_start", request))

    async def signal(self, launch_id: str, step: SignalStep) -> Signalled:
        """Send SIGTERM to the main process, or SIGKILL to all that is left of the launch, wherever it hides."""
        return answers.read(answers.signalled, await self._ask("signal", {"launch": launch_id, "step": step.value}))

    async def verify(
        self, launch_id: str, *, port: int, host: str = "127.0.0.1", gpu_uuids: Sequence[str] = ()
    ) -> Leftovers:
        """Look once for what is left of a launch, and remove the shared memory that is provably its own.

        With `gpu_uuids` memory on those GPUs that nobody else holds counts as left, and so does not being able to look.
        """
        request = {"launch": launch_id, "port": port, "host": host, "gpu_uuids": list(gpu_uuids)}
        return answers.read(answers.leftovers, await self._ask("verify", request))

    async def read_log(
        self,
        launch_id: str,
        *,
        offset: int = 0,
        tail_lines: int | None = None,
        contains: str | None = None,
        limit_bytes: int = LOG_LIMIT_BYTES,
    ) -> LogSlice:
        """Return masked bytes of the log from `offset` on, or its last lines; with `contains` only lines that have it.

        A line ends at a line feed; `contains` looks at the masked text, so it cannot be used to guess a secret.
        """
        request = {
            "launch": launch_id,
            "offset": offset,
            "tail_lines": tail_lines,
            "contains": contains,
            "limit_bytes": limit_bytes,
        }
        return answers.read(answers.log_slice, await self._ask("read_log", request))

    async def list_launches(self, *, only: Sequence[str] | None = None) -> tuple[FoundLaunch, ...]:
        """Return the launch directories of this machine with their state, all or those named; for taking over."""
        request = {"only": None if only is None else list(only)}
        return answers.read(answers.found_launches, await self._ask("list_launches", request))

    async def remove_launch(self, launch_id: str) -> bool:
        """Delete the directory of a launch that has ended, log and all; False when there was none.

        An order with the same id would start it anew: only for launches that nobody will order again. Refused with
        LAUNCH_ALIVE while it is starting, runs, or has left a process.
        """
        answer = await self._ask("remove_launch", {"launch": launch_id})
        return answers.read(answers.is_removed, answer)

    async def engine_version(self, python: str) -> str | None:
        """Return the version of SGLang that this Python has, None when it has none; SGLang is not imported."""
        return answers.read(answers.engine_version, await self._ask("engine_version", {"python": python}))

    async def hang_evidence(self, launch_id: str, *, python: str) -> HangEvidence:
        """Collect what a launch is doing, without stopping or signalling any of it: stacks, GPUs, last log lines.

        `python` is the engine's, beside which py-spy is looked for first. The launch's secrets are masked in all of it.
        """
        answer = await self._ask("hang_evidence", {"launch": launch_id, "python": python})
        return answers.read(answers.hang_evidence, answer)

    async def cached_share(self, paths: Sequence[str], *, environment: Mapping[str, str] | None = None) -> float | None:
        """Return how much of a model's weights is in the node's page cache, 0 to 1; None when that is not known.

        `paths` are directories or files; a hub id is looked for in the cache that `environment` names, else the login.
        """
        request = {"paths": list(paths), "environment": dict(environment or {})}
        return answers.read(answers.cached_share, await self._ask("cached_share", request))

    async def find_engines(self) -> tuple[FoundEngine, ...]:
        """Return the SGLang servers that run on the node, Vigil's own (with `launch_id`) and everybody else's."""
        return answers.read(answers.found_engines, await self._ask("find_engines", {}))

    async def adopt(self, launch_id: str, *, pid: int, start_ticks: int, port: int) -> Adopted:
        """Make a running engine a launch that can be watched, read and ended as any other; it itself is not touched.

        Only the process and its descendants are the launch's. Its end is told as LOST: nobody learns its exit code.
        Safe to send again. Refused with PROCESS_ABSENT, PROCESS_FOREIGN, PROCESS_CLAIMED, PROCESS_NOT_ENGINE,
        LAUNCH_TAKEN.
        """
        request = {"launch": launch_id, "pid": pid, "start_ticks": start_ticks, "port": port}
        return answers.read(answers.adopted, await self._ask("adopt", request))

    async def read_model_files(
        self, models: Sequence[ModelWish], *, environment: Mapping[str, str]
    ) -> tuple[ModelFiles, ...]:
        """Return what each model's directory holds, in the order asked: of its weights only headers are read.

        A model that is not there is an answer, too (`ModelFiles.problem`). `environment` is what the engine would get
        beside the login's: it says where the hub's cache is.
        """
        request = {"models": [model.request for model in models], "environment": dict(environment)}
        return answers.read(model_files, await self._ask("read_model_files", request))

    async def rename_draft(self, source: str, destination: str, renames: Mapping[str, str]) -> RenamedDraft:
        """Write the checkpoint `source` to the new directory `destination`, its tensors renamed: old name to new.

        Whole or not at all; takes as long as the copy does. Refused with DESTINATION_EXISTS, CHECKPOINT_UNSOUND,
        NO_ROOM, DIRECTORY_UNUSABLE, or ORDER_INVALID: no such source, a name that is not there, two of one name.
        """
        request = {"source": source, "destination": destination, "renames": dict(renames)}
        return answers.read(renamed_draft, await self._ask("rename_draft", request))

    async def launch_conditions(
        self, *, host: str, port: int, python: str, paths: Sequence[str], environment: Mapping[str, str]
    ) -> LaunchConditions:
        """Look at what an engine of this Python would meet if it were started now; nothing is, and no GPU is asked.

        `host` is where it will listen, `environment` what it would get beside the login's, `paths` name directories
        whose room is told beside that of the caches. It takes three seconds at most: what hangs is then a problem.
        """
        request = {
            "host": host,
            "port": port,
            "python": python,
            "paths": list(paths),
            "environment": dict(environment),
        }
        return answers.read(conditions.launch_conditions, await self._ask("launch_conditions", request))

    async def judge_arguments(
        self, *, python: str, argv: Sequence[str], environment: Mapping[str, str], gpus: Sequence[GpuStandIn]
    ) -> Judgement:
        """Let the engine of this Python parse and resolve arguments, those after `-m sglang.launch_server`.

        Nothing is launched and no GPU is seen: `gpus` is what the engine is told of those that the launch would get.
        Nothing is downloaded. `environment` is the launch's; no secret belongs in it or in `argv`. It takes as long as
        the engine's imports, 8 to 15 s; an engine that cannot be asked is told in the judgement, never raised.
        """
        request = {
            "python": python,
            "argv": list(argv),
            "environment": dict(environment),
            "gpus": judgements.gpu_rows(gpus),
            "probe": argument_probe(),
        }
        return answers.read(judgements.judgement, await self._ask("judge_arguments", request))

    async def judgement_stamps(
        self, *, python: str, models: Sequence[ModelWish], environment: Mapping[str, str]
    ) -> JudgementStamps:
        """Return what a judgement depends on and only the node can tell, in a fraction of a second."""
        request = {
            "python": python,
            "models": [{"path": model.path, "revision": model.revision} for model in models],
            "environment": dict(environment),
        }
        return answers.read(judgements.stamps, await self._ask("judgement_stamps", request))

    async def look_at_client(self, client_id: str, *, offset: int, limit_bytes: int = LOG_LIMIT_BYTES) -> ClientLook:
        """Look at a benchmark client, which is started, read, signalled and removed as a launch of this id.

        With what its log has grown by since `offset`, masked.
        """
        request = {"launch": client_id, "offset": offset, "limit_bytes": limit_bytes}
        return answers.read(bench_clients.client_look, await self._ask("look_at_client", request))

    async def read_client_result(self, client_id: str, *, hidden_fields: Sequence[str]) -> ClientOutcome:
        """Return what a client wrote and what was sampled beside it; nothing of `hidden_fields` leaves the node.

        Refused with RESULT_TOO_LARGE.
        """
        limit_bytes = bench_clients.RESULT_LIMIT_BYTES
        request = {"launch": client_id, "hidden_fields": list(hidden_fields), "limit_bytes": limit_bytes}
        return answers.read(bench_clients.client_outcome, await self._ask("read_client_result", request))

    async def hash_file(self, path: str) -> FileDigest:
        """Return the SHA-256 of a file of the node, which takes as long as reading it. Refused: FILE_UNREADABLE."""
        return answers.read(bench_clients.file_digest, await self._ask("hash_file", {"path": path}))

    async def _ask(self, verb: str, request: Mapping[str, object]) -> Mapping[str, object]:
        deadline_s = DEADLINES_S[verb]
        completed = await self._connection.run(
            PYTHON_ARGV,
            stdin=payload(verb, request, limit_s=int(deadline_s) + ON_NODE_PATIENCE_S),
            deadline_s=deadline_s,
        )
        marked = [line for line in completed.stdout.split(b"\n") if line.startswith(ANSWER_MARK)]
        if not marked:
            raise _no_answer(verb, completed.exit_status, completed.stderr)
        return answers.read(partial(answers.result, verb), marked[-1][len(ANSWER_MARK) :])


def _beside(program: bytes) -> Mapping[str, object]:
    return {"argv": list(PYTHON_ARGV[1:]), "input": program.decode("ascii")}


def _no_answer(verb: str, exit_status: int, stderr: bytes) -> RemoteCommandFailed:
    said = stderr.decode("utf-8", "replace").strip()[-500:]
    if exit_status == COMMAND_NOT_FOUND or "older than 3.8" in said:
        detail = f"the node has no python3 of 3.8 or newer on its path: {said}"
        return RemoteCommandFailed(detail, refusal=Refusal.PYTHON_MISSING, verb=verb)
    return RemoteCommandFailed(f"{verb} ended with status {exit_status} and no answer: {said}", verb=verb)
