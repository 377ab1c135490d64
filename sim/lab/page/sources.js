// From what the reader has set to what the engine is asked: texts of scenarios, systems with other links.
import { wordsOf, valueAt } from "./state.js";

/** The shipped files, read when asked for. */
export class Sources {
  constructor(files) {
    this.files = files;
    this.read = new Map();
    const names = (folder) =>
      Object.keys(files)
        .filter((path) => path.startsWith(folder) && !path.slice(folder.length).includes("/"))
        .map((path) => path.slice(folder.length, -".json".length))
        .sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    this.models = names("models/");
    this.systems = names("hardware/");
    this.scenarios = names("scenarios/");
    this.recipes = names("scenarios/recipes/")
      .map((name) => "recipes/" + name)
      .filter((name) => valueAt(this.json(`scenarios/${name}.json`), "cluster.system"));
    this.lessons = names("scenarios/lessons/").map((name, i) => ({
      number: i + 1,
      file: `scenarios/lessons/${name}.json`,
      ...this.json(`scenarios/lessons/${name}.json`),
    }));
  }
  json(path) {
    if (!this.read.has(path)) this.read.set(path, JSON.parse(this.files[path]));
    return this.read.get(path);
  }
  lessonOf(start) {
    const found = /^lesson-(\d+)$/.exec(start);
    return (found && this.lessons[Number(found[1]) - 1]) || null;
  }
  has(start) {
    return start === "file" || this.scenarios.includes(start) || this.recipes.includes(start) || this.lessonOf(start) !== null;
  }
  /** {file, text} of the scenario that a state starts from. */
  scenario(state) {
    if (state.file) return { file: state.file.name, text: state.file.text };
    const lesson = this.lessonOf(state.start);
    if (lesson) return { file: lesson.file, text: JSON.stringify(lesson.scenario) };
    const file = `scenarios/${state.start}.json`;
    return { file, text: this.files[file] };
  }

  /** The GPU and link figures of a system; null where it is not a shipped one of nodes and NICs. */
  links(system) {
    const path = `hardware/${system}.json`;
    if (!this.files[path]) return null;
    const described = this.json(path);
    if (described.links || !described.nic_rate) return null;
    const gpu =
      typeof described.gpu === "string"
        ? this.json(`hardware/gpus/${described.gpu}.json`)
        : described.gpu;
    return { described, gpu };
  }

  /** The system with its links turned, as a file of its own; null where nothing is turned. */
  turnedSystem(state, system) {
    if (state.nic === 1 && state.nvlink === 1) return null;
    const found = this.links(system);
    if (!found) return null;
    const gpu = { ...found.gpu };
    delete gpu.$schema;
    if (gpu.nvlink) {
      gpu.nvlink = { ...gpu.nvlink };
      for (const key of Object.keys(gpu.nvlink))
        if (key.endsWith("bandwidth")) gpu.nvlink[key] = times(gpu.nvlink[key], state.nvlink);
    }
    const turned = {
      ...found.described,
      description: `${found.described.description}; NICs x ${state.nic}, NVLink x ${state.nvlink}`,
      gpu,
      nic_rate: times(found.described.nic_rate, state.nic),
    };
    delete turned.$schema;
    const name = `${system}-nic-x${state.nic}-nvlink-x${state.nvlink}.json`;
    return { name, text: JSON.stringify(turned, null, 2) + "\n" };
  }

  /** {question, files} for the engine. `system`: the one in effect without the turned links. */
  question(state, system, want = "page") {
    const { file, text } = this.scenario(state),
      turned = system ? this.turnedSystem(state, system) : null,
      overrides = wordsOf(state);
    const files = {};
    if (turned) {
      files["lab/" + turned.name] = turned.text;
      overrides.push(`cluster.system=/lab/${turned.name}`);
    }
    return { question: { file, text, overrides, want }, files };
  }

  /** The system that a state names, by its words, its file or that file's base. */
  systemOf(state) {
    if (state.words["cluster.system"]) return state.words["cluster.system"];
    let { file, text } = this.scenario(state);
    for (let deep = 0; deep < 8 && text; ++deep) {
      let read;
      try {
        read = JSON.parse(text);
      } catch {
        return null;
      }
      const system = valueAt(read, "cluster.system");
      if (system || !read || !read.base) return system || null;
      file = new URL(read.base, "file:///" + file).pathname.slice(1);
      text = this.files[file];
    }
    return null;
  }
}

/** "400 Gb/s" times 2. */
function times(quantity, factor) {
  const [, number, unit] = /^\s*([0-9.eE+-]+)(.*)$/.exec(quantity);
  return Number(number) * factor + unit;
}
