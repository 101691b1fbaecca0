// A form for each model that sends a request as any client does: to the protocol's own path on this port.
const REMEMBERED_KEYS = "charonia-keys";

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// Headers that restricted calls need; kept in this tab only, and sent with the page's own questions too.
window.charoniaKeys = JSON.parse(sessionStorage.getItem(REMEMBERED_KEYS) ?? "{}");

export function offerToTry(section, model) {
  if (section.dataset.version === model.version) return;
  section.dataset.version = model.version;
  section.hidden = false;
  const open = element("button", { type: "button", textContent: "Try it" });
  open.addEventListener("click", () => fillIn(section, model).catch((error) => section.append(wrong(error.message))));
  section.replaceChildren(open);
}

const pathOf = (model) => `/v2/models/${encodeURIComponent(model.name)}/versions/${model.version}`;
const wrong = (text) => element("p", { className: "wrong", textContent: text });

async function answerOf(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { ...window.charoniaKeys, ...options.headers } });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status}: ${errorIn(text)}`);
  return text;
}

function errorIn(text) {
  try {
    return JSON.parse(text.replace(/^data: /, "")).error ?? text;
  } catch {
    return text;
  }
}

async function fillIn(section, model) {
  const metadata = JSON.parse(await answerOf(pathOf(model)));
  const rows = metadata.inputs.map((input) => tensorRow(input));
  const send = element("button", { type: "submit", textContent: "Send" });
  const result = element("pre", { hidden: true });
  const form = element("form", {}, ...rows.map((row) => row.element), keysRow(), element("div", {}, send), result);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    try {
      await sendIt(model, rows, result);
    } finally {
      send.disabled = false;
    }
  });
  section.replaceChildren(form);
}

// Dimensions of any size start as 1.
function tensorRow(input) {
  const shape = element("input", { value: input.shape.map((dim) => Math.max(1, dim)).join(", "), title: "shape" });
  const data = element("textarea", { title: "elements as JSON, nested or flat", rows: 2 });
  const suggest = () => (data.value = JSON.stringify(example(input.datatype, numbers(shape.value))));
  suggest();
  shape.addEventListener("change", suggest);
  const name = element("label", { textContent: `${input.name} ${input.datatype}` });
  return {
    element: element("div", { className: "tensor" }, name, shape, data),
    // Numbers beyond 2^53 must reach the server as they were typed, so the elements are never parsed here.
    text: () =>
      `{"name":${JSON.stringify(input.name)},"datatype":${JSON.stringify(input.datatype)},` +
      `"shape":${JSON.stringify(numbers(shape.value))},"data":${data.value.trim() || "[]"}}`,
  };
}

const numbers = (text) => text.split(",").filter((part) => part.trim()).map(Number);

function example(datatype, shape) {
  const one = datatype === "BYTES" ? "text" : datatype === "BOOL" ? true : 0;
  const count = shape.reduce((product, dim) => product * dim, 1);
  return Array(Math.min(count, 4096)).fill(one);
}

function keysRow() {
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

async function sendIt(model, rows, result) {
  const inputs = rows.map((row) => row.text()).join(",");
  const began = performance.now();
  result.hidden = false;
  result.className = "";
  try {
    const text = await answerOf(`${pathOf(model)}/infer`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: `{"inputs":[${inputs}]}`,
    });
    result.textContent = `${(performance.now() - began).toFixed(1)} ms\n${text}`;
  } catch (error) {
    result.className = "wrong";
    result.textContent = error.message;
  }
}
