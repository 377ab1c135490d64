// The page of `stepsim diff --html` in a real browser: its figures are those of --json, both timelines share one axis.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { checkNarrowDarkAndPaper, assertNamed, close, open, pageOf, picture } from "./browser.mjs";

after(close);

let made = null;
before(() => {
  made = pageOf("diff", [
    ...["diff", "scenarios/llama3-70b-64xh100-bf16.json", "~model.sequence_parallel"],
    ...["model.pipeline_model_parallel_size=8", "--fail-above=2%"],
  ]);
});
const shown = async (options) => ({ ...made, ...(await open(made.html, options)) });
const text = (page, selector) => page.locator(selector).innerText();
const seconds = (v) => v.toFixed(3) + " s";
const percent = (v, places = 1) => (v * 100).toFixed(places) + " %";
const gib = (v) => (v / 2 ** 30).toFixed(1) + " GiB";

test("diff: figures, changes and causes are the report's", async () => {
  const { page, report, complaints } = await shown();
  assert.equal(await text(page, "#figure-delta .value"), "+" + seconds(report.delta_seconds));
  assert.ok((await text(page, "#figure-delta")).includes(percent(report.relative, 2)));
  assert.equal(await text(page, "#figure-step .value"), seconds(report.b.step_time_seconds));
  assert.ok((await text(page, "#figure-step")).includes(seconds(report.a.step_time_seconds)));
  const { memory } = report.b;
  assert.equal(
    await text(page, "#figure-memory .value"),
    gib(memory.peak_bytes + memory.reserve_bytes),
  );
  // The bars: A, one a change (or cause) that moves, B.
  const bars = await page.locator("#changes .fall > div").allInnerTexts();
  assert.equal(bars.length, report.by_change.length + 2);
  report.by_change.forEach((c, i) => {
    assert.ok(bars[i + 1].startsWith(c.key), bars[i + 1]);
    assert.ok(bars[i + 1].endsWith("+" + seconds(c.delta_seconds)), bars[i + 1]);
  });
  // Their ends meet: from A's step to B's.
  const spans = await page.evaluate(() =>
    [...document.querySelectorAll("#causes .fall i")].map((i) => ({
      kind: i.className,
      left: parseFloat(i.style.left),
      right: parseFloat(i.style.left) + parseFloat(i.style.width),
    })),
  );
  let at = spans[0].right;
  for (const s of spans.slice(1, -1)) {
    assert.ok(Math.abs((s.kind === "more" ? s.left : s.right) - at) < 0.2, JSON.stringify(spans));
    at = s.kind === "more" ? s.right : s.left;
  }
  assert.ok(Math.abs(spans.at(-1).right - at) < 0.2);
  const gates = await text(page, "#gates");
  for (const g of report.gates) assert.ok(gates.includes(g.key) && gates.includes(g.reason), g.key);
  assert.match(gates, /Limit/);
  await page.locator("#causes summary").click();
  assert.ok((await text(page, "#causes table")).includes("exposed pp"));
  await assertNamed(page);
  await picture(page, "diff");
  assert.deepEqual(complaints, []);
  await page.close();
});

test("diff: both timelines share one axis, each in its own schedule's order", async () => {
  const { page, report, complaints } = await shown();
  const state = await page.evaluate(() => ({
    finish: stepsim.pages.map((p) => p.timeline.finish),
    high: stepsim.view.high,
    rows: stepsim.pages.map((p) => p.timeline.devices.length),
    forwards: [0, 1].map((s) => stepsim.order(s, 0).filter((a) => a[0] === "F").length),
  }));
  assert.ok(Math.abs(state.finish[0] - report.a.step_time_seconds) < 1e-6);
  assert.ok(Math.abs(state.finish[1] - report.b.step_time_seconds) < 1e-6);
  assert.equal(state.high, Math.max(...state.finish));
  assert.deepEqual(state.rows, [4, 8]);
  // Each chunk runs every microbatch once: 5 chunks; 64 microbatches at DP 2, 128 at DP 1.
  assert.deepEqual(state.forwards, [5 * 64, 5 * 128]);
  const canvases = page.locator("#timelines canvas");
  await canvases.nth(0).scrollIntoViewIfNeeded();
  const box = await canvases.nth(0).boundingBox();
  await page.mouse.move(box.x + 400, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + 420, box.y + 40, { steps: 3 });
  await page.mouse.up();
  const { low, high } = await page.evaluate(() => stepsim.view);
  assert.ok(high - low < 0.05 * state.high);
  const other = await canvases.nth(1).boundingBox();
  const at = await page.evaluate(() => {
    const { blocks } = stepsim.pages[1].timeline.devices[0],
      { x } = stepsim.view.scale(stepsim.pipelines[1].chart.width),
      i = blocks.start.findIndex((s) => s > stepsim.view.low);
    return [x((blocks.start[i] + blocks.finish[i]) / 2), stepsim.pipelines[1].y(0) + 4];
  });
  await page.mouse.move(other.x + at[0], other.y + at[1]);
  assert.match(await text(page, ".tip"), /microbatch \d+, chunk \d/);
  await picture(page, "diff-zoomed");
  await page.getByRole("button", { name: "Whole step" }).click();
  assert.equal(await page.evaluate(() => stepsim.view.high), state.high);
  assert.deepEqual(complaints, []);
  await page.close();
});

test("diff: narrow, dark and on paper", () =>
  checkNarrowDarkAndPaper((name, how) => shown(how), ["diff"]));
