// An unmodified Playwright script: it is given the URL of "a browser", and the address of some sites.
import { chromium } from 'playwright-core';

const [url, sites, meetingPoint] = process.argv.slice(2);
const at = (host, path) => sites.replace('HOST', host) + path;

const browser = await chromium.connectOverCDP(url);
const context = browser.contexts()[0];
const page = context.pages()[0];

// A page with a frame from another site, and a popup out of the page.
await page.goto(at('a.test', `/with-frame?src=${encodeURIComponent(at('b.test', '/plain?title=A+frame+from+b.test'))}`));
const inFrame = await page.frameLocator('#f').locator('#title').textContent();
const opener = await context.newPage();
await opener.goto(at('c.test', `/popups?to=${encodeURIComponent(at('d.test', '/plain?title=Popup+of+one'))}`));
const [popup] = await Promise.all([opener.waitForEvent('popup'), opener.click('#noopener')]);
await popup.waitForLoadState();
await popup.click('#b');

// All three scripts are here now, each with its pages open.
await fetch(meetingPoint);

for (const seen of context.pages()) {
  console.log(`sees ${seen.url()}  "${await seen.title()}"`);
  for (const frame of seen.frames().slice(1)) console.log(`     frame ${frame.url()}`);
}
console.log(`read in the cross-site frame: "${inFrame}"; pressed a button in the popup: "${await popup.textContent('#o')}"`);
const png = await page.screenshot();
console.log(`took a screenshot (${png.length > 0 ? 'PNG' : 'empty'}) and closes its browser`);
await browser.close();
