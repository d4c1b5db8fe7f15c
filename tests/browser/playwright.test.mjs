// An unmodified Playwright script, given a task's URL and nothing else, does everything that it does with a whole browser.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';

let site, server, count = 0;

before(async () => {
  site = await Site.start();
  server = await serve({ tasks: ['first'], site });
});
after(async () => {
  await server?.stop();
  await site?.stop();
});

/** A task of its own, connected to as anyone would; what it leaves open ends with the test. */
async function connect(t) {
  const task = await server.newTask(`pw-${++count}`);
  const browser = await chromium.connectOverCDP(task.http_url);
  t.after(() => browser.close());
  return { task, browser, context: browser.contexts()[0] };
}

test('a client of a fresh task finds one about:blank in the default context', async t => {
  const browser = await chromium.connectOverCDP(server.tasks.first.http_url);
  t.after(() => browser.close());
  assert.equal(browser.contexts().length, 1);
  assert.deepEqual(browser.contexts()[0].pages().map(page => page.url()), ['about:blank']);
  assert.match(browser.version(), /^\d+\./);
  assert.ok(browser.isConnected());
});

test('the page that was found works as well as a new one', async t => {
  const { context } = await connect(t);
  const [page] = context.pages();
  await page.goto(site.url('a', '/plain', { title: 'found' }));
  await page.click('#b');
  assert.equal(await page.textContent('#o'), 'clicked');
  assert.equal(await page.title(), 'found');
});

test('the full WebSocket URL serves as well as the http one', async t => {
  const task = await server.newTask(`pw-${++count}`);
  const browser = await chromium.connectOverCDP(task.ws_url);
  t.after(() => browser.close());
  const page = await browser.contexts()[0].newPage();
  await page.goto(site.url('a'));
  assert.equal(await page.textContent('#title'), 'plain');
});

test('a new page with a cross-site frame and one nested in it: text, click and evaluate inside', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  const inner = site.url('c', '/plain', { title: 'innermost' });
  await page.goto(site.url('a', '/with-frame', { src: site.url('b', '/with-frame', { src: inner }) }));
  const outerFrame = page.frameLocator('#f');
  const innerFrame = outerFrame.frameLocator('#f');
  assert.equal(await outerFrame.locator('#title').textContent(), 'with a frame');
  assert.equal(await innerFrame.locator('#title').textContent(), 'innermost');
  await innerFrame.locator('#b').click();
  assert.equal(await innerFrame.locator('#o').textContent(), 'clicked');
  const frame = page.frames().find(f => f.url() === inner);
  assert.equal(await frame.evaluate(() => location.host), `c.test:${site.port}`);
});

test('a frame that goes to another site and back is followed', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  await page.goto(site.url('a', '/with-frame', { src: site.url('a', '/plain', { title: 'same site' }) }));
  const inside = page.frameLocator('#f').locator('#title');
  assert.equal(await inside.textContent(), 'same site');
  for (const [name, title] of [['b', 'over there'], ['c', 'further'], ['a', 'home again']]) {
    const url = site.url(name, '/plain', { title });
    await page.evaluate(src => { document.querySelector('#f').src = src; }, url);
    await page.waitForFunction(() => true);
    await inside.filter({ hasText: title }).waitFor();
  }
});

for (const kind of ['open', 'features', 'noopener', 'blank', 'blankopener', 'form']) {
  for (const where of ['page', 'frame']) {
    test(`a popup by ${kind} from the ${where === 'page' ? 'page' : 'cross-site frame'} arrives, with the init script first`, async t => {
      const { context } = await connect(t);
      await context.addInitScript(() => { window.__init = 'mine'; });
      const page = await context.newPage();
      const popupUrl = site.url('d', '/plain', { title: `popup ${kind} ${where}` });
      const popups = name => site.url(name, '/popups', { to: popupUrl });
      await page.goto(where === 'page' ? popups('a') : site.url('a', '/with-frame', { src: popups('b') }));
      const button = (where === 'page' ? page : page.frameLocator('#f')).locator(`#${kind}`);
      const [popup] = await Promise.all([page.waitForEvent('popup'), button.click()]);
      await popup.waitForURL(popupUrl);
      assert.equal(await popup.title(), `popup ${kind} ${where}`);
      assert.equal(await popup.evaluate(() => window.__sawInit), 'mine', 'the init script ran before the document\'s own first script');
      assert.equal(await popup.opener(), page);
      await popup.click('#b');
      assert.equal(await popup.textContent('#o'), 'clicked');
      await popup.close();
      assert.ok(!page.isClosed());
      assert.equal(await page.evaluate(() => 1 + 1), 2);
    });
  }
}

test('the opener and its popup can talk to each other', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  await page.goto(site.url('a'));
  const [popup] = await Promise.all([
    page.waitForEvent('popup'),
    page.evaluate(url => { window.popup = window.open(url); }, site.url('a', '/plain', { title: 'same site popup' })),
  ]);
  await popup.waitForLoadState();
  await popup.evaluate(() => { window.opener.fromPopup = document.title; });
  assert.equal(await page.evaluate(() => window.fromPopup), 'same site popup');
  const closed = popup.waitForEvent('close');
  await page.evaluate(() => window.popup.close());
  await closed;
});

test('newContext, a page in it, and closing both', async t => {
  const { browser, context } = await connect(t);
  const other = await browser.newContext({ userAgent: 'tabwarden-test/1', viewport: { width: 640, height: 480 } });
  const page = await other.newPage();
  await page.goto(site.url('a'));
  assert.equal(await page.evaluate(() => navigator.userAgent), 'tabwarden-test/1');
  assert.deepEqual(await page.evaluate(() => [innerWidth, innerHeight]), [640, 480]);
  await other.addCookies([{ name: 'only', value: 'here', url: site.url('a') }]);
  assert.deepEqual(await context.cookies(site.url('a')), [], 'a context has its own cookies');
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.evaluate(() => { window.open('/plain?title=in+a+context'); })]);
  await popup.waitForLoadState();
  assert.equal(popup.context(), other);
  await page.close();
  assert.ok(page.isClosed());
  await other.close();
  assert.ok(popup.isClosed());
  assert.equal(browser.contexts().length, 1);
});

test('newCDPSession on a page and on a cross-site frame', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  const src = site.url('b', '/plain', { title: 'framed' });
  await page.goto(site.url('a', '/with-frame', { src }));
  const onPage = await context.newCDPSession(page);
  const evaluated = await onPage.send('Runtime.evaluate', { expression: 'location.host' });
  assert.equal(evaluated.result.value, `a.test:${site.port}`);
  const loaded = new Promise(resolve => onPage.once('Page.loadEventFired', resolve));
  await onPage.send('Page.enable');
  await page.reload();
  await loaded;
  await onPage.detach();

  const frame = page.frames().find(f => f.url() === src);
  await page.frameLocator('#f').locator('#title').waitFor();
  const onFrame = await context.newCDPSession(frame);
  const inFrame = await onFrame.send('Runtime.evaluate', { expression: 'location.host' });
  assert.equal(inFrame.result.value, `b.test:${site.port}`);
  await onFrame.detach();
  await assert.rejects(onFrame.send('Runtime.evaluate', { expression: '1' }));
});

test('newBrowserCDPSession answers and lists this task\'s pages', async t => {
  const { browser, context } = await connect(t);
  const page = await context.newPage();
  await page.goto(site.url('a', '/plain', { title: 'listed' }));
  const session = await browser.newBrowserCDPSession();
  const { targetInfos } = await session.send('Target.getTargets');
  assert.ok(targetInfos.some(info => info.type === 'page' && info.url === page.url()));
  await session.detach();
});

test('page.route: fulfilled, changed, failed and continued', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  await page.route('**/api/value', route => route.fulfill({ json: { value: 'from the route' } }));
  await page.route('**/made-up', route => route.fulfill({ contentType: 'text/html', body: '<title>made up</title>' }));
  await page.route('**/api/gone', route => route.abort());
  await page.goto(site.url('a'));
  assert.deepEqual(await page.evaluate(() => fetch('/api/value').then(r => r.json())), { value: 'from the route' });
  await assert.rejects(page.evaluate(() => fetch('/api/gone')), /Failed to fetch/);
  await page.goto(site.url('a', '/made-up'));
  assert.equal(await page.title(), 'made up');
  await page.unroute('**/api/value');
  assert.deepEqual(await page.evaluate(() => fetch('/api/value').then(r => r.json())), { value: 'from the server' });
  await page.route('**/api/value', route => route.continue({ headers: { ...route.request().headers(), 'x-changed': 'yes' } }));
  const since = site.mark();
  await page.evaluate(() => fetch('/api/value').then(r => r.json()));
  assert.equal(site.seen(r => r.path === '/api/value', since)[0].headers['x-changed'], 'yes');
});

test('screenshots of a page, of a whole page, and of one in a new context', async t => {
  const { browser, context } = await connect(t);
  const other = await browser.newContext();
  for (const from of [context, other]) {
    const page = await from.newPage();
    await page.goto(site.url('a'));
    for (const fullPage of [false, true]) {
      const png = await page.screenshot({ fullPage });
      assert.equal(png.subarray(1, 4).toString(), 'PNG');
    }
    assert.ok((await page.locator('#title').screenshot()).length > 0);
  }
  await other.close();
});

test('keyboard, fill, press and element handles', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  await page.goto(site.url('a'));
  await page.fill('#i', 'filled');
  await page.press('#i', 'End');
  await page.keyboard.type(' and typed');
  assert.equal(await page.inputValue('#i'), 'filled and typed');
  const handle = await page.evaluateHandle(() => document.querySelector('#i'));
  assert.equal(await handle.evaluate(element => element.value), 'filled and typed');
});

test('dialogs, console, exposed functions and bindings', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  await page.exposeFunction('double', x => x * 2);
  await page.goto(site.url('a'));
  assert.equal(await page.evaluate(() => window.double(21)), 42);
  const [message] = await Promise.all([page.waitForEvent('console'), page.evaluate(() => console.log('said'))]);
  assert.equal(message.text(), 'said');
  const dialog = page.waitForEvent('dialog').then(async d => { await d.accept('typed'); return d.message(); });
  assert.equal(await page.evaluate(() => prompt('asked')), 'typed');
  assert.equal(await dialog, 'asked');
});

test('a download in the default context and in a new one', async t => {
  const { browser, context } = await connect(t);
  const other = await browser.newContext({ acceptDownloads: true });
  for (const [label, from] of [['default', context], ['new', other]]) {
    const page = await from.newPage();
    await page.goto(site.url('a', '/links'));
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('#download')]);
    assert.equal(download.suggestedFilename(), 'from-link.bin', label);
    assert.equal(readFileSync(await download.path(), 'utf8'), 'downloaded', label);
    assert.equal(await page.evaluate(() => 1), 1);
  }
  await other.close();
});

test('cookies of the default context: set, sent, read and cleared', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  await context.addCookies([{ name: 'login', value: 'script', url: site.url('a') }]);
  await page.goto(site.url('a', '/whoami'));
  assert.equal(await page.textContent('#who'), 'script');
  assert.deepEqual((await context.cookies()).map(c => [c.name, c.value]), [['login', 'script']]);
  const state = await context.storageState();
  assert.equal(state.cookies.length, 1);
  await context.clearCookies();
  await page.reload();
  assert.equal(await page.textContent('#who'), 'nobody');
});

test('dedicated and service workers are seen and can be evaluated in', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  const [worker] = await Promise.all([page.waitForEvent('worker'), page.goto(site.url('a', '/worker'))]);
  assert.equal(await page.evaluate(() => window.fromWorker), 21);
  assert.equal(await worker.evaluate(() => self.tabwardenWorker), true);
  await page.goto(site.url('c', '/sw'));
  assert.equal(await page.evaluate(() => window.swReady), true);
  await page.goto(site.url('c', '/sw-made/x'));
  assert.equal(await page.textContent('#title'), 'made by a service worker');
});

test('navigation, reload, back and forward over sites', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  const [one, two] = [site.url('a', '/plain', { title: 'one' }), site.url('b', '/plain', { title: 'two' })];
  assert.equal((await page.goto(one)).status(), 200);
  await page.goto(two);
  await page.goBack();
  assert.equal(page.url(), one);
  await page.goForward();
  assert.equal(page.url(), two);
  await page.reload();
  await page.goto(site.url('a', '/redirect', { to: two }));
  assert.equal(page.url(), two);
  await page.setContent('<title>set</title><p id="p">content</p>');
  assert.equal(await page.textContent('#p'), 'content');
  await assert.rejects(page.goto(site.url('a', '/204')), /ERR_ABORTED/);
  assert.equal(await page.textContent('#p'), 'content');
});

test('documents that a client makes: data:, about:blank, setContent and a blob: of the page', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  await page.goto('data:text/html,<title>from data</title><p id=p>data</p>');
  assert.equal(await page.title(), 'from data');
  await page.goto('about:blank');
  await page.setContent('<title>set</title>');
  assert.equal(await page.title(), 'set');
  await page.goto(site.url('a'));
  await page.evaluate(() => { location.href = URL.createObjectURL(new Blob(['<title>from a blob</title>'], { type: 'text/html' })); });
  await page.waitForURL(/^blob:/);
  assert.equal(await page.title(), 'from a blob');
});

test('emulation: viewport, media, geolocation and permissions in an own context', async t => {
  const { browser } = await connect(t);
  const context = await browser.newContext({ geolocation: { latitude: 48.2, longitude: 16.4 }, permissions: ['geolocation'], colorScheme: 'dark', locale: 'de-AT', timezoneId: 'Europe/Vienna' });
  const page = await context.newPage();
  await page.goto(site.url('a'));
  assert.equal(await page.evaluate(() => new Promise((resolve, reject) => navigator.geolocation.getCurrentPosition(p => resolve(p.coords.latitude), reject))), 48.2);
  assert.equal(await page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches), true);
  assert.equal(await page.evaluate(() => Intl.DateTimeFormat().resolvedOptions().timeZone), 'Europe/Vienna');
  await page.setViewportSize({ width: 400, height: 300 });
  assert.deepEqual(await page.evaluate(() => [innerWidth, innerHeight]), [400, 300]);
  await context.close();
});

test('page.close with and without beforeunload', async t => {
  const { context } = await connect(t);
  const page = await context.newPage();
  await page.goto(site.url('a', '/beforeunload'));
  await page.click('#b');
  const asked = page.waitForEvent('dialog');
  await page.close({ runBeforeUnload: true });
  const dialog = await asked;
  assert.equal(dialog.type(), 'beforeunload');
  await dialog.dismiss();
  assert.equal(await page.title(), 'beforeunload');
  await page.close();
  assert.ok(page.isClosed());
});

test('browser.close() leaves the pages, and the next connection to the task finds them', async t => {
  const { task, browser, context } = await connect(t);
  const page = await context.newPage();
  await page.goto(site.url('a', '/with-frame', { src: site.url('b', '/plain', { title: 'still here' }) }));
  await page.evaluate(() => { window.kept = 'yes'; });
  await browser.close();
  assert.ok(!browser.isConnected());

  const again = await chromium.connectOverCDP(task.http_url);
  t.after(() => again.close());
  const found = again.contexts()[0].pages();
  assert.equal(found.length, 2, found.map(p => p.url()).join(' '));
  const kept = found.find(p => p.url() === page.url());
  assert.equal(await kept.evaluate(() => window.kept), 'yes');
  assert.equal(await kept.frameLocator('#f').locator('#title').textContent(), 'still here');
});

test('two clients of one task see each other\'s new pages', async t => {
  const { task, context } = await connect(t);
  const second = await chromium.connectOverCDP(task.http_url);
  t.after(() => second.close());
  const [seen, made] = await Promise.all([second.contexts()[0].waitForEvent('page'), context.newPage()]);
  await made.goto(site.url('a', '/plain', { title: 'of both' }));
  await seen.waitForURL(made.url());
  assert.equal(await seen.title(), 'of both');
  const closed = seen.waitForEvent('close');
  await made.close();
  await closed;
});

test('many pages at once', async t => {
  const { context } = await connect(t);
  const pages = await Promise.all(Array.from({ length: 6 }, () => context.newPage()));
  await Promise.all(pages.map((page, i) => page.goto(site.url('abc'[i % 3], '/plain', { title: `page ${i}` }))));
  assert.deepEqual(await Promise.all(pages.map(page => page.title())), pages.map((_, i) => `page ${i}`));
  await Promise.all(pages.map(page => page.close()));
});
