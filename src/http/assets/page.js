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

// Replaces a part of the page, and keeps the place of whoever uses it by keyboard.
function replace(part, html) {
  const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
  const scrolled = [...part.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  part.innerHTML = html;
  part.querySelectorAll(".scroll").forEach((box, index) => (box.scrollLeft = scrolled[index] ?? 0));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  tick();
}

// Says whether the page is fresh.
function link(state) {
  const sign = document.getElementById("link");
  if (!sign || sign.dataset.state === state) return;
  sign.dataset.state = state;
  sign.textContent = sign.dataset[state];
  if (state === "over") {
    const again = document.createElement("a");
    again.href = "/login?next=" + encodeURIComponent(location.pathname + location.search);
    again.textContent = sign.dataset.logIn;
    sign.append(" ", again);
  }
}

// The browser dials again by itself, unless the server said no: then the session is over.
function listen(path, events) {
  const source = new EventSource(path);
  source.onopen = () => link("up");
  source.onerror = () => link(source.readyState === EventSource.CLOSED ? "over" : "lost");
  for (const [name, heard] of Object.entries(events)) {
    source.addEventListener(name, (event) => heard(JSON.parse(event.data), source));
  }
}

const live = document.getElementById("live");
if (live) listen(live.dataset.stream, { live: (html) => replace(live, html) });

const story = document.getElementById("story");
if (story?.dataset.stream) {
  listen(story.dataset.stream, {
    story: (html) => {
      const below = innerHeight + scrollY >= document.body.scrollHeight - 80;
      story.insertAdjacentHTML("beforeend", html);
      if (below) scrollTo(0, document.body.scrollHeight);
    },
    ended: (_, source) => {
      source.close();
      document.getElementById("ended").hidden = false;
      for (const ask of document.querySelectorAll("details.ask")) ask.remove();
      document.getElementById("listen")?.remove();
      document.getElementById("pen")?.remove();
      for (const timer of document.querySelectorAll("time.timer")) timer.classList.remove("timer");
    },
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

// Recordings: from any line of the transcript, and from any point of the time axis.
const sound = document.getElementById("sound");
if (sound) {
  const began = Number(sound.dataset.began);
  const from = (at) => {
    sound.currentTime = Math.max(0, (at - began) / 1000);
    // Who pauses it before it begins means that.
    sound.play().catch(() => {});
  };
  for (const line of document.querySelectorAll(".story li")) {
    const at = line.querySelector(".at");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "at";
    button.textContent = at.textContent;
    button.setAttribute("aria-label", `${sound.dataset.from} ${at.textContent}`);
    button.onclick = () => from(Number(line.dataset.at));
    at.replaceWith(button);
  }
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

tick();
setInterval(tick, 1000);
