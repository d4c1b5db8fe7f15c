// Policy files around a real browser: layers, reload while pages are open, narrowing at `task new`, and what the audit keeps.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { appendFileSync, chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { binary, ownEnvironment, router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { temporaryFolder, until } from './support/util.mjs';

const run = promisify(execFile);

/** A policy that allows everything at these hosts, with `more` rules. */
const allowing = (name, hosts, more = '') => `policy = 1
name = "${name}"
default = "deny"

[unenforceable]
websocket = "accept"
webrtc = "accept"
sw-update = "accept"
shared-worker = "accept"
browser-requests = "accept"

[[rule]]
id = "${name}-sites"
effect = "allow"
verbs = ["*"]
to = [${hosts.map(host => `{ host = "${host}.test" }`).join(', ')}]
schemes = ["http"]
ports = "*"
${more}`;

describe('policy files of a running server', router, () => {
  let site, server, folder, own, ofServer;

  before(async () => {
    site = await Site.start();
    folder = temporaryFolder('tabwarden-policies-');
    [own, ofServer] = [join(folder, 'own.toml'), join(folder, 'server.toml')];
    writeFileSync(own, allowing('own', ['a', 'b', 'c']));
    writeFileSync(ofServer, allowing('of-server', ['a', 'b', 'c', 'd']));
    server = await serve({ site, tasks: [`one,policy=${own}`, 'two'], args: ['--policy', ofServer, '--policy-dir', folder] });
  });
  after(async () => {
    await server?.stop();
    await site?.stop();
  });

  /** The command line against this server: `{ code, stdout, stderr }`. */
  const cli = async (...args) => {
    try {
      return { code: 0, ...await run(binary(), args, { env: ownEnvironment(server.folder) }) };
    } catch (error) {
      if (typeof error.code !== 'number') throw error;
      return { code: error.code, stdout: error.stdout, stderr: error.stderr };
    }
  };
  const status = async () => JSON.parse((await cli('status', '--json')).stdout);
  const records = async (...args) => (await cli('audit', '--json', ...args)).stdout.split('\n').filter(Boolean).map(line => JSON.parse(line));
  /** Runs `change`, then has the server read its files anew; mends them at the end of the test. */
  async function changed(t, file, text) {
    const before = readFileSync(file, 'utf8');
    t.after(async () => {
      writeFileSync(file, before);
      assert.equal((await cli('reload')).code, 0);
    });
    writeFileSync(file, text);
  }

  test('each layer only narrows: a task reaches what both its file and the server\'s allow', async () => {
    const raw = await server.connect('one');
    const page = await raw.newPage(site.url('a'));
    const since = site.mark();
    const refused = await raw.refused('Page.navigate', { url: site.url('d', '/plain', { token: 'secret' }) }, page.sessionId);
    assert.match(refused.text, /navigate to http:\/\/d\.test:\d+\/plain denied by rule default \(.*own\.toml:3\)/);
    assert.equal(site.seenAt('d', since).length, 0);
    const shown = JSON.parse((await cli('task', 'show', 'one', '--json')).stdout).enforcement;
    assert.deepEqual(shown.files, [{ layer: 'server', name: 'of-server' }, { layer: 'task', name: 'own' }]);
    const channels = Object.fromEntries(shown.channels.map(channel => [channel.name, channel]));
    assert.deepEqual(channels.websocket, { name: 'websocket', denied: true, enforced_by: null, setting: 'accept' });
    assert.ok(channels.documents.denied && channels.documents.enforced_by, 'and what keeps documents away is named');
    assert.match((await cli('status')).stdout, /websocket: NOT enforced, which the policies accept/);
    await raw.close();
  });

  test('a refusal is one record, which the message names, in the file, from the API and on the command line', async () => {
    const raw = await server.connect('one');
    const page = await raw.newPage(site.url('a'));
    const refused = await raw.refused('Page.navigate', { url: site.url('forbidden', '/x', { token: 'secret' }) }, page.sessionId);
    const [, id] = /\[(a-[^\]]+)\]/.exec(refused.text) ?? [];
    assert.ok(id, refused.text);
    const [record, ...others] = (await records('--task', 'one', '--denied')).filter(one => one.id === id);
    assert.deepEqual(others, []);
    const hash = (await status()).task_policies.find(task => task.task === 'one').hash;
    assert.deepEqual(
      { ...record, time: null, client: null },
      {
        time: null, id, task: 'one', client: null, method: 'Page.navigate', verb: 'navigate', object: site.url('forbidden', '/x'), verdict: 'deny', enforced: true,
        rule: record.rule, reason: record.reason, policy_hash: hash,
      });
    assert.match(record.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const { body } = await server.api('GET', '/tasks/one/decisions');
    assert.deepEqual(body.decisions.filter(one => one.id === id), [record]);
    assert.deepEqual((await server.api('GET', `/tasks/one/decisions?since=${id}`)).body.decisions.filter(one => one.id === id), []);
    assert.deepEqual((await records('--task', 'two')).filter(one => one.id === id), []);
    const { stdout } = await cli('audit', '--task', 'one', '--since', '1h');
    assert.match(stdout, new RegExp(`one  deny navigate http://forbidden\\.test:\\d+/x  by .*\\[${id} client \\d+ Page\\.navigate\\]`));
    const { audit } = await status();
    assert.equal(audit.lost, 0);
    assert.equal(statSync(audit.file).mode & 0o777, 0o600);
    assert.ok(!readFileSync(audit.file, 'utf8').includes('secret'));
    await raw.close();
  });

  test('a line that is no record is named and left out, and the exit code says so', async () => {
    const copy = join(folder, 'copy.jsonl');
    writeFileSync(copy, readFileSync((await status()).audit.file));
    const whole = await records('--file', copy);
    assert.ok(whole.length > 0);
    appendFileSync(copy, '{"time":"half');
    const { code, stdout, stderr } = await cli('audit', '--file', copy, '--json');
    assert.equal(code, 1);
    assert.equal(stdout.split('\n').filter(Boolean).length, whole.length);
    assert.match(stderr, new RegExp(`copy\\.jsonl:${whole.length + 1} is left out`));
  });

  test('narrowing acts on open pages at once: those that may not be held any more are let go, and others go on', async t => {
    const raw = await server.connect('one');
    const [kept, lost] = [await raw.newPage(site.url('a')), await raw.newPage(site.url('b'))];
    // With documents of two kinds, an `evaluate` has to be told apart by its context.
    await raw.send('Runtime.enable', {}, kept.sessionId);
    await changed(t, own, allowing('own', ['a']));
    const since = raw.mark();
    const { code, stdout } = await cli('reload');
    assert.equal(code, 0);
    assert.match(stdout, /2 tasks have them, 1 pages were released/);
    await raw.wait('Target.detachedFromTarget', { since, accept: params => params.sessionId === lost.sessionId });
    assert.equal((await raw.refused('Runtime.evaluate', { expression: '1' }, lost.sessionId)).code, -32001);
    assert.equal(await raw.evaluate('document.readyState', kept.sessionId), 'complete');
    const mark = site.mark();
    await raw.refused('Page.navigate', { url: site.url('c') }, kept.sessionId);
    assert.equal(site.seenAt('c', mark).length, 0);
    await raw.close();
  });

  test('what is wrong changes nothing, and the command, the log and the status say where', async t => {
    const before = (await status()).task_policies;
    const wrong = allowing('own', ['a', 'd']).replace('effect', 'colour = "red"\neffect');
    const place = `own.toml:${wrong.split('\n').findIndex(line => line.startsWith('colour')) + 1}:1: `;
    await changed(t, own, wrong);
    const { code, stderr } = await cli('reload');
    assert.equal(code, 1);
    assert.ok(stderr.includes('The policies stay as they were: ') && stderr.includes(place) && stderr.includes('`colour`'), stderr);
    const now = await status();
    assert.deepEqual(now.task_policies, before);
    assert.equal(now.policies.last_reload.ok, false);
    assert.ok(now.policies.last_reload.error.includes(place));
    assert.ok(server.stderr.split('\n').some(line => /ERROR .*Policies stay as they were/.test(line) && line.includes(place)), server.stderr);
    assert.ok((await cli('status')).stdout.split('\n').some(line => line.includes('NOT IN FORCE, those from before are: ') && line.includes(place)));
  });

  test('SIGHUP and a changed file have the files read anew, and the server goes on', async t => {
    const reloaded = by => until(async () => (await status()).policies.last_reload.by === by, `a reload by ${by}`);
    server.child.kill('SIGHUP');
    await reloaded('signal');
    await changed(t, ofServer, allowing('of-server', ['a', 'b', 'c']));
    await reloaded('watch');
    assert.equal((await status()).policies.last_reload.ok, true);
    assert.ok(server.alive());
  });

  test('`task new` takes a policy by name, and hosts that only narrow it', async () => {
    const made = await cli('task', 'new', 'narrow', '--policy', 'own', '--allow-host', 'a.test', '--allow-site', 'd.test', '--json');
    assert.equal(made.code, 0, made.stderr);
    server.tasks.narrow = JSON.parse(made.stdout);
    const raw = await server.connect('narrow');
    const page = await raw.newPage(site.url('a'));
    const since = site.mark();
    assert.match((await raw.refused('Page.navigate', { url: site.url('b') }, page.sessionId)).text, /denied by rule task:hosts/, 'the policies allow it, and it was not named');
    assert.match((await raw.refused('Page.navigate', { url: site.url('d') }, page.sessionId)).text, /own\.toml:3/, 'it was named, and the policy does not allow it');
    assert.deepEqual(site.seen(r => ['b.test', 'd.test'].includes(r.host), since), []);
    await raw.close();
    const wide = await cli('task', 'new', 'wide', '--allow-site', 'co.uk');
    assert.equal(wide.code, 2);
    assert.match(wide.stderr, /public suffix/);
  });
});

describe('policy files that stop the start', router, () => {
  /** Starts, without a browser being reached, and gives what was said. */
  async function refused(args, wrapper = []) {
    const folder = temporaryFolder('tabwarden-start-');
    const [file, ...rest] = [...wrapper, binary(), 'serve', '--listen', '127.0.0.1:0', '--browser-path', '/bin/false', '--ephemeral', ...args];
    try {
      await run(file, rest, { env: ownEnvironment(folder) });
    } catch (error) {
      return { code: error.code, stderr: error.stderr };
    }
    throw new Error('it started');
  }

  test('missing, empty, mistyped and open to others: each with its place and the remedy', async () => {
    const folder = temporaryFolder('tabwarden-policies-');
    const file = join(folder, 'p.toml');
    const said = async () => {
      const { code, stderr } = await refused(['--policy', file]);
      assert.equal(code, 2, stderr);
      assert.deepEqual(await refused(['--task', `one,policy=${file}`]), { code, stderr }, 'a task\'s file is treated alike');
      return stderr;
    };
    assert.match(await said(), /p\.toml is not there; put it there/);
    writeFileSync(file, '');
    assert.match(await said(), /p\.toml:1:1: the file is empty/);
    writeFileSync(file, allowing('p', ['a']).replace('effect', 'efect'));
    assert.match(await said(), /p\.toml:\d+:1: .*`effect`/);
    writeFileSync(file, allowing('p', ['a']));
    chmodSync(file, 0o666);
    assert.match(await said(), /`chmod o-w .*p\.toml`/);
    chmodSync(file, 0o644);
    chmodSync(folder, 0o777);
    assert.match(await said(), /`chmod o-w .*`/);
    chmodSync(folder, 0o755);
  });

  test('a policy that denies what nothing can enforce has to say what is then to be done', async () => {
    const file = join(temporaryFolder('tabwarden-policies-'), 'p.toml');
    const silent = allowing('p', ['a']).replace(/\[unenforceable\](\n.+)+\n/, '');
    writeFileSync(file, silent);
    const { code, stderr } = await refused(['--task', `one,policy=${file}`]);
    assert.equal(code, 2);
    assert.match(stderr, /p\.toml:3:1: .*denies what nothing can enforce in a browser that Tabwarden started.*websocket.*\[unenforceable\]/);
    writeFileSync(file, allowing('p', ['a']).replace('webrtc = "accept"', 'webrtc = "refuse"'));
    assert.match((await refused(['--task', `one,policy=${file}`])).stderr, /p\.toml:3:1: .*refuses to be used.*webrtc/);
  });

  const systemDirectory = '/etc/tabwarden/policies';
  const mayMount = process.platform === 'linux' && process.getuid() === 0 && !existsSync(systemDirectory);
  const skip = mayMount ? false : 'needs root on Linux, and no policies of this machine\'s own, for a private mount of /etc';

  test('the administrator\'s files are read whatever is typed or set', { skip }, async () => {
    const layer = temporaryFolder('tabwarden-etc-');
    const system = join(layer, 'tabwarden', 'policies');
    mkdirSync(system, { recursive: true });
    writeFileSync(join(system, 'wrong.toml'), 'policy = 2\n');
    // A private view of /etc for this one process, in which the directory is there; nothing of the machine is changed.
    const copy = ['cp -a /etc/. "$0/"', 'mount --bind "$0" /etc', 'exec "$@"'].join(' && ');
    const inside = args => refused(args, ['unshare', '--mount', 'sh', '-c', copy, layer]);
    const place = /\/etc\/tabwarden\/policies\/wrong\.toml:1:10: format version 2 is unknown/;
    const attempts = [[], ['--policy-dir', layer], ['--task', 'one']];
    for (const args of attempts) assert.match((await inside(args)).stderr, place);
    writeFileSync(join(system, 'wrong.toml'), allowing('admin', ['a']));
    chmodSync(join(system, 'wrong.toml'), 0o664);
    assert.match((await inside([])).stderr, /its group may write to \/etc\/tabwarden\/policies\/wrong\.toml; `chmod g-w/);
    rmSync(layer, { recursive: true });
  });
});
