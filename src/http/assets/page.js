// Keeps what is on the page fresh. Everything works without it, by loading the page again.

const two = (number) => String(number).padStart(2, "0");

function tick() {
  const now = Date.now();
  for (const timer of document.querySelectorAll("time.timer")) {
    const seconds = Math.max(0, Math.floor((now - Date.parse(timer.dateTime)) / 1000));
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    const text = hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
    if (timer.textContent !== text) timer.textContent = text;
  }
}

function key(node) {
  const name = node.id || node.dataset?.key;
  return name && `${node.nodeName} ${name}`;
}

// Makes `old` like `now`. Nodes that both have stay what they are, with focus, selection, scroll position and open menus:
// those of the same key (`id` or `data-key`), and, without one, those of the same kind in the same place.
function patch(old, now) {
  for (const { name } of [...old.attributes]) {
    // Whoever uses the page has opened it.
    if (!now.hasAttribute(name) && !(name === "open" && old.matches("details"))) old.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  // `tick` writes what is in these.
  if (old.matches(".timer")) return;
  const wanted = new Set([...now.children].map(key));
  const known = new Map();
  for (const child of [...old.children]) {
    const name = key(child);
    if (name && !wanted.has(name)) child.remove();
    else if (name) known.set(name, child);
  }
  let place = old.firstChild;
  for (const child of [...now.childNodes]) {
    const name = key(child);
    const here = place && !key(place) && place.nodeName === child.nodeName ? place : null;
    const kept = name ? known.get(name) : here;
    // What is kept by its key is not moved for the sake of what is not: a node that is moved loses the keyboard.
    while (name && kept && place && place !== kept && !key(place)) place = dropped(place);
    if (kept !== place || !kept) old.insertBefore(kept ?? child, place);
    else place = place.nextSibling;
    if (kept?.nodeType === Node.ELEMENT_NODE) patch(kept, child);
    else if (kept && kept.nodeValue !== child.nodeValue) kept.nodeValue = child.nodeValue;
  }
  while (place) place = dropped(place);
}

// What comes after it.
function dropped(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// Brings a part of the page up to date. Whoever had the keyboard on something that is gone is put on what was around it.
function update(part, html) {
  const held = [];
  for (let node = document.activeElement; node; node = node.parentElement) held.push(node);
  const now = part.cloneNode(false);
  now.innerHTML = html;
  patch(part, now);
  if (held[0] && !held[0].isConnected) held.find((node) => node.isConnected && node.hasAttribute("tabindex"))?.focus({ preventScroll: true });
  tick();
}

// Says whether the page is fresh.
function link(state) {
  const sign = document.getElementById("link");
  if (!sign || sign.dataset.state === state) return;
  sign.dataset.state = state;
  sign.textContent = sign.dataset[state] ?? "";
  if (state === "over") {
    const again = document.createElement("a");
    again.href = "/login?next=" + encodeURIComponent(location.pathname + location.search);
    again.textContent = sign.dataset.logIn;
    sign.append(" ", again);
  }
}

// A connection that breaks off the browser dials again by itself. Where the server said no, it is asked whether the session is
// over; else there was no place, or a proxy in between had no answer, and it is dialled again from here. A window that nobody
// sees has no connection: browsers have six for all of them.
const AGAIN_MS = 5_000;
function listen(path, events, gone = () => {}) {
  let source, clock, told, over;
  const hang = () => {
    clearTimeout(clock);
    source?.close();
    source = null;
  };
  const end = () => {
    over = true;
    hang();
  };
  const refused = async (mine) => {
    const session = await fetch("/api/v1/session").catch(() => null);
    if (mine !== source) return;
    if (session?.status === 401) {
      end();
      return link("over");
    }
    link("lost");
    if (session?.ok) await gone();
    if (mine === source) clock = setTimeout(dial, AGAIN_MS);
  };
  const dial = () => {
    hang();
    const from = new URL(path, location.href);
    if (told) from.searchParams.set("from", told);
    const mine = (source = new EventSource(from));
    mine.onopen = () => link("up");
    mine.onerror = () => (mine.readyState === EventSource.CLOSED ? refused(mine) : link("lost"));
    for (const [name, heard] of Object.entries(events)) {
      mine.addEventListener(name, (event) => {
        told = event.lastEventId || told;
        heard(JSON.parse(event.data), end);
      });
    }
  };
  const seen = () => {
    if (over) return;
    if (document.hidden) hang();
    else dial();
  };
  document.addEventListener("visibilitychange", seen);
  // What is on the page already is drawn first.
  requestAnimationFrame(() => setTimeout(() => source || seen()));
}

// Only the newest of what came since the last time that something was drawn: a slow machine does not fall behind.
function newest(heard) {
  let last;
  return (html) => {
    if (last === undefined) requestAnimationFrame(() => {
      const now = last;
      last = undefined;
      heard(now);
    });
    last = html;
  };
}

const live = document.getElementById("live");
if (live) listen(live.dataset.stream, { live: newest((html) => update(live, html)) });

// Whether calls are taken, on a page without a stream: now and then, while somebody looks.
const CHECK_EVERY_MS = 5_000;
const checks = document.getElementById("checks");
if (checks) setInterval(async () => {
  if (document.hidden) return;
  const answer = await fetch(checks.dataset.fresh).catch(() => null);
  if (answer?.status === 401) return link("over");
  const text = answer?.ok ? await answer.text().catch(() => null) : null;
  if (text === null) return link("lost");
  const now = new DOMParser().parseFromString(text, "text/html").getElementById("checks");
  // Whose session is over is shown the log-in, which has none.
  link(now ? "up" : "over");
  if (now) update(checks, now.innerHTML);
}, CHECK_EVERY_MS);

// What is told late stands where it began.
function tell(story, html) {
  const now = story.cloneNode(false);
  now.innerHTML = html;
  for (const line of [...now.children]) {
    let after = story.lastElementChild;
    while (after && Number(after.dataset.at) > Number(line.dataset.at)) after = after.previousElementSibling;
    after ? after.after(line) : story.prepend(line);
  }
}

const story = document.getElementById("story");
if (story?.dataset.stream) {
  const facts = document.getElementById("facts");
  listen(story.dataset.stream, {
    facts: (html) => update(facts, html),
    story: (html) => {
      const below = innerHeight + scrollY >= document.body.scrollHeight - 80;
      tell(story, html);
      if (below) scrollTo(0, document.body.scrollHeight);
    },
    ended: ({ told, facts: last }, end) => {
      end();
      link("done");
      update(document.getElementById("ended"), told);
      for (const timer of document.querySelectorAll("time.timer")) timer.classList.remove("timer");
      if (last) update(facts, last);
      for (const gone of document.querySelectorAll("details.ask, #listen, #pen")) gone.remove();
    },
  }, async () => {
    // It may have ended while nobody listened.
    const page = await fetch(location.pathname).catch(() => null);
    if (page?.redirected || page?.status === 404) location.reload();
  });
}

// A conversation in writing: the story shows what was sent.
const pen = document.getElementById("pen");
if (pen) {
  const say = document.getElementById("say");
  const trouble = pen.querySelector("[role=alert]");
  pen.onsubmit = async (event) => {
    event.preventDefault();
    const answer = await fetch(pen.action, { method: "POST", body: new URLSearchParams(new FormData(pen)) }).catch(() => null);
    trouble.hidden = answer?.ok ?? false;
    trouble.textContent = trouble.hidden ? "" : pen.dataset.lost;
    if (trouble.hidden) say.value = "";
    say.focus();
  };
}

// The picture of a recording comes by itself, or not at all.
const drawn = document.querySelector("img.sound");
if (drawn) {
  const failed = () => {
    const told = document.getElementById("undrawn");
    if (!told) return;
    told.textContent = told.dataset.told;
    told.hidden = false;
    drawn.remove();
  };
  drawn.onerror = failed;
  if (drawn.complete && drawn.naturalWidth === 0) failed();
}

// Recordings: from any line of the transcript, and from any point of the time axis.
const sound = document.getElementById("sound");
if (sound) {
  const began = Number(sound.dataset.began);
  const from = (at) => {
    sound.currentTime = Math.max(0, (at - began) / 1000);
    // Who pauses it before it begins means that.
    sound.play().catch(() => {});
  };
  // An hour has hundreds of lines: as many at a time as nobody notices.
  const BUTTONS_AT_ONCE = 100;
  const play = (lines) => {
    for (const line of lines.splice(0, BUTTONS_AT_ONCE)) {
      const at = line.querySelector(".at");
      const button = document.createElement("button");
      button.type = "button";
      button.className = "at";
      button.textContent = at.textContent;
      button.setAttribute("aria-label", `${sound.dataset.from} ${at.textContent}`);
      button.onclick = () => from(Number(line.dataset.at));
      at.replaceWith(button);
    }
    if (lines.length > 0) setTimeout(play, 0, lines);
  };
  // What there is to read comes first, then how long the recording is, and where it can be begun.
  const ready = () => {
    sound.preload = "metadata";
    play([...document.querySelectorAll(".story li")]);
  };
  if (document.readyState === "complete") ready();
  else addEventListener("load", ready);
  const length = Number(document.getElementById("timeline").dataset.length);
  const head = document.getElementById("playhead");
  const axis = head.ownerSVGElement;
  axis.classList.add("plays");
  axis.onclick = (event) => {
    const { left, width } = axis.getBoundingClientRect();
    from(((event.clientX - left) / width) * length);
  };
  sound.ontimeupdate = () => {
    const place = `${((sound.currentTime * 1000 + began) * 100) / length}%`;
    head.setAttribute("x1", place);
    head.setAttribute("x2", place);
  };
}

// What somebody has written and not sent: the browser asks before it is lost.

const kept = document.querySelectorAll("form[data-kept]");
let unsaved = [...kept].some((form) => form.dataset.kept === "unsaved");
for (const form of kept) form.addEventListener("input", () => (unsaved = true));
addEventListener("submit", () => (unsaved = false));
if (kept.length > 0) addEventListener("beforeunload", (event) => unsaved && event.preventDefault());

tick();
setInterval(tick, 1000);
