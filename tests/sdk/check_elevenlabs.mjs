// Checks client messages of ElevenLabs Agents, one JSON object per line on standard input, against the
// types of the vendor's own package: check_elevenlabs.mjs NODE_MODULES [--server]; then the lines are messages of the server.
//
// Each message becomes a literal of its type, so that the compiler finds wrong types, missing members and
// members that the type does not have. Prints one line per violation and exits 1 if there is any.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { faults } from "./typescript.mjs";

const modules = resolve(process.argv[2]);
const SERVER_TYPES = {
  agent_response: "AgentResponse",
  audio: "Audio",
  client_tool_call: "ClientToolCallMessage",
  conversation_initiation_metadata: "ConversationMetadata",
  error: "ErrorMessage",
  interruption: "Interruption",
  ping: "Ping",
  user_transcript: "UserTranscript",
  vad_score: "VadScore",
};
const CLIENT_TYPES = {
  client_tool_result: "ClientToolResult",
  contextual_update: "ContextualUpdate",
  conversation_initiation_client_data: "ConversationInitiation",
  pong: "Pong",
  user_message: "UserMessage",
};

const TYPES = process.argv[3] === "--server" ? SERVER_TYPES : CLIENT_TYPES;

const messages = readFileSync(0, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
let violations = 0;
function report(number, problem) {
  console.log(`message ${number + 1} (${messages[number].type ?? "user_audio_chunk"}) ${problem}`);
  violations += 1;
}

// One message per line of the program, behind one line of imports.
const types = [...Object.values(TYPES), "UserAudio"];
const vendor = join(modules, "@elevenlabs/types/dist/generated/types/asyncapi-types.js");
const lines = messages.map((message, number) => {
  // The one message without a type.
  const type = "type" in message ? TYPES[message.type] : "UserAudio";
  if (!type) {
    report(number, "$.type: is no message of this side");
    return "";
  }
  return `export const m${number}: ${type} = ${JSON.stringify(message)};`;
});
const source = [`import type { ${types.join(", ")} } from ${JSON.stringify(vendor)};`, ...lines].join("\n");

for (const { line, text } of faults(modules, source)) {
  if (line > 0) {
    report(line - 1, text);
  } else {
    console.log(`the types themselves: ${text}`);
    violations += 1;
  }
}
console.log(`${messages.length} messages checked, ${violations} violations`);
process.exit(violations || !messages.length ? 1 : 0);
