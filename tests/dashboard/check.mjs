// Shows the dashboard in each of its states to Chromium: `node check.mjs PROGRAMS PICTURES`, with the folder of the built
// programs and a folder for screenshots. Each state is checked with axe-core, in light and dark, at 320, 768 and 1280 pixels,
// and must fit its window. Started by run.sh.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import axe from 'axe-core';
import puppeteer from 'puppeteer-core';

const [programs, pictures] = process.argv.slice(2);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'longhaul-dashboard-'));
const LIMIT = 120_000;
const WIDTHS = [320, 768, 1280];
// The states that are shown; all of them without the variable.
const STATES = process.env.LONGHAUL_DASHBOARD_STATES?.split(',');
const children = [];
const problems = [];

function start(name, args) {
  const child = spawn(path.join(programs, name), args, { stdio: ['ignore', 'ignore', 'pipe'] });
  child.stderr.on('data', (data) => fs.appendFileSync(path.join(folder, `${name}.log`), data));
  children.push(child);
  return child;
}

async function until(what, look) {
  const end = Date.now() + LIMIT;
  for (;;) {
    const found = await Promise.resolve().then(look).catch(() => null);
    if (found) return found;
    if (Date.now() > end) throw new Error(`timeout: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function ask(options, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(options, async (response) => {
      let text = '';
      try {
        for await (const part of response) text += part;
      } catch { /* A truncated body is what some requests are for. */ }
      resolve({ status: response.statusCode, text });
    });
    request.once('error', reject);
    request.end(body);
  });
}

// The origin: pages with style sheets, scripts and pictures.
const site = new URL('../../installer/demo/src/site/', `file://${process.env.LONGHAUL_DASHBOARD_TEST}/`);
const photo = fs.readFileSync(new URL('img/ship.jpg', site));
const origin = http.createServer((request, response) => {
  const name = new URL(request.url, 'http://x').pathname;
  if (name.endsWith('.jpg')) return response.writeHead(200, { 'content-type': 'image/jpeg', 'cache-control': 'max-age=60' }).end(photo);
  if (name.endsWith('.css')) return response.writeHead(200, { 'content-type': 'text/css', 'cache-control': 'max-age=60' }).end('p{margin:1em}'.repeat(900));
  if (name.endsWith('.js')) return response.writeHead(200, { 'content-type': 'text/javascript' }).end('let answer = 42;\n'.repeat(900));
  const images = [1, 2, 3, 4, 5].map((number) => `<img src="/picture-${number}.jpg">`).join('');
  response.writeHead(200, { 'content-type': 'text/html' });
  response.end(`<!doctype html><title>x</title><link rel=stylesheet href=/style.css><script src=/app.js></script>${'<p>Some text of a page.</p>'.repeat(300)}${images}<img src="http://missing.test/x.jpg">`);
});
await once(origin.listen(0, '127.0.0.1'), 'listening');

const port = 40_000 + (process.pid % 20_000);
const gatewayState = path.join(folder, 'gateway');
const agentState = path.join(folder, 'agent');
fs.writeFileSync(path.join(folder, 'gateway.toml'), `[fetch.resolve]\n"site.test" = "127.0.0.1:${origin.address().port}"\n`);
const invite = execFileSync(path.join(programs, 'longhaul-gateway'), ['invite', '--state-dir', gatewayState, '--name', 'test', '--address', `127.0.0.1:${port}`], { encoding: 'utf8' });
const line = invite.trim();
const startGateway = () => start('longhaul-gateway', ['run', '--listen', `127.0.0.1:${port}`, '--config', path.join(folder, 'gateway.toml'), '--state-dir', gatewayState]);
let gateway = startGateway();
let agent;
let about;
let token;

async function startAgent() {
  agent = start('longhaul-agent', ['run', '--listen', '127.0.0.1:0', '--control', '127.0.0.1:0', '--invite', line, '--state-dir', agentState, '--fallback-after', 'never']);
  about = await until('the agent', () => JSON.parse(fs.readFileSync(path.join(agentState, 'agent.json'), 'utf8')));
  token = fs.readFileSync(path.join(agentState, 'control-token'), 'utf8').trim();
}

async function openDashboard() {
  const page = await browser.newPage();
  await page.goto(`http://${about.control}/?token=${token}`, { waitUntil: 'domcontentloaded', timeout: LIMIT });
  return page;
}

await startAgent();
const status = async () => JSON.parse((await ask(`http://${about.control}/status.json`)).text);
const state = (wanted) => until(`state ${wanted}`, async () => (await status()).state === wanted);

function load(url, fields = {}) {
  const [host, proxyPort] = about.proxy.split(':');
  return ask({ host, port: proxyPort, path: url, headers: { host: new URL(url).host, ...fields } });
}

async function loadPage(url) {
  await load(url, { accept: 'text/html', 'upgrade-insecure-requests': '1' });
  const objects = ['style.css', 'app.js', 'picture-1.jpg', 'picture-2.jpg', 'picture-3.jpg', 'picture-4.jpg', 'picture-5.jpg'];
  const loads = objects.map((name) => load(`http://site.test/${name}`, { referer: url, accept: name.endsWith('jpg') ? 'image/webp,*/*' : '*/*' }));
  await Promise.all([...loads, load('http://missing.test/x.jpg', { referer: url })]);
}

const browser = await puppeteer.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  timeout: LIMIT,
  protocolTimeout: LIMIT,
});

// Shows a page in all sizes and both schemes.
async function show(name, url) {
  if (STATES && !STATES.includes(name)) return;
  const page = await browser.newPage();
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(`${name}: ${message.text()}`);
  });
  page.on('pageerror', (error) => problems.push(`${name}: ${error.message}`));
  for (const scheme of ['light', 'dark']) {
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    for (const width of WIDTHS) {
      await page.setViewport({ width, height: 800 });
      await page.goto(url, { waitUntil: 'domcontentloaded', timeout: LIMIT });
      await page.waitForFunction(() => document.readyState === 'complete', { timeout: LIMIT });
      await page.screenshot({ path: path.join(pictures, `${name}-${scheme}-${width}.png`), fullPage: true });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (overflow > 0) problems.push(`${name} is ${overflow} pixels wider than ${width}`);
      await page.evaluate(axe.source);
      const found = await page.evaluate(() => window.axe.run());
      for (const violation of found.violations) {
        problems.push(`${name} ${scheme} ${width}: ${violation.id}: ${violation.help}: ${violation.nodes.map((node) => `${node.html.slice(0, 120)} ${node.any[0]?.message ?? ''}`).slice(0, 3).join(' | ')}`);
      }
    }
  }
  await page.close();
}

try {
  const dashboard = `http://${about.control}/`;
  const first = await openDashboard();
  await state('open');
  await show('no-browser', dashboard);
  await loadPage('http://site.test/one');
  // The page that was opened before shows the load without a reload, and its nodes are the same.
  await first.bringToFront();
  await first.evaluate(() => { document.getElementById('rate').dataset.mark = 'same'; });
  await first.waitForFunction(() => document.querySelector('#pages tr a')?.textContent === 'site.test', { timeout: LIMIT });
  if (await first.evaluate(() => document.getElementById('rate').dataset.mark) !== 'same') problems.push('a node was replaced');
  await show('open', dashboard);
  const link = await first.evaluate(() => document.querySelector('#pages tr a').href);
  await show('page', link);
  // Rules, by the forms themselves, and the keyboard reaches every control.
  const rules = await browser.newPage();
  await rules.goto(dashboard, { waitUntil: 'domcontentloaded', timeout: LIMIT });
  const set = (query) => rules.evaluate((target) => fetch(target, { method: 'POST' }).then((answer) => answer.status), query);
  for (const query of ['/rules/set?name=site.test&images=original', '/rules/pause?name=a-long-name-of-a-host.of-an-organisation.example.test', '/rules/originals?name=b.test']) {
    const status = await set(query);
    if (status !== 200) problems.push(`${query}: ${status}`);
  }
  await rules.goto(dashboard, { waitUntil: 'domcontentloaded', timeout: LIMIT });
  const controls = await rules.evaluate(() => [...document.querySelectorAll('a[href], button:not(:disabled), input, select, summary')].filter((control) => control.checkVisibility()).length);
  const reached = new Set();
  for (let press = 0; press < controls + 20; press += 1) {
    await rules.keyboard.press('Tab');
    reached.add(await rules.evaluate(() => {
      const all = [...document.querySelectorAll('a[href], button:not(:disabled), input, select, summary')];
      return all.indexOf(document.activeElement);
    }));
  }
  reached.delete(-1);
  if (reached.size < controls) problems.push(`the keyboard reaches ${reached.size} of ${controls} controls`);
  await show('rules', dashboard);
  await rules.close();
  for (let number = 0; number < 54; number += 1) await loadPage(`http://site.test/articles/${number}?from=a-list-of-articles`);
  await show('fifty', dashboard);
  gateway.kill('SIGSTOP');
  load('http://site.test/waiting', { accept: 'text/html', 'upgrade-insecure-requests': '1' }).catch(() => {});
  await state('stalled');
  await show('stalled', dashboard);
  // The list of waiting pages renews itself, and a button that has the focus keeps it.
  await first.bringToFront();
  await first.waitForSelector('#waiting-list button', { timeout: LIMIT });
  await first.focus('#waiting-list button');
  const time = () => first.evaluate(() => document.querySelector('#waiting-list td').textContent);
  const before = await time();
  await until('a longer waiting time', async () => (await time()) !== before);
  if (!await first.evaluate(() => document.activeElement?.matches('#waiting-list button'))) problems.push('the focus was lost');
  await first.close();
  // An agent that starts without a gateway.
  gateway.kill('SIGKILL');
  agent.kill('SIGTERM');
  await once(agent, 'exit');
  await startAgent();
  await openDashboard();
  await state('down');
  await show('down', `http://${about.control}/`);
} catch (error) {
  problems.push(error.stack);
} finally {
  await browser.close();
  for (const child of children) child.kill('SIGKILL');
  origin.close();
  origin.closeAllConnections();
}
fs.rmSync(folder, { recursive: true, force: true });
for (const problem of new Set(problems)) console.error(problem);
console.log(problems.length === 0 ? 'the dashboard has no problems' : `${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;
