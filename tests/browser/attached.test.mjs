// The person's own, logged-in browser: a shared task has its logins and none of its tabs, and the person notices nothing.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { startChromium } from './support/chromium.mjs';
import { Person } from './support/person.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { until, within } from './support/util.mjs';

/** Stands before the browser's port and counts: `{ httpUrl, upgrades(), open() }`. Chromium names it in its discovery answer, for it echoes Host. */
async function countingDoor(browser) {
  const port = Number(new URL(browser.httpUrl).port);
  let upgrades = 0;
  const sockets = new Set();
  const door = net.createServer(socket => {
    const upstream = net.connect(port, '127.0.0.1');
    let websocket = false;
    socket.once('data', head => {
      websocket = /\r\nupgrade: *websocket/i.test(head.toString('latin1'));
      if (websocket) { upgrades++; sockets.add(socket); }
      upstream.write(head);
      socket.pipe(upstream);
    });
    upstream.pipe(socket);
    const drop = () => { sockets.delete(socket); socket.destroy(); upstream.destroy(); };
    for (const end of [socket, upstream]) end.on('error', drop).on('close', drop);
  });
  await new Promise(resolve => door.listen(0, '127.0.0.1', resolve));
  return {
    httpUrl: `http://127.0.0.1:${door.address().port}`,
    upgrades: () => upgrades,
    open: () => sockets.size,
    close: () => { for (const socket of sockets) socket.destroy(); door.close(); },
  };
}

describe('an attached browser', router, () => {
  let site, browser, person, tab, door, server;
  before(async () => {
    site = await Site.start();
    browser = await startChromium({ site });
    person = await Person.of(browser);
    // The person is logged in, and has 20 tabs: one of them hangs in a dialog, one loads for ever.
    tab = await person.openTab(site.url('person', '/login'));
    await person.navigate(tab, site.url('person', '/whoami'));
    for (let i = 0; i < 17; i++) await person.openTab(site.url('abc'[i % 3], '/with-frame', { src: site.url('d', '/plain', { title: `person's ${i}` }) }));
    const hung = await person.openTab(site.url('a', '/plain', { title: 'hangs in a dialog' }));
    const opened = person.raw.wait('Page.javascriptDialogOpening', { sessionId: hung.sessionId });
    person.raw.post('Runtime.evaluate', { expression: 'alert("unanswered")' }, hung.sessionId);
    await opened;
    await person.raw.send('Target.createTarget', { url: site.url('b', '/slow', { name: 'forever' }) });
    await site.wait(r => r.path === '/slow', 'the tab that loads for ever');
    door = await countingDoor(browser);
    server = await serve({ attach: door, site, tasks: ['shared,context=shared', 'isolated'] });
  });
  after(async () => {
    await server?.stop();
    door?.close();
    await person?.close();
    await browser?.close();
    await site?.stop();
  });

  test('with 20 tabs of the person\'s, a hanging one and an endless one among them, a client connects and sees its own page only', async t => {
    assert.ok((await person.pages()).length >= 20);
    for (const name of ['shared', 'isolated']) {
      const client = await chromium.connectOverCDP(server.tasks[name].http_url);
      t.after(() => client.close());
      assert.deepEqual(client.contexts().map(c => c.pages().map(p => p.url())), [['about:blank']], name);
    }
  });

  test('a shared task has the person\'s login, an isolated one has not', async t => {
    for (const [name, who] of [['shared', 'person'], ['isolated', 'nobody']]) {
      const client = await chromium.connectOverCDP(server.tasks[name].http_url);
      t.after(() => client.close());
      const page = await client.contexts()[0].newPage();
      await page.goto(site.url('person', '/whoami'));
      assert.equal(await page.textContent('#who'), who, name);
      assert.equal(await page.evaluate(() => document.cookie), name === 'shared' ? 'seen=1' : '', name);
      await page.close();
    }
  });

  test('a context that a client of a shared task makes has no logins', async t => {
    const client = await chromium.connectOverCDP(server.tasks.shared.http_url);
    t.after(() => client.close());
    const context = await client.newContext();
    const page = await context.newPage();
    await page.goto(site.url('person', '/whoami'));
    assert.equal(await page.textContent('#who'), 'nobody');
    await context.close();
  });

  test('one connection to the browser serves 20 clients, and is dialled once', async () => {
    const clients = await Promise.all(Array.from({ length: 20 }, (_, i) => server.connect(i % 2 ? 'shared' : 'isolated')));
    const versions = await Promise.all(clients.map(raw => raw.send('Browser.getVersion')));
    assert.equal(new Set(versions.map(v => v.product)).size, 1);
    await Promise.all(clients.map(raw => raw.send('Target.getTargets')));
    assert.equal(door.open(), 1);
    assert.equal(door.upgrades(), 1);
    await Promise.all(clients.map(raw => raw.close()));
    await (await server.connect('shared')).close();
    assert.equal(door.upgrades(), 1);
  });

  test('tabs that the person opens meanwhile load at once, however they are opened', async () => {
    const tabs = await Promise.all(Array.from({ length: 8 }, (_, i) => person.openTab(site.url('c', '/plain', { title: `new ${i}` }))));
    assert.deepEqual(await Promise.all(tabs.map(t => person.evaluate(t, 'document.title'))), tabs.map((_, i) => `new ${i}`));
    const opener = await person.openTab(site.url('person', '/popups', { to: site.url('d', '/plain', { title: 'opened' }) }));
    for (const kind of ['open', 'noopener', 'blank', 'form']) await person.click(opener, `#${kind}`);
    const opened = await until(async () => {
      const found = (await person.pages()).filter(info => info.title === 'opened');
      return found.length === 4 && found;
    }, 'four popups having loaded');
    for (const { targetId } of [...tabs, opener, ...opened]) await person.raw.send('Target.closeTarget', { targetId });
  });

  test('nothing of the person\'s tabs was reached by what the clients above did', async () => {
    assert.equal(await person.evaluate(tab, `document.querySelector('#who').textContent`), 'person');
    const pages = (await person.pages()).filter(info => /person's/.test(info.title) || info.title === 'with a frame');
    assert.equal(pages.length, 17);
  });

  test('after a kill -9 of tabwarden, tabs and loads of the person\'s that it held go on by themselves, and so do new ones', async t => {
    const other = await startChromium({ site });
    t.after(() => other.close());
    const owner = await Person.of(other);
    t.after(() => owner.close());
    const opener = await owner.openTab(site.url('person', '/popups', { to: site.url('d', '/plain', { title: 'held popup' }) }));
    const moving = await owner.openTab(site.url('c'));
    const victim = await serve({ attach: other, site, tasks: ['t,context=shared', 'u'] });
    t.after(() => victim.stop({ rude: true }));
    const raw = await victim.connect('t');
    const page = await raw.newPage(site.url('a'));
    // Stopped, it answers nothing: from here on all that it gates is held.
    process.kill(victim.pid, 'SIGSTOP');
    const since = site.mark();
    const seen = owner.raw.mark();
    await owner.click(opener, '#noopener');
    owner.raw.post('Page.navigate', { url: site.url('b', '/plain', { title: 'held load' }) }, moving.sessionId);
    const direct = owner.raw.post('Target.createTarget', { url: site.url('d', '/plain', { title: 'held tab' }) });
    await owner.raw.wait('Target.targetCreated', { since: seen, accept: p => p.targetInfo.openerId === opener.targetId });
    await victim.kill();
    for (const title of ['held popup', 'held load', 'held tab']) {
      await site.wait(r => r.url.includes(title.replace(' ', '+')), title, since);
      await until(async () => (await owner.pages()).some(info => info.title === title), `${title} having loaded`);
    }
    await within(direct.answer, 'the tab being created');
    const fresh = await owner.openTab(site.url('a', '/plain', { title: 'after' }));
    assert.equal(await owner.evaluate(fresh, 'document.title'), 'after');
    // The task's own page is left as a tab that works.
    const left = await owner.attach(page.targetId);
    assert.equal(await owner.evaluate(left, 'document.title'), 'plain');
    assert.ok(other.alive());
  });

  test('by its ws:// URL, too; and the end of the browser closes the clients with 4003 and answers what was in flight', async () => {
    const short = await startChromium({ site });
    const other = await serve({ attach: { httpUrl: short.wsUrl }, site, tasks: ['t'] });
    const raw = await other.connect('t');
    const { sessionId } = await raw.newPage();
    const inFlight = raw.post('Runtime.evaluate', { expression: 'new Promise(() => {})', awaitPromise: true }, sessionId);
    await raw.send('Runtime.evaluate', { expression: '1' }, sessionId);
    await short.close();
    assert.equal((await within(raw.closed, 'the client being closed')).code, 4003);
    await assert.rejects(within(inFlight.answer, 'the command in flight being answered'));
    await other.stop({ rude: true });
  });
});
