// A form for each model that sends a request as any client does: to the protocol's own paths on this port.
import { answerOf, ask, element, keysRow, wrong } from "/live/asking.js";
import { countOf, example, fitted, made, MADE, numbers, ofFile } from "/live/tensors.js";

const MOST_TYPED = 1000; // elements; longer examples are made when they are sent

// Anew with each load of the model, whose inputs may be others; nothing while it is not loaded.
// Args: `mostValues` that a request to generate may have; lists count too.
export function offerToTry(section, model, mostValues) {
  const load = model.counts ? `${model.version} ${model.load_ms}` : "";
  if (section.dataset.load === load) return;
  section.dataset.load = load;
  section.hidden = !load;
  const open = element("button", { type: "button", textContent: "Try it" });
  open.addEventListener("click", () =>
    fillIn(section, model, mostValues).catch((error) => section.replaceChildren(keysRow(), open, wrong(error.message))),
  );
  section.replaceChildren(open);
}

async function fillIn(section, model, mostValues) {
  const path = `/v2/models/${encodeURIComponent(model.name)}/versions/${model.version}`;
  const config = JSON.parse(await answerOf(`${path}/config`));
  const streams = config.model_transaction_policy?.decoupled ?? false;
  const inputs = inputsOf(config);
  const large = inputs.find((input) => countOf(smallest(input.shape)) >= mostValues);
  section.replaceChildren(streams && large ? whyNot(large, mostValues) : formOf(path, streams, inputs, config));
}

function inputsOf(config) {
  return config.input.map((input) => ({
    name: input.name,
    datatype: input.data_type === "TYPE_STRING" ? "BYTES" : input.data_type.replace("TYPE_", ""),
    shape: config.max_batch_size > 0 && !input.is_shape_tensor ? [-1, ...input.dims] : input.dims,
    optional: input.optional,
  }));
}

const smallest = (shape) => shape.map((dim) => Math.max(1, dim));

function whyNot(input, mostValues) {
  const counts = [countOf(smallest(input.shape)), mostValues].map((count) => count.toLocaleString("en"));
  const text =
    `This model can't be asked from a browser: its input ${input.name} has ${counts[0]} elements. A model with any number ` +
    `of responses is asked by generate_stream here, which takes fewer than ${counts[1]}; a client of gRPC can ask it.`;
  return element("p", { className: "kind", textContent: text });
}

function formOf(path, streams, inputs, config) {
  const rows = inputs.map(tensorRow);
  const sequence = config.sequence_batching || config.ensemble_scheduling ? sequenceRow(config) : null;
  const send = element("button", { type: "submit", textContent: "Send" });
  const result = element("pre", { hidden: true });
  const lines = [...rows, sequence, { element: keysRow() }].filter(Boolean).map((row) => row.element);
  const form = element("form", {}, ...lines, element("div", {}, send), result);
  let running = null;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return running.abort();
    running = new AbortController();
    send.textContent = "Stop";
    try {
      const parameters = sequence?.parameters() ?? [];
      if (await ask(path, streams, rows.map((row) => row.tensor), parameters, result, running.signal)) sequence?.goOn();
    } finally {
      running = null;
      send.textContent = "Send";
    }
  });
  return form;
}

// One input: whether it is sent, its shape, and where its elements come from.
function tensorRow(input) {
  const { name, datatype, optional } = input;
  const isSent = element("input", { type: "checkbox", checked: !optional, hidden: !optional, title: "send this optional input" });
  const shape = element("input", { value: smallest(input.shape).join(", "), title: "shape" });
  const file = element("input", { type: "file", title: datatype === "BYTES" ? "the only element" : "bytes that are the elements" });
  const data = element("textarea", { title: "elements as JSON, nested or flat", rows: 2 });
  const count = element("span");
  const sources = ["typed", ...MADE, ...(["BYTES", "UINT8"].includes(datatype) ? ["file"] : [])];
  const source = element("select", { title: "elements" }, ...sources.map((each) => element("option", {}, each)));
  const label = element("label", {}, isSent, `${name} `, element("small", {}, `${datatype}${optional ? ", optional" : ""}`));
  const row = element("div", { className: "tensor" }, label, shape, source, data, file, count);

  const show = () => {
    row.classList.toggle("left-out", !isSent.checked);
    data.hidden = source.value !== "typed";
    file.hidden = source.value !== "file";
    count.hidden = !MADE.includes(source.value);
    count.textContent = `${countOf(numbers(shape.value)).toLocaleString("en")} elements`;
  };
  const suggest = () => {
    const elements = countOf(numbers(shape.value));
    if (elements <= MOST_TYPED) data.value = example(datatype, elements);
    else if (source.value === "typed") source.value = "zeros";
    show();
  };
  const fit = () => {
    if (datatype === "UINT8" && file.files.length && countOf(numbers(shape.value)) !== file.files[0].size) {
      shape.value = fitted(input.shape, file.files[0].size).join(", ");
    }
  };
  suggest();
  shape.addEventListener("change", suggest);
  file.addEventListener("change", fit);
  for (const each of [isSent, source]) each.addEventListener("change", show);

  const tensor = async () => {
    if (!isSent.checked) return null;
    const about = { name, datatype, shape: numbers(shape.value) };
    if (source.value === "file") return { ...about, ...(await ofFile(datatype, file.files[0])) };
    // Numbers beyond 2^53 must reach the server as they were typed, so they are never parsed here.
    return { ...about, text: data.hidden ? made(source.value, datatype, countOf(about.shape)) : data.value.trim() || "[]" };
  };
  return { element: row, tensor };
}

// An ensemble may have steps with sequences; without an id its requests are of none.
function sequenceRow(config) {
  const controls = (config.sequence_batching?.control_input ?? []).flatMap((input) => input.control);
  const isText = controls.some((each) => each.kind === "CONTROL_SEQUENCE_CORRID" && each.data_type === "TYPE_STRING");
  const isNeeded = config.sequence_batching && !config.sequence_batching.iterative_sequence;
  // By chance, so that it is no other client's.
  const value = isNeeded ? String(1 + Math.floor(Math.random() * (2 ** 31 - 1))) : "";
  const id = element("input", { value, title: "sequence id", placeholder: "no sequence" });
  const start = element("input", { type: "checkbox", checked: true });
  const end = element("input", { type: "checkbox" });
  const row = element("div", { className: "tensor" }, element("label", {}, "Sequence"), id);
  row.append(element("span", {}, element("label", {}, start, "start"), element("label", {}, end, "end")));
  const parameters = () => {
    const text = id.value.trim();
    if (!text) return [];
    const shown = !isText && /^(0|[1-9]\d*)$/.test(text) ? text : JSON.stringify(text);
    return [["sequence_id", shown], ["sequence_start", start.checked], ["sequence_end", end.checked]];
  };
  // The next request goes on where this one was; after an end it begins anew.
  const goOn = () => ([start.checked, end.checked] = [end.checked, false]);
  return { element: row, parameters, goOn };
}
