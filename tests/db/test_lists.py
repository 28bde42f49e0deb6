"""What a list of servers reads: no more columns than it shows, in as many queries for one as for many."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from service.db import servers as server_queries
from service.db.engine import Database
from service.db.paging import PageRequest
from service.db.recorded_servers import RecordedServers
from service.db.servers import NodeBrief, ServerFilter, ServerRow
from service.db.tables import Launch
from service.nodes.contact import Contact
from service.servers.states import State
from tests.db.test_writing import NOW, add_servers


@contextmanager
def listening(database: Database) -> Iterator[list[str]]:
    """Give the statements that readers send meanwhile."""
    said: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        said.append(statement)

    engine = database._read_engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    yield said
    event.remove(engine, "before_cursor_execute", note)


async def rows_of(database: Database, limit: int) -> list[ServerRow]:
    async with database.read() as session:
        return [*(await RecordedServers().page(session, PageRequest(limit=limit), ServerFilter())).items]


async def test_a_list_leaves_inventories_and_evidence_where_they_are(database: Database) -> None:
    await add_servers(database, "a", "b", "c", state=State.READY)
    async with database.write() as session:
        for name in ("a", "b", "c"):
            server = await server_queries.get_server(session, name)
            server.launch_id = f"ln_{server.name}"
            session.add(
                Launch(
                    id=server.launch_id, server_id=server.id, node_id=server.node_id, number=1,
                    profile_id=server.profile_id, profile_version=1, recipe={"on_crash": "restart"}, argv=["x"],
                    environment={}, port=server.port, gpus=[], model_path="/m", created_at=NOW, timeline=[],
                )
            )  # fmt: skip
    with listening(database) as said:
        rows = await rows_of(database, 200)
        count = len(said)
        await rows_of(database, 1)
    assert {row.node for row in rows} == {NodeBrief("nd_1", "atlas", Contact.OK, NOW, None)}
    assert [row.launch.recipe for row in rows if row.launch] == [{"on_crash": "restart"}] * 3
    assert [name for name in ("inventory", "argv", "environment", "marks", "hang_evidence") if name in str(said)] == []
    assert len(said) == 2 * count
