// What the TypeScript compiler says of a program that is not on the disk.

import { createRequire } from "node:module";
import { join } from "node:path";

// Each fault as { line, text }; the line counts from 0 and is absent where the fault is not in `source` itself.
// `imports` says how modules are found: as the package's own description has it, or as files without endings are.
export function faults(modules, source, imports = "NodeNext") {
  const ts = createRequire(join(modules, "check.js"))("typescript");
  const name = join(modules, "offhook-checked.mts");
  const options = {
    strict: true,
    noEmit: true,
    module: imports === "NodeNext" ? ts.ModuleKind.NodeNext : ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind[imports],
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists, readFile } = host;
  host.getSourceFile = (file, ...rest) =>
    file === name ? ts.createSourceFile(file, source, ts.ScriptTarget.Latest) : getSourceFile(file, ...rest);
  host.fileExists = (file) => file === name || fileExists(file);
  host.readFile = (file) => (file === name ? source : readFile(file));
  return ts.getPreEmitDiagnostics(ts.createProgram([name], options, host)).map((found) => ({
    line: found.file?.fileName === name ? found.file.getLineAndCharacterOfPosition(found.start).line : undefined,
    text: ts.flattenDiagnosticMessageText(found.messageText, " "),
  }));
}
