// The page that loads cases and says what a page and its scripts can see of them.
'use strict';
// A load that takes longer hangs.
const BOUND = 5000;
// Longer bodies are compared by a hash.
const MAX_TEXT = 600;

const hash = (bytes) => {
  let sum = 0x811c9dc5;
  for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193) >>> 0;
  return sum;
};
const short = (text) => text.length <= MAX_TEXT ? text
  : text.slice(0, MAX_TEXT) + '... ' + text.length + ' characters, ' + hash(Array.from(text, (c) => c.charCodeAt(0) & 255));
const bounded = (work) => {
  let timer;
  const bound = new Promise((resolve) => { timer = setTimeout(() => resolve({ outcome: 'hangs' }), BOUND); });
  return Promise.race([work.catch((error) => ({ outcome: 'mistake', error: String(error.stack) })), bound]).finally(() => clearTimeout(timer));
};
const event = (element, names) => new Promise((resolve) => {
  for (const name of names) element.addEventListener(name, () => resolve(name), { once: true });
});

const modes = {
  head: (url) => modes.fetch(url, { method: 'HEAD' }),
  post: (url) => modes.fetch(url, { method: 'POST', body: 'a=1' }),
  range: (url) => modes.fetch(url, { headers: { Range: 'bytes=2-9' } }),
  async fetch(url, options) {
    const seen = {};
    let answer;
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), BOUND);
    try {
      answer = await fetch(url, { ...options, signal: stop.signal });
    } catch (error) {
      clearTimeout(timer);
      return { outcome: stop.signal.aborted ? 'hangs' : 'failed' };
    }
    seen.status = answer.status;
    seen.reason = answer.statusText;
    seen.fields = Object.fromEntries(Array.from(answer.headers, ([name, value]) => [name, short(value)]));
    seen.url = answer.redirected ? answer.url : '';
    try {
      const bytes = new Uint8Array(await answer.arrayBuffer());
      seen.length = bytes.length;
      seen.body = short(String.fromCharCode(...bytes.slice(0, MAX_TEXT))) + ' ' + hash(bytes);
      seen.outcome = 'whole';
    } catch (error) {
      seen.outcome = stop.signal.aborted ? 'hangs' : 'broken';
    }
    clearTimeout(timer);
    return seen;
  },
  xhr(url) {
    return new Promise((resolve) => {
      const request = new XMLHttpRequest();
      const seen = { events: [] };
      request.timeout = BOUND;
      request.open('GET', url);
      for (const name of ['loadstart', 'load', 'error', 'abort', 'timeout', 'loadend']) {
        request.addEventListener(name, () => seen.events.push(name));
      }
      request.addEventListener('readystatechange', () => {
        if (request.readyState === 2) { seen.status = request.status; seen.reason = request.statusText; }
      });
      request.addEventListener('load', () => {
        seen.text = short(request.responseText);
        seen.fields = Object.fromEntries(request.getAllResponseHeaders().split('\r\n').filter(Boolean).map((line) => {
          const colon = line.indexOf(':');
          return [line.slice(0, colon), short(line.slice(colon + 1).trim())];
        }));
        seen.url = request.responseURL === new URL(url, location.href).href ? '' : request.responseURL;
      });
      request.addEventListener('loadend', () => {
        if (seen.events.includes('timeout')) seen.outcome = 'hangs';
        else if (seen.events.includes('load')) seen.outcome = 'whole';
        else seen.outcome = seen.status === undefined ? 'failed' : 'broken';
        resolve(seen);
      });
      request.send();
    });
  },
  async frame(url) {
    const frame = document.createElement('iframe');
    const loaded = event(frame, ['load']);
    frame.src = url;
    document.body.append(frame);
    const done = await Promise.race([loaded, new Promise((resolve) => setTimeout(() => resolve(null), BOUND / 2))]);
    const seen = {};
    try {
      const page = frame.contentDocument;
      if (!page) throw 0;
      const navigation = frame.contentWindow.performance.getEntriesByType('navigation')[0];
      seen.outcome = page.URL === 'about:blank' ? 'failed' : 'whole';
      seen.event = done;
      seen.status = navigation && navigation.responseStatus;
      seen.charset = page.characterSet;
      seen.type = page.contentType;
      seen.mode = page.compatMode;
      seen.url = page.URL.endsWith(url) ? '' : page.URL;
      seen.title = page.title;
      seen.text = short(page.documentElement ? page.documentElement.textContent : '');
      seen.markup = short(page.documentElement ? page.documentElement.outerHTML : '');
    } catch (error) {
      seen.outcome = 'failed';
    }
    frame.remove();
    return seen;
  },
  async image(url) {
    const image = new Image();
    const done = event(image, ['load', 'error']);
    image.src = url;
    const name = await done;
    return { outcome: name === 'load' ? 'whole' : 'failed', size: image.naturalWidth + 'x' + image.naturalHeight };
  },
  async script(url, seed) {
    const script = document.createElement('script');
    const done = event(script, ['load', 'error']);
    script.src = url;
    document.body.append(script);
    const name = await done;
    script.remove();
    return { outcome: name === 'load' ? 'whole' : 'failed', ran: (window.ran || []).includes(seed) };
  },
  async style(url) {
    const link = document.createElement('link');
    const done = event(link, ['load', 'error']);
    link.rel = 'stylesheet';
    link.href = url;
    document.head.append(link);
    const name = await done;
    const seen = { outcome: name === 'load' ? 'whole' : 'failed' };
    try { seen.rules = Array.from(link.sheet.cssRules, (rule) => rule.cssText); } catch (error) { seen.rules = null; }
    link.remove();
    return seen;
  },
  async socket(url, [page, good]) {
    await new Promise((resolve) => {
      const socket = new WebSocket(good);
      socket.onopen = () => socket.close();
      socket.onclose = resolve;
    });
    const seen = { outcome: 'whole', events: [] };
    let over = false;
    const note = (...what) => { if (!over && seen.events.length < 100) seen.events.push(what.join(' ')); };
    return new Promise((resolve) => {
      // A WebSocket may stay open for ever.
      const timer = setTimeout(() => { note('still', socket.readyState); over = true; socket.close(); resolve(seen); }, BOUND / 2);
      const socket = new WebSocket(url, page.asked);
      socket.binaryType = 'arraybuffer';
      socket.onopen = () => {
        note('open', socket.protocol, socket.extensions);
        for (const size of page.sends) socket.send('a'.repeat(size));
        if (page.closes) socket.close(...page.closes);
      };
      socket.onmessage = ({ data }) => {
        if (typeof data === 'string') note('text', short(data));
        else note('bytes', data.byteLength, hash(new Uint8Array(data)));
      };
      socket.onerror = () => note('error');
      socket.onclose = ({ code, reason, wasClean }) => {
        clearTimeout(timer);
        note('close', code, reason, wasClean);
        resolve(seen);
      };
    });
  },
};

// Loads cases of [number, seed, mode, whether they set cookies, URL, what the page does with a WebSocket], so many at a time, and returns what was seen of each.
const drive = async (cases, workers) => {
  const seen = {};
  let next = 0;
  const worker = async () => {
    while (next < cases.length) {
      const [number, seed, mode, cookies, url, page] = cases[next++];
      seen[number] = await bounded(modes[mode](url, mode === 'script' ? seed : page || undefined));
      if (cookies) {
        const all = await fetch('/cookies/' + number + '/').then((answer) => answer.text()).catch(() => 'none');
        const own = (text) => text.split('; ').filter((cookie) => cookie.includes('k' + seed)).map(short).sort();
        seen[number].cookies = own(all);
        seen[number].readable = own(document.cookie);
      }
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  return seen;
};
