// Who may come in, seen from outside: Host, Origin and token of every route, and where no token may ever be read.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { readFileSync, readdirSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import puppeteer from 'puppeteer-core';
import { startChromium } from './support/chromium.mjs';
import { Person } from './support/person.mjs';
import { Raw } from './support/raw.mjs';
import { binary, ownEnvironment, router, serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { ended, ownProcess, temporaryFolder, until, within } from './support/util.mjs';

describe('the front door', router, () => {
  let site, server, port, token, adminToken;
  before(async () => {
    site = await Site.start();
    server = await serve({ site, tasks: ['one', 'two'] });
    port = Number(new URL(server.url).port);
    token = server.tasks.one.ws_url.split('/t/')[1].split('/')[0];
    adminToken = server.adminToken;
  });
  after(async () => {
    await server?.stop();
    await site?.stop();
  });

  /** Sends lines as they are and gives the whole answer: `{ status, reason, head, body }`. */
  async function speak(lines) {
    const socket = net.connect(port, '127.0.0.1');
    let text = '';
    socket.setEncoding('latin1').on('data', chunk => { text += chunk; });
    socket.on('error', () => {});
    socket.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
    // An answer is whole when its Content-Length has come; an accepted upgrade has none, and its head is enough.
    await within(new Promise(resolve => {
      const look = () => {
        const end = text.indexOf('\r\n\r\n');
        if (end < 0) return;
        const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text.slice(0, end))?.[1] ?? 0);
        if (text.length >= end + 4 + length) resolve();
      };
      socket.on('data', look).on('close', resolve);
    }), () => `an answer to ${lines[0]}`);
    socket.destroy();
    const [head, body = ''] = text.split(/\r\n\r\n(.*)/s);
    const [, status, reason] = /^HTTP\/1\.1 (\d+) ?(.*)/.exec(head) ?? [];
    return { status: Number(status), reason, head, body };
  }

  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='];
  /** Every route with the token that opens it, as `[name, request line's path, further headers, status when let in]`. */
  const routes = () => [
    ['version', `/t/${token}/json/version`, [], 200],
    ['version with a slash', `/t/${token}/json/version/`, [], 200],
    ['list', `/t/${token}/json/list`, [], 200],
    ['json', `/t/${token}/json`, [], 200],
    ['websocket', new URL(server.tasks.one.ws_url).pathname, upgrade, 101],
    ['version by bearer', '/json/version', [`Authorization: Bearer ${token}`], 200],
    ['api', '/api/v1/tasks', [`Authorization: Bearer ${adminToken}`], 200],
    ['api task', '/api/v1/tasks/one', [`Authorization: Bearer ${adminToken}`], 200],
  ];

  test('every route opens with its token and an honest Host', async () => {
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`]) {
      for (const [name, path, headers, status] of routes()) {
        const answer = await speak([`GET ${path} HTTP/1.1`, `Host: ${host}`, ...headers]);
        assert.equal(answer.status, status, `${name} with Host ${host}: ${answer.head}`);
      }
    }
  });

  test('a Host that is another name, twice there, missing, or in the request line is refused before anything else', async () => {
    const hosts = [
      [`Host: evil.test:${port}`], [`Host: 127.0.0.1.evil.test:${port}`], ['Host: '], [], [`Host: 127.0.0.1:${port}`, 'Host: evil.test'], [`Host: 127.0.0.1:${port}`, `Host: 127.0.0.1:${port}`],
      [`Host: EVIL.TEST:${port}`], [`Host: localhost.:${port}`], [`Host: 127.0.0.1.:${port}`], ['Host: 127.0.0.1@evil.test'], ['Host: 2130706433'],
    ];
    for (const [name, path, headers] of routes()) {
      for (const host of hosts) {
        const answer = await speak([`GET ${path} HTTP/1.1`, ...host, ...headers]);
        assert.ok([400, 403].includes(answer.status), `${name} with ${JSON.stringify(host)}: ${answer.head}`);
        assert.doesNotMatch(answer.head + answer.body, /webSocketDebuggerUrl|"tasks"|evil/i);
      }
      const absolute = await speak([`GET http://127.0.0.1:${port}${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, ...headers]);
      assert.ok([400, 403].includes(absolute.status), `${name} in absolute form: ${absolute.head}`);
    }
  });

  test('an Origin is refused with a valid token, too, and nothing is said of CORS', async () => {
    for (const [name, path, headers] of routes()) {
      for (const origin of ['https://evil.test', 'null', 'file://', 'chrome-extension://abcdefghijklmnopabcdefghijklmnop', `http://127.0.0.1:${port}`, `http://localhost:${port}`]) {
        const answer = await speak([`GET ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, `Origin: ${origin}`, ...headers]);
        assert.equal(answer.status, 403, `${name} from ${origin}: ${answer.head}`);
        assert.doesNotMatch(answer.head, /access-control/i);
      }
    }
    const preflight = await speak([`OPTIONS /api/v1/tasks HTTP/1.1`, `Host: 127.0.0.1:${port}`, 'Origin: https://evil.test', 'Access-Control-Request-Method: POST']);
    assert.equal(preflight.status, 403);
    assert.doesNotMatch(preflight.head, /access-control/i);
  });

  test('no route opens without a token, with a wrong one, or with that of another thing', async () => {
    const wrong = `${token.slice(0, -1)}${token.endsWith('x') ? 'y' : 'x'}`;
    const wsPath = new URL(server.tasks.one.ws_url).pathname;
    for (const [label, path, headers] of [
      ['discovery, none', '/json/version', []], ['discovery, wrong path', `/t/${wrong}/json/version`, []], ['discovery, empty', '/t//json/version', []],
      ['discovery, wrong bearer', '/json/version', [`Authorization: Bearer ${wrong}`]], ['discovery, query', `/json/version?token=${token}`, []],
      ['websocket, none', '/devtools/browser/x', upgrade], ['websocket, wrong', wsPath.replace(token, wrong), upgrade],
      ['api, none', '/api/v1/tasks', []], ['api, a task\'s', '/api/v1/tasks', [`Authorization: Bearer ${token}`]], ['api, wrong', '/api/v1/tasks', [`Authorization: Bearer ${wrong}`]],
      ['api, in the path of a task', `/t/${token}/api/v1/tasks`, []], ['forwarded', '/json/version', ['X-Forwarded-For: 127.0.0.1', 'X-Real-IP: 127.0.0.1']],
    ]) {
      const answer = await speak([`GET ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, ...headers]);
      assert.ok([401, 403, 404].includes(answer.status), `${label}: ${answer.head}`);
      assert.doesNotMatch(answer.body, /webSocketDebuggerUrl|"pages"/, label);
    }
  });

  test('the bare root is a 404 that names nothing, and the log has the hint', async () => {
    for (const path of ['/', '/json/version', '/json/list', '/json', '/devtools/browser', '/json/protocol']) {
      const answer = await speak([`GET ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`]);
      assert.equal(answer.status, 404, path);
      assert.doesNotMatch(answer.head + answer.body, /tabwarden|one|two|token/i, path);
    }
    assert.match(server.stderr, /\/devtools\/browser\//, 'the log shows the full ws form');
  });

  test('/healthz and /readyz need no token and say always the same', async () => {
    for (const path of ['/healthz', '/readyz']) {
      const answers = await Promise.all([1, 2].map(() => speak([`GET ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`])));
      assert.equal(answers[0].status, 200);
      assert.equal(answers[0].body, answers[1].body);
      assert.equal((await speak([`GET ${path} HTTP/1.1`, 'Host: evil.test'])).status, 403);
    }
  });

  test('a refused upgrade carries a sentence in its body, and clients show why', async () => {
    const wrong = server.tasks.one.ws_url.replace(token, 'A'.repeat(token.length));
    await assert.rejects(Raw.connect(wrong), error => error.status >= 400 && /\w+ \w+ \w+/.test(error.body));
    await assert.rejects(chromium.connectOverCDP(wrong), /\w+ \w+ \w+/);
    const httpWrong = server.tasks.one.http_url.replace(token, 'A'.repeat(token.length));
    const refusal = await fetch(`${httpWrong.replace(/\/$/, '')}/json/version`);
    assert.ok(refusal.status >= 400 && refusal.statusText.split(' ').length > 3, refusal.statusText);
    await assert.rejects(puppeteer.connect({ browserURL: httpWrong }));
  });

  test('discovery gives back the validated Host, and a URL that works', async () => {
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`]) {
      const answer = await speak([`GET /t/${token}/json/version HTTP/1.1`, `Host: ${host}`]);
      const { webSocketDebuggerUrl, Browser } = JSON.parse(answer.body);
      assert.equal(new URL(webSocketDebuggerUrl).host, host);
      assert.match(Browser, /Chrome\//);
      await (await Raw.connect(webSocketDebuggerUrl.replace('localhost', '127.0.0.1'))).close();
    }
  });

  test('a page in a real browser gets nothing from it', async t => {
    const browser = await startChromium({ site });
    t.after(() => browser.close());
    const person = await Person.of(browser);
    t.after(() => person.close());
    const tab = await person.openTab(site.url('a'));
    const ws = server.tasks.one.ws_url;
    assert.equal(await person.evaluate(tab, `new Promise(resolve => { const w = new WebSocket(${JSON.stringify(ws)}); w.onopen = () => resolve('open'); w.onerror = () => resolve('refused'); })`), 'refused');
    assert.equal(await person.evaluate(tab, `fetch(${JSON.stringify(`${server.tasks.one.http_url.replace(/\/$/, '')}/json/version`)}).then(r => r.text(), () => 'refused')`), 'refused');
    // By a name of the page's own that leads to this machine (DNS rebinding): no Origin then, but another Host.
    const rebound = await person.openTab(`http://rebound.test:${port}/t/${token}/json/version`);
    assert.doesNotMatch(await person.evaluate(rebound, 'document.body.innerText'), /webSocketDebuggerUrl/);
  });

  test('a binary message closes its sender only', async () => {
    const [bad, good] = await Promise.all([server.connect('one'), server.connect('one')]);
    bad.sendBinary(Buffer.from('{"id":1,"method":"Browser.getVersion"}'));
    const { code, reason } = await within(bad.closed, 'the sender being closed');
    assert.ok(code >= 1000, `${code} ${reason}`);
    assert.ok(reason.length > 5);
    assert.match((await good.send('Browser.getVersion')).product, /Chrome/);
    await good.close();
  });

  test('what Chromium calls malformed is answered as Chromium answers it, and harms nobody', async () => {
    const raw = await server.connect('one');
    const page = await raw.newPage();
    const answers = [];
    for (const text of ['{', '[]', '"x"', '{"id":"7","method":"Browser.getVersion"}', '{"id":3000000000,"method":"Browser.getVersion"}', '{"method":"Browser.getVersion"}', '{"id":1,"method":"Browser.getVersion","extra":1}', '{"id":1,"id":2,"method":"Browser.getVersion"}', '{"id":5,"method":7}', '\ufeff{"id":1,"method":"Browser.getVersion"}', '{"id":8,"method":"No.such"}', '{"id":9,"method":"Runtime.enable","params":[]}', `{"id":10,"method":"Runtime.evaluate","sessionId":7,"params":{"expression":"1"}}`]) {
      const before = raw.strays.length;
      raw.sendText(text);
      await until(() => raw.strays.length > before, `an answer to ${text}`);
      answers.push([text, raw.strays[before].error?.code]);
    }
    for (const [text, code] of answers) assert.ok([-32700, -32600, -32601, -32602, -32001].includes(code), `${text}: ${code}`);
    raw.strays.length = 0;
    assert.equal(await raw.evaluate('1 + 1', page.sessionId), 2);
    await raw.close();
  });

  test('tokens are in no log, in no list of processes, and in files of their owner\'s only', async () => {
    // Something of everything, right and wrong, first.
    await (await server.connect('one')).close();
    await speak([`GET /t/${token}/nothing HTTP/1.1`, `Host: 127.0.0.1:${port}`]);
    await speak([`GET /t/${token}/json/version HTTP/1.1`, 'Host: evil.test']);
    await speak([`GET /api/v1/tasks HTTP/1.1`, `Host: 127.0.0.1:${port}`, `Authorization: Bearer ${token}`]);
    const made = await server.newTask('made-here');
    await server.api('DELETE', '/tasks/made-here');
    const { stdout: processes } = await promisify(execFile)('ps', ['-eww', '-o', 'args'], { maxBuffer: 1 << 24 });
    const two = server.tasks.two.ws_url.split('/t/')[1].split('/')[0];
    for (const secret of [token, two, adminToken, made.token]) {
      assert.ok(secret.length >= 22);
      assert.ok(!server.stderr.includes(secret), 'in the log');
      assert.ok(!processes.includes(secret), 'in the list of processes');
    }
    assert.equal(server.stdout.length, 1, 'stdout has the ready line and nothing else');
    const file = server.runtimeFile;
    assert.equal(file.name, `${port}.json`);
    assert.equal(file.pid, server.pid);
    assert.equal(statSync(file.path).mode & 0o777, 0o600);
  });

  test('a launched browser listens on no port, and tabwarden on exactly one', async () => {
    const listening = new Map();
    for (const file of ['tcp', 'tcp6']) {
      for (const line of readFileSync(`/proc/net/${file}`, 'utf8').split('\n').slice(1)) {
        const fields = line.trim().split(/\s+/);
        if (fields[3] === '0A') listening.set(fields[9], parseInt(fields[1].split(':')[1], 16));
      }
    }
    const { stdout } = await promisify(execFile)('ps', ['-e', '-o', 'pid=,ppid=,comm=']);
    const all = stdout.trim().split('\n').map(line => line.trim().split(/\s+/)).map(([pid, ppid, comm]) => ({ pid: +pid, ppid: +ppid, comm }));
    const family = [server.pid];
    for (const pid of family) family.push(...all.filter(p => p.ppid === pid).map(p => p.pid));
    assert.ok(family.length > 2, 'there is a browser below tabwarden');
    const ports = pid => readdirSync(`/proc/${pid}/fd`).flatMap(fd => {
      try { const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1]; return listening.has(inode) ? [listening.get(inode)] : []; } catch { return []; }
    });
    assert.deepEqual(ports(server.pid), [port]);
    for (const pid of family.slice(1)) {
      let open = [];
      try { open = ports(pid); } catch { /* it has just ended */ }
      assert.deepEqual(open, [], `process ${pid} (${all.find(p => p.pid === pid).comm}) listens`);
    }
  });

  test('a token file is made 0600, keeps the URL over a restart, and a wider one is refused', async () => {
    const folder = temporaryFolder();
    const file = join(folder, 'task.token');
    const first = await serve({ site, tasks: [`filed,token-file=${file}`] });
    const path = url => new URL(url).pathname.split('/')[2];
    const kept = path(first.tasks.filed.ws_url);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    await first.stop();
    const second = await serve({ site, tasks: [`filed,token-file=${file}`] });
    assert.equal(path(second.tasks.filed.ws_url), kept);
    await second.stop();
    const open = join(folder, 'open.token');
    writeFileSync(open, readFileSync(file), { mode: 0o644 });
    await assert.rejects(serve({ site, tasks: [`filed,token-file=${open}`] }), /open\.token|permission|0600/);
  });

  test('the other commands find the server by its runtime file; rotating a token turns the old one off', async () => {
    const run = promisify(execFile);
    const options = { env: ownEnvironment(server.folder) };
    const list = await run(binary(), ['task', 'list'], options);
    assert.match(list.stdout, /one[\s\S]*two/);
    assert.ok(!list.stdout.includes(token));
    const old = server.tasks.two.ws_url;
    const raw = await Raw.connect(old);
    await run(binary(), ['task', 'token', 'two', '--rotate'], options);
    await assert.rejects(Raw.connect(old), error => error.status >= 400);
    await raw.close();
  });

  test('a server that cannot start says why and what to do, with an exit code', async () => {
    const closed = net.createServer();
    await new Promise(resolve => closed.listen(0, '127.0.0.1', resolve));
    const free = closed.address().port;
    await new Promise(resolve => closed.close(resolve));
    const folder = temporaryFolder();
    for (const [args, text] of [
      [['serve', '--browser-url', `http://127.0.0.1:${free}`, '--listen', '127.0.0.1:0', '--task', 'a'], /listen|connect|refused|remote-debugging/i],
      [['serve', '--launch', '--headless', '--ephemeral', '--listen', `127.0.0.1:${port}`, '--task', 'a'], /address|in use|listen/i],
      [['serve', '--launch', '--browser-path', '/nonexistent/chrome', '--task', 'a'], /nonexistent/],
      [['serve', '--launch', '--task', 'a,policy=/nonexistent.toml'], /nonexistent/],
      [['serve', '--no-such-flag'], /no-such-flag/],
    ]) {
      const child = ownProcess(spawn(binary(), args, { detached: true, env: ownEnvironment(folder), stdio: ['ignore', 'pipe', 'pipe'] }));
      let text_ = '';
      child.stderr.on('data', chunk => { text_ += chunk; });
      child.stdout.on('data', chunk => { text_ += chunk; });
      const { code } = await within(ended(child), () => `${args.join(' ')} ending; it said ${text_}`);
      assert.ok(code > 0, `${args.join(' ')} → ${code}`);
      assert.match(text_, text, args.join(' '));
      assert.doesNotMatch(text_, /panicked/);
    }
  });
});
