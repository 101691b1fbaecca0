// Sends requests with the headers that restricted calls need, and shows the answers.
import { nested } from "/live/tensors.js";

const REMEMBERED_KEYS = "charonia-keys";
const MOST_SHOWN = 100_000; // characters of an answer

// Kept in this tab only, and sent with the page's own questions too.
window.charoniaKeys = JSON.parse(sessionStorage.getItem(REMEMBERED_KEYS) ?? "{}");

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export const wrong = (text) => element("p", { className: "wrong", textContent: text });

export function keysRow() {
  const keys = element("textarea", {
    rows: 1,
    title: "headers that restricted calls need, one a line",
    placeholder: "header: secret (if calls are restricted)",
    value: Object.entries(window.charoniaKeys).map(([name, value]) => `${name}: ${value}`).join("\n"),
  });
  keys.addEventListener("change", () => {
    const pairs = keys.value.split("\n").map((line) => line.split(/:(.*)/s)).filter((pair) => pair.length > 1);
    window.charoniaKeys = Object.fromEntries(pairs.map(([name, value]) => [name.trim(), value.trim()]));
    sessionStorage.setItem(REMEMBERED_KEYS, JSON.stringify(window.charoniaKeys));
  });
  return element("div", { className: "tensor headers" }, element("label", { textContent: "Headers" }), keys);
}

async function fetched(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { ...window.charoniaKeys, ...options.headers } });
  if (!answer.ok) throw new Error(`${answer.status}: ${errorIn(await answer.text())}`);
  return answer;
}

export const answerOf = async (path) => (await fetched(path)).text();

function errorIn(text) {
  try {
    return JSON.parse(text.replace(/^data: /, "")).error ?? text;
  } catch {
    return text;
  }
}

// Asks a model and shows its answer in `result`; whether there was one without an error.
// Args: `streams`: its responses come one by one; `readers` give the tensors, or null for those that are left out;
// `parameters`: pairs of a name and JSON.
export async function ask(path, streams, readers, parameters, result, signal) {
  const began = performance.now();
  const show = (text, isWrong = false) => {
    const line = `${(performance.now() - began).toFixed(1)} ms  ${cut(text)}\n`;
    result.append(element("span", { className: isWrong ? "wrong" : "" }, line));
    return !isWrong;
  };
  result.replaceChildren();
  result.hidden = false;
  try {
    const tensors = (await Promise.all(readers.map((read) => read()))).filter(Boolean);
    const [rpc, request] = streams ? generateRequest(tensors, parameters) : inferRequest(tensors, parameters);
    const answer = await fetched(`${path}/${rpc}`, { method: "POST", signal, ...request });
    return streams ? await showEvents(answer, show) : show(await answer.text());
  } catch (error) {
    return show(signal.aborted ? "stopped" : error.message, true);
  }
}

const cut = (text) => (text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}… (${text.length.toLocaleString("en")} characters)` : text);

const object = (members) => `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`)}}`;

// JSON, and behind it the bytes of the tensors that have them.
function inferRequest(tensors, parameters) {
  const inputs = tensors.map(({ name, datatype, shape, text, bytes }) =>
    object([
      ...[["name", name], ["datatype", datatype], ["shape", shape]].map(([key, value]) => [key, JSON.stringify(value)]),
      bytes ? ["parameters", object([["binary_data_size", bytes.length]])] : ["data", text],
    ]),
  );
  const header = new Blob([object([["inputs", `[${inputs}]`], ["parameters", object(parameters)]])]);
  const body = new Blob([header, ...tensors.flatMap(({ bytes }) => bytes ?? [])]);
  return ["infer", { body, headers: { "inference-header-content-length": header.size } }];
}

function generateRequest(tensors, parameters) {
  const body = object([...tensors.map((tensor) => [tensor.name, nested(tensor)]), ...parameters]);
  return ["generate_stream", { body, headers: { "content-type": "application/json" } }];
}

// Each response when it comes; whether none was an error.
async function showEvents(answer, show) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", count = 0, right = true;
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const events = (rest + read.value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const text = event.replace(/^data: /, "");
      right = show(text, errorIn(text) !== text) && right;
    }
    count += events.length;
  }
  show(`end of ${count} response${count === 1 ? "" : "s"}`);
  return right;
}
