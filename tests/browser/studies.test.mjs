// The pages of sweep, plan and validate in a real browser: their figures are those of --json, they can be hovered,
// zoomed, filtered and read, and names in them stay text.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  checkNarrowDarkAndPaper,
  assertHarmless,
  assertNamed,
  close,
  hostile,
  open,
  pageOf,
  picture,
  write,
} from "./browser.mjs";

after(close);

const pages = new Map();
const llama = "scenarios/llama3-70b-64xh100-bf16.json";
before(() => {
  const make = (name, ...words) => pages.set(name, pageOf(name, words));
  const tp = "model.tensor_model_parallel_size",
    pp = "model.pipeline_model_parallel_size";
  make("map", "sweep", llama, "--vary", `${tp}=2,4,8`, "--vary", `${pp}=1,2,4,8`);
  make("lines", "sweep", llama, "--vary", "cluster.nodes=2..16*2");
  make(
    ...["plan", "plan", llama, "--gpus", "64,128", "--vary", `${tp}=4,8`, "--vary", `${pp}=2,4`],
    ...[
      "--vary",
      "model.context_parallel_size=2",
      "--top",
      "3",
      "--tokens",
      "1T",
      "--price",
      "2.5",
    ],
  );
  make("steps", "validate", "--rows", "tests/published/low_precision.jsonl");
  make("collectives", "validate", "--collectives", "tests/published/dispatch.csv");
});

const shown = async (name, options) => ({
  ...pages.get(name),
  ...(await open(pages.get(name).html, options)),
});
const text = (page, selector) => page.locator(selector).innerText();
const seconds = (v) => v.toFixed(3) + " s";
const percent = (v, places = 1) => (v * 100).toFixed(places) + " %";
const signed = (v) => (v > 0 ? "+" : "") + percent(v);
const gib = (v) => (v / 2 ** 30).toFixed(1) + " GiB";

/** Moves the pointer to a mark of a plot; the tip's text. */
async function pointAt(page, plot, index) {
  const locator = page.locator(plot);
  await locator.scrollIntoViewIfNeeded();
  const box = await locator.boundingBox();
  const mark = await page.evaluate(
    ([i, id]) => {
      const { plots, scatter, frontier } = stepsim;
      const all = plots ? plots[stepsim.state.form] : (scatter || frontier).plot;
      const m = all.marks[i];
      return { x: m.x + (m.width || 0) / 2, y: m.y + (m.height || 0) / 2, heading: m.heading };
    },
    [index, plot],
  );
  await page.mouse.move(box.x + mark.x, box.y + mark.y);
  const tip = await text(page, ".tip");
  assert.ok(tip.startsWith(mark.heading), tip);
  return tip;
}

test("sweep: a map with every point, the best marked, reasons where it cannot be", async () => {
  const { page, report, complaints } = await shown("map");
  const best = report.rows[report.best].report;
  assert.equal(await text(page, "#figure-best .value"), seconds(best.step_time_seconds));
  assert.equal(await page.locator("#chart rect.best").count(), 1);
  const cells = await page.evaluate(() =>
    stepsim.plots.map.marks.map((m) => [m.heading, m.lines.flat().join(" ")]),
  );
  assert.equal(cells.length, 12);
  report.rows.forEach(({ values, report: r, failure }, i) => {
    const [tp, pp] = Object.values(values);
    assert.equal(cells[i][0], `TP=${tp} PP=${pp}`);
    if (r) assert.ok(cells[i][1].includes(seconds(r.step_time_seconds)), cells[i][1]);
    else assert.ok(cells[i][1].includes(failure.slice(failure.indexOf(": ") + 2)), cells[i][1]);
  });
  await pointAt(page, "#chart svg.plot >> visible=true", report.best);
  assert.match(await text(page, ".tip"), /The best of those that fit/);
  // As lines: a cross for each point that does not fit or cannot be run.
  await page.getByRole("button", { name: "lines" }).click();
  const no = report.rows.filter((r) => !r.report || !r.report.memory.fits).length;
  assert.equal(await page.locator("#chart path.cross").count(), no);
  assert.equal(await page.locator("#chart path.line").count(), 3);
  await page.getByLabel("across", { exact: true }).selectOption("0");
  assert.equal(await page.locator("#chart path.line").count(), 4);
  await page.getByRole("button", { name: "MFU" }).click();
  assert.match(await page.locator("#chart svg.plot >> visible=true").textContent(), /%/);
  await picture(page, "sweep-lines");
  await page.getByRole("button", { name: "best first" }).click();
  const first = await page.locator("#points tbody tr").first().innerText();
  assert.ok(first.includes(seconds(best.step_time_seconds)) && first.includes("the best"), first);
  assert.equal(await page.locator("#points tbody tr").count(), report.rows.length);
  await assertNamed(page);
  assert.deepEqual(complaints, []);
  await page.close();
});

test("sweep: one key is a line; ledgers add up to the step; the keyboard reaches every point", async () => {
  const { page, report, complaints } = await shown("lines", { colorScheme: "dark" });
  const ran = report.rows.filter((r) => r.report).map((r) => r.report),
    longest = Math.max(...ran.map((r) => r.step_time_seconds));
  const widths = await page.evaluate(() =>
    [...document.querySelectorAll("#ledger .bar")].map((b) =>
      [...b.children].reduce((sum, i) => sum + parseFloat(i.style.width), 0),
    ),
  );
  ran.forEach((r, i) =>
    assert.ok(Math.abs(widths[i] / 100 - r.step_time_seconds / longest) < 1e-4, String(widths)),
  );
  await page.locator("#chart svg.plot >> visible=true").focus();
  const said = [];
  for (let i = 0; i < report.rows.length; ++i) {
    await page.keyboard.press("ArrowRight");
    said.push(await text(page, "#chart .said >> visible=true"));
  }
  report.rows.forEach((r, i) =>
    assert.ok(said[i].startsWith(`nodes=${Object.values(r.values)[0]}`), said[i]),
  );
  await picture(page, "sweep-line-dark");
  assert.deepEqual(complaints, []);
  await page.close();
});

test("plan: ranking, frontier, what decides it, what was searched, what the run costs", async () => {
  const { page, report, complaints } = await shown("plan");
  const tokens = (r) => r.report.tokens_per_second_per_gpu * r.gpus;
  const winner = report.rows.reduce((a, b) => (tokens(b) > tokens(a) ? b : a));
  assert.equal(await text(page, "#figure-step .value"), seconds(winner.report.step_time_seconds));
  const { memory } = winner.report;
  assert.equal(
    await text(page, "#figure-memory .value"),
    gib(memory.capacity_bytes - memory.peak_bytes - memory.reserve_bytes),
  );
  const size = report.by_gpus.find((s) => s.gpus === winner.gpus);
  assert.ok((await text(page, "#figure-days .value")).startsWith(size.run.days.toFixed(1)));
  assert.equal(
    (await text(page, "#figure-money .value")).replace(/,/g, ""),
    String(Math.round(size.run.money)),
  );
  const rows = await page.locator("#ranking tbody tr").allInnerTexts();
  assert.equal(rows.length, report.rows.length);
  report.rows.forEach((r, i) =>
    assert.ok(
      rows[i].includes(r.layout) && rows[i].includes(seconds(r.report.step_time_seconds)),
      rows[i],
    ),
  );
  const searched = (await text(page, "#searched")).replace(/,/g, "");
  for (const key of ["space", "simulated", "pruned", "infeasible"])
    assert.ok(searched.includes(String(report[key])), key);
  // Every simulated layout is a point; those of the frontier lie on its line.
  const drawn = await page.evaluate(() => ({
    points: stepsim.frontier.plot.marks.length,
    frontier: stepsim.raw.rows.filter((r) => r.frontier).length,
  }));
  assert.equal(drawn.points, report.simulated);
  assert.equal(drawn.frontier, report.frontier.length);
  await pointAt(page, "#frontier svg.plot", 0);
  const box = await page.locator("#frontier svg.plot").boundingBox();
  await page.mouse.move(box.x + 90, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + 500, box.y + 300, { steps: 4 });
  await page.mouse.up();
  assert.ok((await page.evaluate(() => stepsim.frontier.plot.marks.length)) < report.simulated);
  await page.getByRole("button", { name: "Show all" }).click();
  assert.equal(await page.evaluate(() => stepsim.frontier.plot.marks.length), report.simulated);
  // The causes between the winner and another add up to the difference of their steps.
  const rival = report.rows.filter((r) => r.gpus === winner.gpus)[2];
  await page.locator("#why select").selectOption({ index: 1 });
  const falls = await page.locator("#why .fall > div").allInnerTexts();
  assert.ok(falls.at(-1).endsWith(seconds(rival.report.step_time_seconds)), falls.at(-1));
  const unit = { s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9 };
  const sum = falls.slice(1, -1).reduce((total, line) => {
    const [, value, name] = line.match(/([+-][0-9.]+) (s|ms|us|ns)$/);
    return total + Number(value) * unit[name];
  }, 0);
  const delta = rival.report.step_time_seconds - winner.report.step_time_seconds;
  assert.ok(Math.abs(sum - delta) < 1e-3, `${sum} ${delta}`);
  await page.locator("#ranking summary").click();
  assert.ok(
    (await text(page, "#ranking pre >> nth=0")).includes("model.tensor_model_parallel_size"),
  );
  await assertNamed(page);
  await picture(page, "plan");
  assert.deepEqual(complaints, []);
  await page.close();
});

test("validate: errors are the report's, the worst first; a group stands alone; it zooms", async () => {
  for (const name of ["steps", "collectives"]) {
    const { page, report, complaints } = await shown(name);
    const { overall, by_group } = report.statistics;
    assert.equal(await text(page, "#figure-mean .value"), percent(overall.mean_abs));
    assert.equal(await text(page, "#figure-p90 .value"), percent(overall.p90_abs));
    assert.equal(await text(page, "#figure-bias .value"), signed(overall.bias));
    const rows = report.rows.filter((r) => r.relative_error !== null);
    assert.equal(await page.evaluate(() => stepsim.scatter.plot.marks.length), rows.length);
    rows.sort((a, b) => Math.abs(b.relative_error) - Math.abs(a.relative_error));
    const first = await page.locator("#rows tbody tr").first().innerText();
    assert.ok(first.includes(rows[0].id) && first.includes(signed(rows[0].relative_error)), first);
    await pointAt(page, "#scatter svg.plot", 3);
    assert.match(await text(page, ".tip"), /measured[\s\S]*predicted[\s\S]*error/);
    await picture(page, "validate-" + name);
    const group = rows[0].group;
    await page.getByLabel("Group", { exact: true }).selectOption(group);
    assert.equal(
      await page.locator("#rows tbody tr").count(),
      rows.filter((r) => r.group === group).length,
    );
    await page.getByLabel("Group", { exact: true }).selectOption("");
    await page.getByRole("searchbox").fill(rows[1].id);
    assert.ok((await page.locator("#rows tbody tr").first().innerText()).includes(rows[1].id));
    await page.getByRole("searchbox").fill("no row has this");
    assert.equal(await page.locator("#rows tbody tr").count(), 0);
    await page.getByRole("searchbox").fill("");
    await page.getByRole("button", { name: "error", exact: true }).click();
    await page.locator("#scatter svg.plot").focus();
    await page.keyboard.press("+");
    assert.ok(await page.getByRole("button", { name: "Show all" }).isEnabled());
    await page.keyboard.press("0");
    assert.equal(await page.evaluate(() => stepsim.scatter.plot.marks.length), rows.length);
    assert.equal(
      await page.locator("#groups tbody tr").count(),
      Object.values(by_group).filter(Boolean).length,
    );
    await assertNamed(page);
    assert.deepEqual(complaints, []);
    await page.close();
  }
});

test("hostile names show as text in every kind of page", async () => {
  const name = hostile + "x".repeat(3000);
  const costs = { forward_seconds: 0.001, backward_seconds: 0.002 };
  const scenario = (m) =>
    JSON.stringify({
      name,
      description: name,
      model: { pipeline_model_parallel_size: 2 },
      train: { global_batch_size: m, micro_batch_size: 1 },
      costs,
    });
  const file = write(hostile + ".json", scenario(4)),
    other = write("other" + hostile + ".json", scenario(5));
  const rows = write(
    "rows.csv",
    `name,scenario,step_seconds\n"${name.replaceAll('"', '""')}","${file.replaceAll('"', '""')}",0.015\n`,
  );
  const hostilePlan = write(
    "plan" + hostile + ".json",
    JSON.stringify({
      name,
      description: name,
      model: { hf_config: "llama3-8b" },
      cluster: { system: "dgx-h100", gpus: 8 },
      train: { global_batch_size: 16, micro_batch_size: 1 },
      dataset: { seq_length: 4096 },
    }),
  );
  const kinds = {
    diff: [file, other],
    sweep: [
      file,
      "--vary",
      "model.pipeline_model_parallel_size=<img src=x onerror=globalThis.hacked=3>,2",
    ],
    validate: ["--rows", rows],
    plan: [
      hostilePlan,
      "--vary",
      "model.context_parallel_size=1",
      "--vary",
      "model.pipeline_model_parallel_size=1",
      "--top",
      "2",
    ],
  };
  for (const [kind, words] of Object.entries(kinds)) {
    const { html } = pageOf("hostile-" + kind, [kind, ...words]);
    for (const width of [1280, 420]) {
      const { page, complaints } = await open(html, {
        width,
        colorScheme: width < 500 ? "dark" : "light",
      });
      assert.ok((await text(page, "body")).includes("<img src=x"), kind);
      await assertHarmless(page);
      await picture(page, `hostile-${kind}-${width}`);
      assert.deepEqual(complaints, []);
      await page.close();
    }
  }
});

test("narrow, dark and on paper", () => checkNarrowDarkAndPaper(shown, ["map", "plan", "steps"]));
