// Shows the gateway's admin page in each of its states to Chromium: `node admin.mjs PROGRAMS PICTURES`, with the folder of the
// built programs and a folder for screenshots. Each state is checked with axe-core, in light and dark, at 320, 768 and 1280
// pixels, and must fit its window; then its forms are used. Started by run.sh.
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
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'longhaul-admin-'));
const LIMIT = 120_000;
const WIDTHS = [320, 768, 1280];
const children = [];
const problems = [];

async function until(what, look) {
  const end = Date.now() + LIMIT;
  for (;;) {
    const found = await Promise.resolve().then(look).catch(() => null);
    if (found) return found;
    if (Date.now() > end) throw new Error(`timeout: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const state = path.join(folder, 'gateway');
const gateway = (...words) => execFileSync(path.join(programs, 'longhaul-gateway'), [...words, '--state-dir', state], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();

function start(name, args) {
  const child = spawn(path.join(programs, name), args, { stdio: ['ignore', 'pipe', 'pipe'] });
  child.log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { child.log += data; });
  children.push(child);
  return child;
}

// An answer that no browser would show: the status alone.
function ask(url, options = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, options, (response) => { response.resume(); resolve(response.statusCode); });
    request.once('error', reject);
    request.end(options.body);
  });
}

const port = 20_000 + (process.pid % 20_000);
const line = gateway('invite', '--name', 'ann\u2019s laptop', '--address', `127.0.0.1:${port}`);
gateway('invite', '--name', 'a phone with a rather long name that somebody gave it once', '--address', `127.0.0.1:${port}`);
gateway('invite', '--name', 'old', '--address', `127.0.0.1:${port}`);
gateway('device', 'remove', 'old');
gateway('device', 'quota', 'ann\u2019s laptop', '--rate', '2Mbit/s', '--month', '5GB');
const server = start('longhaul-gateway', ['run', '--listen', `127.0.0.1:${port}`, '--admin-listen', '127.0.0.1:0', '--config', '/dev/null', '--state-dir', state]);
await until('the gateway', () => server.log.includes('ready '));
start('longhaul-agent', ['run', '--listen', '127.0.0.1:0', '--control', '127.0.0.1:0', '--invite', line, '--state-dir', path.join(folder, 'agent'), '--fallback-after', 'never']);
const list = () => JSON.parse(gateway('device', 'list', '--json')).devices;
await until('a session', () => list()[0].state === 'open');
const login = gateway('admin');
const page = new URL('/', login).href;

const browser = await puppeteer.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
  timeout: LIMIT,
  protocolTimeout: LIMIT,
});

// Shows a page in all sizes and both schemes.
async function show(name, url) {
  const tab = await browser.newPage();
  tab.on('console', (message) => {
    // Chromium reports the status 404 of the page about a device that does not exist.
    if (message.type() === 'error' && !message.text().includes('404')) problems.push(`${name}: ${message.text()}`);
  });
  for (const scheme of ['light', 'dark']) {
    await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    for (const width of WIDTHS) {
      await tab.setViewport({ width, height: 800 });
      await tab.goto(url, { waitUntil: 'load', timeout: LIMIT });
      await tab.screenshot({ path: path.join(pictures, `admin-${name}-${scheme}-${width}.png`), fullPage: true });
      const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (overflow > 0) problems.push(`${name} is ${overflow} pixels wider than ${width}`);
      await tab.evaluate(axe.source);
      const found = await tab.evaluate(() => window.axe.run());
      for (const violation of found.violations) {
        problems.push(`${name} ${scheme} ${width}: ${violation.id}: ${violation.help}: ${violation.nodes.map((node) => `${node.html.slice(0, 120)} ${node.any[0]?.message ?? ''}`).slice(0, 3).join(' | ')}`);
      }
    }
  }
  await tab.close();
}

async function press(tab, order) {
  const loaded = tab.waitForNavigation({ timeout: LIMIT });
  await tab.click(`button[value="${order}"]`);
  await loaded;
}

function expect(what, is) {
  if (!is) problems.push(what);
}

try {
  expect('the page needs a login', await ask(page) === 403);
  const tab = await browser.newPage();
  await tab.setJavaScriptEnabled(false);
  await tab.goto(login, { timeout: LIMIT });
  expect('the login shows the page', await tab.$('table.devices') !== null);
  expect('a login works once', await ask(login) === 403);
  await show('devices', page);
  const [first, , old] = list();
  const device = new URL(`/device?id=${first.id}`, page).href;
  await show('device', device);
  await show('removed', new URL(`/device?id=${old.id}`, page).href);

  // The forms, without scripts.
  await tab.goto(device, { timeout: LIMIT });
  await tab.$eval('input[name="name"]', (input) => { input.value = 'ann\u2019s other laptop'; });
  await press(tab, 'rename');
  expect('renamed', list()[0].name === 'ann\u2019s other laptop');
  await tab.$eval('input[name="month"]', (input) => { input.value = '6GB'; });
  await press(tab, 'quota');
  expect('quota set', list()[0].quota_month_bytes === 6e9);
  await tab.click('input[type="checkbox"]');
  await press(tab, 'remove');
  expect('removed', list()[0].state === 'revoked');
  await press(tab, 'restore');
  expect('restored', list()[0].status === 'admitted');
  await tab.$eval('input[name="rate"]', (input) => { input.value = 'fast'; });
  await press(tab, 'quota');
  expect('a mistake is explained', (await tab.$eval('main', (main) => main.textContent)).includes('2Mbit/s'));
  await show('mistake', new URL('/device?id=x', page).href);

  // A page of another origin, whose browser is logged in, changes nothing.
  const cookies = await browser.cookies();
  const cookie = cookies.map((one) => `${one.name}=${one.value}`).join('; ');
  expect('the cookie is for this site only', cookies.every((one) => one.httpOnly && one.sameSite === 'Strict'));
  const form = { method: 'POST', body: `order=remove&device=${first.id}`, headers: { cookie, 'content-type': 'application/x-www-form-urlencoded' } };
  expect('a form without token is refused', await ask(new URL('/order', page), form) === 403);
  for (const fields of [{ origin: 'http://evil.test' }, { 'sec-fetch-site': 'cross-site' }, { host: 'evil.test' }, { via: '1.1 proxy' }]) {
    expect(`refused: ${JSON.stringify(fields)}`, await ask(page, { headers: { cookie, ...fields } }) === 403);
  }
  expect('the cookie is not for programs', await ask(new URL('/v1/devices', page), { headers: { cookie } }) === 403);
  const token = gateway('admin', '--token');
  expect('the token is for programs', await ask(new URL('/v1/devices', page), { headers: { authorization: `Bearer ${token}` } }) === 200);
  expect('a wrong token is refused', await ask(new URL('/v1/devices', page), { headers: { authorization: 'Bearer x' } }) === 403);
  expect('nothing was removed', list()[0].status === 'admitted');

  await tab.goto(page, { timeout: LIMIT });
  await until('a session', () => list()[0].state === 'open');
  await press(tab, 'drain');
  await tab.screenshot({ path: path.join(pictures, 'admin-draining.png'), fullPage: true });
  expect('draining is shown', (await tab.$eval('main', (main) => main.textContent)).includes('drains'));
  await Promise.race([once(server, 'exit'), new Promise((resolve) => setTimeout(resolve, LIMIT))]);
  expect('the drained gateway ended in order', server.exitCode === 0);
} catch (error) {
  problems.push(error.stack);
} finally {
  await browser.close();
  for (const child of children) child.kill('SIGKILL');
}
fs.rmSync(folder, { recursive: true, force: true });
for (const problem of new Set(problems)) console.error(problem);
console.log(problems.length === 0 ? 'the admin page has no problems' : `${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;
