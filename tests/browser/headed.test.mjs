// A person works in a headed browser while agents do: their tab keeps the screen and the keyboard.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { startChromium } from './support/chromium.mjs';
import { Person } from './support/person.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { until } from './support/util.mjs';
import { startDisplay } from './support/xvfb.mjs';

describe('headed', router, () => {
  let site, screen, browser, person, tab, server, window;
  before(async () => {
    site = await Site.start();
    screen = await startDisplay();
    browser = await startChromium({ site, headed: true, env: { DISPLAY: screen.display, WAYLAND_DISPLAY: '' } });
    person = await Person.of(browser);
    tab = await person.openTab(site.url('person', '/person', { id: 'headed' }));
    await person.raw.send('Page.bringToFront', {}, tab.sessionId);
    await until(() => person.evaluate(tab, `document.hasFocus() && document.visibilityState === 'visible'`), 'the person\'s tab having the focus');
    server = await serve({ attach: browser, site, tasks: ['agent', 'shared,context=shared'] });
    window = await windowNow();
  });
  after(async () => {
    await server?.stop();
    await person?.close();
    await browser?.close();
    await screen?.close();
    await site?.stop();
  });

  const windowNow = () => person.raw.send('Browser.getWindowForTarget', { targetId: tab.targetId });
  /** Forgets what the tab's page noted so far. */
  const startLog = () => person.evaluate(tab, 'window.__log.length = 0');
  const log = () => person.evaluate(tab, 'window.__log');
  const state = () => person.evaluate(tab, '({ focus: document.hasFocus(), visible: document.visibilityState })');

  /** The page itself has noted no blur, no focus and no change of visibility; the window is as it was. */
  async function undisturbed(what) {
    assert.deepEqual(await state(), { focus: true, visible: 'visible' }, what);
    assert.deepEqual(await log(), [], what);
    assert.deepEqual(await windowNow(), window, what);
  }

  beforeEach(async () => {
    await person.raw.send('Page.bringToFront', {}, tab.sessionId);
    await until(async () => (await state()).focus, 'the person\'s tab having the focus');
    await startLog();
  });

  for (const name of ['agent', 'shared']) {
    test(`a whole Playwright script in the ${name} task: connect, pages, text, screenshots, contexts, close`, async t => {
      const client = await chromium.connectOverCDP(server.tasks[name].http_url);
      t.after(() => client.close());
      const context = client.contexts()[0];
      await undisturbed('connecting');
      const page = await context.newPage();
      await undisturbed('newPage');
      await page.goto(site.url('a', '/with-frame', { src: site.url('b') }));
      assert.equal(await page.frameLocator('#f').locator('#title').textContent(), 'plain');
      await page.goto(site.url('a'));
      await page.hover('#b');
      await page.fill('#i', 'typed');
      await page.press('#i', 'Enter');
      await page.locator('#b').dispatchEvent('click');
      assert.equal(await page.textContent('#o'), 'clicked');
      await undisturbed('hovering and typing');
      assert.ok((await page.screenshot()).length > 0, 'a background page can be screenshot');
      assert.ok((await page.screenshot({ fullPage: true })).length > 0);
      assert.deepEqual(await page.evaluate(() => [document.visibilityState, document.hasFocus()]), ['visible', true], 'an owned page believes that it has the focus');
      assert.ok(await page.evaluate(() => new Promise(resolve => requestAnimationFrame(() => resolve(true)))), 'and it draws');
      await undisturbed('screenshots');
      await page.bringToFront();
      await undisturbed('bringToFront');
      await page.evaluate(() => { window.focus(); });
      await page.evaluate(() => alert('from the background'));
      await undisturbed('window.focus and alert');
      await page.setViewportSize({ width: 500, height: 400 });
      assert.deepEqual(await page.evaluate(() => [innerWidth, innerHeight]), [500, 400]);
      const other = await client.newContext();
      const inOther = await other.newPage();
      await inOther.goto(site.url('c'));
      assert.ok((await inOther.screenshot()).length > 0);
      await undisturbed('a page in a new context');
      await other.close();
      await page.close();
      await undisturbed('closing');
    });
  }

  // Measured directly on Chromium: pressing a mouse button (or touching) in a page that has a window of its own gives that
  // window the focus. In a background tab it does not, but there a screenshot is never answered.
  for (const name of ['agent', 'shared']) {
    test(`clicks in the ${name} task's background pages, in frames too: they arrive, and the person's tab stays visible and gets the focus back`, async t => {
      const client = await chromium.connectOverCDP(server.tasks[name].http_url);
      t.after(() => client.close());
      const page = await client.contexts()[0].newPage();
      await page.goto(site.url('a', '/with-frame', { src: site.url('b') }));
      await page.frameLocator('#f').locator('#b').click();
      assert.equal(await page.frameLocator('#f').locator('#o').textContent(), 'clicked');
      await until(async () => (await state()).focus, 'the focus being given back after a click in a frame');
      await page.goto(site.url('a'));
      await page.click('#b');
      assert.equal(await page.textContent('#o'), 'clicked');
      await until(async () => (await state()).focus, 'the focus being given back after a click');
      await page.close();
      assert.deepEqual((await log()).filter(entry => /hidden/.test(entry)), [], 'it was visible all the time');
      assert.deepEqual(await windowNow(), window);
    });
  }

  test('the first page of a fresh task, and Puppeteer\'s', async t => {
    await server.newTask('pptr');
    const client = await puppeteer.connect({ browserURL: server.tasks.pptr.http_url });
    t.after(() => client.disconnect());
    const [found] = await client.pages();
    await found.goto(site.url('a'));
    await found.type('#i', 'typed');
    assert.equal(await found.$eval('#i', e => e.value), 'typed');
    await found.bringToFront();
    const page = await client.newPage();
    await page.goto(site.url('b'));
    await page.screenshot();
    await page.close();
    await server.api('DELETE', '/tasks/pptr');
    await undisturbed('a Puppeteer script and the task\'s end');
  });

  test('activateTarget and setWindowBounds of a raw client do nothing to the person', async () => {
    const raw = await server.connect('agent');
    const { targetId, sessionId } = await raw.newPage(site.url('a'));
    await raw.send('Target.activateTarget', { targetId });
    await raw.send('Page.bringToFront', {}, sessionId);
    await raw.send('Target.createTarget', { url: 'about:blank', background: false, focus: true });
    await raw.send('Target.createTarget', { url: 'about:blank', newWindow: true });
    await undisturbed('activating');
    await raw.send('Target.closeTarget', { targetId });
    await raw.close();
  });

  test('a small window of the person\'s is not covered by an agent\'s larger one', { todo: 'a new window stands above it though it is in the background; raising the person\'s would take the focus from other programs' }, async t => {
    const small = await startChromium({ site, headed: true, env: { DISPLAY: screen.display, WAYLAND_DISPLAY: '' }, args: ['--window-size=800,600', '--window-position=40,40'] });
    t.after(() => small.close());
    const owner = await Person.of(small);
    const mine = await owner.openTab(site.url('person', '/person', { id: 'small' }));
    await owner.raw.send('Page.bringToFront', {}, mine.sessionId);
    const other = await serve({ attach: small, site, tasks: ['t'] });
    t.after(() => other.stop());
    const raw = await other.connect('t');
    await raw.newPage(site.url('a'));
    await raw.close();
    assert.equal(await owner.evaluate(mine, 'document.visibilityState'), 'visible');
  });

  test('with popups of every kind, and a beforeunload dialog, the person\'s tab stays visible and gets the focus back', async t => {
    const client = await chromium.connectOverCDP(server.tasks.agent.http_url);
    t.after(() => client.close());
    const page = await client.contexts()[0].newPage();
    await page.goto(site.url('a', '/popups', { to: site.url('d') }));
    for (const kind of ['open', 'features', 'noopener', 'blank', 'form']) {
      const [popup] = await Promise.all([page.waitForEvent('popup'), page.click(`#${kind}`)]);
      await popup.waitForLoadState();
      await until(async () => (await state()).focus, `the focus being given back after ${kind}`);
      await popup.click('#b');
      assert.equal(await popup.textContent('#o'), 'clicked', kind);
      await popup.close();
    }
    for (const options of [{ modifiers: ['Control'] }, { button: 'middle' }, { modifiers: ['Shift'] }]) {
      const [opened] = await Promise.all([client.contexts()[0].waitForEvent('page'), page.click('#link', options)]);
      await opened.waitForLoadState();
      await until(async () => (await state()).focus, 'the focus being given back after a modified click');
      await opened.close();
    }
    const asking = await client.contexts()[0].newPage();
    await asking.goto(site.url('a', '/beforeunload'));
    await asking.click('#b');
    const asked = asking.waitForEvent('dialog');
    await asking.close({ runBeforeUnload: true });
    await (await asked).accept();
    await until(async () => (await state()).focus, 'the focus being given back after beforeunload');
    assert.deepEqual((await log()).filter(entry => /hidden/.test(entry)), [], 'it was visible all the time');
    assert.deepEqual(await windowNow(), window);
  });
});
