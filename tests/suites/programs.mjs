// A gateway and an agent on free ports of this machine, with origins of the test behind them.
import { execFileSync, spawn } from 'node:child_process';
import dgram from 'node:dgram';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

const LIMIT = 60_000;

export async function until(what, look) {
  const end = Date.now() + LIMIT;
  for (;;) {
    const found = await Promise.resolve().then(look).catch(() => null);
    if (found) return found;
    if (Date.now() > end) throw new Error(`timeout: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function freeUdpPort() {
  const socket = dgram.createSocket('udp4').bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const { port } = socket.address();
  socket.close();
  return port;
}

const openssl = (...words) => execFileSync('openssl', words, { stdio: ['ignore', 'ignore', 'ignore'] });

// A certificate authority and a certificate of it for these names.
export function certificates(folder, names) {
  const at = (name) => path.join(folder, name);
  openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
    '-subj', '/CN=suite authority', '-keyout', at('ca.key'), '-out', at('ca.pem'));
  openssl('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
    '-subj', `/CN=${names[0]}`, '-keyout', at('leaf.key'), '-out', at('leaf.csr'));
  fs.writeFileSync(at('leaf.ext'), `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}\n`);
  openssl('x509', '-req', '-in', at('leaf.csr'), '-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial',
    '-days', '2', '-extfile', at('leaf.ext'), '-out', at('leaf.pem'));
  return { ca: at('ca.pem'), certificate: at('leaf.pem'), key: at('leaf.key') };
}

// Starts both programs of the folder `programs`. `names` says which port of this machine is behind each `host` or
// `host:port`; `accelerate` names the accelerated hosts; `tls` are certificates of the origins and of the clientless proxy.
export async function start({ programs, names, accelerate = '', tls }) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'longhaul-suite-'));
  const children = [];
  const run = (name, words) => {
    const child = spawn(path.join(programs, name), words, { stdio: ['ignore', 'pipe', 'pipe'] });
    child.log = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data) => {
        child.log += data;
        fs.appendFileSync(path.join(folder, `${name}.log`), data);
      });
    }
    children.push(child);
    return child;
  };
  const state = path.join(folder, 'gateway');
  const operate = (...words) => execFileSync(path.join(programs, 'longhaul-gateway'), [...words, '--state-dir', state],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  const ports = [...new Set(Object.values(names))].map((port) => `"${port}"`).join(', ');
  const secure = tls ? `tls = "127.0.0.1:0"\ncertificate = "${tls.certificate}"\nkey = "${tls.key}"\n` : '';
  const config = path.join(folder, 'gateway.toml');
  fs.writeFileSync(config, `[clientless]
listen = "127.0.0.1:0"
${secure}allow = ["127.0.0.0/8"]
ports = ["80", "443", ${ports}]
[guard]
allow = ["127.0.0.0/8"]
[fetch]
${tls ? `extra-ca = ["${tls.ca}"]` : ''}
[fetch.resolve]
${Object.entries(names).map(([name, port]) => `"${name}" = "127.0.0.1:${port}"`).join('\n')}
`);
  const address = `127.0.0.1:${await freeUdpPort()}`;
  const invite = operate('invite', '--name', 'suite', '--address', address);
  const password = operate('client', 'add', 'suite');
  const gateway = run('longhaul-gateway', ['run', '--listen', address, '--config', config, '--state-dir', state]);
  const port = (pattern) => until(`a line of the gateway with ${pattern}`, () => Number(gateway.log.match(pattern)?.[1]));
  const clientless = await port(/HTTP proxy [^i].*?127\.0\.0\.1:(\d+)/);
  const clientlessTls = tls ? await port(/inside TLS.*?127\.0\.0\.1:(\d+)/) : null;
  const words = ['run', '--listen', '127.0.0.1:0', '--control', '127.0.0.1:0', '--invite', invite, '--state-dir',
    path.join(folder, 'agent'), '--fallback-after', 'never'];
  if (accelerate) words.push('--https-accelerate', accelerate);
  run('longhaul-agent', words);
  const about = await until('the agent', () => JSON.parse(fs.readFileSync(path.join(folder, 'agent/agent.json'), 'utf8')));
  const status = () => new Promise((resolve, reject) => {
    http.get(`http://${about.control}/status.json`, async (response) => {
      let text = '';
      for await (const part of response) text += part;
      resolve(JSON.parse(text));
    }).once('error', reject);
  });
  await until('the session', async () => (await status()).state === 'open');
  const stop = () => {
    for (const child of children) child.kill();
    if (process.env.LONGHAUL_SUITES_KEEP) console.log(`logs: ${folder}`);
    else fs.rmSync(folder, { recursive: true, force: true });
  };
  return {
    agent: Number(about.proxy.split(':').pop()),
    clientless,
    clientlessTls,
    authorization: `Basic ${Buffer.from(`suite:${password}`).toString('base64')}`,
    status,
    folder,
    stop,
  };
}

// A tunnel of an HTTP proxy to `host:port`: a socket on which nothing has been sent.
export async function tunnel(proxy, target, fields = '') {
  const socket = net.connect(proxy, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${fields}\r\n`);
  let head = '';
  while (!head.endsWith('\r\n\r\n')) {
    const byte = socket.read(1);
    if (byte === null) await once(socket, 'readable');
    else head += byte.toString('latin1');
  }
  if (!head.startsWith('HTTP/1.1 200')) throw new Error(`CONNECT ${target}: ${head.split('\r\n')[0]}`);
  return socket;
}
