"""How an argv becomes the one string that sshd hands to the user's login shell, whichever shell that is."""

import shlex
import string
from collections.abc import Sequence

_SAFE = frozenset(string.ascii_letters + string.digits + ' _-./:=@%+,"<>()[]{};|&?*#~^$')
"""Characters that sh, bash, csh, tcsh and fish all leave alone inside single quotes.

Not among them: the quote itself, backslash (fish unescapes it), `!` (csh expands history even there), newline (csh
ends the string), backquote and everything beyond ASCII.
"""


def command_line(argv: Sequence[str]) -> str:
    """Return the command that runs `argv` under /bin/sh on the far side; every argument arrives byte for byte.

    Where an argument holds a character that some login shell would touch, the whole command travels as octal
    escapes which /bin/sh itself turns back. A NUL cannot be part of an argument: ValueError.
    """
    if any("\0" in argument for argument in argv):
        raise ValueError("an argument holds a NUL character")
    script = "exec " + shlex.join(argv)
    if not _SAFE.issuperset(script):
        octal = "".join(f"\\0{byte:03o}" for byte in script.encode("utf-8", "surrogateescape"))
        script = f'eval "$(printf %b "{octal}")"'
    return f"/bin/sh -c '{script}'"
