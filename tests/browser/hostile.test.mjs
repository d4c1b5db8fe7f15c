// "mallory" sends every method of the protocol, on the root, a page's and an OOPIF's session, with ids that belong to another
// task or to the person in every place where an id can stand; the ids were obtained out of band, as by a leak. Afterwards the
// recording of what was sent to the browser for mallory holds none of them, and the others' pages and profile are as before.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startChromium } from './support/chromium.mjs';
import * as fingerprint from './support/fingerprint.mjs';
import { Person } from './support/person.mjs';
import { commands, parametersOf } from './support/protocol.mjs';
import { CdpError } from './support/raw.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { temporaryFolder, until, within } from './support/util.mjs';

/** Sent last of their domain, for they end what the others are sent on. */
const ENDS = {
  'Page.close': 'ends the page', 'Page.crash': 'ends the renderer, and Chromium never answers it', 'Browser.close': 'ends the client',
  'Target.disposeBrowserContext': 'may end the page\'s context', 'Target.detachFromTarget': 'may end the session', 'Browser.crash': 'would end the browser',
  'Runtime.terminateExecution': 'stops what runs', 'Page.navigate': 'ends the OOPIF', 'Page.reload': 'ends the OOPIF', 'Page.setDocumentContent': 'ends the OOPIF',
  'Page.navigateToHistoryEntry': 'ends the OOPIF', 'Page.resetNavigationHistory': 'makes the history empty', 'Page.setWebLifecycleState': 'freezes the page',
  'Debugger.pause': 'pauses the page', 'Emulation.setVirtualTimePolicy': 'stops the page\'s clock', 'Emulation.setScriptExecutionDisabled': 'stops scripts',
  'DOM.setOuterHTML': 'may remove the OOPIF', 'DOM.removeNode': 'may remove the OOPIF', 'DOM.setNodeValue': 'changes the document', 'Network.emulateNetworkConditions': 'takes the network away',
};

describe('a hostile client', router, () => {
  let site, browser, person, server, folder, victim, victimPage;
  const foreign = { target: new Set(), session: new Set(), context: new Set(), frame: new Set(), guid: new Set(), uniqueWorld: new Set() };
  /** Ids of one owner, by kind, to put into parameters. */
  const worlds = {};
  /** Mallory's pages that no attack closes. */
  const kept = new Set();
  const SECRETS = ['person-secret-5f1c', 'victim-secret-77ad'];

  before(async () => {
    site = await Site.start();
    folder = temporaryFolder('tabwarden-hostile-');
    // One renderer for all pages of a site in a context: the hardest case for small numbers, which count for each process.
    browser = await startChromium({ site, args: ['--renderer-process-limit=1'] });
    person = await Person.of(browser);
    server = await serve({ attach: browser, site, record: true, tasks: ['mallory', 'mallory-shared,context=shared', 'victim', 'victim-shared,context=shared'] });

    const tab = await person.openTab(site.url('person', '/with-frame', { src: site.url('b', '/plain', { title: 'the person\'s frame' }) }));
    await plant(expression => person.evaluate(tab, expression), SECRETS[0]);
    await person.raw.send('Storage.setCookies', { cookies: [{ name: 'login', value: SECRETS[0], url: site.url('person'), httpOnly: true }, { name: 'at-c', value: SECRETS[0], url: site.url('c'), httpOnly: true }] });
    worlds.person = await collect(person.raw, tab);

    victim = await server.connect('victim');
    victimPage = await victim.newPage(site.url('a', '/with-frame', { src: site.url('b', '/plain', { title: 'the victim\'s frame' }) }));
    await victim.send('Emulation.setUserAgentOverride', { userAgent: 'victim/1' }, victimPage.sessionId);
    await plant(expression => victim.evaluate(expression, victimPage.sessionId), SECRETS[1]);
    await victim.send('Storage.setCookies', { cookies: [{ name: 'login', value: SECRETS[1], url: site.url('a'), httpOnly: true }] });
    worlds.victim = await collect(victim, victimPage);

    // The shared victim's page is at the person's site, in the person's profile.
    const shared = await server.connect('victim-shared');
    const sharedPage = await shared.newPage(site.url('person', '/plain', { title: 'the shared victim\'s' }));
    await plant(expression => shared.evaluate(expression, sharedPage.sessionId), SECRETS[1]);
    worlds.sharedVictim = await collect(shared, sharedPage);
  });
  after(async () => {
    await server?.stop();
    await person?.close();
    await browser?.close();
    await site?.stop();
  });

  const plant = (evaluate, secret) => evaluate(`(() => {
    localStorage.setItem('secret', ${JSON.stringify(secret)}); sessionStorage.setItem('secret', ${JSON.stringify(secret)}); document.cookie = 'script=' + ${JSON.stringify(secret)} + '; max-age=3600';
    window.secret = ${JSON.stringify(secret)};
    const e = document.createElement('p'); e.id = 'secret'; e.textContent = ${JSON.stringify(secret)}; document.body.append(e); document.title = ${JSON.stringify(`title ${secret}`)};
  })()`);

  /** Every kind of id that the owner of that page has for it and for what hangs on it. */
  async function collect(raw, page) {
    const on = (method, params = {}) => raw.send(method, params, page.sessionId);
    for (const domain of ['Page', 'Runtime', 'Network', 'DOM', 'Debugger', 'CSS']) await on(`${domain}.enable`);
    await on('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: true });
    const framed = /with-frame/.test(await raw.evaluate('location.pathname', page.sessionId));
    const child = framed ? (await raw.wait('Target.attachedToTarget', { sessionId: page.sessionId, accept: p => p.targetInfo.type === 'iframe' })).params : undefined;
    const context = (await person.target(page.targetId)).browserContextId;
    const node = (await on('DOM.getDocument')).root;
    const secret = await on('DOM.querySelector', { nodeId: node.nodeId, selector: '#secret' });
    const described = (await on('DOM.describeNode', { nodeId: secret.nodeId })).node;
    const worldEvent = await raw.wait('Runtime.executionContextCreated', { sessionId: page.sessionId });
    const world = raw.seen('Runtime.executionContextCreated').filter(e => e.sessionId === page.sessionId).at(-1)?.params.context ?? worldEvent.params.context;
    const object = (await on('Runtime.evaluate', { expression: 'window' })).result;
    const script = await raw.wait('Debugger.scriptParsed', { sessionId: page.sessionId }).catch(() => undefined);
    const pdf = await on('Page.printToPDF', { transferMode: 'ReturnAsStream' });
    const { entries } = await on('Page.getNavigationHistory');
    const since = raw.mark();
    await raw.evaluate(`fetch('/api/value').then(r => r.json())`, page.sessionId);
    const request = await raw.wait('Network.requestWillBeSent', { sessionId: page.sessionId, since });
    const window = await person.raw.send('Browser.getWindowForTarget', { targetId: page.targetId });
    const { frameTree } = await on('Page.getFrameTree');
    return {
      page, targets: [page.targetId, ...(child ? [child.targetInfo.targetId] : [])], sessions: [page.sessionId, ...(child ? [child.sessionId] : [])],
      contexts: [context], frames: [frameTree.frame.id, ...(child ? [child.targetInfo.targetId] : [])], guids: [],
      window: window.windowId, stream: pdf.stream, node: secret.nodeId, backendNode: described.backendNodeId, object: object.objectId,
      world: world.id, uniqueWorld: world.uniqueId, loader: frameTree.frame.loaderId, request: request.params.requestId,
      script: script?.params.scriptId ?? '1', entry: entries.at(-1).id, raw,
    };
  }

  /** A download's guid, which its owner hears of. */
  async function download(raw, page, params) {
    await raw.send('Browser.setDownloadBehavior', { behavior: 'default', eventsEnabled: true, ...params });
    const since = raw.mark();
    await raw.evaluate(`(() => { const a = document.createElement('a'); a.href = '/download?name=x.bin'; a.download = ''; document.body.append(a); a.click(); a.remove(); })()`, page.sessionId, { userGesture: true });
    return (await raw.wait('Browser.downloadWillBegin', { since })).params.guid;
  }

  async function everythingForeign(malloryTask) {
    const own = new Set(await server.pageIds(malloryTask));
    const shared = (await server.task(malloryTask)).context === 'shared';
    const ownContexts = new Set((await person.targets()).filter(info => own.has(info.targetId)).map(info => info.browserContextId));
    for (const info of await person.targets()) {
      if (own.has(info.targetId) || own.has(info.openerId)) continue;
      foreign.target.add(info.targetId);
      if (info.browserContextId && !ownContexts.has(info.browserContextId)) foreign.context.add(info.browserContextId);
    }
    for (const world of Object.values(worlds)) {
      world.sessions.forEach(id => foreign.session.add(id));
      world.frames.forEach(id => foreign.frame.add(id));
      world.guids.forEach(id => foreign.guid.add(id));
      foreign.uniqueWorld.add(world.uniqueWorld);
      if (!shared) world.contexts.forEach(id => foreign.context.add(id));
    }
    // The router's own and the victims' sessions as the browser knows them.
    for (const { dir, frame } of server.recording()) {
      if (dir !== 'from' || !frame.includes('Target.attachedToTarget')) continue;
      const { params } = JSON.parse(frame);
      if (foreign.target.has(params?.targetInfo?.targetId)) foreign.session.add(params.sessionId);
    }
  }

  /** Everything that must be equal before and after. */
  async function fingerprints() {
    const look = {};
    for (const [name, world] of Object.entries(worlds)) {
      const tab = name === 'person' ? world.page : (world.seenByPerson ??= await person.attach(world.page.targetId));
      look[name] = await fingerprint.ofPage(person, tab);
      look[`${name}'s cookies`] = await fingerprint.ofCookies(person, world.contexts[0]);
    }
    look.storage = await fingerprint.ofStorage(person, worlds.person.page, site.url('person', ''));
    look.targets = (await person.targets()).filter(info => foreign.target.has(info.targetId) && ['page', 'iframe'].includes(info.type)).map(info => `${info.type} ${info.targetId} ${info.url} ${info.title}`).sort();
    return look;
  }

  /** One domain's methods, on a client, a page and an OOPIF of their own: what was answered, and what was not. */
  async function attack(task, domain, report) {
    const raw = await server.connect(task);
    const { targetId, sessionId: page } = await raw.newPage();
    await raw.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: true }, page);
    await raw.goto(site.url('a', '/with-frame', { src: site.url('b') }), page);
    const oopif = (await raw.wait('Target.attachedToTarget', { sessionId: page, accept: p => p.targetInfo.type === 'iframe' })).params.sessionId;
    await raw.evaluate('1', oopif);

    const posted = [];
    const post = (command, session, label, params) => {
      const { answer } = raw.post(command.method, params, session);
      const entry = { method: command.method, label, params, state: 'open', ordinary: !ENDS[command.method] };
      answer.then(result => { entry.state = 'result'; entry.result = result; }, error => {
        entry.state = error instanceof CdpError ? 'error' : 'lost';
        entry.error = error;
      });
      posted.push(entry);
    };
    const own = { target: targetId, session: page, context: undefined, frame: targetId };
    const sessions = [['oopif', oopif], ['root', undefined], ['page', page]];
    const mine = commands.filter(command => command.domain === domain);
    const ordinary = mine.filter(command => !ENDS[command.method]).sort((a, b) => /enable$/.test(b.method) - /enable$/.test(a.method));
    const last = mine.filter(command => ENDS[command.method]).sort((a, b) => a.method < b.method ? 1 : -1);

    for (const group of [ordinary, last]) {
      for (const [where, session] of sessions) {
        for (const command of group) {
          let n = 0;
          for (const [who, world] of Object.entries(worlds)) {
            for (const all of [true, false]) {
              n++;
              const pick = list => list[n % list.length];
              const ids = kind => ({
                target: pick(world.targets), session: pick(world.allSessions ?? world.sessions), context: pick(world.contexts), frame: pick(world.frames), guid: pick(world.guids),
                other: 'x-1', window: world.window, stream: world.stream, node: world.node, backendNode: world.backendNode, object: world.object, world: world.world,
                uniqueWorld: world.uniqueWorld, loader: world.loader, request: world.request, script: world.script, entry: world.entry, styleSheet: world.request, identifier: '1',
              })[kind];
              const at = {
                origin: site.url('person', ''), url: site.url('person', '/plain'), host: 'person.test', folder,
                // A command inside a command: the one place where text is not just text.
                message: command.method === 'Target.sendMessageToTarget' ? JSON.stringify({ id: 1, method: 'Target.attachToTarget', params: { targetId: world.page.targetId, flatten: true } }) : 'x',
              };
              const params = parametersOf(command, { ids, at, all });
              if (command.method === 'Page.crash' && where !== 'page') continue;
              post(command, session, `${where}, ids of ${who}, ${all ? 'all' : 'needed'} parameters`, params);
              // Only one kind of id of the other's, the rest its own: a check of the first must not stand for the second.
              for (const kind of ['target', 'context', 'frame', 'session']) {
                const mixed = parametersOf(command, { ids: (k, name) => k === kind ? ids(k) : own[k] ?? (k === 'other' ? 'x-1' : undefined), at, all: false });
                if (JSON.stringify(mixed) !== JSON.stringify(params) && JSON.stringify(mixed).includes(String(ids(kind)))) post(command, session, `${where}, ${kind} of ${who} among its own`, mixed);
              }
            }
          }
        }
      }
      // What Chromium never answers is answered when its session ends, at the latest.
      await Promise.race([
        until(() => posted.every(entry => entry.state !== 'open'), 'answers', 3000).catch(() => {}),
        raw.closed,
      ]);
    }
    if (!raw.isClosed) {
      await raw.send('Target.closeTarget', { targetId }).catch(error => { if (!(error instanceof CdpError) && !raw.isClosed) throw error; });
      await until(() => raw.isClosed || posted.every(entry => entry.state !== 'open'), `answers of ${domain} after the page's end; open: ${posted.filter(e => e.state === 'open').slice(0, 5).map(e => `${e.method} (${e.label})`).join('; ')}`);
    }
    // Popups and tabs that a success has made.
    for (const id of await server.pageIds(task)) if (!raw.isClosed && !kept.has(id)) await raw.send('Target.closeTarget', { targetId: id }).catch(() => {});
    if (!raw.isClosed) await raw.close();

    const strays = raw.strays.filter(message => message.id !== undefined);
    report.sent += posted.length;
    for (const entry of posted) {
      if (entry.ordinary && entry.error?.code === -32001) report.noSession = (report.noSession ?? 0) + 1;
      report[entry.state] = (report[entry.state] ?? 0) + 1;
      if (entry.state === 'lost' && !last.some(command => command.method === 'Browser.close')) report.problems.push(`${entry.method} (${entry.label}): ${entry.error.message}`);
      const told = entry.state === 'result' ? JSON.stringify(entry.result) : '';
      for (const secret of SECRETS) if (told.includes(secret)) report.problems.push(`${entry.method} (${entry.label}) told a secret: ${told.slice(0, 300)}`);
      for (const [kind, set] of Object.entries(foreign)) for (const id of set) {
        if (kind !== 'uniqueWorld' && told.includes(id)) report.problems.push(`${entry.method} (${entry.label}) told a foreign ${kind} id: ${told.slice(0, 300)}`);
      }
    }
    if (strays.length) report.problems.push(`${domain}: ${strays.length} answers too many, such as ${JSON.stringify(strays[0]).slice(0, 300)}`);
    const events = JSON.stringify(raw.events);
    for (const secret of SECRETS) if (events.includes(secret)) report.problems.push(`${domain}: an event told ${secret}: ${JSON.stringify(raw.events.find(e => JSON.stringify(e).includes(secret))).slice(0, 300)}`);
    for (const [kind, set] of Object.entries(foreign)) for (const id of set) {
      if (events.includes(id)) report.problems.push(`${domain}: an event told a foreign ${kind} id: ${JSON.stringify(raw.events.find(e => JSON.stringify(e).includes(id))).slice(0, 300)}`);
    }
  }

  for (const task of ['mallory', 'mallory-shared']) {
    test(`every method on every session with others' ids, as ${task}: one answer each, nothing foreign is sent, nothing of the others changes`, async t => {
      const warm = await server.connect(task);
      kept.add((await warm.newPage(site.url('a'))).targetId);
      worlds.person.guids = [await download(worlds.person.raw, worlds.person.page, {})];
      worlds.victim.guids = [await download(victim, victimPage, {}).catch(() => download(victim, victimPage, { behavior: 'allowAndName', downloadPath: temporaryFolder('playwright-artifacts-') }))];
      worlds.sharedVictim.guids = worlds.victim.guids;
      for (const key of Object.keys(foreign)) foreign[key].clear();
      await everythingForeign(task);
      for (const kind of Object.keys(foreign)) assert.ok(foreign[kind].size > 0, `there is a foreign ${kind} to try`);
      // Sessions as the browser knows them, besides those that clients know.
      const upstream = [...foreign.session];
      for (const world of Object.values(worlds)) world.allSessions = [...world.sessions, ...upstream];
      const before = await fingerprints();
      const marked = server.recording().length;

      const report = { sent: 0, problems: [] };
      for (const domain of new Set(commands.map(command => command.domain))) {
        await attack(task, domain, report).catch(error => report.problems.push(`${domain}: ${error.stack ?? error}`));
      }
      t.diagnostic(`${report.sent} commands: ${report.result ?? 0} results, ${report.error ?? 0} errors, ${report.lost ?? 0} ended by the connection's close, ${report.noSession ?? 0} to a session that was gone`);
      assert.ok((report.noSession ?? 0) < report.sent / 50, `${report.noSession} commands met no session any more: they say nothing`);
      assert.ok(report.sent > 2 * 3 * commands.length, 'every method was sent on three sessions with the ids of two others');

      const after = await fingerprints();
      const sent = server.recording().slice(marked).filter(line => line.dir === 'to' && line.client !== null && line.task === task);
      assert.ok(sent.length > 1000, `only ${sent.length} frames were sent for ${task}: the test says nothing`);
      assert.ok((await person.raw.send('Browser.getVersion')).product, 'the browser is alive');
      for (const [kind, set] of Object.entries(foreign)) for (const id of set) {
        const found = sent.filter(line => line.frame.includes(id));
        if (found.length) report.problems.push(`${found.length} frames to the browser hold the foreign ${kind} id ${id}: ${found[0].frame.slice(0, 300)}`);
      }
      assert.deepEqual(report.problems.slice(0, 40), [], `${report.problems.length} problems`);
      for (const key of Object.keys(before)) assert.deepEqual(after[key], before[key], key);
      assert.equal(await victim.evaluate('navigator.userAgent', victimPage.sessionId), 'victim/1');
      assert.equal(await person.evaluate(worlds.person.page, 'window.secret'), SECRETS[0]);
      await warm.close();
    });
  }

  describe('small numbers, which are not worth guessing', () => {
    let raw, page, shared, sharedPage;
    before(async () => {
      raw = await server.connect('mallory');
      page = await raw.newPage(site.url('a'));
      // In the person's profile and at the person's site, so in the same renderer as the person's tab.
      shared = await server.connect('mallory-shared');
      sharedPage = await shared.newPage(site.url('person', '/plain', { title: 'beside the person' }));
    });
    after(async () => { await raw?.close(); await shared?.close(); });

    /** All sessions from which it is tried: `[client, sessionId]`. */
    const places = () => [[raw, undefined], [raw, page.sessionId], [shared, undefined], [shared, sharedPage.sessionId]];
    /** Sends it and gives what was told, whether result or error. */
    const told = (client, method, params, sessionId) => client.send(method, params, sessionId).then(JSON.stringify, error => {
      if (!(error instanceof CdpError)) throw error;
      return `${error.code} ${error.text}`;
    });
    function assertNoSecret(text, what) { for (const secret of SECRETS) assert.ok(!text.includes(secret), `${what}: ${text.slice(0, 300)}`); }

    test('windows: another\'s can neither be read, moved, minimised nor sized', async () => {
      const ids = Object.values(worlds).map(world => world.window);
      const before = await Promise.all(ids.map(windowId => person.raw.send('Browser.getWindowBounds', { windowId })));
      const own = (await person.raw.send('Browser.getWindowForTarget', { targetId: page.targetId })).windowId;
      const ownShared = (await person.raw.send('Browser.getWindowForTarget', { targetId: sharedPage.targetId })).windowId;
      for (const [client, sessionId] of places()) {
        for (const windowId of [...ids, 1, 2, 3]) {
          if (windowId === own || windowId === ownShared) continue;
          for (const [method, params] of [['Browser.getWindowBounds', {}], ['Browser.setWindowBounds', { bounds: { left: 3, top: 3, width: 333, height: 333 } }], ['Browser.setWindowBounds', { bounds: { windowState: 'minimized' } }], ['Browser.setContentsSize', { width: 333, height: 333 }]]) {
            const error = await client.refused(method, { windowId, ...params }, sessionId);
            assert.ok([-32000, -32601].includes(error.code), error.message);
          }
        }
      }
      assert.deepEqual(await Promise.all(ids.map(windowId => person.raw.send('Browser.getWindowBounds', { windowId }))), before);
    });

    test('nodes: numbers of another page give nothing of it, in the same renderer either', async () => {
      for (const [client, sessionId] of places().filter(([, session]) => session)) {
        await client.send('DOM.enable', {}, sessionId).catch(() => {});
        await client.send('DOM.getDocument', {}, sessionId);
        const numbers = new Set([...Object.values(worlds).flatMap(world => [world.node, world.backendNode]), ...Array.from({ length: 120 }, (_, i) => i + 1)]);
        const answers = [...numbers].flatMap(n => [
          told(client, 'DOM.describeNode', { backendNodeId: n, depth: -1 }, sessionId), told(client, 'DOM.describeNode', { nodeId: n, depth: -1 }, sessionId),
          told(client, 'DOM.getOuterHTML', { backendNodeId: n }, sessionId), told(client, 'DOM.resolveNode', { backendNodeId: n }, sessionId),
          told(client, 'DOM.pushNodesByBackendIdsToFrontend', { backendNodeIds: [n] }, sessionId), told(client, 'Accessibility.getPartialAXTree', { backendNodeId: n }, sessionId),
          told(client, 'DOM.setAttributeValue', { nodeId: 900000 + n, name: 'x', value: 'y' }, sessionId),
        ]);
        for (const answer of await Promise.all(answers)) assertNoSecret(answer, 'a node');
      }
      assert.equal(await person.evaluate(worlds.person.page, `document.querySelector('#secret').textContent`), SECRETS[0]);
    });

    test('streams: another\'s cannot be read or closed, and its owner reads it to the end', async () => {
      for (const [client, sessionId] of places()) {
        for (const handle of [...Object.values(worlds).map(world => world.stream), '1', '2', '3']) {
          for (const method of ['IO.read', 'IO.close']) {
            const error = await client.refused(method, { handle }, sessionId);
            assert.ok(error.code < 0, method);
          }
        }
      }
      for (const [name, world] of Object.entries(worlds)) {
        const { data, base64Encoded } = await world.raw.send('IO.read', { handle: world.stream, size: 8 }, world.page.sessionId);
        assert.match(base64Encoded ? Buffer.from(data, 'base64').toString() : data, /^%PDF/, name);
      }
    });

    test('execution contexts, objects and scripts: another\'s are not found', async () => {
      for (const [client, sessionId] of places().filter(([, session]) => session)) {
        await client.send('Runtime.enable', {}, sessionId);
        await client.send('Debugger.enable', {}, sessionId);
        for (const world of Object.values(worlds)) {
          for (const [method, params] of [
            ['Runtime.evaluate', { expression: 'window.secret', uniqueContextId: world.uniqueWorld }], ['Runtime.callFunctionOn', { functionDeclaration: 'function() { return window.secret }', objectId: world.object, returnByValue: true }],
            ['Runtime.getProperties', { objectId: world.object, ownProperties: true }], ['Runtime.callFunctionOn', { functionDeclaration: 'function() { return window.secret }', uniqueContextId: world.uniqueWorld, returnByValue: true }],
          ]) {
            const error = await client.refused(method, params, sessionId);
            assert.ok(error.code < 0, method);
          }
        }
        const numbers = Array.from({ length: 60 }, (_, i) => i + 1).concat(Object.values(worlds).map(world => world.world));
        const answers = numbers.flatMap(n => [
          told(client, 'Runtime.evaluate', { expression: 'String(window.secret) + document.title', contextId: n, returnByValue: true }, sessionId),
          told(client, 'Runtime.callFunctionOn', { functionDeclaration: 'function() { return String(window.secret) + document.title }', executionContextId: n, returnByValue: true }, sessionId),
          told(client, 'Debugger.getScriptSource', { scriptId: String(n) }, sessionId),
        ]);
        for (const answer of await Promise.all(answers)) assertNoSecret(answer, 'a context');
        await client.send('Debugger.disable', {}, sessionId);
      }
    });

    test('the heap of a renderer that another page shares is not handed out', async () => {
      for (const [client, sessionId] of places().filter(([, session]) => session)) {
        const since = client.mark();
        const answer = await told(client, 'HeapProfiler.takeHeapSnapshot', {}, sessionId);
        const chunks = client.seen('HeapProfiler.addHeapSnapshotChunk', since).map(e => e.params.chunk).join('');
        assertNoSecret(answer + chunks, 'the heap');
      }
    });

    test('history entries: numbers of another page lead nowhere', async () => {
      for (const [client, sessionId] of [[raw, page.sessionId], [shared, sharedPage.sessionId]]) {
        const url = await client.evaluate('location.href', sessionId);
        for (const world of Object.values(worlds)) {
          const { entries } = await client.send('Page.getNavigationHistory', {}, sessionId);
          if (entries.some(entry => entry.id === world.entry)) continue;
          assert.ok((await client.refused('Page.navigateToHistoryEntry', { entryId: world.entry }, sessionId)).code < 0);
        }
        assert.equal(await client.evaluate('location.href', sessionId), url);
      }
    });
  });

  test('spelt otherwise, a foreign id is no less foreign', async () => {
    const raw = await server.connect('mallory');
    const { targetId: own, sessionId } = await raw.newPage(site.url('a'));
    const other = worlds.person.page.targetId;
    const marked = server.recording().length;
    let id = 700000;
    const spellings = [
      `{"targetId":"${own}","targetId":"${other}","flatten":true}`, `{"targetId":"${other}","targetId":"${own}","flatten":true}`,
      `{"targ\\u0065tId":"${other}","flatten":true}`, `{"targetId":"${own}","targ\\u0065tId":"${other}","flatten":true}`,
      `{"targetId":"\\u00${other.charCodeAt(0).toString(16)}${other.slice(1)}","flatten":true}`, `{"targetId":"${other.toLowerCase()}","flatten":true}`,
      `{"targetId":["${other}"],"flatten":true}`, `{"targetId":{"x":"${other}"},"flatten":true}`, `{"targetId":" ${other}","flatten":true}`,
    ];
    for (const session of [undefined, sessionId]) {
      for (const params of spellings) {
        const wanted = ++id;
        raw.sendText(`{"id":${wanted},"method":"Target.attachToTarget","params":${params}${session ? `,"sessionId":"${session}"` : ''}}`);
        const answer = await until(() => raw.strays.find(message => message.id === wanted || message.id === undefined), `an answer to ${params}`);
        raw.strays.splice(raw.strays.indexOf(answer), 1);
        if (answer.result) {
          // Its own was meant, then: what was attached must be that.
          const { result } = await raw.send('Runtime.evaluate', { expression: 'document.title' }, answer.result.sessionId);
          assert.equal(result.value, 'plain', params);
        }
      }
    }
    for (const line of server.recording().slice(marked)) {
      if (line.dir === 'to' && line.client !== null && line.task === 'mallory') assert.ok(!line.frame.toUpperCase().includes(other), line.frame);
    }
    await within(raw.close(), 'closing');
  });
});
