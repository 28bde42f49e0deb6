"""Whether the node's driver is new enough for the CUDA that an engine environment's torch was built for."""

import re
from collections.abc import Iterator, Mapping

from service.nodes.inventory import Inventory
from service.preflights.conditions import EnginePackages, LaunchConditions, Part
from service.preflights.node_wish import NodeWish
from service.sglang.checks import Check, CheckCode, Finding, concluded, fail, skipped, warn

FAMILY_MINIMUM: Mapping[int, str] = {11: "450.80.02", 12: "525.60.13", 13: "580"}
"""The oldest Linux driver on which programs of a CUDA family run at all (NVIDIA: CUDA Compatibility, Minor Version
Compatibility, table 1; CUDA Toolkit Release Notes, table 2)."""
RELEASE_DRIVER: Mapping[str, str] = {
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
}
"""The Linux driver that each CUDA release came with (NVIDIA: CUDA Toolkit Release Notes, table 3). An older one of the
same family runs its programs with a limited set of features."""


def check_driver(inventory: Inventory, conditions: LaunchConditions, wish: NodeWish) -> Check:
    """Compare the driver with what torch was built for; skipped where there is no GPU, no driver or no torch."""
    code = CheckCode.NODE_DRIVER
    if wish.gpu_count == 0:
        return skipped(code, "no GPU is wanted")
    driver = inventory.driver_version
    if driver is None:
        why = "the node has no GPUs" if not inventory.gpus else "the driver's version is not known"
        return skipped(code, f"{why}{f': {inventory.gpu_error}' if inventory.gpu_error else ''}")
    packages = conditions.packages
    if packages is None:
        return skipped(code, f"the environment could not be read: {conditions.why_unknown(Part.PACKAGES)}")
    if packages.torch_version is None and packages.cuda_runtime is None:
        return skipped(code, "no torch was found among the files of the environment")
    if packages.torch_hip is None and not packages.is_torch_cpu and _built_for(packages) is None:
        return skipped(code, f"for which CUDA torch {packages.torch_version} was built is not said by its files")
    return concluded(
        code,
        _findings(packages, driver, wish),
        otherwise=f"driver {driver} serves {_torch(packages)}, built for CUDA {_built_for(packages)}",
        facts={"driver": driver, "torch": packages.torch_version, "cuda": _built_for(packages)},
    )


def _findings(packages: EnginePackages, driver: str, wish: NodeWish) -> Iterator[Finding]:
    if packages.torch_hip is not None or packages.is_torch_cpu:
        kind = f"for ROCm {packages.torch_hip}" if packages.torch_hip else "without CUDA"
        found = f"{_torch(packages)} is built {kind}, and {wish.gpu_count} GPUs of NVIDIA are wanted"
        yield fail(found, "install torch for CUDA into the environment, or name another environment in the profile")
        return
    cuda = _built_for(packages) or ""
    family = int(cuda.split(".", maxsplit=1)[0])
    minimum, release = FAMILY_MINIMUM.get(family), RELEASE_DRIVER.get(cuda)
    built = f"{_torch(packages)} is built for CUDA {cuda}"
    if minimum is None:
        yield warn(f"{built}, whose oldest driver is not known here; the node has {driver}")
    elif _numbers(driver) < _numbers(minimum):
        found = f"{built}, which needs driver {minimum} or newer, and the node has {driver}"
        if packages.compat_path:
            compat = (
                f"NVIDIA's forward compatibility package, {packages.compat_path}, may make up for it on data centre"
            )
            yield warn(f"{found}; {compat} GPUs", f"install driver {minimum} or newer")
        else:
            older = _newest_that_runs(driver)
            other = f", or use an environment whose torch is built for CUDA {older}.x" if older else ""
            yield fail(found, f"install driver {release or minimum} or newer on the node, as root{other}")
    elif release and _numbers(driver) < _numbers(release):
        yield warn(
            f"{built}, which came with driver {release}; the node's {driver} runs it by minor version compatibility, "
            "without newer features, and cannot compile PTX of that version",
            f"install driver {release} or newer when kernels fail with an unsupported PTX version or toolchain",
        )


def _built_for(packages: EnginePackages) -> str | None:
    """Return torch's CUDA as `12.9`; where it does not say, that of the CUDA runtime that is installed beside it."""
    text = packages.torch_cuda or packages.cuda_runtime or ""
    found = re.match(r"\d+\.\d+", text)
    return found.group() if found else None


def _torch(packages: EnginePackages) -> str:
    return f"torch {packages.torch_version}" if packages.torch_version else "the environment's CUDA runtime"


def _newest_that_runs(driver: str) -> int | None:
    fit = [family for family, minimum in FAMILY_MINIMUM.items() if _numbers(driver) >= _numbers(minimum)]
    return max(fit, default=None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
