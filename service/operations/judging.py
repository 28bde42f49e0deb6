"""What the node's own engine says of a launch's arguments; asked once for the same engine, models and arguments."""

from collections.abc import Sequence

from service.nodes.inventory import Gpu
from service.operations.candidates import Candidate, model_wishes
from service.operations.control import Control
from service.operations.inventories import stored_gpus
from service.profiles.profile import Profile
from service.remote.node import NodeSession
from service.sglang.arguments import argument_tokens
from service.sglang.command import Placement, engine_command
from service.sglang.judgement import GpuStandIn, Judgement, judgement_key

PLACEHOLDER = "vigil-keeps-this-one"
"""Stands for a secret while arguments are judged: the engine looks at none of their values."""
_MODULE_WORDS = 3
"""Python, -m and the module, which come before the arguments."""


async def judge(control: Control, remote: NodeSession, candidate: Candidate) -> Judgement:
    """Return the judgement on a launch's arguments: a kept one, if nothing that it depends on has changed.

    One engine at a time is asked on a node, which costs a core for seconds: twenty requests for the same launch ask
    once. Raises what the way to the node does; what the engine could not do is in the judgement.
    """
    async with control.judging[candidate.node.id]:
        return await _judge(control, remote, candidate)


async def _judge(control: Control, remote: NodeSession, candidate: Candidate) -> Judgement:
    profile = candidate.profile
    argv, gpus = _argv(profile, candidate.port), _stand_ins(candidate)
    stamps = await remote.judgement_stamps(python=profile.python, environment=profile.env, models=model_wishes(profile))
    key = judgement_key(
        node=candidate.node.id,
        python=profile.python,
        argv=argv,
        environment=profile.env,
        gpus=gpus,
        stamps=stamps,
    )
    known = control.judgements.find(key, now=control.now())
    if known is not None:
        return known
    judgement = await remote.judge_arguments(python=profile.python, argv=argv, environment=profile.env, gpus=gpus)
    control.judgements.keep(key, judgement, now=control.now())
    return judgement


def _argv(profile: Profile, port: int) -> tuple[str, ...]:
    """Return the arguments of the launch, with a placeholder for each secret."""
    open_recipe = profile.model_copy(update={"secret_args": {}})
    command = engine_command(open_recipe, Placement(port, ()), version=None, config_path="")
    hidden = [token for name in profile.secret_args for token in argument_tokens(name, PLACEHOLDER)]
    return (*command.argv[_MODULE_WORDS:], *hidden)


def _stand_ins(candidate: Candidate) -> tuple[GpuStandIn, ...]:
    """Return GPUs like those of the node's last look: of one node they are alike, so which ones does not matter."""
    there: Sequence[Gpu] = stored_gpus(candidate.node)
    return tuple(GpuStandIn(gpu.name, gpu.memory_total_mib or 0) for gpu in there[: candidate.gpu_count])
