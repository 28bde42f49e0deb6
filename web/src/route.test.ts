import { expect, test } from "vitest";

import { parse, to } from "./route";

test("an address leads to its view and back", () => {
  expect(parse(to())).toEqual({ view: "fleet" });
  expect(parse(to("servers", "a.b"))).toEqual({ view: "server", name: "a.b", tab: "now" });
  expect(parse(to("servers", "a", "history"))).toEqual({ view: "server", name: "a", tab: "history" });
  expect(parse(to("profiles", "+"))).toEqual({ view: "newProfile" });
  expect(parse(to("profiles", "x/y z"))).toEqual({ view: "profile", name: "x/y z" });
  expect(parse("#/nowhere")).toEqual({ view: "unknown" });
});
