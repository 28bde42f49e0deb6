"""The five stories of starts that went wrong, as an operator would see them."""

import asyncio

import pytest
from playwright.async_api import expect

from tests.scenarios.conftest import MISNAMED_DRAFT, OLD_ENGINE, SHORT_DRAFT, THREE_NUMBERS, Operator, Stage
from tests.web.browsing import PATIENCE_MS, Screen

pytestmark = pytest.mark.web
FIVE_DRAFT_TOKENS: dict[str, object] = {**THREE_NUMBERS, "speculative-num-steps": 4, "speculative-num-draft-tokens": 5}


async def test_a_the_misnamed_draft_is_refused_with_its_rename_and_when_overridden_told_under_load(
    stage: Stage, screen: Screen
) -> None:
    old = stage.atlas.engine_pythons[OLD_ENGINE]
    await stage.write(stage.kimi("scenario_a", python=old, draft=MISNAMED_DRAFT, numbers=FIVE_DRAFT_TOKENS))
    made = await stage.post("/servers", {"name": "one", "profile": "kimi", "node": "atlas"}, expect=201)
    await screen.open("servers", "one")
    await screen.page.get_by_role("button", name="Launch …").click()
    dialog = screen.page.get_by_role("dialog")
    failed = dialog.locator(".check-fail")
    await expect(failed).to_contain_text("Draft weight keys: fail")
    await expect(failed).to_contain_text("midlayer")
    await expect(dialog.get_by_role("button", name="Launch one")).to_be_disabled()
    await failed.get_by_label("Launch although draft_weight_keys fails").check()
    assert '"override":["draft_weight_keys"]' in (await dialog.locator("pre").text_content() or "")
    await dialog.get_by_role("button", name="Launch one all the same").click()
    await screen.sees("Warming up")
    await screen.sees("Ready: it serves")
    await screen.sees("Speculation (EAGLE3): unknown")
    operator = Operator(made["server"]["port"])
    await asyncio.gather(*(operator.generate(320) for _ in range(3)))
    await screen.sees("accept length 1.00")
    await screen.sees("speculation_ineffective")


async def test_b_the_silent_warm_up_is_slow_at_most(stage: Stage, screen: Screen) -> None:
    await stage.begin(stage.kimi("scenario_b", limits={"hang_after_s": 14}))
    await screen.open("servers", "one")
    now = screen.page.get_by_role("region", name="What it is doing")
    await expect(now).to_contain_text("Warming up", timeout=PATIENCE_MS)
    await expect(now.locator(".verdict")).to_have_text("slow", timeout=PATIENCE_MS)
    await expect(now.locator(".note-warning")).to_be_visible()
    await expect(now).to_contain_text("warming_up for ")
    await expect(screen.page.locator(".phase-now")).to_contain_text("Warming up")
    await screen.sees("Ready: it serves")
    assert "suspected_hung" not in await stage.verdicts()


async def test_c_a_fast_start_is_believed_for_a_reason_and_the_end_before_it_is_proven(
    stage: Stage, screen: Screen
) -> None:
    await stage.begin(stage.recipe("scenario_c", gpu_count=2, server_args={"tp-size": 2}))
    await stage.get("/servers/one/wait?timeout_s=30")
    before = (await stage.get("/servers/one"))["launch"]["id"]
    await stage.post("/servers/one/restart")
    await screen.open("servers", "one")
    await screen.sees("Launch 2: where the time goes")
    await screen.sees("Ready: it serves")
    await screen.sees("of the model's files were in the page cache before")
    await screen.open("launches", before)
    await screen.page.get_by_text("The proof of its end").click()
    await screen.sees("processes")
    await screen.open("servers", "one", "history")
    row = screen.page.get_by_role("row").filter(has_text="stop verified")
    await expect(row).to_contain_text("no process, listener, GPU memory or shared memory")


async def test_d_a_frozen_capture_is_told_with_its_last_sign(stage: Stage, screen: Screen) -> None:
    await stage.begin(stage.kimi("scenario_d", limits={"hang_after_s": 5}))
    await screen.open()
    await screen.sees("suspected hung")
    await screen.page.get_by_role("link", name="one", exact=True).click()
    now = screen.page.get_by_role("region", name="What it is doing")
    await expect(now.locator(".note-failure")).to_contain_text("Suspected hung: Capturing graphs")
    await expect(now).to_contain_text("3 of 52 graphs")
    await expect(now).to_contain_text("hang_after_s")
    await now.get_by_text("How that is known").click()
    await expect(now).to_contain_text("Last sign of progress")
    await screen.page.get_by_text("Kept when it was suspected hung").click()
    await screen.sees("Capturing batches")


async def test_d_a_draft_for_half_the_context_fails_the_checks_with_both_numbers(stage: Stage, screen: Screen) -> None:
    await stage.write(stage.kimi("scenario_d_slow", scale=0.1, draft=SHORT_DRAFT))
    await stage.post("/servers", {"name": "one", "profile": "kimi", "node": "atlas"}, expect=201)
    await screen.open("servers", "one")
    await screen.page.get_by_role("button", name="Launch …").click()
    check = screen.page.locator(".check-fail").filter(has_text="Draft context length")
    await expect(check).to_contain_text("262144")
    await expect(check).to_contain_text("131072")
    await expect(check).to_contain_text("--context-length 131072")


async def test_e_the_mistake_is_named_its_line_is_shown_and_the_time_of_the_next_start_is_told(
    stage: Stage, screen: Screen
) -> None:
    recipe = stage.kimi("scenario_e", numbers={**THREE_NUMBERS, "num-speculative-tokens": 4})
    await stage.begin(recipe, override=list(await stage.refused(recipe)))
    await screen.open("servers", "one")
    now = screen.page.get_by_role("region", name="What it is doing")
    await expect(now.locator(".note-failure")).to_contain_text("Failed: ", timeout=PATIENCE_MS)
    await expect(now).to_contain_text("invalid_argument")
    await expect(now).to_contain_text("Engine arguments: fail, overridden")
    await expect(now).to_contain_text("--speculative-num-draft-tokens")
    await now.get_by_role("button", name="line").first.click()
    await expect(screen.page.locator(".log-marked")).to_contain_text("--num-speculative-tokens")

    await stage.write(stage.kimi("scenario_e", scale=0.2))
    for name in ("two", "three"):
        await stage.until("/operations?state=running", lambda page: not page["items"])
        await stage.post("/servers", {"name": name, "profile": "kimi", "node": "atlas", "launch": True}, expect=201)
        await screen.open("servers", name)
        if name == "three":
            await screen.sees("Ready in about")
            await expect(screen.page.locator(".phase-usual").first).to_be_attached()
        await screen.sees("Ready: it serves")
        await expect(screen.page.locator(".phase-name").get_by_text("64 shards", exact=True)).to_be_visible()
        await stage.end(name)
    await screen.open("servers", "three", "history")
    await expect(screen.page.locator(".start-bars li")).to_have_count(2)
