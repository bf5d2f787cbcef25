// The public tests of HTTP caches (npm package http-cache-tests) through the agent, the proxy for clients without an agent
// with and without a name, and Squid if it is installed: `node cache_tests.mjs PROGRAMS [END…]`.
//
// The suite's request fields `Test-ID`, `Test-Name` and `Req-Num` differ in each request. Longhaul takes unknown fields for
// credentials, and answers such requests from no shared or credentialed response. The origin here gets these fields beside
// the proxy, and a `Referer` says which site asks, as browsers do. `CACHE_TESTS=DIR` takes another copy of the suite.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { start, until } from './programs.mjs';

const [programs, ...wanted] = process.argv.slice(2);
const suite = path.resolve(process.env.CACHE_TESTS ?? 'node_modules/http-cache-tests');
const engine = fs.existsSync(path.join(suite, 'test-engine')) ? path.join(suite, 'test-engine') : suite;
const HOST = 'cache.test';
const verbose = Boolean(process.env.LONGHAUL_SUITES_VERBOSE);
const BESIDE = ['test-id', 'test-name', 'req-num'];
// Fields that keep a browser's `fetch` from adding its own; no browser sends them.
const HACKS = ['Pragma: foo', 'Cache-Control: nothing-to-see-here'];

const [{ default: tests }, config, testOf, handleConfig, handleState, handleTest] = await Promise.all([
  import(`${suite}/tests/index.mjs`),
  import(`${engine}/client/config.mjs`),
  import(`${engine}/client/test.mjs`),
  import(`${engine}/server/handle-config.mjs`),
  import(`${engine}/server/handle-state.mjs`),
  import(`${engine}/server/handle-test.mjs`),
]);
// The suite's server says each 409 there.
if (!verbose) console.log = () => {};
const say = (line) => process.stdout.write(`${line}\n`);

// The origin. `beside` are the fields of the newest request of each test.
const beside = new Map();
const origin = http.createServer((request, response) => {
  const [kind, id, ...rest] = new URL(request.url, 'http://x').pathname.split('/').slice(1);
  const handle = { config: handleConfig, state: handleState, test: handleTest }[kind];
  if (!handle) return response.writeHead(404).end();
  Object.assign(request.headers, beside.get(id));
  handle.default([id, ...rest], request, response);
});
origin.keepAliveTimeout = 60_000;
await once(origin.listen(0, '127.0.0.1'), 'listening');
const { port } = origin.address();

// The origin of each test, so that what a response does to its origin (`Clear-Site-Data`) concerns one test.
const hosts = Array.from({ length: 1024 }, (_, number) => `t${number}.${HOST}`);
const hostOf = new Map();
function host(id) {
  if (!hostOf.has(id)) hostOf.set(id, hosts[hostOf.size % hosts.length]);
  return hostOf.get(id);
}

// A `fetch` of the suite: its test requests go through `via`, its own ones directly.
function fetchVia(via) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  return (url, options = {}) => new Promise((resolve, reject) => {
    const target = new URL(url);
    const id = target.pathname.split('/')[2];
    target.hostname = host(id);
    const isTest = target.pathname.startsWith('/test/');
    const fields = (options.headers ?? []).filter(([name, value]) => !HACKS.includes(`${name}: ${value}`));
    const sent = isTest ? fields.filter(([name]) => !BESIDE.includes(name.toLowerCase())) : fields;
    if (isTest) beside.set(id, Object.fromEntries(fields.filter((field) => !sent.includes(field)).map(([name, value]) => [name.toLowerCase(), value])));
    const through = isTest && via.port;
    if (isTest && !sent.some(([name]) => name.toLowerCase() === 'referer')) sent.push(['Referer', `http://${target.hostname}/`]);
    if (through && via.authorization) sent.push(['Proxy-Authorization', via.authorization]);
    const body = options.body;
    if (body !== undefined) sent.push(['Content-Length', String(Buffer.byteLength(body))]);
    const request = http.request({
      agent,
      host: '127.0.0.1',
      port: through || port,
      path: through ? target.href : target.pathname + target.search,
      method: options.method ?? 'GET',
      headers: [...sent, ['Host', target.host]].flat(),
      setHost: false,
    }, async (response) => {
      const pieces = [];
      try {
        for await (const piece of response) pieces.push(piece);
      } catch (error) {
        return reject(error);
      }
      const headers = new Headers();
      for (let at = 0; at < response.rawHeaders.length; at += 2) {
        headers.append(response.rawHeaders[at], response.rawHeaders[at + 1]);
      }
      resolve({ status: response.statusCode, headers, text: async () => Buffer.concat(pieces).toString('latin1') });
    });
    request.setTimeout(30_000, () => request.destroy(new Error('no answer')));
    request.once('error', reject);
    request.end(body);
  });
}

// Runs all tests that concern caches behind a client; returns the results by id.
async function runVia(via) {
  // One edition of the suite takes the function, another one the global.
  globalThis.fetch = fetchVia(via);
  config.setFetch?.(globalThis.fetch);
  config.setBaseUrl(`http://${HOST}`);
  const all = tests.flatMap((group) => group.tests).filter((test) => !test.browser_only && !test.cdn_only);
  const only = process.env.CACHE_TEST ? all.filter((test) => test.id === process.env.CACHE_TEST) : all;
  for (const id of Object.keys(testOf.testResults)) delete testOf.testResults[id];
  if (process.env.CACHE_TEST) only.forEach((test) => { test.dump = true; });
  for (let at = 0; at < only.length; at += 24) {
    await Promise.all(only.slice(at, at + 24).map((test) => (testOf.makeTest ?? testOf.makeCacheTest)(structuredClone(test))));
  }
  return only.map((test) => ({ id: test.id, name: test.name, kind: test.kind ?? 'required', needs: test.depends_on ?? [], result: testOf.testResults[test.id] }));
}

// What the results say: a test whose preparation failed, or one that depends on a failed one, says nothing.
function verdicts(results) {
  const of = new Map(results.map((one) => [one.id, one]));
  const verdict = ({ result, needs }) => {
    if (needs.some((id) => of.has(id) && verdict(of.get(id)) !== 'pass')) return 'depends';
    if (result === true) return 'pass';
    return /setup/i.test(result[0]) ? 'setup' : 'fail';
  };
  return new Map(results.map((one) => [one.id, verdict(one)]));
}

async function squid() {
  const program = ['/usr/sbin/squid', '/usr/bin/squid'].find((name) => fs.existsSync(name));
  if (!program) return null;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'longhaul-suite-squid-'));
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const proxyPort = server.address().port;
  await new Promise((resolve) => server.close(resolve));
  fs.writeFileSync(path.join(folder, 'hosts'), hosts.map((name) => `127.0.0.1 ${name}\n`).join(''));
  const file = path.join(folder, 'squid.conf');
  fs.writeFileSync(file, `http_port 127.0.0.1:${proxyPort}
pid_filename none
access_log none
cache_log ${folder}/cache.log
cache_store_log none
cache_mem 64 MB
coredump_dir ${folder}
hosts_file ${folder}/hosts
http_access allow all
cache_peer 127.0.0.1 parent ${port} 0 no-query originserver
never_direct allow all
shutdown_lifetime 0 seconds
`);
  fs.chmodSync(folder, 0o777);
  const child = spawn(program, ['-N', '-f', file], { stdio: 'ignore' });
  await until('Squid', () => new Promise((resolve) => {
    const probe = net.connect(proxyPort, '127.0.0.1', () => { probe.destroy(); resolve(true); });
    probe.once('error', () => resolve(false));
  }));
  return { port: proxyPort, stop: () => { child.kill('SIGKILL'); fs.rmSync(folder, { recursive: true, force: true }); } };
}

const longhaul = await start({ programs, names: Object.fromEntries(hosts.map((name) => [name, port])) });
const ends = {
  agent: () => ({ port: longhaul.agent }),
  'clientless-named': () => ({ port: longhaul.clientless, authorization: longhaul.authorization }),
  clientless: () => ({ port: longhaul.clientless }),
  squid,
  'no-cache': () => ({}),
};
const table = [];
const details = {};
try {
  for (const [name, open] of Object.entries(ends)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    const via = await open();
    if (!via) {
      say(`SKIPPED ${name}: not installed`);
      continue;
    }
    const results = await runVia(via);
    via.stop?.();
    const verdict = verdicts(results);
    const count = (kind, what) => results.filter((one) => one.kind === kind && verdict.get(one.id) === what).length;
    const all = (kind) => results.filter((one) => one.kind === kind).length;
    table.push([name, ...['required', 'optimal'].map((kind) => `${count(kind, 'pass')} of ${all(kind)}`)]);
    details[name] = Object.fromEntries(results.map((one) => [one.id, { kind: one.kind, verdict: verdict.get(one.id), why: one.result === true ? '' : one.result[1], name: one.name }]));
  }
} finally {
  longhaul.stop();
  origin.close();
  origin.closeAllConnections();
}
if (process.env.LONGHAUL_SUITES_DETAILS) fs.writeFileSync(process.env.LONGHAUL_SUITES_DETAILS, JSON.stringify(details, null, 1));
const { version } = JSON.parse(fs.readFileSync(path.join(suite, 'package.json'), 'utf8'));
say(`HTTP cache tests ${version}: passed`);
say(`${'end'.padEnd(18)}${'required'.padEnd(14)}optimal`);
for (const [name, required, optimal] of table) say(`${name.padEnd(18)}${required.padEnd(14)}${optimal}`);
process.exit(0);
