// The board, live: fragments come over one stream and take the place of those with their id.
// Nothing here is needed to read a page or to act: links and forms work without it.

const body = document.body;
const pulse = document.getElementById("pulse");
const notice = document.getElementById("notice");
const applied = new Map(); // id -> the HTML that was put in last
const waiting = new Map(); // id -> HTML that waits until nothing in it is selected or pressed
let pressed = null; // where the pointer went down

// --- times in the reader's zone ---

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const two = (number) => String(number).padStart(2, "0");

function exact(at) {
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  return `${day} ${clock}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const said = exact(at);
    if (time.classList.contains("clock")) time.textContent = said;
    time.title = `${said} ${zone} (${time.dateTime})`;
  }
}

// --- fragments ---

const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

function placeOfFocus(old) {
  const active = document.activeElement;
  if (!active || !old.contains(active)) return null;
  if (active.id) return { id: active.id };
  const around = active.closest("[id]");
  const all = [...around.querySelectorAll(FOCUSABLE)];
  return { around: around.id, number: all.indexOf(active) };
}

function focusAgain(place) {
  if (!place) return;
  let found = place.id ? document.getElementById(place.id) : null;
  if (place.around) {
    const around = document.getElementById(place.around);
    found = around ? [...around.querySelectorAll(FOCUSABLE)][place.number] : null;
  }
  if (found) found.focus({ preventScroll: true });
}

function isBeingSelected(old) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && old.contains(selection.anchorNode);
}

function swap(html) {
  const box = document.createElement("template");
  box.innerHTML = html;
  const fresh = box.content.firstElementChild;
  const old = fresh && document.getElementById(fresh.id);
  if (!old || applied.get(fresh.id) === html) return;
  if (isBeingSelected(old) || old.contains(pressed)) {
    waiting.set(fresh.id, html);
    return;
  }
  applied.set(fresh.id, html);
  waiting.delete(fresh.id);
  localise(fresh);
  for (const details of fresh.querySelectorAll("details[id]")) {
    const before = document.getElementById(details.id);
    if (before) details.open = before.open;
  }
  for (const chosen of old.querySelectorAll("input[type=checkbox]:checked")) {
    const same = [...fresh.querySelectorAll("input[type=checkbox]")]
      .find((one) => one.value === chosen.value && one.name === chosen.name);
    if (same) same.checked = true;
  }
  const focus = placeOfFocus(old);
  const { scrollLeft, scrollTop } = old;
  const atEnd = old.scrollHeight - old.scrollTop - old.clientHeight < 8;
  old.replaceWith(fresh);
  fresh.scrollLeft = scrollLeft;
  fresh.scrollTop = atEnd && fresh.classList.contains("log") ? fresh.scrollHeight : scrollTop;
  focusAgain(focus);
  countChosen();
}

function swapWhatWaits() {
  for (const [id, html] of [...waiting]) {
    waiting.delete(id);
    swap(html);
  }
}

document.addEventListener("selectionchange", swapWhatWaits);
// A click begins and ends on the same element, or there is none.
document.addEventListener("pointerdown", (event) => { pressed = event.target; }, true);
for (const end of ["pointerup", "pointercancel"]) {
  document.addEventListener(end, () => setTimeout(() => {
    pressed = null;
    swapWhatWaits();
  }), true);
}

// --- the stream ---

let stream = null;
let again = 0;

function say(text) {
  notice.replaceChildren();
  if (!text) return;
  const line = document.createElement("p");
  line.className = "notice bad";
  line.textContent = `⚠ ${text}`;
  notice.append(line);
}

function pulsing(state) {
  if (pulse) pulse.dataset.state = state;
}

// How old what is shown may be, where it is costly to read and so read more seldom than usual.
function ageing(seconds) {
  const said = pulse?.querySelector(".live-only");
  if (said) said.textContent = seconds ? `live, up to ${seconds} s old` : "live";
}

function connect() {
  clearTimeout(again);
  stream = new EventSource(body.dataset.live);
  stream.addEventListener("open", () => {
    pulsing("on");
    ageing(0); // until the stream says otherwise
    if (notice.dataset.gone) {
      delete notice.dataset.gone;
      say("");
    }
  });
  stream.addEventListener("fragment", (event) => {
    swap(event.data);
    pulsing("on");
  });
  stream.addEventListener("age", (event) => ageing(Number(event.data)));
  stream.addEventListener("notice", (event) => {
    say(event.data);
    pulsing("off");
  });
  stream.addEventListener("well", () => {
    say("");
    pulsing("on");
    if (document.querySelector("[data-away]")) location.reload();
  });
  stream.addEventListener("end", (event) => {
    if (event.data === "refused") location.reload();
  });
  stream.addEventListener("error", () => {
    pulsing("off");
    notice.dataset.gone = "yes";
    say("The board does not answer. What you see is as it was; it goes on by itself.");
    if (stream.readyState === EventSource.CLOSED) again = setTimeout(connect, 2000);
  });
}

function disconnect() {
  clearTimeout(again);
  if (stream) stream.close();
  stream = null;
  pulsing("off");
}

if (body.dataset.live) {
  // A browser has six connections to a host: pages that nobody sees hold none of them.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) disconnect();
    else if (!stream) connect();
  });
  // What the page already shows is seen first; then the stream has the service read and draw it.
  requestAnimationFrame(() => setTimeout(() => {
    if (!document.hidden && !stream) connect();
  }));
}

// --- keys: j and k along the rows, x to choose one, / to search ---

function rows() {
  return [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
}

function move(by) {
  const all = rows();
  if (!all.length) return;
  const here = all.indexOf(document.activeElement?.closest?.("[data-row]"));
  const next = here < 0 ? (by > 0 ? 0 : all.length - 1) : here + by;
  const row = all[Math.min(Math.max(next, 0), all.length - 1)];
  const link = row.querySelector("a[href]");
  if (link) link.focus();
  row.scrollIntoView({ block: "nearest" });
}

function choose() {
  const box = document.activeElement?.closest?.("[data-row]")?.querySelector("input[type=checkbox]");
  if (!box) return;
  box.checked = !box.checked;
  countChosen();
}

function countChosen() {
  const all = document.querySelectorAll("[data-row] input[type=checkbox]");
  const chosen = [...all].filter((box) => box.checked).length;
  for (const bar of document.querySelectorAll("[data-chosen]")) {
    bar.textContent = chosen ? `${chosen} chosen` : "";
  }
}

document.addEventListener("change", (event) => {
  const every = event.target.closest("[data-every]");
  if (every) {
    for (const box of document.querySelectorAll("[data-row] input[type=checkbox]")) {
      box.checked = every.checked;
    }
  }
  const submits = event.target.closest("[data-submits]");
  if (submits) submits.form.requestSubmit();
  countChosen();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const within = event.target;
  const writes = within.matches?.("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape" && writes) {
    within.blur();
    return;
  }
  if (writes) return;
  const doing = { j: () => move(1), k: () => move(-1), x: choose, "/": search }[event.key];
  if (!doing) return;
  event.preventDefault();
  doing();
});

function search() {
  const box = document.getElementById("search");
  if (box) {
    box.focus();
    box.select();
  }
}

body.classList.add("scripted");
localise(document);
countChosen();
for (const log of document.querySelectorAll(".log")) log.scrollTop = log.scrollHeight;
