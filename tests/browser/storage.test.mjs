// Storage, service workers and permissions of two tasks and the person in one profile: by origin, where a task's pages have been.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import { startChromium } from './support/chromium.mjs';
import * as fingerprint from './support/fingerprint.mjs';
import { Person } from './support/person.mjs';
import { policyDenying } from './support/policy.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { temporaryFolder, until } from './support/util.mjs';

describe('storage and permissions in the person\'s profile', router, () => {
  let site, browser, person, tab, atB, server;
  const SECRET = 'secret-of-the-person';
  const put = value => `(async () => {
    localStorage.setItem('secret', ${JSON.stringify(value)});
    await (await caches.open('secret')).put('/secret', new Response(${JSON.stringify(value)}));
    await new Promise((resolve, reject) => { const r = indexedDB.open('secret', 1); r.onupgradeneeded = () => r.result.createObjectStore('s').put(${JSON.stringify(value)}, 'k'); r.onsuccess = () => { r.result.close(); resolve(); }; r.onerror = reject; });
  })()`;
  const held = tab => person.evaluate(tab, `(async () => [{ ...localStorage }, await caches.keys(), (await indexedDB.databases()).map(d => d.name)])()`);
  const states = tab => person.evaluate(tab, `Promise.all(['geolocation', 'notifications', 'midi', 'camera'].map(async name => (await navigator.permissions.query({ name })).state))`);

  before(async () => {
    site = await Site.start();
    browser = await startChromium({ site });
    person = await Person.of(browser);
    tab = await person.openTab(site.url('person'));
    atB = await person.openTab(site.url('b'));
    for (const at of [tab, atB]) await person.evaluate(at, put(SECRET));
    const worker = await person.openTab(site.url('person', '/sw'));
    await person.evaluate(worker, 'window.swReady');
    const policy = join(temporaryFolder('tabwarden-storage-'), 'no-b.toml');
    writeFileSync(policy, policyDenying('b.test').replaceAll('verbs   = ["*"]\nto      = { host', 'verbs   = ["script", "storage.read", "storage.write", "permissions"]\nto      = { host').replace('verb   = "navigate"', 'verb   = "storage.read"'));
    server = await serve({ attach: browser, site, tasks: ['one,context=shared', 'two,context=shared', `denied,context=shared,policy=${policy}`, `denied-alone,policy=${policy}`] });
  });
  after(async () => {
    await server?.stop();
    await person?.close();
    await browser?.close();
    await site?.stop();
  });

  const look = async () => ({ tab: await fingerprint.ofPage(person, tab), storage: await fingerprint.ofStorage(person, tab, site.url('person', '')), held: await held(tab), b: await held(atB) });

  test('a task reads and clears the storage of origins where its pages have been, and of no other', async t => {
    const raw = await server.connect('one');
    t.after(() => raw.close());
    const { sessionId } = await raw.newPage(site.url('a'));
    await raw.evaluate(put('mine'), sessionId);
    const origin = site.url('a', '');
    assert.ok((await raw.send('Storage.getUsageAndQuota', { origin }, sessionId)).usage > 0);
    const { entries } = await raw.send('DOMStorage.getDOMStorageItems', { storageId: { securityOrigin: origin, isLocalStorage: true } }, sessionId);
    assert.deepEqual(entries, [['secret', 'mine']]);
    const { databaseNames } = await raw.send('IndexedDB.requestDatabaseNames', { storageKey: `${origin}/` }, sessionId);
    assert.deepEqual(databaseNames, ['secret']);
    await raw.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' }, sessionId);
    assert.equal((await raw.send('Storage.getUsageAndQuota', { origin }, sessionId)).usage, 0);
    assert.deepEqual(await held(tab), await held(atB));
  });

  test('changes are told for these origins, whatever is being tracked', async t => {
    const raw = await server.connect('two');
    t.after(() => raw.close());
    const { sessionId } = await raw.newPage(site.url('c'));
    const storageKey = `${site.url('c', '')}/`;
    await raw.send('Storage.trackIndexedDBForStorageKey', { storageKey }, sessionId);
    await raw.send('DOMStorage.enable', {}, sessionId);
    await raw.evaluate(put('mine'), sessionId);
    assert.equal((await raw.wait('Storage.indexedDBListUpdated', { sessionId })).params.storageKey, storageKey);
    assert.equal((await raw.wait('DOMStorage.domStorageItemAdded', { sessionId })).params.newValue, 'mine');
    assert.match((await raw.refused('Storage.trackIndexedDBForOrigin', { origin: site.url('person', '') }, sessionId)).text, /none of its pages has loaded a document from there/);
  });

  test('service workers of the person are not listed and not driven; of an origin where the task is they are listed', async t => {
    const raw = await server.connect('two');
    t.after(() => raw.close());
    const { sessionId } = await raw.newPage(site.url('c'));
    await raw.send('ServiceWorker.enable', {}, sessionId);
    await raw.send('ServiceWorker.disable', {}, sessionId);
    assert.ok(!JSON.stringify(raw.events).includes('sw-made'));
    await raw.goto(site.url('person'), sessionId);
    const since = raw.mark();
    await raw.send('ServiceWorker.enable', {}, sessionId);
    const told = await raw.wait('ServiceWorker.workerVersionUpdated', { sessionId, since, accept: p => p.versions.length });
    assert.ok(told.params.versions.every(v => v.scriptURL.startsWith(site.url('person', '')) && v.targetId === undefined && v.controlledClients.length === 0));
    for (const [method, params] of [['ServiceWorker.stopAllWorkers', {}], ['ServiceWorker.unregister', { scopeURL: site.url('person', '/sw-made/') }], ['ServiceWorker.stopWorker', { versionId: told.params.versions[0].versionId }]]) {
      assert.match((await raw.refused(method, params, sessionId)).text, /works in the person's profile/);
    }
  });

  test('permissions are granted where the task is, and are as before when their client is cut off, another client\'s staying', async t => {
    const before = await states(tab);
    const [first, second] = [await server.connect('two'), await server.connect('two')];
    t.after(() => second.close());
    const { sessionId } = await first.newPage(site.url('person'));
    const origin = site.url('person', '');
    assert.match((await first.refused('Browser.grantPermissions', { permissions: ['geolocation'] })).text, /without an origin/);
    assert.match((await first.refused('Browser.grantPermissions', { permissions: ['geolocation'], origin: site.url('b', '') })).text, /permissions of .*b\.test/);
    await first.send('Browser.grantPermissions', { permissions: ['geolocation'], origin });
    await second.send('Browser.setPermission', { permission: { name: 'midi' }, setting: 'granted', origin }, undefined);
    assert.equal(await first.evaluate(`navigator.permissions.query({ name: 'geolocation' }).then(p => p.state)`, sessionId), 'granted');
    const b = await states(atB);
    assert.deepEqual(b, before, 'another origin has what it had');
    first.terminate();
    await first.closed;
    const wanted = before.map((state, i) => i === 2 ? 'granted' : state);
    await until(async () => JSON.stringify(await states(tab)) === JSON.stringify(wanted), 'only what the second client has set');
    await second.send('Browser.resetPermissions');
    assert.deepEqual(await states(tab), before);
    // Playwright, and its end.
    const client = await chromium.connectOverCDP(server.tasks.two.http_url);
    await client.contexts()[0].grantPermissions(['geolocation'], { origin });
    assert.equal((await states(tab))[0], 'granted');
    await client.close();
    await until(async () => JSON.stringify(await states(tab)) === JSON.stringify(before), 'as before');
  });

  test('a hostile client sees and changes nothing foreign, also after its connection is cut', async () => {
    await server.newTask('mallory', { context: 'shared' });
    const before = await look();
    const raw = await server.connect('mallory');
    const { sessionId } = await raw.newPage(site.url('d', '/with-frame', { src: site.url('c') }));
    const origin = site.url('person', '');
    const attempts = [];
    for (const at of [origin, `${origin}/`, `${origin}/x`, origin.toUpperCase(), origin.replace('http://', 'http://x@'), origin.replace('person', '%70erson'), `${origin}#`]) {
      for (const method of ['Storage.clearDataForOrigin', 'Storage.getUsageAndQuota', 'Storage.trackIndexedDBForOrigin', 'Storage.trackCacheStorageForOrigin', 'Storage.overrideQuotaForOrigin']) attempts.push([method, { origin: at, storageTypes: 'all', quotaSize: 1 }]);
      for (const method of ['Storage.clearDataForStorageKey', 'Storage.trackIndexedDBForStorageKey', 'Storage.setStorageBucketTracking']) {
        for (const key of [`${at}/`, `${at}/^31`, `${site.url('d', '')}/^0${at}`]) attempts.push([method, { storageKey: key, storageTypes: 'all', enable: true }]);
      }
      attempts.push(['Storage.deleteStorageBucket', { bucket: { storageKey: `${at}/` } }]);
      attempts.push(['Browser.setPermission', { permission: { name: 'camera' }, setting: 'granted', origin: at }], ['Browser.setPermission', { permission: { name: 'camera' }, setting: 'granted', origin: site.url('d', ''), embeddedOrigin: at }]);
      for (const method of ['DOMStorage.getDOMStorageItems', 'DOMStorage.clear', 'DOMStorage.setDOMStorageItem']) attempts.push([method, { storageId: { securityOrigin: at, isLocalStorage: true }, key: 'secret', value: 'x' }]);
      attempts.push(['IndexedDB.deleteDatabase', { securityOrigin: at, databaseName: 'secret' }], ['CacheStorage.requestCacheNames', { securityOrigin: at }], ['FileSystem.getDirectory', { bucketFileSystemLocator: { storageKey: `${at}/`, pathComponents: [] } }]);
    }
    for (const [method, params] of attempts) {
      const error = await raw.refused(method, params, sessionId);
      assert.ok([-32000, -32602].includes(error.code), `${method} ${JSON.stringify(params)}: ${error.message}`);
    }
    await raw.send('Browser.resetPermissions');
    raw.post('Storage.clearDataForOrigin', { origin, storageTypes: 'all' }, sessionId);
    raw.terminate();
    await raw.closed;
    assert.ok(!JSON.stringify(raw.events).includes(SECRET));
    assert.deepEqual(await look(), before);
  });

  test('where the policy denies them, storage and permissions of a host are nobody\'s, in a context of the task\'s own too', async t => {
    for (const task of ['denied', 'denied-alone']) {
      const raw = await server.connect(task);
      t.after(() => raw.close());
      const { targetId, sessionId } = await raw.newPage(site.url('a'));
      const origin = site.url('b', '');
      await raw.send('Runtime.enable', {}, sessionId);
      await raw.send('DOMStorage.enable', {}, sessionId);
      await raw.goto(site.url('b'), sessionId);
      // Scripts are denied there as well, or they would read the storage: the person's runs.
      await person.evaluate(await person.attach(targetId), `localStorage.setItem('seen', '1')`);
      for (const [method, params] of [
        ['Storage.getUsageAndQuota', { origin }], ['Storage.clearDataForOrigin', { origin, storageTypes: 'local_storage' }], ['DOMStorage.getDOMStorageItems', { storageId: { securityOrigin: origin, isLocalStorage: true } }],
        ['IndexedDB.requestDatabaseNames', { storageKey: `${origin}/` }], ['Browser.grantPermissions', { permissions: ['geolocation'], origin }],
      ]) assert.match((await raw.refused(method, params, sessionId)).text, /rule forbidden \(.*no-b\.toml:\d+\): The tests say so/, `${task} ${method}`);
      assert.match((await raw.refused('Browser.grantPermissions', { permissions: ['geolocation'] })).text, /without an origin/);
      await raw.goto(site.url('a'), sessionId);
      await raw.evaluate(`localStorage.setItem('seen', '1')`, sessionId);
      const told = await raw.wait('DOMStorage.domStorageItemAdded', { sessionId });
      assert.equal(told.params.storageId.storageKey, `${site.url('a', '')}/`, task);
    }
  });
});
