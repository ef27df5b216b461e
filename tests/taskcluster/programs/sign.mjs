// Send requests by the JavaScript client, signed in every way it can; run where it is installed.
// In: {"rootUrl", "clientId", "accessToken", "taskId", "seconds"}. Out: the names of what was sent.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const require = createRequire(`${process.env.CLIENT_FOLDER}/`);
const taskcluster = require('taskcluster-client').default;

const given = JSON.parse(readFileSync(0, 'utf8'));
const own = { clientId: given.clientId, accessToken: given.accessToken };
const scopes = ['queue:get-task:*', 'queue:create-task:lowest:a b/c', 'assume:worker'];
const sent = [];

const temporary = (clientId) =>
  taskcluster.createTemporaryCredentials({
    ...(clientId ? { clientId } : {}),
    start: new Date(),
    expiry: new Date(Date.now() + given.seconds * 1000),
    scopes,
    credentials: own,
  });

const ways = {
  own: { credentials: own },
  restricted: { credentials: own, authorizedScopes: ['queue:get-task:*'] },
  temporary: { credentials: temporary() },
  named: { credentials: temporary('somebody/else') },
};

for (const [way, options] of Object.entries(ways)) {
  const queue = new taskcluster.Queue({ rootUrl: given.rootUrl, retries: 0, ...options });
  await queue.task(given.taskId);
  await queue.createTask(given.taskId, { metadata: { name: 'π' } });
  await queue.listTaskGroup('a/b c', { limit: 3 });
  sent.push(`js ${way} get`, `js ${way} put`, `js ${way} query`);
  const url = queue.buildSignedUrl(queue.getLatestArtifact, given.taskId, 'public/a b.txt');
  await (await fetch(url)).arrayBuffer();
  sent.push(`js ${way} bewit`);
}
process.stdout.write(JSON.stringify(sent));
