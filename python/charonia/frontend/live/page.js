// Asks for the state each second and shows it. Names come from whoever can load models: they are set as text only.
import { element, keysRow } from "/live/asking.js";
import { difference, percentile, shownMs, shownRate, shownTime, sum } from "/live/numbers.js";
import { offerToTry } from "/live/try.js";

const EACH_MS = 1000;
const KEPT_MS = 310_000; // a little more than the longest window
const SPARK_POINTS = 120;
const MOST_BARS = 24;

const byId = (id) => document.getElementById(id);
const snapshots = []; // {at, models: Map(key → model)}, oldest first
const cards = new Map();
let paused = false;

const keyOf = (model, index) => `${index}:${model.name}:${model.version}`;

function keep(state) {
  const models = new Map();
  const seen = new Map();
  for (const model of state.models) {
    const nth = seen.get(model.name + "\0" + model.version) ?? 0; // with namespaces two may have one name
    seen.set(model.name + "\0" + model.version, nth + 1);
    models.set(keyOf(model, nth), model);
  }
  snapshots.push({ at: state.at_ms, models });
  while (snapshots[0].at < state.at_ms - KEPT_MS) snapshots.shift();
  return models;
}

function snapshotBefore(ms) {
  const latest = snapshots[snapshots.length - 1];
  return snapshots.find((each) => each.at >= latest.at - ms - EACH_MS / 2) ?? latest;
}

// What happened to one model in the last `ms`, with the seconds it covers.
function recent(key, ms) {
  const latest = snapshots[snapshots.length - 1], before = snapshotBefore(ms);
  const now = latest.models.get(key)?.counts, then = before.models.get(key)?.counts;
  const seconds = (latest.at - before.at) / 1000;
  return now && then && seconds > 0 ? { ...difference(then, now), seconds } : null;
}

function series(key, value) {
  const points = [];
  for (let index = Math.max(1, snapshots.length - SPARK_POINTS); index < snapshots.length; index++) {
    const now = snapshots[index], before = snapshots[index - 1];
    const counts = now.models.get(key)?.counts, earlier = before.models.get(key)?.counts;
    points.push(counts && earlier ? value(counts, earlier, (now.at - before.at) / 1000) : 0);
  }
  return points;
}

function draw(svg, values) {
  const most = Math.max(1e-9, ...values), width = SPARK_POINTS - 1;
  svg.setAttribute("viewBox", `0 0 ${width} 100`);
  const start = width - (values.length - 1);
  const points = values.map((value, index) => `${start + index},${98 - (96 * value) / most}`).join(" ");
  let line = svg.querySelector("polyline"), area = svg.querySelector("polygon");
  if (!line) {
    area = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "polygon"));
    line = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "polyline"));
  }
  line.setAttribute("points", points);
  area.setAttribute("points", values.length ? `${start},98 ${points} ${width},98` : "");
}

function cardOf(key) {
  let card = cards.get(key);
  if (!card) {
    card = byId("model-template").content.firstElementChild.cloneNode(true);
    cards.set(key, card);
  }
  return card;
}

function showModel(key, model, state) {
  const card = cardOf(key), find = (what) => card.querySelector(what);
  card.dataset.model = model.name;
  find(".name").textContent = model.name;
  find(".version").textContent = model.version ? `version ${model.version}` : "";
  const pill = find(".state"), named = model.state || "not loaded";
  pill.textContent = model.state === "READY" && !model.ready ? "READY, no instance is well" : named;
  pill.dataset.state = model.state === "READY" && !model.ready ? "UNAVAILABLE" : model.state;
  find(".kind").textContent = kindOf(model);
  find(".reason").textContent = model.reason;
  find(".reason").hidden = !model.reason;
  find(".numbers").hidden = !model.counts;
  if (model.counts) showNumbers(key, model, state.bounds_ms, find);
  if (state.try_it) offerToTry(find(".try"), model, state.most_values);
  return card;
}

function kindOf(model) {
  const kinds = [model.platform];
  if (model.max_batch_size) kinds.push(`batches up to ${model.max_batch_size}`);
  if (model.decoupled) kinds.push("any number of responses");
  if (model.counts?.batch_delay_us != null) kinds.push(`waits ${shownMs(model.counts.batch_delay_us / 1000)} for its latency target`);
  const lookups = (model.counts?.cache_hits ?? 0) + (model.counts?.cache_misses ?? 0);
  if (lookups) kinds.push(`${Math.round((100 * model.counts.cache_hits) / lookups)} % from the cache`);
  return kinds.filter(Boolean).join(" · ");
}

function showNumbers(key, model, bounds, find) {
  const second = recent(key, 2 * EACH_MS), recently = recent(key, 1000 * Number(byId("window").value));
  const counts = model.counts;
  find(".rate b").textContent = second ? shownRate(second.success / second.seconds) : "–";
  draw(find(".rate svg"), series(key, (now, before, seconds) => Math.max(0, now.success - before.success) / seconds));
  for (const [name, share] of [["p50", 0.5], ["p95", 0.95], ["p99", 0.99]]) {
    find(`.${name}`).textContent = shownMs(recently ? percentile(recently.latency, bounds, share) : null);
  }
  find(".queue b").textContent = counts.pending.toLocaleString("en");
  find(".queue .each").hidden = !recently?.success;
  if (recently?.success) find(".queue i").textContent = shownMs(recently.queue_ms / recently.success);
  draw(find(".queue svg"), series(key, (now) => now.pending));
  showUse(model, second, find);
  showBatches(recently?.executions ? recently.batches : counts.batches, find(".bars"));
  const reasons = Object.entries(counts.failed).filter(([, count]) => count);
  find(".failures").dataset.any = String(reasons.length > 0);
  fill(find(".failures ul"), reasons.length ? reasons.map(([reason, count]) => `${count.toLocaleString("en")} ${reason}`) : ["none"], "li");
}

function showUse(model, second, find) {
  find(".use").hidden = !model.instances.length;
  if (!model.instances.length) return;
  const share = second ? Math.min(1, second.busy_ms / 1000 / second.seconds / model.instances.length) : null;
  find(".use b").textContent = share === null ? "–" : `${Math.round(100 * share)} %`;
  find(".bar span").style.width = `${100 * (share ?? 0)}%`;
  const marks = find(".instances");
  while (marks.children.length > model.instances.length) marks.lastChild.remove();
  while (marks.children.length < model.instances.length) marks.append(document.createElement("span"));
  model.instances.forEach((instance, index) => {
    const mark = marks.children[index];
    mark.className = !instance.alive ? "down" : instance.busy ? "busy" : "";
    mark.title = `${instance.name} on ${instance.device}${instance.alive ? "" : ", down"}`;
  });
}

function showBatches(batches, bars) {
  const sizes = Object.entries(batches).filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]).slice(0, MOST_BARS);
  sizes.sort((a, b) => a[0] - b[0]);
  const most = Math.max(1, ...sizes.map(([, count]) => count));
  bars.replaceChildren(...sizes.map(([rows, count]) => {
    const bar = document.createElement("div"), block = document.createElement("span");
    block.style.height = `${(70 * count) / most}%`;
    bar.title = `${count.toLocaleString("en")} executions of ${rows} rows`;
    bar.dataset.rows = rows;
    bar.append(block, rows);
    return bar;
  }));
}

function fill(list, texts, tag) {
  list.replaceChildren(...texts.map((text) => Object.assign(document.createElement(tag), { textContent: text })));
}

function showServer(state, models) {
  byId("server-id").textContent = state.id === "triton" ? "" : state.id;
  const health = state.ready ? "ready" : state.live ? "live" : "down";
  const pill = byId("health").firstElementChild;
  pill.dataset.state = health;
  pill.textContent = { ready: "ready", live: "live, not ready", down: "not live" }[health];
  let rate = 0, failures = 0, waiting = state.wire.waiting_calls, known = false;
  for (const [key, model] of models) {
    const second = recent(key, 2 * EACH_MS);
    waiting += model.counts?.pending ?? 0;
    if (!second) continue;
    known = true;
    rate += second.success / second.seconds;
    failures += sum(second.failed) / second.seconds;
  }
  byId("total-rate").textContent = shownRate(known ? rate : null);
  byId("total-failures").textContent = shownRate(known ? failures : null);
  byId("total-waiting").textContent = waiting.toLocaleString("en");
  byId("total-connections").textContent = state.wire.open_connections.toLocaleString("en");
  byId("uptime").textContent = shownTime(state.uptime_s);
  const link = byId("try-link");
  link.hidden = state.try_port == null;
  if (state.try_port != null) link.href = `${location.protocol}//${location.hostname}:${state.try_port}/live`;
}

function show(state) {
  const models = keep(state);
  showServer(state, models);
  const wanted = byId("filter").value.toLowerCase();
  const shown = [];
  for (const [key, model] of models) {
    const card = showModel(key, model, state);
    if (model.name.toLowerCase().includes(wanted)) shown.push(card);
  }
  for (const key of cards.keys()) if (!models.has(key)) cards.delete(key);
  place(byId("models"), shown);
}

// Only what changed moves, so that a form that somebody fills in keeps its focus.
function place(parent, wanted) {
  for (const child of [...parent.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((card, index) => {
    if (parent.children[index] !== card) parent.insertBefore(card, parent.children[index] ?? null);
  });
  if (!wanted.length) parent.append(Object.assign(document.createElement("p"), { id: "empty", textContent: "No models." }));
}

async function ask() {
  const answer = await fetch("/live/state", { headers: window.charoniaKeys, cache: "no-store" });
  const state = await answer.json();
  if (!answer.ok) throw new Error(state.error);
  return state;
}

// Before the first state there is no form, and so no field, for headers that are missing or wrong.
function offerKeys(error) {
  const areWrong = Object.keys(window.charoniaKeys).length > 0, areMissing = !(error instanceof TypeError);
  if (!(areWrong || areMissing) || byId("models").children.length) return;
  byId("models").append(element("section", { className: "try" }, keysRow()));
}

async function again() {
  try {
    if (!paused && !document.hidden) show(await ask());
  } catch (error) {
    const pill = byId("health").firstElementChild;
    pill.dataset.state = "down";
    pill.textContent = error instanceof TypeError ? "no answer" : error.message;
    if (!snapshots.length) offerKeys(error);
  }
  setTimeout(again, EACH_MS);
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "Go on" : "Pause";
});
again();
