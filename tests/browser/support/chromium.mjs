// A real Chromium that the test itself starts: the browser of "attached" tests, and of DIRECT=1 runs.
import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { ended, endGroup, ownProcess, removeFolder, temporaryFolder, within } from './util.mjs';

const NAMES = ['google-chrome-stable', 'google-chrome', 'chromium', 'chromium-browser'];
const PLACES = [
  '/opt/google/chrome/chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

function runs(file) {
  try { accessSync(file, constants.X_OK); return true; } catch { return false; }
}

/** The path of an installed Chrome or Chromium, or undefined. */
export function findChromium() {
  if (process.env.TABWARDEN_BROWSER) return process.env.TABWARDEN_BROWSER;
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    for (const name of NAMES) if (folder && runs(join(folder, name))) return join(folder, name);
  }
  return PLACES.find(runs);
}

/** Chromium's sandbox refuses to run as root: only there is it switched off. */
export const needsNoSandbox = process.getuid?.() === 0;

/**
 * Flags of every browser in these tests. All names lead to this machine, so that no test can reach another one, and each
 * site is a process of its own, so that a cross-site frame is an OOPIF on any machine.
 */
export function testFlags(site) {
  return [
    '--host-resolver-rules=MAP * 127.0.0.1',
    '--site-per-process',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--no-first-run',
    '--no-default-browser-check',
    '--password-store=basic',
    '--use-mock-keychain',
    // Service workers need a trustworthy origin, and the site speaks http.
    ...(site ? [`--unsafely-treat-insecure-origin-as-secure=${site.secureOrigins().join(',')}`] : []),
  ];
}

/**
 * Starts Chromium with a debugging port of its own choosing and waits until it listens.
 * Returns `{ pid, wsUrl, httpUrl, profile, close() }`.
 */
export async function startChromium({ site, headed = false, env = {}, args = [], url = 'about:blank' } = {}) {
  const path = findChromium();
  if (!path) throw new Error('no Chrome or Chromium found: install one (Debian: apt-get install chromium) or name it in TABWARDEN_BROWSER');
  const profile = temporaryFolder('tabwarden-profile-');
  const child = ownProcess(spawn(path, [
    '--remote-debugging-port=0',
    `--user-data-dir=${profile}`,
    ...(headed ? [] : ['--headless=new']),
    ...(needsNoSandbox ? ['--no-sandbox'] : []),
    ...testFlags(site),
    ...args,
    url,
  ], { detached: true, stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...env } }));

  let stderr = '';
  const lines = createInterface({ input: child.stderr });
  const wsUrl = await within(new Promise((resolve, reject) => {
    lines.on('line', line => {
      if (stderr.length < 100_000) stderr += line + '\n';
      const match = /DevTools listening on (ws:\S+)/.exec(line);
      if (match) resolve(match[1]);
    });
    child.once('error', reject);
    child.once('exit', code => reject(new Error(`Chromium ended with ${code} before it listened:\n${stderr}`)));
  }), () => `Chromium listening; it said:\n${stderr}`);

  const { host } = new URL(wsUrl);
  return {
    pid: child.pid,
    wsUrl,
    httpUrl: `http://${host}`,
    profile,
    ended: () => ended(child),
    alive: () => child.exitCode === null && child.signalCode === null,
    async close() {
      endGroup(child);
      await ended(child);
      removeFolder(profile);
    },
  };
}
