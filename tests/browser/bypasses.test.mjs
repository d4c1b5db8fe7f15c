// Ways around a policy that somebody found: each as it was done, and that it does not work any more.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ACCEPTED } from './support/policy.mjs';
import { CdpError } from './support/raw.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { temporaryFolder, until } from './support/util.mjs';

let site, server;
const folder = temporaryFolder('tabwarden-bypasses-');
const text = JSON.stringify;

function policy(name, ...denials) {
  const path = join(folder, `${name}.toml`);
  const rules = denials.map(([id, verbs, lines]) => `[[rule]]\nid = "${id}"\neffect = "deny"\nverbs = ${verbs}\n${lines}\nports = "*"\nreason = "The tests say so"\n`);
  writeFileSync(path, `policy = 1\nname = "${name}"\ndefault = "deny"\n
[[rule]]\nid = "web-${name}"\neffect = "allow"\nverbs = ["*"]\nto = "*"\nschemes = ["http", "https", "ws", "wss"]\nports = "*"\nlocal = true\nreason = "The web"\n
${ACCEPTED}\n${rules.join('\n')}`);
  return path;
}

before(async () => {
  site = await Site.start();
  const places = policy('places', ['host', '["*"]', 'to = { host = "forbidden.test" }'], ['path', '["*"]', 'to = { host = "a.test" }\npaths = ["/private/**"]']);
  const unread = policy('unread', ['unread', '["read", "script"]', 'to = { host = "b.test" }'], ['unread-path', '["read", "script"]', 'to = { host = "a.test" }\npaths = ["/html"]']);
  server = await serve({ site, tasks: ['open', ...['isolated', 'shared'].flatMap(kind => [`${kind},context=${kind},policy=${places}`, `${kind}-unread,context=${kind},policy=${unread}`])] });
});
after(async () => {
  await server?.stop();
  await site?.stop();
});

const forbidden = marker => `http://forbidden.test:${site.port}/${marker}`;
const refusal = pattern => error => error instanceof CdpError && error.code === -32000 && pattern.test(error.text);
const run = (raw, page, expression) => raw.send('Runtime.evaluate', { expression, userGesture: true, awaitPromise: true, returnByValue: true }, page.sessionId);
const shown = page => server.task(page.task).then(task => task.pages.find(known => known.target_id === page.targetId));

describe('requests to a forbidden place', router, () => {
  test('a proxy server of the client\'s choice would be asked for everything', async t => {
    const raw = await server.connect('isolated');
    t.after(() => raw.close());
    await assert.rejects(raw.send('Target.createBrowserContext', { proxyServer: `http://forbidden.test:${site.port}` }), refusal(/a proxy server is asked for everything/));
    await raw.send('Target.createBrowserContext', { proxyServer: '' });
    const open = await server.connect('open');
    t.after(() => open.close());
    await open.send('Target.createBrowserContext', { proxyServer: 'http://127.0.0.1:1' });
  });

  for (const task of ['isolated', 'shared']) {
    test(`${task}: a page that names itself something forbidden is stopped, and not let go with its scripts`, async t => {
      const raw = await server.connect(task);
      t.after(() => raw.close());
      const page = { ...await raw.newPage(site.url('a')), task };
      await run(raw, page, `setInterval(() => fetch(${text(forbidden(`named-${task}`))}, { mode: 'no-cors' }).catch(() => {}), 20); 0`);
      const since = raw.mark();
      raw.post('Runtime.evaluate', { expression: `history.pushState({}, '', '/private/x')` }, page.sessionId);
      await raw.wait('Page.frameNavigated', { since, sessionId: page.sessionId, accept: p => p.frame.url === 'about:blank' });
      await until(async () => (await shown(page)).url === 'about:blank', 'the page being known to be there, and the task\'s');
      assert.deepEqual(site.seenAt('forbidden').filter(request => request.path.includes('named')), []);
    });

    test(`${task}: a popup is not let go while its opener could send it on`, async t => {
      const raw = await server.connect(task);
      t.after(() => raw.close());
      const page = { ...await raw.newPage(site.url('a')), task };
      const marker = `within-reach-${task}`;
      const evil = site.url('b', '/html', { body: `<script>fetch(${text(forbidden(`${marker}-evil`))}, { mode: 'no-cors' }).catch(() => {})</script>` });
      // A load that nobody of the task's seems to have asked for.
      await run(raw, page, `new Promise(resolve => { window.w = window.open('/plain'); w.onload = resolve; }).then(() => Object.assign(w.document.body.appendChild(w.document.createElement('a')), { href: ${text(site.url('a', '/redirect', { to: forbidden(marker) }))}, download: '' }).click())`);
      await until(() => server.stderr.includes(`/${marker} denied`), 'the load being refused');
      assert.equal((await server.pageIds(task)).length > 1, true, 'the popup is the task\'s still');
      await run(raw, page, `w.location = ${text(evil)}; 0`);
      await until(() => server.stderr.includes(`/${marker}-evil denied`), 'its document being gated');
      assert.deepEqual(site.seenAt('forbidden').filter(request => request.path.includes(marker)), []);
    });

    test(`${task}: a download that is redirected and so becomes a load`, async t => {
      const raw = await server.connect(task);
      t.after(() => raw.close());
      const page = await raw.newPage(site.url('a'));
      const marker = `downloaded-${task}`;
      await run(raw, page, `Object.assign(document.body.appendChild(document.createElement('a')), { href: ${text(site.url('a', '/redirect', { to: forbidden(marker) }))}, download: '' }).click()`);
      await until(() => server.stderr.includes(`/${marker} denied`), 'a refusal');
      // What would have come after the refusal is before this.
      await (await raw.newPage(site.url('c', `/plain?after=${marker}`)));
      assert.deepEqual(site.seenAt('forbidden').filter(request => request.path === `/${marker}`), []);
    });
  }

  test('an address that is dropped on a page would open in a tab of the person\'s', async t => {
    const raw = await server.connect('shared');
    t.after(() => raw.close());
    const page = await raw.newPage(site.url('a'));
    for (const item of [{ mimeType: 'text/uri-list', data: forbidden('dropped') }, { mimeType: 'Text/Plain', data: `\n ${forbidden('dropped')}` }, { mimeType: 'text/x-moz-url', data: 'x' }]) {
      await assert.rejects(raw.send('Input.dispatchDragEvent', { type: 'drop', x: 5, y: 5, data: { items: [item], dragOperationsMask: 1 } }, page.sessionId), refusal(/would open in a tab of the person's/));
    }
    await raw.send('Input.dispatchDragEvent', { type: 'dragEnter', x: 5, y: 5, data: { items: [{ mimeType: 'text/plain', data: 'note: words' }], dragOperationsMask: 1 } }, page.sessionId);
  });

  test('a service worker\'s navigation preload for a cross-site frame, and for a popup', async t => {
    const raw = await server.connect('isolated');
    t.after(() => raw.close());
    const worker = `self.addEventListener('install', e => e.waitUntil(self.skipWaiting())); self.addEventListener('activate', e => e.waitUntil(self.registration.navigationPreload.enable())); self.addEventListener('fetch', e => e.respondWith((async () => { try { await e.preloadResponse; } catch {} return new Response('made'); })()));`;
    const register = `navigator.serviceWorker.register(${text(site.url('a', '/js', { code: worker }))}, { scope: '/private/z/' }).then(({ installing, waiting, active }) => { const worker = installing ?? waiting ?? active; const go = () => { if (worker.state === 'activated') { window.open('/private/z/popup'); location.href = '/private/z/frame'; } }; worker.onstatechange = go; go(); })`;
    const page = await raw.newPage(site.url('b', '/html', { body: `<iframe src="${site.url('a', '/html', { body: `<script>${register}</script>` })}"></iframe>` }));
    await until(() => server.stderr.includes('/private/z/frame denied'), 'the frame being refused');
    await run(raw, page, `window.open(${text(site.url('a', '/private/z/other'))}, '', 'noopener'); 0`);
    await until(() => server.stderr.includes('/private/z/other denied'), 'the popup being refused');
    assert.deepEqual(site.seen(request => request.path.startsWith('/private/z/')), []);
  });
});

describe('documents that may not be read', router, () => {
  const UNREAD = /^tabwarden: (read|script) at http:\/\/b\.test:\d+\/\S* denied by rule unread /;
  for (const kind of ['isolated', 'shared']) {
    test(`${kind}: nor may their bodies, at a pause or when they are gone`, async t => {
      const raw = await server.connect(`${kind}-unread`);
      t.after(() => raw.close());
      const page = await raw.newPage(site.url('a'));
      await raw.send('Network.enable', { enableDurableMessages: true, maxTotalBufferSize: 1e7 }, page.sessionId);
      await raw.send('Fetch.enable', { patterns: [{ urlPattern: '*b.test*', requestStage: 'Response' }] }, page.sessionId);
      const since = raw.mark();
      const going = raw.send('Page.navigate', { url: site.url('b', '/whoami') }, page.sessionId);
      const { params: { requestId, networkId } } = await raw.wait('Fetch.requestPaused', { since, sessionId: page.sessionId });
      await assert.rejects(raw.send('Fetch.getResponseBody', { requestId }, page.sessionId), refusal(UNREAD));
      await assert.rejects(raw.send('Fetch.takeResponseBodyAsStream', { requestId }, page.sessionId), refusal(UNREAD));
      await raw.send('Fetch.continueRequest', { requestId }, page.sessionId);
      await going;
      await raw.send('Fetch.disable', {}, page.sessionId);
      const back = raw.mark();
      const { loaderId } = await raw.send('Page.navigate', { url: site.url('a') }, page.sessionId);
      await raw.wait('Page.lifecycleEvent', { since: back, sessionId: page.sessionId, accept: p => p.name === 'load' && p.loaderId === loaderId });
      await assert.rejects(raw.send('Network.getResponseBody', { requestId: networkId }, page.sessionId), refusal(UNREAD));
      await assert.rejects(raw.send('Network.searchInResponseBody', { requestId: networkId, query: 'who' }, page.sessionId), refusal(UNREAD));
      // Its own page's it may.
      const own = raw.events.findLast(event => event.method === 'Network.requestWillBeSent' && event.params.documentURL.startsWith(site.url('a')));
      assert.match((await raw.send('Network.getResponseBody', { requestId: own.params.requestId }, page.sessionId)).body, /<title>plain/);
    });

    test(`${kind}: nor under another address, by a rewritten request`, async t => {
      const raw = await server.connect(`${kind}-unread`);
      t.after(() => raw.close());
      const page = await raw.newPage(site.url('a'));
      await raw.send('Fetch.enable', { patterns: [{ urlPattern: '*rewrite-me*' }] }, page.sessionId);
      for (const url of [site.url('b', '/whoami'), site.url('a', '/html', { body: 'x' })]) {
        const since = raw.mark();
        const going = raw.send('Page.navigate', { url: site.url('a', '/rewrite-me') }, page.sessionId);
        const { params: { requestId } } = await raw.wait('Fetch.requestPaused', { since, sessionId: page.sessionId });
        await assert.rejects(raw.send('Fetch.continueRequest', { requestId, url }, page.sessionId), refusal(/^tabwarden: read at .* denied by rule unread/));
        assert.match((await going).errorText, /ERR_BLOCKED_BY_CLIENT/);
      }
    });

    test(`${kind}: nor as about:blank, which has the origin of whoever went there`, async t => {
      const raw = await server.connect(`${kind}-unread`);
      t.after(() => raw.close());
      await raw.send('Target.setDiscoverTargets', { discover: true });
      const page = await raw.newPage(site.url('a'));
      const since = raw.mark();
      await raw.send('Runtime.enable', {}, page.sessionId);
      await run(raw, page, `window.open(${text(site.url('b', '/html', { body: `<script>document.title = 'there'; onload = () => setTimeout(() => { location.href = 'about:blank#gone'; })</script>` }))}); 0`);
      const { params: { targetInfo: { targetId } } } = await raw.wait('Target.targetInfoChanged', { since, accept: p => p.targetInfo.url === 'about:blank#gone' });
      const { sessionId } = await raw.send('Target.attachToTarget', { targetId, flatten: true });
      await assert.rejects(raw.send('Runtime.evaluate', { expression: 'origin' }, sessionId), refusal(/denied by rule unread|which one this would meet is not known/));
      await assert.rejects(raw.send('DOM.getDocument', {}, sessionId), refusal(UNREAD));
      // A blank page of its own is its own.
      const blank = await raw.newPage();
      assert.ok(await raw.send('DOM.getDocument', {}, blank.sessionId));
    });

    test(`${kind}: nor scripted by a reload that is redirected`, async t => {
      const raw = await server.connect(`${kind}-unread`);
      t.after(() => raw.close());
      const page = await raw.newPage(site.url('a'));
      await assert.rejects(raw.send('Page.reload', { scriptToEvaluateOnLoad: 'window.x = 1' }, page.sessionId), refusal(/would run in every document to come/));
      // Said twice: which one Chromium takes is not for us to guess.
      const answered = new Promise(resolve => { raw.strays.push = stray => resolve(stray); });
      raw.sendText(`{"id":900001,"method":"Page.reload","sessionId":${text(page.sessionId)},"params":{"scriptToEvaluateOnLoad":"window.x = 1","scriptToEvaluateOnLoad":""}}`);
      assert.match((await answered).error?.message ?? 'no error', /duplicate field/);
      await raw.send('Page.reload', {}, page.sessionId);
    });
  }

  test('nor by a fetch of the browser\'s', async t => {
    const raw = await server.connect('isolated-unread');
    t.after(() => raw.close());
    const page = await raw.newPage(site.url('a'));
    await assert.rejects(raw.send('Network.loadNetworkResource', { frameId: page.targetId, url: site.url('b', '/whoami'), options: { disableCache: true, includeCredentials: true } }, page.sessionId), refusal(/or not to read all of it/));
  });
});
