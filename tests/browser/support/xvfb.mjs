// A display of the test's own, on a free number.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { ended, endGroup, ownProcess, within } from './util.mjs';

/** `{ display: ':N', close() }`. Rejects, with the line that installs it, where there is no Xvfb. */
export async function startDisplay() {
  const child = ownProcess(spawn('Xvfb', ['-displayfd', '3', '-screen', '0', '1600x1200x24', '-nolisten', 'tcp'], { detached: true, stdio: ['ignore', 'ignore', 'ignore', 'pipe'] }));
  const number = await within(new Promise((resolve, reject) => {
    child.once('error', error => reject(error.code === 'ENOENT' ? new Error('Xvfb is missing, and the headed tests need it: apt-get install -y xvfb') : error));
    child.once('exit', code => reject(new Error(`Xvfb ended with ${code}`)));
    createInterface({ input: child.stdio[3] }).once('line', resolve);
  }), 'Xvfb being ready');
  return {
    display: `:${number.trim()}`,
    async close() { endGroup(child, 'SIGTERM'); await ended(child); },
  };
}
