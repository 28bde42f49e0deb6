import { expect, test } from "vitest";

import { indexOf, linesWith } from "./find";
import { Lines } from "./lines";

test("lines are numbered by newlines, and of a bar that was drawn over the last state is kept", () => {
  const lines = new Lines();
  lines.feed("one\n 1/3\r 2/3");
  lines.feed("\r 3/3\r\n\x1b[31mred\x1b[0m\nopen");
  expect(lines.kept).toEqual(["one", " 3/3", "red"]);
  expect(lines.last).toBe("open");
});

test("of a log that grows for ever the newest lines stay, with their numbers", () => {
  const lines = new Lines(3);
  lines.feed("1\n2\n3\n4\n5\n");
  expect([lines.first, lines.kept]).toEqual([3, ["3", "4", "5"]]);
  expect(indexOf(lines, { line: 4, text: "?" }, true)).toBe(1);
});

test("evidence is found by its text where lines have no numbers, or its line is gone", () => {
  const lines = new Lines(3);
  lines.feed("a\n[12:00] AssertionError\nb\nc\n");
  expect(indexOf(lines, { line: 2, text: "AssertionError" }, false)).toBe(0);
  expect(indexOf(lines, { line: 1, text: "gone" }, true)).toBeNull();
});

test("finding does not mind the case", () => {
  expect(linesWith(["Error: x", "fine", "an ERROR"], "error")).toEqual([0, 2]);
  expect(linesWith(["x"], "")).toEqual([]);
});
