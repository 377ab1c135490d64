// The lab's engine and the program give the same report, byte for byte: another compiler, another C library, another word size.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { labEngine } from "./lab_engine.mjs";

const root = resolve(import.meta.dirname, "../..");

/** The program's --json; exit code 1 says that the step does not fit into memory. */
function native(file, words) {
  const options = { cwd: root, stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 28 };
  try {
    return execFileSync(
      join(root, "build/release/stepsim"),
      ["run", file, ...words, "--json", "-"],
      options,
    ).toString();
  } catch (error) {
    if (error.status !== 1) throw error;
    return error.stdout.toString();
  }
}

/** Of every schedule, precision, kind of model and machine one, and what is random here: draws and sums over ranks. */
const scenarios = [
  ["scenarios/gpipe-4x8.json"],
  ["scenarios/1f1b-4x8.json"],
  ["scenarios/1f1b-64x512.json"],
  ["scenarios/interleaved-4x8.json"],
  ["scenarios/zb-h1-4x8.json"],
  ["scenarios/zb-h1-4x8.json", "pipeline.schedule=zb_v"],
  ["scenarios/dualpipe-8x20.json"],
  ["scenarios/straggler-4xh100-ddp.json"],
  ["scenarios/straggler-4xh100-ddp.json", 'cluster.jitter={"sigma":0.03,"seed":7}'],
  ["scenarios/llama3-70b-64xh100-bf16.json"],
  ["scenarios/llama3-70b-64xh100-fp8.json", "train.global_batch_size=32"],
  ["scenarios/llama3-8b-8xb200-fp8.json"],
  ["scenarios/llama3-8b-8xgb200-fp8.json"],
  ["scenarios/llama3.1-8b-128xh100-fp8.json"],
  ["scenarios/llama3.1-405b-1024xh100-bf16.json", "train.global_batch_size=128"],
  ["scenarios/llama3.1-405b-256xgb300-fp8.json", "train.global_batch_size=128"],
  ["scenarios/nemotron4-15b-512xh100-fp8.json"],
  ["scenarios/gpt3-175b-64xa100-selective.json"],
  ["scenarios/bloom-176b-384xa100-bf16.json", "train.global_batch_size=256"],
  [
    "scenarios/recipes/deepseek_v3_pretrain_256gpu_gb200_bf16_config.json",
    "train.global_batch_size=256",
  ],
  [
    "scenarios/recipes/gpt_oss_120b_pretrain_64gpu_h100_bf16_config.json",
    "train.global_batch_size=64",
    'costs.moe_routing={"zipf":0.8}',
  ],
  [
    "scenarios/recipes/qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config.json",
    "train.global_batch_size=64",
  ],
];

test("the same bytes as the program's", async (t) => {
  const ask = await labEngine();
  for (const [file, ...overrides] of scenarios)
    await t.test([file, ...overrides].join(" "), () => {
      const text = readFileSync(join(root, file), "utf8");
      const answer = ask({ file, text, overrides, want: "report" });
      assert.match(answer, /"step_time_seconds": \d/);
      assert.ok(answer === native(file, overrides), answer.slice(0, 300));
    });
});

test("what is refused is the program's one line, as an answer", async () => {
  const ask = await labEngine();
  const refused = (text, file = "x.json") =>
    JSON.parse(ask({ file, text, overrides: [], want: "page" })).error;
  assert.match(refused("{").message, /JSON/i);
  assert.equal(refused("{").file, "x.json");
  const near = refused(
    '{"train": {"global_batch_size": 8}, "model": {"hf_config": "llama3-8"}, "cluster": {"system": "dgx-h100", "nodes": 1}, "dataset": {"seq_length": 4096}}',
  );
  assert.equal(near.pointer, "/model/hf_config");
  assert.match(near.message, /llama3-8b/);
  assert.match(refused("model: {}", "x.yaml").message, /YAML/);
  assert.ok(JSON.parse(ask({})).error);
});
