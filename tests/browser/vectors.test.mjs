// What was judged is what Chromium acts on: each spelling of a URL in policy/tests/url-vectors.tsv goes through Tabwarden to a
// real Chromium, all of whose names and ports lead to one listener, which writes down who was asked for.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { ACCEPTED } from './support/policy.mjs';
import { binary, ownEnvironment, repository, router, serve } from './support/serve.mjs';
import { temporaryFolder, until } from './support/util.mjs';

const POLICY = join(repository, 'policy', 'tests', 'url-vectors.toml');
const VECTORS = readFileSync(join(repository, 'policy', 'tests', 'url-vectors.tsv'), 'utf8').split('\n')
  .filter(line => line !== '' && !line.startsWith('#'))
  .map(line => line.split('\t'))
  .map(([verb, url, verdict, rule]) => ({ verb, url: JSON.parse(`"${url}"`), verdict, rule }));

/** One dot at the end of a name says nothing, and an IPv4 address in an IPv6 one is judged as itself. */
function plain(host) {
  const mapped = /^\[::ffff:([0-9a-f]+):([0-9a-f]+)\](.*)$/.exec(host);
  if (!mapped) return host.replace(/\.(?=$|:)/, '');
  const [high, low] = mapped.slice(1, 3).map(half => parseInt(half, 16));
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}${mapped[3]}`;
}

/** The name in a TLS ClientHello's `server_name`: none for addresses. */
function serverName(hello) {
  const read16 = at => hello.readUInt16BE(at);
  let at = 9 + 2 + 32; // record and handshake headers, version, random
  at += 1 + hello[at]; // session id
  at += 2 + read16(at); // cipher suites
  at += 1 + hello[at]; // compression
  const end = at + 2 + read16(at);
  for (at += 2; at + 4 <= end; at += 4 + read16(at + 2)) {
    if (read16(at) === 0) return hello.toString('latin1', at + 9, at + 9 + read16(at + 7));
  }
  return '';
}

/** Says 204 to whatever speaks HTTP, so that the page stays, and hangs up on TLS once it has said its name. */
async function listen() {
  const asked = [];
  const note = entry => { if (!/(^|\.)(google|googleapis|gstatic)\.com$/.test(entry.host)) asked.push(entry); }; // The browser's own.
  const server = net.createServer(socket => {
    let seen = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('data', chunk => {
      seen = Buffer.concat([seen, chunk]);
      if (seen[0] === 0x16) {
        if (seen.length < 5 || seen.length < 5 + seen.readUInt16BE(3)) return;
        note({ scheme: 'https', host: serverName(seen) });
        socket.end(Buffer.from('15030300020228', 'hex')); // An alert: no handshake. (It would try again after less.)
      } else if (seen.includes('\r\n\r\n')) {
        const [, path, host] = /^\S+ (\S+) [^]*?\r\nhost: *(\S*)\r\n/i.exec(seen.toString('latin1')) ?? [];
        note({ scheme: 'http', host, path });
        socket.end('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n');
      }
    });
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  return { asked, port: server.address().port, close: () => server.close() };
}

describe('spellings of URLs', router, () => {
  let listener, server;
  before(async () => {
    listener = await listen();
    const served = join(temporaryFolder('tabwarden-vectors-'), 'url-vectors.toml');
    writeFileSync(served, `${readFileSync(POLICY, 'utf8')}\n${ACCEPTED}`);
    server = await serve({
      tasks: [`spelled,policy=${served}`],
      // The later of two rules for hosts holds. Without the last flag a page without an address may not ask for a near one.
      browserArgs: [`--host-resolver-rules=MAP * 127.0.0.1:${listener.port}`, '--disable-features=LocalNetworkAccessChecks,HttpsUpgrades'],
    });
  });
  after(async () => {
    await server?.stop();
    listener?.close();
  });

  /** How the policy reads the URL. */
  async function judged({ verb, url }) {
    const folder = temporaryFolder('tabwarden-explain-');
    const { stdout } = await promisify(execFile)(binary(), ['policy', 'explain', verb, '--policy', POLICY, '--json', '--', url], { env: ownEnvironment(folder) });
    return JSON.parse(stdout);
  }

  for (const verb of ['navigate', 'subresource']) {
    test(`${verb}: a denied one asks for nothing, an allowed one for the host and path that were judged`, async t => {
      const raw = await server.connect('spelled');
      const page = await raw.newPage();
      t.after(async () => {
        await raw.send('Target.closeTarget', { targetId: page.targetId });
        await raw.close();
      });
      await raw.send('Runtime.enable', {}, page.sessionId);
      const load = {
        navigate: url => raw.send('Page.navigate', { url }, page.sessionId).catch(error => error),
        subresource: url => raw.send('Runtime.evaluate', { expression: `fetch(${JSON.stringify(url)}, { mode: 'no-cors' }).then(() => 'loaded', error => error.message)`, awaitPromise: true, returnByValue: true }, page.sessionId),
      }[verb];
      // A NUL cannot be an argument of a program's.
      const vectors = VECTORS.filter(vector => vector.verb === verb && !vector.url.includes('\0'));
      assert.ok(vectors.length >= 40);
      let compared = 0;
      for (const vector of vectors) {
        const explained = await judged(vector);
        assert.equal(explained.verdict, vector.verdict, vector.url);
        const from = listener.asked.length;
        await load(vector.url);
        if (vector.verdict !== 'allow' || /^\s*blob:/i.test(vector.url) || !/^https?:/.test(explained.url)) {
          assert.deepEqual(listener.asked.slice(from), [], vector.url);
          continue;
        }
        const { protocol, host, hostname, pathname, search } = new URL(explained.url);
        await until(() => listener.asked.length > from, `${vector.url} being asked for`);
        const isName = /[a-z]\.?$/i.test(hostname);
        const wanted = protocol === 'http:' ? { scheme: 'http', host, path: pathname + search } : { scheme: 'https', host: isName ? hostname : '' };
        for (const asked of listener.asked.slice(from)) assert.deepEqual({ ...asked, host: plain(asked.host) }, { ...wanted, host: plain(wanted.host) }, vector.url);
        // The page of an error loads itself anew after a while.
        if (verb === 'navigate') await raw.send('Page.navigate', { url: 'about:blank' }, page.sessionId);
        compared++;
      }
      t.diagnostic(`${vectors.length} spellings, ${compared} of them compared at the listener`);
      assert.ok(compared >= 10);
    });
  }
});
