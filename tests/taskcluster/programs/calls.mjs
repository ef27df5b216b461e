// Call every route of the queue by the JavaScript client; run where it is installed.
// In: {"rootUrl", "credentials" (or null), "ids", "queue", "times"}. Out: what each step was answered.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const require = createRequire(`${process.env.CLIENT_FOLDER}/`);
const taskcluster = require('taskcluster-client').default;

const given = JSON.parse(readFileSync(0, 'utf8'));
const [A, B, C, GROUP, UNKNOWN] = given.ids;
const QUEUE = given.queue;
const worker = { workerGroup: 'group', workerId: 'w-1' };
const said = {};

const client = (credentials) =>
  new taskcluster.Queue({
    rootUrl: given.rootUrl,
    retries: 0,
    ...(credentials ? { credentials } : {}),
  });

const definition = (fields = {}) => ({
  taskQueueId: QUEUE,
  schedulerId: 'sched',
  taskGroupId: GROUP,
  ...given.times,
  payload: { text: 'π', list: [1, null] },
  metadata: { name: 'n', description: 'd', owner: 'o', source: 'https://x' },
  ...fields,
});

const fails = async (calling) => {
  try {
    await calling;
  } catch (error) {
    return [error.statusCode, error.body?.code, error.body?.requestInfo?.method];
  }
  return null;
};

const pages = async (rows, ask) => {
  const found = [];
  const sizes = [];
  let continuationToken;
  do {
    const page = await ask({ limit: 2, ...(continuationToken ? { continuationToken } : {}) });
    found.push(...page[rows]);
    sizes.push(page[rows].length);
    continuationToken = page.continuationToken;
  } while (continuationToken);
  return [found, sizes];
};

const queue = client(given.credentials);
said.ping = await queue.ping();
const created = await queue.createTask(A, definition());
said.created = created.status.state;
said.again = JSON.stringify(await queue.createTask(A, definition())) === JSON.stringify(created);
said.other = await fails(queue.createTask(A, definition({ retries: 1 })));
said.malformed = await fails(queue.createTask(B, definition({ priority: 'normal' })));
said.wrong = await fails(queue.createTask(B, definition({ provisionerId: 'other' })));
said.task = await queue.task(A);
said['not found'] = await fails(queue.status(UNKNOWN));
await queue.createTask(B, definition({ dependencies: [B] }));
await queue.createTask(C, definition({ dependencies: [A], priority: 'very-high' }));
said.blocked = (await queue.status(B)).status.state;
const [group, sizes] = await pages('tasks', (query) => queue.listTaskGroup(GROUP, query));
said.group = group.map((row) => row.status.taskId);
said['listTaskGroup pages'] = sizes;
said.pending = (await queue.pendingTasks(QUEUE)).pendingTasks;
const [claim] = (await queue.claimWork(QUEUE, { ...worker, tasks: 4 })).tasks;
said.claimed = [claim.status.taskId, claim.runId, claim.task.payload];
const again = await client(claim.credentials).reclaimTask(A, 0);
said.reclaimed = again.takenUntil >= claim.takenUntil;
const run = client(again.credentials);
said.completed = (await run.reportCompleted(A, 0)).status.state;
said['completed again'] = (await run.reportCompleted(A, 0)).status.state;
said['then failed'] = await fails(run.reportFailed(A, 0));
const [next] = (await queue.claimWork(QUEUE, worker)).tasks;
said.dependent = next.status.taskId;
const other = client(next.credentials);
const retried = (await other.reportException(C, 0, { reason: 'intermittent-task' })).status;
said.retried = [retried.state, retried.retriesLeft, retried.runs.length];
said['other exception'] = await fails(other.reportException(C, 0, { reason: 'internal-error' }));
said.cancelled = (await queue.cancelTask(C)).status.state;
said.rerun = (await queue.rerunTask(C)).status.state;
said.scheduled = (await queue.scheduleTask(B)).status.state;
said.empty = await queue.claimWork('nobody/home', worker);

const of = QUEUE.split('/');
const one = [...of, worker.workerGroup, worker.workerId];
const later = given.times.deadline;
said.recent = (await queue.getWorker(...one)).recentTasks;
said.declared = await queue.declareWorker(...one.slice(0, 3), 'w-2', { expires: later });
[said.listed, said['listWorkers pages']] = await pages('workers', (query) =>
  queue.listWorkers(...of, query),
);
const body = { quarantineUntil: later, quarantineInfo: 'odd' };
const held = await queue.quarantineWorker(...one, body);
said.quarantined = [held.quarantineUntil, held.quarantineDetails[0].quarantineInfo];
said['in quarantine'] = await queue.listWorkers(...of, { quarantined: true });
said.free = await queue.listWorkers(...of, { quarantined: false });
said['no worker'] = await fails(queue.getWorker(...one.slice(0, 3), 'nobody'));
said['no quarantine'] = await fails(queue.quarantineWorker(...one.slice(0, 3), 'nobody', body));
said.nothing = await queue.claimWork(QUEUE, worker);
said.queue = await queue.getTaskQueue(QUEUE);
[said.queues] = await pages('taskQueues', (query) => queue.listTaskQueues(query));
said.provisioner = await queue.getProvisioner(of[0]);
[said.provisioners] = await pages('provisioners', (query) => queue.listProvisioners(query));
said['worker type'] = await queue.getWorkerType(...of);
[said['worker types']] = await pages('workerTypes', (query) =>
  queue.listWorkerTypes(of[0], query),
);
process.stdout.write(JSON.stringify(said));
