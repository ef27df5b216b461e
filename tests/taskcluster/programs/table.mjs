// Make the calls of a table by the JavaScript client; run where it is installed.
// In and out are as in table.py.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const require = createRequire(`${process.env.CLIENT_FOLDER}/`);
const taskcluster = require('taskcluster-client').default;

const PATIENCE_MS = 60000;
const given = JSON.parse(readFileSync(0, 'utf8'));

const client = (credentials) =>
  new taskcluster.Queue({
    rootUrl: given.rootUrl,
    retries: 0,
    ...(credentials ? { credentials } : {}),
  });

const clients = { '': client(given.credentials), run: null };
const methods = [];
for (const name in clients['']) {
  if (clients[''][name]?.entryReference?.type === 'function') {
    methods.push(name);
  }
}

const answers = [];
for (const call of given.calls) {
  const queue = clients[call.as];
  if (typeof queue[call.method] !== 'function') {
    answers.push(null);
    continue;
  }
  const more = Object.keys(call.query).length ? [call.query] : [];
  try {
    const deadline = Date.now() + PATIENCE_MS;
    let answer = await queue[call.method](...call.arguments, ...more);
    while (call.until && answer.status.state !== call.until && Date.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      answer = await queue[call.method](...call.arguments, ...more);
    }
    const claimed = answer?.tasks?.[0] ?? answer;
    if (claimed?.takenUntil) {
      clients.run = client(claimed.credentials);
    }
    answers.push({ answer: answer ?? null });
  } catch (error) {
    answers.push({ error: [error.statusCode, error.body] });
  }
}
process.stdout.write(JSON.stringify({ methods, answers }));
