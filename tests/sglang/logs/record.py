"""Records the logs of this folder from a real engine: python -m tests.sglang.logs.record VERSION [CASE...]."""

import argparse
import json
import os
import re
import socket
import sys
import sysconfig
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.engine.engines import CPU_ENVIRONMENT, Engine, installed
from tests.sglang.logs.cases import API_KEY, CASES, Case, serves, spoiled_copy, stranger_on
from tests.sglang.logs.trial import Trial

HERE = Path(__file__).parent
PORTS = range(31000, 31100)


def main() -> None:
    """Record the named cases, or all; print each case's story; rewrite its log and its line of the index."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="; ".join(case.name for case in CASES))
    options = parser.parse_args()
    engine = installed(options.version)
    chosen = [case for case in CASES if not options.cases or case.name in options.cases]
    failed = []
    with tempfile.TemporaryDirectory(prefix="vigil-record-") as scratch:
        for case in chosen:
            try:
                _record(engine, case, Path(scratch))
            except (AssertionError, RuntimeError, TimeoutError) as error:
                failed.append(case.name)
                sys.stdout.write(f"not recorded: {error!r}\n")
    sys.exit(f"not recorded: {', '.join(failed)}" if failed else 0)


def _record(engine: Engine, case: Case, scratch: Path) -> None:
    port = next(port for port in PORTS if _is_free(port))
    place = scratch / case.name
    place.mkdir()
    sys.stdout.write(f"== {engine.version} {case.name}: {case.note}\n")
    with _neighbour(engine, case, place, port):
        trial = _trial(engine, case, place, port)
        trial.start()
        try:
            case.play(trial)
        finally:
            written = trial.log.read_bytes()
            trial.end()
            sys.stdout.write("\n".join(trial.story) + "\n")
            sys.stdout.flush()
    _keep(engine, case, trial, _masked(written, engine, place))


def _keep(engine: Engine, case: Case, trial: Trial, log: bytes) -> None:
    folder = HERE / engine.version
    folder.mkdir(exist_ok=True)
    (folder / f"{case.name}.log").write_bytes(log)
    index_file = folder / "index.json"
    index = json.loads(index_file.read_text()) if index_file.exists() else {}
    index[case.name] = {"exit_code": trial.exit_code, "ready": trial.was_ready, "note": case.note}
    index_file.write_text(json.dumps(dict(sorted(index.items())), indent=2) + "\n")


@contextmanager
def _neighbour(engine: Engine, case: Case, place: Path, port: int) -> Iterator[None]:
    match case.neighbour:
        case "engine":
            first = _trial(engine, Case("neighbour", "", serves), place / "neighbour", port)
            first.start()
            try:
                first.await_ready()
                yield
            finally:
                first.end()
        case "stranger":
            server = stranger_on(port)
            yield
            server.shutdown()
            server.server_close()
        case _:
            yield


def _trial(engine: Engine, case: Case, place: Path, port: int) -> Trial:
    place.mkdir(exist_ok=True)
    model = spoiled_copy(engine.model, place / "tiny", case.spoil) if case.spoil else engine.model
    arguments = case.version_arguments.get(engine.version, case.arguments)
    command = [
        *engine.command(model=model, port=port),
        *(str(model) if word == "MODEL" else word for word in arguments),
    ]
    if case.has_api_key:
        secrets = place / "config.yaml"
        secrets.write_text(f'api-key: "{API_KEY}"\n')
        secrets.chmod(0o600)
        command += ["--config", str(secrets)]
    return Trial(
        command=command,
        environment={**_environment(place.parent), **CPU_ENVIRONMENT, **case.environment},
        log=place / "log",
        port=port,
        launch_id=f"ln_{uuid.uuid4().hex[:16]}",
        api_key=API_KEY if case.has_api_key else None,
    )


def _environment(home: Path) -> Mapping[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TZ": "UTC"}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _masked(log: bytes, engine: Engine, place: Path) -> bytes:
    names = {
        str(place / "tiny"): "/models/tiny",
        str(engine.model): "/models/tiny",
        str(place / "config.yaml"): "/launch/config.yaml",
        str(place.parent): "/root",
        str(engine.folder): "/env",
        sysconfig.get_paths()["stdlib"]: "/usr/lib/python3.11",
    }
    for name, mask in names.items():
        log = re.sub(re.escape(name.encode()), mask.encode(), log)
    return log


if __name__ == "__main__":
    main()
