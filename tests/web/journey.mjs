// What people do with the page, once at a desk and once on a phone.

import { editsTheConfiguration, losesTheRace, triesAContext } from "./contexts.mjs";
import { addsAServer, makesATool } from "./tools.mjs";
import { PAGE, PASSWORD, PHONE, WIDE, accessible, browser, call, check, fits, logIn, watch } from "./desk.mjs";

const problems = [];

async function look(page, name) {
  await fits(page, name);
  await accessible(page, name);
}

async function logsIn(page) {
  await page.goto(PAGE + "/history?context=library");
  check(page.url().startsWith(PAGE + "/login?next="), "who is not logged in is sent to the log-in");
  await look(page, "log-in");
  await page.getByLabel("Name").fill("operator");
  await page.getByLabel("Password").fill("wrong, and long enough");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  await look(page, "log-in, refused");
  await page.getByLabel("Name").fill("operator");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "History" }).waitFor();
  check(page.url() === PAGE + "/history?context=library", `after the log-in one is where one wanted to be, not at ${page.url()}`);
}

async function seesCalls(page) {
  await page.goto(PAGE + "/");
  await page.getByText("Nobody is on the line.").first().waitFor();
  await page.locator("#link[data-state=up]").waitFor();
  // Nothing is loaded again from here on: the page keeps itself fresh.
  await page.evaluate(() => (window.untouched = true));
  const first = await call("library");
  const row = page.locator("#live tbody tr", { hasText: "library" }).first();
  await row.getByText("talking").waitFor();
  await row.getByText("agent", { exact: true }).waitFor();
  const second = await call("reservations");
  await page.getByText("2 calls", { exact: true }).waitFor();
  await look(page, "live");
  // The place of whoever uses the keyboard is kept while the page changes.
  await page.getByRole("link", { name: /^Hang up/ }).first().focus();
  first.hangUp();
  await page.getByText("1 call", { exact: true }).waitFor();
  await page.getByText("caller hung up").first().waitFor();
  check(await page.evaluate(() => window.untouched), "the page was loaded again");
  return second;
}

async function hangsUp(page, caller) {
  await page.getByRole("link", { name: /^Hang up/ }).first().click();
  await page.getByText("Good morning, this is the town library.").waitFor();
  await page.getByText("Hang up this call?").waitFor();
  await look(page, "a running call");
  // What is said next comes by itself.
  await page.getByText("on Thursdays until eight").waitFor({ timeout: 20_000 });
  await page.getByRole("button", { name: "Hang up now" }).click();
  await caller.ended;
  await page.getByRole("heading", { name: "Live" }).waitFor();
  await page.getByText("operator ended").first().waitFor();
}

// What the agent says is heard in the browser, and the place is free again when it goes away.
async function listensIn(page) {
  const caller = await call("library");
  await page.goto(PAGE + "/");
  const row = page.locator("#live tbody tr", { hasText: "talking" });
  await row.waitFor();
  await page.waitForFunction(() => parseFloat(document.querySelector(".meter .agent")?.getAttribute("width")) > 30);
  await row.locator("th a").click();
  await page.getByText("Listen in").waitFor();
  await page.evaluate(() => document.querySelector("#listen audio").play());
  await page.waitForFunction(() => document.querySelector("#listen audio").currentTime > 1);
  await look(page, "a running call");
  await page.goto(PAGE + "/");
  caller.hangUp();
  await page.getByText("Nobody is on the line.").first().waitFor();
}

async function searches(page) {
  await page.getByRole("link", { name: "History" }).click();
  await page.getByRole("heading", { name: "History", level: 1 }).waitFor();
  await look(page, "history");
  await page.getByLabel("Words that were said").fill("sunday");
  await page.getByLabel("Reason").selectOption("agent_silent");
  await page.getByRole("button", { name: "Search" }).click();
  const rows = page.locator("#calls").locator("xpath=ancestor::section").locator("tbody tr");
  const found = await rows.count();
  check(found > 0 && found < 20, `${found} calls are found`);
  check((await rows.getByText("agent silent").count()) === found, "all found calls ended for this reason");
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "CSV" }).click()]);
  check(file.suggestedFilename() === "calls.csv", "the export is a file");
  await page.getByLabel("Words that were said").fill("never said by anybody");
  await page.getByRole("button", { name: "Search" }).click();
  await page.getByText("No call is like that.").waitFor();
  await page.getByRole("link", { name: "Clear" }).click();
  check((await rows.count()) === 50, "a page has fifty calls");
  await page.getByRole("link", { name: "Older calls" }).click();
  await page.getByRole("link", { name: "Newest calls" }).waitFor();
}

async function reads(page) {
  await page.goto(PAGE + "/history?reason=agent_silent");
  await page.locator("tbody th a").last().click();
  await page.getByText("The agent gave no answer although the caller waited.").waitFor();
  await page.getByText("Hello, are you open on Sunday?").waitFor();
  check((await page.locator("rect.agent").count()) === 5, "each answer is on the time axis");
  await page.getByRole("button", { name: /^Play from 0:07/ }).first().click();
  const heard = (from, to) => page.waitForFunction(([from, to]) => {
    const { currentTime, paused } = document.getElementById("sound");
    return !paused && currentTime > from && currentTime < to;
  }, [from, to]);
  await heard(7, 9);
  check((await page.locator("svg.sound path").count()) === 2, "both sides are drawn");
  const axis = page.locator("#timeline .scroll > svg");
  const { width } = await axis.boundingBox();
  await axis.click({ position: { x: width / 2, y: 60 } });
  await heard(12, 30);
  await page.evaluate(() => document.getElementById("sound").pause());
  await page.locator(".tools summary").first().click();
  await page.getByText("gate_decision").first().waitFor();
  await look(page, "one call");
  check((await page.getByText("Delete this record").count()) === 0, "operators delete nothing");
}

async function deletes(page) {
  await logIn(page, "admin");
  await page.goto(PAGE + "/history?reason=no_input");
  const before = await page.locator("tbody th a").count();
  await page.locator("tbody th a").first().click();
  await page.getByText("Delete this record").click();
  await page.getByRole("button", { name: "Delete for good" }).click();
  await page.getByRole("heading", { name: "History", level: 1 }).waitFor();
  await page.goto(PAGE + "/history?reason=no_input");
  check((await page.locator("tbody th a").count()) === before - 1, "one call less");
}

// What an admin does with the engine itself.
async function runsTheEngine(page) {
  await page.getByRole("link", { name: "Providers" }).click();
  await page.getByRole("heading", { name: "voice scripted" }).waitFor();
  await look(page, "providers");
  await page.getByRole("link", { name: "MCP" }).click();
  const weather = page.locator("section", { has: page.getByRole("heading", { name: "weather" }) });
  const broken = page.locator("section", { has: page.getByRole("heading", { name: "broken" }) });
  await look(page, "MCP");
  await weather.getByRole("button", { name: "Test" }).click();
  await weather.getByText("The server answers.").waitFor();
  await broken.getByRole("button", { name: "Test" }).click();
  await broken.getByText("The server does not work.").waitFor();
  await look(page, "MCP, tested");
  await page.getByRole("link", { name: "System" }).click();
  await page.getByText("offhook is up").first().waitFor();
  await look(page, "system");
  await page.getByRole("button", { name: "Examine the installation" }).click();
  await page.getByRole("heading", { name: "What was found" }).waitFor();
  await page.getByText("enough files may be open").waitFor();
  await look(page, "system, examined");
  await page.getByRole("button", { name: "Load the configuration anew" }).click();
  await page.getByText("The configuration is in force.").waitFor();
  await page.getByRole("button", { name: "Take no new calls" }).click();
  await page.getByText("New calls are declined.").waitFor();
  const declined = await call("library");
  await declined.ended;
  await page.getByRole("button", { name: "Take calls again" }).click();
  await page.getByText("New calls are taken.").waitFor();
  await look(page, "system again");
}

// Everybody sees the contexts; the text is for admins.
async function looksOnly(page) {
  await logIn(page, "viewer");
  await page.getByRole("link", { name: "Contexts" }).click();
  await page.getByText("The configuration itself is shown to admins only.").waitFor();
  await look(page, "contexts, for viewers");
  await page.goto(PAGE + "/tools/opening_hours?tenant=town");
  await page.getByRole("cell", { name: "As 2026-11-23." }).waitFor();
  check((await page.getByRole("link", { name: "Edit" }).count()) === 0, "viewers edit nothing");
  for (const path of ["/tool-editor?tenant=town", "/mcp/editor"]) {
    check((await page.request.get(PAGE + path)).status() === 403, `nor by the address ${path}`);
  }
  await page.goto(PAGE + "/");
  const caller = await call("library");
  await page.locator("#live tbody tr", { hasText: "talking" }).waitFor();
  check((await page.getByRole("link", { name: /^Hang up/ }).count()) === 0, "viewers hang up nobody");
  await page.goto(PAGE + "/history");
  await page.locator("tbody th a").first().click();
  await page.getByText("What is said is shown to operators only.").waitFor();
  check(!(await page.content()).includes("Sunday"), "viewers read no words");
  caller.hangUp();
}

// The session is gone: the page says so, and leads to the log-in.
async function isLoggedOut(page, context) {
  await page.goto(PAGE + "/");
  await page.locator("#link[data-state=up]").waitFor();
  const other = await context.newPage();
  await other.goto(PAGE + "/history");
  await other.getByRole("button", { name: "Log out" }).click();
  await other.getByRole("heading", { name: "Log in" }).waitFor();
  await page.getByText("Your session has ended.").waitFor({ timeout: 20_000 });
  await page.getByRole("link", { name: "Log in" }).click();
  await page.getByLabel("Password").waitFor();
  await other.close();
}

async function byKeyboard(page) {
  await page.goto(PAGE + "/");
  await page.keyboard.press("Tab");
  check(await page.getByText("Skip to the content").evaluate((link) => link === document.activeElement), "the first stop is the skip link");
  await page.keyboard.press("Enter");
  check(await page.evaluate(() => document.activeElement.id === "main"), "it leads to the content");
}

for (const viewport of [WIDE, PHONE]) {
  const context = await browser({ viewport, acceptDownloads: true });
  const page = context.pages()[0];
  watch(page, problems);
  await logsIn(page);
  await hangsUp(page, await seesCalls(page));
  await listensIn(page);
  await searches(page);
  await reads(page);
  await byKeyboard(page);
  await isLoggedOut(page, context);
  await deletes(page);
  await runsTheEngine(page);
  await editsTheConfiguration(page, look);
  await losesTheRace(page, context, look);
  await triesAContext(page, look);
  await makesATool(page, look);
  await addsAServer(page, look);
  await page.getByRole("button", { name: "Log out" }).click();
  await looksOnly(page);
  await context.close();
}

// Everything is there without scripts, too.
const plain = await browser({ viewport: WIDE, javaScriptEnabled: false });
const page = plain.pages()[0];
await logIn(page, "operator");
const caller = await call("library");
while ((await page.getByText("1 call", { exact: true }).count()) === 0) await page.reload();
await page.getByRole("link", { name: /^Hang up/ }).click();
await page.getByRole("button", { name: "Hang up now" }).click();
await caller.ended;
await plain.close();

// The log-in is refused once on purpose, with a status that browsers tell on their console, and a stream ends with a session;
// somebody is too late with a configuration, and there are mistakes in definitions.
const meant = (problem) => /\/login.*401|401 \(Unauthorized\)|\/contexts.*409|\/(tool-editor|mcp\/editor).*4(09|22)/.test(problem);
check(problems.every(meant), problems.filter((problem) => !meant(problem)).join("\n"));
console.log("all as it should be");
