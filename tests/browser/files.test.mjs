// Downloads land where their client is granted them, and nowhere else; uploads come from granted directories, whatever links say.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { startChromium } from './support/chromium.mjs';
import { Person } from './support/person.mjs';
import { policyDenying } from './support/policy.mjs';
import { router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { ended, ownProcess, removeFolder, temporaryFolder, until } from './support/util.mjs';

const CLICK = `(() => { const a = document.createElement('a'); a.href = '/download?name=of-mine.bin'; document.body.append(a); a.click(); a.remove(); })()`;

for (const attached of [false, true]) describe(attached ? 'files, attached' : 'files, launched', router, () => {
  let site, browser, server, person, home, grants, policyFile;
  const downloads = () => readdirSync(join(home, 'Downloads'));
  const tasksDir = () => join(server.folder, 'data', 'tabwarden', 'tasks');

  before(async () => {
    site = await Site.start();
    home = temporaryFolder('tabwarden-home-');
    mkdirSync(join(home, 'Downloads'));
    grants = temporaryFolder('tabwarden-granted-');
    policyFile = join(grants, 'policy.toml');
    writeFileSync(policyFile, policyDenying('c.test').replace('effect  = "deny"\nverbs   = ["*"]', 'effect  = "deny"\nverbs   = ["download"]').replace('verb   = "navigate"', 'verb   = "download"'));
    for (const dir of ['write', 'read', 'read/dir', 'secret']) mkdirSync(join(grants, dir));
    writeFileSync(join(grants, 'read', 'file.txt'), 'from a file');
    writeFileSync(join(grants, 'read', 'dir', 'inner.txt'), 'inner');
    writeFileSync(join(grants, 'secret', 'secret.txt'), 'secret');
    symlinkSync(join(grants, 'secret', 'secret.txt'), join(grants, 'read', 'link-out'));
    symlinkSync(join(grants, 'secret'), join(grants, 'read', 'dir-out'));
    symlinkSync(join(grants, 'read', 'file.txt'), join(grants, 'read', 'link-in'));
    if (attached) {
      browser = await startChromium({ site, env: { HOME: home } });
      person = await Person.of(browser);
    }
    server = await serve({
      site, attach: browser, env: { HOME: home },
      tasks: ['isolated', 'shared,context=shared', `judged,context=shared,policy=${policyFile}`],
      args: ['--grant-write', join(grants, 'write'), '--grant-read', join(grants, 'read')],
    });
  });
  after(async () => {
    await server?.stop();
    await person?.close();
    await browser?.close();
    await site?.stop();
    removeFolder(home);
    removeFolder(grants);
  });

  async function client(t, name, url = site.url('a', '/links')) {
    const raw = await server.connect(name);
    const page = await raw.newPage(url);
    t.after(async () => {
      if (!raw.isClosed) await raw.send('Target.closeTarget', { targetId: page.targetId }).catch(() => {});
      await raw.close();
    });
    return { raw, page };
  }

  /** Downloads something and gives the event that says how it ended. */
  async function download({ raw, page }, expression = CLICK) {
    const since = raw.mark();
    await raw.evaluate(expression, page.sessionId, { userGesture: true });
    const { params } = await raw.wait('Browser.downloadWillBegin', { since });
    return (await raw.wait('Browser.downloadProgress', { since, accept: p => p.guid === params.guid && p.state !== 'inProgress' })).params;
  }

  for (const task of ['isolated', 'shared']) {
    test(`Playwright downloads in the task that is ${task}`, async t => {
      const one = await chromium.connectOverCDP(server.tasks[task].http_url);
      t.after(() => one.close());
      for (const context of [one.contexts()[0], await one.newContext()]) {
        const page = await context.newPage();
        await page.goto(site.url('a', '/links'));
        const [got] = await Promise.all([page.waitForEvent('download'), page.click('#download')]);
        assert.equal(got.suggestedFilename(), 'from-link.bin');
        assert.equal(readFileSync(await got.path(), 'utf8'), 'downloaded');
        const saved = join(temporaryFolder(), 'saved.bin');
        await got.saveAs(saved);
        assert.equal(readFileSync(saved, 'utf8'), 'downloaded');
        // What pages make themselves, and what is cancelled.
        const [blob] = await Promise.all([page.waitForEvent('download'), page.evaluate(() => {
          const a = document.createElement('a');
          a.href = URL.createObjectURL(new Blob(['made']));
          a.download = 'made.txt';
          document.body.append(a);
          a.click();
        })]);
        assert.equal(readFileSync(await blob.path(), 'utf8'), 'made');
        await page.close();
      }
      assert.deepEqual(downloads(), [], 'nothing stays in the folder of the person');
    });

    test(`Puppeteer downloads in the task that is ${task}`, async t => {
      const one = await puppeteer.connect({ browserURL: server.tasks[task].http_url });
      t.after(() => one.disconnect());
      const page = await one.newPage();
      const session = await one.target().createCDPSession();
      const dir = join(grants, 'write');
      await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: dir, eventsEnabled: true });
      const done = new Promise(resolve => session.on('Browser.downloadProgress', event => event.state === 'completed' && resolve(event)));
      await page.goto(site.url('a', '/links'));
      await page.click('#download');
      const { filePath, guid } = await done;
      assert.equal(filePath, join(dir, basename(filePath)));
      assert.match(basename(filePath), /^from-link( \(\d+\))?\.bin$/);
      assert.equal(readFileSync(filePath, 'utf8'), 'downloaded');
      const file = await fetch(`${server.tasks[task].http_url}/files/${guid}`);
      assert.equal(await file.text(), 'downloaded');
      assert.match(file.headers.get('content-disposition'), /^attachment; filename="from-link.bin"/);
      assert.equal((await fetch(`${server.tasks[task === 'shared' ? 'isolated' : 'shared'].http_url}/files/${guid}`)).status, 404);
      assert.equal((await server.api('GET', `/tasks/${task}/files/${guid}`)).body, 'downloaded');
      await page.close();
    });

    test(`directories and links in the task that is ${task}`, async t => {
      const { raw, page } = await client(t, task);
      const set = (downloadPath, behavior = 'allowAndName') => raw.send('Browser.setDownloadBehavior', { behavior, downloadPath, eventsEnabled: true });
      const refused = await raw.refused('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: join(grants, 'secret'), eventsEnabled: true });
      assert.match(refused.text, /--grant-write/);
      const link = join(grants, 'write', `link-${task}`);
      symlinkSync(join(grants, 'secret'), link);
      // Not granted by where it leads, not there at all, and on another machine: the file stays in the task's directory.
      const artifacts = join(tmpdir(), `playwright-artifacts-link-${task}-${process.pid}`);
      symlinkSync(join(grants, 'secret'), artifacts);
      t.after(() => removeFolder(artifacts));
      for (const dir of [link, join(grants, 'write', 'none'), artifacts, 'C:\\Temp\\playwright-artifacts-x']) {
        await set(dir);
        const { guid, filePath, state } = await download({ raw, page });
        assert.equal(state, 'completed');
        assert.equal(filePath, join(tasksDir(), task, 'files', guid), dir);
        assert.equal(readFileSync(filePath, 'utf8'), 'downloaded');
      }
      assert.deepEqual(readdirSync(join(grants, 'secret')), ['secret.txt']);
      const own = mkdtempSync(join(tmpdir(), 'playwright-artifacts-'));
      t.after(() => removeFolder(own));
      await set(own);
      const { guid, filePath } = await download({ raw, page });
      assert.equal(filePath, join(own, guid));
      assert.ok(lstatSync(filePath).isFile());
      assert.equal(statSync(join(tasksDir(), task)).mode & 0o777, 0o700);
      // `deny` holds for this task alone.
      await set(undefined, 'deny').catch(error => { throw error; });
      assert.equal((await download({ raw, page })).state, 'canceled');
      const other = await client(t, task === 'shared' ? 'isolated' : 'shared');
      await other.raw.send('Browser.setDownloadBehavior', { behavior: 'default', eventsEnabled: true });
      assert.equal((await download(other)).state, 'completed');
      assert.ok(!raw.seen('Browser.downloadWillBegin').some(({ params }) => other.raw.seen('Browser.downloadWillBegin').some(event => event.params.guid === params.guid)));
    });

    test(`uploads in the task that is ${task}`, async t => {
      const one = await chromium.connectOverCDP(server.tasks[task].http_url);
      t.after(() => one.close());
      const page = await one.contexts()[0].newPage();
      await page.goto(site.url('a', '/plain'));
      await page.setContent('<input type=file id=f multiple><input type=file id=d webkitdirectory>');
      const contents = () => page.evaluate(async () => Promise.all([...document.getElementById('f').files].map(file => file.text())));
      await page.setInputFiles('#f', join(grants, 'read', 'file.txt'));
      assert.deepEqual(await contents(), ['from a file']);
      await page.setInputFiles('#f', { name: 'buffer.txt', mimeType: 'text/plain', buffer: Buffer.from('from a buffer') });
      assert.deepEqual(await contents(), ['from a buffer']);
      const chooser = page.waitForEvent('filechooser');
      await page.click('#f');
      await (await chooser).setFiles(join(grants, 'read', 'link-in'));
      assert.deepEqual(await contents(), ['from a file']);
      await page.setInputFiles('#d', join(grants, 'read', 'dir'));
      assert.deepEqual(await page.evaluate(() => [...document.getElementById('d').files].map(file => file.name)), ['inner.txt']);
      // Playwright reads files itself where it is not sure to be on the browser's machine; a client's own command is refused.
      const session = await page.context().newCDPSession(page);
      const { result } = await session.send('Runtime.evaluate', { expression: "document.getElementById('f')" });
      const refusals = [[['secret', 'secret.txt'], /--grant-read/], [['read', '..', 'secret', 'secret.txt'], /--grant-read/],
        [['read', 'link-out'], /leads by a link/], [['read', 'dir-out', 'secret.txt'], /leads by a link/], [[''], /--grant-read/],
        [['read'], /leads by a link/], [['read', 'none'], /cannot be used/]];
      for (const [path, why] of refusals) {
        const file = [grants, ...path].join('/');
        await assert.rejects(session.send('DOM.setFileInputFiles', { objectId: result.objectId, files: [file] }), why, file);
        const data = { items: [], files: [file], dragOperationsMask: 1 };
        await assert.rejects(session.send('Input.dispatchDragEvent', { type: 'drop', x: 1, y: 1, data }), why, file);
        assert.deepEqual(await contents(), ['from a file'], file);
      }
      await page.close();
    });
  }

  test('Puppeteer uploads a file', async t => {
    const one = await puppeteer.connect({ browserURL: server.tasks.isolated.http_url });
    t.after(() => one.disconnect());
    const page = await one.newPage();
    await page.goto(site.url('a', '/plain'));
    await page.setContent('<input type=file id=f>');
    const input = await page.$('#f');
    await input.uploadFile(join(grants, 'read', 'file.txt'));
    assert.equal(await page.evaluate(() => document.getElementById('f').files[0].text()), 'from a file');
    await assert.rejects(input.uploadFile(join(grants, 'read', 'link-out')), /leads by a link/);
    await page.close();
  });

  test('commands behind an upload come after it', async t => {
    const { raw, page } = await client(t, 'isolated');
    await raw.evaluate(`document.body.innerHTML = '<input type=file id=f multiple>'`, page.sessionId);
    const { root } = await raw.send('DOM.getDocument', {}, page.sessionId);
    const { nodeId } = await raw.send('DOM.querySelector', { nodeId: root.nodeId, selector: '#f' }, page.sessionId);
    for (let n = 0; n < 20; n++) {
      const files = ['file.txt', 'dir/inner.txt'].slice(n % 2).map(name => join(grants, 'read', name));
      raw.post('DOM.setFileInputFiles', { nodeId, files }, page.sessionId);
      assert.equal(await raw.evaluate(`document.getElementById('f').files.length`, page.sessionId), files.length);
    }
  });

  test('a forbidden download is cancelled, and nothing of it stays', async t => {
    const { raw, page } = await client(t, 'judged');
    await raw.send('Browser.setDownloadBehavior', { behavior: 'allowAndName', downloadPath: join(grants, 'write'), eventsEnabled: true });
    const before = readdirSync(join(grants, 'write'));
    const { state, guid } = await download({ raw, page }, `location.href = ${JSON.stringify(site.url('c', '/download', { name: 'bad.bin' }))}`);
    assert.equal(state, 'canceled');
    assert.equal((await server.api('GET', `/tasks/judged/files/${guid}`)).status, 404);
    const fine = await download({ raw, page });
    assert.equal(fine.state, 'completed');
    assert.deepEqual(readdirSync(join(grants, 'write')).filter(name => !before.includes(name)), [fine.guid]);
    assert.match((await server.task('judged')).last_refusals.join() + server.stderr, /download http:\/\/c\.test:\d+\/download denied by rule forbidden/);
    await until(() => downloads().length === 0, 'the folder of the person being empty');
  });

  test('the directory of a task goes with it, and what was placed stays', async t => {
    const task = await server.newTask('brief');
    const raw = await server.connect('brief');
    t.after(() => raw.close());
    const page = await raw.newPage(site.url('a', '/links'));
    await raw.send('Browser.setDownloadBehavior', { behavior: 'allowAndName', downloadPath: join(grants, 'write'), eventsEnabled: true });
    const { filePath, guid } = await download({ raw, page });
    assert.ok(existsSync(join(tasksDir(), 'brief', 'files', guid)));
    await server.api('DELETE', '/tasks/brief');
    assert.ok(!existsSync(join(tasksDir(), 'brief')));
    assert.equal(readFileSync(filePath, 'utf8'), 'downloaded');
    assert.equal((await fetch(`${task.http_url}/files/${guid}`)).status, 401);
  });

  if (attached) test('after a kill -9 the person downloads as before, and during it too', async t => {
    const tab = await person.openTab(site.url('person', '/links'));
    const theirs = async label => {
      const had = downloads();
      await person.evaluate(tab, CLICK);
      await until(() => downloads().some(name => !had.includes(name) && /^of-mine( \(\d+\))?\.bin$/.test(name)), `${label}: a file in the person's folder`);
    };
    await theirs('before');
    const script = `import { Raw } from ${JSON.stringify(new URL('./support/raw.mjs', import.meta.url).href)};
      const raw = await Raw.connect(${JSON.stringify(server.tasks.shared.ws_url)});
      const { sessionId } = await raw.newPage();
      await raw.send('Browser.setDownloadBehavior', { behavior: 'deny', eventsEnabled: true });
      await raw.send('Page.setDownloadBehavior', { behavior: 'deny' }, sessionId);
      console.log('ready');`;
    const hostile = ownProcess(spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] }));
    await new Promise(resolve => hostile.stdout.once('data', resolve));
    await theirs('during');
    hostile.kill('SIGKILL');
    await ended(hostile);
    await until(async () => (await server.task('shared')).clients.length === 0, 'the client being gone');
    await theirs('after');
    const { raw } = await client(t, 'shared');
    await raw.send('Browser.setDownloadBehavior', { behavior: 'default', eventsEnabled: true });
    await theirs('beside a listening client');
    assert.deepEqual(raw.seen('Browser.downloadWillBegin'), []);
  });
});
