// What a policy lets a client do in which document, how a refusal is told, and what a task may have at a time.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { ACCEPTED, policyDenying } from './support/policy.mjs';
import { CdpError } from './support/raw.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { temporaryFolder, until } from './support/util.mjs';

let site, server;
const folder = temporaryFolder('tabwarden-documents-');

function policy(name, rules) {
  const path = join(folder, `${name}.toml`);
  writeFileSync(path, `policy = 1\nname = "${name}"\ndefault = "deny"\n
[[rule]]\nid = "web-${name}"\neffect = "allow"\nverbs = ["*"]\nto = "*"\nschemes = ["http", "https", "ws", "wss"]\nports = "*"\nlocal = true\nreason = "The web"\n
${rules}\n${ACCEPTED}`);
  return path;
}

before(async () => {
  site = await Site.start();
  const looking = policy('looking', '[[rule]]\nid = "only-look"\neffect = "deny"\nverbs = ["script"]\nto = { host = "b.test" }\nports = "*"\nreason = "Look, do not touch"');
  const unread = policy('unread', '[[rule]]\nid = "no-read"\neffect = "deny"\nverbs = ["read"]\nto = { host = "b.test" }\nports = "*"\nreason = "Not for reading"');
  const few = policy('few', '[limits]\ntabs = 2\nnavigations_per_min = 4');
  const denying = join(folder, 'denying.toml');
  writeFileSync(denying, policyDenying('forbidden.test'));
  const watching = policy('watching', ['navigate', 'subresource', 'script'].map(verb =>
    `[[rule]]\nid = "would-${verb}"\nmode = "monitor"\neffect = "deny"\nverbs = ["${verb}"]\nto = { host = "b.test" }\nports = "*"\nreason = "On trial"`).join('\n\n'));
  const widget = join(folder, 'widget.toml');
  writeFileSync(widget, `policy = 1\nname = "widget"\ndefault = "deny"\n
[[rule]]\nid = "desk"\neffect = "allow"\nverbs = ["*"]\nto = { host = "a.test" }\nschemes = ["http"]\nports = "*"\n
[[rule]]\nid = "widgets"\neffect = "allow"\nverbs = ["frame"]\nto = { host = "b.test" }\nschemes = ["http"]\nports = "*"\nwhen = { initiator = { host = "a.test" } }\n
[[rule]]\nid = "routes"\neffect = "allow"\nverbs = ["intercept"]\nto = { host = "b.test" }\nschemes = ["http"]\nports = "*"\n\n${ACCEPTED}`);
  server = await serve({ site, record: true, tasks: [`widget,policy=${widget}`, `looking,policy=${looking}`, `unread,policy=${unread}`, `few,policy=${few}`, `denying,policy=${denying}`, `watching,policy=${watching}`] });
});
after(async () => {
  await server?.stop();
  await site?.stop();
});

const refusal = pattern => error => error instanceof CdpError && error.code === -32000 && pattern.test(error.text);
const ONLY_LOOK = /^tabwarden: script at http:\/\/b\.test:\d+\/plain denied by rule only-look \(.*looking\.toml:\d+\): Look, do not touch\. .* \[a-[0-9a-f]+-\d+\]$/;

describe('a policy at documents', router, () => {
  test('script is allowed in one document and refused in another, in whatever way it would come there', async t => {
    const raw = await server.connect('looking');
    t.after(() => raw.close());
    const page = await raw.newPage(site.url('a', '/plain'));
    await assert.rejects(raw.send('Runtime.evaluate', { expression: '1' }, page.sessionId), refusal(/send Runtime\.enable first/));
    await raw.send('Runtime.enable', {}, page.sessionId);
    assert.equal((await raw.send('Runtime.evaluate', { expression: 'location.host' }, page.sessionId)).result.value, `a.test:${site.port}`);
    await raw.send('Page.addScriptToEvaluateOnNewDocument', { source: '//# sourceURL=nothing', worldName: 'mine' }, page.sessionId);
    await assert.rejects(raw.send('Page.addScriptToEvaluateOnNewDocument', { source: 'window.x = 1' }, page.sessionId), refusal(/would run in every document to come/));
    await assert.rejects(raw.send('Runtime.addBinding', { name: 'x' }, page.sessionId), refusal(/would run in every document to come/));

    await raw.goto(site.url('b', '/plain'), page.sessionId);
    await assert.rejects(raw.send('Runtime.evaluate', { expression: '1' }, page.sessionId), refusal(ONLY_LOOK));
    await assert.rejects(raw.send('DOM.setAttributeValue', { nodeId: 1, name: 'a', value: 'b' }, page.sessionId), refusal(ONLY_LOOK));
    await assert.rejects(raw.send('Page.createIsolatedWorld', { frameId: page.targetId }, page.sessionId), refusal(ONLY_LOOK));
    // To look at it is another verb.
    assert.ok((await raw.send('DOM.getDocument', { depth: -1 }, page.sessionId)).root.children.length);
    assert.ok((await raw.send('Page.captureScreenshot', { format: 'jpeg' }, page.sessionId)).data);
    await raw.goto(site.url('a', '/plain'), page.sessionId);
    assert.equal((await raw.send('Runtime.evaluate', { expression: '1 + 1' }, page.sessionId)).result.value, 2);
  });

  test('events tell nothing of what is in a document that may not be read, and go on in the next one', async t => {
    const raw = await server.connect('unread');
    t.after(() => raw.close());
    const page = await raw.newPage(site.url('a', '/plain'));
    for (const domain of ['Runtime', 'DOM', 'Log']) await raw.send(`${domain}.enable`, {}, page.sessionId);
    const speak = name => site.url(name, '/html', { body: `<script>console.log('spoken at ${name}'); document.body.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 200, iterations: Infinity })</script>` });
    const go = async url => {
      const since = raw.mark();
      const { loaderId } = await raw.send('Page.navigate', { url }, page.sessionId);
      await raw.wait('Page.lifecycleEvent', { sessionId: page.sessionId, since, accept: p => p.name === 'load' && p.loaderId === loaderId });
    };
    const pictures = since => raw.events.slice(since).filter(event => event.method === 'Page.screencastFrame');
    await raw.send('Page.startScreencast', { format: 'jpeg', quality: 10 }, page.sessionId);
    raw.onEvent = event => { if (event.method === 'Page.screencastFrame') raw.post('Page.screencastFrameAck', { sessionId: event.params.sessionId }, page.sessionId); };
    await go(speak('a'));
    await raw.wait('Page.screencastFrame', { since: raw.mark(), sessionId: page.sessionId });
    await raw.wait('Runtime.consoleAPICalled', { sessionId: page.sessionId, accept: p => p.args[0].value === 'spoken at a' });

    const since = raw.mark();
    await go(speak('b'));
    await assert.rejects(raw.send('DOM.getDocument', {}, page.sessionId), refusal(/^tabwarden: read at http:\/\/b\.test:\d+\/html denied by rule no-read/));
    // Frames of the page come from the first picture on; a second load is sure to be after several of them.
    await go(speak('b'));
    const arrived = raw.events.slice(since).findIndex(event => event.method === 'Page.frameNavigated' && event.params.frame.url.includes('b.test'));
    const there = raw.events.slice(since + arrived).filter(event => /^(DOM|CSS)\.|consoleAPICalled|screencastFrame/.test(event.method));
    assert.deepEqual(there.map(event => event.method), []);

    const back = raw.mark();
    await go(speak('a'));
    await raw.wait('Page.screencastFrame', { since: back, sessionId: page.sessionId });
    assert.ok(pictures(back).length > 0);
  });

  test('a frame that is allowed on behalf of one document loads there, past a client\'s interception too, and nowhere else', async t => {
    const raw = await server.connect('widget');
    t.after(() => raw.close());
    const page = await raw.newPage(site.url('a', '/plain'));
    await raw.send('Runtime.enable', {}, page.sessionId);
    await raw.send('Fetch.enable', { patterns: [{ urlPattern: '*b.test*' }] }, page.sessionId);
    const since = raw.mark();
    // (Its answer may be replaced: the frame is on its way to where no script is allowed.)
    raw.post('Runtime.evaluate', { expression: `document.body.appendChild(document.createElement('iframe')).src = ${JSON.stringify(site.url('b', '/plain?widget'))}; 0` }, page.sessionId);
    const { params } = await raw.wait('Fetch.requestPaused', { since, sessionId: page.sessionId });
    await raw.send('Fetch.continueRequest', { requestId: params.requestId }, page.sessionId);
    await site.wait(request => request.url === '/plain?widget', 'the frame');
    await assert.rejects(raw.send('Page.navigate', { url: site.url('b', '/plain?top') }, page.sessionId), refusal(/^tabwarden: navigate to .* denied by/));
  });

  test('a script in a frame is judged by the frame, and one sent while the page is on its way by where it goes', async t => {
    const raw = await server.connect('looking');
    t.after(() => raw.close());
    const page = await raw.newPage();
    await raw.send('Runtime.enable', {}, page.sessionId);
    await raw.goto(site.url('a', '/plain'), page.sessionId);
    // Both go out before anything of the navigation is known.
    const going = raw.send('Page.navigate', { url: site.url('b', '/plain') }, page.sessionId);
    const script = raw.send('Runtime.evaluate', { expression: 'document.title' }, page.sessionId);
    await assert.rejects(script, refusal(ONLY_LOOK));
    await going;
    const sent = server.recording().filter(line => line.dir === 'to' && line.task === 'looking' && line.frame.includes('document.title'));
    assert.deepEqual(sent, []);

    await raw.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: true }, page.sessionId);
    const since = raw.mark();
    await raw.goto(site.url('a', '/with-frame', { src: site.url('b', '/plain') }), page.sessionId);
    const { params } = await raw.wait('Target.attachedToTarget', { since, sessionId: page.sessionId, accept: p => p.targetInfo.type === 'iframe' });
    await until(async () => (await raw.send('Runtime.evaluate', { expression: '1' }, params.sessionId).catch(error => error)) instanceof CdpError, 'the frame having its document');
    await raw.send('Runtime.enable', {}, params.sessionId);
    await assert.rejects(raw.send('Runtime.evaluate', { expression: '1' }, params.sessionId), refusal(ONLY_LOOK));
    assert.equal((await raw.send('Runtime.evaluate', { expression: '2' }, page.sessionId)).result.value, 2);
  });

  test('an unmodified Playwright script is told why: by goto, and by the page\'s console', async t => {
    const browser = await chromium.connectOverCDP(server.tasks.denying.http_url);
    t.after(() => browser.close());
    const page = await browser.contexts()[0].newPage();
    await page.goto(site.url('a', '/plain'));
    const because = /tabwarden: .*forbidden\.test:\d+\/\w+ denied by rule forbidden \(.*denying\.toml:\d+\): The tests say so/;
    const told = page.waitForEvent('console', message => because.test(message.text()));
    assert.equal(await page.evaluate(url => fetch(url).then(() => 'loaded', error => error.message), site.url('forbidden', '/data')), 'Failed to fetch');
    assert.equal((await told).type(), 'error');
    // By a redirect the load begins, so that it is the browser that fails it.
    await assert.rejects(page.goto(site.url('a', '/redirect', { to: site.url('forbidden', '/page') })), error => /net::ERR_BLOCKED_BY_CLIENT \(tabwarden: /.test(error.message) && because.test(error.message));
    assert.deepEqual(site.seenAt('forbidden'), []);
    const { body } = await server.api('GET', '/tasks/denying/decisions');
    const [fetched, went] = ['subresource', 'navigate'].map(verb => body.decisions.find(decision => decision.verb === verb));
    assert.equal(fetched.object, site.url('forbidden', '/data'));
    assert.equal(went.object, site.url('forbidden', '/page'));
    assert.equal(went.verdict, 'deny');
  });

  test('an unmodified script\'s routes work for what is allowed, pass nothing that is not, and stall their own page only', async t => {
    const browser = await chromium.connectOverCDP(server.tasks.denying.http_url);
    t.after(() => browser.close());
    const [context] = browser.contexts();
    const page = await context.newPage();
    await page.goto(site.url('a', '/plain'));
    const since = site.mark();
    const told = [];
    page.on('console', message => told.push(message.text()));
    const made = { body: 'made up', headers: { 'access-control-allow-origin': '*' } };
    await page.route('**/*', async route => {
      const [, how] = /\/route-(\w+)/.exec(route.request().url()) ?? [];
      const ways = {
        fulfil: () => route.fulfill(made), abort: () => route.abort(), go: () => route.continue(), never: () => new Promise(() => {}),
        rewrite: () => route.continue({ url: site.url('b', '/api/value') }), sneak: () => route.continue({ url: site.url('forbidden', '/sneaked') }),
        redirect: () => route.fulfill({ status: 302, headers: { location: site.url('forbidden', '/redirected') } }),
      };
      await ways[how]();
    });
    const load = url => page.evaluate(url => fetch(url).then(response => response.text(), error => error.message), url);
    assert.equal(await load(site.url('a', '/route-fulfil')), 'made up');
    assert.equal(await load(site.url('a', '/route-abort')), 'Failed to fetch');
    assert.equal(await load(site.url('a', '/route-go')), 'no such page');
    assert.equal(await load(site.url('a', '/route-rewrite')), '{"value":"from the server"}');
    assert.deepEqual(told.filter(text => text.startsWith('tabwarden')), []);
    for (const url of [site.url('a', '/route-sneak'), site.url('a', '/route-redirect'), site.url('forbidden', '/route-fulfil'), site.url('forbidden', '/route-go'), site.url('forbidden', '/route-abort')]) {
      assert.equal(await load(url), 'Failed to fetch', url);
    }
    for (const why of [/intercept at http:\/\/forbidden\.test:\d+\/route-fulfil denied by rule forbidden/, /read at http:\/\/forbidden\.test:\d+\/sneaked denied by rule forbidden/]) {
      await until(() => told.some(text => why.test(text)), `the console saying ${why}`);
    }
    await page.evaluate(url => void fetch(url).then(() => { window.answered = true; }), site.url('a', '/route-never'));

    // Another page of the same task, and the stalled one itself.
    const other = await context.newPage();
    await other.goto(site.url('b', '/plain', { title: 'not stalled' }));
    assert.equal(await other.title(), 'not stalled');
    assert.equal(await page.evaluate(() => window.answered), undefined);
    await page.unrouteAll();
    await page.goto(site.url('b', '/plain', { title: 'goes on' }));
    assert.equal(await page.title(), 'goes on');
    assert.deepEqual(site.seenAt('forbidden', since), []);
  });

  test('a rule in monitor mode changes nothing, and the audit keeps what it would have refused', async t => {
    const browser = await chromium.connectOverCDP(server.tasks.watching.http_url);
    t.after(() => browser.close());
    const page = await browser.contexts()[0].newPage();
    await page.addInitScript(() => { window.__init = 'ran'; });
    await page.goto(site.url('b', '/plain', { title: 'on trial' }));
    assert.equal(await page.title(), 'on trial');
    assert.equal(await page.evaluate(() => window.__sawInit), 'ran');
    assert.equal(await page.evaluate(url => fetch(url).then(response => response.status), site.url('b', '/api/value')), 200);
    const kept = async () => (await server.api('GET', '/tasks/watching/decisions')).body.decisions;
    await until(async () => ['navigate', 'script', 'subresource'].every(verb => kept().then(all => all.some(one => one.verb === verb))), 'the records');
    const all = await kept();
    assert.deepEqual(all.filter(one => one.enforced || one.verdict !== 'deny' || one.rule.id !== `would-${one.verb}`), []);
    // However many gates have judged it.
    for (const [verb, object] of [['navigate', site.url('b', '/plain')], ['subresource', site.url('b', '/api/value')]]) {
      assert.equal(all.filter(one => one.verb === verb && one.object === object).length, 1, `${verb} ${object}`);
    }
  });

  test('what follows redirects past every gate is refused where a request could be denied', async t => {
    const raw = await server.connect('denying');
    t.after(() => raw.close());
    const page = await raw.newPage(site.url('a', '/plain'));
    for (const url of [site.url('a', '/redirect', { to: site.url('forbidden', '/resource') }), site.url('forbidden', '/resource')]) {
      const asked = raw.send('Network.loadNetworkResource', { frameId: page.targetId, url, options: { disableCache: true, includeCredentials: false } }, page.sessionId);
      await assert.rejects(asked, refusal(/follows redirects past every gate/));
    }
    assert.deepEqual(site.seenAt('forbidden').filter(request => request.path === '/resource'), []);
  });

  test('a task has no more pages than its policy says, popups included, and loads no more documents in a minute', async t => {
    const raw = await server.connect('few');
    t.after(() => raw.close());
    const { targetInfos } = await raw.send('Target.getTargets');
    for (const { targetId } of targetInfos.filter(info => info.type === 'page')) await raw.send('Target.closeTarget', { targetId });
    await until(async () => (await server.pageIds('few')).length === 0, 'no page');
    const page = await raw.newPage(site.url('a', '/plain'));
    await raw.newPage();
    await assert.rejects(raw.send('Target.createTarget', { url: 'about:blank' }), refusal(/as many pages as tabs = 2 allows\. Close one of its pages first/));
    await raw.send('Runtime.evaluate', { expression: `void window.open(${JSON.stringify(site.url('c', '/one-too-many'))})`, userGesture: true }, page.sessionId);
    await until(() => server.stderr.includes('popup to') && server.stderr.includes('tabs = 2'), 'the popup being refused');
    await until(async () => (await server.pageIds('few')).length === 2, 'the popup being closed');
    for (let load = 2; load <= 4; load++) await raw.goto(site.url('a', `/plain?load=${load}`), page.sessionId);
    assert.match((await raw.send('Page.navigate', { url: site.url('a', '/plain?load=5') }, page.sessionId)).errorText, /navigations_per_min = 4 allows\. Wait a minute/);
    assert.deepEqual(site.seen(request => request.url.includes('one-too-many') || request.url.includes('load=5')), []);
  });
});
