// Another unmodified Playwright script: contexts of its own, a request that it answers itself, cookies, a download.
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const [url, sites, meetingPoint] = process.argv.slice(2);
const at = (host, path) => sites.replace('HOST', host) + path;

const browser = await chromium.connectOverCDP(url);
const context = await browser.newContext();
await context.addInitScript(() => { window.__init = 'of two'; });
await context.route('**/api/value', route => route.fulfill({ json: { value: 'answered by the script' } }));
await context.addCookies([{ name: 'login', value: 'two', url: at('a.test', '') }]);
const page = await context.newPage();
await page.goto(at('a.test', '/whoami'));
const value = await page.evaluate(() => fetch('/api/value').then(r => r.json()).then(v => v.value));

// A popup that a cross-site frame opens.
const opener = await context.newPage();
const inFrame = at('b.test', `/popups?to=${encodeURIComponent(at('d.test', '/plain?title=Popup+of+two'))}`);
await opener.goto(at('a.test', `/with-frame?src=${encodeURIComponent(inFrame)}`));
const [popup] = await Promise.all([opener.waitForEvent('popup'), opener.frameLocator('#f').locator('#blank').click()]);
await popup.waitForLoadState();

const links = await context.newPage();
await links.goto(at('c.test', '/links'));
const [download] = await Promise.all([links.waitForEvent('download'), links.click('#download')]);
const downloaded = readFileSync(await download.path(), 'utf8');

await fetch(meetingPoint);

for (const each of browser.contexts()) {
  for (const seen of each.pages()) {
    console.log(`sees ${seen.url()}  "${await seen.title()}"${each === context ? '' : '  (default context)'}`);
    for (const frame of seen.frames().slice(1)) console.log(`     frame ${frame.url()}`);
  }
}
console.log(`logged in as "${await page.textContent('#who')}"; its route said "${value}"; its init script ran first in the popup: "${await popup.evaluate(() => window.__sawInit)}"; downloaded "${downloaded}"`);
await context.close();
await browser.close();
