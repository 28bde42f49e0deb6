"""Fake nodes whose servers live: they turn silent and come back, die, are launched and stopped, and lose contact.

They are fake_nodes.py's, with the verbs of launching and stopping. Nothing happens before `move` is told on standard
input, and nothing more of itself after `rest`.
"""

import asyncio
import base64
import random
import time
from collections.abc import Iterator
from typing import Any

import uvloop
from fake_facts import BOOT_ID, Launch
from fake_nodes import Far, Verb, serve

PID, START_TICKS = 5151, 700
SILENT_P, DEATH_P, LOST_P = 1 / 40, 1 / 120, 1 / 1200
"""How likely each is in a second of one server that serves: ten changes a second in a fleet of 200."""
SILENT_S = (3, 8)
KILLED = 137
START = (
    ("server_args=ServerArgs(model_path='/models/llama-3.1-70b')", "Init torch distributed begin."),
    ("Load weight begin. avail mem=78.50 GB",),
    ("Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=61.20 GB, mem usage=17.30 GB.",),
    ("Capture cuda graph begin. This can take up to several minutes. avail mem=8.10 GB",),
    ("Capture cuda graph end. Time elapsed: 1.01 s. mem usage=0.30 GB. avail mem=7.80 GB.",),
    ("The server is fired up and ready to roll!",),
)
"""What the log says in each second of a start."""


class World:
    """All that is on the nodes, beside their connections."""

    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}
        self.is_moving = False

    def life(self, launch_id: str, log_offset: int) -> "Life":
        """Return a launch; one that nobody started serves since before this began."""
        return self.lives.setdefault(launch_id, Life(log_offset))


class Life:
    """What one launch is doing; whoever watches it lets a second pass."""

    def __init__(self, log_begin: int = 0, *, is_new: bool = False) -> None:
        self.log_begin = log_begin
        self.log = bytearray()
        self.changes = 0
        self.exit_code: int | None = None
        self.ended_at: float | None = None
        self._start = iter(START if is_new else ())
        self._is_up = not is_new
        self._silent_s = 0

    @property
    def is_alive(self) -> bool:
        """Tell whether its process runs."""
        return self.exit_code is None

    def process(self) -> dict[str, Any]:
        """Return the fact about its process."""
        state = "running" if self.is_alive else "exited"
        return {
            "state": state,
            "pid": PID,
            "exit_code": self.exit_code,
            "ended_at": self.ended_at,
            "members": 10 if self.is_alive else 0,
        }

    def listener(self) -> dict[str, Any]:
        """Return the fact about its port."""
        if not self.is_alive or not self._is_up or self._silent_s:
            return {"owner": "none", "pid": None, "command": None}
        return {"owner": "ours", "pid": PID, "command": "python -m sglang.launch_server"}

    def end(self, code: int) -> None:
        """End its process."""
        if self.is_alive:
            self.exit_code, self.ended_at = code, time.time()
            self.changes += 1

    def pass_second(self, *, is_moving: bool) -> None:
        """Go on with the start, or do one of the things that happen to a server."""
        lines = next(self._start, None)
        if lines is not None:
            self.write(*lines)
            if lines == START[-1]:
                self._is_up = True
                self.changes += 1
        elif self._silent_s:
            self._silent_s -= 1
            self.changes += not self._silent_s
        elif is_moving and self.is_alive:
            self._happen(random.random())  # noqa: S311

    def write(self, *lines: str) -> None:
        """Log lines, with the instant as the engine writes it."""
        stamp = time.strftime("[%Y-%m-%d %H:%M:%S] ", time.gmtime())
        self.log += "".join(f"{stamp}{line}\n" for line in lines).encode()

    def _happen(self, chance: float) -> None:
        if chance < DEATH_P:
            self.end(KILLED)
        elif chance < DEATH_P + SILENT_P:
            self._silent_s = random.randint(*SILENT_S)  # noqa: S311
            self.changes += 1


class LivelyLaunch(Launch):
    """A launch as one observer tells of it."""

    def __init__(self, launch_id: str, log_offset: int, world: World) -> None:
        super().__init__(launch_id, log_offset)
        self._world = world
        self._life = world.life(launch_id, log_offset)
        self._told = -1

    @property
    def is_running(self) -> bool:
        """Tell whether its processes hold the GPUs."""
        return self._life.is_alive

    def first_facts(self) -> list[dict[str, Any]]:
        """Return all that is so now."""
        return [*self._changed(), *self._new_log()]

    def facts(self, *, has_line: bool) -> Iterator[dict[str, Any]]:
        """Let a second pass and return what has changed."""
        life = self._life
        life.pass_second(is_moving=self._world.is_moving)
        if has_line and life.listener()["owner"] == "ours":
            life.write(f"Decode batch, #running-req: 31, gen throughput (token/s): {1400 + life.changes}.25")
        yield from self._new_log()
        yield from self._changed()

    def _changed(self) -> Iterator[dict[str, Any]]:
        life, parts = self._life, {}
        if life.changes != self._told:
            self._told = life.changes
            parts = {"process": life.process(), "listener": life.listener()}
        if parts or life.is_alive:
            yield self._fact(**parts, effort=self._effort())

    def _new_log(self) -> Iterator[dict[str, Any]]:
        data = bytes(self._life.log[self._offset - self._life.log_begin :])
        if data:
            text = base64.b64encode(data).decode("ascii")
            yield {"k": "log", "launch": self.id, "offset": self._offset, "b64": text}
            self._offset += len(data)


class LivelyVerb(Verb):
    """The verbs of a node on which servers are launched and stopped."""

    world = World()

    def launch(self, launch_id: str, log_offset: int) -> Launch:
        """Return a launch that is to be watched from now on."""
        return LivelyLaunch(launch_id, log_offset, self.world)

    def result(  # noqa: PLR0911  one a verb
        self, verb: str, request: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Return what a verb answers; None for one that this node does not have."""
        lives = self.world.lives
        match verb:
            case "stage_and_start":
                is_there = request["launch"] in lives
                lives.setdefault(request["launch"], Life(is_new=True))
                started = {"launcher": "systemd_user", "pid": PID, "start_ticks": START_TICKS, "boot_id": BOOT_ID}
                return {**started, "already_started": is_there}
            case "signal":
                life = self.world.life(request["launch"], 0)
                life.end(KILLED if request["step"] == "kill" else 0)
                return {"pids": [PID], "process": life.process()}
            case "verify":
                return _nothing_left()
            case "list_launches" if request["only"] is not None:
                return {"launches": [_found(name, lives[name]) for name in request["only"] if name in lives]}
            case "cached_share":
                return {"share": 0.5}
            case "read_log":
                return _log(self.world.life(request["launch"], 0))
        return super().result(verb, request)


def _nothing_left() -> dict[str, Any]:
    nothing: dict[str, Any] = {name: [] for name in ("processes", "gpu", "shm", "shm_removed", "shm_unproven")}
    listener = {"owner": "none", "pid": None, "command": None}
    return {**nothing, "listener": listener, "is_clear": True, "gpu_error": None}


def _found(launch_id: str, life: Life) -> dict[str, Any]:
    return {
        "launch": launch_id,
        "server": None,
        "port": 30000,
        "created_at": None,
        "launcher": "systemd_user",
        "boot_id": BOOT_ID,
        "process": {**life.process(), "start_ticks": START_TICKS},
        "log_bytes": life.log_begin + len(life.log),
    }


def _log(life: Life) -> dict[str, Any]:
    data = bytes(life.log[-4096:])
    end = life.log_begin + len(life.log)
    text = base64.b64encode(data).decode("ascii")
    return {"offset": end - len(data), "b64": text, "next_offset": end, "size": end}


async def _take_order(far: Far, ports: dict[str, int], order: list[str]) -> None:
    LivelyVerb.world.is_moving = order == ["move"]
    if LivelyVerb.world.is_moving and not far.tasks:
        far.tasks.append(asyncio.create_task(_lose_contact(far, ports["sound"])))


async def _lose_contact(far: Far, port: int) -> None:
    """Break the connection of a node now and then."""
    while True:
        logins = far.logins[port] = {login for login in far.logins[port] if not login.is_closed()}
        await asyncio.sleep(1 / (LOST_P * max(1, len(logins))))
        if LivelyVerb.world.is_moving and logins:
            random.choice(list(logins)).abort()  # noqa: S311


if __name__ == "__main__":
    uvloop.run(serve(LivelyVerb, _take_order))
