"""What goes wrong with a node, or on the way to it."""

from service.errors.root import VigilError


class RemoteError(VigilError):
    """The node, or the way to it."""

    status = 502


class Transient(RemoteError):
    """Trying again may help."""


class Permanent(RemoteError):
    """Trying again cannot help until somebody acts."""


class NodeUnreachable(Transient):
    """No connection to the node's SSH port, or it broke."""

    code = "node_unreachable"
    title = "The node cannot be reached"
    remedy = "Check address, port, firewall and that sshd runs."


class RemoteTimeout(Transient):
    """The node did not answer within the deadline."""

    code = "remote_timeout"
    status = 504
    title = "The node did not answer in time"
    remedy = "Look at the node's load; try again."


class ChannelRefused(Transient):
    """The node's sshd refused one more session (MaxSessions) or the forwarding of a port."""

    code = "channel_refused"
    title = "The node's sshd refused a channel"
    remedy = "Allow AllowTcpForwarding and MaxSessions 10 or more for this user."


class HostKeyUntrusted(Permanent):
    """The node's host key is not confirmed yet."""

    code = "host_key_untrusted"
    status = 409
    title = "The node's host key is not confirmed"
    remedy = "Compare the fingerprint with the node's own, then POST /nodes/{node}/trust."


class HostKeyChanged(Permanent):
    """The node offers another key than the pinned one: a rebuilt node, or somebody in between."""

    code = "host_key_changed"
    title = "The node's host key has changed"
    remedy = "Find out why. If the node was rebuilt, confirm its new key with POST /nodes/{node}/trust."


class AuthenticationRefused(Permanent):
    """The node refused the user's key."""

    code = "authentication_refused"
    title = "The node refused the login"
    remedy = "Put the public key into the user's authorized_keys, or mend user and key path; then refresh the node."


class CredentialUnusable(Permanent):
    """The key file or agent cannot be used."""

    code = "credential_unusable"
    status = 422
    title = "The SSH credential cannot be used"
    remedy = "Name a private key file with mode 600 that has no passphrase, or use the agent."


class RemoteCommandFailed(Permanent):
    """A command on the node ended with an error."""

    code = "remote_command_failed"
    title = "A command on the node failed"
    remedy = "Read the detail: it holds what the node said."
