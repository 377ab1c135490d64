// The page of `stepsim run --html` in a real browser: its figures are the report's, it can be hovered, zoomed and read.
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { after, before, test } from "node:test";
import { checkNarrowDarkAndPaper, close, open, picture, simulate, write } from "./browser.mjs";

after(close);

const runs = new Map();
before(() => {
  for (const name of [
    "gpipe-4x8",
    "1f1b-4x8",
    "interleaved-4x8",
    "zb-h1-4x8",
    "dualpipe-8x20",
    "llama3-70b-64xh100-bf16",
    "llama3.1-405b-1024xh100-bf16",
    "straggler-4xh100-ddp",
  ])
    runs.set(name, simulate(name, [`scenarios/${name}.json`]));
});

const shown = async (name, options) => {
  const run = runs.get(name),
    opened = await open(run.html, options);
  return { ...run, ...opened };
};
const text = (page, selector) => page.locator(selector).innerText();
const number = (words) => Number(words.replace(/[^0-9.]/g, ""));

test("headline figures are the report's", async () => {
  const { page, report, complaints } = await shown("llama3-70b-64xh100-bf16");
  assert.equal(await text(page, "#figure-step .value"), report.step_time_seconds.toFixed(3) + " s");
  assert.ok(
    (await text(page, "#figure-step")).includes(
      report.interval.low_seconds.toFixed(3) +
        " s to " +
        report.interval.high_seconds.toFixed(3) +
        " s",
    ),
  );
  assert.equal(
    number(await text(page, "#figure-tokens .value")),
    Number(report.tokens_per_second_per_gpu.toFixed(1)),
  );
  assert.equal(await text(page, "#figure-mfu .value"), (report.mfu * 100).toFixed(1) + " %");
  assert.equal(
    await text(page, "#figure-bubble .value"),
    (report.bubble_fraction * 100).toFixed(1) + " %",
  );
  assert.equal(
    await text(page, "#figure-overlap .value"),
    (report.overlap_efficiency.overall * 100).toFixed(1) + " %",
  );
  assert.equal(
    await text(page, "#figure-memory .value"),
    (report.memory.peak_bytes / 2 ** 30).toFixed(1) + " GiB",
  );
  assert.ok((await page.title()).includes("llama3-70b on 64 GPUs"));
  await picture(page, "70b");
  assert.deepEqual(complaints, []);
  await page.close();
});

test("ledger bars add up to the step, overlap and memory are the report's", async () => {
  const { page, report } = await shown("llama3-70b-64xh100-bf16");
  const widths = await page.evaluate(() =>
    [...document.querySelectorAll("#ledger .bar:not(.more)")].map((b) =>
      [...b.children].reduce((sum, i) => sum + parseFloat(i.style.width), 0),
    ),
  );
  assert.equal(widths.length, 1 + report.devices.length);
  for (const w of widths) assert.ok(Math.abs(w - 100) < 1e-3, String(w));
  await page.locator("#ledger summary").click();
  const mean = await page.locator("#ledger tbody tr").first().innerText();
  assert.ok(
    mean.includes((report.ledger.compute * report.step_time_seconds).toFixed(3) + " s"),
    mean,
  );
  const rows = await page.locator("#overlap tbody tr").allInnerTexts();
  for (const name of ["tp", "cp", "pp", "dp"])
    assert.ok(
      rows.some(
        (r) =>
          r.startsWith(name) &&
          r.includes((report.overlap_efficiency[name] * 100).toFixed(1) + " %"),
      ),
      name,
    );
  const peaks = await page.evaluate(() =>
    stepsim.page.memory.rows.map(
      (r) =>
        r.parameters +
        r.gradients +
        r.optimizer +
        r.buffers +
        r.working +
        r.activations[r.peak] +
        r.logits[r.peak],
    ),
  );
  report.devices.forEach((d, i) =>
    assert.ok(Math.abs(peaks[i] / d.peak_bytes - 1) < 1e-4, `${peaks[i]} ${d.peak_bytes}`),
  );
  await page.close();
});

/** 1F1B by hand (Narayanan et al. 2021, figure 4): warm-up, pairs, the backwards left over. */
function oneFOneB(p, m, stage) {
  const warm = Math.min(m, p - 1 - stage),
    order = [];
  for (let i = 0; i < warm; ++i) order.push("F" + i);
  for (let i = warm; i < m; ++i) order.push("F" + i, "B" + (i - warm));
  for (let i = m - warm; i < m; ++i) order.push("B" + i);
  return order;
}
/** Interleaved 1F1B (the same, figure 4 below): chunks take turns every p microbatches. */
function interleaved(p, v, m, stage) {
  const unit = (k, back) => {
    const chunk = Math.floor((k % (p * v)) / p);
    return (
      (back ? "B" : "F") +
      (Math.floor(k / (p * v)) * p + (k % p)) +
      "." +
      (back ? v - 1 - chunk : chunk)
    );
  };
  const all = m * v,
    warm = Math.min(all, 2 * (p - 1 - stage) + (v - 1) * p),
    order = [];
  for (let i = 0; i < warm; ++i) order.push(unit(i, false));
  for (let i = warm; i < all; ++i) order.push(unit(i, false), unit(i - warm, true));
  for (let i = all - warm; i < all; ++i) order.push(unit(i, true));
  return order;
}
const orders = (page) =>
  page.evaluate(() => stepsim.page.timeline.devices.map((d, row) => stepsim.order(row)));

test("the drawing has the order of the schedule: gpipe, 1f1b, interleaved", async () => {
  const all = [...Array(8).keys()];
  for (const [name, expected] of [
    ["gpipe-4x8", () => [...all.map((i) => "F" + i), ...all.map((i) => "B" + i)]],
    ["1f1b-4x8", (stage) => oneFOneB(4, 8, stage)],
    ["interleaved-4x8", (stage) => interleaved(4, 2, 8, stage)],
  ]) {
    const { page } = await shown(name);
    const drawn = await orders(page);
    assert.equal(drawn.length, 4);
    drawn.forEach((order, stage) => {
      // Backwards of GPipe may go either way; each once, after all forwards.
      if (name === "gpipe-4x8")
        assert.deepEqual([...order.slice(0, 8), ...order.slice(8).sort()], expected(stage), name);
      else assert.deepEqual(order, expected(stage), `${name} stage ${stage}`);
    });
    await page.close();
  }
});

test("the drawing has the order of the schedule: zero bubble, DualPipe", async () => {
  const zb = await shown("zb-h1-4x8");
  // Qi et al. 2023, figure 2: the first and the last of four ranks; numbers from 0.
  const halves = await orders(zb.page);
  assert.deepEqual(halves[0].slice(0, 11), "F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2".split(" "));
  assert.deepEqual(halves[3].slice(0, 12), "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1".split(" "));
  await picture(zb.page, "zb-h1");
  await zb.page.close();
  const dual = await shown("dualpipe-8x20", { colorScheme: "dark" });
  const drawn = await orders(dual.page);
  await picture(dual.page, "dualpipe-dark");
  for (const order of drawn) {
    for (const chunk of [0, 1])
      for (let i = 10 * chunk; i < 10 * chunk + 10; ++i) {
        const at = (kind) => order.indexOf(`${kind}${i}.${chunk}`);
        assert.ok(at("F") >= 0);
        // A whole backward, or its halves in order.
        if (at("B") >= 0) assert.ok(at("F") < at("B") && at("I") < 0);
        else assert.ok(at("F") < at("I") && at("I") < at("W"));
      }
  }
  // Both ends begin with forwards of their own direction.
  assert.deepEqual([drawn[0][0], drawn[7][0]], ["F0.0", "F10.1"]);
  await dual.page.close();
});

test("hover tells what a block is and what it waited for", async () => {
  const { page, complaints } = await shown("1f1b-4x8");
  const box = await page.locator("#pipeline canvas").boundingBox();
  // Stage 1's first forward waits for stage 0's.
  const [x, y] = await page.evaluate(() => {
    const s = stepsim,
      b = s.page.timeline.devices[1].blocks,
      { x } = s.view.scale(s.pipeline.chart.width);
    return [x((b.start[0] + b.finish[0]) / 2), s.pipeline.y(1) + 6];
  });
  await page.mouse.move(box.x + x, box.y + y);
  const tip = await text(page, ".tip");
  assert.match(tip, /forward, microbatch 0/);
  assert.match(tip, /Waited 1\.000 ms for forward, microbatch 0 on stage 0, rank 0/);
  await page.mouse.move(5, 5);
  assert.ok(!(await page.locator(".tip").isVisible()));
  assert.deepEqual(complaints, []);
  await page.close();
});

test("zoom: drag, keys, buttons, double click; all charts follow", async () => {
  const { page, complaints } = await shown("llama3-70b-64xh100-bf16");
  const range = () => page.evaluate(() => [stepsim.view.low, stepsim.view.high]);
  const [low, high] = await range(),
    box = await page.locator("#pipeline canvas").boundingBox();
  await page.mouse.move(box.x + 400, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + 600, box.y + 40, { steps: 4 });
  await page.mouse.up();
  const zoomed = await range();
  assert.ok(zoomed[0] > low && zoomed[1] < high && zoomed[1] - zoomed[0] < 0.25 * (high - low));
  await page.locator("#pipeline canvas").focus();
  await page.keyboard.press("+");
  const closer = await range();
  assert.ok(Math.abs((closer[1] - closer[0]) * 2 - (zoomed[1] - zoomed[0])) < 1e-9);
  await page.keyboard.press("0");
  assert.deepEqual(await range(), [low, high]);
  await page.getByRole("button", { name: "Steady state" }).click();
  const steady = await range(),
    known = await page.evaluate(() => stepsim.page.detail.windows[1]);
  assert.ok(Math.abs(steady[0] - known.low) < 1e-9 && Math.abs(steady[1] - known.high) < 1e-9);
  await page.mouse.dblclick(box.x + 500, box.y + 40);
  assert.deepEqual(await range(), [low, high]);
  assert.deepEqual(complaints, []);
  await page.close();
});

test("streams: a device's kernels and transfers, and how much of a transfer is hidden", async () => {
  const { page, complaints } = await shown("llama3-70b-64xh100-bf16");
  await page.locator("#streams select").selectOption({ index: 2 });
  const state = await page.evaluate(() => {
    const s = stepsim.streams,
      w = s.windows[1],
      c = w.streams.find((x) => x.stream === "compute"),
      i = Math.floor(c.count / 2);
    stepsim.view.set(c.start[i], c.start[i + 30]);
    return {
      device: s.device.stage,
      names: s.names,
      x: stepsim.view.scale(s.chart.width).x((c.start[i + 3] + c.finish[i + 3]) / 2),
      name: s.taskName(c, i + 3),
    };
  });
  assert.equal(state.device, 2);
  for (const name of ["compute", "tp", "cp", "pp send next", "dp"])
    assert.ok(state.names.includes(name), name);
  await page.locator("#streams").scrollIntoViewIfNeeded();
  const box = await page.locator("#streams canvas").boundingBox();
  await page.mouse.move(box.x + state.x, box.y + 22);
  assert.ok((await text(page, ".tip")).startsWith(state.name));
  await picture(page, "streams");
  await page.locator("#streams summary").click();
  assert.ok((await page.locator("#streams tbody tr").count()) > 30);
  // Hidden time of the pieces drawn, against all: the report's efficiency of tp is near it in a steady state.
  const hidden = await page.evaluate(() => {
    const w = stepsim.streams.windows[1],
      s = w.streams.find((x) => x.stream === "tp");
    let all = 0,
      bare = 0;
    for (let i = 0; i < s.count; ++i) {
      all += s.finish[i] - s.start[i];
      bare += s.bare[i].reduce((sum, [a, b]) => sum + b - a, 0);
    }
    return 1 - bare / all;
  });
  assert.ok(
    Math.abs(hidden - runs.get("llama3-70b-64xh100-bf16").report.overlap_efficiency.tp) < 0.05,
    String(hidden),
  );
  assert.deepEqual(complaints, []);
  await page.close();
});

test("placement: groups that straddle NVLink domains are the report's; a group lights up", async () => {
  const { page, report } = await shown("llama3.1-405b-1024xh100-bf16");
  const spreads = await page.evaluate(() =>
    Object.fromEntries(
      [...stepsim.map.spreads].map(([k, s]) => [k, [s.groups, s.straddling.size, s.widest]]),
    ),
  );
  for (const s of report.mesh.straddling) {
    const name = s.group.replace("-", "_");
    if (spreads[name]) assert.deepEqual(spreads[name], [s.total, s.groups, s.domains], name);
  }
  assert.equal(spreads.tp[1], 0);
  await page.getByRole("button", { name: "dp", exact: true }).click();
  await page.locator("#placement canvas").focus();
  await page.keyboard.press("ArrowRight");
  assert.match(
    await text(page, "#placement .said"),
    /rank 1.*dp group, 1 17 33.*Straddles 8 NVLink domains/,
  );
  await page.close();
});

test("keyboard: arrows go from block to block and are said; tables stand for every chart", async () => {
  const { page } = await shown("interleaved-4x8");
  await page.locator("#pipeline canvas").focus();
  await page.keyboard.press("ArrowRight");
  assert.match(await text(page, "#pipeline .said"), /forward, microbatch 0, chunk 0/);
  await page.keyboard.press("ArrowDown");
  assert.match(await text(page, "#pipeline .said"), /stage 1/);
  await page.locator("#pipeline summary").click();
  assert.equal(await page.locator("#pipeline tbody tr").count(), 32);
  const unnamed = await page.evaluate(
    () =>
      [...document.querySelectorAll("canvas, button, select, .bar")].filter(
        (e) => !(e.getAttribute("aria-label") || e.textContent || e.labels?.length),
      ).length,
  );
  assert.equal(unnamed, 0);
  await page.close();
});

test("405B on 1,024 GPUs: under 3 MB, headline within 1.5 s", async () => {
  const { html, page, complaints } = await shown("llama3.1-405b-1024xh100-bf16");
  assert.ok(statSync(html).size < 3e6, String(statSync(html).size));
  await picture(page, "405b");
  let first = Infinity;
  for (let i = 0; i < 3; ++i) {
    await page.reload();
    await page.waitForFunction(() => globalThis.stepsim);
    const paint = await page.evaluate(
      () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity,
    );
    first = Math.min(first, paint);
  }
  console.log(
    `405B: ${(statSync(html).size / 1e6).toFixed(2)} MB, first contentful paint ${first.toFixed(0)} ms`,
  );
  assert.ok(first < 1500, String(first));
  assert.deepEqual(complaints, []);
  await page.close();
});

test("a long pipeline, 64 stages x 512 microbatches, stays under 2.5 MB and reads back whole", async () => {
  const { html } = simulate("1f1b-64x512", ["scenarios/1f1b-64x512.json"]);
  assert.ok(statSync(html).size < 2.5e6, String(statSync(html).size));
  const { page, complaints } = await open(html);
  const drawn = await orders(page);
  drawn.forEach((order, stage) => assert.deepEqual(order, oneFOneB(64, 512, stage)));
  assert.equal(drawn.length, 64);
  assert.deepEqual(complaints, []);
  await page.close();
});

test("hostile names show as text, nothing runs, nothing overflows", async () => {
  const name =
    `</script><script>globalThis.hacked = 1</script><img src=x onerror="globalThis.hacked = 2">" ' & \u202eright to left\u202c {{data}} ` +
    "x".repeat(3000);
  const scenario = write(
    "hostile-names.json",
    JSON.stringify({
      name,
      description: name,
      model: { pipeline_model_parallel_size: 2 },
      train: { global_batch_size: 4, micro_batch_size: 1 },
      costs: { forward_seconds: 0.001, backward_seconds: 0.002 },
    }),
  );
  const { html } = simulate("hostile", [scenario]);
  const { page, complaints } = await open(html, { width: 700 });
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
  assert.ok((await page.evaluate(() => document.querySelector("h1").textContent)).includes(name));
  assert.equal(await page.locator("img").count(), 0);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  assert.deepEqual(complaints, []);
  await page.close();
});

test("narrow, dark and on paper", () =>
  checkNarrowDarkAndPaper(shown, ["llama3-70b-64xh100-bf16", "straggler-4xh100-ddp"]));
