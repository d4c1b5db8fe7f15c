// The sites that the tests visit: one HTTP server on loopback that answers for every host name, with one path for each kind
// of page, and that writes down each request it gets. `--host-resolver-rules=MAP * 127.0.0.1` brings a.test, b.test … here.
import http from 'node:http';
import { within } from './util.mjs';

const HOSTS = ['a', 'b', 'c', 'd', 'person', 'forbidden', 'beacon'].map(name => `${name}.test`);

/** Text and attribute values alike. */
const esc = text => String(text).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);

/**
 * Each document notes what an init script left in `window.__init` *before* its own first script, and says so in
 * `window.__sawInit`; `report` makes it tell the server that its own script has run, with the same. `window.__moved` counts
 * how often the mouse moved over it.
 */
const html = (title, body, { report } = {}) => `<!doctype html><html><head><meta charset="utf-8"><title>${esc(title)}</title>
<link rel="icon" href="data:,"><script>window.__sawInit = window.__init ?? null; window.__moved = 0; addEventListener('mousemove', () => window.__moved++, true);</script></head>
<body><h1 id="title">${esc(title)}</h1>${body}
${report ? `<script>fetch('/report?at=' + encodeURIComponent(location.pathname + location.search) + '&init=' + encodeURIComponent(String(window.__sawInit)))</script>` : ''}
</body></html>`;

// The person's tab without any DevTools connection: it asks the server for expressions and posts back what they gave.
const personScript = `
window.__log = [];
for (const [target, name] of [[window, 'blur'], [window, 'focus'], [document, 'visibilitychange']])
  target.addEventListener(name, () => __log.push(name + ':' + document.visibilityState + ':' + document.hasFocus()));
(async () => {
  for (let answer = null;;) {
    const response = await fetch('/person/next', { method: 'POST', body: JSON.stringify(answer) });
    const { id, expression } = await response.json();
    try { answer = { id, value: await (0, eval)(expression) }; } catch (error) { answer = { id, error: String(error) }; }
  }
})().catch(() => {});`;

const swScript = `
self.addEventListener('install', event => event.waitUntil(self.skipWaiting()));
self.addEventListener('fetch', event => {
  const url = new URL(event.request.url);
  if (url.pathname.startsWith('/sw-made')) event.respondWith(new Response(
    '<!doctype html><title>made by a service worker</title><h1 id="title">made by a service worker</h1><script>window.__sawInit = window.__init ?? null; fetch("/report?at=sw-made&init=" + encodeURIComponent(String(window.__sawInit)))</script>',
    { headers: { 'content-type': 'text/html' } }));
});`;

export class Site {
  /** `{ host, path, url, method, headers }` of each request, in order. */
  requests = [];
  #waiters = new Set();
  #held = new Map();
  #persons = new Map();

  static async start() {
    const site = new Site();
    site.server = http.createServer((request, response) => site.#answer(request, response));
    await new Promise((resolve, reject) => site.server.once('error', reject).listen(0, '127.0.0.1', resolve));
    site.port = site.server.address().port;
    return site;
  }

  /** `url('a', '/plain', { title: 'x' })` → http://a.test:PORT/plain?title=x */
  url(name, path = '/plain', query = {}) {
    const text = new URLSearchParams(query).toString();
    return `http://${name}.test:${this.port}${path}${text ? `?${text}` : ''}`;
  }

  secureOrigins() { return HOSTS.map(host => `http://${host}:${this.port}`); }

  /** Requests that satisfy `accept`, from `since` on. */
  seen(accept, since = 0) { return this.requests.slice(since).filter(accept); }
  /** Requests to that host (a name as in `url`). */
  seenAt(name, since = 0) { return this.seen(r => r.host === `${name}.test`, since); }
  mark() { return this.requests.length; }

  /** Resolves with the first request that satisfies `accept`, also an earlier one from `since` on. */
  wait(accept, what = 'a request', since = 0) {
    const found = this.requests.slice(since).find(accept);
    if (found) return Promise.resolve(found);
    let waiter;
    return within(new Promise(resolve => {
      waiter = request => { if (accept(request)) resolve(request); };
      this.#waiters.add(waiter);
    }), () => `${what} at the site; it saw: ${this.requests.slice(since).map(r => r.host + r.url).join(' ')}`).finally(() => this.#waiters.delete(waiter));
  }

  /** Lets every request waiting at `/slow?name=…` or `/redirect?held=…` go on. */
  release(name) {
    for (const go of this.#held.get(name) ?? []) go();
    this.#held.delete(name);
  }

  #hold(name, go) {
    if (!this.#held.has(name)) this.#held.set(name, []);
    this.#held.get(name).push(go);
  }

  /** A tab at `url(name, '/person', {id})` is asked for the value of `expression`. No DevTools connection is involved. */
  ask(id, expression) {
    const person = this.#person(id);
    return within(new Promise((resolve, reject) => {
      person.queue.push({ id: person.next++, expression, resolve, reject });
      this.#serve(person);
    }), `the person's tab ${id} answering ${expression}`);
  }

  /** Resolves when the person's tab with that id has loaded and asks for work. */
  arrived(id) { return within(this.#person(id).arrived, `the person's tab ${id} arriving`); }

  #person(id) {
    let person = this.#persons.get(id);
    if (!person) {
      person = { queue: [], asked: new Map(), next: 1 };
      person.arrived = new Promise(resolve => { person.arrive = resolve; });
      this.#persons.set(id, person);
    }
    return person;
  }

  #serve(person) {
    if (!person.open || person.queue.length === 0) return;
    const { open } = person;
    person.open = undefined;
    const job = person.queue.shift();
    person.asked.set(job.id, job);
    open.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ id: job.id, expression: job.expression }));
  }

  async #answer(request, response) {
    const host = (request.headers.host ?? '').replace(/:\d+$/, '');
    const url = new URL(request.url, `http://${host || 'x'}`);
    const record = { host, path: url.pathname, url: request.url, method: request.method, headers: request.headers };
    if (url.pathname !== '/person/next') {
      this.requests.push(record);
      for (const waiter of [...this.#waiters]) waiter(record);
    }

    const q = name => url.searchParams.get(name);
    const page = (title, body, options, headers = {}) => response.writeHead(200, { 'content-type': 'text/html', 'cache-control': 'no-cache', ...headers }).end(html(title, body, options));
    // `popups?to=…` is asked for at another host by way of a frame, hence the full URL in `to`.
    switch (url.pathname) {
      case '/plain':
        return page(q('title') ?? 'plain', `<button id="b" onclick="document.getElementById('o').textContent = 'clicked'">press</button><input id="i"><p id="o">not clicked</p>
          <a id="link" href="${esc(q('to') ?? '/plain?title=linked')}">a link</a>`, { report: q('report') !== null });
      case '/with-frame':
        return page('with a frame', `<iframe id="f" style="width:600px;height:300px" src="${esc(q('src'))}"></iframe>`);
      case '/popups': {
        const to = q('to') ?? '/plain?title=popup';
        const js = esc(JSON.stringify(to));
        return page('popups', `
          <p><button id="open" onclick="window.open(${js})">window.open</button>
          <button id="features" onclick="window.open(${js}, '', 'width=300,height=300')">window with features</button>
          <button id="noopener" onclick="window.open(${js}, '', 'noopener')">noopener</button></p>
          <p><a id="blank" href="${esc(to)}" target="_blank">_blank</a> <a id="blankopener" href="${esc(to)}" target="_blank" rel="opener">_blank with opener</a>
          <a id="link" href="${esc(to)}">a plain link</a></p>
          <form action="${esc(to)}" method="post" target="_blank"><button id="form">form</button></form>`);
      }
      case '/worker':
        return page('worker', `<script>window.fromWorker = new Promise(resolve => { const w = new Worker('/worker.js'); w.onmessage = e => resolve(e.data); w.postMessage(20); });</script>`);
      case '/worker.js':
        return response.writeHead(200, { 'content-type': 'text/javascript' }).end('self.tabwardenWorker = true; onmessage = e => postMessage(e.data + 1);');
      case '/sw':
        return page('service worker', `<script>window.swReady = navigator.serviceWorker.register('/sw.js', { scope: '/sw-made/' }).then(registration => new Promise(resolve => {
          const worker = registration.installing ?? registration.waiting ?? registration.active;
          const look = () => { if (worker.state === 'activated') resolve(true); };
          worker.addEventListener('statechange', look); look(); }));</script>`);
      case '/sw.js':
        return response.writeHead(200, { 'content-type': 'text/javascript' }).end(swScript);
      case '/slow':
        return this.#hold(q('name'), () => page(q('name'), 'slow'));
      // With `held`, only once that name is released.
      case '/redirect': {
        const redirect = () => response.writeHead(302, { location: q('to') }).end();
        return q('held') === null ? redirect() : this.#hold(q('held'), redirect);
      }
      case '/204':
        return response.writeHead(204).end();
      case '/download':
        return response.writeHead(200, { 'content-type': 'application/octet-stream', 'content-disposition': `attachment; filename="${q('name') ?? 'file.bin'}"` }).end(q('text') ?? 'downloaded');
      case '/links':
        return page('links', ['download', 'mailto', 'other', 'to'].map(kind => `<a id="${kind}" href="${esc({ download: '/download?name=from-link.bin', mailto: 'mailto:someone@a.test', other: '/204', to: q('to') ?? '/plain' }[kind])}">${kind}</a>`).join(' '));
      case '/beforeunload':
        return page('beforeunload', `<button id="b">touch me first</button><script>addEventListener('beforeunload', e => { e.preventDefault(); e.returnValue = 'stay'; });</script>`);
      case '/login':
        return page('logged in', '', {}, { 'set-cookie': [`login=${q('who') ?? 'person'}; HttpOnly; Path=/; Max-Age=3600`, 'seen=1; Path=/; Max-Age=3600'] });
      case '/whoami':
        return page('who am I', `<p id="who">${esc(/(?:^|; )login=([^;]*)/.exec(request.headers.cookie ?? '')?.[1] ?? 'nobody')}</p>`);
      case '/api/value':
        return response.writeHead(200, { 'content-type': 'application/json', 'access-control-allow-origin': '*' }).end('{"value":"from the server"}');
      case '/person': {
        const id = q('id') ?? 'person';
        return page(`person ${id}`, `<script>${personScript.replace("'/person/next'", JSON.stringify(`/person/next?id=${id}`))}</script>`);
      }
      case '/person/next': {
        const person = this.#person(q('id'));
        let body = '';
        for await (const chunk of request) body += chunk;
        const answer = JSON.parse(body || 'null');
        if (answer) {
          const job = person.asked.get(answer.id);
          person.asked.delete(answer.id);
          if (answer.error) job?.reject(new Error(answer.error)); else job?.resolve(answer.value);
        }
        person.arrive();
        person.open = response;
        return this.#serve(person);
      }
      // A document, or a script, of the test's own making.
      case '/html':
        return page('made for a test', q('body') ?? '');
      case '/js':
        return response.writeHead(200, { 'content-type': 'text/javascript', 'access-control-allow-origin': '*', 'service-worker-allowed': '/' }).end(q('code') ?? '');
      case '/beacon': case '/report':
        return response.writeHead(200, { 'access-control-allow-origin': '*', 'content-type': 'text/plain' }).end('ok');
      default:
        return response.writeHead(404, { 'content-type': 'text/plain' }).end('no such page');
    }
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise(resolve => this.server.close(resolve));
  }
}

/** An init script that tells the server, *before* anything else of that document can run, that it ran there. */
export const tellingScript = (site, label) => `(() => { window.__init = ${JSON.stringify(label)}; try { if (location.protocol !== 'http:') return; const x = new XMLHttpRequest(); x.open('GET', '/beacon?init=${label}&at=' + encodeURIComponent(location.href), false); x.send(); } catch {} })();`;
