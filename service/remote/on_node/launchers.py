"""How a supervisor is started so that it outlives the login: as a systemd unit where one can be had, else by setsid."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from typing import List

LAUNCHERS = ("systemd_system", "systemd_user", "setsid")
SYSTEMD_RUNS = "/run/systemd/system"
LINGER = "/var/lib/systemd/linger"
SYSTEMD_PATIENCE_S = 10
_SUPERVISOR_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_UNIT_OPTIONS = (
    "--collect",
    "--quiet",
    "-pType=exec",
    "-pKillMode=control-group",
    "-pTimeoutStopSec=60",
    "-pLimitMEMLOCK=infinity",
    "-pLimitNOFILE=1048576",
    "-pTasksMax=infinity",
)


def best_launcher() -> str:
    """Return the best launcher that this user has here.

    A user unit dies with the last session unless lingering is on, and lingering is an administrator's to turn on.
    """
    if shutil.which("systemd-run") and os.path.isdir(SYSTEMD_RUNS):
        if os.geteuid() == 0:
            return "systemd_system"
        if os.path.exists(os.path.join(LINGER, user_name())) and _user_bus_answers():
            return "systemd_user"
    return "setsid"


def start_supervisor(launcher: str, launch_id: str, command: List[str]) -> str:
    """Start the supervisor and return the launcher that did it: setsid when systemd would not."""
    if launcher != "setsid" and _start_unit(launcher, launch_id, command):
        return launcher
    subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": _SUPERVISOR_PATH},
        start_new_session=True,
    )
    return "setsid"


def user_name() -> str:
    """Return the name of the user, its number when it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _start_unit(launcher: str, launch_id: str, command: List[str]) -> bool:
    scope = ["--user"] if launcher == "systemd_user" else []
    argv = ["systemd-run", *scope, "--unit=vigil-" + launch_id, *_UNIT_OPTIONS, *command]
    return _succeeds(argv)


def _user_bus_answers() -> bool:
    return _succeeds(["systemctl", "--user", "show", "--property=Version"])


def _succeeds(argv: List[str]) -> bool:
    environment = dict(os.environ)
    environment.setdefault("XDG_RUNTIME_DIR", "/run/user/%d" % os.geteuid())  # unset in logins without PAM
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=SYSTEMD_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
