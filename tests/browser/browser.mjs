// Opens pages of the program in Debian's Chromium. `./dev browser` puts playwright-core into build/browser.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const root = resolve(import.meta.dirname, "../..");
const { chromium } = createRequire(join(root, "build/browser/"))("playwright-core");
const folder = mkdtempSync(join(tmpdir(), "stepsim-browser-"));

let browser = null;
export async function close() {
  if (browser) await browser.close();
  browser = null;
}

/** The page and the JSON of a command that writes both: words as on the command line. */
export function pageOf(name, words) {
  const html = join(folder, name + ".html"),
    json = join(folder, name + ".json");
  try {
    execFileSync(join(root, "build/release/stepsim"), [...words, "--html", html, "--json", json], {
      cwd: root,
      stdio: "pipe",
    });
  } catch (error) {
    if (error.status !== 1) throw error; // 1: does not fit, misses a limit: a page shows that too
  }
  return {
    html,
    text: readFileSync(html, "latin1"),
    report: JSON.parse(readFileSync(json, "utf8")),
  };
}
export const simulate = (name, words) => pageOf(name, ["run", ...words]);

/** A name that would do harm as markup, of bytes that a file's name can have. */
export const hostile = `<script>globalThis.hacked = 1<script><img src=x onerror="globalThis.hacked = 2">" ' & \u202eright to left\u202c {{data}} `;

/** Nothing of a hostile name ran or became markup, and the page is no wider than its window. */
export async function assertHarmless(page) {
  assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
  assert.equal(await page.locator("img").count(), 0);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
}

/** Everything that can be focused or is drawn has a name. */
export async function assertNamed(page) {
  assert.equal(
    await page.evaluate(
      () =>
        [
          ...document.querySelectorAll(
            "canvas, svg.plot, button, select, input, .bar, [role=table]",
          ),
        ].filter((e) => !(e.getAttribute("aria-label") || e.textContent || e.labels?.length))
          .length,
    ),
    0,
  );
}

export function write(name, text) {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

/** Opens a file; `complaints` collects what the console, the page or the network complains of. */
export async function open(file, { width = 1280, height = 900, colorScheme = "light" } = {}) {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  const complaints = [];
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && complaints.push(m.text()));
  page.on("pageerror", (e) => complaints.push(String(e.stack || e)));
  page.on(
    "request",
    (r) =>
      r.url().startsWith("file://") ||
      r.url().startsWith("data:") ||
      r.url().startsWith("blob:") ||
      complaints.push("asks for " + r.url()),
  );
  await page.goto("file://" + file);
  await page.waitForFunction(() => globalThis.stepsim);
  await page.waitForTimeout(150);
  return { page, complaints };
}

/** Writes a picture when STEPSIM_SCREENSHOTS names a folder. */
export async function picture(page, name) {
  if (process.env.STEPSIM_SCREENSHOTS)
    await page.screenshot({
      path: join(process.env.STEPSIM_SCREENSHOTS, name + ".png"),
      fullPage: true,
    });
}

/** Of pages that `shown` opens: nothing is wider than a narrow dark screen, and paper has no navigation. */
export async function checkNarrowDarkAndPaper(shown, names) {
  for (const name of names) {
    const { page, complaints } = await shown(name, { width: 390, colorScheme: "dark" });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name);
    await picture(page, name + "-narrow-dark");
    await page.setViewportSize({ width: 760, height: 1000 });
    await page.emulateMedia({ media: "print" });
    await page.waitForTimeout(200);
    assert.ok(!(await page.locator("nav").isVisible()));
    await picture(page, name + "-print");
    assert.deepEqual(complaints, []);
    await page.close();
  }
}
