// Every way in which something can be loaded, to every place to which it may not be, judged by the log of the server: a
// forbidden place sees no byte. Isolated and shared, launched and attached.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startChromium } from './support/chromium.mjs';
import { ACCEPTED } from './support/policy.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { temporaryFolder, until } from './support/util.mjs';

let site, otherPort, policy;
const folder = temporaryFolder('tabwarden-matrix-');

before(async () => {
  [site, otherPort] = await Promise.all([Site.start(), Site.start()]);
  policy = join(folder, 'matrix.toml');
  const deny = (id, lines) => `[[rule]]\nid = "${id}"\neffect = "deny"\nverbs = ["*"]\n${lines}\nreason = "The tests say so"\n\n`;
  writeFileSync(policy, `policy = 1\nname = "matrix"\ndefault = "deny"\n
[[rule]]\nid = "web"\neffect = "allow"\nverbs = ["*"]\nto = "*"\nschemes = ["http", "https", "ws", "wss"]\nports = "*"\nlocal = true\nreason = "The web"\n\n${ACCEPTED}\n`
    + deny('host', 'to = { host = "forbidden.test" }\nports = "*"')
    + deny('port', `to = { host = "c.test" }\nports = [${otherPort.port}]`)
    + deny('path', 'to = { host = "a.test" }\npaths = ["/private/**"]\nports = "*"')
    + deny('scheme', 'to = { host = "d.test" }\nschemes = ["http"]\nports = "*"')
    + deny('literal', 'to = { ip = "127.0.0.0/8" }\nports = "*"'));
});
after(() => Promise.all([site?.stop(), otherPort?.stop()]));

/** Forbidden places: the URL at which `name` would be seen. */
const PLACES = {
  host: name => `http://forbidden.test:${site.port}/${name}`,
  port: name => `http://c.test:${otherPort.port}/${name}`,
  path: name => `http://a.test:${site.port}/private/${name}`,
  scheme: name => `http://d.test:${site.port}/${name}`,
  literal: name => `http://2130706433:${site.port}/${name}`,
};

const js = code => site.url('a', '/js', { code });
const html = body => site.url('a', '/html', { body });
const redirect = url => site.url('a', '/redirect', { to: url });
const text = JSON.stringify;

/**
 * Scripts in an allowed page at a.test that make the browser load `url`. Nothing of them is awaited: what is looked for is
 * the refusal, which names the place.
 */
const FROM_A_PAGE = {
  'location.href': url => `location.href = ${text(url)}`,
  'location.replace over a redirect': url => `location.replace(${text(redirect(url))})`,
  'a link': url => `Object.assign(document.body.appendChild(document.createElement('a')), { href: ${text(url)} }).click()`,
  'a form by GET': url => `(f => { f.action = ${text(url)}; f.submit(); })(document.body.appendChild(document.createElement('form')))`,
  'a form by POST': url => `(f => { f.method = 'post'; f.action = ${text(url)}; f.submit(); })(document.body.appendChild(document.createElement('form')))`,
  'a meta refresh': url => `location.href = ${text(html(`<meta http-equiv="refresh" content="0;url=${url}">`))}`,
  'a frame': url => `document.body.appendChild(document.createElement('iframe')).src = ${text(url)}`,
  'a frame over a redirect': url => `document.body.appendChild(document.createElement('iframe')).src = ${text(redirect(url))}`,
  'a cross-site frame that goes there': url => `document.body.appendChild(document.createElement('iframe')).src = ${text(site.url('b', '/html', { body: `<script>location.href = ${text(url)}</script>` }))}`,
  'a frame in a cross-site frame': url => `document.body.appendChild(document.createElement('iframe')).src = ${text(site.url('b', '/html', { body: `<iframe src="${url}"></iframe>` }))}`,
  'an object': url => `document.body.appendChild(document.createElement('object')).data = ${text(url)}`,
  'an embed': url => `document.body.appendChild(document.createElement('embed')).src = ${text(url)}`,
  'an image': url => `new Image().src = ${text(url)}`,
  'an image over a redirect': url => `new Image().src = ${text(redirect(url))}`,
  'a script': url => `document.head.appendChild(document.createElement('script')).src = ${text(url)}`,
  'a style sheet': url => `Object.assign(document.head.appendChild(document.createElement('link')), { rel: 'stylesheet', href: ${text(url)} })`,
  'an icon': url => `Object.assign(document.head.appendChild(document.createElement('link')), { rel: 'preload', as: 'image', href: ${text(url)} })`,
  'a background picture': url => `document.body.style.backgroundImage = 'url(${url})'`,
  'a font': url => `new FontFace('x', 'url(${url})').load().catch(() => {})`,
  'a video': url => `document.body.appendChild(document.createElement('video')).src = ${text(url)}`,
  'fetch': url => `void fetch(${text(url)}, { mode: 'no-cors' }).catch(() => {})`,
  'fetch by POST with a preflight': url => `void fetch(${text(url)}, { method: 'PUT', headers: { 'x-a': '1' } }).catch(() => {})`,
  'fetch over a redirect': url => `void fetch(${text(redirect(url))}, { mode: 'no-cors' }).catch(() => {})`,
  'fetch with keepalive': url => `void fetch(${text(url)}, { mode: 'no-cors', keepalive: true }).catch(() => {})`,
  'XMLHttpRequest': url => `(x => { x.open('GET', ${text(url)}); x.send(); })(new XMLHttpRequest())`,
  'a beacon': url => `void navigator.sendBeacon(${text(url)}, 'x')`,
  'a ping': url => `Object.assign(document.body.appendChild(document.createElement('a')), { href: '#here', ping: ${text(url)} }).click()`,
  'an event source': url => `void new EventSource(${text(url)})`,
  'a module': url => `void import(${text(url)}).catch(() => {})`,
  'a frame without a document of its own': url => `document.body.appendChild(document.createElement('iframe')).contentWindow.fetch(${text(url)}, { mode: 'no-cors' }).catch(() => {}), 0`,
  'a srcdoc frame': url => `document.body.appendChild(document.createElement('iframe')).srcdoc = ${text(`<img src="${url}">`)}`,
  'a data: frame': url => `document.body.appendChild(document.createElement('iframe')).src = ${text(`data:text/html,<img src="${url}">`)}`,
  'a blob: frame': url => `document.body.appendChild(document.createElement('iframe')).src = URL.createObjectURL(new Blob([${text(`<img src="${url}">`)}], { type: 'text/html' }))`,
  'a cross-site frame\'s fetch': url => `document.body.appendChild(document.createElement('iframe')).src = ${text(site.url('b', '/html', { body: `<script>fetch(${text(url)}, { mode: 'no-cors' }).catch(() => {})</script>` }))}`,
  'a worker\'s fetch': url => `void new Worker(${text(js(`fetch(${text(url)}, { mode: 'no-cors' }).catch(() => {})`))})`,
  'a worker\'s import': url => `void new Worker(${text(js(`try { importScripts(${text(url)}) } catch {}`))})`,
  'a worker from a blob': url => `void new Worker(URL.createObjectURL(new Blob([${text(`fetch(${text(url)}, { mode: 'no-cors' }).catch(() => {})`)}])))`,
  'window.open': url => `void window.open(${text(url)})`,
  'window.open over a redirect': url => `void window.open(${text(redirect(url))})`,
  'window.open with noopener': url => `void window.open(${text(url)}, '', 'noopener')`,
  'a link to a new tab': url => `Object.assign(document.body.appendChild(document.createElement('a')), { href: ${text(url)}, target: '_blank' }).click()`,
  'a form to a new tab': url => `(f => { f.action = ${text(url)}; f.target = '_blank'; f.submit(); })(document.body.appendChild(document.createElement('form')))`,
  'a popup that goes there': url => `(w => { w.location = ${text(url)}; })(window.open('about:blank'))`,
  'a popup\'s fetch': url => `window.open('about:blank').fetch(${text(url)}, { mode: 'no-cors' }).catch(() => {}), 0`,
};

/** What goes on when its page is closed. */
const LIVES_ON = {
  'fetch with keepalive': FROM_A_PAGE['fetch with keepalive'],
  'a beacon': FROM_A_PAGE['a beacon'],
  'a ping': FROM_A_PAGE['a ping'],
  'a cross-site frame': url => `document.body.appendChild(document.createElement('iframe')).src = ${text(site.url('b', '/html', { body: `<script>fetch(${text(url)}, { mode: 'no-cors', keepalive: true }).catch(() => {})</script>` }))}`,
  'a frame that is gone': url => `(f => { f.contentWindow.fetch(${text(url)}, { mode: 'no-cors', keepalive: true }).catch(() => {}); f.remove(); })(document.body.appendChild(document.createElement('iframe')))`,
};

const ANSWERING = `self.addEventListener('install', e => e.waitUntil(self.skipWaiting())); self.addEventListener('fetch', e => e.respondWith(new Response('made')))`;

/** Only where workers are the task's own: the profile's serve the person too. */
const BY_OWN_WORKERS = {
  'a service worker\'s fetch': url => `navigator.serviceWorker.register(${text(js(`self.addEventListener('install', e => e.waitUntil(fetch(${text(url)}, { mode: 'no-cors' }).catch(() => {})))`))}, { scope: '/js' }), 0`,
  'a service worker\'s import': url => `navigator.serviceWorker.register(${text(js(`try { importScripts(${text(url)}) } catch {}`))}, { scope: '/js' }), 0`,
  'a service worker that answers for it': url => `navigator.serviceWorker.register(${text(js(ANSWERING))}, { scope: '/private/' }).then(({ installing, waiting, active }) => { const worker = installing ?? waiting ?? active; const go = () => worker.state === 'activated' && (location.href = ${text(url)}); worker.onstatechange = go; go(); }), 0`,
  'a shared worker\'s fetch': url => `void new SharedWorker(${text(js(`fetch(${text(url)}, { mode: 'no-cors' }).catch(() => {})`))})`,
  'a shared worker\'s import': url => `void new SharedWorker(${text(js(`try { importScripts(${text(url)}) } catch {}`))})`,
};

/** By commands of the client's own: `at` is an allowed page, attached. */
const BY_A_CLIENT = {
  'Page.navigate': async (raw, at, url) => raw.send('Page.navigate', { url }, at.sessionId).catch(() => {}),
  'Page.navigate over a redirect': async (raw, at, url) => raw.send('Page.navigate', { url: redirect(url) }, at.sessionId),
  'Target.createTarget': async (raw, at, url) => raw.send('Target.createTarget', { url }).catch(() => {}),
  'Target.createTarget over a redirect': async (raw, at, url) => raw.send('Target.createTarget', { url: redirect(url) }),
  'history': async (raw, at, url) => {
    const failed = since => raw.wait('Page.frameNavigated', { since, sessionId: at.sessionId, accept: p => p.frame.url.startsWith('chrome-error:') });
    let since = raw.mark();
    await raw.evaluate(`location.href = ${text(url)}; 0`, at.sessionId);
    await failed(since);
    await raw.goto(site.url('b', '/plain'), at.sessionId);
    since = raw.mark();
    await raw.evaluate('void setTimeout(() => history.back())', at.sessionId);
    await failed(since);
  },
  'a request rewritten by continueRequest': async (raw, at, url) => {
    await raw.send('Fetch.enable', { patterns: [{ urlPattern: '*rewrite-me*' }] }, at.sessionId);
    await raw.evaluate(`void fetch('/rewrite-me').catch(() => {})`, at.sessionId);
    const { params } = await raw.wait('Fetch.requestPaused', { since: 0, sessionId: at.sessionId });
    await raw.send('Fetch.continueRequest', { requestId: params.requestId, url }, at.sessionId).catch(() => {});
  },
  'a redirect made up by fulfillRequest': async (raw, at, url) => {
    await raw.send('Fetch.enable', { patterns: [{ urlPattern: '*fulfil-me*' }] }, at.sessionId);
    await raw.evaluate(`void fetch('/fulfil-me', { mode: 'no-cors' }).catch(() => {})`, at.sessionId);
    const { params } = await raw.wait('Fetch.requestPaused', { since: 0, sessionId: at.sessionId });
    await raw.send('Fetch.fulfillRequest', { requestId: params.requestId, responseCode: 302, responseHeaders: [{ name: 'Location', value: url }] }, at.sessionId).catch(() => {});
  },
};

const FEW = ['location.href', 'history', 'a service worker that answers for it', 'a frame over a redirect', 'an image', 'fetch over a redirect', 'a worker\'s fetch', 'window.open with noopener', 'Page.navigate', 'Target.createTarget', 'a request rewritten by continueRequest'];

/** A few at a time. */
async function inBatches(items, each, size = 6) {
  for (let at = 0; at < items.length; at += size) await Promise.all(items.slice(at, at + size).map(each));
}

const everywhere = () => [...site.requests, ...otherPort.requests].map(request => request.host + request.url);

function matrix(kind, { attached }) {
  let server, browser;
  before(async () => {
    browser = attached ? await startChromium({ site, url: 'about:blank' }) : undefined;
    server = await serve({ site, attach: browser, tasks: [`isolated,policy=${policy}`, `shared,context=shared,policy=${policy}`, `ended,context=shared,policy=${policy}`] });
  });
  after(async () => {
    await server?.stop();
    await browser?.close();
  });

  for (const task of ['isolated', 'shared']) {
    for (const [place, at] of Object.entries(PLACES)) {
      test(`${kind}, ${task}: ${place}`, async t => {
        const raw = await server.connect(task);
        t.after(() => raw.close());
        // What is forbidden about a place is looked at in one way for all initiators, and the gates of an attached browser are
        // those of a launched one: the other places, and the attached ones, are tried by a few.
        const tried = place === 'host' && !attached ? () => true : name => FEW.includes(name);
        const initiators = { ...FROM_A_PAGE, ...(task === 'isolated' ? BY_OWN_WORKERS : {}), ...BY_A_CLIENT };
        let count = 0;
        const cells = Object.keys(initiators).filter(tried).map(name => [name, `${kind}-${task}-${place}-${++count}`]);
        const refused = marker => server.stderr.includes(`/${marker} denied`);
        await inBatches(cells, async ([name, marker]) => {
          const page = await raw.newPage(site.url('a', '/plain'));
          if (name in BY_A_CLIENT) await BY_A_CLIENT[name](raw, page, at(marker));
          else await raw.send('Runtime.evaluate', { expression: initiators[name](at(marker)), userGesture: true }, page.sessionId).catch(error => { if (error.code !== -32000) throw error; });
          await until(() => refused(marker) || everywhere().some(seen => seen.endsWith(`/${marker}`)), `${name}: a refusal`);
          await raw.send('Target.closeTarget', { targetId: page.targetId });
        });
        const seen = everywhere().filter(url => cells.some(([, marker]) => url.endsWith(`/${marker}`)));
        assert.deepEqual(seen.map(url => cells.find(([, marker]) => url.endsWith(`/${marker}`))[0]), []);
      });
    }
  }

  // A page that is closed has no session left whose `Fetch` could stop what it has begun. (With an isolated task's context,
  // which ends with it, all of its requests end.)
  const close = (raw, page) => raw.send('Target.closeTarget', { targetId: page.targetId });
  const endTask = async (raw, page, task) => assert.equal((await server.api('DELETE', `/tasks/${task}`)).status, 204);
  for (const [task, what, end] of [['isolated', 'a page that was closed', close], ['shared', 'a page that was closed', close], ['ended', 'a page whose task was ended', endTask]]) {
    test(`${kind}, ${task}: what ${what} has begun goes on, and not to a forbidden place`, async t => {
      const raw = await server.connect(task);
      t.after(() => raw.close());
      const page = await raw.newPage(site.url('a', '/plain'));
      const held = `${kind}-${task}-lives-on`;
      const begin = async (name, to) => {
        await raw.send('Runtime.evaluate', { expression: LIVES_ON[name](site.url('a', '/redirect', { to, held })), userGesture: true }, page.sessionId);
        await site.wait(request => request.path === '/redirect' && request.url.includes(encodeURIComponent(to)), name);
      };
      const names = Object.keys(LIVES_ON);
      for (const [nth, name] of names.entries()) await begin(name, PLACES.host(`${held}-${nth}`));
      await begin('fetch with keepalive', site.url('b', `/${held}-allowed`));
      await end(raw, page, task);
      await until(async () => !(await server.api('GET', `/tasks/${task}`)).body.pages?.some(known => known.target_id === page.targetId), 'the page being gone');
      site.release(held);
      await site.wait(request => request.path === `/${held}-allowed`, 'the allowed one');
      for (const [nth, name] of names.entries()) await until(() => server.stderr.includes(`/${held}-${nth} denied`), `${name}: a refusal`);
      assert.deepEqual(everywhere().filter(url => url.startsWith('forbidden.test/') && url.includes(held)), []);
    });
  }

  for (const [by, script] of Object.entries({
    'a page': url => `new WebSocket(${text(url)}), 0`,
    'a cross-site frame': url => `document.body.appendChild(document.createElement('iframe')).src = ${text(site.url('b', '/html', { body: `<script>new WebSocket(${text(url)})</script>` }))}`,
    'a worker': url => `void new Worker(${text(js(`new WebSocket(${text(url)})`))})`,
  })) {
    test(`${kind}: a socket of ${by} to a forbidden place stops the page`, async t => {
      const raw = await server.connect('isolated');
      t.after(() => raw.close());
      const page = await raw.newPage(site.url('a', '/plain'));
      await raw.send('Log.enable', {}, page.sessionId);
      const since = raw.mark();
      await raw.send('Runtime.evaluate', { expression: script(`ws://forbidden.test:${site.port}/socket`) }, page.sessionId);
      await raw.wait('Page.frameNavigated', { since, sessionId: page.sessionId, accept: p => p.frame.id === page.targetId && p.frame.url === 'about:blank' });
      const { params } = await raw.wait('Log.entryAdded', { since, sessionId: page.sessionId });
      assert.match(params.entry.text, /^tabwarden: websocket ws:\/\/forbidden\.test:\d+\/socket denied by rule host \(.*leaked_handshake/);
    });
  }

  if (!attached) test(`${kind}: the same things reach an allowed place`, async t => {
    const raw = await server.connect('isolated');
    t.after(() => raw.close());
    let count = 0;
    await inBatches(Object.entries({ ...FROM_A_PAGE, ...BY_OWN_WORKERS }), async ([name, script]) => {
      const marker = `allowed-${kind}-${++count}`;
      const page = await raw.newPage(site.url('a', '/plain'));
      await raw.send('Runtime.evaluate', { expression: script(site.url('b', `/${marker}`)), userGesture: true }, page.sessionId).catch(error => { if (error.code !== -32000) throw error; });
      await until(() => site.seenAt('b').some(request => request.path === `/${marker}`), `${name}: an allowed load`);
      await raw.send('Target.closeTarget', { targetId: page.targetId });
    });
  });
}

describe('the matrix, launched', router, () => matrix('launched', { attached: false }));
describe('the matrix, attached', router, () => matrix('attached', { attached: true }));
