// Loads the URLs of its input with the modules http and https, and says what came.
const { createHash } = require("node:crypto");
const http = require("node:http");
const https = require("node:https");
const readline = require("node:readline");
const tls = require("node:tls");

const proxy = process.env.http_proxy && new URL(process.env.http_proxy);

// The connection inside of a tunnel; the modules know no proxies.
function tunnel(url) {
  return new Promise((resolve, reject) => {
    const path = `${url.hostname}:${url.port || 443}`;
    const request = http.request({ host: proxy.hostname, port: proxy.port, method: "CONNECT", path });
    request.on("error", reject);
    request.on("connect", (answer, socket) => {
      if (answer.statusCode !== 200) reject(new Error(`CONNECT: ${answer.statusCode}`));
      const secure = tls.connect({ socket, servername: url.hostname, ALPNProtocols: ["http/1.1"] });
      secure.on("secureConnect", () => resolve(secure)).on("error", reject);
    });
    request.end();
  });
}

async function request(url) {
  if (!proxy) return (url.protocol === "https:" ? https : http).request(url, { agent: false });
  if (url.protocol === "http:") {
    const headers = { host: url.host };
    return http.request({ host: proxy.hostname, port: proxy.port, path: url.href, headers, agent: false });
  }
  const socket = await tunnel(url);
  return https.request(url, { createConnection: () => socket });
}

async function load(url) {
  const sent = await request(url);
  return new Promise((resolve, reject) => {
    sent.setTimeout(5000, () => sent.destroy(new Error("silence")));
    sent.on("error", reject);
    // After an answer this comes too late to change anything; an upgrade that nobody asked for ends without one.
    sent.on("close", () => reject(new Error("no answer")));
    sent.on("response", (answer) => {
      const hash = createHash("sha256");
      let length = 0;
      answer.on("data", (piece) => {
        hash.update(piece);
        length += piece.length;
      });
      answer.on("error", reject);
      answer.on("end", () => {
        const fields = { "proxy-status": answer.headers["proxy-status"] || "" };
        resolve({ outcome: "whole", status: answer.statusCode, fields, length, body: hash.digest("hex") });
      });
    });
    sent.end();
  });
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const seen = await load(new URL(line.trim())).catch((error) => ({ outcome: "failed", error: String(error) }));
    console.log(JSON.stringify(seen));
  }
}

main();
