// The website of the product test: http on port 8080, https on port 8443 of the loopback address.
// On port 8444 it has a certificate whose time is over.
// Usage: node origin.mjs KEY.pem CERTIFICATE.pem EXPIRED.pem
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import zlib from 'node:zlib';

// A picture that is worth making smaller: a photo-like gradient with grain, as PNG.
function picture(width, height) {
  const rows = Buffer.alloc(height * (1 + 3 * width));
  let seed = 1;
  for (let y = 0, at = 0; y < height; y++) {
    rows[at++] = 0;
    for (let x = 0; x < width; x++) {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      const grain = (seed >> 16) % 24;
      rows[at++] = (x * 200) / width + grain;
      rows[at++] = (y * 200) / height + grain;
      rows[at++] = ((x + y) * 100) / (width + height) + grain;
    }
  }
  const chunk = (name, data) => {
    const body = Buffer.concat([Buffer.from(name), data]);
    const ends = [Buffer.alloc(4), Buffer.alloc(4)];
    ends[0].writeUInt32BE(data.length);
    ends[1].writeUInt32BE(crc(body));
    return Buffer.concat([ends[0], body, ends[1]]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('IDAT', zlib.deflateSync(rows)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function crc(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  }
  return (value ^ 0xffffffff) >>> 0;
}

const page = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Product test</title>
<link rel="stylesheet" href="/site.css"></head><body><h1>The page has arrived</h1>
<img src="/picture.png" width="480" height="360" alt="a gradient"><script src="/site.js"></script></body></html>`;
const files = {
  '/': ['text/html; charset=utf-8', Buffer.from(page)],
  '/site.css': ['text/css', Buffer.from('h1 { color: rgb(12, 34, 56) }\n')],
  '/site.js': ['text/javascript', Buffer.from("document.body.dataset.script = 'ran';\n")],
  '/picture.png': ['image/png', picture(480, 360)],
};

function answer(request, response) {
  const found = files[new URL(request.url, 'http://site.test').pathname];
  if (!found) {
    response.writeHead(404, { 'content-type': 'text/plain' }).end('not found\n');
    return;
  }
  const [type, body] = found;
  response.writeHead(200, {
    'content-type': type,
    'content-length': body.length,
    'cache-control': 'max-age=60',
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

const [key, cert, expired] = process.argv.slice(2).map((file) => fs.readFileSync(file));
http.createServer(answer).listen(8080, '127.0.0.1');
https.createServer({ key, cert: expired }, answer).listen(8444, '127.0.0.1');
https.createServer({ key, cert }, answer).listen(8443, '127.0.0.1', () => console.log('ready'));
