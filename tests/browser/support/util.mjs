// Small things that every file needs: a deadline, a poll for what sends no event, and a temporary folder.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** How long anything may take before the test is called failed. Never a measurement: machines in CI are slow. */
export const DEADLINE_MS = Number(process.env.TEST_DEADLINE_MS ?? 30_000);

/** Rejects with `what` in its message when `promise` has not settled within the deadline. */
export async function within(promise, what, ms = DEADLINE_MS) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${typeof what === 'function' ? what() : what}`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Polls `check` until it returns something truthy, for states that no event announces. Returns that value. */
export async function until(check, what, ms = DEADLINE_MS) {
  const end = Date.now() + ms;
  let last;
  for (;;) {
    try {
      const value = await check();
      if (value) return value;
      last = value;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what} (last: ${last instanceof Error ? last.message : JSON.stringify(last)})`);
    await new Promise(resolve => setTimeout(resolve, 25));
  }
}

const folders = new Set();

/** A new temporary folder, removed when this process ends. */
export function temporaryFolder(prefix = 'tabwarden-test-') {
  const folder = mkdtempSync(join(tmpdir(), prefix));
  folders.add(folder);
  return folder;
}

export function removeFolder(folder) {
  folders.delete(folder);
  // A browser that was just killed may still be writing: try again rather than fail a test over it.
  try { rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }); } catch { /* left for the machine */ }
}

const running = new Set();

/** Remembers a child of ours, whose whole process group ends with this process at the latest. */
export function ownProcess(child) {
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** Ends a child that was started with `detached: true`, with everything that it started. */
export function endGroup(child, signal = 'SIGKILL') {
  if (child.pid === undefined) return;
  try { process.kill(-child.pid, signal); } catch { /* already gone */ }
}

/** Resolves with `{code, signal}` once the child has ended. */
export function ended(child) {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve({ code: child.exitCode, signal: child.signalCode });
  return new Promise(resolve => child.once('exit', (code, signal) => resolve({ code, signal })));
}

process.on('exit', () => {
  for (const child of running) endGroup(child);
  for (const folder of folders) removeFolder(folder);
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
