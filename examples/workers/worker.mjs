// An Andon worker in Node.js 18 or newer, without dependencies. The protocol: docs/worker-protocol.md
//
//   ANDON_URL=http://127.0.0.1:8640 [ANDON_TOKEN=…] node worker.mjs [QUEUE…]
//
// It keeps up to CONCURRENCY runs going, renews their leases, reports how they end, and on SIGTERM
// claims no more and finishes what it has; on a second one it gives its runs back.

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";

const url = (process.env.ANDON_URL ?? "http://127.0.0.1:8640").replace(/\/$/, "");
const queues = process.argv.length > 2 ? process.argv.slice(2) : ["default"];
const concurrency = Number(process.env.CONCURRENCY ?? 10);
const lease = Number(process.env.LEASE ?? 30); // seconds
const worker = `${hostname().replace(/[^A-Za-z0-9]/g, "-").slice(0, 40)}:${process.pid}`;

// What this worker can do: the task's name, and what to do with its arguments. Each gets a signal
// that says when to stop, and a function to tell progress with.
const handlers = {
  "words.count": async ({ text }) => text.split(/\s+/).filter(Boolean).length,
  "sleep": async ({ seconds }, { signal, progress }) => {
    for (let passed = 0; passed < seconds; passed += 0.05) {
      if (signal.aborted) throw signal.reason;
      progress(Math.floor((100 * passed) / seconds), "asleep");
      await new Promise((done) => setTimeout(done, 50));
    }
    return seconds;
  },
};

// --- the protocol ---

class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `HTTP ${status}`);
    this.status = status;
  }
}

async function post(path, body, token, timeout = 10, signal = undefined) {
  const reply = await fetch(url + path, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(token && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify(body),
    signal: signal ?? AbortSignal.timeout(timeout * 1000),
  });
  const answer = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Refused(reply.status, answer);
  return answer;
}

// A lost connection or a service that restarts is waited for: everything here may be repeated.
// `until` (ms) ends that, for what would be too late.
async function insist(call, until = Infinity) {
  for (let wait = 100; ; wait = Math.min(wait * 2, 5000)) {
    try {
      return await call();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      const lasting = error instanceof Refused && error.status < 500 && error.status !== 429;
      if (lasting || Date.now() + wait > until) throw error;
    }
    await new Promise((done) => setTimeout(done, wait * (0.5 + Math.random() / 2)));
  }
}

const inHand = new Map(); // run token to what is running
let stopping = false;
const stopped = new AbortController();
let freed = () => {};

async function claim() {
  const body = {
    worker,
    queues,
    lease,
    types: Object.keys(handlers), // what there is no handler for waits for another worker
    limit: concurrency - inHand.size,
    wait: 20,
    token: randomUUID(), // the same claim again gives the same runs
  };
  // After half a lease what a lost reply granted is nearly over, so that a new claim is better.
  const call = () => post("/api/v1/runs/claim", body, process.env.ANDON_TOKEN, 30, stopped.signal);
  try {
    return (await insist(call, Date.now() + (20 + lease / 2) * 1000)).runs;
  } catch (error) {
    if (!stopping) throw error;
  }
  // Told to stop in the middle of a claim: ask what it granted, without waiting, and give it back.
  const again = { ...body, wait: 0 };
  const { runs } = await insist(() => post("/api/v1/runs/claim", again, process.env.ANDON_TOKEN));
  const reports = runs.map(({ token }) => ({ token, outcome: "released" }));
  if (runs.length > 0) await insist(() => post("/api/v1/runs/report", { reports }, runs[0].token));
  return [];
}

async function conduct(run) {
  const path = `/api/v1/runs/${run.task_id}/${run.run}`;
  const stop = new AbortController();
  const state = { run, stop, told: null };
  inHand.set(run.token, state);
  const renew = async () => {
    const percent = state.percent;
    const sign = { lease, ...(percent !== undefined && { progress: percent, message: state.said }) };
    try {
      const { verdict } = await post(`${path}/renew`, sign, run.token, lease / 3);
      if (verdict === "cancel") tell(state, "cancelled");
    } catch (error) {
      if (error.status === 409 || error.status === 401) tell(state, "lost");
    }
  };
  const renewals = setInterval(renew, (lease * 1000) / 3);
  const timer = run.timeout && setTimeout(() => tell(state, "timeout"), run.timeout * 1000);
  const report = await perform(run, state);
  clearTimeout(timer);
  try {
    if (state.told !== "lost") {
      await insist(() => post(`${path}/report`, report, run.token));
    }
  } catch (error) {
    console.error(`run ${run.run} of ${run.task_id} was not taken: ${error.message}`);
  } finally {
    clearInterval(renewals);
    inHand.delete(run.token);
    freed();
  }
}

function tell(state, why) {
  state.told ??= why;
  state.stop.abort(new Error(why));
}

async function perform(run, state) {
  const handler = Object.hasOwn(handlers, run.name) ? handlers[run.name] : undefined;
  if (handler === undefined) return { outcome: "exception", reason: "unknown-task" };
  const progress = (percent, said = "") => Object.assign(state, { percent, said });
  try {
    const result = await handler(run.args, { signal: state.stop.signal, progress });
    return { outcome: "completed", result: result ?? null };
  } catch (error) {
    if (state.told === "cancelled") return { outcome: "exception", reason: "cancelled" };
    if (state.told === "shutdown") return { outcome: "exception", reason: "worker-shutdown" };
    const kind = state.told === "timeout" ? "timeout" : "error";
    const { message, name, stack } = error;
    const code = kind === "timeout" ? "TIMEOUT" : (error.code ?? name);
    return { outcome: "failed", kind, error: { message, type: name, code, traceback: stack } };
  }
}

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    if (stopping) for (const state of inHand.values()) tell(state, "shutdown");
    else console.log("claims no more and finishes what it has");
    stopping = true;
    stopped.abort();
    freed();
  });
}

console.log(`worker ${worker} claims from ${queues.join(", ")}`);
while (!stopping) {
  if (inHand.size >= concurrency) {
    await new Promise((done) => (freed = done));
    continue;
  }
  try {
    for (const run of await claim()) conduct(run);
  } catch (error) {
    console.error(`a claim failed: ${error.message}`);
    await new Promise((done) => setTimeout(done, 1000));
  }
}
while (inHand.size > 0) await new Promise((done) => (freed = done));
process.exit(0);
