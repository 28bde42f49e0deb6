import { expect, test } from "vitest";

import { EventParser } from "./sse";

const STREAM =
  ": events after 20\nretry: 2000\nid: 20\n\nid: 21\nevent: server_moved\ndata: {\"a\":\ndata: 1}\n\n: ping\n\ndata: x\r\n\r\n";
const EVENTS = [
  { kind: "message", id: "20", data: "" },
  { kind: "server_moved", id: "21", data: '{"a":\n1}' },
  { kind: "message", id: "21", data: "x" },
];

test("a stream gives the same events wherever it is cut", () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    const parser = new EventParser();
    expect([...parser.feed(STREAM.slice(0, cut)), ...parser.feed(STREAM.slice(cut))]).toEqual(EVENTS);
  }
});

test("what has not ended is no event", () => {
  expect(new EventParser().feed("data: half\n")).toEqual([]);
});
