// Traces: of the task's frames, without anybody else's, one at a time.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { startChromium } from './support/chromium.mjs';
import { Person } from './support/person.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { until } from './support/util.mjs';

describe('traces', router, () => {
  let site, browser, person, tab, server;
  before(async () => {
    site = await Site.start();
    // One renderer for all pages of a site in a context, so that the shared task's page is in the person's process.
    browser = await startChromium({ site, args: ['--renderer-process-limit=1'] });
    person = await Person.of(browser);
    tab = await person.openTab(site.url('a', '/plain', { title: 'persons-title-5c1d' }));
    server = await serve({ attach: browser, site, tasks: ['shared,context=shared', 'other,context=shared', 'isolated'] });
  });
  after(async () => {
    await server?.stop();
    await person?.close();
    await browser?.close();
    await site?.stop();
  });

  /** The person works meanwhile: a load, console marks, a script of a name. */
  async function personWorks() {
    await person.navigate(tab, site.url('a', '/plain', { title: 'persons-title-5c1d', x: 'persons-load-77b2' }));
    await person.evaluate(tab, `console.time('persons-mark-91fe'); performance.mark('persons-mark-91fe'); console.timeEnd('persons-mark-91fe')`);
  }
  const MARKS = /persons-(title-5c1d|load-77b2|mark-91fe)/;
  const framesIn = events => new Set(events.flatMap(event => [...JSON.stringify(event.args ?? {}).matchAll(/"frame(?:Id)?":"([0-9A-F]{32})"/g)].map(match => match[1])));

  async function assertOwn(text, task, pages) {
    const events = JSON.parse(text).traceEvents;
    assert.ok(!MARKS.test(text), `the person's: ${MARKS.exec(text)?.[0]}`);
    assert.ok(!text.includes(tab.targetId));
    const frames = framesIn(events);
    for (const page of pages) assert.ok(frames.has(page), `a trace of ${task} has events of its page`);
    const own = await server.pageIds(task);
    for (const info of await person.pages()) assert.ok(own.includes(info.targetId) || !frames.has(info.targetId), `${info.url} is in a trace of ${task}`);
    assert.ok(!events.some(event => /screenshot/i.test(event.name + event.cat)));
    return events;
  }

  for (const task of ['shared', 'isolated']) {
    test(`Playwright traces a page and the browser of a task (${task}): its frames and nothing of the person's`, async t => {
      const client = await chromium.connectOverCDP(server.tasks[task].http_url);
      t.after(() => client.close());
      const page = await client.contexts()[0].newPage();
      await page.goto(site.url('a'));
      const session = await client.contexts()[0].newCDPSession(page);
      const { targetInfo } = await session.send('Target.getTargetInfo');
      for (const of of [page, undefined]) {
        await client.startTracing(of, { screenshots: true });
        await page.goto(site.url('a', '/plain', { x: 'own-load-42aa' }));
        await page.evaluate(() => { console.time('own-mark-13cd'); performance.mark('own-mark-13cd'); console.timeEnd('own-mark-13cd'); });
        await personWorks();
        const text = (await client.stopTracing()).toString();
        const events = await assertOwn(text, task, [targetInfo.targetId]);
        assert.match(text, /own-load-42aa/);
        if (of) assert.ok(events.some(event => event.name === 'TracingStartedInBrowser' && event.args.data.frames.length > 0));
        // Where no process is shared with anybody, what names no frame is told too.
        assert.equal(events.some(event => event.cat?.includes('blink.console') && /own-mark-13cd/.test(JSON.stringify(event))), task === 'isolated');
      }
    });
  }

  test('Puppeteer\'s page.tracing works', async t => {
    const client = await puppeteer.connect({ browserWSEndpoint: server.tasks.isolated.ws_url });
    t.after(() => client.disconnect());
    const page = await client.newPage();
    await page.tracing.start({ screenshots: true });
    await page.goto(site.url('b'));
    await personWorks();
    await assertOwn(Buffer.from(await page.tracing.stop()).toString(), 'isolated', [page.target()._targetId]);
  });

  test('one at a time, with an error that says so; a client that is cut off ends its own', async t => {
    const [first, second] = [await server.connect('shared'), await server.connect('other')];
    t.after(() => second.close());
    const page = await first.newPage(site.url('a'));
    const other = await second.newPage(site.url('b'));
    await first.send('Tracing.start', { transferMode: 'ReportEvents' }, page.sessionId);
    for (const session of [other.sessionId, undefined]) {
      assert.match((await second.refused('Tracing.start', {}, session)).text, /another trace is being recorded.*one at a time/);
      assert.match((await second.refused('Tracing.end', {}, session)).text, /not started/);
    }
    first.terminate();
    await first.closed;
    await until(() => second.send('Tracing.start', { transferMode: 'ReportEvents' }, other.sessionId).then(() => true), 'a trace of its own');
    const since = second.mark();
    await second.goto(site.url('b', '/plain', { x: 'mine' }), other.sessionId);
    await personWorks();
    await second.send('Tracing.end', {}, other.sessionId);
    await second.wait('Tracing.tracingComplete', { since, sessionId: other.sessionId });
    const events = second.seen('Tracing.dataCollected', since).flatMap(event => event.params.value);
    await assertOwn(JSON.stringify({ traceEvents: events }), 'other', [other.targetId]);
    // The person's own DevTools has its turn; then Chromium's words are passed on.
    await person.raw.send('Tracing.start', {}, tab.sessionId);
    assert.match((await second.refused('Tracing.start', {}, other.sessionId)).text, /already been started/);
    const done = person.raw.wait('Tracing.tracingComplete', { since: person.raw.mark() });
    await person.raw.send('Tracing.end', {}, tab.sessionId);
    await done;
  });

  test('a stream is read by the client and on the session that it was told to, and by nobody else', async t => {
    const [raw, other] = [await server.connect('isolated'), await server.connect('isolated')];
    t.after(() => Promise.all([raw.close(), other.close()]));
    const page = await raw.newPage(site.url('a'));
    await raw.send('Tracing.start', { transferMode: 'ReturnAsStream' });
    await raw.goto(site.url('b'), page.sessionId);
    await raw.send('Tracing.end');
    const { params } = await raw.wait('Tracing.tracingComplete', { sessionId: null });
    for (const [client, session] of [[other, undefined], [raw, page.sessionId]]) {
      assert.match((await client.refused('IO.read', { handle: params.stream }, session)).text, /Invalid stream handle/);
      assert.ok((await client.refused('IO.close', { handle: params.stream }, session)).code < 0);
    }
    let text = '';
    for (;;) {
      const { data, eof } = await raw.send('IO.read', { handle: params.stream });
      text += data;
      if (eof) break;
    }
    await assertOwn(text, 'isolated', [page.targetId]);
    await raw.send('IO.close', { handle: params.stream });
    assert.match((await raw.refused('IO.read', { handle: params.stream })).text, /Invalid stream handle/);
  });
});
