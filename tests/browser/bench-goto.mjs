// What the gates cost: `page.goto` of a page with 200 images, in rounds that take turns between
//   direct     Playwright on a bare Chromium
//   guard      the same, with a second connection that pauses every request and answers at once: the least that a gate can be
//   documents  Tabwarden with the built-in policy: documents are looked at
//   requests   Tabwarden with a policy that denies one host: every request is looked at
//   beside     the person's own tab, on no connection of Tabwarden's, in a browser with a task of the built-in policy
//   watched    the same with a task whose policy denies one host: the person's requests are looked at too, and go on at once
// Usage: cargo build --release -p tabwarden && TABWARDEN_BIN=../../target/release/tabwarden node bench-goto.mjs [ROUNDS]
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { startChromium } from './support/chromium.mjs';
import { policyDenying } from './support/policy.mjs';
import { Raw } from './support/raw.mjs';
import { serve } from './support/serve.mjs';
import { Site } from './support/site.mjs';
import { temporaryFolder } from './support/util.mjs';

const ROUNDS = Number(process.argv[2] ?? 20);
const site = await Site.start();
const body = Array.from({ length: 200 }, (_, n) => `<img src="/204?n=${n}">`).join('');
const policy = join(temporaryFolder(), 'denying.toml');
writeFileSync(policy, policyDenying('forbidden.test'));

async function bare({ guard = false } = {}) {
  const browser = await startChromium({ site });
  if (guard) {
    const raw = await Raw.connect(browser.wsUrl);
    raw.onEvent = event => {
      if (event.method === 'Fetch.requestPaused') raw.send('Fetch.continueRequest', { requestId: event.params.requestId }, event.sessionId).catch(() => {});
    };
    await raw.send('Fetch.enable', { patterns: [{ urlPattern: '*' }] });
  }
  return { url: browser.httpUrl, stop: () => browser.close() };
}

async function ours(options = '') {
  const server = await serve({ site, tasks: [`t${options}`] });
  return { url: server.tasks.t.http_url, stop: () => server.stop() };
}

async function beside(options = '') {
  const browser = await startChromium({ site });
  const server = await serve({ site, attach: browser, tasks: [`t,context=shared${options}`] });
  return { url: browser.httpUrl, stop: () => server.stop().then(() => browser.close()) };
}

const subjects = { direct: await bare(), guard: await bare({ guard: true }), documents: await ours(), requests: await ours(`,policy=${policy}`), beside: await beside(), watched: await beside(`,policy=${policy}`) };
const pages = {};
for (const [name, { url }] of Object.entries(subjects)) {
  const browser = await chromium.connectOverCDP(url);
  pages[name] = await browser.contexts()[0].newPage();
}
const times = Object.fromEntries(Object.keys(pages).map(name => [name, []]));
for (let round = -2; round < ROUNDS; round++) {
  for (const name of Object.keys(pages).sort(() => Math.random() - 0.5)) {
    const start = performance.now();
    await pages[name].goto(site.url('a', '/html', { body, round }));
    if (round >= 0) times[name].push(performance.now() - start); // The first two warm up.
  }
}
const at = (list, part) => list.slice().sort((a, b) => a - b)[Math.floor((list.length - 1) * part)];
console.log(`page.goto with 200 images, ${ROUNDS} rounds, load ${loadavg()[0].toFixed(1)}`);
for (const [name, list] of Object.entries(times)) {
  // Of each round against the guard's in the same round: what disturbs the machine disturbs both.
  const paired = at(list.map((time, round) => time / times.guard[round]), 0.5);
  console.log(`${name.padEnd(10)} p10 ${at(list, 0.1).toFixed(0)} ms  p50 ${at(list, 0.5).toFixed(0)} ms  paired with guard ${paired.toFixed(2)}`);
}
await Promise.all(Object.values(subjects).map(subject => subject.stop()));
await site.stop();
process.exit();
