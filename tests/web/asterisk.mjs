// What people do with the page beside a real Asterisk, one step for each line of standard input.

import { createInterface } from "node:readline";
import { PAGE, WIDE, accessible, browser, check, fits, has, logIn, watch } from "./desk.mjs";

const PATHS = ["audiosocket/slin", "rtp/ulaw", "websocket/slin16"];
const problems = [];
const context = await browser({ viewport: WIDE });
const page = context.pages()[0];
watch(page, problems);

const first = (name) => page.locator(`section[aria-labelledby=${name}] tbody tr`).first();

// What the button on *System* tells: each finding as its area and grade stand before its words.
async function examines() {
  await page.goto(PAGE + "/system");
  await page.getByRole("button", { name: "Examine the installation" }).click();
  await page.getByRole("heading", { name: "What was found" }).waitFor({ timeout: 90_000 });
  await fits(page, "system, examined");
  await accessible(page, "system, examined");
  return page.locator(".findings li").evaluateAll((all) =>
    all.map((one) => ({ grade: one.className, says: one.textContent.replace(/\s+/g, " ").trim() })));
}

function found(findings, grade, says) {
  const told = findings.some((one) => one.grade === grade && one.says.includes(says));
  check(told, `${grade}: ${says}: is not in ${JSON.stringify(findings, null, 1)}`);
}

// A test call that arrives. That it took long, or lost a part, is a warning, and may be so on a machine under load.
const isHeard = ({ says }) => says.includes("a test call is heard both ways") && !says.includes(" dB ");

function heard(findings, path) {
  const told = findings.some((one) => isHeard(one) && one.says.includes(`${path}: `));
  check(told, `${path} is not heard in ${JSON.stringify(findings, null, 1)}`);
}

async function isConnected() {
  await page.locator(".checks li.good", { hasText: "Asterisk" }).getByText("Connected", { exact: true }).waitFor();
  await page.getByText("Ready for calls").waitFor();
}

const steps = {
  "sees a call": async () => {
    const row = first("running");
    await row.getByText("talking").waitFor();
    await page.getByText("1 call", { exact: true }).waitFor();
    await row.locator("th a").click();
    await page.locator("#story").getByText("The call is answered.").waitFor();
    // Who looks at it sees how loud it is, and who may act on it.
    await page.getByText("Listen in").waitFor();
  },
  "transfers it": async () => {
    await page.locator("summary", { hasText: "Transfer" }).click();
    check((await page.getByLabel("Send the caller to").locator("option").allTextContents()).join() === "ann: Ann at the desk", "all destinations");
    await page.getByRole("button", { name: "Transfer now" }).click();
  },
  "sees that it was transferred": async () => {
    await page.goto(PAGE + "/");
    await page.getByText("Nobody is on the line.").first().waitFor();
    await first("ended").getByText("transferred").waitFor();
  },
  "hangs it up": async () => {
    await page.locator("summary", { hasText: "Hang up" }).click();
    await page.getByRole("button", { name: "Hang up now" }).click();
    await page.getByRole("heading", { name: "Live" }).waitFor();
  },
  "sees that it was ended": async () => {
    await page.getByText("Nobody is on the line.").first().waitFor();
    await first("ended").getByText("operator ended").waitFor();
    // It is kept, too; a moment later.
    await page.goto(PAGE + (await first("ended").locator("th a").getAttribute("href")));
    while ((await page.getByText("15550199").count()) === 0) await page.reload();
  },
  "examines: all is well": async () => {
    const findings = await examines();
    const wrong = findings.filter((one) => one.grade !== "ok" && !isHeard(one));
    check(wrong.length === 0, JSON.stringify(wrong, null, 1));
    if (findings.every((one) => one.grade === "ok")) await page.getByText("All is well.").waitFor();
    found(findings, "ok", "Stasis(offhook) leads to the engine that runs here");
    for (const path of PATHS) heard(findings, path);
    found(findings, "ok", "destinations.ann: desk@lab-targets exists");
  },
  "tests the audio paths": async () => {
    await page.goto(PAGE + "/system");
    await page.getByRole("button", { name: "Test the audio paths" }).click();
    await page.getByRole("heading", { name: "What arrived" }).waitFor({ timeout: 60_000 });
    await fits(page, "system, audio tested");
    await accessible(page, "system, audio tested");
    for (const path of PATHS) {
      const told = page.locator(".findings li", { hasText: `${path}: a test call is heard both ways` });
      await has(told, 1, `${path}: ${await page.locator(".findings").textContent()}`);
      for (const way of ["Caller → offhook", "offhook → caller"]) await told.getByText(way, { exact: false }).first().waitFor();
    }
    await page.getByText("The audio paths work.").waitFor();
  },
  "examines: a module is missing": async () => {
    const findings = await examines();
    await has(page.getByText("All is well."), 0, "all is not well");
    found(findings, "problem", "the module app_audiosocket does not run");
    found(findings, "problem", "module load app_audiosocket.so");
    found(findings, "warning", "the module func_dialplan does not run");
    heard(findings, "rtp/ulaw");
  },
  "examines: nobody answers": async () => {
    const findings = await examines();
    found(findings, "problem", "nobody answers at 127.0.0.1:");
    found(findings, "problem", "start Asterisk");
  },
  "sees Asterisk connected": async () => {
    await page.goto(PAGE + "/");
    await page.locator("#link[data-state=up]").waitFor();
    await isConnected();
    await page.evaluate(() => (window.untouched = true));
  },
  "sees Asterisk gone": async () => {
    await page.locator(".checks li.bad", { hasText: "Asterisk" }).waitFor();
    await page.getByText("Not ready", { exact: true }).waitFor();
    await fits(page, "live, without Asterisk");
    await accessible(page, "live, without Asterisk");
  },
  "sees Asterisk back": async () => {
    await isConnected();
    check(await page.evaluate(() => window.untouched), "the page keeps itself fresh");
  },
};

await logIn(page, process.env.ROLE);
console.log("ready");
for await (const step of createInterface({ input: process.stdin })) {
  await steps[step]();
  console.log(`done: ${step}`);
}
await context.close();
check(problems.length === 0, problems.join("\n"));
