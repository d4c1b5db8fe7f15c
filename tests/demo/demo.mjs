// The whole of Tabwarden in half a minute: one launched Chromium, a person's tab in it, three tasks, and three unmodified
// scripts at the same time, each of which sees its own pages and nothing else.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, readlinkSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = join(here, '../..');

const started = Date.now();
const head = text => console.log(`\n── ${text}`);
const say = text => console.log(`   ${text}`);
let failures = 0;
function check(ok, text) {
  console.log(`   ${ok ? '✓' : '✗'} ${text}`);
  if (!ok) failures++;
}

// What is missing is installed; what this user may not install is named in one line, with exit code 2.
try {
  execFileSync(join(here, '../browser/setup.sh'), ['chromium'], { stdio: ['ignore', 'inherit', 'inherit'] });
  if (!process.env.TABWARDEN_BIN) execFileSync('cargo', ['build', '--quiet', '--bin', 'tabwarden'], { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
} catch (error) {
  if (error.code === 'ENOENT') console.error('demo: cargo is missing: install Rust (https://rustup.rs) and try again');
  process.exit(error.status === 2 || error.code === 'ENOENT' ? 2 : 1);
}
if (!existsSync(join(here, 'node_modules'))) symlinkSync('../browser/node_modules', join(here, 'node_modules'), 'dir');

// Only now: these need what was just installed.
const { CdpError, Raw } = await import('../browser/support/raw.mjs');
const { serve } = await import('../browser/support/serve.mjs');
const { Site } = await import('../browser/support/site.mjs');
const { ended, ownProcess, within } = await import('../browser/support/util.mjs');

const site = await Site.start();
head('Starting `tabwarden serve --launch` with two tasks, and the person\'s tab as the browser\'s start page');
const server = await serve({ site, record: true, tasks: ['one', 'two'], browserArgs: [site.url('person', '/person', { id: 'demo' })] });
say(`tabwarden serves at ${server.url}; tasks: ${Object.keys(server.tasks).join(', ')}`);
await site.arrived('demo');
const person = () => site.ask('demo', '({ title: document.title, url: location.href, visible: document.visibilityState, disturbed: window.__log })');
const before = await person();
say(`the person's tab: ${before.url}  "${before.title}"`);

head('Does the browser listen on any port?');
{
  const listening = new Map();
  for (const file of ['tcp', 'tcp6']) {
    for (const line of readFileSync(`/proc/net/${file}`, 'utf8').split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/);
      if (fields[3] === '0A') listening.set(fields[9], parseInt(fields[1].split(':')[1], 16));
    }
  }
  const parents = new Map(readdirSync('/proc').filter(name => /^\d+$/.test(name)).flatMap(pid => {
    try { return [[+pid, +/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))[1]]]; } catch { return []; }
  }));
  const family = [server.pid];
  for (const pid of family) for (const [child, parent] of parents) if (parent === pid) family.push(child);
  const ports = pid => {
    try {
      return readdirSync(`/proc/${pid}/fd`).flatMap(fd => {
        const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1];
        return listening.has(inode) ? [listening.get(inode)] : [];
      });
    } catch { return []; }
  };
  const browser = family.slice(1);
  check(browser.length > 1 && browser.every(pid => ports(pid).length === 0), `none of the ${browser.length} processes of Chromium listens (it is driven over a pipe)`);
  check(ports(server.pid).join() === String(new URL(server.url).port), `tabwarden listens on 127.0.0.1:${ports(server.pid).join(', ')} and nothing else`);
}

head('A third task, made through the API');
const made = await server.newTask('three', { labels: { made: 'by the demo' } });
say(`POST /api/v1/tasks → ${made.name}, ${made.context}, ${made.state}`);

head('Three unmodified scripts at the same time');
const scripts = { one: 'playwright-one.mjs', two: 'playwright-two.mjs', three: 'puppeteer.mjs' };
const meeting = `http://127.0.0.1:${site.port}/slow?name=meeting`;
const said = {};
const runs = Object.entries(scripts).map(async ([task, script]) => {
  said[task] = [];
  const child = ownProcess(spawn(process.execPath, [join(here, script), server.tasks[task].http_url, `http://HOST:${site.port}`, meeting], { detached: true, stdio: ['ignore', 'pipe', 'pipe'] }));
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on('line', line => said[task].push(line));
  return { task, code: (await ended(child)).code };
});
const arrivals = new Promise(resolve => {
  const look = setInterval(() => { if (site.seen(r => r.path === '/slow').length === 3) { clearInterval(look); resolve('met'); } }, 20);
  look.unref();
});
const met = await within(Promise.race([arrivals, Promise.race(runs)]), 'the scripts meeting', 45_000).catch(error => error);
const pages = {};
if (met === 'met') {
  for (const task of Object.keys(scripts)) pages[task] = (await server.task(task)).pages;
} else {
  check(false, `all three scripts have their pages open (${met.message ?? `${met.task} ended early`})`);
}
site.release('meeting');
for (const { task, code } of await within(Promise.all(runs), 'the scripts ending', 30_000)) {
  console.log(`\n   ${scripts[task]} in task ${task}:`);
  for (const line of said[task]) console.log(`      ${line}`);
  check(code === 0, `ended with ${code}`);
  const others = Object.keys(pages).filter(other => other !== task).flatMap(other => pages[other].map(page => page.url)).filter(url => url !== 'about:blank');
  const text = said[task].join('\n');
  check((pages[task] ?? []).length > 0 && (pages[task] ?? []).every(page => text.includes(page.url)), `saw all ${(pages[task] ?? []).length} pages of its task`);
  check(!others.some(url => text.includes(url) && !(pages[task] ?? []).some(page => page.url === url)) && !text.includes('person.test'), 'and none of the others\' or the person\'s');
}

head('A client of task one tries what is not its own');
// A page for each task to be tried at, and the person's id, which only the recording of the browser's connection shows.
const clients = Object.fromEntries(await Promise.all(Object.keys(scripts).map(async task => [task, await server.connect(task)])));
const page = {};
for (const task of Object.keys(scripts)) page[task] = await clients[task].newPage(site.url('a', '/plain', { title: `a page of ${task}` }));
const personId = server.recording().filter(line => line.dir === 'from').map(line => JSON.parse(line.frame).params?.targetInfo)
  .find(info => info?.type === 'page' && /\/person\?/.test(info.url))?.targetId;
check(Boolean(personId), 'the person\'s tab is known to this demo, out of band');

const raw = clients.one;
const { targetInfos } = await raw.send('Target.getTargets');
check(targetInfos.every(info => info.targetId !== personId && !['two', 'three'].some(task => page[task].targetId === info.targetId)), `Target.getTargets lists ${targetInfos.filter(info => info.type === 'page').length} pages, all its own`);
async function refused(label, method, params, wanted, sessionId) {
  const answer = await raw.send(method, params, sessionId).then(result => `succeeded: ${JSON.stringify(result)}`, error => {
    if (!(error instanceof CdpError)) throw error;
    return `${error.code} ${error.text}`;
  });
  check(answer === wanted, `${label.padEnd(44)} ${method.padEnd(24)} → ${answer}`);
}
for (const [whose, targetId] of [['task two\'s page', page.two.targetId], ['task three\'s page', page.three.targetId], ['the person\'s tab', personId]]) {
  await refused(`listing ${whose}`, 'Target.getTargetInfo', { targetId }, '-32000 Unknown targetId');
  await refused(`attaching to ${whose}`, 'Target.attachToTarget', { targetId, flatten: true }, '-32000 Unknown targetId');
  await refused(`closing ${whose}`, 'Target.closeTarget', { targetId }, '-32000 Unknown targetId');
  await refused(`navigating ${whose}`, 'Page.navigate', { frameId: targetId, url: site.url('b') }, '-32000 No frame with given id found', page.one.sessionId);
}
for (const task of ['two', 'three']) {
  check(await clients[task].evaluate('document.title', page[task].sessionId) === `a page of ${task}`, `the page of task ${task} is as it was`);
}
const after = await person();
say(`it has noted since it began: ${after.disturbed.join(', ') || 'nothing'}`);
check(after.url === before.url && after.title === before.title && after.visible === before.visible && after.disturbed.length === 0, `the person's tab is as it was: "${after.title}", ${after.visible}, no loss of focus or visibility`);

for (const client of Object.values(clients)) await client.close();
const code = await server.stop();
check(code === 0, `tabwarden ended with ${code}, and the browser that it had launched with it`);
await site.stop();
console.log(`\n${failures ? `${failures} failed` : 'All as it should be'}, after ${((Date.now() - started) / 1000).toFixed(1)} s`);
process.exit(failures ? 1 : 0);
