#!/usr/bin/env node
// An external target plugin in plain JavaScript: it publishes a one-line page and reads it back.
//
//   plugins: {external: {page: {command: [node, examples/plugins/page.mjs]}}}
//   applications: {notice: {plugin: page, options: {path: "/srv/{application}.html"}, ...}}
//
// One process serves one call. It speaks JSON lines on the descriptors named in
// MANENT_PROTOCOL_IN and MANENT_PROTOCOL_OUT; what it prints goes to the log of the deploy.

import fs from "node:fs";
import net from "node:net";
import readline from "node:readline";

const output = Number(process.env.MANENT_PROTOCOL_OUT);
const input = new net.Socket({ fd: Number(process.env.MANENT_PROTOCOL_IN), writable: false });

const say = (message) => fs.writeSync(output, JSON.stringify(message) + "\n");

const description = {
  type: "description",
  hooks: ["deploy", "rollback", "verify", "observe"],
  effects: "idempotent",
  templates: ["path", "text"],
  options: {
    type: "object",
    required: ["path"],
    additionalProperties: false,
    properties: {
      path: { type: "string", pattern: "^/" },
      text: { type: "string" },
    },
  },
};

// The version and the sequence that put it there: a late writer with a lower epoch is refused.
function published(path) {
  try {
    const [, epoch, version] = fs.readFileSync(path, "utf8").match(/^<!-- (\d+) (\S+) -->/);
    return { epoch: Number(epoch), version };
  } catch {
    return { epoch: 0, version: null };
  }
}

function publish({ options, version, epoch, idempotency_key: key }) {
  const found = published(options.path);
  if (found.epoch > epoch) {
    const message = `${options.path} was written under epoch ${found.epoch}, this is ${epoch}`;
    return { type: "error", code: "epoch_outdated", message, retryable: false };
  }
  const text = options.text ?? `Now at ${version}`;
  const fresh = `${options.path}.${process.pid}`;
  fs.writeFileSync(fresh, `<!-- ${epoch} ${version} -->\n<p>${text}</p>\n`);
  fs.renameSync(fresh, options.path); // whole or not at all, also when we are killed here
  console.log(`published ${version}, from ${found.version ?? "nothing"}, for ${key}`);
  return { type: "result", outputs: { bytes: fs.statSync(options.path).size } };
}

const hooks = {
  deploy: publish,
  rollback: publish,
  verify({ options, version }) {
    const found = published(options.path);
    if (found.version === version) return { type: "result" };
    const message = `${options.path} is at ${found.version}, not ${version}`;
    return { type: "error", code: "unhealthy", message, retryable: true };
  },
  observe({ options, version }) {
    const found = published(options.path);
    return {
      type: "result",
      outputs: { version: found.version, in_place: found.version === version },
    };
  },
};

function answer(message) {
  if (message.type === "describe") return description;
  if (message.type === "call") return hooks[message.hook](message.context);
  return null; // lease, cancel: nothing here takes long enough to care
}

readline.createInterface({ input }).on("line", (line) => {
  let said;
  try {
    said = answer(JSON.parse(line));
  } catch (error) {
    said = { type: "error", code: "page_failed", message: error.message, retryable: true };
  }
  if (said) {
    say(said);
    process.exit(0);
  }
});
