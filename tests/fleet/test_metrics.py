"""What Prometheus is told of a start, from the request to ready."""

from tests.api.scraping import require_catalog, scrape
from tests.fleet.conftest import World


async def test_a_start_is_counted_phase_by_phase(world: World) -> None:
    await world.take_in(world.atlas)
    await world.bring_up()
    await world.until("/servers/one", lambda server: server["verdict"] is not None)
    page = await scrape(world.api)
    names = {"server": "one", "node": "atlas", "profile": "one-profile"}
    assert page.value("vigil_server_state", **names, state="ready") == 1
    assert page.value("vigil_server_launches_total", **names) == 1
    assert page.value("vigil_transitions_total", subject="server", reason="became_ready") == 1
    assert page.value("vigil_transitions_total", subject="node", reason="contact_made") == 1
    assert page.value("vigil_operations_ended_total", kind="launch", state="succeeded") == 1
    assert page.value("vigil_operations_running", kind="launch") == 0
    assert page.value("vigil_start_seconds_count", profile="one-profile") == 1
    phase = {"profile": "one-profile", "phase": "loading_weights"}
    assert page.value("vigil_start_phase_seconds_count", **phase) >= 1
    assert page.value("vigil_start_phase_seconds_bucket", **phase, le="+Inf") >= 1
    assert page.value("vigil_watch_lag_seconds", node="atlas") < 5
    assert page.value("vigil_server_facts_age_seconds", **names) < 5
    assert page.value("vigil_ssh_connections", state="open") == 1
    assert [labels["verdict"] for labels in page.labels_of("vigil_server_verdict")] != []
    again = await scrape(world.api)
    assert again.value("vigil_transitions_total", subject="server", reason="became_ready") == 1
    require_catalog(again)
