"""The unit, the image, the compose file and the example settings, as far as that can be told without running them."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NOT_IN_THE_EXAMPLE = {"observer_tick_s", "beat_lost_after_s", "health_deadline_s", "health_interval_s", "log_level"}
"""Settings for tests and rare cases; docs/operations/settings.md has them all."""
analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")


def example() -> dict[str, str]:
    """Return every setting of the example file, set or commented out."""
    lines = (DEPLOY / "vigil.env.example").read_text().splitlines()
    return dict(re.findall(r"^(?:# )?(VIGIL_[A-Z_]+)=(.*)$", "\n".join(lines), re.MULTILINE))


def test_the_example_has_the_settings_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {f"VIGIL_{name.upper()}" for name in Settings.model_fields}
    hidden = {f"VIGIL_{name.upper()}" for name in NOT_IN_THE_EXAMPLE}
    assert set(example()) == fields - hidden
    for name, value in example().items():
        monkeypatch.setenv(name, value)
    made = Settings()
    assert made.backup_dir == Path("/var/lib/vigil/backups")
    assert made.keep_days == Settings.model_fields["keep_days"].default


def test_the_guide_explains_every_setting() -> None:
    guide = (ROOT / "docs" / "operations" / "settings.md").read_text()
    assert [name for name in Settings.model_fields if f"`VIGIL_{name.upper()}`" not in guide] == []


@analyze
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "vigil.service").read_text().replace("/opt/vigil/bin/vigil serve", "/bin/true")
    unit = tmp_path / "vigil.service"
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@analyze
def test_the_unit_may_do_little() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=15", str(DEPLOY / "vigil.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:]


def test_the_image_runs_as_nobody_under_an_init_and_is_checked() -> None:
    steps = _steps()
    last = steps[max(number for number, (word, _) in enumerate(steps) if word == "FROM") :]
    words = dict(last)
    assert words["USER"] == "10001:10001"
    assert words["ENTRYPOINT"].startswith('["/usr/bin/tini", "--"')
    assert "/healthz" in words["HEALTHCHECK"]
    assert words["CMD"] == '["serve"]'
    copied = [source for word, rest in steps if word == "COPY" and "--from" not in rest for source in rest.split()[:-1]]
    assert [source for source in copied if not (ROOT / source).exists()] == []


def test_the_compose_file_fits_the_image_and_keeps_to_loopback() -> None:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = found["services"]["vigil"]
    build = service["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert {name.lower().removeprefix("vigil_") for name in service["environment"]} <= set(Settings.model_fields)


def test_what_the_image_installs_is_what_is_tested() -> None:
    """The image has the dependencies of the service alone, pinned as for development."""
    image, all_of_them = _pins(DEPLOY / "requirements.lock"), _pins(ROOT / "requirements.lock")
    assert {name: pin for name, pin in image.items() if all_of_them.get(name) != pin} == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[\[<>=~; ]", line)[0].lower() for line in project["dependencies"]}
    assert wanted <= set(image), "run uv pip compile for deploy/requirements.lock, as deploy/README.md says"
    assert "pytest" not in image


def _pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)", path.read_text(), re.MULTILINE))


def _steps() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile, continued lines joined, comments left out."""
    text = (DEPLOY / "Containerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(word, rest.strip()) for word, rest in re.findall(r"^([A-Z]+)\s+(.*)$", joined, re.MULTILINE)]
