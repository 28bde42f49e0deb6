"""Which releases of the engine were read, and which of them stands for an installed version."""

from dataclasses import dataclass

from service.sglang.versions import Version, parse_version

V0_4_9 = Version(0, 4, 9)
V0_5_2 = Version(0, 5, 2)
V0_5_6 = Version(0, 5, 6)
V0_5_10 = Version(0, 5, 10)
V0_5_16 = Version(0, 5, 16)
V0_5_23 = Version(0, 5, 23)

KNOWN_RELEASES = (V0_4_9, V0_5_2, V0_5_6, V0_5_10, V0_5_16, V0_5_23)
"""The releases whose loaders were read (facts: drafts), oldest first; what lies between them was not."""


@dataclass(frozen=True, slots=True)
class KnownRelease:
    """The release whose rules are applied to an installed version.

    `note` says, when the version itself was not read, whose rules stand in for it. `next_known` is set for a version
    between two releases that were read: where their rules differ, it may follow either.
    """

    release: Version
    note: str | None = None
    next_known: Version | None = None


def known_release(engine_version: str | None) -> KnownRelease:
    """Return the nearest release below, the newest for a newer or unknown version, the oldest for an older one."""
    version = parse_version(engine_version)
    if version is None:
        newest = KNOWN_RELEASES[-1]
        return KnownRelease(newest, f"the engine's version is not known; judged as {newest}")
    if version in KNOWN_RELEASES:
        return KnownRelease(version)
    below = [release for release in KNOWN_RELEASES if release < version]
    above = [release for release in KNOWN_RELEASES if release > version]
    if not below:
        return KnownRelease(above[0], f"{engine_version} is older than {above[0]}, the oldest that is known")
    if not above:
        return KnownRelease(below[-1], f"{engine_version} is newer than {below[-1]}, the newest that is known")
    note = f"{engine_version} lies between {below[-1]} and {above[0]}, which are known"
    return KnownRelease(below[-1], note, above[0])
