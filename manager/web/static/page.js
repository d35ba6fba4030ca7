// The page works without this. It keeps the numbers fresh and shows those under the pointer.
"use strict";

const EVERY_MS = 15000;
const STILL = "headroom-still";

function remembered() {
  try { return localStorage.getItem(STILL) === "1"; } catch { return false; }
}

function remember(still) {
  try { localStorage.setItem(STILL, still ? "1" : "0"); } catch { /* then it is asked anew on the next page */ }
}

// --- fresh numbers -------------------------------------------------------------------------------------------------
const live = document.querySelector(".live");
const told = document.createElement("span");
const toggle = document.createElement("input");

function setUpLive() {
  const label = document.createElement("label");
  toggle.type = "checkbox";
  toggle.checked = !remembered();
  toggle.addEventListener("change", () => { remember(!toggle.checked); refresh(); });
  told.setAttribute("role", "status");
  label.append(toggle, "fresh every 15 s ");
  live.append(label, told);
}

function busy() {
  const active = document.activeElement;
  const inMain = active && active.closest("main") && active.id !== "content";
  return document.hidden || document.querySelector("main:hover figure:hover") || (inMain && active.matches("input, select"));
}

async function refresh() {
  if (!toggle.checked || busy()) return;
  let text;
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(10000) });
    if (!answer.ok && answer.status !== 404) throw new Error(String(answer.status));
    text = await answer.text();
  } catch {
    told.textContent = "· the manager does not answer";
    return;
  }
  told.textContent = "";
  if (busy()) return;
  const fresh = new DOMParser().parseFromString(text, "text/html");
  replace("main", fresh);
  replace("footer", fresh);
  watchPlots();
}

// The new content takes the place of the old one; what is open stays open, and the focus stays where it was.
function replace(name, fresh) {
  const old = document.querySelector(name), next = fresh.querySelector(name);
  if (!old || !next) return;
  const open = [...old.querySelectorAll("details[open]")].map((each) => each.id);
  const href = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  old.replaceChildren(...next.childNodes);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  old.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = scrolled[index] ?? 0; });
  if (href) [...old.querySelectorAll("a")].find((each) => each.getAttribute("href") === href)?.focus({ preventScroll: true });
}

// --- numbers under the pointer --------------------------------------------------------------------------------------
function amount(resource, number) {
  if (number === null || number === undefined) return "–";
  const digits = (value) => Math.abs(value) >= 100
    ? Math.round(value).toLocaleString("en-US")
    : String(Number(value.toFixed(Math.abs(value) >= 10 ? 1 : 2)));
  if (resource === "cpu") return Math.abs(number) >= 0.1 || number === 0 ? `${digits(number)} cores` : `${Math.round(number * 1000)}m`;
  if (Math.abs(number) >= 1024) return `${digits(number / 1024)} TiB`;
  return Math.abs(number) >= 1 || number === 0 ? `${digits(number)} GiB` : `${digits(number * 1024)} MiB`;
}

function watchPlots() {
  for (const figure of document.querySelectorAll("figure.plot")) watchPlot(figure);
}

function watchPlot(figure) {
  const svg = figure.querySelector("svg[role=img]"), cursor = svg.querySelector(".cursor"), at = figure.querySelector(".at");
  const times = JSON.parse(figure.dataset.times), values = JSON.parse(figure.dataset.values);
  const left = Number(figure.dataset.left), right = Number(figure.dataset.right), width = Number(figure.dataset.width);
  const numbers = [...figure.querySelectorAll(".legend b")];
  const last = numbers.map((each) => each.textContent);
  let index = times.length - 1;

  function show(chosen) {
    index = Math.min(Math.max(chosen, 0), times.length - 1);
    const x = left + (index / (times.length - 1)) * (right - left);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    at.textContent = new Date(times[index] * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    for (const each of numbers) each.textContent = amount(figure.dataset.resource, values[each.dataset.style][index]);
  }

  function leave() {
    cursor.setAttribute("visibility", "hidden");
    at.textContent = "";
    numbers.forEach((each, place) => { each.textContent = last[place]; });
  }

  svg.setAttribute("tabindex", "0");
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    show(Math.round(((x - left) / (right - left)) * (times.length - 1)));
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(index + step);
  });
}

setUpLive();
watchPlots();
setInterval(refresh, EVERY_MS);
