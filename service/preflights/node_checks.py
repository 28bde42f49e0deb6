"""What a look at a node says of a launch that is wished for there: its GPUs, port, room, limits, driver and clock."""

from datetime import datetime

from service.nodes.inventory import Inventory
from service.preflights.conditions import LaunchConditions
from service.preflights.node_clock import check_clock
from service.preflights.node_driver import check_driver
from service.preflights.node_gpus import check_gpus
from service.preflights.node_limits import check_limits
from service.preflights.node_port import check_port
from service.preflights.node_room import check_disk, check_shared_memory
from service.preflights.node_wish import NodeWish
from service.sglang.checks import Check

__all__ = ["NodeWish", "check_node"]


def check_node(
    inventory: Inventory, conditions: LaunchConditions, wish: NodeWish, *, now: datetime
) -> tuple[Check, ...]:
    """Return one check for each thing that a node can lack. What could not be looked at is skipped with the reason."""
    return (
        check_gpus(inventory, conditions, wish, now=now),
        check_port(conditions, wish),
        check_disk(conditions),
        check_shared_memory(conditions, wish),
        check_limits(inventory, conditions, wish),
        check_driver(inventory, conditions, wish),
        check_clock(conditions, wish),
    )
