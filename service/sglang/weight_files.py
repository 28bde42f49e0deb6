"""Whether the files of a checkpoint are all there and whole, and what each release does when they are not."""

from collections.abc import Iterator

from service.sglang.checks import Check, CheckCode, Finding, Outcome, concluded, fail, skipped, warn
from service.sglang.model_files import FileProblem, ModelFiles, PathProblem
from service.sglang.releases import V0_5_6, V0_5_23
from service.sglang.versions import Version

_SHOWN = 5
_MADE_UP = "dummy"
_OTHER_FORMATS = (".gguf",)
_REMEDIES = {
    FileProblem.LFS_POINTER: "fetch the weights with `git lfs pull`, or download them from the hub",
    FileProblem.DANGLING_LINK: "download the model again: a file of the cache is gone",
    FileProblem.UNREADABLE: "let the user of the engine read it",
    FileProblem.DTYPE_UNKNOWN: "a newer safetensors package may know the type",
}
_COPY_AGAIN = "copy or download the file again"


def check_path(code: CheckCode, model: ModelFiles, *, subject: str) -> Check:
    """Judge whether the directory is there."""
    match model.problem:
        case None:
            return Check(code, Outcome.PASS, f"{model.directory} is there", None, {"directory": model.directory})
        case PathProblem.NOT_IN_CACHE:
            text = f"{model.path} is not in the node's cache: the engine would download it, and nothing was checked"
            return Check(code, Outcome.WARN, text, "download it before, or give a directory", {"path": model.path})
        case PathProblem.ABSENT:
            found, remedy = (
                f"{subject}: there is no {model.path} on the node",
                "correct the path, or put the model there",
            )
        case PathProblem.NOT_A_DIRECTORY:
            found, remedy = f"{subject}: {model.path} is not a directory", "give the directory that holds config.json"
        case PathProblem.UNREADABLE:
            found, remedy = f"{subject}: {model.path} cannot be read", "let the user of the engine read it"
    return Check(code, Outcome.FAIL, found, remedy, {"path": model.path})


def check_config(code: CheckCode, model: ModelFiles, *, subject: str) -> Check:
    """Judge whether config.json is there and is one."""
    place = f"{model.directory}/config.json"
    if model.problem is not None:
        return skipped(code, f"{subject} is not on the node")
    if model.config is None:
        remedy = "put the model's config.json there"
        return Check(code, Outcome.FAIL, f"{place}: {model.config_problem}", remedy, {"file": place})
    return Check(code, Outcome.PASS, f"{place} can be read", None, {"file": place})


def check_weight_files(code: CheckCode, model: ModelFiles, release: Version, *, load_format: str | None) -> Check:
    """Judge whether the weights are complete by the index, and each file whole by its own header."""
    if model.problem is not None:
        return skipped(code, "the directory is not on the node")
    if load_format == _MADE_UP:
        return skipped(code, "with load format dummy the weights are made up")
    if not model.weights and not model.absent_files:
        return _without_safetensors(code, model)
    files = model.loaded_files
    facts = {
        "directory": model.directory,
        "files": len(files),
        "bytes": model.weight_bytes,
        "absent": list(model.absent_files[:_SHOWN]),
        "unsound": [{"name": file.name, "problem": file.problem} for file in files if file.problem][:_SHOWN],
    }
    otherwise = f"{len(files)} files are whole, {sum(file.tensor_count for file in files)} tensors"
    return concluded(code, _findings(model, release), otherwise=otherwise, facts=facts)


def _without_safetensors(code: CheckCode, model: ModelFiles) -> Check:
    if model.pickles:
        shown = ", ".join(model.pickles[:_SHOWN])
        text = f"the weights are in pickles ({shown}), which cannot be looked into without running them: NOT CHECKED"
        return skipped(
            code, text, "convert them to safetensors once, in a sandbox, with a loader that takes weights only"
        )
    other = [name for name in model.sizes if name.endswith(_OTHER_FORMATS)]
    if other:
        return skipped(code, f"the weights are in {', '.join(other[:_SHOWN])}: NOT CHECKED")
    text = f"{model.directory} holds no weights"
    remedy = "download them" if model.incomplete_download_count == 0 else "let the download end"
    return Check(code, Outcome.FAIL, text, remedy, {"incomplete_downloads": model.incomplete_download_count})


def _findings(model: ModelFiles, release: Version) -> Iterator[Finding]:
    yield from _absent(model, release)
    unsound = [file for file in model.loaded_files if file.problem]
    for file in unsound[:_SHOWN]:
        yield fail(f"{file.name}: {file.detail}", _REMEDIES.get(file.problem or FileProblem.ABSENT, _COPY_AGAIN))
    if len(unsound) > _SHOWN:
        yield fail(f"{len(unsound) - _SHOWN} more files are not sound")
    if model.index is not None and not model.absent_files and not unsound:
        yield from _index(model)
    doubled = [file for file in model.loaded_files if file.duplicates]
    for file in doubled[:_SHOWN]:
        yield warn(f"{file.name} names {file.duplicates[0]} twice; the last entry counts", _COPY_AGAIN)
    if model.incomplete_download_count:
        yield warn(f"{model.incomplete_download_count} downloads into it were begun and not finished", "finish them")
    yield from _strays(model, release)


def _absent(model: ModelFiles, release: Version) -> Iterator[Finding]:
    absent = model.absent_files
    if not absent:
        return
    shown = ", ".join(absent[:_SHOWN]) + (f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else "")
    if release >= V0_5_23:
        what = "the engine ends with a RuntimeError"
    else:
        what = f"SGLang {release} passes over that without a word, and their tensors stay empty"
    yield fail(f"the index names files that are not there: {shown}; {what}", "finish the download, or copy them")


def _index(model: ModelFiles) -> Iterator[Finding]:
    index = model.index
    if index is None:
        return
    if index.problem:
        yield fail(f"the index cannot be read: {index.detail}", "copy the index again")
        return
    if index.absent.count:
        names = ", ".join(index.absent.examples[:_SHOWN])
        text = f"{index.absent.count} tensors of the index are in none of the files: {names}"
        yield warn(f"{text}; what the model needs of them stays empty", "copy the files of one and the same version")
    for named, what in ((index.unlisted, "are in the files and not in the index"), (index.misplaced, "lie elsewhere")):
        if named.count:
            names = ", ".join(named.examples[:_SHOWN])
            yield warn(f"{named.count} tensors {what}: {names}; the loader goes by the files", "make the index anew")


def _strays(model: ModelFiles, release: Version) -> Iterator[Finding]:
    """Yield files that the loader reads besides the model's own: without an index it takes every one."""
    if model.index is not None:
        return
    names = [file.name for file in model.weights]
    is_pair = len(names) == 2 and any(n.endswith("consolidated.safetensors") for n in names)  # noqa: PLR2004
    if is_pair and release < V0_5_6:
        yield warn(f"without an index both {names[0]} and {names[1]} are loaded", "remove one of them")
    adapters = [name for name in names if name.startswith("adapter_")]
    if adapters and len(names) > 1:
        yield warn(f"without an index {adapters[0]} is loaded as if it were part of the model", "move it away")
