// What an admin does with tools and with the servers that bring them.

import { PAGE, check, has } from "./desk.mjs";

// A tool of data: made with a mistake, mended, tried, seen in the registry, and deleted.
export async function makesATool(page, look) {
  await page.getByRole("link", { name: "Tools", exact: true }).click();
  await page.getByRole("heading", { name: "Tools", level: 1 }).waitFor();
  await page.getByText("opening_hours").waitFor();
  await look(page, "tools");
  await page.getByLabel("Name, kind or words").fill("weather");
  await page.getByRole("button", { name: "Search" }).click();
  await page.getByText("mcp_weather_get_atis").waitFor();
  await has(page.getByText("opening_hours"), 0, "only what was looked for is shown");
  await page.getByRole("link", { name: "New declarative tool" }).click();
  await page.getByLabel("Name", { exact: true }).fill("book_room");
  await page.getByLabel("Description").fill("Books a room.");
  await page.getByLabel("Parameters").fill('[{ "name": "people", "type": "intger" }]');
  await page.getByLabel("Actions").fill('[{ "type": "respond", "mesage": "A room for {{params.people}}." }]');
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("The definition has mistakes:").waitFor();
  check((await page.getByLabel("Actions").getAttribute("aria-invalid")) === "true", "the field is marked");
  check((await page.getByLabel("Policy").getAttribute("aria-invalid")) === null, "and no other");
  await look(page, "tool editor, mistakes");
  await page.getByRole("link", { name: "parameters[0].type" }).click();
  await page.getByLabel("Parameters").fill('[{ "name": "people", "type": "integer" }]');
  await page.getByLabel("Actions").fill('[{ "type": "respond", "message": "A room for {{params.people}}." }]');
  await page.getByLabel("Arguments").fill('{ "people": 5 }');
  await page.getByRole("button", { name: "Run it" }).click();
  await page.getByText("What came of it: A room for 5.").waitFor();
  await look(page, "tool editor, tried");
  check((await page.request.get(PAGE + "/tools/book_room?tenant=town")).status() === 404, "a dry run keeps nothing");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "book_room", level: 1 }).waitFor();
  await look(page, "a tool");
  await page.goto(PAGE + "/tools");
  await page.getByRole("link", { name: "book_room" }).click();
  await page.getByRole("link", { name: "Edit" }).click();
  await page.getByText("Delete this tool").click();
  await page.getByRole("button", { name: "Delete for good" }).click();
  await page.getByRole("heading", { name: "Tools", level: 1 }).waitFor();
  await has(page.getByText("book_room"), 0, "it is gone");
  await page.goto(PAGE + "/tool-editor?tenant=town&tool=opening_hours");
  check(!(await page.content()).includes("key of the library"), "secrets stay masked");
  await page.getByText("Delete this tool").click();
  await page.getByRole("button", { name: "Delete for good" }).click();
  await page.getByText("The configuration lists this tool").waitFor();
}

// A server is added with a mistake, mended, seen up, and removed; the file is else as it was.
export async function addsAServer(page, look) {
  await page.goto(PAGE + "/mcp/editor?server=weather");
  const command = await page.getByLabel("Program and arguments").inputValue();
  check(command.startsWith("aviation_atis\n--config\n"), `the entry is read: ${command}`);
  await page.getByRole("link", { name: "MCP servers" }).click();
  await page.getByRole("link", { name: "Add a server" }).click();
  await page.getByLabel("Name", { exact: true }).fill("tower");
  await page.getByLabel("Environment").fill("STATION=EDDM");
  await look(page, "server editor");
  await page.getByRole("button", { name: "Check, and show the difference" }).click();
  await page.getByText("This cannot be published:").waitFor();
  check((await page.getByLabel("Program and arguments").getAttribute("aria-invalid")) === "true", "the field is marked");
  await look(page, "server editor, mistakes");
  await page.getByLabel("Program and arguments").fill(command);
  await page.getByRole("button", { name: "Check, and show the difference" }).click();
  await page.getByText("This is what changes").waitFor();
  await page.getByText("+    tower:").waitFor();
  await look(page, "server editor, difference");
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByRole("heading", { name: "MCP servers" }).waitFor();
  const tower = page.locator("section", { has: page.getByRole("heading", { name: "tower" }) });
  while ((await tower.locator(".tag", { hasText: "up" }).count()) === 0) await page.reload();
  await look(page, "MCP, with another server");
  await tower.getByRole("link", { name: "Edit" }).click();
  check(!(await page.content()).includes("EDDM"), "values of the environment are not shown");
  await page.getByRole("button", { name: "Remove this server" }).click();
  await page.getByText("-    tower:").waitFor();
  await look(page, "server editor, removal");
  await page.locator("#proposal").getByRole("button", { name: "Remove this server" }).click();
  await page.getByRole("heading", { name: "MCP servers" }).waitFor();
  while ((await tower.count()) > 0) await page.reload();
}
