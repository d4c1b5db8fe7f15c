// An unmodified Puppeteer script, by browserURL and by browserWSEndpoint, does everything that it does with a whole browser.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import puppeteer from 'puppeteer-core';
import { serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { until, within } from './support/util.mjs';

let site, server, count = 0;

before(async () => {
  site = await Site.start();
  server = await serve({ tasks: ['first'], site });
});
after(async () => {
  await server?.stop();
  await site?.stop();
});

const ways = {
  browserURL: task => ({ browserURL: task.http_url }),
  browserWSEndpoint: task => ({ browserWSEndpoint: task.ws_url }),
};

/** The next event of that name. */
const next = (emitter, name) => within(new Promise(resolve => emitter.once(name, resolve)), `the event ${name}`);

/** A click into a cross-site frame is lost until Chromium has the frame's first picture: moves the mouse until it is seen. */
const reachable = (frame, selector) => until(async () => {
  await frame.hover('#title');
  await frame.hover(selector);
  return frame.evaluate(() => window.__moved > 0);
}, 'the frame seeing the mouse');

async function connect(t, way = 'browserURL') {
  const task = await server.newTask(`pptr-${++count}`);
  const browser = await puppeteer.connect(ways[way](task));
  t.after(() => browser.disconnect());
  return { task, browser };
}

for (const way of Object.keys(ways)) {
  describe(`by ${way}`, () => {
    test('a client of a fresh task finds one about:blank, and can use it', async t => {
      const { browser } = await connect(t, way);
      const pages = await browser.pages();
      assert.deepEqual(pages.map(page => page.url()), ['about:blank']);
      assert.match(await browser.version(), /Chrome\/\d+/);
      await pages[0].goto(site.url('a', '/plain', { title: 'found' }));
      await pages[0].click('#b');
      assert.equal(await pages[0].$eval('#o', e => e.textContent), 'clicked');
    });

    test('newPage, and a cross-site frame in it', async t => {
      const { browser } = await connect(t, way);
      const page = await browser.newPage();
      const src = site.url('b', '/plain', { title: 'framed' });
      await page.goto(site.url('a', '/with-frame', { src }));
      const frame = await page.waitForFrame(f => f.url() === src);
      assert.equal(await (await frame.waitForSelector('#title')).evaluate(e => e.textContent), 'framed');
      await reachable(frame, '#b');
      await frame.click('#b');
      assert.equal(await frame.$eval('#o', e => e.textContent), 'clicked');
      assert.equal(await frame.evaluate(() => location.host), `b.test:${site.port}`);
    });

    for (const kind of ['open', 'noopener', 'blank', 'form']) {
      test(`a popup by ${kind}, from the page and from a cross-site frame`, async t => {
        const { browser } = await connect(t, way);
        const page = await browser.newPage();
        const popupUrl = site.url('d', '/plain', { title: 'popup' });
        await page.goto(site.url('a', '/popups', { to: popupUrl }));
        let [popup] = await Promise.all([next(page, 'popup'), page.click(`#${kind}`)]);
        await popup.waitForSelector('#title');
        assert.equal(popup.url(), popupUrl);
        assert.equal(await popup.title(), 'popup');
        await popup.close();

        const src = site.url('b', '/popups', { to: popupUrl });
        await page.goto(site.url('a', '/with-frame', { src }));
        const frame = await page.waitForFrame(f => f.url() === src);
        await frame.waitForSelector(`#${kind}`);
        await reachable(frame, `#${kind}`);
        [popup] = await Promise.all([next(page, 'popup'), frame.click(`#${kind}`)]);
        await popup.waitForSelector('#title');
        assert.equal(popup.url(), popupUrl);
        await popup.close();
        assert.equal(await page.evaluate(() => 1 + 1), 2);
      });
    }

    test('browser.close() leaves the browser and the task\'s pages', async t => {
      const { task, browser } = await connect(t, way);
      const page = await browser.newPage();
      const url = site.url('a', '/plain', { title: 'left open' });
      await page.goto(url);
      await browser.close();
      if (server.direct) return; // there it did end the browser
      const again = await puppeteer.connect(ways[way](task));
      t.after(() => again.disconnect());
      assert.deepEqual((await again.pages()).map(p => p.url()).sort(), ['about:blank', url]);
    });

    test('disconnect and reconnect finds the pages as they were', async t => {
      const { task, browser } = await connect(t, way);
      const page = await browser.newPage();
      const url = site.url('a', '/plain', { title: 'found again' });
      await page.goto(url);
      await page.evaluate(() => { window.kept = 'yes'; });
      await browser.disconnect();
      const again = await puppeteer.connect(ways[way](task));
      t.after(() => again.disconnect());
      const found = (await again.pages()).find(p => p.url() === url);
      assert.equal(await found.evaluate(() => window.kept), 'yes');
    });
  });
}

test('init scripts run first in the page and in its cross-site frame', async t => {
  const { browser } = await connect(t);
  const page = await browser.newPage();
  await page.evaluateOnNewDocument(() => { window.__init = 'mine'; });
  const src = site.url('b', '/plain', { title: 'framed' });
  await page.goto(site.url('a', '/with-frame', { src }));
  assert.equal(await page.evaluate(() => window.__sawInit), 'mine');
  const frame = await page.waitForFrame(f => f.url() === src);
  await frame.waitForSelector('#title');
  assert.equal(await frame.evaluate(() => window.__sawInit), 'mine');
});

test('createCDPSession on a page and on the browser', async t => {
  const { browser } = await connect(t);
  const page = await browser.newPage();
  await page.goto(site.url('a'));
  const session = await page.createCDPSession();
  const { result } = await session.send('Runtime.evaluate', { expression: 'location.host' });
  assert.equal(result.value, `a.test:${site.port}`);
  await session.detach();
  await assert.rejects(session.send('Runtime.evaluate', { expression: '1' }));
  const root = await browser.target().createCDPSession();
  assert.match((await root.send('Browser.getVersion')).product, /Chrome\//);
});

test('createBrowserContext, a page with cookies in it, and its end', async t => {
  const { browser } = await connect(t);
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await context.setCookie({ name: 'login', value: 'context', domain: 'a.test', path: '/', secure: false, httpOnly: true });
  await page.goto(site.url('a', '/whoami'));
  assert.equal(await page.$eval('#who', e => e.textContent), 'context');
  assert.equal(page.browserContext(), context);
  const outside = await browser.newPage();
  await outside.goto(site.url('a', '/whoami'));
  assert.equal(await outside.$eval('#who', e => e.textContent), 'nobody');
  await context.close();
  assert.equal(browser.browserContexts().length, 1);
  assert.equal(await outside.evaluate(() => 1), 1);
});

test('request interception, screenshot, keyboard and workers', async t => {
  const { browser } = await connect(t);
  const page = await browser.newPage();
  await page.setRequestInterception(true);
  const intercept = request => (request.url().endsWith('/api/value')
    ? request.respond({ contentType: 'application/json', body: '{"value":"intercepted"}' })
    : request.continue());
  page.on('request', intercept);
  await page.goto(site.url('a'));
  assert.deepEqual(await page.evaluate(() => fetch('/api/value').then(r => r.json())), { value: 'intercepted' });
  page.off('request', intercept);
  await page.setRequestInterception(false);
  assert.deepEqual(await page.evaluate(() => fetch('/api/value').then(r => r.json())), { value: 'from the server' });
  assert.equal(Buffer.from(await page.screenshot()).subarray(1, 4).toString(), 'PNG');
  await page.type('#i', 'typed');
  assert.equal(await page.$eval('#i', e => e.value), 'typed');
  const [worker] = await Promise.all([next(page, 'workercreated'), page.goto(site.url('a', '/worker'))]);
  assert.equal(await page.evaluate(() => window.fromWorker), 21);
  assert.equal(await worker.evaluate(() => self.tabwardenWorker), true);
});

test('user agent, viewport, cookies and page.close', async t => {
  const { browser } = await connect(t);
  const page = await browser.newPage();
  await page.setUserAgent({ userAgent: 'tabwarden-test/2' });
  await page.setViewport({ width: 500, height: 400 });
  await page.goto(site.url('a'));
  assert.equal(await page.evaluate(() => navigator.userAgent), 'tabwarden-test/2');
  assert.deepEqual(await page.evaluate(() => [innerWidth, innerHeight]), [500, 400]);
  const [opened] = await Promise.all([next(page, 'popup'), page.evaluate(() => { window.open('/plain?title=second'); })]);
  await opened.waitForSelector('#title');
  await Promise.all([next(opened, 'close'), opened.close()]);
  const destroyed = next(browser, 'targetdestroyed');
  await page.close();
  await destroyed;
  assert.equal((await browser.pages()).length, 1);
});
