"""What is sampled on a node beside a benchmark client."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.remote.bundle import payload
from service.remote.observing import MetricsWish, plain_wish


@dataclass(frozen=True, slots=True)
class SamplingOrder:
    """What is sampled beside a client: GPUs by uuid, and the page of metrics of the server on `host` and `port`.

    `marks` are texts of the client's log whose coming is noted with each sample. `metrics.every_s` is the pace of both.
    """

    client_id: str
    host: str
    port: int
    gpu_uuids: Sequence[str]
    marks: Sequence[str]
    metrics: MetricsWish

    def program(self) -> bytes:
        """Return the input of the program that samples, for `LaunchOrder.beside`."""
        request = {
            "launch": self.client_id,
            "host": self.host,
            "port": self.port,
            "gpu_uuids": list(self.gpu_uuids),
            "marks": list(self.marks),
            "metrics": plain_wish(self.metrics),
            "every_s": self.metrics.every_s,
        }
        return payload("sample_beside", request, limit_s=None)
