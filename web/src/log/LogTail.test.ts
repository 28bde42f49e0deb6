import { expect, test, vi } from "vitest";

import { Store } from "../live/store";

vi.stubGlobal("location", { origin: "http://vigil" });
vi.stubGlobal("sessionStorage", { getItem: () => null });
vi.stubGlobal("window", globalThis);
const { emptyPicture, LogTail } = await import("./LogTail");

test("the last lines of a log that ended are told to those who search it", async () => {
  const followed = ["event: log\nid: 20\ndata: \"last\\n\"\n\n", "event: end\nid: 20\ndata: {}\n\n"];
  const answers = [
    new Response("first\n", { headers: { "x-log-next-offset": "6", "x-log-size": "6" } }),
    new Response(followed.join("")),
  ];
  vi.stubGlobal("fetch", () => Promise.resolve(answers.shift()));
  const picture = new Store(emptyPicture());
  let toldOf = 0;
  let version = picture.get().version;
  picture.watch(() => {
    if (picture.get().version !== version) toldOf = picture.get().lines.kept.length;
    version = picture.get().version;
  });
  await new LogTail("la_1", picture).start();
  expect(picture.get().state).toBe("ended");
  expect(picture.get().lines.kept).toEqual(["first", "last"]);
  expect(toldOf).toBe(2);
});
