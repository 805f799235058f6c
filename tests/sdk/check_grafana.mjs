// Checks dashboards against the types of Grafana's own package: check_grafana.mjs NODE_MODULES FILE…
//
// Each dashboard, the options of each panel and what it says of its fields become literals of their types, so that the
// compiler finds wrong types and values, missing members and members that Grafana does not know. Prints one line per
// violation and exits 1 if there is any. The queries' members are the data source's; the package has no types for them.

import { readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { faults } from "./typescript.mjs";

const modules = resolve(process.argv[2]);
const files = process.argv.slice(3);
const types = join(modules, "@grafana/schema/dist/types");
const KINDS = { bargauge: "bargauge", heatmap: "heatmap", stat: "stat", "state-timeline": "statetimeline", timeseries: "timeseries" };
// Kinds whose fields have settings of their own.
const WITH_FIELDS = ["heatmap", "state-timeline", "timeseries"];
// What the Prometheus data source adds to an annotation.
const OF_PROMETHEUS = ["titleFormat", "useValueForTime"];

// JSON has the values of enums, not their names.
const lines = [
  "type Plain<T> = T extends string ? `${T}` : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;",
  `import type { Dashboard } from ${JSON.stringify(join(types, "index"))};`,
  ...Object.entries(KINDS).map(([kind, folder]) => {
    return `import type * as ${folder} from ${JSON.stringify(join(types, "raw/composable", folder, "panelcfg/x/types.gen"))};`;
  }),
];
const places = [];
let violations = 0;
function report(place, text) {
  console.log(`${place}: ${text}`);
  violations += 1;
}
function literal(place, type, value) {
  places[lines.length] = place;
  lines.push(`export const v${lines.length}: Plain<${type}> = ${JSON.stringify(value)};`);
}

let panels = 0;
for (const file of files) {
  const dashboard = JSON.parse(readFileSync(file, "utf8"));
  for (const annotation of dashboard.annotations.list) {
    for (const member of OF_PROMETHEUS) delete annotation[member];
    annotation.target = { refId: annotation.target.refId };
  }
  literal(basename(file), "Dashboard", dashboard);
  for (const panel of dashboard.panels.filter(({ type }) => type !== "row")) {
    panels += 1;
    const place = `${basename(file)}, "${panel.title}"`;
    const kind = KINDS[panel.type];
    if (!kind) {
      report(place, `${panel.type} is no kind of panel that is checked here`);
      continue;
    }
    literal(`${place}, options`, `${kind}.Options`, panel.options);
    if (WITH_FIELDS.includes(panel.type)) literal(`${place}, fields`, `${kind}.FieldConfig`, panel.fieldConfig.defaults.custom ?? {});
  }
}

for (const { line, text } of faults(modules, lines.join("\n"), "Bundler")) {
  report(places[line] ?? "the types themselves", text);
}
console.log(`${files.length} dashboards with ${panels} panels checked, ${violations} violations`);
process.exit(violations || !panels ? 1 : 0);
