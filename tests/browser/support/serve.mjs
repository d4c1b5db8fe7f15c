// Starts `tabwarden serve` as a host program would, and stops it by closing its standard input.
// DIRECT=1 starts a bare Chromium in its place: the control that a test of a client's script passes (or fails) for the
// right reason. What needs the router cannot run then, see `router`.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { needsNoSandbox, startChromium, testFlags } from './chromium.mjs';
import { Raw } from './raw.mjs';
import { ended, endGroup, ownProcess, removeFolder, temporaryFolder, within } from './util.mjs';

export const repository = fileURLToPath(new URL('../../..', import.meta.url));
export const DIRECT = process.env.DIRECT === '1';

/** Options of a test, or of a `describe`, that says something about the router and nothing about a bare Chromium. */
export const router = DIRECT ? { skip: 'says something about tabwarden, and DIRECT=1 has none' } : {};

/** The binary under test. */
export function binary() {
  if (process.env.TABWARDEN_BIN) return process.env.TABWARDEN_BIN;
  const path = join(process.env.CARGO_TARGET_DIR ?? join(repository, 'target'), 'debug', 'tabwarden');
  if (!existsSync(path)) throw new Error(`no ${path}: run \`cargo build\` first, or name the binary in TABWARDEN_BIN`);
  return path;
}

/** An environment in which nothing of the caller's own tabwarden is found or changed. */
export function ownEnvironment(folder, extra = {}) {
  const env = { ...process.env, XDG_RUNTIME_DIR: join(folder, 'run'), XDG_DATA_HOME: join(folder, 'data'), XDG_CONFIG_HOME: join(folder, 'config'), XDG_STATE_HOME: join(folder, 'state'), XDG_CACHE_HOME: join(folder, 'cache'), ...extra };
  for (const name of ['TABWARDEN_URL', 'TABWARDEN_ADMIN_TOKEN']) delete env[name];
  return env;
}

/**
 * Options: `tasks`: names, or `name,context=shared,policy=FILE` as on the command line · `attach`: what `startChromium` gave;
 * else a browser is launched · `site`: its origins are made trustworthy · `record`: write a recording of the upstream ·
 * `headed`, `env`, `args` (for serve), `browserArgs` (after `--`) · `run`: arguments in place of all others.
 */
export async function serve({ tasks = ['a'], attach, site, record = false, headed = false, env = {}, args = [], browserArgs = [] } = {}) {
  if (DIRECT) return serveDirect({ tasks, attach, site, headed, env, browserArgs });
  const folder = temporaryFolder('tabwarden-serve-');
  const recordingFile = record ? join(folder, 'upstream.jsonl') : undefined;
  const argv = [
    'serve', '--listen', '127.0.0.1:0', '--json', '--exit-on-stdin-close',
    ...(attach ? ['--browser-url', attach.httpUrl] : ['--launch', '--ephemeral', ...(headed ? [] : ['--headless']), ...(needsNoSandbox ? ['--no-sandbox'] : [])]),
    ...tasks.flatMap(task => ['--task', task]),
    ...(record ? ['--record-upstream', recordingFile] : []),
    ...args,
    ...(attach ? [] : ['--', ...testFlags(site), ...browserArgs]),
  ];
  const child = ownProcess(spawn(binary(), argv, { detached: true, stdio: ['pipe', 'pipe', 'pipe'], env: ownEnvironment(folder, env) }));
  child.stdin.on('error', () => { /* it has ended */ });

  const server = new Server({ child, folder, recordingFile, argv });
  child.stderr.setEncoding('utf8').on('data', text => { server.stderr += text; if (process.env.SHOW_SERVE) process.stderr.write(text); });
  const ready = await within(new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', line => {
      server.stdout.push(line);
      if (server.stdout.length === 1) try { resolve(JSON.parse(line)); } catch (error) { reject(error); }
    });
    child.once('error', reject);
    child.once('exit', (code, signal) => reject(new Error(`tabwarden ended with ${code ?? signal} before it was ready:\n${server.stderr}`)));
  }), () => `tabwarden being ready; it said:\n${server.stderr}`).catch(async error => { await server.stop({ rude: true }); throw error; });
  server.ready = ready;
  server.url = ready.http_url;
  for (const task of ready.tasks) server.tasks[task.name] = task;
  return server;
}

class Server {
  stdout = [];
  stderr = '';
  tasks = {};

  constructor(parts) { Object.assign(this, parts); this.pid = parts.child.pid; }

  /** What the runtime file of this server holds: `{ pid, url, admin_token }`. */
  get runtimeFile() {
    const folder = join(this.folder, 'run', 'tabwarden');
    const [name] = readdirSync(folder).filter(file => file.endsWith('.json'));
    return { path: join(folder, name), name, ...JSON.parse(readFileSync(join(folder, name), 'utf8')) };
  }

  get adminToken() { return this.runtimeFile.admin_token; }

  /** One request to the API: `{ status, body }`. */
  async api(method, path, body, { token = this.adminToken, headers = {} } = {}) {
    const response = await fetch(new URL(`/api/v1${path}`, this.url), {
      method,
      headers: { ...(token ? { authorization: `Bearer ${token}` } : {}), ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    let parsed = text;
    try { parsed = text === '' ? undefined : JSON.parse(text); } catch { /* text it is */ }
    return { status: response.status, body: parsed, headers: response.headers };
  }

  /** Makes a task by the API and gives what the API said of it. */
  async newTask(name, options = {}) {
    const { status, body } = await this.api('POST', '/tasks', { name, ...options });
    if (status !== 201) throw new Error(`POST /tasks: ${status} ${JSON.stringify(body)}`);
    return this.tasks[name] = body;
  }

  /** What the API shows of a task. */
  async task(name) {
    const { status, body } = await this.api('GET', `/tasks/${name}`);
    if (status !== 200) throw new Error(`GET /tasks/${name}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  async pageIds(name) { return (await this.task(name)).pages.map(page => page.target_id); }

  /** A raw CDP connection to a task. */
  connect(name) { return Raw.connect(this.tasks[name].ws_url); }

  /** What was said to and by the browser so far: `{ dir, client, task, frame }` a line. */
  recording() {
    return readFileSync(this.recordingFile, 'utf8').split('\n').filter(Boolean).map(line => JSON.parse(line));
  }

  alive() { return this.child.exitCode === null && this.child.signalCode === null; }

  /** Ends it with no warning, as the kernel would; what it started is left alone. */
  async kill() {
    this.child.kill('SIGKILL');
    await ended(this.child);
  }

  /** Closes standard input and waits for the end. Gives the exit code. */
  async stop({ rude = false } = {}) {
    if (rude) endGroup(this.child);
    else this.child.stdin.end();
    let result;
    try {
      result = await within(ended(this.child), () => `tabwarden ending after its standard input closed; it said:\n${this.stderr.slice(-3000)}`);
    } finally {
      endGroup(this.child);
      removeFolder(this.folder);
    }
    return result.code;
  }
}

async function serveDirect({ tasks, attach, site, headed, env, browserArgs }) {
  const browsers = [];
  const server = {
    direct: true,
    tasks: {},
    stderr: '',
    // Each task a browser of its own, for there is nothing else that would keep them apart; with the flag that a launched
    // browser gets from tabwarden, for Playwright's goBack() over sites times out without it.
    async newTask(name) {
      const browser = attach ?? await startChromium({ site, headed, env, args: ['--disable-back-forward-cache', ...browserArgs] });
      if (!attach) browsers.push(browser);
      return this.tasks[name] = { name, http_url: browser.httpUrl, ws_url: browser.wsUrl };
    },
    connect(name) { return Raw.connect(this.tasks[name].ws_url); },
    alive: () => browsers.every(browser => browser.alive()),
    async stop() { await Promise.all(browsers.map(browser => browser.close())); },
  };
  for (const task of tasks) await server.newTask(task.split(',')[0]);
  return server;
}
