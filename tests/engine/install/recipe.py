"""What an install is made from, where it lies, and how a complete one is recognised. Standard library only."""

import hashlib
import os
from pathlib import Path

VERSIONS = ("0.5.23", "0.5.16", "0.5.10.post1")
"""The versions that have a recipe, the default first."""
FOLDER_VARIABLE = "VIGIL_ENGINES_DIR"
"""Environment variable that names another folder than `.engines`, so that several checkouts can share one."""

GPU_ONLY = ("sgl_kernel", "torchvision")
"""Packages that a stand-in takes the place of."""

_HERE = Path(__file__).parent
STAND_IN = _HERE / "stand_in.py"
MODEL_SCRIPT = _HERE / "tiny_model.py"
_REPOSITORY = _HERE.parents[2]


def folder_of(version: str) -> Path:
    """Return the virtual environment of a version, whether or not it is there."""
    return Path(os.environ.get(FOLDER_VARIABLE) or _REPOSITORY / ".engines").resolve() / version


def pins_of(version: str) -> Path:
    """Return the file that names every package of a version, each with its release."""
    return _HERE / "pins" / f"{version}.txt"


def is_complete(version: str) -> bool:
    """Tell whether this version was installed to its end, by the recipe as it is now, and is still usable."""
    folder = folder_of(version)
    stamp = folder / _STAMP
    is_current = stamp.is_file() and stamp.read_text() == _hash_of(version)
    return is_current and (folder / "bin" / "python").exists() and (folder / "tiny-model" / "config.json").is_file()


def mark_complete(version: str) -> None:
    """Write the stamp, the last act of an install; a rename makes it there or not there."""
    stamp = folder_of(version) / _STAMP
    draft = stamp.with_suffix(".draft")
    draft.write_text(_hash_of(version))
    draft.replace(stamp)


_STAMP = "vigil-recipe.sha256"


def _hash_of(version: str) -> str:
    ingredients = (_HERE / "install.py", pins_of(version), MODEL_SCRIPT, STAND_IN)
    digest = hashlib.sha256()
    for ingredient in ingredients:
        digest.update(ingredient.name.encode() + b"\0" + ingredient.read_bytes() + b"\0")
    return digest.hexdigest()
