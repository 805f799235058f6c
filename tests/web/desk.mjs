// A browser, callers, and what both tests of the page need.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { randomUUID } from "node:crypto";
import { join } from "node:path";

const require = createRequire(join(process.env.NODE_MODULES, "desk.js"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const { PAGE, PASSWORD } = process.env;
export const WIDE = { width: 1280, height: 900 };
export const PHONE = { width: 390, height: 844 };

export function check(holds, what) {
  if (!holds) throw new Error(what);
}

// Nothing is waited for without an end, and whoever waits says what for. A browser beside other programs takes its time, and nothing that
// is right takes longer for this.
const WAIT_MAX = 60_000;

export async function within(promise, what, most = WAIT_MAX) {
  let clock;
  const late = new Promise((_, failed) => (clock = setTimeout(() => failed(new Error(`${what}: not within ${most} ms`)), most)));
  return Promise.race([promise, late]).finally(() => clearTimeout(clock));
}

// How many there are of something once the page is as it should be: a click returns before the next page is there.
export async function counts(locator, holds, what) {
  const most = Date.now() + WAIT_MAX;
  let count = await locator.count();
  while (!holds(count) && Date.now() < most) {
    await new Promise((later) => setTimeout(later, 50));
    count = await locator.count();
  }
  check(holds(count), `${what}: ${count}`);
  return count;
}

export const has = (locator, expected, what) => counts(locator, (count) => count === expected, what);

export async function browser(options) {
  const context = await chromium.launchPersistentContext(process.env.PROFILE + "-" + randomUUID(), {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
      // Without a sound card the browser opens one in vain for each player, and may wait for it.
      "--disable-audio-output",
    ],
    ...options,
  });
  context.setDefaultTimeout(WAIT_MAX);
  return context;
}

// Tells everything that goes wrong in a page: errors of scripts, and what its policy has refused.
export function watch(page, problems) {
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (line) => line.type() === "error" && problems.push(`${page.url()}: ${line.text()}`));
}

export async function logIn(page, name) {
  await page.goto(PAGE + "/login");
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Live" }).waitFor();
}

// What a screen reader or an eye would stumble over. The page's policy lets no foreign script in, so axe comes by the debugger.
export async function accessible(page, name) {
  await page.evaluate(AXE);
  const run = page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const found = await within(run, `axe looks at ${name}`, 30_000);
  const told = found.violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).join(" ").slice(0, 400)}`);
  check(told.length === 0, `${name}: ${told.join("\n")}`);
}

// Nothing is wider than the window, and no cell's text than the cell.
export async function fits(page, name) {
  const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  check(wide <= window, `${name} is ${wide} wide in a window of ${window}`);
  const cut = await page.evaluate(() =>
    [...document.querySelectorAll("tbody :is(td, th)")].filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent));
  check(cut.length === 0, `${name} cuts off ${JSON.stringify(cut)}`);
}

// A caller by AudioSocket, who is silent unless told to make a noise, until somebody hangs up.
export async function call(context) {
  const [host, port] = process.env.AUDIOSOCKET.split(":");
  const socket = connect(Number(port), host);
  const prefix = { library: "0ff40001", reservations: "0ff40002" }[context];
  const id = Buffer.from(prefix + randomUUID().replaceAll("-", "").slice(8), "hex");
  await within(new Promise((ready, failed) => socket.once("connect", ready).once("error", failed)), "the engine takes the call");
  socket.write(Buffer.concat([Buffer.from([1, 0, 16]), id]));
  const frame = (sound) => Buffer.concat([Buffer.from([0x10, 0x01, 0x40]), sound]);
  const silence = Buffer.alloc(320);
  const noise = () => Buffer.from(Int16Array.from({ length: 160 }, () => (Math.random() - 0.5) * 24_000).buffer);
  let speaks = false;
  const clock = setInterval(() => socket.write(frame(speaks ? noise() : silence)), 20);
  const ended = new Promise((gone) => socket.once("close", gone));
  socket.on("error", () => {}).on("data", () => {}).once("close", () => clearInterval(clock));
  const over = () => within(ended, "the engine ends the call");
  return { over, speak: (now) => (speaks = now), hangUp: () => { clearInterval(clock); socket.end(Buffer.from([0, 0, 0])); } };
}
