"""A server's counters, read on the node by its observer: the lines that were asked for, as the server wrote them."""

import shutil
import sys
from itertools import pairwise

from service.remote.messages import Watch
from service.remote.node import NodeSession
from service.remote.observing import MetricsFact, MetricsWish
from service.sglang.metrics import METRIC_NAMES, METRICS_PATH, EngineCounters, parse_metrics
from tests.remote.conftest import Launches, observing
from tests.sshd import free_port

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
ENGINE = r"""
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Engine(BaseHTTPRequestHandler):
    count = 0

    def do_GET(self):
        Engine.count += 1
        bucket = 'sglang:time_to_first_token_seconds_bucket{le="0.25"} 1.0'
        page = "\n".join([
            "# HELP sglang:prompt_tokens_total tokens", *[bucket] * 2000,
            'sglang:prompt_tokens_total{tp_rank="0",dp_rank="0"} %d.0' % Engine.count,
            'sglang:prompt_tokens_total{tp_rank="0",dp_rank="1"} 100.0',
            "sglang:num_running_reqs 3.0", "sglang:num_running_reqs_offline 7.0", "",
        ])
        self.send_response(200 if self.path == "/metrics" else 404)
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *arguments):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[1])), Engine).serve_forever()
"""


async def test_the_counters_of_a_listening_server_are_said_again_and_again(
    node: NodeSession, launches: Launches
) -> None:
    port = free_port()
    order = launches.order(PYTHON, "-c", ENGINE, str(port), port=port)
    await node.stage_and_start(order)
    wish = MetricsWish(METRICS_PATH, METRIC_NAMES, every_s=0.3)
    async with observing(node, [Watch(order.launch_id, port, "127.0.0.1", 0)], metrics=wish) as (_, facts):
        await facts.until(lambda: sum(isinstance(fact, MetricsFact) for fact in facts.said) >= 3)
    said = [fact for fact in facts.said if isinstance(fact, MetricsFact)]
    assert {fact.launch_id for fact in said} == {order.launch_id}
    assert [fact.text.count("\n") for fact in said] == [3] * len(said)
    assert [parse_metrics(fact.text) for fact in said[:3]] == [
        EngineCounters(prompt_tokens=100.0 + count, running_requests=3.0) for count in (1, 2, 3)
    ]
    assert all((later.at - earlier.at).total_seconds() > 0.2 for earlier, later in pairwise(said))


async def test_nothing_is_asked_of_a_port_that_is_another_ones(node: NodeSession, launches: Launches) -> None:
    port = free_port()
    server = launches.order(PYTHON, "-c", ENGINE, str(port), port=port)
    await node.stage_and_start(server)
    waiting = launches.shell("exec sleep 60", port=port)
    await node.stage_and_start(waiting)
    wish = MetricsWish(METRICS_PATH, METRIC_NAMES, every_s=0.1)
    watches = [Watch(order.launch_id, port, "127.0.0.1", 0) for order in (server, waiting)]
    async with observing(node, watches, metrics=wish) as (_, facts):
        await facts.until(lambda: sum(isinstance(fact, MetricsFact) for fact in facts.said) >= 3)
    assert {fact.launch_id for fact in facts.said if isinstance(fact, MetricsFact)} == {server.launch_id}
