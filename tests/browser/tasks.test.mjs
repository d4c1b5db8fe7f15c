// Several tasks in one attached browser, beside the person: none sees, reaches or outlasts what is not its own.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { startChromium } from './support/chromium.mjs';
import { Person } from './support/person.mjs';
import { Raw } from './support/raw.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { ended, ownProcess, until, within } from './support/util.mjs';

const NEVER_EXISTED = 'DEADBEEFDEADBEEFDEADBEEFDEADBEEF';
const UNKNOWN_TARGET = { code: -32000, text: 'Unknown targetId' };
const UNKNOWN_SESSION = { code: -32001, text: 'Session with given id not found.' };
const UNKNOWN_FRAME = { code: -32000, text: 'No frame with given id found' };
const unknownContext = id => ({ code: -32000, text: `Failed to find browser context with id ${id}` });
const said = ({ code, text }) => ({ code, text });

describe('several tasks and a person in one browser', router, () => {
  let site, browser, person, server;
  const tabs = {};

  before(async () => {
    site = await Site.start();
    browser = await startChromium({ site });
    person = await Person.of(browser);
    tabs.person = await person.openTab(site.url('person', '/with-frame', { src: site.url('b', '/plain', { title: 'in the person\'s tab' }) }));
    server = await serve({ attach: browser, site, record: true, tasks: ['alice', 'bob', 'carol,context=shared'] });
  });
  after(async () => {
    await server?.stop();
    await person?.close();
    await browser?.close();
    await site?.stop();
  });

  /** A raw client of that task with a page at a site of its own, closed at the end of the test. */
  async function client(t, name, url = site.url('a', '/plain', { title: `page of ${name}` })) {
    const raw = await server.connect(name);
    const page = await raw.newPage(url);
    t.after(async () => {
      if (!raw.isClosed) await raw.send('Target.closeTarget', { targetId: page.targetId }).catch(() => {});
      await raw.close();
    });
    return { raw, page };
  }

  /** Ids of everything in the browser that is neither in `own` nor a frame below one of those, as the person sees it. */
  async function foreignIds(own) {
    const all = (await person.targets()).filter(info => info.type !== 'browser');
    return all.filter(info => !own.includes(info.targetId) && !own.includes(info.parentId) && !own.includes(info.parentFrameId)).map(info => info.targetId);
  }

  test('a listing holds the task\'s own pages and nothing else, however it is asked for', async t => {
    const own = {};
    const clients = {};
    for (const name of ['alice', 'bob', 'carol']) {
      clients[name] = await client(t, name, site.url('a', '/with-frame', { src: site.url('b', '/plain', { title: `frame of ${name}` }) }));
    }
    for (const name of ['alice', 'bob', 'carol']) own[name] = await server.pageIds(name);
    for (const [name, { raw, page }] of Object.entries(clients)) {
      const since = raw.mark();
      await raw.send('Target.setDiscoverTargets', { discover: true, filter: [{}] });
      const [root, onPage] = [await raw.send('Target.getTargets'), await raw.send('Target.getTargets', { filter: [{}] }, page.sessionId)];
      const created = raw.seen('Target.targetCreated', since).map(e => e.params.targetInfo);
      const list = await (await fetch(`${server.tasks[name].http_url.replace(/\/$/, '')}/json/list`)).json();
      for (const [how, infos] of Object.entries({ root: root.targetInfos, page: onPage.targetInfos, discovery: created, list: list.map(e => ({ ...e, targetId: e.id })) })) {
        const pages = infos.filter(info => info.type === 'page').map(info => info.targetId).sort();
        assert.deepEqual(pages, [...own[name]].sort(), `${how} of ${name}`);
        assert.deepEqual(infos.filter(info => !['page', 'iframe', 'worker', 'browser'].includes(info.type)), [], `${how} of ${name}`);
      }
      await raw.send('Target.setDiscoverTargets', { discover: false });
    }
    for (const a of Object.keys(own)) for (const b of Object.keys(own)) if (a !== b) assert.deepEqual(own[a].filter(id => own[b].includes(id)), []);
  });

  test('attaching to, showing, closing and activating what is foreign fails as if it had never existed', async t => {
    const { raw, page } = await client(t, 'alice');
    await client(t, 'bob');
    await client(t, 'carol');
    const own = await server.pageIds('alice');
    const before = (await person.targets()).map(info => info.targetId).sort();
    const foreign = await foreignIds(own);
    assert.ok(foreign.includes(tabs.person.targetId) && foreign.length >= 4, 'there is something foreign to try');
    for (const targetId of [...foreign, NEVER_EXISTED]) {
      for (const sessionId of [undefined, page.sessionId]) {
        for (const [method, more] of [['Target.attachToTarget', { flatten: true }], ['Target.getTargetInfo', {}], ['Target.closeTarget', {}], ['Target.activateTarget', {}]]) {
          assert.deepEqual(said(await raw.refused(method, { targetId, ...more }, sessionId)), UNKNOWN_TARGET, `${method} of ${targetId} on ${sessionId ? 'a page session' : 'the root'}`);
        }
      }
    }
    assert.deepEqual((await person.targets()).map(info => info.targetId).sort(), before, 'nothing was closed or opened');
  });

  test('a session of another client, and one that never was, are not found', async t => {
    const alice = await client(t, 'alice');
    const bob = await client(t, 'bob');
    for (const sessionId of [bob.page.sessionId, tabs.person.sessionId, NEVER_EXISTED]) {
      for (const [method, params] of [['Runtime.evaluate', { expression: 'document.title' }], ['Page.navigate', { url: site.url('c') }], ['Target.getTargets', {}]]) {
        assert.deepEqual(said(await alice.raw.refused(method, params, sessionId)), UNKNOWN_SESSION);
      }
    }
    assert.equal(await bob.raw.evaluate('document.title', bob.page.sessionId), 'page of bob');
  });

  test('navigating another\'s page or the person\'s by its frame fails', async t => {
    const { raw, page } = await client(t, 'alice');
    const bob = await client(t, 'bob');
    for (const frameId of [bob.page.targetId, tabs.person.targetId, NEVER_EXISTED]) {
      assert.deepEqual(said(await raw.refused('Page.navigate', { frameId, url: site.url('c') }, page.sessionId)), UNKNOWN_FRAME);
    }
    assert.equal(await bob.raw.evaluate('document.title', bob.page.sessionId), 'page of bob');
    assert.equal(await person.evaluate(tabs.person, 'document.title'), 'with a frame');
  });

  test('another\'s browser context is not found, whatever is asked of it', async t => {
    const alice = await client(t, 'alice');
    const bob = await client(t, 'bob');
    const { browserContextId: bobs } = await bob.raw.send('Target.createBrowserContext');
    const hidden = [...(await person.raw.send('Target.getBrowserContexts')).browserContextIds, bobs, NEVER_EXISTED];
    const mine = (await alice.raw.send('Target.getTargets')).targetInfos.map(info => info.browserContextId);
    for (const browserContextId of new Set(hidden)) {
      if (mine.includes(browserContextId)) continue;
      for (const [method, params] of [['Target.createTarget', { url: 'about:blank' }], ['Target.disposeBrowserContext', {}], ['Storage.getCookies', {}], ['Storage.clearCookies', {}], ['Browser.grantPermissions', { permissions: ['geolocation'] }]]) {
        assert.deepEqual(said(await alice.raw.refused(method, { ...params, browserContextId })), unknownContext(browserContextId), method);
      }
    }
    const { browserContextIds } = await alice.raw.send('Target.getBrowserContexts');
    assert.deepEqual(browserContextIds.filter(id => hidden.includes(id) && !mine.includes(id)), []);
    await bob.raw.send('Target.createTarget', { url: 'about:blank', browserContextId: bobs });
    await bob.raw.send('Target.disposeBrowserContext', { browserContextId: bobs });
  });

  test('a page that was the task\'s own and is gone is told in Chromium\'s words', async t => {
    const { raw } = await client(t, 'alice');
    const { targetId, sessionId } = await raw.newPage();
    const gone = raw.wait('Target.detachedFromTarget', { accept: p => p.sessionId === sessionId });
    await raw.send('Target.closeTarget', { targetId });
    await gone;
    assert.deepEqual(said(await raw.refused('Target.attachToTarget', { targetId, flatten: true })), { code: -32602, text: 'No target with given id found' });
    assert.deepEqual(said(await raw.refused('Runtime.evaluate', { expression: '1' }, sessionId)), UNKNOWN_SESSION);
  });

  test('a command in flight on a page that closes gets its one answer', async t => {
    const { raw } = await client(t, 'alice');
    const { targetId, sessionId } = await raw.newPage(site.url('a'));
    const never = raw.post('Runtime.evaluate', { expression: 'new Promise(() => {})', awaitPromise: true }, sessionId);
    await raw.send('Runtime.evaluate', { expression: '1' }, sessionId);
    await raw.send('Target.closeTarget', { targetId });
    await assert.rejects(within(never.answer, 'an answer to the command in flight'), error => error.code !== undefined);
    assert.deepEqual(raw.strays, []);
  });

  test('an isolated task has none of the profile\'s cookies, a shared one that was not there does not see them and cannot change them', async t => {
    await person.raw.send('Storage.setCookies', { cookies: [{ name: 'login', value: 'person', url: site.url('person'), httpOnly: true }] });
    const alice = await client(t, 'alice');
    const carol = await client(t, 'carol');
    assert.deepEqual((await alice.raw.send('Storage.getCookies')).cookies, []);
    assert.equal((await alice.raw.send('Network.getAllCookies', {}, alice.page.sessionId)).cookies.length, 0);
    assert.ok((await carol.raw.send('Storage.getCookies')).cookies.every(c => c.name !== 'login'));
    assert.ok((await carol.raw.send('Network.getAllCookies', {}, carol.page.sessionId)).cookies.every(c => c.name !== 'login'));
    await carol.raw.send('Storage.clearCookies');
    await carol.raw.send('Network.clearBrowserCookies', {}, carol.page.sessionId);
    await carol.raw.send('Browser.resetPermissions');
    for (const [method, params, sessionId] of [
      ['Storage.setCookies', { cookies: [{ name: 'x', value: 'y', url: site.url('person') }] }], ['Network.clearBrowserCache', {}, carol.page.sessionId],
      ['Network.getCookies', { urls: [site.url('person')] }, carol.page.sessionId], ['Network.setCookie', { name: 'x', value: 'y', url: site.url('person') }, carol.page.sessionId],
      ['Network.deleteCookies', { name: 'login', url: site.url('person') }, carol.page.sessionId],
      ['Storage.clearDataForOrigin', { origin: site.url('person', ''), storageTypes: 'all' }, carol.page.sessionId],
      ['Browser.grantPermissions', { permissions: ['geolocation'], origin: site.url('person', '') }],
    ]) {
      const error = await carol.raw.refused(method, params, sessionId);
      assert.equal(error.code, -32000, method);
      assert.match(error.text, /^tabwarden: /, method);
    }
    const { cookies } = await person.raw.send('Storage.getCookies');
    assert.deepEqual(cookies.filter(c => c.name !== 'seen').map(c => [c.name, c.value]), [['login', 'person']]);
    await person.raw.send('Storage.clearCookies');
  });

  test('what one Playwright client does about dialogs, routes and downloads is nobody else\'s affair', async t => {
    const [first, second] = await Promise.all(['alice', 'bob'].map(name => chromium.connectOverCDP(server.tasks[name].http_url)));
    t.after(() => Promise.all([first.close(), second.close()]));
    const [one, two] = await Promise.all([first, second].map(b => b.contexts()[0].newPage()));
    await Promise.all([one, two].map(p => p.goto(site.url('a', '/links'))));
    // `first` has no dialog listener, so it dismisses every dialog that it hears of.
    two.on('dialog', dialog => dialog.accept('answered'));
    assert.deepEqual(await Promise.all([one.evaluate(() => prompt('?')), two.evaluate(() => prompt('?'))]), [null, 'answered']);
    await first.contexts()[0].route('**/api/value', route => route.fulfill({ json: { value: 'mine only' } }));
    assert.deepEqual(await Promise.all([one, two].map(p => p.evaluate(() => fetch('/api/value').then(r => r.json()).then(v => v.value)))), ['mine only', 'from the server']);
    const downloads = await Promise.all([one, two].map(async p => {
      const [download] = await Promise.all([p.waitForEvent('download'), p.click('#download')]);
      return { path: await download.path(), name: download.suggestedFilename() };
    }));
    assert.notEqual(downloads[0].path, downloads[1].path);
    await Promise.all([one.close(), two.close()]);
  });

  test('no event and no answer that reached a client named anything foreign', async t => {
    const { raw, page } = await client(t, 'alice');
    await raw.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: true, flatten: true });
    await raw.send('Target.setDiscoverTargets', { discover: true, filter: [{}] });
    // Much happens to others meanwhile.
    const bob = await client(t, 'bob', site.url('a', '/with-frame', { src: site.url('b') }));
    const tab = await person.openTab(site.url('person', '/popups'));
    await person.navigate(tab, site.url('c'));
    await bob.raw.goto(site.url('d'), bob.page.sessionId);
    const foreign = [tab.targetId, tabs.person.targetId, bob.page.targetId, ...await server.pageIds('carol')];
    await person.raw.send('Target.closeTarget', { targetId: tab.targetId });
    await raw.evaluate('1', page.sessionId);
    const heard = JSON.stringify(raw.events);
    for (const id of foreign) assert.ok(!heard.includes(id), `the client heard of ${id}`);
    const infos = raw.events.filter(e => e.params?.targetInfo).map(e => e.params.targetInfo);
    assert.deepEqual(infos.filter(info => ['browser_ui', 'tab', 'other', 'service_worker'].includes(info.type)), []);
  });

  describe('the API', () => {
    test('creates, shows, lists and ends a task', async () => {
      const created = await server.api('POST', '/tasks', { name: 'made', labels: { team: 'x' } });
      assert.equal(created.status, 201);
      for (const key of ['name', 'state', 'context', 'http_url', 'ws_url', 'token']) assert.ok(created.body[key], `${key} in ${JSON.stringify(created.body)}`);
      assert.equal(created.body.context, 'isolated');
      assert.ok('expires_at' in created.body);
      assert.match(created.body.token, /^[A-Za-z0-9_-]{22,}$/, '128 bits at least');
      assert.ok(created.body.ws_url.includes(created.body.token) && created.body.http_url.includes(created.body.token));
      server.tasks.made = created.body;

      const raw = await server.connect('made');
      const page = await raw.newPage(site.url('a', '/plain', { title: 'of made' }));
      await raw.evaluate(`window.open('/plain?title=popup', '', 'noopener')`, page.sessionId, { userGesture: true });
      const shown = await until(async () => { const task = await server.task('made'); return task.pages.some(p => p.url.endsWith('title=popup')) && task; }, 'the popup in the listing');
      const [popup] = shown.pages.filter(p => p.url.endsWith('title=popup'));
      assert.equal(popup.opener, page.targetId);
      assert.equal(shown.pages.find(p => p.target_id === page.targetId).url, site.url('a', '/plain', { title: 'of made' }));
      assert.equal(shown.clients.length, 1);
      assert.ok(shown.clients[0].since);
      await raw.refused('Target.attachToTarget', { targetId: NEVER_EXISTED, flatten: true });
      assert.ok((await server.task('made')).last_refusals.length >= 1);
      assert.ok(!JSON.stringify(shown).includes(created.body.token), 'a token is shown once');

      const list = await server.api('GET', '/tasks');
      const names = (list.body.tasks ?? list.body).map(task => task.name);
      for (const name of ['alice', 'bob', 'carol', 'made']) assert.ok(names.includes(name));
      assert.ok(!JSON.stringify(list.body).includes(created.body.token));

      const ending = raw.closed;
      const gone = await server.api('DELETE', '/tasks/made');
      assert.ok([200, 204].includes(gone.status), String(gone.status));
      const { code, reason } = await within(ending, 'the client being closed');
      assert.equal(code, 4001);
      assert.notEqual(reason, '');
      assert.equal((await server.api('GET', '/tasks/made')).status, 404);
      assert.ok([200, 204].includes((await server.api('DELETE', '/tasks/made')).status), 'ending what has ended is no error');
      const left = (await person.pages()).filter(info => [page.targetId, popup.target_id].includes(info.targetId));
      assert.deepEqual(left, [], 'its pages are closed');
      await assert.rejects(Raw.connect(created.body.ws_url), error => [401, 404].includes(error.status) && error.body.length > 10);
    });

    test('shows the title that a page has now, as do the listings of its clients', async t => {
      const { raw, page } = await client(t, 'alice', site.url('a', '/plain', { title: 'the first title' }));
      for (const title of ['the first title', 'another title']) {
        await raw.evaluate(`document.title = ${JSON.stringify(title)}`, page.sessionId);
        await until(async () => (await server.task('alice')).pages.find(p => p.target_id === page.targetId).title === title, `the title "${title}" in the API`);
        assert.equal((await raw.send('Target.getTargets')).targetInfos.find(info => info.targetId === page.targetId).title, title);
      }
    });

    test('ends a task without asking its pages, and disposes its contexts', async () => {
      const before = (await person.raw.send('Target.getBrowserContexts')).browserContextIds.length;
      await server.newTask('stubborn');
      const raw = await server.connect('stubborn');
      const page = await raw.newPage(site.url('a', '/beforeunload'));
      await raw.click('#b', page.sessionId);
      const { browserContextId } = await raw.send('Target.createBrowserContext');
      await raw.send('Target.createTarget', { url: 'about:blank', browserContextId });
      assert.ok((await person.raw.send('Target.getBrowserContexts')).browserContextIds.length > before);
      await server.api('DELETE', '/tasks/stubborn');
      await raw.closed;
      await until(async () => (await person.raw.send('Target.getBrowserContexts')).browserContextIds.length === before, 'the contexts being disposed');
      assert.ok(!(await person.targets()).some(info => info.targetId === page.targetId));
    });

    test('leaves a shared task\'s pages to the person when asked to', async () => {
      await server.newTask('kept', { context: 'shared' });
      const raw = await server.connect('kept');
      const page = await raw.newPage(site.url('a', '/plain', { title: 'kept' }));
      await server.api('DELETE', '/tasks/kept?keep_pages=true');
      assert.equal((await within(raw.closed, 'the client being closed')).code, 4001);
      const tab = await person.attach(page.targetId);
      assert.equal(await person.evaluate(tab, 'document.title'), 'kept');
      await person.raw.send('Target.closeTarget', { targetId: page.targetId });
    });

    test('refuses with a status and a sentence: 400, 401, 404 and 409', async () => {
      const cases = [
        [400, 'POST', '/tasks', { name: 'bad name/..' }],
        [400, 'POST', '/tasks', { name: 'x', context: 'both' }],
        [400, 'POST', '/tasks', { name: 'x', unknown_key: 1 }],
        [400, 'POST', '/tasks', { name: 'x', policy: '../../etc/passwd' }],
        [404, 'GET', '/tasks/nobody'],
        [409, 'POST', '/tasks', { name: 'alice' }],
      ];
      for (const [status, method, path, body] of cases) {
        const answer = await server.api(method, path, body);
        assert.equal(answer.status, status, `${method} ${path} ${JSON.stringify(body)}: ${JSON.stringify(answer.body)}`);
        assert.match(answer.body.error.code, /^[a-z_]+$/);
        assert.ok(answer.body.error.message.length > 10);
      }
      for (const token of [undefined, 'x', server.tasks.alice.ws_url.split('/t/')[1].split('/')[0]]) {
        for (const [method, path] of [['GET', '/tasks'], ['POST', '/tasks'], ['GET', '/tasks/alice'], ['DELETE', '/tasks/alice']]) {
          const answer = await server.api(method, path, method === 'POST' ? {} : undefined, { token: token ?? null });
          assert.equal(answer.status, 401, `${method} ${path} with ${token === undefined ? 'no token' : 'a wrong token'}`);
        }
      }
      assert.equal((await server.api('GET', '/tasks/alice')).status, 200);
    });

    test('gives a task without a name one of its own', async () => {
      const { status, body } = await server.api('POST', '/tasks', {});
      assert.equal(status, 201);
      assert.match(body.name, /\S/);
      await server.api('DELETE', `/tasks/${body.name}`);
    });

    test('a task ends by itself when no client has come for its time to live', async () => {
      await server.newTask('brief', { idle_ttl_s: 1 });
      const raw = await server.connect('brief');
      const { targetId } = await raw.newPage();
      await raw.close();
      await until(async () => (await server.api('GET', '/tasks/brief')).status === 404, 'the task expiring');
      assert.ok(!(await person.targets()).some(info => info.targetId === targetId), 'its page went with it');
      await assert.rejects(server.connect('brief'), error => error.status >= 400 && error.body.length > 10);
    });

    test('one task too many is refused, and the refusal names the idlest', async () => {
      const made = [];
      let refused;
      const list = (await server.api('GET', '/tasks')).body;
      const already = (list.tasks ?? list).length;
      for (let i = 0; i < 70 && !refused; i++) {
        const answer = await server.api('POST', '/tasks', { name: `many-${i}` });
        if (answer.status === 201) made.push(answer.body.name); else refused = answer;
      }
      assert.equal(refused?.status, 429);
      assert.match(refused.body.error.message, /alice|bob|carol|many-0/);
      assert.equal(made.length, 64 - already);
      for (const name of made) await server.api('DELETE', `/tasks/${name}`);
      assert.equal((await server.api('POST', '/tasks', { name: 'many-again' })).status, 201);
      await server.api('DELETE', '/tasks/many-again');
    });
  });

  describe('leaving', () => {
    test('kill -9 of a client undoes its overrides and interception, resumes what it held and disposes its context', async t => {
      const { raw, page } = await client(t, 'bob');
      const before = await raw.evaluate('[navigator.userAgent, innerWidth, devicePixelRatio, Intl.DateTimeFormat().resolvedOptions().timeZone]', page.sessionId);
      const since = site.mark();
      const child = ownProcess(spawn(process.execPath, [
        fileURLToPath(new URL('support/residue-client.mjs', import.meta.url)), server.tasks.bob.ws_url, page.targetId, site.url('a', ''),
      ], { stdio: ['ignore', 'pipe', 'inherit'], detached: true }));
      const line = await within(new Promise((resolve, reject) => {
        createInterface({ input: child.stdout }).once('line', resolve);
        child.once('exit', code => reject(new Error(`the client ended with ${code}`)));
      }), 'the client having done its worst');
      const { browserContextId, inContext, popup, waiting } = JSON.parse(line);
      assert.equal(waiting, true, 'the popup was held');
      assert.equal(await raw.evaluate('navigator.userAgent', page.sessionId), 'residue/1', 'the override was there');
      assert.deepEqual(site.seen(r => /held/.test(r.url), since), [], 'the request and the popup were held');

      child.kill('SIGKILL');
      await ended(child);
      await site.wait(r => r.url === '/api/value?held=request', 'the held request', since);
      await site.wait(r => r.url === '/plain?title=held+popup', 'the held popup\'s request', since);
      await until(async () => (await server.task('bob')).clients.length === 1, 'the killed client being gone');
      await until(() => raw.evaluate('window.heldResult !== undefined', page.sessionId), 'the held request\'s answer');
      assert.ok((await server.pageIds('bob')).includes(popup), 'the popup is the task\'s still');
      assert.ok(!(await server.pageIds('bob')).includes(inContext), 'the page in the client\'s context is gone');
      await until(async () => !(await person.targets()).some(info => info.targetId === inContext), 'that page being closed');
      assert.deepEqual(said(await raw.refused('Target.disposeBrowserContext', { browserContextId })), unknownContext(browserContextId));

      const next = await server.connect('bob');
      t.after(() => next.close());
      const { sessionId } = await next.send('Target.attachToTarget', { targetId: page.targetId, flatten: true });
      assert.deepEqual(await next.evaluate('[navigator.userAgent, innerWidth, devicePixelRatio, Intl.DateTimeFormat().resolvedOptions().timeZone]', sessionId), before);
      const mark = site.mark();
      await next.goto(site.url('a', '/plain', { title: 'after' }), sessionId);
      assert.equal(await next.evaluate('window.__sawInit', sessionId), null, 'its init script is gone');
      assert.equal(await next.evaluate('typeof window.residueBinding', sessionId), 'undefined', 'its binding is gone');
      const [request] = site.seen(r => r.path === '/plain', mark);
      assert.equal(request.headers['x-residue'], undefined);
      assert.ok(!/residue/.test(request.headers['user-agent']));
      assert.equal(await next.evaluate(`fetch('/api/value').then(r => r.json()).then(v => v.value)`, sessionId), 'from the server');
      await next.send('Target.closeTarget', { targetId: popup });
    });

    test('a context that was not to be disposed stays when its client drops, and goes by Browser.close', async () => {
      const first = await server.connect('alice');
      const { browserContextId } = await first.send('Target.createBrowserContext');
      const { targetId } = await first.send('Target.createTarget', { url: 'about:blank', browserContextId });
      first.terminate();
      await until(async () => (await server.task('alice')).clients.length === 0, 'the client being gone');
      assert.ok((await server.pageIds('alice')).includes(targetId));

      const second = await server.connect('alice');
      const own = await second.send('Target.createBrowserContext');
      const inOwn = await second.send('Target.createTarget', { url: 'about:blank', browserContextId: own.browserContextId });
      await second.send('Target.getBrowserContexts');
      second.post('Browser.close');
      await within(second.closed, 'the connection closing after Browser.close');
      await until(async () => !(await server.pageIds('alice')).includes(inOwn.targetId), 'the client\'s context being disposed');
      assert.ok((await server.pageIds('alice')).includes(targetId), 'another client\'s context is left alone');
      assert.ok(browser.alive());
      const third = await server.connect('alice');
      await third.send('Target.disposeBrowserContext', { browserContextId });
      await third.close();
    });

    test('closing the server closes what its tasks opened, and lets the person\'s browser and tabs be', async t => {
      const otherBrowser = await startChromium({ site });
      t.after(() => otherBrowser.close());
      const owner = await Person.of(otherBrowser);
      const tab = await owner.openTab(site.url('person'));
      const before = (await owner.pages()).map(info => info.targetId).sort();
      const other = await serve({ attach: otherBrowser, site, tasks: ['leaver', 'sharer,context=shared'] });
      const [leaver, sharer] = [await other.connect('leaver'), await other.connect('sharer')];
      await leaver.newPage(site.url('a'));
      await sharer.newPage(site.url('a'));
      assert.equal(await other.stop(), 0);
      for (const raw of [leaver, sharer]) assert.equal((await within(raw.closed, 'the client being closed')).code, 1001);
      assert.ok(otherBrowser.alive());
      assert.equal(await owner.evaluate(tab, 'document.title'), 'plain');
      await until(async () => JSON.stringify((await owner.pages()).map(info => info.targetId).sort()) === JSON.stringify(before), 'the tasks\' pages being closed');
      await owner.close();
    });
  });
});
