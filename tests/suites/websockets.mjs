// WebSockets through every path, compared with the same exchange without Longhaul: `node websockets.mjs PROGRAMS [PATH…]`.
// Behind a proxy, programs open a tunnel for a WebSocket, also without TLS. The cases are those that matter of RFC 6455 and
// RFC 7692: framing, fragmentation, control frames, UTF-8, closing, compression, and connections that end early. Client and
// server are the npm package ws; frames that it does not send are written by hand.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import tls from 'node:tls';
import WebSocket, { Sender, WebSocketServer } from 'ws';
import { certificates, start, tunnel } from './programs.mjs';

const [programs, ...wanted] = process.argv.slice(2);
const only = process.env.WEBSOCKET_CASE;
const LIMIT = 30_000;
const SLOW = process.env.LONGHAUL_SUITES_VERBOSE;
const hash = (data) => createHash('sha256').update(data).digest('hex').slice(0, 12);
const bytes = (length, seed = 1) => {
  const data = Buffer.alloc(length);
  let state = seed;
  for (let at = 0; at < length; at += 1) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    data[at] = state >>> 16;
  }
  return data;
};
const text = (length) => 'Ein längerer Text, ☃ und 🚢. '.repeat(Math.ceil(length / 28)).slice(0, length);

// ---- the server ----

const sockets = new WebSocketServer({
  noServer: true,
  maxPayload: 64 << 20,
  perMessageDeflate: { threshold: 0 },
  handleProtocols: (offered) => [...offered][1] ?? [...offered][0],
});

function serve(socket, url) {
  socket.on('error', () => {});
  const number = (name) => Number(url.searchParams.get(name) ?? 0);
  if (url.pathname === '/echo') {
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary, compress: url.searchParams.has('deflate') }));
  } else if (url.pathname === '/greet') {
    socket.send('hello');
    socket.on('message', (data) => socket.send(data));
  } else if (url.pathname === '/burst') {
    for (let sent = 0; sent < number('count'); sent += 1) socket.send(bytes(number('size'), sent + 1), { compress: false });
    if (url.searchParams.get('end') === 'close') socket.close(number('code'), 'done');
    else socket._socket.end();
  } else if (url.pathname === '/late') {
    // Answers after the client has said that it closes its side: all of it still arrives.
    socket.on('message', (data) => {
      for (let sent = 0; sent < number('count'); sent += 1) socket.send(bytes(number('size'), sent + 1), { compress: false });
      socket.send(data);
    });
  } else if (url.pathname === '/cut') {
    socket.on('message', () => socket._socket.destroy());
  } else if (url.pathname === '/half') {
    // Half a frame, and the end.
    socket._socket.end(Buffer.concat([Buffer.from([0x82, 126, 0x03, 0xe8]), bytes(500)]));
  } else if (url.pathname === '/ping') {
    for (let sent = 0; sent < number('count'); sent += 1) socket.ping(bytes(sent));
    let pongs = 0;
    socket.on('pong', (data) => {
      pongs += 1;
      if (pongs === number('count')) socket.close(4000, hash(data));
    });
  } else {
    socket.close(4004);
  }
}

function upgrade(request, socket, head) {
  const url = new URL(request.url, 'http://x');
  const refused = url.pathname.match(/^\/refuse\/(\d+)$/);
  if (refused) {
    socket.end(`HTTP/1.1 ${refused[1]} No\r\nContent-Length: 7\r\nConnection: close\r\nX-Why: test\r\nLocation: /else\r\nWWW-Authenticate: Basic realm="x"\r\n\r\nrefused`);
    return;
  }
  sockets.handleUpgrade(request, socket, head, (accepted) => serve(accepted, url));
}

// ---- the cases ----

const frame = (data, options) => Buffer.concat(Sender.frame(Buffer.from(data), { mask: true, readOnly: true, rsv1: false, fin: true, ...options }));
const raw = (client, ...pieces) => pieces.forEach((piece) => client._socket.write(piece));
// Waits until the kernel has taken what was written, so that pieces go in segments of their own.
const chopped = async (client, data, size) => {
  client._socket.setNoDelay(true);
  for (let at = 0; at < data.length; at += size) {
    await new Promise((resolve) => client._socket.write(data.subarray(at, at + size), resolve));
    await new Promise((resolve) => setImmediate(resolve));
  }
};
const TEXT = 1;
const BINARY = 2;
const CONTINUATION = 0;
const PING = 9;
const CLOSE = 8;
const closing = (code, reason = '') => Buffer.concat([Buffer.from([code >> 8, code & 255]), Buffer.from(reason)]);

const cases = [];
const add = (name, url, run, options = {}) => cases.push({ name, url, run, options });
const echo = (count) => async (client, got) => {
  await got(count);
  client.close(1000);
};

for (const size of [0, 1, 125, 126, 127, 128, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, 4 << 20]) {
  add(`1 text ${size}`, '/echo', async (client, got) => { client.send(text(size)); await echo(1)(client, got); });
  add(`1 binary ${size}`, '/echo', async (client, got) => { client.send(bytes(size)); await echo(1)(client, got); });
}
add('1 many messages of all sizes', '/echo', async (client, got) => {
  for (let size = 0; size < 300; size += 1) client.send(bytes(size));
  await echo(300)(client, got);
});
for (const size of [1, 7, 997]) {
  add(`1 binary in pieces of ${size}`, '/echo', async (client, got) => {
    await chopped(client, frame(bytes(size === 1 ? 300 : 70_000), { opcode: BINARY }), size);
    await echo(1)(client, got);
  });
}
for (const size of [0, 1, 125]) {
  add(`2 ping ${size}`, '/echo', async (client, got) => { client.ping(bytes(size)); await echo(1)(client, got); });
}
add('2 ten pings', '/echo', async (client, got) => { for (let sent = 0; sent < 10; sent += 1) client.ping(bytes(sent)); await echo(10)(client, got); });
add('2 ping in pieces', '/echo', async (client, got) => { await chopped(client, frame(bytes(125), { opcode: PING }), 1); await echo(1)(client, got); });
add('2 unsolicited pong', '/echo', async (client, got) => { client.pong('x'); client.send('y'); await echo(1)(client, got); });
add('2 pings of the server', '/ping?count=20', async () => {});
add('2 ping of 126 bytes', '/echo', async (client) => raw(client, frame(bytes(126), { opcode: PING })));
for (const bits of [0x10, 0x20, 0x30, 0x70]) {
  add(`3 reserved bits ${bits >> 4}`, '/echo', async (client) => {
    const bad = frame('x', { opcode: TEXT });
    bad[0] |= bits;
    raw(client, frame('before', { opcode: TEXT }), bad, frame('after', { opcode: TEXT }));
  });
}
for (const opcode of [3, 7, 11, 15]) {
  add(`4 reserved opcode ${opcode}`, '/echo', async (client) => raw(client, frame('before', { opcode: TEXT }), frame('', { opcode })));
}
add('5 two fragments', '/echo', async (client, got) => { client.send('one ', { fin: false }); client.send('two', { fin: true }); await echo(1)(client, got); });
add('5 many fragments with pings between', '/echo', async (client, got) => {
  for (let sent = 0; sent < 50; sent += 1) {
    client.send(bytes(sent * 37), { fin: sent === 49, binary: true });
    client.ping(String(sent));
  }
  await echo(51)(client, got);
});
add('5 empty fragments', '/echo', async (client, got) => { for (const fin of [false, false, true]) client.send('', { fin }); await echo(1)(client, got); });
add('5 fragments in single bytes', '/echo', async (client, got) => {
  await chopped(client, Buffer.concat([frame('fra', { opcode: TEXT, fin: false }), frame('x', { opcode: PING }), frame('gment', { opcode: CONTINUATION })]), 1);
  await echo(2)(client, got);
});
add('5 fragmented ping', '/echo', async (client) => raw(client, frame('x', { opcode: PING, fin: false })));
add('5 continuation of nothing', '/echo', async (client) => raw(client, frame('x', { opcode: CONTINUATION })));
add('5 new message within a fragmented one', '/echo', async (client) => raw(client, frame('x', { opcode: TEXT, fin: false }), frame('y', { opcode: TEXT })));
add('5 unmasked frame', '/echo', async (client) => raw(client, Buffer.from([0x81, 1, 0x78])));
const ship = Buffer.from('κόσμε 🚢');
add('6 UTF-8 split within a character', '/echo', async (client, got) => {
  for (let at = 0; at < ship.length; at += 1) raw(client, frame(ship.subarray(at, at + 1), { opcode: at === 0 ? TEXT : CONTINUATION, fin: at === ship.length - 1 }));
  await echo(1)(client, got);
});
add('6 UTF-8 in single bytes', '/echo', async (client, got) => { await chopped(client, frame(ship, { opcode: TEXT }), 1); await echo(1)(client, got); });
for (const [name, wrong] of Object.entries({ surrogate: 'eda080', overlong: 'c0af', 'above the last': 'f4908080', 'cut off': 'ce', 'continuation alone': '80', ff: 'ff' })) {
  add(`6 invalid UTF-8: ${name}`, '/echo', async (client) => raw(client, frame(Buffer.from(wrong, 'hex'), { opcode: TEXT })));
}
for (const code of [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999]) {
  add(`7 close ${code}`, '/echo', async (client) => raw(client, frame(closing(code, 'because'), { opcode: CLOSE })));
}
for (const code of [0, 999, 1004, 1005, 1006, 1016, 1100, 2999, 5000, 65535]) {
  add(`7 invalid close ${code}`, '/echo', async (client) => raw(client, frame(closing(code), { opcode: CLOSE })));
}
add('7 close without code', '/echo', async (client) => raw(client, frame('', { opcode: CLOSE })));
add('7 close with one byte', '/echo', async (client) => raw(client, frame('x', { opcode: CLOSE })));
add('7 close with a reason of 123 bytes', '/echo', async (client) => client.close(1000, 'x'.repeat(123)));
add('7 close with an invalid reason', '/echo', async (client) => raw(client, frame(Buffer.concat([closing(1000), Buffer.from([0xce])]), { opcode: CLOSE })));
add('7 data after close', '/echo', async (client) => raw(client, frame(closing(1000), { opcode: CLOSE }), frame('late', { opcode: TEXT })));
add('7 ping after close', '/echo', async (client) => raw(client, frame(closing(1000), { opcode: CLOSE }), frame('late', { opcode: PING })));
add('7 close with data behind it on the way', '/late?count=40&size=20000', async (client, got) => { client.send('now'); await got(3); client.close(1000); });
add('9 binary 16 MiB', '/echo', async (client, got) => { client.send(bytes(16 << 20)); await echo(1)(client, got); });
add('9 1 MiB in fragments of 1 KiB', '/echo', async (client, got) => {
  const data = bytes(1 << 20);
  for (let at = 0; at < data.length; at += 1024) client.send(data.subarray(at, at + 1024), { fin: at + 1024 === data.length });
  await echo(1)(client, got);
});
add('9 both directions at once', '/echo', async (client, got) => { for (let sent = 0; sent < 200; sent += 1) client.send(bytes(20_000, sent + 1)); await echo(200)(client, got); });
const deflate = (more) => ({ perMessageDeflate: { threshold: 0, ...more } });
for (const [name, options] of Object.entries({
  default: deflate({}),
  'no context takeover': deflate({ clientNoContextTakeover: true, serverNoContextTakeover: true }),
  'windows of 9 bits': deflate({ clientMaxWindowBits: 9, serverMaxWindowBits: 9 }),
})) {
  for (const size of [0, 125, 126, 65536, 1 << 20]) {
    add(`12 deflate ${name} ${size}`, '/echo?deflate', async (client, got) => {
      client.send(text(size));
      client.send(bytes(size));
      await echo(2)(client, got);
    }, options);
  }
}
add('12 deflate with fragments', '/echo?deflate', async (client, got) => { client.send(text(5000), { fin: false }); client.send(text(90_000), { fin: true }); await echo(1)(client, got); }, deflate({}));
add('12 deflate that is no deflate', '/echo?deflate', async (client) => raw(client, frame(bytes(50), { opcode: TEXT, rsv1: true })), deflate({}));
add('20 data with the 101', '/greet', async (client, got) => { await got(1); client.send('again'); await got(2); client.close(1000); });
add('20 subprotocols', '/echo', async (client) => client.close(1000, client.protocol), { protocols: ['first', 'second'] });
for (const status of [200, 302, 400, 401, 403, 404, 426, 500, 503]) add(`20 refused with ${status}`, `/refuse/${status}`, async () => {});
add('21 server closes at once', '/burst?count=0&end=close&code=1000', async () => {});
add('21 80,000 bytes, then Close', '/burst?count=8&size=10000&end=close&code=4001', async () => {});
add('21 80,000 bytes, then the end of the connection', '/burst?count=8&size=10000', async () => {});
add('21 5 MB, then Close', '/burst?count=50&size=100000&end=close&code=1001', async () => {});
add('21 5 MB, then the end of the connection', '/burst?count=50&size=100000', async () => {});
add('21 half a frame, then the end', '/half', async () => {});
add('21 server breaks the connection', '/cut', async (client) => client.send('x'));
add('21 client breaks the connection', '/echo', async (client, got) => { client.send('x'); await got(1); client.terminate(); });
add('21 client closes at once', '/echo', async (client) => client.close(1000, 'bye'));

// ---- one exchange ----

async function exchange(via, { url, run, options }) {
  const { protocols = [], ...more } = options;
  const events = [];
  const counted = { count: 0, wake: () => {} };
  const client = new WebSocket(`${via.scheme}://${via.host}${url}`, protocols, {
    perMessageDeflate: false, handshakeTimeout: LIMIT, maxPayload: 64 << 20, ...more, ...(await via.options(url)),
  });
  const note = (...event) => {
    events.push(event.join(' '));
    if (['message', 'pong'].includes(event[0])) {
      counted.count += 1;
      counted.wake();
    }
  };
  const got = async (count) => {
    while (counted.count < count && client.readyState <= WebSocket.OPEN) await new Promise((resolve) => { counted.wake = resolve; });
  };
  let extensions = '';
  client.on('upgrade', (response) => { extensions = response.headers['sec-websocket-extensions'] ?? ''; });
  client.on('message', (data, isBinary) => note('message', isBinary, data.length, hash(data)));
  client.on('pong', (data) => note('pong', data.length, hash(data)));
  client.on('error', (error) => note('error', (error.code ?? error.message).replace(/ECONNRESET|EPIPE/, 'broken')));
  client.on('unexpected-response', (request, response) => {
    let body = '';
    response.on('data', (data) => { body += data; });
    response.on('end', () => {
      const { headers } = response;
      note('refused', response.statusCode, headers['x-why'], headers.location, headers['www-authenticate'], body);
      client.emit('close', 0, '');
    });
  });
  const closed = new Promise((resolve) => {
    client.once('close', (code, reason) => {
      counted.wake();
      note('close', code, reason);
      resolve();
    });
  });
  client.on('open', () => {
    note('open', client.protocol, extensions);
    Promise.resolve(run(client, got)).catch((error) => note('failed', error.message));
  });
  let timer;
  const late = new Promise((resolve) => { timer = setTimeout(() => { note('no end'); resolve(); }, LIMIT); });
  await Promise.race([closed, late]);
  clearTimeout(timer);
  const seen = [...events];
  client.terminate();
  return seen;
}

// ---- the paths ----

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'longhaul-suite-tls-'));
const names = ['socket.test', 'fast.test', 'proxy.test'];
const files = certificates(folder, names);
const plain = http.createServer().on('upgrade', upgrade);
const secure = https.createServer({ key: fs.readFileSync(files.key), cert: fs.readFileSync(files.certificate) }).on('upgrade', upgrade);
await Promise.all([plain, secure].map((server) => once(server.listen(0, '127.0.0.1'), 'listening')));
const [plainPort, securePort] = [plain, secure].map((server) => server.address().port);
const longhaul = await start({
  programs,
  names: { 'socket.test': plainPort, 'socket.test:443': securePort, 'fast.test:443': securePort },
  accelerate: 'fast.test',
  tls: files,
});
const ours = execFileSync(path.join(programs, 'longhaul-agent'), ['ca', 'export', '--state-dir', path.join(longhaul.folder, 'agent')], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
const connectTo = (port, host = '127.0.0.1') => ({ createConnection: () => http.globalAgent.createConnection({ host, port }) });
const tunnelled = (port, target, fields) => async () => {
  const socket = await tunnel(port, target, fields);
  return { createConnection: () => socket };
};
const secured = (port, host, ca, fields) => async () => {
  const socket = await tunnel(port, `${host}:443`, fields);
  const secureSocket = tls.connect({ socket, servername: host, ca, ALPNProtocols: ['http/1.1'] });
  await once(secureSocket, 'secureConnect');
  return { createConnection: () => secureSocket };
};
const authority = fs.readFileSync(files.ca);
const login = `Proxy-Authorization: ${longhaul.authorization}\r\n`;
const paths = {
  direct: { scheme: 'ws', host: 'socket.test', options: async () => connectTo(plainPort) },
  'agent, CONNECT': { scheme: 'ws', host: 'socket.test', options: tunnelled(longhaul.agent, 'socket.test:80') },
  'agent, TLS in CONNECT': { scheme: 'wss', host: 'socket.test', options: secured(longhaul.agent, 'socket.test', authority) },
  'agent, accelerated https': { scheme: 'wss', host: 'fast.test', options: secured(longhaul.agent, 'fast.test', ours) },
  'clientless, CONNECT': { scheme: 'ws', host: 'socket.test', options: tunnelled(longhaul.clientless, 'socket.test:80', login) },
  'clientless, TLS in CONNECT': { scheme: 'wss', host: 'socket.test', options: secured(longhaul.clientless, 'socket.test', authority, login) },
};
const table = [];
let failed = 0;
try {
  const chosen = cases.filter((one) => !only || one.name.includes(only));
  const expected = new Map();
  for (const [name, via] of Object.entries(paths)) {
    if (name !== 'direct' && wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue;
    const rest = [...chosen];
    let same = 0;
    const work = async () => {
      for (let one = rest.shift(); one; one = rest.shift()) {
        const began = Date.now();
        const events = await exchange(via, one).catch((error) => [`failed ${error.message}`]);
        if (SLOW) console.log(name, '|', one.name, Date.now() - began, 'ms', events.slice(-2));
        if (name === 'direct') {
          expected.set(one.name, events);
          if (events.includes('no end')) console.log(`direct: ${one.name} does not end`);
        } else if (JSON.stringify(events) === JSON.stringify(expected.get(one.name))) {
          same += 1;
        } else {
          console.log(`${name}: ${one.name}\n  direct:  ${expected.get(one.name).slice(-6).join(' | ')}\n  through: ${events.slice(-6).join(' | ')}`);
        }
      }
    };
    await Promise.all(Array.from({ length: 4 }, work));
    if (name === 'direct') continue;
    failed += chosen.length - same;
    table.push(`${name.padEnd(28)}${same} of ${chosen.length}`);
  }
} finally {
  longhaul.stop();
  for (const server of [plain, secure]) {
    server.close();
    server.closeAllConnections();
  }
  fs.rmSync(folder, { recursive: true, force: true });
}
console.log('WebSockets: exchanges equal to direct ones');
for (const line of table) console.log(line);
process.exit(failed > 0 ? 1 : 0);
