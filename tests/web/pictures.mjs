// Takes the pictures of the guide: each page at a desk, light and dark, and on a phone. A telephone has called already.

import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { PAGE, PHONE, WIDE, browser, call, fits, logIn } from "./desk.mjs";

const { PICTURES } = process.env;
// On a phone a list of fifty calls is as long as a street; nobody needs all of it in a picture.
const HEIGHT_MAX = 3200;

// What a caller says, at 8 kHz.
const words = readFileSync(process.env.WORDS);

// Somebody who says it every four seconds, ten times, and hangs up.
async function talks(prefix, late) {
  const [host, port] = process.env.AUDIOSOCKET.split(":");
  const socket = connect(Number(port), host);
  await new Promise((ready, failed) => socket.once("connect", ready).once("error", failed));
  socket.on("error", () => {}).on("data", () => {});
  const id = Buffer.from(prefix + randomUUID().replaceAll("-", "").slice(8), "hex");
  socket.write(Buffer.concat([Buffer.from([1, 0, 16]), id]));
  const frame = (samples) => Buffer.concat([Buffer.from([0x10, 0x01, 0x40]), samples]);
  const quiet = frame(Buffer.alloc(320));
  const began = Date.now();
  let sent = 0;
  await new Promise((over) => {
    socket.once("close", over);
    const clock = setInterval(() => {
      // As many as the time that has passed asks for: a timer of a browser's language is late now and then.
      for (; sent * 20 < Date.now() - began; sent++) {
        const at = sent * 20 - 2000 - late;
        const word = at >= 0 && at < 40_000 ? words.subarray((at % 4000) * 16, (at % 4000) * 16 + 320) : [];
        socket.write(word.length === 320 ? frame(word) : quiet);
      }
      if (sent * 20 > 44_000 + late) {
        clearInterval(clock);
        socket.end(Buffer.from([0, 0, 0]));
      }
    }, 20);
  });
}

await Promise.all([0, 400, 800, 1200].flatMap((late) => [talks("0ff40003", late), talks("0ff40004", late + 200)]));
const callers = [];
for (const context of ["library", "reservations", "library"]) {
  callers.push(await call(context));
}

for (const [name, options] of [
  ["", { viewport: WIDE, colorScheme: "light" }],
  ["-dark", { viewport: WIDE, colorScheme: "dark" }],
  ["-phone", { viewport: PHONE, colorScheme: "light" }],
]) {
  const context = await browser(options);
  const page = context.pages()[0];
  const take = async (what, whole = true) => {
    await fits(page, what + name);
    const path = join(PICTURES, `page-${what}${name}.png`);
    // What is drawn when it comes on the screen is in the picture, which nobody scrolls.
    await page.evaluate(() => document.querySelectorAll("li, tr").forEach((row) => (row.style.contentVisibility = "visible")));
    const [width, height] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]);
    const clip = whole && height > HEIGHT_MAX && options.viewport === PHONE ? { x: 0, y: 0, width, height: HEIGHT_MAX } : undefined;
    await page.screenshot({ path, fullPage: whole, clip });
  };
  await page.goto(PAGE + "/login");
  await take("log-in", false);
  await logIn(page, "admin");
  await page.getByText("4 calls", { exact: true }).waitFor();
  await page.locator("time.timer", { hasText: ":" }).first().waitFor();
  // One that has ended.
  if (name === "") (await call("reservations")).hangUp();
  await page.getByText("caller hung up").first().waitFor();
  await take("live");
  await page.locator("tbody th a").first().click();
  await page.getByText("on Thursdays until eight").waitFor({ timeout: 20_000 });
  await take("call");
  await page.goto(PAGE + "/history");
  await take("history");
  await page.goto(PAGE + "/history?reason=agent_silent");
  await page.locator("tbody th a").first().click();
  await page.getByText("Goodbye!").waitFor();
  await take("record");
  await page.goto(PAGE + "/tools");
  await take("tools");
  await page.goto(PAGE + "/tools/opening_hours?tenant=town");
  await take("tool");
  await page.goto(PAGE + "/tool-editor?tenant=town&tool=opening_hours");
  await page.getByLabel("Arguments").fill('{ "day": "2026-11-23" }');
  await page.getByRole("button", { name: "Run it" }).click();
  await page.getByText("Step by step").waitFor();
  await take("tool-editor");
  await page.goto(PAGE + "/mcp/editor");
  await page.getByLabel("Name", { exact: true }).fill("bookings");
  await page.getByLabel("Transport").selectOption("http");
  await page.getByLabel("Address").fill("https://tools.example.com/mcp");
  await page.getByLabel("Headers").fill("X-Library: ${LIBRARY:-town}");
  await page.getByLabel("What its tools touch").selectOption("write");
  await page.getByRole("button", { name: "Check, and show the difference" }).click();
  await page.getByText("This is what changes").waitFor();
  await take("server-editor");
  for (const where of ["providers", "mcp", "system"]) {
    await page.goto(`${PAGE}/${where}`);
    if (where === "mcp") await page.locator("section", { hasText: "weather" }).locator(".tag", { hasText: "up" }).waitFor();
    await take(where);
  }
  await page.getByRole("button", { name: "Examine the installation" }).click();
  await page.getByRole("heading", { name: "What was found" }).waitFor({ timeout: 90_000 });
  await take("examination");
  await page.goto(PAGE + "/contexts");
  await page.locator("#help dl").waitFor();
  const text = await page.locator("#text").inputValue();
  await page.locator("#text").fill(text.replace("library: { prompt: A test, provider: voice", "library: { prompt: A test, provider: voise"));
  await page.getByText("1 problem", { exact: true }).waitFor();
  await page.getByRole("link", { name: /^Line/ }).click();
  await page.locator("#help").getByText("contexts.library", { exact: true }).waitFor();
  await page.locator("#text").evaluate((area) => {
    area.rows = 18;
    area.scrollTop = 0;
  });
  await take("contexts");
  await page.goto(PAGE + "/contexts");
  await page.getByRole("button", { name: "Try books in writing" }).click();
  await page.getByText("Which book?").waitFor();
  await page.getByLabel("What the caller says").fill("The one about bees.");
  await page.getByLabel("What the caller says").press("Enter");
  await page.getByText("We have it.").waitFor();
  await take("conversation");
  await page.locator("summary", { hasText: "Hang up" }).click();
  await page.getByRole("button", { name: "Hang up now" }).click();
  await context.close();
}
for (const caller of callers) caller.hangUp();
console.log("all as it should be");
