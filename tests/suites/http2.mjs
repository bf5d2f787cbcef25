// h2spec against the HTTP/2 of the agent (accelerated hosts) and of the proxy for clients without an agent, and against Go's
// standard library as a control: `node http2.mjs PROGRAMS TOOLS`, with a folder of the programs h2spec and h2control. A check
// that the control passes must pass at both.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { certificates, start, tunnel, until } from './programs.mjs';

const [programs, tools] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'longhaul-suite-h2-'));
const files = certificates(folder, ['fast.test', 'proxy.test', 'localhost']);
const control = spawn(path.join(tools, 'h2control'), [files.certificate, files.key], { stdio: ['ignore', 'pipe', 'inherit'] });
let said = '';
control.stdout.on('data', (data) => { said += data; });
const port = await until('the control', () => Number(said.match(/^(\d+)\n/)?.[1]));
const longhaul = await start({ programs, names: { 'fast.test:443': port }, accelerate: 'fast.test', tls: files });

// h2spec knows no proxy: each of its connections becomes a tunnel to the accelerated host.
const forwarder = net.createServer(async (socket) => {
  socket.on('error', () => {});
  try {
    const through = await tunnel(longhaul.agent, 'fast.test:443');
    through.on('error', () => socket.destroy());
    through.once('close', () => socket.destroy());
    socket.once('close', () => through.destroy());
    socket.pipe(through).pipe(socket);
  } catch {
    socket.destroy();
  }
});
await once(forwarder.listen(0, '127.0.0.1'), 'listening');

// A client that does not name the host gets a tunnel, so h2spec needs its name, by a hosts file of its own.
const hosts = path.join(folder, 'hosts');
fs.writeFileSync(hosts, '127.0.0.1 fast.test\n');
const withHosts = ['--mount', 'sh', '-c', 'mount --bind "$0" /etc/hosts && exec "$@"', hosts];

// The failed checks of a run, by section, and the number of all.
async function run(to, ...sections) {
  const report = path.join(folder, `${to}.xml`);
  const words = ['-h', 'fast.test', '-p', String(to), '-t', '-k', '-o', '5', '-j', report, ...sections];
  const command = [...withHosts, path.join(tools, 'h2spec'), ...words];
  const { stdout } = await promisify(execFile)('unshare', command, { maxBuffer: 64 << 20 }).catch((error) => error);
  const numbers = stdout.match(/(\d+) tests, \d+ passed, \d+ skipped, \d+ failed/);
  if (!numbers) throw new Error(`h2spec: ${stdout.slice(-500)}`);
  const failures = new Map();
  for (const [, head, rest] of fs.readFileSync(report, 'utf8').matchAll(/<testcase ([^>]*)>([\s\S]*?)<\/testcase>/g)) {
    const of = (name) => head.match(new RegExp(`${name}="([^"]*)"`))?.[1];
    if (/<(failure|error)/.test(rest)) failures.set(`${of('package')}: ${of('classname')}`, of('package'));
  }
  return { all: Number(numbers[1]), failures };
}

// The checks of an end that fail each time. Some send frames on a stream whose response may have ended before: then the end
// may ignore them.
async function check(to) {
  const { all, failures } = await run(to);
  for (let repeats = 0; repeats < 5 && failures.size > 0; repeats += 1) {
    for (const section of new Set(failures.values())) {
      const again = (await run(to, section)).failures;
      for (const name of [...failures.keys()]) if (failures.get(name) === section && !again.has(name)) failures.delete(name);
    }
  }
  return { all, passed: all - failures.size, failures: [...failures.keys()] };
}

let worse = 0;
try {
  const table = [];
  let known = [];
  for (const [name, to] of [['control (Go)', port], ['agent, accelerated https', forwarder.address().port], ['clientless', longhaul.clientlessTls]]) {
    const { all, passed, failures } = await check(to);
    table.push(`${name.padEnd(28)}${passed} of ${all}`);
    if (name.startsWith('control')) known = failures;
    for (const failure of failures) {
      const also = known.includes(failure);
      if (!also) worse += 1;
      if (to !== port) console.log(`${name}: ${failure}${also ? ' (the control too)' : ''}`);
    }
  }
  console.log('h2spec: passed checks of RFC 9113 and RFC 7541');
  for (const line of table) console.log(line);
} finally {
  longhaul.stop();
  forwarder.close();
  control.kill();
  fs.rmSync(folder, { recursive: true, force: true });
}
process.exit(worse > 0 ? 1 : 0);
