// Draws the JSON below /ui/api. Names and messages of the cluster become text nodes and attributes, never markup.
"use strict";

const ROOT = "/ui", EVERY_MS = 15000, NOTHING = "-", NS = "http://www.w3.org/2000/svg";
const RESOURCES = { cpu: { title: "CPU", key: "cpuMilli", unit: "cores", size: 1000, lines: "cpuCores" },
  memory: { title: "Memory", key: "memoryBytes", unit: "GiB", size: 2 ** 30, lines: "memoryGiB" } };
const LINES = [["allocatable", "Allocatable"], ["prodRequested", "Prod requested"], ["mid", "Mid"], ["midRequested", "Mid requested"],
  ["prodPeak", "Prod peak"], ["usage", "Usage"], ["prodUsage", "Prod usage"]];
const COLUMNS = [["Node", "name"], ["State", "state"], ["CPU", "cpu"], ["Memory", "memory"], ["Prod peak", ""], ["Mid", "mid"], ["Mid requested", ""], ["Waste", "waste"],
  ["Prediction", ""], ["Reported", "report"]];
const KINDS = { bad: ["NotReady", "deficit", "no report", "late", "expired"], wait: ["returning", "learning", "new"], good: ["publishing"] };
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// --- elements and numbers ---------------------------------------------------------------------------------------------
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  for (const child of children.flat(2)) if (child !== null && child !== undefined && child !== "") node.append(child instanceof Node ? child : String(child).replace(CONTROLS, "\ufffd"));
  return node;
}
const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(NS, name), attributes, children);

function digits(value) {
  const size = Math.abs(value);
  return size >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toFixed(size >= 10 ? 1 : 2)));
}

// An amount as crds/quantity.py writes it for people: "3250m", from 1,000 cores on "1600 cores", "0", "64Mi", "9.2Gi", "12Ti".
function amount(resource, number) {
  if (number === null || number === undefined) return NOTHING;
  const size = Math.abs(number);
  if (resource === "cpu") return size < 1000 ? `${Math.round(number * 1000)}m` : `${Math.round(number)} cores`;
  const [unit, scale] = size >= 1024 ? ["Ti", 1 / 1024] : size >= 1 ? ["Gi", 1] : size >= 1 / 1024 ? ["Mi", 1024] : ["Ki", 1024 ** 2], scaled = number * scale;
  return number ? `${Math.abs(scaled) >= 10 || Number.isInteger(scaled) ? Math.round(scaled) : scaled.toFixed(1)}${unit}` : "0";
}
function number(amounts, resource) {
  const { key, size } = RESOURCES[resource], value = amounts?.[key];
  return value === null || value === undefined ? null : value / size;
}
const shown = (amounts, resource) => amount(resource, number(amounts, resource));
const pair = (amounts) => Object.values(amounts ?? {}).every((value) => value === null) ? NOTHING : `${shown(amounts, "cpu")}/${shown(amounts, "memory")}`;
const percent = (part, whole) => part === null || !whole ? NOTHING : `${Math.round(100 * part / whole)}%`;
function age(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  const whole = Math.max(Math.floor(seconds), 0), two = (size, large, small) => {
    const rest = Math.floor(whole % size / (size / 60));
    return `${Math.floor(whole / size)}${large}${rest ? rest + small : ""}`;
  };
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return whole < 600 ? two(60, "m", "s") : `${Math.floor(whole / 60)}m`;
  return whole < 36000 ? two(3600, "h", "m") : whole < 172800 ? `${Math.floor(whole / 3600)}h` : `${Math.floor(whole / 86400)}d`;
}

// --- parts ------------------------------------------------------------------------------------------------------------
const alertBox = (kind, ...words) => el("p", { class: `alert ${kind}`, role: kind === "note" ? "status" : "alert" }, words);
const badge = (state) => el("span", { class: `badge ${Object.keys(KINDS).find((kind) => KINDS[kind].includes(state)) ?? "calm"}` }, state);
const nodeLink = (name) => el("a", { href: `${ROOT}/nodes/${encodeURIComponent(name)}` }, name);
const tile = (title, big, ...more) => el("div", {}, el("dt", {}, title), el("dd", {}, el("strong", {}, big), more.filter(Boolean).map((each) => el("span", {}, each))));

function tiles(row) {
  return Object.entries(RESOURCES).flatMap(([name, { title }]) => {
    const of = (key) => number(row[key], name), whole = of("allocatable");
    return [
      tile(title, percent(of("usage"), whole), `usage ${amount(name, of("usage"))} of allocatable ${amount(name, whole)}`,
        `Prod requested ${amount(name, of("prodRequested"))}, Prod peak ${amount(name, of("prodPeak"))}`),
      tile(`Mid ${name === "cpu" ? "CPU" : name}`, amount(name, of("mid")), `Mid requested ${amount(name, of("midRequested"))}`, `waste ${amount(name, of("waste"))}`)];
  });
}

function table(kind, caption, heads, rows) {
  const head = heads.map((each) => each instanceof Node ? each : el("th", { scope: "col" }, each));
  const body = rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))));
  const content = el("table", { class: kind }, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return el("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 }, content);
}
const folded = (title, content) => el("details", { id: title.toLowerCase().replaceAll(" ", "-") }, el("summary", {}, title), content);

// --- lines over time --------------------------------------------------------------------------------------------------
const BOX = { left: 52, right: 712, top: 12, bottom: 246, width: 720, height: 272 };

// The axis ends 4% above the largest value; its ticks are multiples of 1, 2 or 5.
function axis(largest) {
  const top = largest > 0 ? largest * 1.04 : 1, unit = 10 ** Math.floor(Math.log10(top / 5));
  const step = unit * [1, 2, 5, 10].find((size) => top / (size * unit) < 6);
  return { top, ticks: Array.from({ length: Math.floor(top / step) + 1 }, (_, count) => count * step) };
}

// Lines that coincide share their dashes, so that each stays visible.
function shareDashes(paths, heights) {
  const coincide = (one, other) => heights[one].some((height, index) => height !== null && heights[other][index] !== null) &&
    heights[one].every((height, index) => height === null || heights[other][index] === null || Math.abs(height - heights[other][index]) < 1.5);
  const groups = [];
  for (const key of Object.keys(paths)) (groups.find(([first]) => coincide(first, key)) ?? groups[groups.push([]) - 1]).push(key);
  for (const group of groups.filter(({ length }) => length > 1)) group.forEach((key, place) => {
    paths[key].style.strokeDasharray = `8 ${8 * (group.length - 1)}`;
    paths[key].style.strokeDashoffset = -8 * place;
    paths[key].style.strokeLinecap = "butt";
  });
}

function figure(subject, resource, plot) {
  const { title, unit, lines } = RESOURCES[resource], values = plot[lines], times = plot.times, end = times.length - 1;
  const largest = (keys) => Math.max(0, ...keys.flatMap((key) => values[key])), whole = largest(["allocatable"]), others = largest(LINES.slice(1).map(([key]) => key));
  const cut = others > 0 && others < whole / 2, { top, ticks } = axis(cut ? others : Math.max(whole, others)); // a far allocatable would flatten all other lines
  const x = (index) => BOX.left + index / end * (BOX.right - BOX.left), y = (value) => BOX.bottom - value / top * (BOX.bottom - BOX.top);
  const last = Object.fromEntries(LINES.map(([key]) => [key, values[key].slice(-2).findLast((each) => each !== null) ?? null]));
  const paths = {}, heights = {};
  const drawn = LINES.slice(cut ? 1 : 0).flatMap(([key]) => {
    const runs = [];
    values[key].forEach((value, index) => { if (value !== null) (index && values[key][index - 1] !== null && runs.length ? runs.at(-1) : runs[runs.push([]) - 1]).push(`${x(index).toFixed(1)} ${y(value).toFixed(1)}`); });
    const d = (run) => `M${run.join(" L")}${run.length === 1 ? " h0.01" : ""}`;
    const area = key === "mid" ? runs.filter((run) => run.length > 1).map((run) => `${d(run)} V${BOX.bottom} H${run[0].split(" ")[0]} Z`).join(" ") : "";
    heights[key] = values[key].map((value) => value === null ? null : y(value));
    paths[key] = svg("path", { class: `line ${key}`, d: runs.map(d).join(" ") });
    return [area && svg("path", { class: "area mid", d: area }), paths[key]];
  });
  shareDashes(paths, heights);
  const above = cut && svg("text", { class: "last", x: BOX.right, y: BOX.top - 2 }, `Allocatable ${amount(resource, last.allocatable)} is above this plot`);
  const grid = ticks.flatMap((tick) => [svg("line", { class: "grid", x1: BOX.left, x2: BOX.right, y1: y(tick), y2: y(tick) }), svg("text", { class: "y", x: BOX.left - 8, y: y(tick) + 4 }, digits(tick))]);
  const moments = [0, 1, 2, 3, 4].map((tick) => {
    const minutes = (times[end] - times[0]) * (4 - tick) / 240;
    const ago = minutes < 1 ? "now" : minutes > 120 ? `${digits(minutes / 60)} h` : `${Math.round(minutes)} min`;
    return svg("text", { class: `x ${tick === 0 ? "first" : tick === 4 ? "last" : "middle"}`, x: x(end * tick / 4), y: BOX.bottom + 20 }, ago);
  });
  const cursor = svg("line", { class: "cursor", y1: BOX.top, y2: BOX.bottom, visibility: "hidden" });
  const words = LINES.filter(([key]) => last[key] !== null).map(([key, name]) => `${name} ${amount(resource, last[key])}`).join(", ") || "no data yet";
  const picture = svg("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", tabindex: 0, "aria-label": `${title} of ${subject}. Last: ${words}.` },
    svg("g", { "aria-hidden": "true" }, grid, moments), above, drawn, cursor);
  const at = el("time", { class: "at", "aria-hidden": "true" });
  const numbers = LINES.map(([key]) => el("b", { "data-style": key }, amount(resource, last[key])));
  const legend = LINES.map(([key, name], place) => el("li", {},
    svg("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" }, svg("path", { class: `line ${key}`, d: "M1 6 H25" })), el("span", { class: "name" }, name), numbers[place]));
  let index = end;
  const show = (chosen) => {
    index = Math.min(Math.max(chosen, 0), end);
    fill(cursor, { x1: x(index), x2: x(index), visibility: "visible" }, []);
    at.textContent = new Date(times[index] * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    numbers.forEach((each) => { each.textContent = amount(resource, values[each.dataset.style][index]); });
  };
  const leave = () => {
    cursor.setAttribute("visibility", "hidden");
    at.textContent = "";
    numbers.forEach((each) => { each.textContent = amount(resource, last[each.dataset.style]); });
  };
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    show(Math.round(((event.clientX - box.left) / box.width * BOX.width - BOX.left) / (BOX.right - BOX.left) * end));
  });
  for (const name of ["pointerleave", "blur"]) picture.addEventListener(name, leave);
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(index + step);
  });
  return el("figure", { class: "plot", "data-resource": resource, "data-values": JSON.stringify(values) },
    el("figcaption", {}, title, el("small", {}, ` ${unit}`), at), picture, el("ul", { class: "legend" }, legend));
}

function overTime(subject, plot) {
  const range = new URLSearchParams(location.search).get("range") ?? "2h";
  const choices = ["2h", "24h"].map((each) => el("a", { href: link({ range: each === "2h" ? "" : each }), "aria-current": each === range && "true" }, `${parseInt(each)} hours`));
  return [el("div", { class: "row" }, el("h2", {}, "Over time"), el("nav", { class: "choice", "aria-label": "How far the plots go back" }, choices)),
    el("div", { class: "plots" }, Object.keys(RESOURCES).map((each) => figure(subject, each, plot)))];
}

// The address of this page with some words of its query replaced; an empty word is left out.
function link(words, fragment = "") {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(words)) value === "" ? query.delete(name) : query.set(name, value);
  return `${location.pathname}${query.size ? `?${query}` : ""}${fragment}`;
}

// --- the cluster ------------------------------------------------------------------------------------------------------
function bullet(row, resource) {
  const whole = number(row.allocatable, resource), part = (key) => Math.min(100 * (number(row[key], resource) ?? 0) / whole, 100);
  if (!whole) return null;
  const label = `${RESOURCES[resource].title}: ${LINES.map(([key, name]) => `${name} ${shown(row[key], resource)}`).join(", ")}`;
  return svg("svg", { class: "bullet", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": label }, svg("title", {}, label),
    svg("rect", { class: "whole", width: 100, height: 10 }), svg("rect", { class: "requested", width: part("prodRequested"), height: 10 }),
    svg("rect", { class: "mid", x: Math.min(part("prodPeak"), 100 - part("mid")), width: part("mid"), height: 10 }),
    svg("rect", { class: "usage", y: 3, width: part("usage"), height: 4 }), svg("rect", { class: "peak", x: Math.max(part("prodPeak") - 0.6, 0), width: row.prodPeak[RESOURCES[resource].key] === null ? 0 : 1.2, height: 10 }));
}

function listed(row) {
  const used = (name) => [bullet(row, name), el("span", {}, el("b", {}, percent(number(row.usage, name), number(row.allocatable, name))), ` ${shown(row.usage, name)}`)];
  const pods = row.pods.warm === null && row.pods.cold === null ? null : el("small", {}, `${row.pods.warm ?? 0} warm, ${row.pods.cold ?? 0} cold`);
  return [nodeLink(row.node), el("span", { title: row.reason }, badge(row.state)), used("cpu"), used("memory"), pair(row.prodPeak), pair(row.mid), pair(row.midRequested),
    pair(row.waste), [row.prediction ?? NOTHING, pods], age(row.reportAgeSeconds)];
}

function nodeList(overview, list) {
  const query = new URLSearchParams(location.search), sort = query.get("sort") ?? "state", backwards = query.get("backwards") === "1";
  const heads = COLUMNS.map(([title, order]) => {
    const chosen = sort === order, ascending = ["name", "state"].includes(order) !== backwards;
    const to = order && el("a", { href: link({ sort: order, backwards: chosen && !backwards ? "1" : "", page: "" }, "#nodes") }, title, chosen ? (ascending ? " ▲" : " ▼") : "");
    return el("th", { scope: "col", "aria-sort": chosen && (ascending ? "ascending" : "descending") }, to || title);
  });
  const states = [["", `all ${overview.nodes}`], ...Object.entries(overview.states).map(([state, count]) => [state, `${state} ${count}`])];
  const choice = states.map(([state, text]) => el("a", { href: link({ state, page: "" }, "#nodes"), "aria-current": (query.get("state") ?? "") === state && "true" }, text));
  const search = el("form", { action: `${ROOT}#nodes`, role: "search" }, [...query].filter(([name]) => !["q", "prediction", "page"].includes(name)).map(([name, value]) => el("input", { type: "hidden", name, value })),
    el("label", {}, "Name ", el("input", { type: "search", name: "q", value: query.get("q"), maxlength: 253, autocomplete: "off" })),
    el("label", {}, "Prediction ", el("select", { name: "prediction" }, ["", "ready", "not ready"].map((each) => el("option", { value: each, selected: (query.get("prediction") ?? "") === each }, each || "any prediction")))),
    el("button", { type: "submit" }, "Filter"));
  const turn = (text, page) => page >= 1 && page <= list.pages && page !== list.page ? el("a", { href: link({ page }, "#nodes") }, text) : el("span", { "aria-disabled": "true" }, text);
  const pages = list.pages > 1 && el("nav", { class: "pages", "aria-label": "Pages of the list" }, turn("first", 1), turn("previous", list.page - 1),
    el("span", { "aria-current": "page" }, `page ${list.page} of ${list.pages}`), turn("next", list.page + 1), turn("last", list.pages));
  const counted = list.found === overview.nodes ? `${overview.nodes}` : `${list.found} of ${overview.nodes}`;
  const body = list.nodes.length ? table("list", `Nodes: ${counted}`, heads, list.nodes.map(listed)) : el("p", {}, "No node matches.");
  return el("section", { id: "nodes" }, el("h2", {}, "Nodes ", el("small", {}, counted)), el("nav", { class: "choice", "aria-label": "Nodes by state" }, choice), search, body, pages || null);
}

async function cluster(overview) {
  document.title = "Cluster – Headroom";
  if (!overview.nodes) return [el("h1", {}, "Cluster"), alertBox("note", "The cluster has no nodes yet. New nodes appear here by themselves.")];
  const [plot, list, pending] = await Promise.all([get(`history${location.search}`), get(`nodes${location.search}`), get("pending")]);
  const attention = overview.attention.map((row) => el("li", {}, nodeLink(row.node), " ", badge(row.state), el("p", {}, row.reason)));
  const wasteful = overview.wasteful.map((row) => el("li", {}, nodeLink(row.node), el("b", {}, pair(row.waste))));
  return [el("h1", {}, "Cluster"), nextStep(overview.next),
    el("dl", { class: "tiles" }, tile("Nodes", overview.nodes, `${overview.reporting} report usage`, `${overview.pods.warm} Prod pods warm, ${overview.pods.cold} cold`), tiles(overview.sums)),
    overTime("the cluster", plot), pendingPods(pending),
    el("div", { class: "lists" },
      el("section", {}, el("h2", {}, "Needs attention"), attention.length ? el("ul", { class: "nodes" }, attention) : el("p", {}, "Every node is Ready and reports, and none has a deficit.")),
      el("section", {}, el("h2", {}, "Most waste"), el("p", { class: "hint" }, "The part of the Prod requests that is not needed at the Prod peak and not published as Mid."),
        wasteful.length ? el("ol", { class: "nodes waste" }, wasteful) : el("p", {}, "Nothing."))),
    nodeList(overview, list)];
}

const named = (pod) => `${pod.namespace}/${pod.pod}`;
const band = (pod) => pod.band.replace("koord-", "") || NOTHING;

function podsOf(explained) {
  const rows = explained.pods.map((pod) => [named(pod), band(pod), shown(pod.usage, "cpu"), shown(pod.requested, "cpu"), shown(pod.usage, "memory"), shown(pod.requested, "memory"), pod.prediction ?? pod.note ?? NOTHING]);
  return el("section", {}, el("h2", { id: "pods" }, "Pods ", el("small", {}, rows.length)), rows.length ? table("pods", "Pods of this node", ["Pod", "Band", "CPU", "Request", "Memory", "Request", "Note"], rows) : el("p", {}, "No pod runs here."));
}

function pendingPods(pending) {
  if (!pending.pods.length && !pending.problem) return null;
  const rows = pending.pods.map((pod) => [named(pod), pair(pod.requested), age(pod.ageSeconds), pod.reason]);
  return el("section", {}, el("h2", { id: "pending" }, "Pending Mid pods ", el("small", {}, rows.length)), pending.problem && el("p", { class: "hint" }, `The list is incomplete: ${pending.problem}.`),
    rows.length > 0 && table("pending", "Pending Mid pods", ["Pod", "Mid requested", "Age", "Reason"], rows));
}

const nextStep = (next) => next && el("section", { class: "next" }, el("h2", {}, "Next step"), el("p", {}, next.text), next.command && el("code", {}, next.command));

// --- a node -----------------------------------------------------------------------------------------------------------
async function oneNode(name) {
  document.title = `Node ${name} – Headroom`;
  const path = `nodes/${encodeURIComponent(name)}`, [row, explained] = await Promise.all([get(path), get(`${path}/explain`)]);
  if (!explained) return [el("h1", {}, "No such node"), alertBox("note", `There is no node ${name} in this cluster, as far as this manager knows.`), el("p", {}, el("a", { href: ROOT }, "All nodes"))];
  const plot = await get(`${path}/history${location.search}`);
  const mid = [["on the Node", "published"], ["calculated", "calculated"], ["desired", "desired"], ["requested", "requested"], ["deficit", "deficit"]];
  const terms = Object.entries(RESOURCES).map(([resource, { title }]) => el("section", {}, el("h3", {}, title), table("terms", `${title}: every line of the formula`, ["Term", "Value", "How"],
    explained.terms.filter((term) => term.resource === resource).map((term) => [term.name, amount(resource, term.value === null ? null : term.value / RESOURCES[resource].size),
      [el("span", { class: "formula" }, term.formula), term.decidedBy ? el("span", { class: "decisive" }, ` ← ${term.decidedBy}`) : null, term.note ? el("span", { class: "note" }, ` ${term.note}`) : null]]))));
  const text = (value) => typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
  return [el("nav", { class: "trail", "aria-label": "Where this is" }, el("a", { href: ROOT }, "Cluster"), " / ", name),
    el("h1", {}, `Node ${name} `, row && badge(row.state)), row && el("p", { class: "hint" }, row.reason),
    explained.problem && alertBox("warning", `The NodeMetric cannot be read now (${explained.problem}), so the explanation lacks its report.`),
    el("dl", { class: "tiles" }, row && tiles(row), tile("Prediction", explained.prediction, row && row.pods.warm !== null && `${row.pods.warm} Prod pods warm, ${row.pods.cold} cold`), tile("Reported", age(explained.reportAgeSeconds))),
    overTime(`node ${name}`, plot),
    el("section", {}, el("h2", { id: "why" }, "Why"), explained.notes.length ? el("ul", { class: "findings" }, explained.notes.map((each) => el("li", {}, each))) : el("p", {}, "No obstacles."),
      table("numbers", "Mid resources of this node", ["Mid", "CPU", "Memory"], mid.map(([title, key]) => [el("b", {}, title), shown(explained[key], "cpu"), shown(explained[key], "memory")]))),
    terms, podsOf(explained),
    folded("Inputs", table("inputs", "Where each number comes from", ["Input", "Values", "From", "Age"], explained.inputs.map((each) => [each.name, Object.entries(each.values).map(([resource, value]) => `${resource} ${text(value)}`).join(", "), each.from, age(each.ageSeconds)]))),
    folded("Conditions of the NodeMetric", table("text", "Conditions", ["Condition", "Status", "Reason", "Since", "Message"], explained.conditions.map((each) => [each.type, each.status, each.reason, age(each.ageSeconds), each.message]))),
    folded("Strategy in force", table("text", "Strategy in force on this node", ["Field", "Value", "From"], Object.entries(explained.strategy).map(([field, value]) => [el("code", {}, field), text(value), explained.strategySources[field] ?? "default"]))),
    el("p", { class: "hint" }, "The same in a terminal: ", el("code", {}, `kubectl headroom explain node ${name}`))];
}

// --- fresh numbers ----------------------------------------------------------------------------------------------------
async function get(path) {
  const answer = await fetch(`${ROOT}/api/${path}`, { signal: AbortSignal.timeout(10000) });
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

function busy() {
  const active = document.activeElement;
  return document.hidden || document.querySelector("main figure:hover") || (active?.closest("main") && active.matches("input, select, svg"));
}

// New content takes the place of the old one; what is open stays open, and the focus stays where it was.
async function refresh() {
  const main = document.querySelector("main"), status = document.getElementById("status");
  let content, overview;
  try {
    overview = await get("overview");
    const [, name] = location.pathname.match(/^\/ui\/nodes\/(.+)$/) ?? [];
    content = name ? await oneNode(decodeURIComponent(name)) : await cluster(overview);
    status.textContent = "";
  } catch (error) {
    status.textContent = `· the manager does not answer (${error.message})`;
    return;
  }
  const open = [...main.querySelectorAll("details[open]")].map((each) => each.id);
  const href = main.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const fresh = el("main", {}, overview.problems.map(({ kind, text }) => alertBox(kind, text)), content);
  main.replaceChildren(...fresh.childNodes);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (href) [...main.querySelectorAll("a")].find((each) => each.getAttribute("href") === href)?.focus({ preventScroll: true });
  const { origin, present, name } = overview.config;
  document.querySelector("footer").replaceChildren(el("p", {}, `This replica ${overview.leadership}. In force: ${present ? origin : "the defaults, as there is no ConfigMap"} (${name}).`),
    el("p", {}, "The same in a terminal: ", el("code", {}, "kubectl headroom top nodes"), "."));
}

refresh().then(() => { if (location.hash) document.querySelector(location.hash)?.scrollIntoView(); });
setInterval(() => { if (document.getElementById("live").checked && !busy()) refresh(); }, EVERY_MS);
