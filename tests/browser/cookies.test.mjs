// Cookies of two tasks and the person in one profile: each task has those that are sent to hosts where its pages have been, in
// results and in events, and whatever a hostile client tries, the others' stay as they are.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { startChromium } from './support/chromium.mjs';
import * as fingerprint from './support/fingerprint.mjs';
import { Person } from './support/person.mjs';
import { policyDenying } from './support/policy.mjs';
import { CdpError } from './support/raw.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { temporaryFolder } from './support/util.mjs';

describe('cookies in the person\'s profile', router, () => {
  let site, browser, person, server;
  const names = cookies => cookies.map(c => c.name).sort();
  const SECRET = 'secret-of-the-person';

  before(async () => {
    site = await Site.start();
    browser = await startChromium({ site });
    person = await Person.of(browser);
    const policy = join(temporaryFolder('tabwarden-cookies-'), 'no-b.toml');
    writeFileSync(policy, policyDenying('b.test').replaceAll('verbs   = ["*"]\nto      = { host', 'verbs   = ["script", "cookies.read", "cookies.write"]\nto      = { host').replace('verb   = "navigate"', 'verb   = "cookies.read"'));
    server = await serve({ attach: browser, site, tasks: ['one,context=shared', 'two,context=shared', `denied,context=shared,policy=${policy}`, `denied-alone,policy=${policy}`] });
  });
  after(async () => {
    await server?.stop();
    await person?.close();
    await browser?.close();
    await site?.stop();
  });

  /** What the person has, anew for each test. */
  async function plant() {
    await person.raw.send('Storage.clearCookies');
    const far = { expires: Date.now() / 1000 + 86400 };
    await person.raw.send('Storage.setCookies', { cookies: [
      { name: 'login', value: SECRET, url: site.url('person'), httpOnly: true, ...far },
      { name: 'wide', value: SECRET, domain: '.person.test', ...far },
      { name: 'mine', value: 'a', url: site.url('a'), httpOnly: true },
      { name: 'wide-a', value: 'a', domain: '.a.test' },
      { name: 'below-a', value: SECRET, domain: 'below.a.test' },
      { name: '__Host-a', value: 'a', url: 'https://a.test/', secure: true, path: '/' },
      { name: 'none', value: 'a', domain: 'a.test', path: '/deep', secure: true, sameSite: 'None', url: 'https://a.test/' },
      { name: 'part', value: 'a', url: 'https://a.test/', secure: true, sameSite: 'None', partitionKey: { topLevelSite: 'http://a.test', hasCrossSiteAncestor: false } },
      { name: 'part-elsewhere', value: SECRET, url: 'https://a.test/', secure: true, sameSite: 'None', partitionKey: { topLevelSite: 'http://person.test', hasCrossSiteAncestor: true } },
      { name: '', value: 'nameless', domain: 'a.test' },
      { name: 'at-b', value: 'b', url: site.url('b'), httpOnly: true },
    ] });
  }
  const OF_A = ['', '__Host-a', 'mine', 'none', 'part', 'wide-a'];
  const ELSEWHERE = ['at-b', 'below-a', 'login', 'part-elsewhere', 'wide'];
  const all = () => fingerprint.ofCookies(person);

  test('a task has the cookies of hosts where its pages have been, on every way to ask', async t => {
    await plant();
    const raw = await server.connect('one');
    t.after(() => raw.close());
    const { sessionId } = await raw.newPage();
    const asked = async () => {
      const answers = [await raw.send('Storage.getCookies'), await raw.send('Storage.getCookies', {}, sessionId), await raw.send('Network.getAllCookies', {}, sessionId)];
      for (const { cookies } of answers) assert.deepEqual(names(cookies), names(answers[0].cookies));
      return names(answers[0].cookies);
    };
    assert.deepEqual(await asked(), []);
    // A document that failed is none.
    assert.ok((await raw.goto('http://person.test:1/', sessionId)).errorText);
    assert.deepEqual(await asked(), []);
    await raw.goto(site.url('a'), sessionId);
    assert.deepEqual(await asked(), OF_A);
    assert.deepEqual(names((await raw.send('Network.getCookies', {}, sessionId)).cookies), OF_A.filter(name => name !== 'none'));
    assert.deepEqual(names((await raw.send('Network.getCookies', { urls: [site.url('a', '/deep'), 'about:blank'] }, sessionId)).cookies), OF_A);
    const refused = await raw.refused('Network.getCookies', { urls: [site.url('a'), site.url('person')] }, sessionId);
    assert.match(refused.text, /cookies of person\.test.*shares the person's profile/);
    // Another task of the profile has been elsewhere.
    const other = await server.connect('two');
    t.after(() => other.close());
    const page = await other.newPage(site.url('person'));
    assert.deepEqual(names((await other.send('Storage.getCookies')).cookies), ['login', 'wide']);
    // A frame is a document too, and where a task has been stays with it.
    await raw.goto(site.url('c', '/with-frame', { src: site.url('b') }), sessionId);
    assert.deepEqual(await asked(), [...OF_A, 'at-b'].sort());
    await other.send('Target.closeTarget', { targetId: page.targetId });
    assert.deepEqual(names((await other.send('Storage.getCookies')).cookies), ['login', 'wide']);
  });

  test('Playwright and Puppeteer read, set and clear them, and nobody else\'s are changed', async t => {
    await plant();
    const client = await chromium.connectOverCDP(server.tasks.one.http_url);
    t.after(() => client.close());
    const context = client.contexts()[0];
    const page = await context.newPage();
    await page.goto(site.url('a'));
    await context.addCookies([{ name: 'pw', value: '1', url: site.url('a') }, { name: 'pw-wide', value: '1', domain: '.a.test', path: '/' }]);
    assert.equal(await page.evaluate(() => /pw=1/.test(document.cookie) && /pw-wide=1/.test(document.cookie)), true);
    assert.ok(names(await context.cookies(site.url('a'))).includes('pw'));
    await assert.rejects(context.addCookies([{ name: 'evil', value: '1', url: site.url('person') }]), /a cookie of person\.test/);
    await context.clearCookies({ name: 'pw' });
    assert.ok(!names(await context.cookies()).includes('pw') && names(await context.cookies()).includes('pw-wide'));

    const other = await puppeteer.connect({ browserWSEndpoint: server.tasks.one.ws_url });
    t.after(() => other.disconnect());
    const tab = await other.newPage();
    await tab.goto(site.url('a'));
    await tab.setCookie({ name: 'pptr', value: '1' });
    assert.ok(names(await tab.cookies()).includes('pptr'));
    await tab.deleteCookie({ name: 'pptr' });
    assert.ok(!names(await tab.cookies()).includes('pptr'));
    await other.defaultBrowserContext().setCookie({ name: 'pptr-root', value: '1', domain: 'a.test' });
    assert.ok(names(await other.cookies()).includes('pptr-root'));

    await context.clearCookies();
    const left = names(await all());
    assert.ok(ELSEWHERE.filter(name => name !== 'at-b').every(name => left.includes(name)), left.join());
    assert.deepEqual(left.filter(name => OF_A.includes(name) || /^p(w|ptr)/.test(name)), []);
  });

  test('events tell the cookies of these hosts, those of another one are not in them, HttpOnly ones or not', async t => {
    await plant();
    const raw = await server.connect('two');
    t.after(() => raw.close());
    const { sessionId } = await raw.newPage(site.url('c'));
    await raw.send('Network.enable', {}, sessionId);
    await raw.send('Audits.enable', {}, sessionId);
    const ofRequest = async (url, since) => {
      const { params } = await raw.wait('Network.requestWillBeSent', { sessionId, since, accept: p => p.request.url === url });
      const own = method => raw.wait(method, { sessionId, since, accept: p => p.requestId === params.requestId });
      return { sent: (await own('Network.requestWillBeSentExtraInfo')).params, got: (await own('Network.responseReceivedExtraInfo')).params };
    };
    const setsCookie = got => Object.keys(got.headers).some(name => /^set-cookie$/i.test(name));
    // An image of a host where it has not been: told without cookies.
    let since = raw.mark();
    await raw.evaluate(`new Promise(done => { const i = new Image(); i.onerror = i.onload = done; i.src = ${JSON.stringify(site.url('d', '/login?who=nobody'))}; })`, sessionId);
    const foreign = await ofRequest(site.url('d', '/login?who=nobody'), since);
    assert.ok(!setsCookie(foreign.got) && !foreign.sent.headers.Cookie);
    // After a document of it has been there, with cookies.
    await raw.goto(site.url('d'), sessionId);
    since = raw.mark();
    await raw.evaluate(`fetch('/login?who=me').then(r => r.text())`, sessionId);
    const own = await ofRequest(site.url('d', '/login?who=me'), since);
    assert.ok(setsCookie(own.got));
    since = raw.mark();
    await raw.evaluate(`fetch('/whoami').then(r => r.text())`, sessionId);
    const after = await ofRequest(site.url('d', '/whoami'), since);
    assert.match(after.sent.headers.Cookie, /login=me/);
    assert.ok(after.sent.associatedCookies.some(({ cookie }) => cookie.name === 'login' && cookie.value === 'me'));
    assert.ok(!JSON.stringify(raw.events).includes(SECRET));
  });

  test('a hostile client sees and changes nothing foreign, also after its connection is cut', async t => {
    await plant();
    // A task of its own: where others have been is theirs.
    await server.newTask('mallory', { context: 'shared' });
    const before = await all();
    const raw = await server.connect('mallory');
    const { sessionId } = await raw.newPage(site.url('d'));
    const login = { name: 'login', value: 'stolen' };
    const at = host => [
      ['Network.setCookie', { ...login, url: site.url(host) }], ['Network.setCookie', { ...login, domain: `${host}.test` }], ['Network.setCookie', { ...login, domain: `.${host}.test` }],
      ['Network.setCookie', { ...login, domain: `x@${host}.test` }], ['Network.setCookie', { ...login, domain: `${host}.test:80` }], ['Network.setCookie', { ...login, domain: `${host.toUpperCase()}.TEST` }],
      ['Network.setCookie', { ...login, url: site.url('d'), domain: `${host}.test` }], ['Network.setCookies', { cookies: [{ ...login, url: site.url('d') }, { ...login, url: site.url(host) }] }],
      ['Storage.setCookies', { cookies: [{ ...login, domain: `%${host.charCodeAt(0).toString(16)}${host.slice(1)}.test` }] }], ['Storage.setCookies', { cookies: [{ ...login, domain: `${host}.test/` }] }],
      ['Network.setCookie', { ...login, url: 'https://d.test/', secure: true, sameSite: 'None', partitionKey: { topLevelSite: `http://${host}.test`, hasCrossSiteAncestor: true } }],
      ['Network.deleteCookies', { name: 'login', url: site.url(host) }], ['Network.deleteCookies', { name: 'wide', domain: `.${host}.test` }], ['Network.deleteCookies', { name: 'login', domain: `${host}.test`, url: site.url('d') }],
      ['Network.getCookies', { urls: [site.url(host)] }],
      ['Network.setCookie', { ...login, domain: '.test' }], ['Network.setCookie', { ...login, domain: 'test' }],
    ];
    const seen = [];
    for (const [method, params] of at('person')) {
      for (const session of [sessionId, undefined]) {
        await assert.rejects(raw.send(method, params, session), CdpError, `${method} ${JSON.stringify(params)}`);
      }
    }
    for (const [method, params] of [['Storage.getCookies', {}], ['Network.getAllCookies', {}], ['Network.getCookies', {}], ['Network.getCookies', { urls: ['about:blank', 'x'] }]]) {
      seen.push(await raw.send(method, params, sessionId));
    }
    for (const [method, session] of [['Storage.clearCookies'], ['Storage.clearCookies', sessionId], ['Network.clearBrowserCookies', sessionId]]) await raw.send(method, {}, session);
    // In one breath: what is set and cleared before it is cut may happen, but at its own host only.
    raw.post('Network.setCookie', { ...login, url: site.url('person') }, sessionId);
    raw.post('Storage.clearCookies');
    raw.terminate();
    await raw.closed;
    assert.ok(!JSON.stringify(seen).includes(SECRET));
    assert.deepEqual((await all()).filter(c => c.domain !== 'd.test'), before.filter(c => c.domain !== 'd.test'));
  });

  test('a response that a client makes up sets the cookies of hosts where the task has been, and no others', async t => {
    await plant();
    await server.newTask('maker', { context: 'shared' });
    const raw = await server.connect('maker');
    t.after(() => raw.close());
    const { sessionId } = await raw.newPage(site.url('a'));
    await raw.send('Fetch.enable', { patterns: [{ urlPattern: '*made-up*' }] }, sessionId);
    const value = `login=made-up; HttpOnly; Path=/`;
    const headers = { plain: { responseHeaders: [{ name: 'Set-Cookie', value }] }, binary: { binaryResponseHeaders: Buffer.from(`x: y\0SET-COOKIE: ${value}\0`).toString('base64') } };
    const makeUp = async (url, headers) => {
      const since = raw.mark();
      const loaded = raw.evaluate(`fetch(${JSON.stringify(url)}, { mode: 'no-cors', credentials: 'include' }).then(() => 'loaded', error => error.message)`, sessionId);
      const { params } = await raw.wait('Fetch.requestPaused', { since, sessionId });
      const made = await raw.send('Fetch.fulfillRequest', { requestId: params.requestId, responseCode: 200, body: '', ...headers }, sessionId).catch(error => error);
      return { made, loaded: await loaded };
    };
    const before = await all();
    for (const name of Object.keys(headers)) {
      const { made, loaded } = await makeUp(site.url('person', `/made-up-${name}`), headers[name]);
      assert.match(made.text ?? '', /names cookies of person\.test in a response that it makes up, .* none of its pages has loaded a document from there/);
      assert.equal(loaded, 'Failed to fetch');
    }
    assert.deepEqual((await makeUp(site.url('person', '/made-up-without'), {})).loaded, 'loaded');
    assert.deepEqual(await all(), before);
    // Control: that Chromium would have stored them.
    for (const name of Object.keys(headers)) {
      await raw.send('Network.deleteCookies', { name: 'login', url: site.url('a') }, sessionId);
      assert.equal((await makeUp(site.url('a', `/made-up-${name}`), headers[name])).loaded, 'loaded');
      assert.equal((await person.raw.send('Storage.getCookies')).cookies.find(c => c.name === 'login' && c.domain === 'a.test')?.value, 'made-up', name);
    }
  });

  test('hosts whose cookies the policy denies have none, in the profile and in a context of the task\'s own', async t => {
    for (const task of ['denied', 'denied-alone']) {
      await plant();
      const raw = await server.connect(task);
      t.after(() => raw.close());
      const { targetId, sessionId } = await raw.newPage(site.url('a'));
      // Scripts are denied there as well, or they would read the cookies: the person looks.
      const seen = await person.attach(targetId);
      const who = async () => person.evaluate(seen, `document.querySelector('#who').textContent`);
      await raw.send('Network.enable', {}, sessionId);
      for (const name of ['a', 'b']) {
        await raw.goto(site.url(name, '/login', { who: `${name}-secret` }), sessionId);
        await raw.goto(site.url(name, '/whoami'), sessionId);
        assert.equal(await who(), `${name}-secret`, 'the browser itself uses them');
      }
      const { cookies } = await raw.send('Storage.getCookies');
      assert.ok(cookies.some(c => c.value === 'a-secret') && cookies.every(c => c.domain !== 'b.test'), task);
      assert.match((await raw.refused('Network.setCookie', { name: 'x', value: 'y', url: site.url('b') }, sessionId)).text, /b\.test.* denied by rule forbidden \(.*no-b\.toml:\d+\): The tests say so/);
      assert.match((await raw.refused('Network.deleteCookies', { name: 'login', url: site.url('b') }, sessionId)).text, /rule forbidden/);
      const told = raw.events.filter(e => /ExtraInfo/.test(e.method)).map(e => JSON.stringify(e.params));
      assert.ok(told.some(text => text.includes('login=a-secret')), task);
      assert.ok(told.every(text => !/login=b-secret|"value":"b-secret"/.test(text)), task);
      await raw.send('Storage.clearCookies');
      await raw.goto(site.url('b', '/whoami'), sessionId);
      assert.equal(await who(), 'b-secret');
      await raw.goto(site.url('a', '/whoami'), sessionId);
      assert.equal(await who(), 'nobody');
    }
  });
});
