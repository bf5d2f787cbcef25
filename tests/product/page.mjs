// Loads a page in a browser and checks that all of it arrived: `node page.mjs chromium|firefox URL [PROFILE]`. With the
// word `expired` after the profile, the page must be the agent's about an expired certificate, whose button leads to the
// browser's own warning; with the word `refused`, the browser must refuse the certificate; with the word `policy`, Chromium
// takes its proxy from the machine's policies.
// With the word `new` instead of a URL, the browser starts once, so that its profile exists.
import { spawn } from 'node:child_process';
import process from 'node:process';
import puppeteer from 'puppeteer-core';

const [name, url, profile, kind] = process.argv.slice(2);
// Long enough for a busy machine.
const LIMIT = 180_000;
// What a browser without a way around its warning answers to a navigation.
const WARNING = /ERR_CERT|certerror|SEC_ERROR|MOZILLA_PKIX|SSL_ERROR/i;

async function startChromium() {
  const browser = await puppeteer.launch({
    executablePath: '/usr/bin/chromium',
    userDataDir: profile,
    ignoreDefaultArgs: ['--disable-extensions'],
    // No desktop that has proxy settings runs here; users give this flag in that case (docs/INSTALL.md).
    args: [...(kind === 'policy' ? [] : ['--proxy-pac-url=http://127.0.0.1:3129/proxy.pac']), '--disable-gpu', '--disable-dev-shm-usage'],
    timeout: LIMIT,
  });
  return { browser, end: () => browser.close() };
}

// Firefox runs with the profile as it is: puppeteer's launch would replace user.js, in which `longhaul up` writes.
async function startFirefox() {
  const child = spawn('/usr/bin/firefox-esr', ['--headless', '--remote-debugging-port=0', '--profile', profile], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const address = await new Promise((resolve, reject) => {
    let text = '';
    child.stderr.on('data', (data) => {
      text += data;
      const found = /WebDriver BiDi listening on (ws:\/\/\S+)/.exec(text);
      if (found) resolve(found[1]);
    });
    ended.then(() => reject(new Error(`Firefox ended: ${text}`)));
    setTimeout(() => reject(new Error(`Firefox does not answer: ${text}`)), LIMIT).unref();
  });
  const browser = await puppeteer.connect({
    browserWSEndpoint: `${address}/session`,
    protocol: 'webDriverBiDi',
    acceptInsecureCerts: false,
  });
  const end = async () => {
    await browser.close().catch(() => child.kill('SIGTERM'));
    await ended;
  };
  return { browser, end };
}

// Fails unless the browser refuses the certificate of the page, in one of so many tries.
async function expectWarning(tab, tries) {
  for (let turn = 0; turn < tries; turn++) {
    try {
      await tab.goto(url, { waitUntil: 'load', timeout: LIMIT });
    } catch (error) {
      if (!WARNING.test(error.message)) throw error;
      console.log(JSON.stringify({ browser: name, url, warning: error.message.split('\n')[0] }));
      return;
    }
  }
  throw new Error('the browser accepts the certificate');
}

const { browser, end } = name === 'firefox' ? await startFirefox() : await startChromium();
try {
  const tab = await browser.newPage();
  if (url === 'new') {
    await tab.goto('about:blank');
  } else if (kind === 'expired') {
    await tab.goto(url, { waitUntil: 'load', timeout: LIMIT });
    const text = await tab.evaluate(() => document.body.textContent);
    const button = await tab.evaluate(() => document.querySelector('form button')?.textContent);
    console.log(JSON.stringify({ browser: name, url, button }));
    if (!/certificate has expired/.test(text)) throw new Error(`the page says: ${text}`);
    if (button !== 'Open this website unaccelerated') throw new Error(`the button is ${button}`);
    // The button leads to the browser's own warning. Firefox reports no end of a navigation that ends so: another tab
    // loads the page until the button has taken effect.
    await tab.click('form button');
    await expectWarning(await browser.newPage(), 30);
  } else if (kind === 'refused') {
    await expectWarning(tab, 1);
  } else {
    const response = await tab.goto(url, { waitUntil: 'load', timeout: LIMIT });
    const seen = await tab.evaluate(() => ({
      heading: document.querySelector('h1')?.textContent,
      colour: getComputedStyle(document.querySelector('h1')).color,
      script: document.body.dataset.script,
      width: document.images[0]?.naturalWidth,
      secure: window.isSecureContext,
    }));
    const expected = {
      heading: 'The page has arrived',
      colour: 'rgb(12, 34, 56)',
      script: 'ran',
      width: 480,
      secure: url.startsWith('https:'),
    };
    // Firefox does not tell the issuer; it would show a warning instead of the page if it did not trust it.
    const issuer = name === 'chromium' ? response?.securityDetails()?.issuer() : undefined;
    console.log(JSON.stringify({ browser: name, version: await browser.version(), url, issuer, ...seen }));
    if (issuer !== undefined && expected.secure && !/Longhaul/.test(issuer)) throw new Error(`the issuer is ${issuer}`);
    for (const [key, value] of Object.entries(expected)) {
      if (seen[key] !== value) throw new Error(`${key} is ${seen[key]}, not ${value}`);
    }
  }
} finally {
  await end();
}
